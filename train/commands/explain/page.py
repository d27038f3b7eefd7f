"""The files of --svg, --pdf and --page: ids and curves as one figure, and the position explorer.

The explorer is one HTML file in which positions follow what is typed.

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
from matplotlib.axes import Axes

from bipe.bias import DistanceBias, LinearBias
from bipe.encodings.base import Encoding
from bipe.encodings.rope import RoPE
from bipe.rotation import PartRotation, PlaneRotation
from segmenters import Auto
from segmenters.documents.router import decide
from segmenters.wording import visible
from train.commands.explain.curves import Curve
from train.commands.explain.parts import ALL_IDS, Part, ids_read
from train.commands.explain.text import SAMPLES, Cut, samples
from train.data.reading.inputs import read
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
    drawable = isinstance(part.of, Encoding) and part.ids[0] in ALL_IDS
    whole: dict[str, Any] = {"path": part.path, "name": part.name, "counts": part.counts,
                             "layers": part.layers, "ids": part.ids[0] if drawable else None,
                             "notes": []}  # fmt: skip
    for hook, said in part.hooks.items():
        if hook == "embed":
            whole["notes"].append("it changes embeddings, by vectors that are not drawn")
            continue
        numbers = _turning(part, head_width) if hook == "rotation" else _falling(part)
        if drawable and numbers is not None:
            whole |= numbers
        else:
            whole["notes"].append(f"its {hook} ({said}) is not drawn")
    if not part.hooks:
        whole["notes"].append("it changes nothing")
    return whole


def _turning(part: Part, head_width: int) -> dict[str, Any] | None:
    """Return the angle that each pair turns per id; None if it is no such rotation."""
    of = part.of
    if not isinstance(of, RoPE) or of.counts_length:
        return None
    ids = torch.tensor([0, 1, 1000])  # near and far, to compare by
    turn = of.rotation(ids[None])
    plane = turn.inner if isinstance(turn, PartRotation) else turn
    steps, factor = of.frequencies * of.moves, float(torch.as_tensor(of.attention_factor))
    angles = ids.double()[:, None] * steps
    if not isinstance(plane, PlaneRotation) or not torch.allclose(
        plane.cos[0].double(), angles.cos() * factor, atol=1e-6
    ):
        return None
    return {"frequencies": steps.tolist(), "factor": factor, "width": head_width}


def _falling(part: Part) -> dict[str, Any] | None:
    """Return a slope for each head, or the bias of each head by distance; None: neither holds."""
    bias = part.bias(DISTANCES)
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


WIDTH, _TALL = 760, 230  # pixels; the latter of a curve with its title


def picture(title: str, parts: Sequence[Part], curves: Sequence[Curve]) -> Drawing:
    """Draw the ids of short texts and, below, a panel for each curve."""
    names = ids_read(parts)
    cuts, tall = list(samples(names)), 30 * (len(names) + 2)
    heights = [*[tall] * len(cuts), *[_TALL] * len(curves)]
    with our_style():
        drawing = Drawing(name="encoding", title=title, width=WIDTH, height=sum(heights) + 40)
        figure = drawing.figure
        figure.set_layout_engine("constrained")
        figure.suptitle(title, weight="bold")
        column = figure.subplots(len(heights), height_ratios=heights)
        for axes, cut in zip(column, cuts, strict=False):
            _ids(axes, cut, {name for part in parts for name in part.ids})
        for axes, curve in zip(column[len(cuts) :], curves, strict=True):
            looks = ordered_styles(list(curve.heads))
            for name, row in curve.heads.items():
                axes.plot(row, label=name, color=colour(looks[name].role))
            axes.set_title(curve.title, weight="bold", loc="left", fontsize=12)
            axes.set_xlabel(curve.unit)
            axes.grid(axis="y", color=colour("grid"))
            axes.legend()
    return drawing


def _ids(axes: Axes, cut: Cut, read: set[str]) -> None:
    """Draw the ids of a text as a table; those that are read are bold."""
    tints = [colour(f"tint-{segment % 2}") for segment in cut.ids["inter"]]
    table = axes.table([cut.words, *cut.ids.values()], loc="center", cellLoc="center",
                       cellColours=[tints] * (1 + len(cut.ids)),
                       rowLabels=[cut.level, *cut.ids])  # fmt: skip
    table.auto_set_font_size(False)
    table.auto_set_column_width([*range(len(cut.words))])
    table.scale(1, 1.3)
    for line, name in enumerate(cut.ids, 1):
        table[line, -1].set_text_props(weight="bold" if name in read else "normal")
    axes.set_axis_off()
