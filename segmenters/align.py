r"""Marks of tokens from cuts in characters.

A token belongs to the segment that contains its anchor: its first character that is not white
space, or its first character if there is only white space. Special tokens and empty offsets take
the anchor of the previous token (0 at the start), so anchors never decrease. A mark is one uint8
per token: bit 0 starts a document, bit 1 a segment, bits 2 to 7 further levels:

    text     Yes.\n   It is.         cuts 0, 5, 15
    tokens   Yes  .\n  ' It'  ' is'  .
    anchors    0   3     8     11  13
    marks    0b11  0  0b10      0   0

Anchors come from the offsets of any tokenizer, or, faster, from a `ByteTable` of a vocabulary whose
ids decode to the bytes of the text (byte-level BPE, SentencePiece with byte fallback). A cut with
no token between it and the next one is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts, Segmenter
from segmenters.checks import require_type
from segmenters.offsets import without_surrogates

DOCUMENT, SEGMENT = 1, 2
MAX_LEVELS = 7

Anchors = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint8]
_Mask = npt.NDArray[np.bool_]
_Ids = Collection[int]
_Vocabulary = Mapping[str, int]

# What SentencePiece writes for a space, and for a byte.
SPACE_MARK = "\u2581"
_BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")
# The length of an id of unknown bytes: so negative that no sum with it matches a text.
_NEVER = -(2**40)

# By str.isspace no character beyond this one is white space; a test checks them all.
_LAST_SPACE = 0x3000


def mark(anchors: Anchors, levels: Sequence[Cuts]) -> Marks:
    """Return marks uint8 [tokens] from the anchors of the tokens and the cuts of each level.

    The first token starts the document and a segment of every level. Raises ValueError for more
    than seven levels, cuts that are not in a list of levels, or decreasing anchors.
    """
    anchors = np.asarray(anchors)
    if any(np.ndim(cuts) != 1 for cuts in levels):
        raise ValueError("levels must be a list of the cuts of each level, such as [cuts]")
    if not 1 <= len(levels) <= MAX_LEVELS:
        raise ValueError(f"levels must have 1 to {MAX_LEVELS} entries, was: {len(levels)}")
    if (anchors[1:] < anchors[:-1]).any():
        raise ValueError("anchors must not decrease; make them with ByteTable or from offsets")
    marks = np.zeros(len(anchors) + 1, dtype=np.uint8)  # the last one takes cuts after all tokens
    marks[0] = DOCUMENT
    for level, cuts in enumerate(levels):
        # The first token at or after each cut; between cuts that share it there is no token.
        marks[anchors.searchsorted(cuts)] |= SEGMENT << level
        marks[0] |= SEGMENT << level
    return marks[:-1]


def anchors_from_offsets(text: str, offsets: npt.ArrayLike) -> Anchors:
    """Return anchors [tokens] from a fast tokenizer's character offsets [tokens, 2].

    If the tokenizer trims white space from offsets, tokens of only white space count as empty.
    Raises ValueError for offsets outside the text, or none of which holds a character though they
    move on, as some tokenizers had them.
    """
    require_type("text", text, str)
    spans = np.atleast_1d(np.asarray(offsets, dtype=np.int64))
    if spans.shape != (len(spans), 2) and spans.size:
        raise ValueError(f"offsets must be pairs (start, end), were: {[*spans.shape]}")
    spans = spans.reshape(-1, 2)
    starts, ends = spans[:, 0], spans[:, 1]
    if spans.size and (starts.min() < 0 or ends.max() > len(text) or (starts > ends).any()):
        raise ValueError(f"offsets must be spans of the text, between 0 and {len(text)}")
    if starts.max(initial=0) and (starts == ends).all() and not text.isspace():
        raise ValueError(
            f"offsets must hold characters, but all are empty, such as ({ends[-1]}, {ends[-1]}): "
            "update tokenizers, or use ByteTable"
        )
    return _first_visible(_white_space(text), starts, ends)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ByteTable:
    """Bytes of each token id, for anchors without offsets; made by one of its class methods."""

    lengths: npt.NDArray[np.int64]  # [ids], in bytes; -1 if unknown
    spaces: npt.NDArray[np.int64]  # [ids], leading ASCII white space; 0 if there is only that
    pieces: tuple[bytes, ...] = ()  # [ids], empty if an id spells nothing

    @classmethod
    def from_vocabulary(
        cls, vocabulary: _Vocabulary, *, special: _Ids = (), verbatim: _Ids = ()
    ) -> ByteTable:
        """Return the table of a vocabulary {piece: id} in GPT-2's byte alphabet.

        `special`: ids without text (length zero); `verbatim`: ids of added tokens, whose text is
        the piece itself. Raises ValueError for a piece outside the alphabet.
        """
        alphabet = byte_alphabet()

        def spell(piece: str) -> bytes:
            try:
                return bytes(map(alphabet.__getitem__, piece))
            except KeyError as error:
                raise ValueError(
                    f"vocabulary must be byte-level, but piece {piece!r} (id {vocabulary[piece]}) "
                    f"contains {error.args[0]!r}; list added tokens in `special`, or use the "
                    "offsets"
                ) from error

        return cls._spelt_by(spell, vocabulary, special, verbatim)

    @classmethod
    def from_sentencepiece(
        cls, vocabulary: _Vocabulary, *, special: _Ids = (), verbatim: _Ids = ()
    ) -> ByteTable:
        """Return the table of a SentencePiece vocabulary: U+2581 is a space, <0x41> a byte.

        `special`: ids that may replace any text (the unknown piece): `anchors` rejects texts that
        contain one; `verbatim`: see `from_vocabulary`.
        """

        def spell(piece: str) -> bytes:
            byte = _BYTE_PIECE.fullmatch(piece)
            return bytes.fromhex(byte[1]) if byte else piece.replace(SPACE_MARK, " ").encode()

        table = cls._spelt_by(spell, vocabulary, special, verbatim)
        table.lengths[list(special)] = -1
        return table

    @classmethod
    def of_tokenizer(cls, fast: Any) -> ByteTable | None:
        """Return the table of a fast tokenizer; None if its ids do not decode to bytes."""
        fast = getattr(fast, "backend_tokenizer", fast)
        if not hasattr(fast, "to_str"):
            raise TypeError(f"fast must be a tokenizers.Tokenizer, was: {type(fast).__name__}")
        decoder = json.loads(fast.to_str())["decoder"] or {}
        steps = {step["type"] for step in decoder.get("decoders", [decoder]) if step}
        vocabulary, added = fast.get_vocab(), fast.get_added_tokens_decoder()
        special = [id for id, token in added.items() if token.special]
        verbatim = [id for id, token in added.items() if not token.special]
        if "ByteLevel" in steps:
            return cls.from_vocabulary(vocabulary, special=special, verbatim=verbatim)
        if steps & {"ByteFallback", "Metaspace"}:
            plain = {piece: id for piece, id in vocabulary.items() if id not in special}
            return cls.from_sentencepiece(plain, verbatim=verbatim)
        return None

    @classmethod
    def _spelt_by(
        cls, spell: Callable[[str], bytes], vocabulary: _Vocabulary, special: _Ids, verbatim: _Ids
    ) -> ByteTable:
        silent, plain = set(special), set(verbatim)
        size = 1 + max((*vocabulary.values(), *silent), default=-1)
        lengths = np.full(size, -1, dtype=np.int64)
        spaces = np.zeros(size, dtype=np.int64)
        lengths[list(silent)] = 0
        pieces = [b""] * size
        for piece, index in vocabulary.items():
            if index in silent:
                continue
            data = pieces[index] = piece.encode() if index in plain else spell(piece)
            lengths[index] = len(data)
            # latin-1 would take 0x85 and 0xa0, halves of other characters, for white space.
            visible = data.decode("ascii", "replace").lstrip()
            spaces[index] = (len(data) - len(visible)) if visible else 0
        return cls(lengths=lengths, spaces=spaces, pieces=tuple(pieces))

    def anchors_of_parts(
        self,
        parts: Sequence[str],
        ids: npt.ArrayLike,
        counts: Sequence[int],
        prefixes: Sequence[int],
    ) -> tuple[Anchors, _Mask]:
        """Return anchors [tokens] of several texts, each counted from its own start.

        `ids` [tokens]: those of all parts in order; `counts` [parts]: tokens of each; `prefixes`
        [parts]: bytes that the tokenizer wrote before each (a space). Also returns bool [parts],
        whether the ids decode to the part; if not, its anchors are invalid.
        """
        index, sizes = np.asarray(ids, dtype=np.int64), np.asarray(counts, dtype=np.int64)
        lengths = self.lengths.take(index, mode="clip")
        valid = (index >= 0) & (index < len(self.lengths)) & (lengths >= 0)
        before = np.concatenate([[0], np.cumsum(np.where(valid, lengths, _NEVER))])
        edges = np.concatenate([[0], np.cumsum(sizes)])
        spelt = np.diff(before[edges])
        ascii_only = all(map(str.isascii, parts))
        data = [] if ascii_only else [part.encode("utf-8", "surrogatepass") for part in parts]
        size = np.fromiter(map(len, data or parts), dtype=np.int64, count=len(parts))
        exact = spelt == size + np.asarray(prefixes, dtype=np.int64)
        base = np.cumsum(size) - size
        shift = np.repeat(base - np.asarray(prefixes, dtype=np.int64) - before[edges[:-1]], sizes)
        starts, lengths = before[:-1] + shift, np.where(valid, lengths, 0)
        characters = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
        first = np.cumsum(characters) - characters
        # The anchors of parts that are not spelt must not reach into the parts after them.
        low, high = np.repeat(first, sizes), np.repeat(first + np.maximum(characters - 1, 0), sizes)
        if ascii_only:
            anchors = np.where(lengths > 0, starts + self.spaces.take(index, mode="clip"), 0)
        else:
            limit = np.repeat(base + size, sizes)
            starts = np.clip(starts, np.repeat(base, sizes), limit)
            ends = np.clip(before[1:] + shift, starts, limit)
            bytes_ = np.frombuffer(b"".join(data), dtype=np.uint8)
            anchors = _anchors_of_bytes("".join(parts), bytes_, starts, ends)
        return np.maximum.accumulate(np.clip(anchors, low, high)) - low, exact

    def exact_anchors(self, text: str, ids: npt.NDArray[np.int64]) -> Anchors | None:
        """Return anchors [tokens], with or without a space before the text; None if not exact."""
        for prefix in (0, 1):  # SentencePiece writes a space
            anchors, exact = self.anchors_of_parts([text], ids, [len(ids)], [prefix])
            if exact[0]:
                return anchors
        return None

    def anchors(self, text: str, ids: npt.ArrayLike, *, prefix: int = 0) -> Anchors:
        """Return anchors [tokens] of the ids [tokens] of the text.

        `prefix`: bytes that the tokenizer wrote before the text (a space). A token belongs to the
        character of its first byte, even if several tokens share it. Raises ValueError if the
        ids do not decode to the text.
        """
        index = np.asarray(ids, dtype=np.int64)
        if (wrong := index[(index < 0) | (index >= len(self.lengths))]).size:
            raise ValueError(f"ids must be from 0 to {len(self.lengths) - 1}, was: {wrong[0]}")
        lengths = self.lengths[index]
        if (lengths < 0).any():
            raise ValueError(f"ids must be in the vocabulary, was: {index[lengths < 0][0]}")
        anchors, exact = self.anchors_of_parts([text], index, [len(index)], [prefix])
        if not exact[0]:
            size = len(text.encode("utf-8", "surrogatepass"))
            raise ValueError(
                f"ids must decode to the text, which has {size} bytes of UTF-8, but decode to "
                f"{lengths.sum() - prefix}; if the tokenizer normalises text, adds a prefix or "
                "added tokens, use the offsets"
            )
        return anchors


def _anchors_of_bytes(
    text: str, data: npt.NDArray[np.uint8], starts: Anchors, ends: Anchors
) -> Anchors:
    """Return anchors of spans of the text's bytes; `data` uint8 [bytes]."""
    inside = np.flatnonzero((data & 0xC0) == 0x80)  # not the first byte of its character
    # The character of a byte: its index less the continuation bytes up to it.
    first = starts - np.searchsorted(inside, starts, side="right")
    last = ends - 1 - np.searchsorted(inside, ends - 1, side="right")
    return _first_visible(_white_space(text), first, np.where(ends > starts, last + 1, first))


def _first_visible(space: _Mask, starts: Anchors, ends: Anchors) -> Anchors:
    """Return each span's first visible character, else its first; empty spans repeat the last."""
    anchors = starts.copy()
    filled = starts < ends
    leading = np.flatnonzero(filled)
    leading = leading[space[starts[leading]]]
    # Most tokens that start with white space start with one blank: only the others are searched.
    anchors[leading] += 1
    rest = (anchors[leading] == ends[leading]) | space.take(anchors[leading], mode="clip")
    leading = leading[rest]
    if len(leading):
        visible = np.flatnonzero(~space)
        place = np.searchsorted(visible, starts[leading])
        firsts = np.append(visible, len(space))[place]
        anchors[leading] = np.where(firsts < ends[leading], firsts, starts[leading])
    return np.maximum.accumulate(np.where(filled, anchors, 0))


def _white_space(text: str) -> _Mask:
    table = _space_table()
    if text.isascii():
        return table[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return table.take(codes, mode="clip")


@lru_cache(maxsize=1)
def _space_table() -> _Mask:
    return np.array([chr(code).isspace() for code in range(_LAST_SPACE + 2)])


@lru_cache(maxsize=1)
def byte_alphabet() -> dict[str, int]:
    """Return GPT-2's byte alphabet (Radford et al. 2019): {character: byte}."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + rank): byte for rank, byte in enumerate(others)
    }


def anchors_of_encoding(text: str, encoding: Any, table: ByteTable | None) -> Anchors:
    """Return the anchors of the tokens of a `tokenizers.Encoding`, without padding."""
    # By bytes where that is possible, since offsets may be trimmed of white space.
    real = np.array(encoding.attention_mask, dtype=bool)
    if table is not None:
        anchors = table.exact_anchors(text, np.array(encoding.ids, dtype=np.int64)[real])
        if anchors is not None:
            return anchors
    return anchors_from_offsets(text, np.array(encoding.offsets).reshape(-1, 2)[real])


def segment_ids(
    texts: str | Sequence[str], tokenizer: Any, *, segmenter: Segmenter
) -> dict[str, Any]:
    """Return tokens and their segments: for a text arrays [tokens], for texts lists of arrays.

    tokenizer: a `tokenizers.Tokenizer`, or a fast one of transformers. input_ids, inter_ids (index
    of the segment) and intra_ids (index in it) are int64, segment_marks uint8 as of `mark`.

    >>> dataset.map(segment_ids, batched=True, input_columns="text",
    ...             fn_kwargs={"tokenizer": tokenizer, "segmenter": Sentences()})
    """
    fast = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(fast, "encode_batch"):
        raise ValueError(f"tokenizer must be a fast one (tokenizers.Tokenizer), was: {tokenizer!r}")
    require_type("segmenter", segmenter, Segmenter)
    table = ByteTable.of_tokenizer(fast)
    rows = [texts] if isinstance(texts, str | bytes | None) else [*texts]
    for number, text in enumerate(rows):
        require_type(f"text {number}", text, str)
        if without_surrogates(text)[1]:
            raise ValueError(f"text {number} must not hold half of a character (a lone surrogate)")
    ids_of: dict[str, list[Any]] = {
        name: [] for name in ("input_ids", "segment_marks", "inter_ids", "intra_ids")
    }
    for text, encoding in zip(rows, fast.encode_batch(rows), strict=True):
        marks = mark(anchors_of_encoding(text, encoding, table), (segmenter.cut(text),))
        starts, places = marks & SEGMENT > 0, np.arange(len(marks))
        real = np.array(encoding.attention_mask, dtype=bool)
        ids_of["input_ids"].append(np.array(encoding.ids, dtype=np.int64)[real])
        ids_of["segment_marks"].append(marks)
        ids_of["inter_ids"].append(np.cumsum(starts) - 1)
        first = np.maximum.accumulate(np.where(starts, places, 0))
        ids_of["intra_ids"].append(places - first)
    return {name: ids[0] for name, ids in ids_of.items()} if isinstance(texts, str) else ids_of
