"""How one part of a source is made: documents -> cuts -> tokens and marks -> a small data set."""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np

from segmenters.align import DOCUMENT, Anchors, mark
from segmenters.base import Cuts, Segmenter, SegmenterError, tallied
from segmenters.wording import counted
from train.data.preparing.duplicates import hash_of, store_hashes
from train.data.preparing.flaws import Flaws
from train.data.preparing.kept import KeptDocuments
from train.data.preparing.statistics import Lengths, Sample, Shares
from train.data.preparing.work import Work
from train.data.reading.documents import Document, grouped
from train.data.store.writer import ShardWriter
from train.disk.manifest import SPLITS
from train.errors import DataError

BATCH_CHARACTERS = 2_000_000
_TOGETHER = 1 << 18  # characters of short documents that are marked and written at once
_ONE_SHARD = 1 << 62  # tokens: a part is in one shard, and `merge` divides it anew
_SLICE = 1 << 20  # characters
_REPORTED = 1000  # documents between two reports of progress
# New objects between two searches for cycles, which would take a fourth of the time of short rows:
# each of these is some objects, and there are no cycles.
_BETWEEN_SEARCHES = 100_000
# A document with its ids, anchors and cuts.
_Row = tuple[Document, np.ndarray, np.ndarray, tuple[Cuts, ...]]


class PartWriter(ExitStack):
    """A writer of FOLDER/{train,validation,test} of a source, those that have documents."""

    def __init__(self, work: Work, name: str, folder: Path) -> None:
        super().__init__()
        self.work, self.name, self.folder = work, name, folder
        self.source, self.tokenizer = work.sources[name], work.tokenizer
        self.split, self.kept = self.source.drawn, self.source.kept
        self.levels = len(self.kept.level_names)
        self.seen: set[str] = set()  # ids that split.ids names
        self.empty = 0
        # Characters by the segmenter that was chosen, and by the rule that cut them.
        self.chosen, self.done = Shares(), Shares()
        self.lengths, self.sample, self.flaws = Lengths(), Sample(), Flaws()
        self._writers: dict[str, ShardWriter] = {}
        # The segmenter of the last document, with its levels and its name.
        self._last: tuple[Segmenter, Segmenter, str] = (self.source.segmenter, self.kept, "")

    def __enter__(self) -> Self:
        self.callback(gc.set_threshold, *gc.get_threshold())
        gc.set_threshold(_BETWEEN_SEARCHES)
        return self

    def add(self, batch: Sequence[Document]) -> None:
        for document in batch:
            self.flaws.add(document)
        if self.split.within:
            batch = [piece for document in batch for piece in self._pieces(document)]
        # Cut before tokens are made, unless cuts depend on them, and free what is no longer needed,
        # since a document may have 100 MB: in reverse order, so that `pop` frees each one when its
        # document is written.
        before_tokens = not self.kept.in_tokens
        with tallied() as rules:
            # All are chosen before one is cut: in turns, both take a third longer for short rows.
            chosen = [self._segmenter_of(document) for document in batch]
            levels: list[tuple[Cuts, ...]] = [()] * len(batch)
            if before_tokens:
                cut = self._cut
                levels = [cut(*pair, rules) for pair in zip(batch, chosen, strict=True)]
                self._require_tiled(batch, levels)
            levels.reverse()
            encoded = self.tokenizer.encode_documents([document.text for document in batch])[::-1]
            rows: defaultdict[str, list[_Row]] = defaultdict(list)
            sizes: Counter[str] = Counter()
            named = self.split.named
            for document, segmenter in zip(batch, chosen, strict=True):
                if named and document.id in named:
                    self.seen.add(document.id)
                cuts, (ids, anchors) = levels.pop(), encoded.pop()
                if not len(ids):
                    self.empty += 1
                    continue
                split = self.split.of(document.id)
                if not before_tokens:
                    cuts = self._cut(document, segmenter, rules, anchors)
                    self._require_tiled([document], [cuts])
                self.sample.offer(document.text, cuts[0], id=document.id, split=split)
                rows[split].append((document, ids, anchors, cuts))
                sizes[split] += len(document.text)
                del ids, anchors, cuts
                if sizes[split] >= _TOGETHER:
                    self._write(split, rows.pop(split))
                    sizes[split] = 0
        for split in rows:
            self._write(split, rows[split])

    def _pieces(self, document: Document) -> list[Document]:
        if fields := document.placed_fields:
            raise DataError(
                f"corpus.split.within cannot split {document.id}, whose fields {fields} may refer "
                "to positions in the whole text; set corpus.split.within=false"
            )
        return self.split.pieces(document) if document.text else [document]  # it is counted

    @property
    def counts(self) -> list[int]:
        """Documents, bytes of text, tokens and segments."""
        keys = ("documents", "bytes", "tokens", "segments")
        return [sum(writer.counts[key] for writer in self._writers.values()) for key in keys]

    def result(self) -> dict[str, Any]:
        return {
            "levels": self.levels,
            "empty": self.empty,
            "counts": self.counts,
            "splits": [split for split in SPLITS if split in self._writers],
            "named": sorted(self.seen),
            "segmenters": self.chosen.counts,
            "done": self.done.counts,
            "lengths": self.lengths.state(),
            "sample": self.sample.best,
            "flaws": self.flaws.state(),
        }

    def _write(self, split: str, rows: list[_Row]) -> None:
        """Write documents of a split, and free what is no longer needed."""
        if (writer := self._writers.get(split)) is None:
            writer = self.work.writer(self.name, split, self.folder, self.levels, _ONE_SHARD)
            self._writers[split] = self.enter_context(writer)
        documents, *columns = zip(*rows, strict=True)
        rows.clear()
        ids, anchors, levels = map(list, columns)
        del columns
        ends = np.cumsum([len(of_document) + 1 for of_document in ids])
        eos = np.array([self.tokenizer.eos_id], np.int32)
        # Not yet of the writer's type, in which an id out of range would be another one.
        tokens = np.concatenate([*chain.from_iterable((of_document, eos) for of_document in ids)])
        ids.clear()
        firsts = np.cumsum([0, *(len(document.text) for document in documents[:-1])])
        marks = _marks(anchors, levels, firsts, ends)
        self.lengths.add(marks, ends)
        writer.add_documents(
            tokens,
            marks,
            ends=ends,
            ids=[document.id for document in documents],
            sizes=[_bytes_of(document.text) for document in documents],
            replaced=sum(document.replaced for document in documents),
        )

    def _segmenter_of(self, document: Document) -> Segmenter:
        try:
            return self.source.segmenter_of(document)
        except SegmenterError as fault:
            raise fault.in_document(document.id) from fault

    def _cut(
        self,
        document: Document,
        chosen: Segmenter,
        rules: Counter[str],
        anchors: Anchors | None = None,
    ) -> tuple[Cuts, ...]:
        text = document.text
        rules.clear()
        if chosen is not self._last[0]:
            self._last = (chosen, self.kept.around(chosen), repr(chosen))
        _, kept, name = self._last
        try:
            if anchors is not None:
                levels = kept.levels_of_tokens(text, anchors)
            else:
                levels = kept.levels(text)
        except SegmenterError as fault:
            raise fault.in_document(document.id) from fault
        if text and chosen is not self.source.segmenter:
            self.chosen.put(name, 1, len(text))
        self.done.add(chosen, rules, len(text))
        return levels

    def _require_tiled(
        self, documents: Sequence[Document], levels: Sequence[tuple[Cuts, ...]]
    ) -> None:
        """Raise SegmenterError for the first document whose cuts are not those of a text."""
        sizes = [len(document.text) for document in documents]
        if all(len(cuts) == self.levels for cuts in levels) and _are_tiled(levels, sizes):
            return
        for document, cuts in zip(documents, levels, strict=True):
            if len(cuts) != self.levels or not _are_tiled([cuts], [len(document.text)]):
                rule = "cuts must increase from 0 to the end of the text, in"
                message = f"source {self.name}: {rule} {counted(self.levels, 'level')}"
                raise SegmenterError(message, document=document.id)


def _are_tiled(levels: Sequence[tuple[Cuts, ...]], sizes: Sequence[int]) -> bool:
    """Return whether all cuts of each text increase from 0 to its size."""
    for cuts in zip(*levels, strict=True):
        counts = np.array([*map(len, cuts)])
        if not counts.all():
            return False
        joined = cuts[0] if len(cuts) == 1 else np.concatenate(cuts)
        last = np.cumsum(counts) - 1
        rises = joined[1:] > joined[:-1]
        rises[last[:-1]] = True
        if not rises.all() or joined[last - counts + 1].any() or (joined[last] != sizes).any():
            return False
    return True


def _marks(
    anchors: list[np.ndarray], levels: list[tuple[Cuts, ...]], firsts: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Return the marks of documents as of one text, in which they begin at `firsts`."""
    # Cuts get the type of the anchors, or numpy would make large copies of these. A cut behind the
    # last token of a document is at the start of the next one, which has all levels.
    cuts = [_moved([*level], firsts) for level in zip(*levels, strict=True)]
    levels.clear()
    marks = mark(_moved(anchors, firsts), cuts)
    # The end of a document has no mark: it belongs to the last segment.
    behind = ends - np.arange(1, len(ends) + 1)
    marks[behind[:-1]] |= DOCUMENT
    return np.insert(marks, behind, 0)


def _moved(arrays: list[np.ndarray], by: np.ndarray) -> np.ndarray:
    """Return the numbers of all arrays, each moved by one of `by`, as int32."""
    joined = np.concatenate(arrays, dtype=np.int32, casting="unsafe")
    if len(arrays) > 1:
        joined += np.repeat(by.astype(np.int32), [*map(len, arrays)])
    arrays.clear()
    return joined


def make_part(work: Work, rank: int) -> None:
    if work.result(rank) is None:
        make = _hash if work.product == "hashes" else _write
        work.put(rank, lambda folder: make(work, rank, folder))


def _write(work: Work, rank: int, folder: Path) -> dict[str, Any]:
    kept = KeptDocuments(work, rank)
    with PartWriter(work, work.tasks[rank].source, folder) as writer:
        for batch, _ in grouped(kept.sized(), size=BATCH_CHARACTERS):
            writer.add(batch)
            batch.clear()
            work.report(rank, writer.counts)
    return {
        **writer.result(),
        "duplicates": kept.duplicates,
        "bad": kept.bad,
        "examples": kept.examples,
        "filtered": +kept.filtered,  # without filters that dropped nothing
    }


def _hash(work: Work, rank: int, folder: Path) -> dict[str, Any]:
    rows, size = [], 0
    for number, document in enumerate(KeptDocuments(work, rank), start=1):
        if document.text:  # empty documents are counted as empty, not as duplicates
            rows.append((*hash_of(document.text), document.metadata["place"]))
            size += len(document.text)
        if number % _REPORTED == 0:
            work.report(rank, [len(rows), size, 0, 0])
    store_hashes(folder, rows)
    return {"counts": [len(rows), size, 0, 0]}


def _bytes_of(text: str) -> int:
    """Return the size of a text in UTF-8 bytes, without a whole copy of a large one."""
    if text.isascii():
        return len(text)
    slices = range(0, len(text), _SLICE)
    return sum(len(text[start : start + _SLICE].encode()) for start in slices)
