"""Which split a document is in: a hash of its id, or what the user chose.

The hash knows nothing of the order or the number of documents, so that a corpus may grow and no
document moves from one split to another. Where documents are few and long (books), name the ids.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from train.errors import DataError

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class Split:
    """Shares of documents for validation and test; the rest trains.

    salt: another one draws another split.
    ids: ids of documents by split, which go there whatever their hash; documents not named follow
    their hash.
    """

    validation: float = 0.02
    test: float = 0.05
    salt: str = ""
    ids: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("validation", "test"):
            if not 0 <= getattr(self, name) <= 1:
                raise DataError(f"split.{name} must be from 0 to 1, was: {getattr(self, name)}")
        if self.validation + self.test > 1:
            raise DataError("split.validation and split.test must not exceed 1 together")
        _ = self.named  # raises for what cannot be

    @cached_property
    def named(self) -> dict[str, str]:
        """The split of each id that `ids` names."""
        named: dict[str, str] = {}
        for split, ids in self.ids.items():
            if split not in SPLITS:
                raise DataError(f"split.ids must name {', '.join(SPLITS)}, was: {split}")
            for id in ids:
                if named.setdefault(id, split) != split:
                    raise DataError(f"split.ids: {id} is in {named[id]} and in {split}")
        return named

    def of(self, id: str) -> str:
        """Return the split of a document."""
        if id in self.named:
            return self.named[id]
        digest = hashlib.blake2b(f"{self.salt}\0{id}".encode(), digest_size=8).digest()
        place = int.from_bytes(digest, "big") / 2**64
        if place < self.test:
            return "test"
        return "validation" if place < self.test + self.validation else "train"

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that decides the split of a document."""
        ids = {split: sorted(ids) for split, ids in sorted(self.ids.items())}
        return {"validation": self.validation, "test": self.test, "salt": self.salt, "ids": ids}
