"""A tokenizer of symbols: one token per number below the modulus, operator, bracket and '='.

So "10" modulo 11 is one token, as in the task of Feng et al. (arXiv 2305.15408).
"""

from dataclasses import asdict, dataclass
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers

from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import END, Texts
from train.errors import DataError
from train.tasks.arithmetic.problems import EQUALS, OPERATORS

_UNKNOWN = "<unk>"


@dataclass(frozen=True, kw_only=True)
class Symbols:
    """The tokenizer of chains modulo `modulus`; anything else in a text is an unknown token."""

    modulus: int = 11

    def __post_init__(self) -> None:
        if self.modulus < 2:
            raise DataError(f"modulus must be at least 2, was: {self.modulus}")

    def build(self, texts: Texts | None = None) -> Tokenizer:
        words = [END, _UNKNOWN, *map(str, range(self.modulus)), *OPERATORS, "(", ")", EQUALS]
        ids = {word: id for id, word in enumerate(words)}
        fast = tokenizers.Tokenizer(models.WordLevel(ids, unk_token=_UNKNOWN))
        fast.pre_tokenizer = pre_tokenizers.Split(Regex(r"[0-9]+|[\s\S]"), behavior="isolated")
        fast.decoder = decoders.Fuse()
        fast.add_special_tokens([END, _UNKNOWN])
        return Tokenizer(fast=fast, eos=END)

    def fingerprint(self) -> dict[str, Any]:
        return {"tokenizer": "Symbols", **asdict(self)}
