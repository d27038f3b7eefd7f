"""Predictions as they are made: one line each, kept when a run is killed.

The first line says what makes them (the model, the way of decoding, the examples). A journal that
says something else is begun again. A line that was half-written is made again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from train.disk.files import append, write_whole, writing


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What was written for one example. tokens: their number. ended: "stop" or "length"."""

    id: str
    text: str
    tokens: int
    ended: str


class Journal:
    """The predictions of one request so far, by id; `add` writes more of them to the disk."""

    def __init__(self, path: Path, *, request: Mapping[str, Any]) -> None:
        self.path = path
        self.made: dict[str, Prediction] = {}
        told = json.dumps(dict(request), sort_keys=True)
        lines = _lines(path)
        if not lines or lines[0] != told:
            lines = [told]
        for line in lines[1:]:
            one = Prediction(**json.loads(line))
            self.made[one.id] = one
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        # Whole again: behind half a line nothing could be added.
        write_whole(path, "".join(f"{line}\n" for line in lines))

    def add(self, predictions: Sequence[Prediction]) -> None:
        """Write predictions, so that they are there whatever happens next."""
        text = "".join(json.dumps(asdict(one), ensure_ascii=True) + "\n" for one in predictions)
        append(self.path, text)
        self.made.update({one.id: one for one in predictions})


def _lines(path: Path) -> list[str]:
    """The whole lines of a journal, up to the first that is none of ours."""
    if not path.is_file():
        return []
    whole = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n")):
        try:
            found = json.loads(line)
            if number:
                Prediction(**found)
        except (ValueError, TypeError):
            break
        whole.append(line)
    return whole
