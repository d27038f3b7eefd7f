"""Drawings of cut texts: in a terminal, and as one page of HTML that needs no other file.

Segments alternate between two colours. In a terminal the level above alternates between two pairs
of them, dark letters on light grounds, readable on light and dark screens; levels above that are
bold, then underlined, every other time. Without colours a bar separates segments, a double bar the
level above, and thicker ones those above that. On the page the level above has a line at its left,
coarser ones a rule above them, and a segment or token under the pointer (or finger) is described
at the foot of the window; two segmenters stand side by side, with cuts of only one of them marked.
Only the beginning of a very long text is drawn, but its numbers are of all of it.
"""

import html
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from segmenters.show.measures import (
    CutText,
    rows_of_lengths,
    rows_of_rulings,
    rows_of_separators,
    statistics,
    summary,
)
from segmenters.wording import counted, visible

# Foreground and ground, for [outer % 2][inner % 2]: cyan, yellow; green, magenta.
_STYLES = {
    256: (("38;5;16;48;5;159", "38;5;16;48;5;229"), ("38;5;16;48;5;157", "38;5;16;48;5;225")),
    16: (("30;106", "30;103"), ("30;102", "30;105")),
}
_INNER, _OUTER, _EMPTY_LINE = "\u2502", "\u2551", "\u21b5"
_DEEPER = "\u2503\u258c\u2588"  # bars of the levels above, the last one of all the others
_WEIGHTS = ("1", "4")  # bold, underlined
# Browsers become slow with more.
DRAWN_CHARACTERS = 2_000_000
DRAWN_TOKENS = 50_000
DRAWN_RULINGS = 5_000


def shown(cut: CutText, colours: int = 0) -> Iterator[str]:
    """Yield the text in pieces with the codes of 256 or 16 colours, or with bars; end the line."""
    before, text = 0, ""
    deeper = cut.deeper
    odd = [False] * len(deeper)
    for index, (start, end, outer) in enumerate(cut.spans()):
        text = visible(cut.text[start:end])
        opens = [start in cuts for cuts in deeper]
        if colours:
            odd = [was != now for was, now in zip(odd, opens, strict=True)]
            weights = [weight for weight, on in zip(_WEIGHTS, odd, strict=False) if on]
            yield _painted(text, ";".join([_STYLES[colours][outer % 2][index % 2], *weights]))
        elif any(opens):
            yield _DEEPER[min(sum(opens), len(_DEEPER)) - 1] + text
        else:
            yield (_OUTER if outer != before else _INNER if index else "") + text
        before = outer
    if text and not text.endswith("\n"):
        yield "\n"


def _painted(text: str, style: str) -> str:
    """Return the text in colours; the ground must not run on after a line end."""
    *lines, last = text.split("\n")
    empty = _EMPTY_LINE if text.isspace() else ""
    painted = [f"\x1b[{style}m{line or empty}\x1b[0m" if line or empty else "" for line in lines]
    return "\n".join([*painted, f"\x1b[{style}m{last}\x1b[0m" if last else ""])


def page(cuts: Sequence[CutText], title: str) -> str:
    """Return a page of HTML with the segments and the numbers of each text."""
    body = "".join(piece for cut in cuts for piece in _document(cut, alone=len(cuts) == 1))
    style = "\n" + Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    heading = "" if len(cuts) == 1 else f"<h1>{_safe(title)}</h1>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_safe(title)}</title><style>{style}</style></head>"
        f"<body><main>{heading}{body}</main></body></html>\n"
    )


def _document(cut: CutText, *, alone: bool) -> Iterator[str]:
    facts = statistics(cut)
    tag = "h1" if alone else "h2"
    yield f"<{tag}>{_safe(cut.name)}</{tag}><p>{_safe(cut.note)}: "
    yield f"{summary(cut)}, {counted(len(cut.text), 'character')}.</p>"
    if facts["segments"]:
        yield _table(rows_of_lengths(facts, cut.units))
        yield _bars(facts[f"histogram_of_{cut.units[0]}"], cut.units[0])
        yield _table(rows_of_separators(facts))
    if cut.beside is None:
        yield f"<pre>{''.join(_segments(cut))}</pre>"
    else:
        yield from _compared(cut, cut.beside)
    if cut.rulings:
        yield "<h3>Places where a segment ends or could have ended</h3>"
        yield _table(rows_of_rulings(cut)[: DRAWN_RULINGS + 1])
    if len(cut.text) > DRAWN_CHARACTERS:
        yield f"<p class=q>First {DRAWN_CHARACTERS:,} of {len(cut.text):,} characters.</p>"


def _compared(one: CutText, other: CutText) -> Iterator[str]:
    """Yield both drawings, and how many of their cuts are the same."""
    cuts, others = (set(cut.cuts[1:-1].tolist()) for cut in (one, other))
    both = len(cuts & others)
    yield f"<p>{counted(both, 'cut')} by both; {len(cuts) - both} only by {_safe(one.note)}; "
    yield f"{len(others) - both} only by {_safe(other.note)}.</p><div class=two>"
    for cut, alone in ((one, cuts - others), (other, others - cuts)):
        yield f"<div><h3>{_safe(cut.note)}</h3><pre>{''.join(_segments(cut, alone))}</pre></div>"
    yield "</div>"


def _segments(cut: CutText, alone: Collection[int] = ()) -> Iterator[str]:
    before = -1
    deeper = cut.deeper
    for index, (start, end, outer) in enumerate(cut.spans(DRAWN_CHARACTERS)):
        if outer != before:
            rank = sum(start in cuts for cuts in deeper)
            kind = f'"u r{min(rank, 2)}"' if rank else "u"
            yield ("</section>" if before >= 0 else "") + f"<section class={kind}>"
            before = outer
        stop = min(end, DRAWN_CHARACTERS)
        about = f"segment {index}, {cut.above[0]} {outer}: {counted(end - start, 'character')}"
        about += f", {counted(len(cut.text[start:end].split()), 'word')}"
        if cut.token_counts is not None:
            about += f", {counted(int(cut.token_counts[index]), 'token')}"
        about = _safe(f"{about}; {cut.reason(index)}")
        marks = "e" * cut.text[start:stop].isspace() + "x" * (start in alone)
        kind = f' class="{" ".join(marks)}"' if marks else ""
        # A block ends its line by itself.
        yield f'<i{kind} title="{about}">{"".join(_tokens(cut, start, stop))}</i>'
    if before >= 0:
        yield "</section>"


def _tokens(cut: CutText, start: int, stop: int) -> Iterator[str]:
    """Yield the text of a segment, its tokens as elements; a letter of several tokens has one."""
    text, done = cut.text, start
    if (tokens := cut.tokens) is not None:
        first, last = (bisect_left(tokens.anchors, place) for place in (start, stop))
        inter = cut.inter(start)
        for number in range(first, min(last, DRAWN_TOKENS)):
            begin, end = tokens.spans[number]
            begin, end = max(begin, done), min(end, stop)
            if begin < end:
                said = f"token {number} {tokens.names[number]!r}, id {tokens.ids[number]}: "
                said += f"inter {inter}, intra {number - first}"
                yield _safe(text[done:begin])
                yield f'<b title="{_safe(said)}">{_safe(text[begin:end])}</b>'
                done = end
    yield _safe(text[done:stop])


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = ["".join(f"<td>{_safe(cell)}</td>" for cell in row) for row in rows]
    lines = [f"<tr>{row}</tr>" for row in (head.replace("td>", "th>"), *body)]
    return f"<div class=t tabindex=0><table>{''.join(lines)}</table></div>"


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
