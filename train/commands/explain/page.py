"""The position explorer, for --page: one HTML file in which positions follow what is typed.

Python hands over the parameters that it computes with (frequencies, slopes, tables by distance, as
training would start with them) and texts cut by our segmenters; page.js counts ids and evaluates
the formulas. What is not of one of these forms is named on the page and not drawn: what depends on
hidden states, vectors that are added to embeddings, rotations of other kinds, far methods.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2
import torch

from bipe.bias import Bias, DistanceBias, LinearBias
from bipe.encodings.base import Encoding
from bipe.encodings.rope import RoPE
from bipe.rotation import PartRotation, PlaneRotation
from segmenters import Auto
from segmenters.documents.router import decide
from segmenters.wording import visible
from train.commands.explain.parts import ALL_IDS, Asked, Part
from train.commands.explain.text import SAMPLES
from train.data.reading.named import read
from train.report.palette import COLOURS

DISTANCES = 512  # of a bias by distance
CHARACTERS = 4000  # of a text
_ROLES = ("paper", "ink", "muted", "rule", "grid", "panel", "tint-0", "tint-1", "bar",
          *(f"hue-{hue}" for hue in range(4)))  # fmt: skip


def explorer(
    title: str, parts: Sequence[Part], far: Sequence[str], head_width: int, file: Path | None
) -> str:
    """Return the page. file: a text to begin with, cut as `bipe segment` cuts it."""
    data = {
        "title": title,
        "examples": list(_examples(file)),
        "parts": [described(part, head_width) for part in parts],
        "far": far,
    }
    themes = [";".join(f"--{role}:{COLOURS[role][at]}" for role in _ROLES) for at in (0, 1)]
    # "<" inside a script would end it.
    known = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    page, code = (
        Path(__file__).with_name(name).read_text(encoding="utf-8")
        for name in ("page.html", "page.js")
    )
    template = jinja2.Template(page, keep_trailing_newline=True)
    return template.render(light=themes[0], dark=themes[1], data=known, code=code)


def described(part: Part, head_width: int) -> dict[str, Any]:
    """Return what the page draws of a part, and in `notes` what it does not draw."""
    found: dict[str, Any] = {"path": part.path, "name": part.name, "counts": part.counts,
                             "layers": part.layers}  # fmt: skip
    notes = []
    known = isinstance(part.of, Encoding) and part.ids[0] in ALL_IDS
    found["ids"] = part.ids[0] if known else None
    hooks = part.hooks
    if "embed" in hooks:
        notes.append("it changes embeddings, by vectors that are not drawn")
    if "rotation" in hooks:
        turns = _turning(part, head_width) if known else None
        found |= turns or {}
        notes += [] if turns else [f"its rotation ({hooks['rotation']}) is not drawn"]
    if "bias" in hooks:
        bias = Asked(part.of, time=DISTANCES).bias(1) if known else None
        falls = None if bias is None else _falling(bias)
        found |= falls or {}
        notes += [] if falls else [f"its bias ({hooks['bias']}) is not drawn"]
    return found | {"notes": notes if hooks else ["it changes nothing"]}


def _turning(part: Part, head_width: int) -> dict[str, Any] | None:
    """Return the angle that each pair turns per id; None if it is no such rotation."""
    of = part.of
    if not isinstance(of, RoPE) or of.counts_length:
        return None
    turn = of.rotation(torch.tensor([[0, 1, 1000]]))  # ids near and far, to compare by
    plane = turn.inner if isinstance(turn, PartRotation) else turn
    steps = of.frequencies * of.moves
    factor = float(torch.as_tensor(of.attention_factor))
    ids = torch.tensor([0.0, 1.0, 1000.0], dtype=torch.float64)[:, None]
    if not isinstance(plane, PlaneRotation) or not torch.allclose(
        plane.cos[0].double(), (ids * steps).cos() * factor, atol=1e-6
    ):
        return None
    return {"frequencies": steps.tolist(), "factor": factor, "width": head_width}


def _falling(bias: Bias) -> dict[str, Any] | None:
    """Return a slope for each head, or the bias of each head by distance; None: neither holds."""
    if isinstance(bias, LinearBias):
        return {"slopes": bias.slopes.double().tolist()}
    if isinstance(bias, DistanceBias):
        return {"table": bias.by_distance(torch.float64).tolist()}
    return None


def _examples(file: Path | None) -> Iterator[dict[str, Any]]:
    if file is not None:
        text = read(str(file))
        chosen = Auto(granularity="logical").choose(text=text, name=file.name)
        by = f"{type(chosen).__name__} ({decide(text=text, name=file.name).route})"
        yield _example(visible(file.name), by, text, chosen.cut(text).tolist())
    for name, segmenter, text in SAMPLES:
        yield _example(name, type(segmenter).__name__, text, segmenter.cut(text).tolist())


def _example(name: str, by: str, text: str, cuts: Sequence[int]) -> dict[str, Any]:
    """Return a text and where its segments start, counted as JavaScript does, in UTF-16."""
    short = text[:CHARACTERS]
    starts = [len(short[:cut].encode("utf-16-le")) // 2 for cut in cuts if cut < len(short)]
    left = f"; the first {CHARACTERS:,} characters" if len(text) > len(short) else ""
    return {"name": name, "by": f"{by}{left}", "text": short, "starts": starts}
