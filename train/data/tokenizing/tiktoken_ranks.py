"""tiktoken's files (base64 of a token, its rank) -> fast tokenizers of byte-level BPE.

tiktoken merges the adjacent pair whose joined bytes have the lowest rank, and takes a piece of the
splitting expression whole if it is a token. The fast form has merges of all pairs that spell a
token, ordered by its rank, and `ignore_merges`. It is checked on a sample against tiktoken.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import tiktoken
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers

from segmenters.align import byte_alphabet
from train.data.tokenizing.chunks import CONTRACTIONS, GPT2, O200K_WORDS
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
