"""Tokenizers: text -> ids, and for each id the character that decides its segment.

`Tokenizer` makes a fast tokenizer faster without changing its results:

- Long texts are encoded in chunks, 2.5 to 3 times faster than whole and in bounded memory. The
  places to cut are proved from the tokenizer's structure (chunks.py) and tested on a sample.
- If a vocabulary spells texts byte by byte, a sum of byte lengths places each token, faster than
  offsets. It is checked for each text; where it fails, and for other vocabularies, offsets are
  used, which must pass a sample (placing.py).
- Byte-level BPE is encoded by tiktoken where that is proved to give the same ids (`Twin`), 3 to 4
  times faster.

Spellings of special tokens inside a text are encoded as plain characters. Truncation, padding and
dropout of a file are switched off.
"""

import functools
import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import tokenizers

from segmenters.align import anchors_from_offsets
from train.data.reading.documents import grouped
from train.data.tokenizing.bounds import bounded, in_one_line
from train.data.tokenizing.chunks import continued, cut, places_to_cut
from train.data.tokenizing.placing import OFFSET_SAMPLE, offset_fault, spelling, unknown_piece
from train.data.tokenizing.tiktoken_ranks import probes
from train.data.tokenizing.twin import LONGEST, NoTwin, Twin
from train.errors import DataError

THREADS = "TOKENIZERS_PARALLELISM"
CHUNK_CHARACTERS = 4096  # a chunk is cut at the first place from here on
# A longer text without a place to cut is cut anyway, to bound memory.
LONGEST_CHUNK = 1_000_000
# Encoded at once: until they are ids, tokens take some 200 bytes each.
_SLAB_CHARACTERS = 1_000_000
# What meets at line ends, in all combinations.
_LEFT = ["a", ".", "5", "'", "}", "\u4e2d", "\N{GRINNING FACE}", "\u00e9", "a ", "a\t", "a\r", ""]
_SPACE = ["\n", "\n\n", " \n", "\n\n\n", "\r\n", "\t\n", "\n \n", "\u00a0\n", "\n\r\n", "\u3000\n"]
_RIGHT = ["a", "B", "7", "'s", "(", "-", "\u4e2d", "\N{GRINNING FACE}", "\u00e9", "_", "#", "\x1c"]
SAMPLE = "".join(left + space + right for left in _LEFT for space in _SPACE for right in _RIGHT)
# Words and marks that meet within a line, and "/", which o200k keeps with line ends.
_WITHIN = "".join(
    left + middle + right
    for left in ("a", "Zz", "'s", "12", "\u00e9", "\u4e2d", "don't", "!")
    for middle in ("", " ", "  ", "(", "=", '"', ".", "\t", "/\n", "\n/", "/\n/")
    for right in ("b", "Xy", "3", "\u304c", "'ll", "/", "?")
)
SAMPLES = (SAMPLE, _WITHIN, OFFSET_SAMPLE, " " + _WITHIN)
# Characters of a batch from which the proof for tiktoken pays: it takes half a second.
WORTH_A_TWIN = 1 << 18
log = logging.getLogger("bipe")


class _Part(NamedTuple):
    """A piece of text number `text` of a batch, from its character `start` on."""

    text: int
    start: int
    content: str


class Tokenizer:
    """A fast tokenizer; eos ends documents, and bos, a special token, begins them if it is given.

    DataError if tokens cannot be mapped to characters.
    """

    def __init__(self, *, fast: tokenizers.Tokenizer, eos: str, bos: str | None = None) -> None:
        definition = bounded(fast)
        # These would make encoding lossy or random.
        definition["truncation"] = definition["padding"] = None
        if "dropout" in definition["model"]:
            definition["model"]["dropout"] = None
        self.json, self.eos, self.bos = json.dumps(definition, ensure_ascii=False), eos, bos
        self._definition = definition
        # Nothing is added around texts here, and a post-processor may trim offsets.
        bare = definition | {"post_processor": None}
        later = continued(bare)
        self.fast = _open(bare)
        self._later = self.fast if later is None else _open(later)  # for parts behind the first
        eos_id = self.fast.token_to_id(eos)
        if eos_id is None:
            raise DataError(
                f"eos={eos} is not in the vocabulary; name a piece that ends a document"
            )
        self.eos_id: int = eos_id
        self.vocab_size = max(self.fast.get_vocab().values()) + 1
        with in_one_line():
            self._find_specials(bos)
            self._find_ways(bare)

    def _find_specials(self, bos: str | None) -> None:
        """Find the special tokens: which ids they have, and how a text spells them."""
        tokens = self.fast.get_added_tokens_decoder()
        unknown = unknown_piece(self._definition)
        special = {
            id: token.content
            for id, token in tokens.items()
            if token.special and token.content != unknown
        }
        self._special = np.zeros(self.vocab_size, dtype=bool)
        self._special[[*special]] = True
        self.bos_id = None if bos is None else self.fast.token_to_id(bos)
        if bos is not None and (self.bos_id is None or not self._special[self.bos_id]):
            raise DataError(
                f"bos={bos} is not a special token of the vocabulary; set corpus.tokenizer.bos=none"
            )
        # A Unigram model may hold the spelling of the unknown piece like any other; then
        # `_as_characters` cuts it in two, as it does with those of special tokens.
        self._blank = None
        if unknown and self._definition["model"]["type"] == "Unigram":
            taken = unknown in self.fast.encode(unknown, add_special_tokens=False).tokens
            self._blank = unknown if taken else None
        spellings = {*special.values(), *filter(None, [self._blank])}
        longest = sorted((text for text in spellings if len(text) > 1), key=len, reverse=True)
        self._spelled = re.compile("|".join(map(re.escape, longest)) or r"(?!)")

    def _find_ways(self, bare: dict[str, Any]) -> None:
        """Find where texts may be cut and how tokens are placed, by the definition and samples."""
        self.places = places_to_cut(bare)
        if not all(map(self._cut_exactly, SAMPLES)):
            self.places = None
        self.spelling = spelling(self._definition, self.fast.get_vocab())
        self._apart = self._special.copy()  # ids whose texts are placed by offsets
        if self.spelling is not None and self.spelling.before is not None:
            # A space is put before what follows an added token, not before that itself.
            self._apart[[token["id"] for token in self._definition["added_tokens"]]] = True
        if self.spelling is not None and not self._table_agrees():
            self.spelling = None
        fault = offset_fault(self.fast, self._definition)
        if fault and (self.spelling is None or self.spelling.ascii_only):
            raise DataError(f"tokens cannot be aligned with the text: {fault}")

    def __reduce__(self) -> tuple[Any, ...]:
        return reopened, (self.json, self.eos, self.bos)

    def encode_batch(self, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return ids and anchors (characters, `segmenters.align`) of each text, int32 [tokens]."""
        nothing = np.empty(0, np.int32)
        rows = [(nothing, nothing)] * len(texts)
        pieces_of: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        parts = ((part, len(part.content)) for part in self.parts(texts))
        for slab, _ in grouped(parts, size=_SLAB_CHARACTERS):
            with in_one_line():
                encoded = self._encode(slab)
            for (text, start, content), (ids, anchors) in zip(slab, encoded, strict=True):
                if len(content) == len(texts[text]):  # it is the whole text
                    rows[text] = ids, anchors
                else:
                    pieces_of.setdefault(text, []).append((ids, anchors + np.int32(start)))
        while pieces_of:  # the parts of each text are freed once they are joined
            text, pieces = pieces_of.popitem()
            ids, anchors = map(np.concatenate, zip(*pieces, strict=True))
            rows[text] = ids, anchors
        return rows

    @functools.cached_property
    def twin(self) -> Twin | None:
        """Return what encodes faster with the same ids; None without a proof, and say why."""
        try:
            twin = Twin(self._definition)
            twin.require_same(self.fast, [*SAMPLES, *islice(probes(self.fast.get_vocab()), 500)])
        except NoTwin as why:
            log.info("tokens are made by tokenizers, which is slower than tiktoken: %s", why)
            return None
        return twin

    def encode_documents(self, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return ids and anchors as `encode_batch`, with the bos, if any, before those of a text.

        Its anchor is the first character, so that it begins the first segment of the document.
        """
        rows = self.encode_batch(texts)
        if self.bos_id is None:
            return rows
        return [
            (np.insert(ids, 0, self.bos_id), np.insert(anchors, 0, 0))
            if len(ids)
            else (ids, anchors)
            for ids, anchors in rows
        ]

    @property
    def opening(self) -> np.ndarray:
        return np.array([] if self.bos_id is None else [self.bos_id], dtype=np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        return self.fast.decode([int(id) for id in ids], skip_special_tokens=False)

    def pieces(self) -> tuple[bytes, ...]:
        """Return the bytes of text of each id, or what it adds after a word; empty if special."""
        spells = self.spelling or spelling(self._definition, self.fast.get_vocab())
        if spells is not None:
            return spells.table.pieces
        ids = range(self.vocab_size)
        before: list[int] = []
        if self._definition["decoder"] != {"type": "Fuse"}:  # which joins the pieces as they are
            before = [*islice((id for id in ids if self.decode([id]).isalpha()), 1)]
            if not before:
                raise DataError(
                    "no token starts with a space: the text of single ids cannot be found"
                )
        size = len(self.decode(before))
        return tuple(
            b"" if self._special[id] else self.decode([*before, id])[size:].encode() for id in ids
        )

    def fingerprint(self) -> dict[str, Any]:
        return {
            "sha256": hashlib.sha256(self.json.encode()).hexdigest(),
            "vocab_size": self.vocab_size,
            "eos_id": self.eos_id,
        } | ({} if self.bos_id is None else {"bos_id": self.bos_id})

    def parts(self, texts: Sequence[str], *, at_least: int | None = None) -> Iterator[_Part]:
        """Cut texts where encoding the parts gives the ids of the whole."""
        for number, text in enumerate(texts):
            start = 0
            least = at_least or CHUNK_CHARACTERS
            if len(text) <= least:
                if text:
                    yield _Part(number, 0, text)
                continue
            for chunk in cut(text, self.places, at_least=least, at_most=LONGEST_CHUNK):
                yield _Part(number, start, chunk)
                start += len(chunk)

    def _encode(self, parts: Sequence[_Part]) -> list[tuple[np.ndarray, np.ndarray]]:
        if self.spelling is None:
            return self._by_offsets(parts)
        contents = [part.content for part in parts]
        worth = sum(map(len, contents)) >= WORTH_A_TWIN and max(map(len, contents)) <= LONGEST
        if worth and self.twin is not None:
            ids, counts = self.twin.encode_all(contents)
        else:
            rows = self._run(parts, offsets=False)
            counts = [*map(len, rows)]
            ids = np.fromiter(chain.from_iterable(rows), np.int32, sum(counts))
        prefixes = [0] * len(parts)
        if self.spelling.before is not None:
            prefixes = [0 if part.start else self.spelling.prefix(part.content) for part in parts]
        anchors, exact = self.spelling.table.anchors_of_parts(contents, ids, counts, prefixes)
        if self.spelling.ascii_only:
            exact = exact & np.array([*map(str.isascii, contents)], dtype=bool)
        ends = np.cumsum(counts)
        if self._apart[ids].any():
            hits = np.searchsorted(ends, np.flatnonzero(self._apart[ids]), side="right")
            exact[hits] = False
        doubtful = [part for part, sound in zip(parts, exact.tolist(), strict=True) if not sound]
        others = iter(self._by_offsets(doubtful))
        anchors = anchors.astype(np.int32)
        return [
            (ids[end - count : end], anchors[end - count : end]) if sound else next(others)
            for end, count, sound in zip(ends.tolist(), counts, exact.tolist(), strict=True)
        ]

    def _run(self, parts: Sequence[_Part], *, offsets: bool) -> list[Any]:
        """Return the encoding of each part, or only its ids: those without offsets are faster."""
        later = [part.start > 0 and self._later is not self.fast for part in parts]
        encodings = []
        for fast, is_later in ((self.fast, False), (self._later, True)):
            texts = [part.content for part, at in zip(parts, later, strict=True) if at is is_later]
            run = fast.encode_batch if offsets else fast.encode_batch_fast
            encodings.append(iter(run(texts, add_special_tokens=False) if texts else []))
        rows = (next(encodings[at]) for at in later)
        return [*rows] if offsets else [encoding.ids for encoding in rows]

    def _by_offsets(self, parts: Sequence[_Part]) -> list[tuple[np.ndarray, np.ndarray]]:
        rows = []
        for part, encoding in zip(parts, self._run(parts, offsets=True), strict=True):
            ids = np.array(encoding.ids, dtype=np.int32)
            if self._special[ids].any() or (self._blank and self._blank in part.content):
                rows.append(self._as_characters(part))
                continue
            flat = chain.from_iterable(encoding.offsets)
            spans = np.fromiter(flat, dtype=np.int64, count=2 * len(ids)).reshape(-1, 2)
            rows.append((ids, anchors_from_offsets(part.content, spans).astype(np.int32)))
        return rows

    def _as_characters(self, part: _Part) -> tuple[np.ndarray, np.ndarray]:
        """Encode a part that spells special tokens, with each spelling split in two."""
        ids, anchors, start = [], [], 0
        # Cut after the first character of each spelling, so that none is whole.
        places = [spelled.start() + 1 for spelled in self._spelled.finditer(part.content)]
        for end in [*places, len(part.content)]:
            content = part.content[start:end]
            encoder = self._later if part.start + start else self.fast
            encoding = encoder.encode(content, add_special_tokens=False)
            ids.append(np.array(encoding.ids, dtype=np.int32))
            spans = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
            anchors.append((anchors_from_offsets(content, spans) + start).astype(np.int32))
            start = end
        joined = np.concatenate(ids)
        if self._special[joined].any():
            piece = self.fast.id_to_token(int(joined[self._special[joined]][0]))
            raise DataError(f"the tokenizer encodes plain text as the special token {piece!r}")
        return joined, np.concatenate(anchors)

    def _table_agrees(self) -> bool:
        parts = [_Part(0, 0, "".join(filter(str.isascii, text))) for text in SAMPLES]
        pairs = zip(self._encode(parts), self._by_offsets(parts), strict=True)
        return all(map(np.array_equal, a, b) for a, b in pairs)

    def _cut_exactly(self, text: str) -> bool:
        rows = self._run([*self.parts([text], at_least=1)], offsets=False)
        return [*chain.from_iterable(rows)] == self.fast.encode(text, add_special_tokens=False).ids


def reopened(definition: str, eos: str, bos: str | None) -> Tokenizer:
    return Tokenizer(fast=tokenizers.Tokenizer.from_str(definition), eos=eos, bos=bos)


def one_thread() -> None:
    """Keep tokenizers from starting threads in this process: one worker takes one core."""
    os.environ[THREADS] = "false"


def _open(definition: dict[str, Any]) -> tokenizers.Tokenizer:
    fast = tokenizers.Tokenizer.from_str(json.dumps(definition))
    fast.encode_special_tokens = True
    return fast
