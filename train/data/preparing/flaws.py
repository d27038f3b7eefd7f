"""Flaws of the text of a source: what could not be read, zero bytes, and mojibake.

Mojibake is text that another program decoded wrongly before it came here, such as UTF-8 taken for
Windows-1252 or Windows-1251, Russian or Greek taken for Latin-1.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from segmenters.wording import counted
from train.data.reading.documents import BROKEN, REPLACEMENT, Document, Reader
from train.errors import DataError

REPLACED, ZEROS, LOST, MOJIBAKE, READ_AS = "replaced", "zeros", "lost", "mojibake", "read as "
_EXAMPLES = 3
_AROUND = 12  # characters beside an example
# What Windows-1252, or Latin-1, makes of the bytes 0x80 to 0xBF, which continue UTF-8.
_NEXT = (
    "[\x80-\xbf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014\u2018-\u201a"
    "\u201c-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122]"
)
# Portuguese words in capitals end in U+00C3, before a quote, a dash or a space that does not break.
_NOT_LAST = (
    r"(?!(?<=[A-Z\xc0-\xde].)[\u2013\u2014\u2018-\u201e\u2026](?!\w)"
    r"|(?<=[A-Z\xc0-\xde]{2}.)[\xa0\xbb](?![a-z]))"
)
_CYRILLIC_NEXT = "[\u0402-\u040f\u0452-\u045f\u0490\u0491\xa0-\xbb\u2013-\u2122]"
# Each begins with a character that most text does not contain, for which it is fast to look.
_MOJIBAKE = {
    pattern[0]: re.compile(pattern)
    for pattern in (
        f"\xc3{_NOT_LAST}{_NEXT}",  # accents
        "\xc2[\xa0-\xba\xbc-\xbf]",
        f"\xe2[\x80\u20ac]{_NEXT}",  # quotation marks, dashes
        f"\xd0{_NEXT}(?:[\xd0\xd1]{_NEXT})+",  # Cyrillic
        f"\xce{_NEXT}(?:[\xce\xcf]{_NEXT})+",  # Greek
        f"\xd7{_NEXT}(?:[\xd6\xd7]{_NEXT})+",  # Hebrew
        f"\xd8{_NEXT}(?:[\xd8-\xdb]{_NEXT})+",  # Arabic
        f"\xe3[\x81-\x83\u201a\u0192]{_NEXT}",  # Japanese
        f"\xe5{_NEXT}{{2}}(?:[\xe4-\xe9]{_NEXT}{{2}})+",  # Chinese
        f"\xec{_NEXT}{{2}}(?:[\xea-\xed]{_NEXT}{{2}})+",  # Korean
        f"\xe0[\xa4-\xb9]{_NEXT}(?:\xe0[\xa4-\xb9]{_NEXT})+",  # India, Thailand
        "\xef(?:\xbb\xbf|\xbf\xbd)",  # a byte-order mark, U+FFFD
        f"\u0420{_CYRILLIC_NEXT}(?:[\u0420\u0421]{_CYRILLIC_NEXT})+",  # by Windows-1251
        "\xee[\xc0-\xff]{4}",  # Russian as Latin-1
        "\xe1(?!\xe1)[\xc0-\xff]{5}",  # Greek as Latin-1
    )
}
_MEANINGS = {
    REPLACED: "replaced by U+FFFD, since it could not be read",
    ZEROS: "zero bytes, as in binary files",
    LOST: "U+FFFD in the source itself, lost before",
    MOJIBAKE: "decoded wrongly before, it seems",
}


class Flaws:
    """Documents and characters by kind of flaw, with the documents that have the most.

    characters: of all documents. kinds: for each, documents, characters, and examples: characters
    of one document and what to print.
    """

    def __init__(self) -> None:
        self.characters = 0
        self.kinds: dict[str, tuple[int, int, list[tuple[int, str]]]] = {}

    def add(self, document: Document) -> None:
        text = document.text
        self.characters += len(text)
        if text.isascii() and "\0" not in text and not (document.replaced or document.encoding):
            return
        for kind, number, example in flaws_of(document):
            self._put(kind, 1, number, [(number, example)])

    def state(self) -> tuple[int, Mapping[str, Any]]:
        return self.characters, self.kinds

    def merge(self, state: tuple[int, Mapping[str, Any]]) -> None:
        self.characters += state[0]
        for kind, (documents, number, examples) in state[1].items():
            self._put(kind, documents, number, [(size, name) for size, name in examples])

    def table(self) -> dict[str, dict[str, Any]]:
        return {
            kind: {
                "documents": documents,
                "characters": number,
                "examples": [example for _, example in examples],
            }
            for kind, (documents, number, examples) in sorted(self.kinds.items())
        }

    def require_few(self, reader: Reader, label: str) -> None:
        """Raise DataError if more characters of all are broken than the reader allows."""
        flaws = [self.kinds[kind] for kind in (REPLACED, ZEROS) if kind in self.kinds]
        broken, most = sum(number for _, number, _ in flaws), reader.broken_share()
        if broken > most * self.characters:
            such = ", ".join(example for _, _, examples in flaws for _, example in examples)
            raise DataError(
                f"{label}: {broken:,} of {self.characters:,} characters cannot be read or are zero "
                f"bytes, such as in {such}; allowed is a share of {most:g}. {reader.cure(BROKEN)}"
            )

    def _put(self, kind: str, documents: int, number: int, examples: list[tuple[int, str]]) -> None:
        entry = self.kinds.get(kind, (0, 0, []))
        most = sorted(entry[2] + examples, key=lambda each: -each[0])[:_EXAMPLES]
        self.kinds[kind] = (entry[0] + documents, entry[1] + number, most)


def flaws_of(document: Document) -> Iterator[tuple[str, int, str]]:
    """Yield the kinds of flaws of a document, with their characters and an example."""
    text, name = document.text, document.id
    if document.encoding:
        yield READ_AS + document.encoding, len(text), name
    counts = {REPLACED: document.replaced, ZEROS: text.count("\0")}
    if REPLACEMENT in text:
        counts[LOST] = text.count(REPLACEMENT) - document.replaced
    for kind, number in counts.items():
        if number > 0:
            yield kind, number, f"{name} ({number:,})"
    if not text.isascii():
        patterns = (pattern for first, pattern in _MOJIBAKE.items() if first in text)
        matches = [match for pattern in patterns for match in pattern.finditer(text)]
        if matches:
            start, end = matches[0].span()
            around = text[max(0, start - _AROUND) : end + _AROUND].split()
            yield MOJIBAKE, len(matches), f"{name}: {' '.join(around)}"


def sentences(flaws: Mapping[str, Mapping[str, Any]], reader: Reader) -> Iterator[tuple[str, bool]]:
    """Yield what to print about the flaws of a source, and whether it is a warning."""
    for kind, flaw in flaws.items():
        documents, such = counted(flaw["documents"], "document"), ", ".join(flaw["examples"])
        if kind.startswith(READ_AS):
            yield f"{documents} {kind}, such as {such}", False
            continue
        number = counted(flaw["characters"], "place" if kind == MOJIBAKE else "character")
        cure = f". {reader.cure(BROKEN)}" if kind == REPLACED else ""
        yield f"{_MEANINGS[kind]}: {number} in {documents}, such as {such}{cure}", True
