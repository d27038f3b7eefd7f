"""Tokenizers: text -> ids, and for each id the character by which it joins a segment.

`Tokenizer` wraps a fast tokenizer and keeps two measured tricks exact:

- Long texts are encoded in chunks, 2.5 to 3 times faster than whole. Where a text may be cut is
  the tokenizer's own rule (for the GPT-2 expression: before a line end that is followed by a
  non-space); the rule is tried on a sample at load, and without one texts are encoded whole.
- A byte-level vocabulary gives the place of every token by a sum of byte lengths, faster than
  offsets and free of their faults. The sum is checked for every text; where it fails, and for
  other vocabularies, offsets serve.

Spellings of special tokens inside a text are encoded as the characters that they are. Truncation,
padding and dropout that a file asks for are switched off.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tokenizers

from segmenters.align import ByteTable, anchors_from_offsets
from train.data.documents import DataError

CHUNK_CHARACTERS = 4096
_LINE_END = re.compile(r"\n(?=\S)")
# Name of a rule -> whether the line end belongs to the chunk before.
_CHUNK_RULES = {"before line end": False, "after line end": True}
_LEFT = ["a", ".", "5", "'", "}", "\u4e2d", "\N{GRINNING FACE}", "\u00e9", "a ", "a\t", "a\r", ""]
_SPACE = ["\n", "\n\n", " \n", "\n\n\n", "\r\n", "\t\n", "\n \n", "\u00a0\n", "\n\r\n", "\u3000\n"]
_RIGHT = ["a", "B", "7", "'s", "(", "-", "\u4e2d", "\N{GRINNING FACE}", "\u00e9", "_", "#", "\x1c"]
SAMPLE = "".join(left + space + right for left in _LEFT for space in _SPACE for right in _RIGHT)


class Tokenizer:
    """A fast tokenizer with an end-of-document token.

    fast: a `tokenizers.Tokenizer`; eos: the piece that ends a document.
    """

    def __init__(self, *, fast: tokenizers.Tokenizer, eos: str) -> None:
        self.json = _settled(fast)
        self.fast = tokenizers.Tokenizer.from_str(self.json)
        self.fast.encode_special_tokens = True
        eos_id = self.fast.token_to_id(eos)
        if eos_id is None:
            raise DataError(
                f"eos={eos} is not in the vocabulary; name a piece that ends a document"
            )
        self.eos_id: int = eos_id
        self.vocab_size = max(self.fast.get_vocab().values()) + 1
        self.table = self._byte_table()
        self.chunk_rule = self._chunk_rule()

    def encode_batch(self, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Ids and anchors (characters, see `segmenters.align`) of each text, int64 [tokens]."""
        if self.table is None:
            return self._encode_with_offsets(texts)
        ids = self._encode(texts)
        anchors = [_anchors(self.table, text, row) for text, row in zip(texts, ids, strict=True)]
        doubtful = [text for text, found in zip(texts, anchors, strict=True) if found is None]
        by_offsets = iter(self._encode_with_offsets(doubtful))
        return [
            next(by_offsets) if found is None else (row, found)
            for row, found in zip(ids, anchors, strict=True)
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special tokens appear as they are spelled."""
        return self.fast.decode([int(id) for id in ids], skip_special_tokens=False)

    def fingerprint(self) -> dict[str, Any]:
        """The hash of the whole definition, and what is derived from it."""
        return {
            "sha256": hashlib.sha256(self.json.encode()).hexdigest(),
            "vocab_size": self.vocab_size,
            "eos_id": self.eos_id,
        }

    def chunks(self, text: str, *, at_least: int = CHUNK_CHARACTERS) -> list[str]:
        """Cut a text where encoding the parts gives the ids of the whole."""
        if self.chunk_rule is None:
            return [text]
        return list(_cut(text, after=_CHUNK_RULES[self.chunk_rule], at_least=at_least))

    def _encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        parts = [self.chunks(text) for text in texts]
        flat = [part for text in parts for part in text]
        encodings = iter(self.fast.encode_batch_fast(flat, add_special_tokens=False))
        return [_joined([next(encodings).ids for _ in text]) for text in parts]

    def _encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        encoded = []
        for text in texts:
            parts = self.chunks(text)
            starts = np.cumsum([0, *map(len, parts)])
            encodings = self.fast.encode_batch(parts, add_special_tokens=False)
            offsets = [
                np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2) + start
                for encoding, start in zip(encodings, starts[:-1], strict=True)
            ]
            ids = _joined([encoding.ids for encoding in encodings])
            spans = np.concatenate(offsets) if offsets else np.empty((0, 2), np.int64)
            encoded.append((ids, anchors_from_offsets(text, spans)))
        return encoded

    def _byte_table(self) -> ByteTable | None:
        """The table of byte lengths, if the vocabulary is byte-level and the sample agrees."""
        if "ByteLevel" not in str(self.fast.pre_tokenizer):
            return None
        added = self.fast.get_added_tokens_decoder()
        try:
            table = ByteTable.from_vocabulary(self.fast.get_vocab(), special=list(added))
        except ValueError:
            return None
        ids = _joined([self.fast.encode(SAMPLE, add_special_tokens=False).ids])
        exact = _anchors(table, SAMPLE, ids) is not None and self.decode(ids) == SAMPLE
        return table if exact else None

    def _chunk_rule(self) -> str | None:
        """The first rule that leaves the ids of the sample as they are.

        Only a tokenizer that splits by a regular expression is asked: without one, merges that
        the sample does not show could cross any line end.
        """
        if not _splits_by_expression(json.loads(self.json)["pre_tokenizer"]):
            return None
        whole = self.fast.encode(SAMPLE, add_special_tokens=False).ids
        for rule, after in _CHUNK_RULES.items():
            parts = list(_cut(SAMPLE, after=after, at_least=1))
            encodings = self.fast.encode_batch_fast(parts, add_special_tokens=False)
            if [id for encoding in encodings for id in encoding.ids] == whole:
                return rule
        return None


def _cut(text: str, *, after: bool, at_least: int) -> Iterator[str]:
    start = 0
    while match := _LINE_END.search(text, start + at_least):
        end = match.end() if after else match.start()
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _anchors(table: ByteTable, text: str, ids: np.ndarray) -> np.ndarray | None:
    """Anchors by the table; None where the ids do not spell the text byte by byte."""
    try:
        return table.anchors(text, ids)
    except ValueError:
        return None


def _joined(parts: Sequence[Sequence[int]]) -> np.ndarray:
    total = sum(map(len, parts))
    return np.fromiter((id for part in parts for id in part), dtype=np.int64, count=total)


def _settled(fast: tokenizers.Tokenizer) -> str:
    """The definition without what would make encoding lossy or random."""
    definition = json.loads(fast.to_str())
    definition["truncation"] = definition["padding"] = None
    if "dropout" in definition["model"]:
        definition["model"]["dropout"] = None
    return json.dumps(definition, ensure_ascii=False)


def _splits_by_expression(pre_tokenizer: dict[str, Any] | None) -> bool:
    if pre_tokenizer is None:
        return False
    if pre_tokenizer["type"] == "Sequence":
        return any(map(_splits_by_expression, pre_tokenizer["pretokenizers"]))
    if pre_tokenizer["type"] == "ByteLevel":
        return bool(pre_tokenizer["use_regex"])
    return pre_tokenizer["type"] == "Split" and "Regex" in pre_tokenizer["pattern"]
