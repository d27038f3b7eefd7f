"""Cut texts as one page of HTML that needs no other file, on light and dark screens.

Each segment is drawn in one of two colours by turns, the level above with a line at its left; a
segment tells its number and sizes on hover. Of a very long text only the beginning is drawn, and
the page says so; its numbers are of all of it.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Any

from segmenters.show.measures import CutText, statistics, visible

# Browsers take their time with more.
DRAWN_CHARACTERS = 2_000_000
_WIDTH, _HEIGHT, _BASE = 640, 190, 150
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
svg { max-width: 100%; height: auto } svg text { font: 12px system-ui; fill: currentColor }
.q { color: var(--quiet) }
"""


def page(cuts: Sequence[CutText], *, title: str) -> str:
    """A page of HTML with the segments and the numbers of each text."""
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
    unit = "tokens" if cut.tokens is not None else "words"
    tag = "h1" if alone else "h2"
    yield f"<{tag}>{_safe(cut.name)}</{tag}><p>{_safe(cut.note)}: {facts['segments']} segments "
    yield f"in {facts[cut.level]} {cut.level}, {len(cut.text)} characters.</p>"
    if facts["segments"]:
        yield _lengths(facts, unit)
        yield _picture(facts[f"histogram_of_{unit}"], unit)
        yield _separators(facts)
    yield "<pre>"
    yield from _segments(cut)
    yield "</pre>"
    if len(cut.text) > DRAWN_CHARACTERS:
        yield f"<p class=q>The first {DRAWN_CHARACTERS:,} characters of {len(cut.text):,}.</p>"


def _segments(cut: CutText) -> Iterator[str]:
    sizes = None if cut.tokens is None else cut.tokens.tolist()
    before = -1
    for index, (start, end, outer) in enumerate(cut.spans(DRAWN_CHARACTERS)):
        if outer != before:
            yield ("</section>" if before >= 0 else "") + "<section class=u>"
            before = outer
        segment = cut.text[start : min(end, DRAWN_CHARACTERS)]
        told = f"segment {index}, {cut.level[:-1]} {outer}: {end - start} characters"
        told += f", {len(cut.text[start:end].split())} words"
        told += "" if sizes is None else f", {sizes[index]} tokens"
        empty = " class=e" if segment.isspace() else ""
        # A block ends its line by itself.
        yield f'<i{empty} title="{told}">{html.escape(visible(segment))}</i>'
    if before >= 0:
        yield "</section>"


def _lengths(facts: dict[str, Any], unit: str) -> str:
    units = dict.fromkeys((unit, "words", "characters"))
    names = list(facts["characters"])
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = "".join(
        f"<tr><td>{name} a segment</td>"
        + "".join(f"<td>{facts[name].get(key, 0):g}</td>" for key in names)
        + "</tr>"
        for name in units
    )
    single = ", ".join(
        f"of one {name[:-1]} {facts[f'share_of_one_{name[:-1]}']:.1%}" for name in units
    )
    return f"<table><tr><th></th>{head}</tr>{rows}</table><p>Segments {single}.</p>"


def _separators(facts: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{_safe(name)}</td><td>{share:.1%}</td><td>{percent(facts['rates'][name])}</td></tr>"
        for name, share in facts["separators"].items()
    )
    head = "<tr><th>ends with</th><th>of segments</th><th>of its occurrences</th></tr>"
    return f"<table>{head}{rows}</table>"


def _picture(histogram: dict[str, int], unit: str) -> str:
    """The histogram as bars."""
    most, step = max(1, *histogram.values()), _WIDTH / len(histogram)
    bars = []
    for number, (name, count) in enumerate(histogram.items()):
        height = (_BASE - 20) * count / most
        x = number * step
        middle = f'x="{x + step / 2:.0f}" text-anchor="middle"'
        bars.append(
            f'<rect x="{x + 4:.0f}" y="{_BASE - height:.1f}" width="{step - 8:.0f}" '
            f'height="{height:.1f}" fill="var(--bar)"><title>{name} {unit}: {count}</title></rect>'
            f'<text {middle} y="{_BASE - height - 5:.1f}">{count}</text>'
            f'<text {middle} y="{_BASE + 15}">{name}</text>'
        )
    label = f"segments by their length in {unit}"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" aria-label="{label}">'
        f'{"".join(bars)}<text x="{_WIDTH // 2}" y="{_HEIGHT - 3}" text-anchor="middle">'
        f"{label}</text></svg>"
    )


def percent(share: float | None) -> str:
    """A share for reading; "-" where there is none."""
    return "-" if share is None else f"{share:.1%}"


def _safe(text: str) -> str:
    return html.escape(visible(text))
