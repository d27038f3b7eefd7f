"""Which tokenizers spell a text byte by byte, and the table of bytes an id that follows.

Byte-level BPE, and SentencePiece vocabularies whose normaliser only marks spaces. Normalisers of
characters (NFC, lower-casing) leave ASCII its length: with them the table serves ASCII alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from segmenters.align import SPACE_MARK, ByteTable
from train.data.tokenizing.chunks import steps_of

# Normalisers that leave ASCII as it is, or keep its length.
_PLAIN_IN_ASCII = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"}
_SPLITTERS = {"Split", "Digits", "Punctuation"}
_MARKS_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}
_PREPENDS = {"type": "Prepend", "prepend": SPACE_MARK}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Spelling:
    """table: bytes an id; ascii_only: it holds for ASCII alone; before: see `prefix`."""

    table: ByteTable
    ascii_only: bool
    before: str | None

    def prefix(self, text: str) -> int:
        """Bytes that the tokenizer writes before a text: a space, or none."""
        if self.before is None:
            return 0
        if self.before == "always":
            return 1
        return int(not text.startswith((" ", SPACE_MARK) if self.before == "metaspace" else " "))


def spelling(definition: Mapping[str, Any], vocabulary: Mapping[str, int]) -> Spelling | None:
    """The table of a tokenizer (the content of its tokenizer.json); None if pieces spell no text.

    vocabulary: {piece: id}, added tokens included.
    """
    model = definition["model"]
    affixes = ("continuing_subword_prefix", "end_of_word_suffix")
    if model["type"] not in ("BPE", "Unigram") or any(model.get(key) for key in affixes):
        return None
    normalisers = steps_of(definition["normalizer"], "normalizers")
    marking = [step for step in normalisers if step["type"] not in _PLAIN_IN_ASCII]
    steps = steps_of(definition["pre_tokenizer"], "pretokenizers")
    own = [step for step in steps if step["type"] not in _SPLITTERS]
    added = definition["added_tokens"]
    ids: dict[str, list[int]] = {
        "special": [token["id"] for token in added if token["special"]],
        "verbatim": [token["id"] for token in added if not token["special"]],
    }
    if [step["type"] for step in own] == ["ByteLevel"] and not marking:
        try:
            table = ByteTable.from_vocabulary(vocabulary, **ids)
        except ValueError:
            return None
        before = "byte_level" if own[0]["add_prefix_space"] else None
    elif _spaces_are_marked(marking, own):
        unknown = unknown_piece(definition)
        ids["special"] += [] if unknown is None else [vocabulary[unknown]]
        table = ByteTable.from_sentencepiece(vocabulary, **ids)
        before = "metaspace" if own and own[0]["prepend_scheme"] != "never" else None
        before = "always" if _PREPENDS in marking else before
    else:
        return None
    return Spelling(table=table, ascii_only=len(marking) < len(normalisers), before=before)


def unknown_piece(definition: Mapping[str, Any]) -> str | None:
    """The piece that stands for what the vocabulary does not hold."""
    model = definition["model"]
    if model["type"] == "Unigram":
        return None if model["unk_id"] is None else model["vocab"][model["unk_id"]][0]
    return model.get("unk_token")


def _spaces_are_marked(marking: list[dict[str, Any]], own: list[dict[str, Any]]) -> bool:
    """Whether every space, and nothing else, is changed, into one mark."""
    if any(step not in (_MARKS_SPACES, _PREPENDS) for step in marking):
        return False
    if [step["type"] for step in own] == ["Metaspace"]:
        return own[0]["replacement"] == SPACE_MARK and not marking
    return not own and _MARKS_SPACES in marking
