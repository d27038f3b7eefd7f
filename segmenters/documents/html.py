"""HTML, kept as it is -> parts: blocks that keep their lines (pre, script, style), and the rest.

In the rest, the causal rules cut sentences; they see tags as closing quotes and entities as the
characters that they stand for. A tag stays with its text, and tags without text between them stay
together. Segments start at a block-level tag (p, li, h1, td, ...) and after its end. Code in pre is
read without its tags and entities, in the language that a class names ("language-python"). Nothing
is stripped, and broken tags are text. Source: the HTML Living Standard, "The HTML syntax".
"""

import html
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO

import numpy as np

from segmenters.base import Segmenter
from segmenters.documents.parts import LEVELS, Part, View, spliced
from segmenters.places import SPACE, Walk, past
from segmenters.prose import rules
from segmenters.prose.sentences import SentenceMachine

_RAW = re.compile(
    r"<!--|<(?P<name>pre|script|style|textarea)(?=[\s>/])(?P<attributes>[^<>]*+)>", re.IGNORECASE
)
_LANGUAGES = {"script": "javascript", "style": "css"}
_TYPE = re.compile(r"""\btype\s*=\s*["']?([\w./+-]{1,80})""", re.IGNORECASE)
_CLASS = re.compile(
    r"(?:\b(?:lang|language|highlight(?:-source)?)[-:]|\bbrush:\s?|\bsourceCode )"
    r"([A-Za-z][\w+#]{0,20})"
)
# Tags without text; they stay with what follows.
_TAGS = re.compile(r"(?:\s++|<[^<>]*+>)*+")
_CODE_TAG = re.compile(r"(?:\s|<(?:span|div|code|samp)[^<>]*+>)*+")
_PIECE = re.compile(r"<[^<>]*+>|(?P<entity>&#?\w{1,31};)|[^<&]++|[<&]")
_ENTITY = re.compile(r"&#?\w{1,31};")
# A quote that is not closed before the next tag is no quote, unless it is clearly a value.
_TAG = re.compile(
    r"<!(?:--|\[CDATA\[)|<(?P<slash>/?)(?P<name>[A-Za-z][\w:-]*+)"
    r"(?:=(?:\"[^\"]{0,2000}+\"|'[^']{0,2000}+')(?=[\s/>])|[^<>\"'=]++|\"[^\"<]*+\"|'[^'<]*+'|=)*+>"
    r"|<[!?][^<>]*+>|(?P<text>[^<\s]++)|<"
)
_COMMENTS = {"<!--": "-->", "<![CDATA[": "]]>"}
# A closing tag stays with the sentence before it.
_CLOSING_TAGS = re.compile(r"(?:</[^<>]*+>\s*+)*+")
BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd"),
        *("details", "dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer"),
        *("form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "legend"),
        *("li", "link", "main", "meta", "nav", "ol", "option", "p", "section", "select", "summary"),
        *("table", "tbody", "td", "tfoot", "th", "thead", "title", "tr", "ul", "article"),
    )
)
_ALONE = frozenset(("br", "hr", "link", "meta"))
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_LINE_ENDS = re.compile(r"[\r\n]")  # mere spaces outside of pre
_AT_ONCE = 1 << 16  # characters read for sentences at once
_MASK = "*"  # how the rules see a tag: it closes after a terminator and opens before a word


def parts(text: str) -> Iterator[Part]:
    """Yield the parts of a document in HTML, in order."""
    end = 0
    missing: set[str] = set()  # names whose closing tag is not in the rest of the text
    openings = Walk(_RAW, text)
    for opening in openings:
        name = (opening["name"] or "--").lower()
        if name in missing:
            continue
        pattern = rf"</{name}\s*+>" if opening["name"] else "-->"
        closing = re.compile(pattern, re.IGNORECASE).search(text, opening.end())
        if closing is None:
            missing.add(name)
            continue
        openings.skip(closing.end())
        if opening["name"]:
            if not _TAGS.fullmatch(text, end, opening.start()):
                yield Part(end=opening.start(), kind="tagged")
            end = past(SPACE, text, closing.end())
            openings.skip(end)
            yield from _raw(text, opening, closing.start(), end)
    if end < len(text):
        yield Part(end=len(text), kind="tagged")


def _raw(text: str, opening: re.Match[str], closing: int, end: int) -> Iterator[Part]:
    """Yield the code of an element, and the line of its closing tag."""
    name, start = opening["name"].lower(), opening.end()
    language = _language(text, opening, name)
    ends_line = text[closing - 1] in "\r\n" and closing > start
    if name == "pre":
        view = _shown(text, opening.start(), start, closing)
    else:
        view = spliced(text, [(start, start, closing)])
    yield Part(end=closing if ends_line else end, kind="code", language=language, view=view)
    if ends_line:
        yield Part(end=end, kind="line", paragraph=False)


def _language(text: str, opening: re.Match[str], name: str) -> str | None:
    if name == "script":
        kind = _TYPE.search(opening["attributes"])
        if kind and "json" in kind[1].lower():
            return "json"
        is_code = kind is None or re.search("script|module", kind[1], re.IGNORECASE)
        return _LANGUAGES[name] if is_code else None
    if name != "pre":
        return _LANGUAGES.get(name)
    inner = _CODE_TAG.match(text, opening.end())
    window = opening.group() + (inner.group() if inner else "")
    match = _CLASS.search(window)
    return match[1] if match else None


def _shown(text: str, place: int, start: int, end: int) -> View:
    """Return what a reader sees between two places: no tags, and entities as characters."""
    seen: list[str] = []
    places: list[int] = []
    for piece in _PIECE.finditer(text, start, end):
        shown = piece.group()
        if shown[0] == "<" and len(shown) > 1:
            continue
        if piece["entity"]:
            shown = html.unescape(shown)
            places += [place] * len(shown)
        else:
            places += (place, *range(piece.start() + 1, piece.end()))
        seen.append(shown)
        place = piece.end()
    return View(text="".join(seen), places=np.array(places, dtype=np.int64))


@dataclass(frozen=True, kw_only=True, slots=True)
class Tagged(Segmenter):
    """Sentences of text between tags; a tag stays with its text."""

    lookahead = None
    level_names = LEVELS

    def versions(self) -> dict[str, str]:
        return {"tables": rules.tables()}

    def _ends(self, text: str) -> Iterable[int]:
        return self._levels(text)[0]

    def _levels(self, text: str) -> Sequence[Iterable[int]]:
        shown, sentences = StringIO(), SentenceMachine()
        ends, inner, sections = array("q"), array("q"), array("q")
        copied = 0
        unclosed: set[str] = set()
        has_text = closed = False
        tags = Walk(_TAG, text)
        for match in tags:
            start, place = match.span()
            if closing := _COMMENTS.get(match.group()):
                end = -1 if closing in unclosed else text.find(closing, place)
                if end < 0:
                    unclosed.add(closing)
                place = end + 3 if end >= 0 else place
                tags.skip(place)
            name = (match["name"] or "").lower()
            is_block = name in BLOCKS
            is_text = match["text"] is not None or match.group() == "<"
            opens = is_block and not match["slash"] and name not in _ALONE
            if has_text and (opens or (closed and (is_text or (name and not match["slash"])))):
                ends.append(start)
                has_text = closed = False
            if opens and name in _HEADINGS:
                sections.append(ends[-1] if ends else 0)
            has_text = has_text or is_text
            # What closes before there is text ends nothing.
            closed = has_text and (closed or (is_block and not opens))
            if not is_text:
                shown.write(text[copied:start])
                shown.write(_MASK * (place - start))
                copied = place
                if copied - sentences.size > _AT_ONCE:
                    inner.extend(sentences.push(_plain(shown.getvalue())))
                    shown = StringIO()
        shown.write(text[copied:])
        rest = _plain(shown.getvalue())
        inner.extend(sentences.push(rest) if sentences.size else rules.sentence_ends(rest))
        found, blocks = (
            array("q", (past(_CLOSING_TAGS, text, end) for end in places))
            for places in (inner, ends)
        )
        return found + blocks, blocks, sections


def _plain(shadow: str) -> str:
    """Return text whose tags are masked without entities and line ends, in the same length."""
    return _LINE_ENDS.sub(" ", _ENTITY.sub(_spelled, shadow))


def _spelled(entity: re.Match[str]) -> str:
    """Return the character of an entity, repeated to the length of the entity."""
    character = html.unescape(entity.group())
    return character * len(entity.group()) if len(character) == 1 else entity.group()
