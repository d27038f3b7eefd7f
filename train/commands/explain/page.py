"""The files of --svg, --pdf and --page: ids and curves as one figure, and the position explorer.

The explorer is one HTML file in which positions follow what is typed.

Python hands over the parameters that it computes with (frequencies, slopes, tables by distance, as
training would start with them) and texts cut by our segmenters; page.js counts ids and evaluates
the formulas. What is not of one of these forms is named on the page and not drawn: what depends on
hidden states, vectors that are added to embeddings, rotations of other kinds, far methods.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bipe.bias import Bias, DistanceBias, LinearBias
from bipe.encodings.base import Encoding
from bipe.encodings.rope import RoPE
from bipe.rotation import PartRotation, PlaneRotation
from segmenters import Auto
from segmenters.documents.router import decide
from segmenters.wording import visible
from train.commands.explain.parts import ALL_IDS, Asked, Curve, Part, ids_read
from train.commands.explain.text import SAMPLES, Cut, samples
from train.data.reading.named import read
from train.report.figures import Drawing, our_style
from train.report.palette import COLOURS, colour, ordered_styles

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
    encoded = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    page, code = (
        Path(__file__).with_name(name).read_text(encoding="utf-8")
        for name in ("page.html", "page.js")
    )
    template = jinja2.Template(page, keep_trailing_newline=True)
    return template.render(light=themes[0], dark=themes[1], data=encoded, code=code)


def described(part: Part, head_width: int) -> dict[str, Any]:
    """Return what the page draws of a part, and in `notes` what it does not draw."""
    described_part: dict[str, Any] = {"path": part.path, "name": part.name, "counts": part.counts,
                             "layers": part.layers}  # fmt: skip
    notes = []
    drawable = isinstance(part.of, Encoding) and part.ids[0] in ALL_IDS
    described_part["ids"] = part.ids[0] if drawable else None
    hooks = part.hooks
    if "embed" in hooks:
        notes.append("it changes embeddings, by vectors that are not drawn")
    if "rotation" in hooks:
        turns = _turning(part, head_width) if drawable else None
        described_part |= turns or {}
        notes += [] if turns else [f"its rotation ({hooks['rotation']}) is not drawn"]
    if "bias" in hooks:
        bias = Asked(part.of, time=DISTANCES).bias(1) if drawable else None
        falls = None if bias is None else _falling(bias)
        described_part |= falls or {}
        notes += [] if falls else [f"its bias ({hooks['bias']}) is not drawn"]
    return described_part | {"notes": notes if hooks else ["it changes nothing"]}


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


WIDTH = 760
_LEFT, _RIGHT, _TOP = 70, 110, 40
_ROW, _LETTER, _PAD = 20, 7.2, 10  # pixels: of a line of ids, of a letter, around a word
_PANEL, _HEAD, _FOOT = 230, 44, 46  # a curve, and what is above and below its axes


def picture(title: str, parts: Sequence[Part], curves: Iterable[Curve]) -> Drawing:
    """Draw the ids of short texts and, below, a panel for each curve."""
    names = ids_read(parts)
    drawn, cuts, tall = list(curves), list(samples(names)), (len(names) + 1) * _ROW + 30
    read = {name for part in parts for name in part.ids}
    below = _TOP + tall * len(cuts)
    with our_style():
        drawing = Drawing(name="encoding", title=title, width=WIDTH,
                       height=below + _PANEL * len(drawn))  # fmt: skip
        drawing.text(0, 18, title, weight="bold", fontsize=15)
        for place, cut in enumerate(cuts):
            _ids(drawing, cut, read, top=_TOP + place * tall)
        for place, curve in enumerate(drawn):
            _panel(drawing, curve, top=below + place * _PANEL)
    return drawing


def _ids(made: Drawing, cut: Cut, read: set[str], *, top: float) -> None:
    for line, name in enumerate((cut.level, *cut.ids)):
        role = "ink" if name in read else "muted"
        weight = "bold" if name in read else "normal"
        made.text(0, top + line * _ROW + 15, name, role=role, weight=weight)
    left = float(_LEFT + 20)
    for place, word in enumerate(cut.words):
        width = _LETTER * len(word) + _PAD
        tint = f"tint-{cut.ids['inter'][place] % 2}"
        made.box((left, top), (width - 1, (len(cut.ids) + 1) * _ROW), role=tint)
        cells = (word, *(str(ids[place]) for ids in cut.ids.values()))
        for line, cell in enumerate(cells):
            made.text(left + width / 2, top + line * _ROW + 15, cell, ha="center")
        left += width


def _panel(made: Drawing, curve: Curve, *, top: float) -> None:
    height = made.height
    tall = _PANEL - _HEAD - _FOOT
    axes = made.figure.add_axes(
        (_LEFT / WIDTH, 1 - (top + _HEAD + tall) / height,
         (WIDTH - _LEFT - _RIGHT) / WIDTH, tall / height)
    )  # fmt: skip
    made.text(0, top + 20, curve.title, weight="bold")
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    made.text(middle, top + _HEAD + tall + 36, curve.unit, role="muted", ha="center")
    _look(axes, curve)
    looks = ordered_styles(list(curve.heads))
    for place, (name, row) in enumerate(curve.heads.items()):
        role = looks[name].role
        made.line(range(len(row)), row, role=role, tip=name, linewidth=1.8,
                  transform=axes.transData)  # fmt: skip
        made.text(WIDTH - _RIGHT + 14, top + _HEAD + 14 + 18 * place, name, role=role,
                  weight="bold")  # fmt: skip


def _look(axes: Axes, curve: Curve) -> None:
    low, high = curve.bounds
    pad = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set_xlim(0, max(1, curve.farthest))
    axes.set_ylim(low - pad, high + pad)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.tick_params(labelcolor=colour("ink"), color=colour("rule"), labelsize=11)
    axes.grid(axis="y", color=colour("grid"), linewidth=1)
    axes.set_axisbelow(True)
    axes.patch.set_visible(False)
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.spines["bottom"].set(color=colour("rule"), linewidth=1)
