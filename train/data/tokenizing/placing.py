"""How tokens are placed in the text: by a table of bytes per id, or by tested offsets.

Tables: byte-level BPE, and SentencePiece vocabularies whose normaliser only marks spaces, spell a
text byte by byte. Normalisers of characters (NFC, lower-casing) keep the length of ASCII text, so
with them the table serves ASCII only.

Offsets of fast tokenizers refer to the text before normalisation, through a map that has had
faults. The sample holds what has broken it: compositions, ligatures, scripts, emoji, runs of white
space. A tokenizer that fails is refused, with the first token that is out of place.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tokenizers

from segmenters.align import SPACE_MARK, ByteTable, anchors_from_offsets, byte_alphabet
from train.data.tokenizing.chunks import steps_of

# Normalisers that leave ASCII as it is, or keep its length.
_PLAIN_IN_ASCII = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"}
_SPLITTERS = {"Split", "Digits", "Punctuation"}
_MARKS_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}
_PREPENDS = {"type": "Prepend", "prepend": SPACE_MARK}
_SAMPLE_WORDS = (
    "The cat can't. na\xefve Stra\xdfe \xc9T\xc9 cafe\u0301 \u4e2d\u6587\u3002 \u3042\u308a\u304c "
    "\ud55c\uad6d\uc5b4 \u0928\u092e\u0938\u094d\u0924\u0947 \U0001f600\U0001f468 \ufb01ne \u2460 "
    "\uff21\uff22 x==y; 1234 \u0130stanbul \u0645\u0631\u062d\u0628\u0627 a\u0300\u0301b end"
)
_WORDS = _SAMPLE_WORDS.split()
OFFSET_SAMPLE = "".join(
    word + (" ", "\n", "  ", "\n\n  ", " \t", "\u00a0")[place % 6]
    for place, word in enumerate([*_WORDS, *_WORDS[::-1], *_WORDS[::2]])
)
_ORNAMENTS = re.compile(rf"^##|</w>$|[\s{SPACE_MARK}]+")
_BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Spelling:
    """A table of bytes per id. ascii_only: it holds only for ASCII. before: see `prefix`."""

    table: ByteTable
    ascii_only: bool
    before: str | None

    def prefix(self, text: str) -> int:
        """Return the number of bytes that the tokenizer writes before a text: a space, or none."""
        if self.before in (None, "always"):
            return int(self.before == "always")
        return int(not text.startswith((" ", SPACE_MARK) if self.before == "metaspace" else " "))


def spelling(definition: Mapping[str, Any], vocabulary: Mapping[str, int]) -> Spelling | None:
    """Return the table of a tokenizer.json with its vocabulary; None if pieces spell no text."""
    model = definition["model"]
    affixes = ("continuing_subword_prefix", "end_of_word_suffix")
    if model["type"] not in ("BPE", "Unigram") or any(model.get(key) for key in affixes):
        return None
    normalisers = steps_of(definition["normalizer"], "normalizers")
    marking = [step for step in normalisers if step["type"] not in _PLAIN_IN_ASCII]
    steps = steps_of(definition["pre_tokenizer"], "pretokenizers")
    writing = [step for step in steps if step["type"] not in _SPLITTERS]
    added = definition["added_tokens"]
    special = [token["id"] for token in added if token["special"]]
    verbatim = [token["id"] for token in added if not token["special"]]
    before = None
    if [step["type"] for step in writing] == ["ByteLevel"] and not marking:
        try:
            table = ByteTable.from_vocabulary(vocabulary, special=special, verbatim=verbatim)
        except ValueError:
            return None
        if writing[0]["add_prefix_space"]:
            before = "byte_level"
    elif _spaces_are_marked(marking, writing):
        if (unknown := vocabulary.get(unknown_piece(definition) or "")) is not None:
            special.append(unknown)
        table = ByteTable.from_sentencepiece(vocabulary, special=special, verbatim=verbatim)
        if _PREPENDS in marking:
            before = "always"
        elif writing and writing[0]["prepend_scheme"] != "never":
            before = "metaspace"
    else:
        return None
    return Spelling(table=table, ascii_only=len(marking) < len(normalisers), before=before)


def unknown_piece(definition: Mapping[str, Any]) -> str | None:
    model = definition["model"]
    if model["type"] == "Unigram":
        return None if model["unk_id"] is None else model["vocab"][model["unk_id"]][0]
    return model.get("unk_token")


def offset_fault(fast: tokenizers.Tokenizer, definition: Mapping[str, Any]) -> str | None:
    """Return which token of the sample its offsets put out of place; None if all are right."""
    text = OFFSET_SAMPLE
    encoding = fast.encode(text, add_special_tokens=False)
    try:
        anchors_from_offsets(text, encoding.offsets)
    except ValueError as error:
        return str(error)
    covered, last = [False] * len(text), 0
    for (start, end), piece in zip(encoding.offsets, encoding.tokens, strict=True):
        if start < last and start < end:
            return f"{piece!r} begins at character {start}, before the token that precedes it"
        last = max(last, start)
        covered[start:end] = [True] * (end - start)
        shown = _shown(piece, definition) if start < end else None
        # Normalisation may spell a character (a ligature) by several, which tokens then share.
        if shown is not None and shown not in _normalised(fast, text, start, end):
            place = f"{text[start:end]!r} (characters {start} to {end})"
            return f"{piece!r} does not spell {place}, where its offsets lead"
    for word in re.finditer(r"\S+", text):  # one with ids must share characters with a token
        start, end = word.span()
        if not any(covered[start:end]) and fast.encode(word[0], add_special_tokens=False).ids:
            return f"{word[0]!r} (characters {start} to {end}) belongs to no token"
    return None


def _normalised(fast: tokenizers.Tokenizer, text: str, start: int, end: int) -> str:
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1  # composed into the character that the offsets name
    change = fast.normalizer.normalize_str if fast.normalizer else str
    return _ORNAMENTS.sub("", change(text[start:end]))


def _shown(piece: str, definition: Mapping[str, Any]) -> str | None:
    """Return the text that a piece spells; None if that cannot be told from the piece alone."""
    if piece == unknown_piece(definition) or _BYTE_PIECE.fullmatch(piece):
        return None
    if "ByteLevel" in str(definition["pre_tokenizer"]):
        try:
            piece = bytes(map(byte_alphabet().__getitem__, piece)).decode()
        except (KeyError, UnicodeDecodeError):
            return None
    return _ORNAMENTS.sub("", piece)


def _spaces_are_marked(marking: list[dict[str, Any]], writing: list[dict[str, Any]]) -> bool:
    """Return whether normalisers (marking) or a Metaspace alone write SPACE_MARK for spaces."""
    if any(step not in (_MARKS_SPACES, _PREPENDS) for step in marking):
        return False
    if [step["type"] for step in writing] == ["Metaspace"]:
        return writing[0]["replacement"] == SPACE_MARK and not marking
    return not writing and _MARKS_SPACES in marking
