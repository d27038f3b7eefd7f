"""The split of each document: a hash of its id, or the user's choice.

The hash does not depend on the order or number of documents, so documents keep their split when a
corpus grows. Where documents are few and long (books), name the ids.
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
    """Shares of documents for validation and test; the rest is for training.

    salt: change it to draw other splits. ids: document ids by split, which override the hash.
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
        _ = self.named  # raises for invalid ids

    @cached_property
    def named(self) -> dict[str, str]:
        named: dict[str, str] = {}
        for split, ids in self.ids.items():
            if split not in SPLITS:
                raise DataError(f"split.ids must name {', '.join(SPLITS)}, was: {split}")
            for id in ids:
                if named.setdefault(id, split) != split:
                    raise DataError(f"split.ids: {id} is in {named[id]} and in {split}")
        return named

    def of(self, id: str) -> str:
        if id in self.named:
            return self.named[id]
        digest = hashlib.blake2b(f"{self.salt}\0{id}".encode(), digest_size=8).digest()
        place = int.from_bytes(digest, "big") / 2**64
        if place < self.test:
            return "test"
        return "validation" if place < self.test + self.validation else "train"

    def fingerprint(self) -> dict[str, Any]:
        ids = {split: sorted(ids) for split, ids in sorted(self.ids.items())}
        return {"validation": self.validation, "test": self.test, "salt": self.salt, "ids": ids}
