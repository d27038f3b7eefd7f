"""Draw the picture of the README: the positions of a sentence, and perplexity against length.

    python docs/picture.py

The ids are what segmenters and bipe make of the text; the numbers of the curves stand in
benchmarks/results/scale_27m_gpu.json.
"""

import io
import json
import re
from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from bipe import Positions
from segmenters import Sentences, anchors_from_offsets, mark

HERE = Path(__file__).parent
PICTURE = HERE / "picture.svg"
RESULTS = HERE.parent / "benchmarks" / "results" / "scale_27m_gpu.json"
TEXT = "Dr. Smith slept. It rained all night! Nobody noticed."
TINTS = ("#d5ebe5", "#f4ead4", "#dfe3f3")
INK, MUTED, GRID = "#1a1f26", "#59636f", "#e6e9ed"
HUES = {"RoPE": "#0067a5", "ALiBi": "#bf4a00"}
# What each colour becomes in dark mode.
DARK = dict(zip(("#ffffff", INK, MUTED, GRID, *TINTS, *HUES.values()),
                ("#14171c", "#e6edf3", "#9aa5b1", "#343b44", "#1f4a40", "#4a3d1c", "#2f3a5c",
                 "#58a6ff", "#f0883e"), strict=True))  # fmt: skip
MODELS = ("RoPE", "BiPE-RoPE", "ALiBi", "BiPE-ALiBi")
PANELS = {"prose": "prose: perplexity", "latex": "LaTeX", "code": "Python"}
ROUND = (4, 6, 10, 16, 25, 40, 60, 100, 160, 250)  # what the axes name
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "bipe", "font.family": "sans-serif",
         "font.size": 11, "text.color": INK}  # fmt: skip


def picture() -> str:
    """Return the picture as SVG."""
    results = json.loads(RESULTS.read_text())
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 4.7))
        _sentence(figure.add_axes((0.0, 0.56, 1.0, 0.42)))
        for place, (source, title) in enumerate(PANELS.items()):
            axes = figure.add_axes((0.06 + 0.33 * place, 0.13, 0.2, 0.33))
            _curves(axes, results["perplexity"][source], title)
        said = "length in tokens; trained at 1k: 27M weights, 56M tokens, one seed"
        figure.text(0.06, 0.015, said, color=MUTED, fontsize=9)
        made = io.StringIO()
        figure.savefig(made, format="svg", facecolor="white", metadata={"Date": None})
    shown = made.getvalue().replace("</style>", f"\n{dark_rules()}</style>", 1)
    return "\n".join(line.rstrip() for line in shown.splitlines()) + "\n"


def dark_rules() -> str:
    """Return the style sheet for dark mode, which overrides the colours of the light one."""
    rules = [f'[style*="{name}: {light}"] {{{name}: {dark} !important}}'
             for light, dark in DARK.items() for name in ("fill", "stroke")]  # fmt: skip
    return "\n".join(["@media (prefers-color-scheme: dark) {", *rules, "}"])


def _sentence(axes: Axes) -> None:
    """Draw words with the three ids of each."""
    words = [match.span() for match in re.finditer(r"\S+", TEXT)]
    marks = mark(anchors_from_offsets(TEXT, words), [Sentences().cut(TEXT)])
    at = Positions.from_marks(torch.from_numpy(marks)[None])
    axes.set(xlim=(0, 96), ylim=(0, 40))
    axes.axis("off")
    rows = {
        30: ("text", "", [TEXT[begin:end] for begin, end in words]),
        21: ("flat", "one position per token", at.token[0].tolist()),
        12: ("inter", "which segment: RoPE or ALiBi", at.inter[0].tolist()),
        3: ("intra", "where in it: a learned table", at.intra[0].tolist()),
    }
    for y, (name, said, values) in rows.items():
        axes.text(1, y + 2, name, weight="bold", va="center")
        axes.text(1, y - 1.4, said, color=MUTED, fontsize=8.5, va="center")
        x = 21.0
        for word, segment, value in zip(words, at.inter[0].tolist(), values, strict=True):
            width = 1.15 * (word[1] - word[0]) + 1.6
            tint = GRID if name == "flat" else TINTS[segment % len(TINTS)]
            axes.add_patch(FancyBboxPatch((x, y - 2), width, 5, facecolor=tint, edgecolor="none",
                                          boxstyle="round,pad=0,rounding_size=0.6"))  # fmt: skip
            axes.text(x + width / 2, y + 0.4, str(value), ha="center", va="center")
            x += width + 0.6


def _curves(axes: Axes, models: dict[str, dict[str, list[float]]], title: str) -> None:
    """Draw perplexity against length, each model with its name at the end of its line."""
    ends: list[tuple[float, str, str]] = []
    for model in MODELS:
        points = {int(length): value for length, (value, *_) in models[model].items()}
        hue = HUES[model.removeprefix("BiPE-")]
        bilevel = model.startswith("BiPE")
        axes.plot(points.keys(), points.values(), color=hue, marker="o", markersize=3.5,
                  linestyle="-" if bilevel else "--",
                  markerfacecolor=hue if bilevel else "white")  # fmt: skip
        ends.append((points[max(points)], model, hue))
    lengths = sorted(points)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ticks = [number for number in ROUND if low <= number <= high]
    axes.set_yticks(ticks, [str(number) for number in ticks])
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [f"{length:,}" if length < 1024 else f"{length // 1024}k"
                              for length in lengths], fontsize=9)  # fmt: skip
    axes.minorticks_off()
    axes.tick_params(colors=MUTED, length=0, labelsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.grid(axis="y", color=GRID)
    axes.set_title(title, loc="left", fontsize=11, weight="bold")
    spot = 0.0
    for value, model, hue in sorted(ends):  # names must not lie on each other
        spot = max(value, spot * (high / low) ** 0.13)
        axes.text(lengths[-1] * 1.25, spot, model, color=hue, fontsize=9, va="center")


if __name__ == "__main__":
    PICTURE.write_text(picture())
