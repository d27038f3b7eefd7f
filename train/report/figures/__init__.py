"""Figures: matplotlib drawings, as SVG in the page and as PDF and PNG files.

The SVG keeps text as text and has tooltips without scripts. Its colours are CSS variables of the
page, so that one drawing serves both themes. Equal numbers give equal bytes: there is no date, no
random name, and no influence of the user's matplotlib settings.
"""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from segmenters.wording import visible
from train.disk.files import whole
from train.report.palette import COLOURS, Style, colour

with redirect_stderr(io.StringIO()):  # matplotlib warns where it cannot write into the home folder
    import matplotlib.style
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.transforms import Affine2D, Transform

_STYLE: Any = [
    "default",
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "bipe",
        "pdf.fonttype": 42,
        "text.parse_math": False,  # dollar signs in names are no formulas
        "lines.scale_dashes": False,
        "font.size": 12,
    },
]
_DPI = 200  # of the PNG
_PHONE = 400  # pixels; wider drawings can be scrolled on a phone, where text would be too small
_MARKS = {"circle": ("o", 6.4), "square": ("s", 6.0), "diamond": ("D", 5.9), "triangle": ("^", 7.2)}
_ROLES = {light: role for role, (light, _) in COLOURS.items()}
Pixels = tuple[float, float]
_GROUP = re.compile(r'<g id="([^"]*)">')


@contextmanager
def our_style() -> Iterator[None]:
    """Draw with our own settings, whatever the user's are."""
    with matplotlib.style.context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


class Drawing:
    """A figure that is being drawn, in pixels of the page from the top left corner."""

    def __init__(self, *, name: str, title: str, width: float, height: float) -> None:
        self.name, self.title = name, title
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / 72, height / 72), dpi=72, frameon=False)
        scale = Affine2D().scale(1 / width, -1 / height).translate(0, 1)
        self.pixels: Transform = scale + self.figure.transFigure
        self._tips: list[str] = []

    def text(
        self, x: float, y: float, words: str, *, role: str = "ink", tip: str = "", **look: Any
    ) -> None:
        """Write words to the right of (x, y), on their base line, unless `ha` moves them."""
        shown = " ".join(visible(words).split())
        artist = self.figure.text(x, y, shown, color=colour(role), transform=self.pixels, **look)
        self._tip(artist, tip)

    def line(
        self, xs: Sequence[float], ys: Sequence[float], *, role: str, tip: str = "", **look: Any
    ) -> None:
        """Draw a line through points; NaN is a gap."""
        look = {"transform": self.pixels, "linewidth": 1.0, "solid_capstyle": "butt", **look}
        line = Line2D(xs, ys, color=colour(role), clip_on=False, **look)
        self._tip(self.figure.add_artist(line), tip)

    def mark(self, x: float, y: float, style: Style, *, transform: Transform, tip: str) -> None:
        """Draw a data point: hollow for flat encodings, filled for bilevel ones."""
        marker, size = _MARKS[style.shape]
        self.line(
            [x], [y], role=style.role, tip=tip, transform=transform, linestyle="none",
            marker=marker, markersize=size, markeredgewidth=1.5,
            markerfacecolor=colour("paper" if style.dashed else style.role),
        )  # fmt: skip

    def box(self, corner: Pixels, size: Pixels, *, role: str, tip: str = "", **look: Any) -> None:
        """Fill a rectangle; `corner` is its top left one."""
        look = {"facecolor": colour(role), "linewidth": 0, **look}
        box = Rectangle(corner, *size, transform=self.pixels, clip_on=False, **look)
        self._tip(self.figure.add_artist(box), tip)

    def svg(self) -> Markup:
        """Return the drawing as one SVG element for the page."""
        file = io.StringIO()
        with our_style():
            self.figure.savefig(file, format="svg", metadata={"Date": None})
        body = file.getvalue().partition('<g id="figure_1">')[2].rpartition("</svg>")[0]
        # Ids must be unique in the page: groups lose theirs, marks get the drawing's as a prefix.
        body = _GROUP.sub(self._group, "<g>" + body)
        body = re.sub(r'(id="|xlink:href="#|url\(#)', rf"\1{self.name}-", body)
        body = re.sub(r"#[0-9a-f]{6}\b(?=[;\"])", _variable, body.replace("xlink:href", "href"))
        body = re.sub(r" ?font-family: [^;\"]*;?| transform=\"rotate\(-0 [^\"]*\"", "", body)
        body = re.sub(r"\s*\n\s*", " ", body)
        title = escape(visible(self.title))
        look = "chart wide" if self.width > _PHONE else "chart"
        return Markup(
            f'<svg class="{look}" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-label="{title}"><title>{title}</title>{body}</svg>'
        )

    def save(self, path: Path) -> None:
        """Write the drawing in the light theme, as .pdf, .svg or .png according to the suffix."""
        named = {".pdf": "CreationDate", ".svg": "Date"}.get(path.suffix)
        dates: dict[str, Any] = {} if named is None else {named: None}
        file = io.BytesIO()
        with our_style():
            self.figure.savefig(
                file, format=path.suffix[1:], dpi=_DPI, facecolor="white", metadata=dates,
                bbox_inches="tight",
            )  # fmt: skip
        with whole(path) as output:
            output.write(file.getvalue())

    def _tip(self, artist: Artist, words: str) -> None:
        if words:
            artist.set_gid(f"tip-{len(self._tips)}")
            self._tips.append(words)

    def _group(self, match: re.Match[str]) -> str:
        kind, _, number = match[1].partition("-")
        if kind != "tip":
            return "<g>"
        return f"<g><title>{escape(visible(self._tips[int(number)]))}</title>"


def _variable(match: re.Match[str]) -> str:
    return f"var(--{_ROLES[match[0]]})" if match[0] in _ROLES else match[0]
