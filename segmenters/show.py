"""A cut text for the eye: coloured in a terminal, as a page of HTML, and as numbers.

Lengths are given in characters and in words (pieces between white space), since no tokenizer is
known here. A separator is what a segment ends with: its last visible character, or its line end if
that is a letter or digit. Nothing is read or written here.
"""

from __future__ import annotations

import html
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts

if TYPE_CHECKING:
    from rich.text import Text

_PERCENTILES = (5, 25, 50, 75, 95, 99)
# Upper ends of the histogram's classes, in words; the last is open.
_CLASSES = (1, 2, 4, 8, 16, 32, 64, 128)
_COLOURS = ("black on bright_cyan", "black on bright_yellow", "black on bright_green")
# Control characters would steer the terminal of whoever looks at the file.
_VISIBLE = {
    code: 0x2421 if code == 0x7F else 0x2400 + code
    for code in (*range(0x20), 0x7F)
    if chr(code) not in "\n\t"
} | dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000)), 0xFFFD)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.6 system-ui; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ font: 14px/1.6 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere }}
i {{ font-style: normal; border-radius: 3px }}
i:nth-child(3n) {{ background: light-dark(#cfe8ff, #173a5a) }}
i:nth-child(3n+1) {{ background: light-dark(#ffe9b8, #55410f) }}
i:nth-child(3n+2) {{ background: light-dark(#d6f3d0, #1e4a1a) }}
</style></head><body><h1>{title}</h1><p>{summary}</p><pre>{body}</pre></body></html>
"""


def segments_of(text: str, cuts: Cuts) -> list[str]:
    """The segments, which join to the text."""
    return [text[start:end] for start, end in pairwise(cuts.tolist())]


def statistics(segments: list[str]) -> dict[str, Any]:
    """Counts, lengths, histogram and separators of the segments, as JSON-able values."""
    words = np.array([len(segment.split()) for segment in segments], dtype=np.int64)
    characters = np.array([len(segment) for segment in segments], dtype=np.int64)
    total = max(1, len(segments))
    separators = Counter(map(_separator, segments))
    return {
        "segments": len(segments),
        "characters": _lengths(characters),
        "words": _lengths(words),
        "share_of_one_character": round(int((characters == 1).sum()) / total, 4),
        "share_of_one_word": round(int((words <= 1).sum()) / total, 4),
        "histogram_of_words": _histogram(words),
        "separators": {name: round(n / total, 4) for name, n in separators.most_common(12)},
    }


def _lengths(lengths: npt.NDArray[np.int64]) -> dict[str, float]:
    if not len(lengths):
        return {"total": 0}
    percentiles = np.percentile(lengths, _PERCENTILES)
    return {
        "total": int(lengths.sum()),
        "mean": round(float(lengths.mean()), 2),
        **{f"p{p}": round(float(v), 1) for p, v in zip(_PERCENTILES, percentiles, strict=True)},
        "longest": int(lengths.max()),
    }


def _histogram(words: npt.NDArray[np.int64]) -> dict[str, int]:
    """How many segments have so many words: {"0-1": ..., "2": ..., "3-4": ...}."""
    classes = np.searchsorted(_CLASSES, words)
    counts = np.bincount(classes, minlength=len(_CLASSES) + 1).tolist()
    lower = (0, *(end + 1 for end in _CLASSES))
    names = [f"{a}-{b}" if a < b else f"{b}" for a, b in zip(lower, _CLASSES, strict=False)]
    return dict(zip([*names, f"{lower[-1]}+"], counts, strict=True))


def _separator(segment: str) -> str:
    """What a segment ends with, in a name that can be printed."""
    visible = segment.rstrip()
    space = segment[len(visible) :]
    if visible and not visible[-1].isalnum():
        return visible[-1].translate(_VISIBLE)
    lines = space.count("\n") or space.count("\r")
    if lines:
        return "blank line" if lines > 1 or not visible else "line end"
    return "none" if visible else "white space"


def coloured(segments: list[str]) -> Text:
    """The segments in alternating colours, for a terminal by rich."""
    from rich.text import Text

    shown = Text()
    for index, segment in enumerate(segments):
        shown.append(printable(segment), style=_COLOURS[index % len(_COLOURS)])
    return shown


def printable(text: str) -> str:
    """The text with pictures in place of control characters, other than line end and tab."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def page(segments: list[str], *, title: str, summary: str) -> str:
    """A page of HTML that needs no other file; a segment tells its number and length on hover."""
    body = "".join(
        f'<i title="{index}: {len(segment)} characters">{html.escape(printable(segment))}</i>'
        for index, segment in enumerate(segments)
    )
    title, summary = html.escape(printable(title)), html.escape(printable(summary))
    return _PAGE.format(title=title, summary=summary, body=body)
