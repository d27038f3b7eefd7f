"""Byte-level BPE by tiktoken: a twin of a tokenizer of `tokenizers`, where both are proved alike.

`tokenizers` merges the adjacent pair that is first in a list, tiktoken the one that spells the
token of lowest rank. Until a token is made, merges inside its span happen as in encoding its text
alone. So both agree on every text if

- each token that its own text alone is merged to is ranked by the last merge of it, and
- all others are left out: no text is merged to them;
- both split texts alike: by the same expression of known form, whose classes hold the same
  characters (they may know different versions of Unicode).

What has no such proof (normalisers, added tokens, other splitters) keeps `tokenizers`.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from itertools import count, pairwise
from typing import Any

import numpy as np
import tiktoken
import tokenizers

from segmenters.align import byte_alphabet
from train.data.tokenizing.chunks import GPT2, is_known, steps_of

LONGEST = 1 << 16  # characters; expressions of tiktoken overflow their stack on much longer runs
# Between texts that are encoded at once. Special tokens are cut out first, and texts with this
# character, which is no text in Unicode, are encoded alone.
_BETWEEN = "\uffff"
_BYTES = {bytes([byte]): byte for byte in range(256)}
_CLASSES = re.compile(r"\\[ps](?:\{\w+\})?")


class NoTwin(ValueError):
    """A tokenizer whose ids tiktoken is not proved to give; the message says why."""


class Twin:
    """Encodes by tiktoken. Raises NoTwin for a tokenizer.json without a proof."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self._expression = _expression(definition)
        tokens = _ranked(definition["model"])
        letters = byte_alphabet()
        spelled = [bytes(map(letters.__getitem__, token)) for token in tokens]
        self._ids = np.array([definition["model"]["vocab"][token] for token in tokens], np.int32)
        self._encoding = _encoding(self._expression, dict(zip(spelled, count())))

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of a text of at most LONGEST characters, int32 [tokens]."""
        return self._ids[self._encoding.encode_to_numpy(text, disallowed_special=())]

    def encode_all(self, texts: Sequence[str]) -> tuple[np.ndarray, list[int]]:
        """Return the ids of all texts, int32 [tokens], and how many are of each."""
        joined = _BETWEEN.join(texts)
        if joined.count(_BETWEEN) != len(texts) - 1:
            rows = [*map(self.encode, texts)]
            return np.concatenate(rows), [*map(len, rows)]
        ids = self._encoding.encode_to_numpy(joined, allowed_special={_BETWEEN})
        between = ids == len(self._ids)
        edges = np.flatnonzero(np.concatenate(([True], between, [True])))
        return self._ids[ids[~between]], (np.diff(edges) - 1).tolist()

    def require_same(self, fast: tokenizers.Tokenizer, samples: Sequence[str]) -> None:
        for kind in sorted({*_CLASSES.findall(self._expression)}):
            if not _holds_the_same(kind):
                raise NoTwin(f"tiktoken knows other characters as {kind}")
        for sample in samples:
            if self.encode(sample).tolist() != fast.encode(sample, add_special_tokens=False).ids:
                raise NoTwin(f"tiktoken gives other ids for {sample[:40]!r}")


def _expression(definition: Mapping[str, Any]) -> str:
    model = definition["model"]
    if model["type"] != "BPE":
        raise NoTwin(f"a {model['type']} model is no BPE")
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        if model.get(key):
            raise NoTwin(f"the model has {key}")
    if definition["normalizer"]:
        raise NoTwin("a normaliser changes texts")
    if any(not token["special"] for token in definition["added_tokens"]):
        raise NoTwin("added tokens are found before words are")
    steps = steps_of(definition["pre_tokenizer"], "pretokenizers")
    kinds = [step["type"] for step in steps]
    if kinds not in (["ByteLevel"], ["Split", "ByteLevel"]) or steps[-1]["add_prefix_space"]:
        raise NoTwin(f"the pre-tokenizer is {' + '.join(kinds) or 'none'}")
    if (kinds == ["ByteLevel"]) is not steps[-1]["use_regex"]:
        raise NoTwin("the pre-tokenizer splits never, or twice")
    if kinds == ["ByteLevel"]:
        return GPT2
    expression = str(steps[0]["pattern"].get("Regex", ""))
    if steps[0]["behavior"] != "Isolated" or steps[0]["invert"] or not is_known(expression):
        raise NoTwin("the splitting expression is not of a known form")
    return expression


def _ranked(model: Mapping[str, Any]) -> list[str]:
    vocabulary: dict[str, int] = model["vocab"]
    order = {tuple(pair): place for place, pair in enumerate(model["merges"])}
    places: dict[str, list[int]] = {}
    for (left, right), place in order.items():
        places.setdefault(left + right, []).append(place)
    plain = tokenizers.models.BPE(vocabulary, [*order], ignore_merges=False)
    ranks: dict[str, float] = {}
    for token in vocabulary:
        if len(token) > 1 and token in places and len(plain.tokenize(token)) == 1:
            ranks[token] = _last_merge(token, places[token], order)
    singles = [token for token in byte_alphabet() if token in vocabulary]
    if len(singles) < len(_BYTES):
        raise NoTwin("the vocabulary lacks a byte")
    if model["ignore_merges"] and len(singles) + len(ranks) < len(vocabulary):
        raise NoTwin("some words of the vocabulary cannot be made by merges")
    return [*singles, *sorted(ranks, key=ranks.__getitem__)]


def _last_merge(token: str, places: list[int], order: Mapping[tuple[str, str], int]) -> int:
    """Return the place of the merge that makes a token of its two last parts."""
    if max(places) - min(places) + 1 == len(places):
        return places[0]
    parts = [*token]
    while len(parts) > 2:  # merge the pair of lowest rank, the leftmost of equals
        pairs = enumerate(pairwise(parts))
        _, at = min((order[pair], place) for place, pair in pairs if pair in order)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return order[parts[0], parts[1]]


def _encoding(expression: str, ranks: dict[bytes, int]) -> tiktoken.Encoding:
    special = {_BETWEEN: len(ranks)}
    return tiktoken.Encoding(
        "twin", pat_str=expression, mergeable_ranks=ranks, special_tokens=special
    )


@functools.cache
def _characters() -> str:
    planes = (range(0xD800), range(0xE000, 0x40000), range(0xE0000, 0xE1000))
    return "".join(chr(code) for plane in planes for code in plane)


@functools.cache
def _holds_the_same(kind: str) -> bool:
    """Return whether a class of characters is the same in both libraries' expressions."""
    text = _characters()
    only = _encoding(kind, _BYTES)  # what does not match has no ids
    inside = only.decode(only.encode_ordinary(text))
    rest = tokenizers.normalizers.Replace(tokenizers.Regex(kind), "").normalize_str(text)
    return len(inside) + len(rest) == len(text) and not {*inside} & {*rest}
