"""tiktoken files (base64 of a token, its rank) -> byte-level BPE with the same ids.

tiktoken merges the adjacent pair whose bytes have the lowest rank, whichever two tokens they come
from, and takes a piece of the splitting expression that is a token whole. The fast form: merges of
all pairs that spell a token, by its rank, and `ignore_merges`. It is held against a slow twin
(`merge`) on the sample.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers

from segmenters.align import byte_alphabet
from train.data.tokenizing.chunks import GPT2
from train.errors import DataError

_CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_O200K = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
PATTERNS = {"gpt2": GPT2, "r50k": GPT2, "p50k": GPT2, "cl100k": _CL100K, "o200k": _O200K}
END = "<|endoftext|>"
# Where the published encodings put the end of a text.
_ENDS = {"gpt2": 50256, "r50k": 50256, "p50k": 50256, "cl100k": 100257, "o200k": 199999}


def convert(path: Path, *, pattern: str | None, samples: Sequence[str]) -> tokenizers.Tokenizer:
    """The fast tokenizer of a .tiktoken file; pattern: a name of PATTERNS, or an expression.

    Without one, the name is looked for in the file's own name (cl100k_base.tiktoken).
    Raises DataError for a file that is none, an unknown pattern, or ids that differ.
    """
    ranks = read_ranks(path)
    name = pattern or next((known for known in PATTERNS if known in path.name), None)
    if name is None:
        raise DataError(
            f"{path}: a tiktoken file does not say how text is split; set pattern to one of "
            f"{', '.join(PATTERNS)}, or to the expression itself"
        )
    end = _ENDS.get(name, -1)
    if end < 0 or end in ranks.values():
        end = max(ranks.values()) + 1
    fast = _fast(ranks, PATTERNS.get(name, name), path, end=end)
    fault = _fault(fast, ranks, samples)
    if fault:
        raise DataError(f"{path}: the converted tokenizer is not exact: {fault}")
    return fast


def read_ranks(path: Path) -> dict[bytes, int]:
    """{bytes of a token: rank}. Raises DataError naming the line that is none."""
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


def merge(ranks: Mapping[bytes, int], piece: bytes) -> list[int]:
    """Ids of a piece of the splitting expression by tiktoken's rule, slowly: the twin."""
    if piece in ranks:
        return [ranks[piece]]
    parts = [piece[place : place + 1] for place in range(len(piece))]
    while True:
        pairs = [
            (ranks[left + right], place)
            for place, (left, right) in enumerate(pairwise(parts))
            if left + right in ranks
        ]
        if not pairs:
            return [ranks[part] for part in parts]
        _, place = min(pairs)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]


def _fast(
    ranks: Mapping[bytes, int], expression: str, path: Path, *, end: int
) -> tokenizers.Tokenizer:
    letters = {byte: char for char, byte in byte_alphabet().items()}
    spelled = {token: "".join(map(letters.__getitem__, token)) for token in ranks}
    merges: list[tuple[int, int, int, tuple[str, str]]] = []
    for token, rank in ranks.items():
        for place in range(1, len(token)):
            left, right = token[:place], token[place:]
            if left in ranks and right in ranks:
                pair = (spelled[left], spelled[right])
                merges.append((rank, ranks[left], ranks[right], pair))
    vocabulary = {spelled[token]: rank for token, rank in ranks.items()}
    vocabulary[END] = end
    pairs = [pair for *_, pair in sorted(merges)]
    fast = tokenizers.Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=True))
    try:
        split = Regex(expression)
    except Exception as fault:  # `tokenizers` raises Exception itself
        raise DataError(f"{path}: pattern is no expression: {fault}") from None
    fast.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(split, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    fast.decoder = decoders.ByteLevel()
    fast.add_special_tokens([AddedToken(END, special=True, normalized=False)])
    return fast


def _fault(
    fast: tokenizers.Tokenizer, ranks: Mapping[bytes, int], samples: Sequence[str]
) -> str | None:
    first = fast.pre_tokenizer[0]
    for sample in (*samples, *_runs(ranks)):
        ids = fast.encode(sample, add_special_tokens=False).ids
        pieces = (piece for piece, _ in first.pre_tokenize_str(sample))
        if ids != [id for piece in pieces for id in merge(ranks, piece.encode())]:
            return f"merging by rank gives other ids for {sample[:40]!r}"
    return None


def _runs(ranks: Mapping[bytes, int]) -> list[str]:
    """Runs of characters and of tokens that overlap themselves, where equal ranks meet."""
    runs = [mark * length for mark in " a=-.0\n" for length in (2, 3, 5, 7, 12, 17, 33)]
    for token in [t for t in ranks if len(t) > 1 and t[:1] == t[-1:]][:300]:
        try:
            shown = token.decode()
        except UnicodeDecodeError:
            continue
        runs.append("x" + shown + shown[1:] + shown[1:] + shown)
    return runs
