"""Numbers of papers to stand beside ours, from targets.json, each with its provenance.

Provenance: "paper", quoted from the paper of the method or from an article on it; "later", from
another paper that ran the method again; "unread", known to be published and not seen, so that its
place stays blank. What nobody has checked in its source is not in the file.
"""

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROVENANCES = ("paper", "later", "unread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """value: what is stated; below: only that it is less than this; said: what is no number.

    model: None for every model without a target of its own. unit: "share", from 0 to 1, or none.
    data: a source of text, or a benchmark. trained_at, length: tokens. width: of the paper's model.
    """

    measure: str
    source: str
    provenance: str
    model: str | None = None
    unit: str = ""
    data: str = ""
    trained_at: int | None = None
    length: int | None = None
    width: int | None = None
    value: float | None = None
    below: float | None = None
    said: str = ""

    def __post_init__(self) -> None:
        if self.provenance not in PROVENANCES:
            raise ValueError(
                f"targets.json: provenance must be one of {', '.join(PROVENANCES)}, "
                f"was: {self.provenance!r}"
            )
        stated = self.value is not None or self.below is not None or bool(self.said)
        if stated == (self.provenance == "unread"):
            raise ValueError(f"targets.json: unread has no value, all else has one: {self}")


@functools.cache
def experiments() -> dict[str, tuple[Target, ...]]:
    """All targets by experiment, in the order of the file."""
    held = json.loads(Path(__file__).with_name("targets.json").read_text(encoding="utf-8"))
    return {name: tuple(Target(**one) for one in told) for name, told in held.items()}


def targets(experiment: str) -> tuple[Target, ...]:
    """The targets of an experiment."""
    return experiments()[experiment]


def target_of(experiment: str, model: str) -> Target | None:
    """What a paper states of a model by name, or of all that it does not name."""
    own = {target.model: target for target in targets(experiment)}
    return own.get(model, own.get(None))


def published(*, data: str, model: str, trained_at: int) -> dict[int, Target]:
    """Perplexities by length that were published of a model on a source of this name.

    Only where the model was trained at the same length: other numbers say nothing about it. Names
    of sources are compared by their letters and digits: pg19 is PG-19.
    """
    return {
        target.length: target
        for target in targets("perplexity")
        if target.length is not None
        and (target.model, target.trained_at) == (model, trained_at)
        and _plain(target.data) == _plain(data)
    }


def sources_of(held: Sequence[Target]) -> str:
    """The sources of targets with their provenance, each once."""
    return ", ".join(dict.fromkeys(f"{each.source} ({each.provenance})" for each in held))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
