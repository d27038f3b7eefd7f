"""A cut text in a terminal: segments in two colours by turns, the level above in two pairs of them.

Dark letters on light grounds are readable on any terminal, light or dark. Without colours a bar
stands between segments, and a double one where the level above ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from segmenters.show.measures import CutText, visible

# Foreground and ground, for [outer % 2][inner % 2]: cyan, yellow; green, magenta.
_STYLES = {
    256: (("38;5;16;48;5;159", "38;5;16;48;5;229"), ("38;5;16;48;5;157", "38;5;16;48;5;225")),
    16: (("30;106", "30;103"), ("30;102", "30;105")),
}
_RESET = "\x1b[0m"
_INNER, _OUTER, _EMPTY_LINE = "\u2502", "\u2551", "\u21b5"


def colours_of(environment: Mapping[str, str], *, is_terminal: bool, wish: str = "auto") -> int:
    """How many colours to use: 256, 16 or none. `wish`: "auto", "always" or "never".

    A terminal has none if NO_COLOR is set to anything (no-color.org) or TERM is "dumb".
    """
    terminal = environment.get("TERM", "")
    if wish == "never" or (
        wish == "auto" and (not is_terminal or environment.get("NO_COLOR") or terminal == "dumb")
    ):
        return 0
    rich = "256" in terminal or environment.get("COLORTERM") in ("truecolor", "24bit")
    return 256 if rich else 16


def coloured(cut: CutText, colours: int) -> Iterator[str]:
    """The text in pieces with the codes of a terminal, a line end behind it."""
    styles = _STYLES[colours]
    last = ""
    for index, (start, end, outer) in enumerate(cut.spans()):
        style = f"\x1b[{styles[outer % 2][index % 2]}m"
        shown = visible(cut.text[start:end])
        lines = shown.split("\n")
        empty = _EMPTY_LINE if shown.isspace() else ""
        # The ground must not run on behind a line end.
        yield "\n".join(
            f"{style}{line or empty}{_RESET}" if line or (empty and row < len(lines) - 1) else ""
            for row, line in enumerate(lines)
        )
        last = shown[-1:]
    if last not in ("", "\n"):
        yield "\n"


def plain(cut: CutText) -> Iterator[str]:
    """The text in pieces with bars between segments, a line end behind it."""
    before, shown = 0, ""
    for index, (start, end, outer) in enumerate(cut.spans()):
        if index:
            yield _OUTER if outer != before else _INNER
        before, shown = outer, visible(cut.text[start:end])
        yield shown
    if shown and not shown.endswith("\n"):
        yield "\n"
