"""Documents, which readers yield and `prepare` consumes, and the cleaning that all of them pass.

Text becomes valid Unicode: bytes that cannot be decoded and lone surrogates (which JSON can spell
and no tokenizer can encode) become U+FFFD and are counted. Nothing else changes, because segmenters
cut at line ends and indentation; only `unwrap` joins lines, on request. Text of which too much is
broken (U+FFFD or zero bytes) is bad.

The division into parts, each read by one worker, depends only on the corpus, so that any number of
workers writes the same bytes.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from bipe.arguments import Rule
from segmenters.fields import KNOWN_FIELDS, NESTING_FIELDS
from segmenters.offsets import without_surrogates
from train.disk.manifest import redacted
from train.errors import DataError

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
MAX_BROKEN = 1e-4  # share of characters: a few bytes of a book, not another encoding
NOTHING = "no documents were found. Check its path and filters."
BROKEN, BINARY = "broken text", "binary"  # rules
SKIPPED = frozenset(("__pycache__", "node_modules"))  # folders
# The end of a line with text, above a line that is neither blank nor indented.
_WRAP = re.compile(r"(?<=\S)[^\S\n\r]*\r?\n(?=\S)")
# The maximum number of parts where sizes allow it: enough to keep workers busy to the end, and
# little is lost with one part.
PARTS = 64
SMALLEST, LARGEST = 2_000_000, 256_000_000  # bytes

OnBad = Literal["error", "skip"]
Share = Annotated[float, Rule("from 0 to 1", lambda value: 0 <= value <= 1)]
Sized = TypeVar("Sized")


@dataclass(slots=True, kw_only=True)  # frozen, to make one takes a tenth of all of a short row
class Document:
    """A text with its name, which nobody changes.

    kind: of the text ("prose", "code", "proof"). id: unique in its source; it decides the split.
    source: where it was read from. replaced: number of characters replaced by U+FFFD. encoding: it
    was decoded from; "" for UTF-8.
    """

    text: str
    kind: str
    id: str
    source: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    replaced: int = 0
    encoding: str = ""

    @property
    def broken(self) -> int:
        """Return the number of characters that are lost or no text: replaced ones, zero bytes."""
        return self.replaced + self.text.count("\0")

    @property
    def placed_fields(self) -> str:
        """Return the names of fields that may refer to positions in the text, or ""."""
        return ", ".join(sorted({*self.meta} - {*KNOWN_FIELDS, *NESTING_FIELDS}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a source.

    where: JSON-able values by which its reader finds it; empty: all. size: stored bytes, if known.
    """

    where: Mapping[str, Any] = field(default_factory=dict)
    size: int | None = None

    def digest(self) -> str:
        return hashlib.sha256(json.dumps([self.where, self.size]).encode()).hexdigest()


class Bad(DataError):
    """A file or row without a document: raised, or yielded in its place if it is skipped.

    where: file and line, or row. rule: the kind of fault, one of a few, for counting. cure: what to
    set, if it is raised.
    """

    def __init__(self, *, where: str, rule: str, detail: str, cure: str = "") -> None:
        super().__init__(f"{where}: {detail}{cure and '. '}{cure}")
        self.where, self.rule, self.detail, self.cure = where, rule, detail, cure

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers pickle it, and the default for exceptions passes only positional arguments.
        fields = {"where": self.where, "rule": self.rule, "detail": self.detail, "cure": self.cure}
        return partial(Bad, **fields), ()


@dataclass(frozen=True, kw_only=True)
class Reader:
    """An iterable of documents; each pass yields the same ones in the same order.

    kind: of all its documents. source: name that documents carry; by default the class name.
    licence: of the text, for the manifest. limit: maximum number of documents. unwrap: join the
    lines of hard-wrapped prose.
    keys: what the user types before the options of this reader, for messages.
    """

    kind: str = "prose"
    source: str | None = None
    licence: str | None = None
    limit: Annotated[int, Rule("at least 0", lambda value: value >= 0)] | None = None
    unwrap: bool = False
    provenance: ClassVar[str] = "local files"
    keys: ClassVar[str] = ""

    def keyed(self, keys: str) -> Self:
        """Return a copy whose messages name its options with these keys before them."""
        reader = copy(self)
        # No field, so that neither fingerprint nor equality depends on it.
        object.__setattr__(reader, "keys", keys)
        return reader

    def broken_share(self) -> float:
        """Return the largest share of broken characters that documents may have on average."""
        return MAX_BROKEN

    def cure(self, rule: str) -> str:
        """Return what to set to prepare text of which too much is broken."""
        return ""

    def hint(self, rule: str) -> str:
        """Return what to set where all is bad by a rule, or empty."""
        return ""

    def __iter__(self) -> Iterator[Document]:
        is_empty, first_bad = True, None
        for item in self.limited(self.read()):
            if isinstance(item, Bad):
                first_bad = first_bad or item
            else:
                is_empty = False
                yield item
        if is_empty and self.limit != 0:
            reason = NOTHING
            if first_bad is not None:
                reason = f"all documents were left out, such as {first_bad}. "
                reason += self.hint(first_bad.rule)
            raise DataError(f"{self.label()}: {reason.rstrip()}")

    # A reader defines `read`, or `parts` and `read_part`: the default of each calls the other.
    def read(self) -> Iterator[Document | Bad]:
        """Yield all documents, regardless of `limit`, and each `Bad` that is skipped."""
        for part in self.parts():
            yield from self.read_part(part)

    def parts(self) -> list[Part]:
        """Return the pieces that can be read independently, in the order of their documents."""
        return [Part()]

    def read_part(self, part: Part) -> Iterator[Document | Bad]:
        return self.read()

    def division(self) -> list[Part]:
        """Return the parts to prepare: one if there is a limit, which counts over all parts."""
        return self.parts() if self.limit is None else [Part()]

    def take(self, part: Part) -> Iterator[Document | Bad]:
        return self.read_part(part) if self.limit is None else self.limited(self.read())

    def limited(self, items: Iterator[Document | Bad]) -> Iterator[Document | Bad]:
        """Yield the items up to `limit` documents."""
        if self.limit is None:
            yield from items
            return
        left = self.limit
        for item in items if left else ():
            yield item
            left -= not isinstance(item, Bad)
            if not left:
                return

    def state(self) -> Any:
        """Return JSON-able values that change with the corpus, to notice it in a continued run."""
        return None

    def check(self) -> None:
        """Raise DataError if the corpus is missing, before any work is done."""

    def label(self) -> str:
        """Return the reader and its corpus as the user typed them."""
        return type(self).__name__

    def fingerprint(self) -> dict[str, Any]:
        return {"reader": type(self).__name__, **_plain(asdict(self))}

    def document(
        self,
        text: str,
        *,
        id: str,
        replaced: int = 0,
        encoding: str = "",
        meta: Mapping[str, Any] | None = None,
    ) -> Document:
        text, surrogates = without_surrogates(text)
        return Document(
            text=unwrap(text) if self.unwrap else text,
            kind=self.kind,
            # Names of files may be any bytes.
            id=id if id.isascii() else id.encode("utf-8", "backslashreplace").decode(),
            source=self.source or type(self).__name__,
            meta=meta or {},
            replaced=replaced + surrogates,
            encoding=encoding,
        )


@dataclass(frozen=True, kw_only=True)
class TolerantReader(Reader):
    """A reader of files or rows, some of which may hold no document.

    on_bad: "error" at the first that cannot be read or lacks the text, or "skip" and count it.
    max_broken: the largest share of characters that are lost (U+FFFD) or zero bytes, in each file
    and in all; 1: any.
    """

    on_bad: OnBad = "error"
    max_broken: Share = MAX_BROKEN

    def broken_share(self) -> float:
        return self.max_broken

    def left_out(self, bad: Bad) -> Bad:
        if self.on_bad == "error":
            cure = f"{self.hint(bad.rule)} To leave out what is bad, set {self.keys}on_bad=skip"
            cure = bad.cure.replace("{keys}", self.keys) or cure.strip()
            raise Bad(where=bad.where, rule=bad.rule, detail=bad.detail, cure=cure)
        return bad.with_traceback(None)  # a traceback would keep the text in memory

    def too_broken(
        self,
        broken: int,
        size: int,
        *,
        where: str,
        rule: str = BROKEN,
        place: Callable[[], str] = str,
    ) -> Bad | None:
        """Return what is bad about `size` characters of which too many are broken, else None.

        place: returns where the first is, and which encoding it may be.
        """
        if broken <= self.max_broken * size:
            return None
        share = f"{broken:,} of {size:,} characters"
        what = "are zero bytes or no text" if rule == BINARY else "cannot be read"
        allowed = f"allowed is a share of {self.max_broken:g}"
        detail = f"{share} {what}{place()}; {allowed}"
        return Bad(where=where, rule=rule, detail=detail, cure=self.cure(rule))

    def cure(self, rule: str) -> str:
        """Return what to set to prepare text of which too much is broken."""
        out = f"{self.keys}on_bad=skip to leave out such text"
        return f"Set {out}, or {self.keys}max_broken=1 to keep it"


def unwrap(text: str) -> str:
    """Join the lines of each paragraph with a space; blank lines and indented lines stay.

    >>> unwrap("It was\\na dark night.\\n\\nRain fell.")
    'It was a dark night.\\n\\nRain fell.'
    """
    return _WRAP.sub(" ", text)


def part_size(total: int) -> int:
    return min(max(total // PARTS, SMALLEST), LARGEST)


def grouped(items: Iterable[tuple[Sized, int]], *, size: int) -> Iterator[tuple[list[Sized], int]]:
    """Put neighbouring items together until a group has `size`; yield groups with their sizes."""
    group: list[Sized] = []
    total = 0
    for item, own in items:
        group.append(item)
        total += own
        del item  # it may be large, and the caller frees the group
        if total >= size:
            yield group, total
            group, total = [], 0
    if group:
        yield group, total


def ranges(number: int, *, each: int) -> Sequence[tuple[int, int]]:
    return [(start, min(start + each, number)) for start in range(0, number, max(1, each))]


def _plain(value: Any) -> Any:
    if isinstance(value, str | PurePath):
        return redacted(str(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_plain(inner) for inner in value]
    return value
