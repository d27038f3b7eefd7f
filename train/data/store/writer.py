"""Writes one split of one source as shards (format: shards.py), by documents or by data sets.

A shard takes documents until it holds `shard_tokens` tokens. So the bytes depend only on the
documents and their order: merged parts (`extend`) give exactly the bytes of a single process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.wording import counted
from train.data.store.shards import FORMAT, MANIFEST, VERSION, DataSet, shard_file, suffixes
from train.disk.files import Output, remove, sync, writing
from train.disk.manifest import plain, store
from train.errors import DataError

SHARD_TOKENS = 1 << 28
_UINT16_IDS = 65_536
_COPIED_TOKENS = 1 << 20  # at once, which bounds the memory
_COPIED_DOCUMENTS = 1 << 16
_WRITTEN_TOKENS = 1 << 18  # at once, of short documents
# Keys of the manifest in which data sets must agree to be merged.
_ALIKE = ("levels", "vocab_size", "tokenizer", "segmenter")

Bits = npt.NDArray[np.uint8]


class ShardWriter:
    """A writer of one split of one source; as a context manager, it leaves all files or none.

    vocab_size: ids are below it. levels: number of segment levels; bit 1 + k of a mark holds level
    k. description: what the manifest holds besides counts and files (fingerprints, source, split).
    shard_tokens: a shard with as many takes no further document.
    Files that an interrupted writer of this name left in the folder are removed.
    """

    def __init__(
        self,
        *,
        folder: Path,
        name: str,
        vocab_size: int,
        levels: int,
        description: dict[str, Any],
        shard_tokens: int = SHARD_TOKENS,
    ) -> None:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        if (folder / MANIFEST).exists():
            cure = "remove it, or write to another folder"
            raise DataError(f"{folder} already contains a data set; {cure}")
        _remove_leftovers(folder, name)
        self.folder, self.name, self.levels = folder, name, levels
        self.vocab_size, self.shard_tokens = vocab_size, shard_tokens
        self.dtype = np.dtype("<u2" if vocab_size <= _UINT16_IDS else "<u4")
        self.counts = dict.fromkeys(("documents", "tokens", "segments", "bytes", "replaced"), 0)
        self._description = {**description, "vocab_size": vocab_size, "levels": levels}
        self._files: dict[str, Any] = {}
        self._shards: list[_OpenShard] = []
        self._undo = ExitStack()

    def add(
        self,
        tokens: npt.NDArray[np.integer],
        marks: npt.NDArray[np.uint8],
        *,
        id: str,
        size: int,
        replaced: int = 0,
    ) -> None:
        """Append a document: its tokens, one mark per token, and its size in UTF-8 bytes."""
        ends = np.array([len(tokens)])
        self.add_documents(tokens, marks, ends=ends, ids=[id], sizes=[size], replaced=replaced)

    def add_documents(
        self,
        tokens: npt.NDArray[np.integer],
        marks: npt.NDArray[np.uint8],
        *,
        ends: npt.NDArray[np.int64],
        ids: Sequence[str],
        sizes: Sequence[int],
        replaced: int = 0,
    ) -> None:
        """Append documents, of which each ends in `tokens` at one of `ends`; otherwise as `add`."""
        starts = np.concatenate(([0], ends[:-1]))
        known = (2 << self.levels) - 1  # the bits of the document and of all levels
        sound = (
            len(tokens) == len(marks)
            and (starts < ends).all()
            and 0 <= tokens.min() <= tokens.max() < self.vocab_size
            and (marks[starts] == known).all()
            and np.count_nonzero(marks & ~np.uint8(known - 1)) == len(ids)
        )
        for id, start, end in zip(ids, starts, ends, strict=True) if not sound else ():
            self._require_document(tokens[start:end], marks[start:end], id)
        first = 0
        while first < len(ids):
            start = int(starts[first])
            shard, last = self._room(ends, first, start)
            stop = int(ends[last - 1])
            inside = marks[start:stop]
            bits = [(inside >> np.uint8(1 + level)) & np.uint8(1) for level in range(self.levels)]
            moved = shard.counts["tokens"] - start
            shard.add_tokens(tokens[start:stop].astype(self.dtype, copy=False), bits)
            # One line each, since JSON has no line end in a string.
            lines = json.dumps(ids[first:last], separators=("\n", ""))[1:-1].encode() + b"\n"
            many = np.array(sizes[first:last], np.int64)
            shard.add_documents(ends=ends[first:last] + moved, sizes=many, lines=lines)
            self.counts["segments"] += int(np.count_nonzero(bits[0]))
            first = last
        for key, number in (
            ("documents", len(ids)),
            ("tokens", len(tokens)),
            ("bytes", sum(sizes)),
            ("replaced", replaced),
        ):
            self.counts[key] += number

    def extend(self, part: DataSet) -> None:
        """Append a data set with the bytes that `add` would give; DataError if made differently."""
        self._require_alike(part)
        lines = part.id_lines()
        first = 0
        while first < len(part):
            shard, last = self._room(part.document_ends, first, part.span(first)[0])
            _copy(part, first, last, lines=lines, to=shard)
            first = last
        for key in self.counts:
            self.counts[key] += part.manifest["counts"][key]

    def _finish(self) -> None:
        """Move all files into place, the manifest last."""
        self._files |= (self._shards[-1] if self._shards else self._open()).commit()
        with writing(self.folder):
            sync(self.folder)
        self._undo.callback(remove, self.folder / MANIFEST)
        head = {"format": FORMAT, "version": VERSION, "name": self.name, "dtype": self.dtype.name}
        shards = [shard.counts for shard in self._shards]
        counted = {"counts": self.counts, "shards": shards, "files": self._files}
        store(self.folder / MANIFEST, {**head, **self._description, **counted})

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._undo:
            if kind is None:
                self._finish()
                self._undo.pop_all()

    def _room(self, ends: npt.NDArray[np.int64], first: int, start: int) -> tuple[_OpenShard, int]:
        """Return a shard for documents, and the one before which it is full.

        ends: of documents in their tokens. first: the first of them, which begins at `start`.
        """
        shard = self._open()
        # The token with which the shard is full; its document is still taken.
        full = start + self.shard_tokens - shard.counts["tokens"]
        return shard, min(int(np.searchsorted(ends, full)) + 1, len(ends))

    def _open(self) -> _OpenShard:
        """Return the open shard; a full one is committed, and the next one opened."""
        if self._shards:
            if self._shards[-1].counts["tokens"] < self.shard_tokens:
                return self._shards[-1]
            self._files |= self._shards[-1].commit()
        outputs = {}
        for suffix in suffixes(self.levels):
            path = self.folder / shard_file(self.name, len(self._shards), suffix)
            outputs[suffix] = Output(path)
            self._undo.callback(outputs[suffix].discard)
        self._shards.append(_OpenShard(outputs, levels=self.levels))
        return self._shards[-1]

    def _require_document(
        self, tokens: npt.NDArray[np.integer], marks: npt.NDArray[np.uint8], id: str
    ) -> None:
        if not len(tokens) or len(tokens) != len(marks):
            sizes = f"{counted(len(tokens), 'token')} with {counted(len(marks), 'mark')}"
            raise DataError(f"document {id}: {sizes}")
        least, most = tokens.min(), tokens.max()
        if not 0 <= least <= most < self.vocab_size:
            rule = f"ids must be from 0 to {self.vocab_size - 1}"
            raise DataError(f"document {id}: {rule}, were: {least} to {most}")
        # Bitmaps hold nothing else: a document starts once, and with a segment of each level.
        known = (2 << self.levels) - 1  # the bits of the document and of all levels
        if marks[0] != known or (marks[1:] & ~np.uint8(known - 1)).any():
            raise DataError(
                f"document {id}: only its first mark may have bit 0; the first must be "
                f"{known} for levels={self.levels}, was: {marks[0]}"
            )

    def _require_alike(self, part: DataSet) -> None:
        for key in _ALIKE:
            expected, stored = plain(self._description.get(key)), part.manifest.get(key)
            if stored != expected:
                rule = f"its {key} must be {expected} to be merged"
                raise DataError(f"{part.folder}: {rule}, was: {stored}")


class _OpenShard:
    """The files of one shard while they grow. counts: documents, tokens, segments of level 0."""

    def __init__(self, outputs: Mapping[str, Output], *, levels: int) -> None:
        self.counts = dict.fromkeys(("documents", "tokens", "segments"), 0)
        self._outputs = outputs
        # What waits: to write each short document takes longer than to make it.
        self._tokens: list[npt.NDArray[np.integer]] = []
        self._bits: list[list[Bits]] = [[] for _ in range(levels)]
        self._rows = {name: bytearray() for name in ("documents", "bytes", "ids")}
        self._waiting = 0  # tokens

    def add_tokens(self, tokens: npt.NDArray[np.integer], bits: Sequence[Bits]) -> None:
        self.counts["tokens"] += len(tokens)
        self.counts["segments"] += int(np.count_nonzero(bits[0]))
        self._tokens.append(tokens)
        for waiting, new in zip(self._bits, bits, strict=True):
            waiting.append(new)
        self._waiting += len(tokens)
        if self._waiting >= _WRITTEN_TOKENS:
            self._write()

    def add_documents(
        self, *, ends: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], lines: bytes
    ) -> None:
        self.counts["documents"] += len(ends)
        self._rows["documents"] += ends.astype("<i8").tobytes()
        self._rows["bytes"] += sizes.astype("<i8").tobytes()
        self._rows["ids"] += lines

    def commit(self) -> dict[str, Any]:
        self._write(last=True)
        return {output.path.name: output.commit() for output in self._outputs.values()}

    def _write(self, *, last: bool = False) -> None:
        """Write what waits; bits of an incomplete byte only if they are the last."""
        if self._tokens:
            self._outputs["bin"].write(_joined(self._tokens).tobytes())
        self._tokens, self._waiting = [], 0
        for level, waiting in enumerate(self._bits):
            joined = _joined(waiting)
            whole = len(joined) if last else len(joined) // 8 * 8
            packed = np.packbits(joined[:whole], bitorder="little").tobytes()
            self._outputs[f"level{level}.bits"].write(packed)
            self._bits[level] = [joined[whole:].copy()]
        for name, rows in self._rows.items():
            self._outputs[name].write(bytes(rows))
            rows.clear()


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the values of arrays, without a copy of a single one."""
    if not arrays:
        return np.empty(0, np.uint8)
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _copy(part: DataSet, first: int, last: int, *, lines: Iterator[bytes], to: _OpenShard) -> None:
    """Append the documents first to last of a data set; `lines` yields their ids."""
    start, stop = part.span(first)[0], part.span(last - 1)[1]
    moved = to.counts["tokens"] - start
    for at in range(start, stop, _COPIED_TOKENS):
        end = min(at + _COPIED_TOKENS, stop)
        levels = range(part.manifest["levels"])
        to.add_tokens(part.tokens[at:end], [part.starts(at, end, level=level) for level in levels])
    for at in range(first, last, _COPIED_DOCUMENTS):
        end = min(at + _COPIED_DOCUMENTS, last)
        to.add_documents(
            ends=part.document_ends[at:end] + moved,
            sizes=part.document_bytes[at:end],
            lines=b"".join(islice(lines, end - at)),
        )


def _remove_leftovers(folder: Path, name: str) -> None:
    ours = re.compile(rf"\.?{re.escape(name)}\.\d{{5,}}\..+|\.{re.escape(MANIFEST)}\.part")
    for path in folder.iterdir():
        if ours.fullmatch(path.name):
            remove(path)
