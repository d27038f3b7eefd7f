"""Segmenters made of another one: clauses inside its segments, and controls of the same lengths.

A segmentation ablation asks whether it matters where segments end. `Matched` keeps what must not
differ, the number of segments of every document or even all their lengths, and moves the cuts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts, Segmenter, require_integer
from segmenters.random_numbers import GOLDEN, mix

Kind = Literal["shuffled", "random", "stride"]
KINDS = get_args(Kind)
# What ends a clause, with the white space behind it; that of Chinese and Japanese needs none.
_CLAUSE = re.compile(r"[,;:\u2014]\s+|[\uff0c\uff1b\uff1a\u3001]\s*")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Derived(Segmenter):
    """A segmenter with a parameter that is one: `of`."""

    of: Segmenter

    def __post_init__(self) -> None:
        if not isinstance(self.of, Segmenter):
            raise TypeError(f"of must be a segmenter, was: {self.of!r}")

    def choose(
        self,
        *,
        text: str,
        kind: str | None = None,
        name: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Segmenter:
        return dataclasses.replace(
            self, of=self.of.choose(text=text, kind=kind, name=name, meta=meta)
        )

    def fingerprint(self) -> dict[str, Any]:
        told = super(_Derived, self).fingerprint()
        inner = self.of.fingerprint()
        call = {"_target_": inner["segmenter"], **inner["parameters"]}
        versions = {"of": {"version": inner["version"], **inner["versions"]}}
        return told | {"parameters": told["parameters"] | {"of": call}, "versions": versions}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Clauses(_Derived):
    """The segments of another segmenter, cut further after each comma, semicolon, colon or dash.

    White space stays with the clause before it, so a mark counts where white space follows.
    """

    @property
    def lookahead(self) -> int | None:
        inner = self.of.lookahead
        return None if inner is None else max(1, inner)

    def _ends(self, text: str) -> Iterable[int]:
        return np.concatenate((self.of.cut(text), [m.end() for m in _CLAUSE.finditer(text)]))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Matched(_Derived):
    """As many segments in each document as another segmenter makes, with ends that mean nothing.

    kind: "shuffled": its segments' lengths in another order, so that not one length differs;
        "random": places drawn without replacement, all alike; "stride": equal lengths, up to one
        character. Draws depend on `seed` and the text alone. Lengths are characters: where two
        cuts fall into one token, tokens know one.
    """

    kind: Kind
    seed: int = 0

    def __post_init__(self) -> None:
        super(Matched, self).__post_init__()
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, was: {self.kind!r}")
        require_integer("seed", self.seed, 0)

    @property
    def lookahead(self) -> int | None:
        return None

    def _ends(self, text: str) -> npt.NDArray[np.int64]:
        cuts: Cuts = self.of.cut(text)
        count = len(cuts) - 1
        if self.kind == "stride":
            return np.arange(1, count, dtype=np.int64) * len(text) // max(1, count)
        if self.kind == "random":
            wanted = max(0, count - 1)
            return np.argsort(self._draws(text, max(0, len(text) - 1)))[:wanted] + 1
        lengths = np.diff(cuts)
        return np.cumsum(lengths[np.argsort(self._draws(text, count))])

    def _draws(self, text: str, count: int) -> npt.NDArray[np.uint64]:
        """Numbers of this text: a counter, hashed."""
        told = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
        start = int.from_bytes(told.digest(), "little") ^ ((self.seed * GOLDEN + 1) % 2**64)
        counter = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        return mix(mix(counter ^ np.uint64(start)) + np.uint64(start))
