"""Which documents are for training, validation and test: by a hash of the id, or the user's choice.

The hash does not depend on other documents, so they keep their split when a corpus grows. Where
they are few, a share of 2% may be none, so `within: auto` decides by their number: up to SOME are
each split; up to MANY, whole ones are drawn, at least one for each split; above, the shares hold.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from train.data.reading.documents import Document, Reader, Share
from train.disk.manifest import SPLITS
from train.errors import DataError

SOME, MANY = 9, 500  # documents
_SALTS = 100  # ways to draw that are tried
_WITHIN = "documents are few, so each is split (corpus.split.within=false draws whole ones)"
_WHOLE = (
    "documents are few, so splits are drawn close to their shares, with at least one document each "
    "(corpus.split.within=true splits each document)"
)
_NEAR = 5000  # characters in which a place to split at is looked for


@dataclass(frozen=True, kw_only=True)
class Split:
    """Shares of documents for validation and test; the rest is for training.

    salt: change it to draw other splits. ids: document ids by split, which override the hash.
    within: split each document instead, at line ends, into parts for training, validation and test,
    in this order; "auto": see `for_few`. why: that decision.
    """

    validation: Share = 0.02
    test: Share = 0.05
    salt: str = ""
    ids: Mapping[str, Sequence[str]] = field(default_factory=dict)
    within: bool | Literal["auto"] = False
    why: str = ""

    def __post_init__(self) -> None:
        if self.validation + self.test > 1:
            raise DataError("corpus.split.validation + corpus.split.test must be at most 1")
        if self.within is True and self.ids:
            raise DataError(
                "corpus.split.ids names whole documents, but corpus.split.within splits each; "
                "remove one"
            )
        _ = self.named  # raises for invalid ids

    @cached_property
    def named(self) -> dict[str, str]:
        named: dict[str, str] = {}
        for split, ids in self.ids.items():
            if split not in SPLITS:
                raise DataError(f"corpus.split.ids must name {', '.join(SPLITS)}, was: {split}")
            for id in ids:
                if named.setdefault(id, split) != split:
                    raise DataError(f"corpus.split.ids: {id} is in {named[id]} and in {split}")
        return named

    def of(self, id: str) -> str:
        if self.within is True:
            return id.partition("/")[0]
        if id in self.named:
            return self.named[id]
        # A number from 0 to below 1: the first shares are of the test, so that it stays when the
        # validation share changes.
        digest = hashlib.blake2b(f"{self.salt}\0{id}".encode(), digest_size=8).digest()
        place = int.from_bytes(digest, "big") / 2**64
        if place < self.test:
            return "test"
        return "validation" if place < self.test + self.validation else "train"

    def pieces(self, document: Document) -> list[Document]:
        """Return the document, or with `within` its parts: train/ID, validation/ID and test/ID."""
        if self.within is not True:
            return [document]
        text, start, pieces = document.text, 0, []
        for name, after in zip(SPLITS, (self.validation + self.test, self.test, 0), strict=True):
            end = max(start, _line_end(text, round(len(text) * (1 - after))))
            if end > start:
                # What was replaced in the whole counts once.
                replaced = document.replaced if start == 0 else 0
                id, inside = f"{name}/{document.id}", text[start:end]
                pieces.append(replace(document, id=id, text=inside, replaced=replaced))
            start = end
        return pieces

    def fingerprint(self) -> dict[str, Any]:
        ids = {split: sorted(ids) for split, ids in sorted(self.ids.items())}
        drawn = {"validation": self.validation, "test": self.test, "salt": self.salt, "ids": ids}
        return drawn | ({"within": self.within} if self.within else {})


def _line_end(text: str, place: int) -> int:
    """Return the end of the paragraph at a place, else of the line or word, if one is near."""
    for end in ("\n\n", "\n", " "):
        if (at := text.find(end, place, place + _NEAR)) >= 0:
            return at + len(end)
    return place


def for_few(split: Split, reader: Reader) -> Split:
    """Return the split that stands for `within: auto`, with a sentence that says it."""
    split = replace(split, within=False)
    wanted = [name for name in SPLITS[1:] if getattr(split, name)]
    if split.ids or not wanted:
        return split
    texts = (
        item
        for item in reader.limited(reader.read())
        if isinstance(item, Document) and item.text.strip()
    )
    within, filled, divisible, ids = replace(split, within=True), set[str](), True, list[str]()
    for document in islice(texts, MANY):
        ids.append(document.id)
        divisible &= not document.placed_fields
        if divisible and len(ids) <= SOME:
            filled |= {within.of(piece.id) for piece in within.pieces(document)}
    if len(ids) == MANY:
        return split
    if divisible and len(ids) <= SOME and filled.issuperset(wanted):
        return replace(within, why=_WITHIN)
    if len(ids) <= len(wanted):  # none would be left for training
        return split
    return _nearest(split, ids, wanted)


def _nearest(split: Split, ids: list[str], wanted: list[str]) -> Split:
    """Return the split whose salt draws the numbers nearest to its shares, each at least one."""
    numbers = {name: max(1, round(getattr(split, name) * len(ids))) for name in wanted}
    shares, left = dict[str, Any](), 1.0
    for name, number in numbers.items():
        shares[name] = min(left, max(getattr(split, name), number / len(ids)))
        left -= shares[name]
    salted = [replace(split, **shares, salt=f"{split.salt}{n or ''}") for n in range(_SALTS)]

    def distance(drawn: Split) -> int:
        counts = Counter(map(drawn.of, ids))
        return sum(abs(counts[name] - n) for name, n in numbers.items())

    nearest = min(salted, key=distance)
    return nearest if nearest == split else replace(nearest, why=_WHOLE)
