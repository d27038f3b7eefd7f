"""What a tokenizer.json of anyone may do to a text: grow it within bounds, and fail in one line.

Five normalisers that replace a letter by a hundred make terabytes of a page. How much the steps of
a tokenizer can add is read from its definition, before a text passes them.
"""

import base64
import binascii
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from train.data.tokenizing.chunks import steps_of
from train.errors import DataError

MOST_IDS = 1 << 22  # four times those of the largest vocabularies
MOST_GROWTH = 100  # characters, for each one of a text; U+FDFA has 18 in NFKC
_STEPS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
_LETTER_BYTES = 3  # of the letters that have the longest decompositions


def bounded(fast: Any) -> dict[str, Any]:
    """Return what a tokenizer's file holds; DataError for ids or growth without bound."""
    last = max(fast.get_vocab().values(), default=0)
    if last >= MOST_IDS:  # the library itself makes a list of all ids that are not used
        raise DataError(
            f"ids of the tokenizer must be below {MOST_IDS:,}, were up to {last:,}; number its "
            "vocabulary anew"
        )
    definition: dict[str, Any] = json.loads(fast.to_str())
    require_bounded(definition)
    return definition


def require_bounded(definition: Mapping[str, Any]) -> None:
    """Raise DataError for a tokenizer whose normalisers or decoders let a text grow without bound.

    definition: what tokenizer.json holds.
    """
    for part, inner in _STEPS.items():
        growth = math.prod(map(_growth, steps_of(definition.get(part), inner)))
        if growth > MOST_GROWTH:
            raise DataError(
                f"the {part} of the tokenizer makes up to {growth:,.0f} characters of one; at most "
                f"{MOST_GROWTH} are allowed: remove the steps that repeat text from its {part}"
            )


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn an Exception or a panic of the library in the block into a DataError."""
    try:
        yield
    except BaseException as fault:
        # A panic is of pyo3: it has no importable name.
        if type(fault) is not Exception and type(fault).__name__ != "PanicException":
            raise
        raise DataError(
            f"the tokenizer cannot encode this text: {' '.join(str(fault).split())}. Simplify the "
            "expressions of its pre_tokenizer and normalizer, add the unknown piece of its model "
            "to the vocabulary, or set corpus.tokenizer.path to another one"
        ) from None


def _growth(step: Mapping[str, Any]) -> float:
    """Return how many characters a step makes of one, at most; normal forms count as 1."""
    kind = step.get("type")
    if kind == "ByteLevel":
        return 4.0  # each byte becomes a character
    if kind == "Replace":
        pattern, content = step.get("pattern") or {}, len(step.get("content") or "")
        if text := pattern.get("String"):
            return max(1.0, content / len(text))
        return content + 1.0  # an expression may match nothing, between any two
    if kind == "Precompiled":
        return max(1.0, _longest_entry(step.get("precompiled_charsmap") or "") / _LETTER_BYTES)
    return 1.0


def _longest_entry(charsmap: str) -> int:
    """Return the bytes of the longest replacement in a table of SentencePiece.

    The table is the size of a trie (uint32), the trie, and the replacements, each with a final 0.
    """
    try:
        table = base64.b64decode(charsmap)
    except binascii.Error:
        return 0
    return max(map(len, table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")))
