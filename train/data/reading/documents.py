"""Documents: the one noun that readers yield and `prepare` consumes, and the door they pass.

At the door text becomes clean Unicode: bytes that are not UTF-8 and lone surrogates (which JSON
can spell and no tokenizer can encode) become U+FFFD and are counted. Nothing else is changed:
line ends, blank lines and indentation are what segmenters cut by. The one exception is asked for
by name: `unwrap` joins the lines of hard-wrapped prose.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import PurePath
from typing import Any, ClassVar

from train.data.reading.parts import Bad, Part
from train.disk.redaction import redacted
from train.errors import DataError

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
_SURROGATE = re.compile("[\ud800-\udfff]")
_WRAP = re.compile(r"(?<![\n\r])[^\S\n\r]*\r?\n(?=\S)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text with its name.

    kind: what the text is ("prose", "code", "proof"), for segmenters that route by it.
    id: unique in its source; the split of a document is a hash of it.
    source: where it was read from.
    replaced: number of characters that the door replaced by U+FFFD.
    """

    text: str
    kind: str
    id: str
    source: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    replaced: int = 0


@dataclass(frozen=True, kw_only=True)
class Reader(ABC):
    """An iterable of documents; every pass over it yields the same ones in the same order.

    kind: kind of all its documents.
    source: name that documents carry; the reader's own by default.
    licence: of the text, for the manifest.
    limit: stop after that many documents.
    unwrap: join single line ends inside paragraphs (hard-wrapped prose).
    """

    kind: str = "prose"
    source: str | None = None
    licence: str | None = None
    limit: int | None = None
    unwrap: bool = False
    provenance: ClassVar[str] = "local files"

    def __iter__(self) -> Iterator[Document]:
        found = False
        documents = (item for item in self.read() if not isinstance(item, Bad))
        for document in islice(documents, self.limit):
            found = True
            yield document
        if not found and self.limit != 0:
            raise DataError(f"{self.label()}: no document was found. {self.cure_of_nothing()}")

    @abstractmethod
    def read(self) -> Iterator[Document | Bad]:
        """Yield all documents, without regard to `limit`, and what was left out."""

    def parts(self) -> list[Part]:
        """The pieces that can be read apart, in the order of their documents in a data set."""
        return [Part()]

    def read_part(self, part: Part) -> Iterator[Document | Bad]:
        """Yield the documents of a part, as `read` does."""
        return self.read()

    def division(self) -> list[Part]:
        """The parts to prepare: one where a limit counts over all of them."""
        return self.parts() if self.limit is None else [Part()]

    def take(self, part: Part) -> Iterator[Document | Bad]:
        """What a worker reads of a part of the division."""
        if self.limit is None:
            yield from self.read_part(part)
            return
        left = self.limit
        for item in self.read() if left else ():
            yield item
            left -= not isinstance(item, Bad)
            if not left:
                return

    def state(self) -> Any:
        """What shows, as JSON-able values, that the corpus changed since a run was interrupted."""
        return None

    def check(self) -> None:  # noqa: B027  a reader without anything to check is complete
        """Raise DataError if the corpus is missing, before any work is done."""

    def label(self) -> str:
        """The reader and its corpus as the user typed them."""
        return type(self).__name__

    def cure_of_nothing(self) -> str:
        """What to look at when the corpus is empty."""
        return "Check its path and its filters."

    def fingerprint(self) -> dict[str, Any]:
        """Everything that decides which documents come out."""
        return {
            "reader": type(self).__name__,
            **{key: _plain(value) for key, value in asdict(self).items()},
        }

    def document(
        self, text: str, *, id: str, replaced: int = 0, meta: Mapping[str, Any] | None = None
    ) -> Document:
        """Pass a text through the door."""
        text, surrogates = clean(text)
        return Document(
            text=unwrap(text) if self.unwrap else text,
            kind=self.kind,
            id=id,
            source=self.source or type(self).__name__,
            meta=meta or {},
            replaced=replaced + surrogates,
        )


def clean(text: str) -> tuple[str, int]:
    """Replace lone surrogates by U+FFFD; also return how many there were."""
    return _SURROGATE.subn(REPLACEMENT, text)


def decode(data: bytes, *, errors: str, where: str, offset: int = 0) -> tuple[str, int]:
    """Decode UTF-8; also return the number of characters that replace bad bytes.

    errors: "replace", or "fail" to raise DataError with the offset of the first bad byte, which
    is `offset` plus its place in `data`. A byte order mark at the start is dropped.
    """
    if errors not in ("replace", "fail"):
        raise DataError(f"encoding_errors must be replace or fail, was: {errors}")
    try:
        return data.decode("utf-8").removeprefix(_BYTE_ORDER_MARK), 0
    except UnicodeDecodeError as fault:
        if errors == "fail":
            raise DataError(
                f"{where}: byte {offset + fault.start} is not UTF-8 ({fault.reason}). Convert the "
                "file, or set encoding_errors=replace to put U+FFFD there and count it"
            ) from None
    text = data.decode("utf-8", errors="replace")
    # UTF-8 resynchronises at each lead byte, so that genuine U+FFFD keep their three bytes.
    genuine = data.count(REPLACEMENT.encode())
    return text.removeprefix(_BYTE_ORDER_MARK), text.count(REPLACEMENT) - genuine


def unwrap(text: str) -> str:
    """Join the lines of each paragraph by a space; blank lines and indented lines stay.

    >>> unwrap("It was\\na dark night.\\n\\nRain fell.")
    'It was a dark night.\\n\\nRain fell.'
    """
    return _WRAP.sub(" ", text)


def dig(row: Mapping[str, Any], key: str, *, where: str, parameter: str) -> Any:
    """The value of a key, dotted for a key inside a value: ``meta.pile_set_name``."""
    if key in row:
        return row[key]
    value: Any = row
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            known = ", ".join(map(str, value)) if isinstance(value, Mapping) else "no fields"
            raise DataError(f"{where}: {parameter}={key} is not there; there is: {known}")
        value = value[part]
    return value


def text_of(row: Mapping[str, Any], key: str, *, where: str) -> str:
    """The text of a row; a null is the empty text, which `prepare` skips and counts."""
    text = dig(row, key, where=where, parameter="text_key")
    if text is None:
        return ""
    if not isinstance(text, str):
        raise DataError(f"{where}: text_key={key} must hold text, was: {type(text).__name__}")
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, str | PurePath):
        return redacted(str(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    return value
