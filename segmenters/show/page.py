"""Cut texts as one page of HTML that needs no other file, on light and dark screens.

Each segment is drawn in one of two colours by turns, the level above with a line at its left; a
segment shows its number and sizes on hover. Of a very long text only the beginning is drawn, and
the page says so; its numbers are of all of it.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from segmenters.show.measures import (
    CutText,
    rows_of_lengths,
    rows_of_separators,
    statistics,
    visible,
)

# Browsers take their time with more.
DRAWN_CHARACTERS = 2_000_000
_STYLE = """
:root { color-scheme: light dark; --a: #d8ecff; --b: #fff0c4; --c: #dff5d8; --d: #ffe0ef;
  --line: #8aa; --quiet: #667; --bar: #3b7dd8 }
@media (prefers-color-scheme: dark) { :root { --a: #153450; --b: #4a3a0e; --c: #1b4420;
  --d: #4c1c38; --line: #578; --quiet: #9ab; --bar: #6aa5f0 } }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1, h2 { overflow-wrap: anywhere; line-height: 1.25 }
pre { font: 14px/1.7 ui-monospace, Consolas, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; tab-size: 4 }
section.u { border-left: 3px solid var(--line); padding-left: .7rem; margin: 0 0 .35rem }
i { font-style: normal; border-radius: 3px; background: var(--a);
  -webkit-box-decoration-break: clone; box-decoration-break: clone }
i:nth-child(even) { background: var(--b) }
section.u:nth-child(even) > i { background: var(--c) }
section.u:nth-child(even) > i:nth-child(even) { background: var(--d) }
i:hover { outline: 2px solid var(--bar) }
i.e::before { content: "\\21b5"; color: var(--quiet) }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .1rem .8rem .1rem 0; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere }
hr { height: .8rem; margin: 0; border: 0; background: var(--bar) }
.q { color: var(--quiet) }
"""


def page(cuts: Sequence[CutText], *, title: str) -> str:
    """Return a page of HTML with the segments and the numbers of each text."""
    body = "".join(piece for cut in cuts for piece in _document(cut, alone=len(cuts) == 1))
    heading = "" if len(cuts) == 1 else f"<h1>{_safe(title)}</h1>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_safe(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{heading}{body}</body></html>\n"
    )


def _document(cut: CutText, *, alone: bool) -> Iterator[str]:
    facts = statistics(cut)
    tag = "h1" if alone else "h2"
    yield f"<{tag}>{_safe(cut.name)}</{tag}><p>{_safe(cut.note)}: {facts['segments']} segments "
    yield f"in {facts[cut.level]} {cut.level}, {len(cut.text)} characters.</p>"
    if facts["segments"]:
        yield _table(rows_of_lengths(facts, cut.units))
        yield _bars(facts[f"histogram_of_{cut.units[0]}"], cut.units[0])
        yield _table(rows_of_separators(facts))
    yield "<pre>"
    yield from _segments(cut)
    yield "</pre>"
    if len(cut.text) > DRAWN_CHARACTERS:
        yield f"<p class=q>The first {DRAWN_CHARACTERS:,} characters of {len(cut.text):,}.</p>"


def _segments(cut: CutText) -> Iterator[str]:
    before = -1
    for index, (start, end, outer) in enumerate(cut.spans(DRAWN_CHARACTERS)):
        if outer != before:
            yield ("</section>" if before >= 0 else "") + "<section class=u>"
            before = outer
        segment = cut.text[start : min(end, DRAWN_CHARACTERS)]
        about = f"segment {index}, {cut.level[:-1]} {outer}: {end - start} characters"
        about += f", {len(cut.text[start:end].split())} words"
        about += "" if cut.tokens is None else f", {cut.tokens[index]} tokens"
        empty = " class=e" if segment.isspace() else ""
        # A block ends its line by itself.
        yield f'<i{empty} title="{about}">{_safe(segment)}</i>'
    if before >= 0:
        yield "</section>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = ["".join(f"<td>{_safe(cell)}</td>" for cell in row) for row in rows]
    lines = "".join(f"<tr>{row}</tr>" for row in body)
    return f"<table><tr>{head.replace('td>', 'th>')}</tr>{lines}</table>"


def _bars(histogram: dict[str, int], unit: str) -> str:
    most = max(1, *histogram.values())
    rows = "".join(
        f'<tr><td>{name}</td><td>{count}</td><td style="width: 24rem">'
        f'<hr style="width: {count / most:.1%}"></td></tr>'
        for name, count in histogram.items()
    )
    return f"<table><tr><th>{unit}</th><th>segments</th><th></th></tr>{rows}</table>"


def _safe(text: str) -> str:
    return html.escape(visible(text))
