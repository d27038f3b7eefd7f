"""How one part of a source is made: documents -> cuts -> tokens and marks -> a small data set."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from datatrove.data import Document as Passed

from segmenters.align import Anchors, mark
from segmenters.base import Cuts, SegmenterError, shares_of, tallied
from segmenters.fields import KNOWN_FIELDS, NESTING_FIELDS
from segmenters.wording import counted
from train.data.preparing.duplicates import duplicates_of, hash_of, store_hashes
from train.data.preparing.statistics import Flaws, Lengths, Sample, Shares
from train.data.preparing.work import Work
from train.data.reading.documents import Bad, Document, grouped
from train.data.store.writer import ShardWriter
from train.disk.manifest import SPLITS
from train.errors import DataError

BATCH_CHARACTERS = 2_000_000
_ONE_SHARD = 1 << 62  # tokens: a part is in one shard, and `merge` divides it anew
_SLICE = 1 << 20  # characters
_EXAMPLES = 3  # of what is left out, per part
_REPORTED = 1000  # documents between two reports of progress
Stream = Iterator[Passed]


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

    def add(self, batch: Sequence[Document]) -> None:
        for document in batch:
            self.flaws.add(document)
        batch = [piece for document in batch for piece in self._pieces(document)]
        # Cut first, and free what is no longer needed, since a document may have 100 MB.
        # In reverse order, so that `pop` frees each one when its document is written.
        first = not self.kept.in_tokens
        levels = [self._cut(document) if first else None for document in batch][::-1]
        encoded = self.tokenizer.encode_documents([document.text for document in batch])[::-1]
        for document in batch:
            if document.id in self.split.named:
                self.seen.add(document.id)
            self._write(document, levels.pop(), encoded.pop())

    def _pieces(self, document: Document) -> list[Document]:
        unfit = {*document.meta} - {*KNOWN_FIELDS, *NESTING_FIELDS}
        if self.split.within and unfit:
            raise DataError(
                f"split.within cannot split {document.id}, whose fields {', '.join(sorted(unfit))} "
                "may refer to positions in the whole text; set split.within=false"
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

    def _write(
        self,
        document: Document,
        levels: tuple[Cuts, ...] | None,
        encoded: tuple[np.ndarray, np.ndarray],
    ) -> None:
        ids, anchors = encoded
        del encoded
        if not len(ids):
            self.empty += 1
            return
        levels = levels or self._cut(document, anchors)
        split = self.split.of(document.id)
        if split not in self._writers:
            made = self.work.writer(self.name, split, self.folder, self.levels, _ONE_SHARD)
            self._writers[split] = self.enter_context(made)
        writer = self._writers[split]
        tokens = np.empty(len(ids) + 1, writer.dtype)
        tokens[:-1], tokens[-1] = ids, self.tokenizer.eos_id
        del ids
        self.sample.offer(document.text, levels[0], id=document.id, split=split)
        # Cuts get the type of the anchors, or numpy would make large copies of these. The end of
        # the document has no mark: it belongs to the last segment.
        marks = mark(anchors, [cuts.astype(anchors.dtype) for cuts in levels])
        del anchors, levels
        marks = np.append(marks, np.uint8(0))
        self.lengths.add(marks)
        size = _bytes_of(document.text)
        writer.add(tokens, marks, id=document.id, size=size, replaced=document.replaced)

    def _cut(self, document: Document, anchors: Anchors | None = None) -> tuple[Cuts, ...]:
        text = document.text
        try:
            chosen = self.source.segmenter_of(document)
            kept = self.kept if chosen is self.source.segmenter else self.kept.around(chosen)
            with tallied() as rules:
                if anchors is None:
                    levels = kept.levels(text)
                else:
                    levels = kept.levels_of_tokens(text, anchors)
        except SegmenterError as fault:
            raise fault.in_document(document.id) from fault
        tiled = all(
            len(cuts) and cuts[0] == 0 and cuts[-1] == len(text) and (np.diff(cuts) > 0).all()
            for cuts in levels
        )
        if len(levels) != self.levels or not tiled:
            rule = "cuts must increase from 0 to the end of the text, in"
            message = f"source {self.name}: {rule} {counted(self.levels, 'level')}"
            raise SegmenterError(message, document=document.id)
        if text and chosen is not self.source.segmenter:
            self.chosen.add({repr(chosen): len(text)})
        self.done.add(shares_of(chosen, rules, len(text)))
        return levels


class _Reading:
    """The kept documents of a part, in datatrove's type; counts what is left out."""

    def __init__(self, work: Work, rank: int) -> None:
        self._task, self._ranks = work.tasks[rank], (rank, len(work.tasks))
        self._source = work.sources[self._task.source]
        self._repeated = duplicates_of(work, rank) if work.deduplicate else set()
        self.duplicates = 0
        self.bad: Counter[str] = Counter()
        self.filtered: Counter[str] = Counter()
        self.examples: list[str] = []

    def __iter__(self) -> Stream:
        data = self._unique()
        for filter in self._source.filters:
            # Added before the filter and taken off behind it: what is left over was dropped.
            before = self._counted(data, filter.name, 1)
            data = self._counted(filter.step().run(before, *self._ranks), filter.name, -1)
        return data

    def _unique(self) -> Stream:
        place = -1
        for item in self._source.documents.take(self._task.part):
            if isinstance(item, Bad):
                self.bad[item.rule] += 1
                if len(self.examples) < _EXAMPLES:
                    self.examples.append(f"{item.where}: {item.detail}")
                continue
            place += 1
            if place in self._repeated:
                self.duplicates += 1
                continue
            fields = {"document": item, "place": place}
            passed = Passed(text=item.text, id=item.id, metadata=fields)
            del item  # the text may be large, and the consumer frees it
            yield passed
            del passed

    def _counted(self, data: Stream, name: str, step: int) -> Stream:
        for document in data:
            self.filtered[name] += step
            yield document
            del document


def make_part(work: Work, rank: int) -> None:
    if work.result(rank) is None:
        make = _hash if work.product == "hashes" else _write
        work.put(rank, lambda folder: make(work, rank, folder))


def _write(work: Work, rank: int, folder: Path) -> dict[str, Any]:
    reading = _Reading(work, rank)
    with PartWriter(work, work.tasks[rank].source, folder) as writer:
        for batch, _ in grouped(_own(iter(reading)), size=BATCH_CHARACTERS):
            writer.add(batch)
            batch.clear()
            work.report(rank, writer.counts)
    return {
        **writer.result(),
        "duplicates": reading.duplicates,
        "bad": reading.bad,
        "examples": reading.examples,
        "filtered": +reading.filtered,  # without filters that dropped nothing
    }


def _hash(work: Work, rank: int, folder: Path) -> dict[str, Any]:
    rows, size = [], 0
    for document in _Reading(work, rank):
        if document.text:  # empty documents are counted as empty, not as duplicates
            rows.append((*hash_of(document.text), document.metadata["place"]))
            size += len(document.text)
        if len(rows) % _REPORTED == 0:
            work.report(rank, [len(rows), size, 0, 0])
    store_hashes(folder, rows)
    return {"counts": [len(rows), size, 0, 0]}


def _own(documents: Stream) -> Iterator[tuple[Document, int]]:
    for passed in documents:
        document = passed.metadata["document"]
        if passed.text is not document.text:  # a filter changed it
            document = replace(document, text=passed.text)
        del passed
        yield document, len(document.text)
        del document


def _bytes_of(text: str) -> int:
    """Return the size of a text in UTF-8 bytes, without a whole copy of a large one."""
    if text.isascii():
        return len(text)
    slices = range(0, len(text), _SLICE)
    return sum(len(text[start : start + _SLICE].encode()) for start in slices)
