"""tiktoken: its files (base64 of a token, its rank) as byte-level BPE, and byte-level BPE by it.

tiktoken merges the adjacent pair whose joined bytes have the lowest rank, and takes a piece of the
splitting expression whole if it is a token. The fast form has merges of all pairs that spell a
token, ordered by its rank, and `ignore_merges`. It is checked on a sample against tiktoken.

The other way, tiktoken is a twin of `tokenizers` where it is proved to give the same ids.
`tokenizers` merges the adjacent pair that is first in a list, tiktoken the one that spells the
token of lowest rank. Until a token is made, merges inside its span happen as in encoding its text
alone. So both agree on every text if

- each token that its own text alone is merged to is ranked by the last merge of it, and
- all others are left out: no text is merged to them;
- both split texts alike: by the same expression of known form, whose classes hold the same
  characters (they may know different versions of Unicode).

What has no such proof (normalisers, added tokens, other splitters) keeps `tokenizers`.
"""

import base64
import binascii
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tiktoken
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers

from segmenters.align import byte_alphabet
from train.data.tokenizing.chunks import CONTRACTIONS, GPT2, O200K_WORDS, is_known, steps_of
from train.errors import DataError

_CL100K = (
    rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_O200K = "|".join(f"{word}{CONTRACTIONS}?" for word in O200K_WORDS)
_O200K += r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {"gpt2": GPT2, "r50k": GPT2, "p50k": GPT2, "cl100k": _CL100K, "o200k": _O200K}
END = "<|endoftext|>"
# Ids of the end of a text in the published encodings.
_ENDS = {"gpt2": 50256, "r50k": 50256, "p50k": 50256, "cl100k": 100257, "o200k": 199999}

LONGEST = 1 << 16  # characters; expressions of tiktoken overflow their stack on much longer runs
# Between texts that are encoded at once. Special tokens are cut out first, and texts with this
# character, which is no text in Unicode, are encoded alone.
_BETWEEN = "\uffff"
_BYTES = {bytes([byte]): byte for byte in range(256)}
_CLASSES = re.compile(r"\\[ps](?:\{\w+\})?")

Symbol = TypeVar("Symbol", str, bytes)


def convert(path: Path, *, pattern: str | None, samples: Sequence[str]) -> tokenizers.Tokenizer:
    """Return the fast tokenizer of a .tiktoken file.

    pattern: a name in PATTERNS, or an expression; by default the name that the file's own name
    contains (cl100k_base.tiktoken). Raises DataError for a bad file, an unknown pattern, or ids
    that differ.
    """
    ranks = read_ranks(path)
    name = pattern or next((known for known in PATTERNS if known in path.name), None)
    if name is None:
        raise DataError(
            f"{path}: a tiktoken file does not contain the pattern that splits text; set "
            f"corpus.tokenizer.pattern to one of {', '.join(PATTERNS)}, or to a regular expression"
        )
    end = _ENDS.get(name, -1)
    if end < 0 or end in ranks.values():
        end = max(ranks.values()) + 1
    expression = PATTERNS.get(name, name)
    fast = _fast(ranks, expression, path, end=end)
    original = tiktoken.Encoding(name, pat_str=expression, mergeable_ranks=ranks, special_tokens={})
    for sample in (*samples, *probes(_texts(ranks))):
        if fast.encode(sample, add_special_tokens=False).ids != original.encode_ordinary(sample):
            raise DataError(
                f"{path}: the converted tokenizer is not exact: tiktoken gives other ids for "
                f"{sample[:40]!r}"
            )
    return fast


def read_ranks(path: Path) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise DataError(f"{path}, line {number}: not BASE64 RANK: {error}") from None
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise DataError(f"{path}: no rank for the byte {missing[0]}; every byte needs one")
    if len(set(ranks.values())) < len(ranks):
        raise DataError(f"{path}: two tokens have the same rank")
    return ranks


def merges(order: Mapping[Symbol, Any], ids: Mapping[Symbol, int]) -> list[tuple[Symbol, Symbol]]:
    """Return all pairs of tokens that spell a token, sorted by its order, then by their own ids."""
    found = [
        (at, ids[left], ids[right], (left, right))
        for token, at in order.items()
        for left, right in ((token[:place], token[place:]) for place in range(1, len(token)))
        if left in order and right in order
    ]
    return [pair for *_, pair in sorted(found)]


def probes(tokens: Iterable[str]) -> Iterator[str]:
    """Yield texts with equal ranks: runs of one character, and tokens that overlap themselves."""
    yield from (mark * length for mark in " a=-.0\n" for length in (2, 3, 5, 7, 12, 17, 33))
    overlapping = (token for token in tokens if len(token) > 1 and token[0] == token[-1])
    for token in islice(overlapping, 300):
        yield "x" + token + token[1:] + token[1:] + token


def byte_level(expression: str) -> pre_tokenizers.PreTokenizer:
    """Return the splitter of byte-level BPE; `tokenizers` raises Exception for a bad expression."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(expression), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _fast(
    ranks: Mapping[bytes, int], expression: str, path: Path, *, end: int
) -> tokenizers.Tokenizer:
    letters = {byte: char for char, byte in byte_alphabet().items()}
    spelled = {"".join(map(letters.__getitem__, token)): rank for token, rank in ranks.items()}
    vocabulary = {**spelled, END: end}
    fast = tokenizers.Tokenizer(
        models.BPE(vocabulary, merges(spelled, spelled), ignore_merges=True)
    )
    try:
        fast.pre_tokenizer = byte_level(expression)
    except Exception as fault:  # `tokenizers` raises Exception itself
        raise DataError(f"{path}: pattern must be a regular expression: {fault}") from None
    fast.decoder = decoders.ByteLevel()
    fast.add_special_tokens([AddedToken(END, special=True, normalized=False)])
    return fast


def _texts(tokens: Iterable[bytes]) -> Iterator[str]:
    for token in tokens:
        with suppress(UnicodeDecodeError):
            yield token.decode()


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
