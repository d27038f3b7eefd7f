"""HTML, kept as it is -> parts: blocks that keep their lines (pre, script, style), and the rest.

In the rest, sentences are cut by the causal rules, which see tags as closing quotes: a tag stays
with its text. What a block-level tag opens (p, li, h1, td, ...) starts a segment, and so does what
follows a closing one; tags without text between them stay together. Nothing is stripped, entities
are not decoded, and broken tags are text. Source: the HTML Living Standard, "The HTML syntax".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from segmenters import sentence_rules
from segmenters.base import Segmenter
from segmenters.mixed.parts import Part

_RAW = re.compile(r"<(pre|script|style|textarea)(?=[\s>/])[^<>]*+>", re.IGNORECASE)
_LANGUAGES = {"script": "javascript", "style": "css"}
# A quote that is not closed before the next tag is no quote.
_TAG = re.compile(
    r"<!--|<(?P<slash>/?)(?P<name>[A-Za-z][\w:-]*+)(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+')*+>"
    r"|<[!?][^<>]*+>|(?P<text>[^<\s]++)|<"
)
_CLOSING_TAGS = re.compile(r"(?:</[^<>]*+>\s*+)*+")
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd"),
        *("details", "dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer"),
        *("form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "legend"),
        *("li", "link", "main", "meta", "nav", "ol", "option", "p", "section", "select", "summary"),
        *("table", "tbody", "td", "tfoot", "th", "thead", "title", "tr", "ul", "article"),
    )
)
_ALONE = frozenset(("br", "hr", "link", "meta"))
# As the rules see a tag: what closes behind a terminator, and opens before a word.
_MASK = "*"


def parts(text: str) -> Iterator[Part]:
    """The parts of a document in HTML, in order."""
    place = 0
    closed: dict[str, bool] = {}  # names whose closing tag is not in the rest of the text
    while opening := _RAW.search(text, place):
        name = opening[1].lower()
        if closed.get(name):
            place = opening.end()
            continue
        closing = re.compile(rf"</{name}\s*+>\s*+", re.IGNORECASE).search(text, opening.end())
        if closing is None:
            closed[name] = True
            place = opening.end()
            continue
        if opening.start():
            yield Part(end=opening.start(), kind="tagged")
        yield Part(end=closing.end(), kind="code", language=_LANGUAGES.get(name))
        place = closing.end()
    if place < len(text) or closed:
        yield Part(end=len(text), kind="tagged")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tagged(Segmenter):
    """Sentences of text between tags; a tag stays with its text."""

    @property
    def lookahead(self) -> int | None:
        return None

    def versions(self) -> dict[str, str]:
        return {"tables": sentence_rules.tables()}

    def _ends(self, text: str) -> Iterable[int]:
        shadow: list[str] = []
        ends: list[int] = []
        place = copied = 0
        has_text = closed = False
        while match := _TAG.search(text, place):
            start, place = match.span()
            if match.group() == "<!--":
                end = text.find("-->", place)
                place = len(text) if end < 0 else end + 3
            name = (match["name"] or "").lower()
            is_block = name in _BLOCKS
            is_text = match["text"] is not None or match.group() == "<"
            opens = is_block and not match["slash"] and name not in _ALONE
            if has_text and (opens or (closed and (is_text or (name and not match["slash"])))):
                ends.append(start)
                has_text = closed = False
            has_text = has_text or is_text
            closed = closed or (is_block and not opens)
            if not is_text:
                shadow += [text[copied:start], _MASK * (place - start)]
                copied = place
        shadow.append(text[copied:])
        ends += sentence_rules.sentence_ends("".join(shadow))
        return [_after_closing_tags(text, end) for end in ends]


def _after_closing_tags(text: str, place: int) -> int:
    """A closing tag stays with the sentence before it."""
    match = _CLOSING_TAGS.match(text, place)
    assert match is not None
    return match.end()
