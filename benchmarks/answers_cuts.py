"""Segmenters that only `benchmarks.answers` compares: strides of tokens, and more places to end."""

from __future__ import annotations

import dataclasses
import re
from functools import cache

import numpy as np

from segmenters.base import Cuts, Segmenter
from segmenters.levels.levels import Derived
from train.data import LoadTokenizer
from train.data.tokenizing.tokenizers import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TokenStride(Segmenter):
    """Segments of `length` tokens of the tokenizer at a path; tokens that share a character stay.

    A segmenter is given no tokens, so the text is encoded once more.
    """

    length: int
    tokenizer: str
    lookahead = None

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1 token, was: {self.length}")

    def _ends(self, text: str) -> Cuts:
        ((_, anchors),) = _loaded(self.tokenizer).encode_documents([text])
        return anchors[:: self.length]


@cache
def _loaded(path: str) -> Tokenizer:
    return LoadTokenizer(path=path).build()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Also(Derived):
    """The segments of `of`, cut further at the end of each match of the regular expression."""

    ends: str
    lookahead = None

    def _ends(self, text: str) -> Cuts:
        more = [match.end() for match in re.finditer(self.ends, text)]
        return np.union1d(self.of.cut(text), np.array(more, dtype=np.int64))
