"""A cut text in a terminal: segments in two colours by turns, the level above in two pairs of them.

Dark letters on light grounds are readable on any terminal, light or dark. Without colours a bar is
between segments, and a double one where the level above ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from segmenters.show.measures import CutText, visible

# Foreground and ground, for [outer % 2][inner % 2]: cyan, yellow; green, magenta.
_STYLES = {
    256: (("38;5;16;48;5;159", "38;5;16;48;5;229"), ("38;5;16;48;5;157", "38;5;16;48;5;225")),
    16: (("30;106", "30;103"), ("30;102", "30;105")),
}
_INNER, _OUTER, _EMPTY_LINE = "\u2502", "\u2551", "\u21b5"


def shown(cut: CutText, colours: int = 0) -> Iterator[str]:
    """Yield the text in pieces with the codes of 256 or 16 colours, or with bars; end the line."""
    before, text = 0, ""
    for index, (start, end, outer) in enumerate(cut.spans()):
        text = visible(cut.text[start:end])
        if colours:
            yield _painted(text, _STYLES[colours][outer % 2][index % 2])
        else:
            yield (_OUTER if outer != before else _INNER if index else "") + text
        before = outer
    if text and not text.endswith("\n"):
        yield "\n"


def _painted(text: str, style: str) -> str:
    """Return the text in colours; the ground must not run on behind a line end."""
    *lines, last = text.split("\n")
    empty = _EMPTY_LINE if text.isspace() else ""
    painted = [f"\x1b[{style}m{line or empty}\x1b[0m" if line or empty else "" for line in lines]
    return "\n".join([*painted, f"\x1b[{style}m{last}\x1b[0m" if last else ""])
