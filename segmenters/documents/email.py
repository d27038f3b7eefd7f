"""Email, mailboxes and diffs -> parts: headers, paragraphs, quotations, attachments, changes.

A header with its continuation lines is a segment (RFC 5322, section 2.2.3). The body is what its
Content-Type names: HTML, Markdown or reStructuredText (the METADATA of Python packages), else a
letter, in which lines that begin with ">" are read without it as another letter, and lines of
base64 and of patches are segments. In a mailbox each "From " line after a blank line starts a
message. A change begins at the first "diff", "Index:", "---" with "+++", or "***" with "---" line,
after a letter with headers (git format-patch) or prose; from there on each line is a segment.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from segmenters.base import Cuts, Segmenter
from segmenters.documents.parts import LEVELS, Part, spliced
from segmenters.places import BLANK_LINES, Walk, character_ends, past

_HEADER = r"[A-Za-z][A-Za-z0-9-]*+:(?:[ \t][^\n]*+)?(?:\n|\Z)(?:[ \t]+[^\s][^\n]*+(?:\n|\Z))*+"
_ENVELOPE = r"From [^\n]{1,200}\d{4}[^\n]*+\n"
_HEADERS = re.compile(rf"\s*+(?:{_ENVELOPE}(?:>?{_HEADER})++|(?:>?{_HEADER}){{2,}}+)")
_MESSAGE = re.compile(rf"(?<=\n\n){_ENVELOPE}(?={_HEADER})")
_ONE_HEADER = re.compile(rf"\s*+(?:{_ENVELOPE}|>?{_HEADER})")
_TYPE = re.compile(
    r"^(?:Description-)?Content-Type:\s*text/(html|markdown|x-rst)", re.MULTILINE | re.IGNORECASE
)
_BODIES = {"html": "html", "markdown": "markdown", "x-rst": "rst"}
_SPECIAL = re.compile(
    r"^(?:(?P<quote>(?:[ \t]?>[^\n]*+(?:\n|\Z))++)|(?P<data>(?:[A-Za-z0-9+/]{60,76}=*\n){3,}+)"
    r"|(?P<rule>-- ?\n|[-=_]{3,}+[^\n]*+\n)"
    r"|(?P<patch>diff --git [^\n]*+\n(?:(?:[ +@\\-]|diff |index |new |deleted |similarity |rename )"
    r"[^\n]*+(?:\n|\Z)|\n)++))",
    re.MULTILINE,
)
_QUOTED_LINE = re.compile(r"[ \t]?>[ \t]?(?P<content>[^\n]*+(?:\n|\Z))")
_CHANGE = re.compile(
    r"^(?:diff (?:--git |-)|Index: |--- [^\n]*\n\+\+\+ |\*\*\* [^\n]*\n--- |@@ -\d)", re.MULTILINE
)
_BEGINS = re.compile(
    r"^(?:diff (?:--git |-)|Index: |--- [^\n]*\n\+\+\+ |\*\*\* (?!\d+,)[^\n]*\n--- )"
    r"|^(?P<hunk>@@ -|\*{15}|\d+(?:,\d+)?[acd]\d)",
    re.MULTILINE,
)
_KINDS = {"data": "lines", "patch": "lines", "rule": "line"}


def parts(text: str) -> Iterator[Part]:
    """Yield the parts of a message, a mailbox, or a letter without headers, in order."""
    starts = [0, *(match.start() for match in _MESSAGE.finditer(text))]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        if end > start:
            yield from _message(text, start, end)


def _message(text: str, start: int, end: int) -> Iterator[Part]:
    headers = _HEADERS.match(text, start, end)
    place, body = start, "letter"
    if headers:
        for one in Walk(_ONE_HEADER, text, start, headers.end()):
            if one.end() < headers.end():
                first = one.start() == start
                yield Part(end=one.end(), kind="line", paragraph=first, section=first)
        place = past(BLANK_LINES, text, headers.end(), end)
        yield Part(end=place, kind="line", paragraph=False)
        if found := _TYPE.search(headers.group()):
            body = _BODIES[found[1].lower()]
    if place < end and body != "letter":
        yield Part(end=end, kind=body)
    elif place < end:
        yield from letter(text, place, end)


def letter(text: str, place: int = 0, end: int | None = None) -> Iterator[Part]:
    """Yield the parts of a letter: paragraphs, quotations, rules, data and patches."""
    end = len(text) if end is None else end
    for special in _SPECIAL.finditer(text, place, end):
        kind = special.lastgroup or ""
        if special.start() < place:
            continue
        if special.start() > place:
            yield Part(end=special.start(), kind="prose")
        place = past(BLANK_LINES, text, special.end(), end)
        if kind == "quote":
            pieces = [
                (line.start(), *line.span("content"))
                for line in _QUOTED_LINE.finditer(text, special.start(), special.end())
            ]
            yield Part(end=place, kind="letter", view=spliced(text, pieces))
        else:
            yield Part(end=place, kind=_KINDS[kind])
    if place < end:
        yield Part(end=end, kind="prose")


def changes(text: str) -> Iterator[Part]:
    """Yield the parts of a patch, in order."""
    change = _CHANGE.search(text)
    start = change.start() if change else len(text)
    if start:
        yield Part(end=start, kind="email" if _HEADERS.match(text, 0, start) else "prose")
    if start < len(text):
        yield Part(end=len(text), kind="changes", section=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes(Segmenter):
    """Physical lines of a patch; a hunk is a paragraph, the changes of a file are a section."""

    lookahead = None
    level_names = LEVELS

    def _ends(self, text: str) -> Iterable[int] | Cuts:
        return character_ends(text)

    def _levels(self, text: str) -> Sequence[Iterable[int] | Cuts]:
        hunks, files, headed = [0], [0], False
        for match in _BEGINS.finditer(text):
            if match.lastgroup == "hunk":
                hunks.append(match.start())
            elif not headed:  # what comes before the first hunk of a file is one head
                files.append(match.start())
            headed = match.lastgroup != "hunk"
        return character_ends(text), hunks + files, files
