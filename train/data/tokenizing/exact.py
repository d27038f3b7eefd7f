"""Trying a tokenizer's offsets: do they lead back to the characters that its tokens stand for?

Offsets of fast tokenizers refer to the text as it was before normalisation, through a map that
the `tokenizers` library keeps; such maps have had faults. The sample holds what has broken them:
compositions, ligatures, scripts, emoji, runs of white space. A tokenizer that fails cannot be
mapped exactly, and is refused with the first token that is out of place.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import tokenizers

from segmenters.align import SPACE_MARK, anchors_from_offsets, byte_alphabet

_WORDS = [
    "The",
    "cat",
    "can't.",
    "na\xefve",
    "Stra\xdfe",
    "\xc9T\xc9",
    "cafe\u0301",
    "\u4e2d\u6587\u3002",
    "\u3042\u308a\u304c",
    "\ud55c\uad6d\uc5b4",
    "\u0928\u092e\u0938\u094d\u0924\u0947",
    "\U0001f600\U0001f468",
    "\ufb01ne",
    "\u2460",
    "\uff21\uff22",
    "x==y;",
    "1234",
    "\u0130stanbul",
    "\u0645\u0631\u062d\u0628\u0627",
    "a\u0300\u0301b",
    "end",
]
OFFSET_SAMPLE = "".join(
    word + (" ", "\n", "  ", "\n\n  ", " \t", "\u00a0")[place % 6]
    for place, word in enumerate([*_WORDS, *_WORDS[::-1], *_WORDS[::2]])
)
_ORNAMENTS = re.compile(rf"^##|</w>$|[\s{SPACE_MARK}]+")
_BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")


def offset_fault(fast: tokenizers.Tokenizer, definition: dict[str, Any]) -> str | None:
    """What is wrong with the offsets of the sample's tokens; None if nothing is."""
    text = OFFSET_SAMPLE
    encoding = fast.encode(text, add_special_tokens=False)
    spans = encoding.offsets
    try:
        anchors_from_offsets(text, spans)
    except ValueError as error:
        return str(error)
    covered, last = [False] * len(text), 0
    for (start, end), piece in zip(spans, encoding.tokens, strict=True):
        if start < last and start < end:
            return f"{piece!r} begins at character {start}, before the token that precedes it"
        last = max(last, start)
        covered[start:end] = [True] * (end - start)
        fault = _piece_fault(fast, definition, piece, text, start, end)
        if fault:
            return fault
    return _coverage_fault(fast, text, covered)


def _piece_fault(
    fast: tokenizers.Tokenizer,
    definition: dict[str, Any],
    piece: str,
    text: str,
    start: int,
    end: int,
) -> str | None:
    shown = _shown(piece, definition)
    if shown is None or start == end:
        return None
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1  # composed into the character that the offsets name
    stands = text[start:end]
    if fast.normalizer is not None:
        stands = fast.normalizer.normalize_str(stands)
    stands = _ORNAMENTS.sub("", stands)
    # A character may stand for several (a ligature), which tokens then share.
    if shown in stands:
        return None
    return f"{piece!r} is said to stand for {text[start:end]!r} (characters {start} to {end})"


def _shown(piece: str, definition: dict[str, Any]) -> str | None:
    """The characters of a piece; None where it is no whole characters."""
    model = definition["model"]
    unknown = model.get("unk_token")
    if model["type"] == "Unigram" and model["unk_id"] is not None:
        unknown = model["vocab"][model["unk_id"]][0]
    if piece == unknown or _BYTE_PIECE.fullmatch(piece):
        return None
    alphabet = byte_alphabet()
    if "ByteLevel" in str(definition["pre_tokenizer"]):
        if not all(char in alphabet for char in piece):
            return None
        try:
            piece = bytes(map(alphabet.__getitem__, piece)).decode()
        except UnicodeDecodeError:
            return None
    return _ORNAMENTS.sub("", piece)


def _coverage_fault(fast: tokenizers.Tokenizer, text: str, covered: list[bool]) -> str | None:
    """Each word that the tokenizer keeps must begin inside of a token."""
    for found in re.finditer(r"\S+", text):
        start, end = found.span()
        if any(covered[start:end]):
            continue
        if fast.encode(found[0], add_special_tokens=False).ids:
            return f"{found[0]!r} (characters {start} to {end}) belongs to no token"
    return None
