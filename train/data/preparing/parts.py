"""How one part of a source is made: documents -> cuts -> tokens and marks -> a small data set.

A datatrove pipeline of a task per part: read, filter, write. What is counted on the way goes into
one JSON-able result, so that the results of all parts, added in order, are what a single process
would have counted. Counts travel from step to step through the steps that follow, which are in the
same process and see the same task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from datatrove.data import Document as Passed
from datatrove.pipeline.base import PipelineStep

from segmenters.align import mark
from segmenters.base import Cuts, SegmenterError
from train.data.preparing.duplicates import duplicates_of, hash_of, store_hashes
from train.data.preparing.source import Source
from train.data.preparing.statistics import Lengths, Sample
from train.data.preparing.work import Work
from train.data.reading.documents import Bad, Document, grouped
from train.data.reading.split import SPLITS
from train.data.store.writer import ShardWriter
from train.data.tokenizing.tokenizers import Tokenizer

BATCH_CHARACTERS = 2_000_000
_ONE_SHARD = 1 << 62
_SLICE = 1 << 20  # characters
_EXAMPLES = 3
_REPORTED = 1000  # documents
Stream = Iterator[Passed]


class PartWriter(ExitStack):
    """Writes FOLDER/{train,validation,test}, those that have documents; a context manager.

    description: what the manifests of the splits hold beyond counts and files.
    """

    def __init__(
        self,
        *,
        name: str,
        source: Source,
        tokenizer: Tokenizer,
        description: Mapping[str, Any],
        folder: Path,
    ) -> None:
        super().__init__()
        self.name, self.source, self.tokenizer, self.folder = name, source, tokenizer, folder
        self.description = description
        self.levels = len(source.segmenter.levels(""))
        self.named = source.split.named() if source.split else set()
        self.seen: set[str] = set()
        self.empty = 0
        self.counts = [0, 0, 0, 0]  # documents, bytes of text, tokens and segments
        self.chosen: Counter[str] = Counter()
        self.lengths, self.sample = Lengths(), Sample()
        self._writers: dict[str, ShardWriter] = {}

    def add(self, batch: Sequence[Document]) -> None:
        """Segment, tokenize, mark and write a batch of documents."""
        # Cuts come first, and what is done with is let go of, since a document may have 100 MB.
        levels = [self._cut(document) for document in batch][::-1]
        encoded = self.tokenizer.encode_batch([document.text for document in batch])[::-1]
        for document in batch:
            if document.id in self.named:
                self.seen.add(document.id)
            self._write(document, levels.pop(), encoded.pop())

    def result(self) -> dict[str, Any]:
        """Return what was counted; JSON-able."""
        return {
            "levels": self.levels,
            "empty": self.empty,
            "counts": self.counts,
            "splits": [split for split in SPLITS if split in self._writers],
            "named": sorted(self.seen),
            "segmenters": self.chosen,
            "lengths": self.lengths.state(),
            "sample": self.sample.state(),
        }

    def _write(
        self,
        document: Document,
        levels: tuple[Cuts, ...],
        encoded: tuple[np.ndarray, np.ndarray],
    ) -> None:
        ids, anchors = encoded
        del encoded
        if not len(ids):
            self.empty += 1
            return
        assert self.source.split is not None
        split = self.source.split.of(document.id)
        writer = self._writer(split)
        tokens = np.empty(len(ids) + 1, writer.dtype)
        tokens[:-1], tokens[-1] = ids, self.tokenizer.eos_id
        del ids
        self.sample.offer(document.text, levels[0], id=document.id, split=split)
        # The end of a document inherits: it closes the last segment.
        # Of the anchors' type, or numpy would make large copies of them.
        marks = mark(anchors, [cuts.astype(anchors.dtype) for cuts in levels])
        del anchors, levels
        marks = np.append(marks, np.uint8(0))
        self.lengths.add(marks)
        size = _bytes_of(document.text)
        writer.add(tokens, marks, id=document.id, size=size, replaced=document.replaced)
        added = (1, size, len(marks), int(np.count_nonzero(marks & 2)))
        self.counts = [a + b for a, b in zip(self.counts, added, strict=True)]

    def _writer(self, split: str) -> ShardWriter:
        if split not in self._writers:
            self._writers[split] = self.enter_context(
                ShardWriter(
                    folder=self.folder / split,
                    name=self.name,
                    vocab_size=self.tokenizer.vocab_size,
                    levels=self.levels,
                    description={"split": split, **self.description},
                    shard_tokens=_ONE_SHARD,
                )
            )
        return self._writers[split]

    def _cut(self, document: Document) -> tuple[Cuts, ...]:
        """Return the cuts of a document; errors name it."""
        try:
            chosen = self.source.segmenter_of(document)
            if chosen is not self.source.segmenter:
                self.chosen[repr(chosen)] += 1
            levels = chosen.levels(document.text)
        except SegmenterError as fault:
            raise fault.in_document(document.id) from fault
        tiled = all(
            len(cuts)
            and cuts[0] == 0
            and cuts[-1] == len(document.text)
            and (np.diff(cuts) > 0).all()
            for cuts in levels
        )
        if len(levels) != self.levels or not tiled:
            raise SegmenterError(
                f"source {self.name}: cuts must rise from 0 to the end of the text, in "
                f"{self.levels} levels",
                document=document.id,
            )
        return levels


class _Step(PipelineStep):
    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work


class ReadPart(_Step):
    """Yields the documents of a part; counts what the reader left out."""

    type, name = "reader", "bipe part"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Stream:
        self.bad: Counter[str] = Counter()
        self.examples: list[str] = []
        task = self.work.tasks[rank]
        place = -1
        for item in self.work.sources[task.source].documents.take(task.part):
            if isinstance(item, Bad):
                self.bad[item.rule] += 1
                if len(self.examples) < _EXAMPLES:
                    self.examples.append(f"{item.where}: {item.detail}")
                continue
            place += 1
            fields = {"document": replace(item, text=""), "place": place}
            passed = Passed(text=item.text, id=item.id, metadata=fields)
            del item  # the text may be large, and the steps behind let go of it
            yield passed
            del passed


class DropDuplicates(_Step):
    """Passes what no earlier document of the data set repeats; counts the rest."""

    type, name = "dedup", "bipe exact duplicates"
    dropped = 0

    def run(self, data: Stream, rank: int = 0, world_size: int = 1) -> Stream:
        listed = duplicates_of(self.work, rank)
        self.dropped = 0
        for document in data:
            if document.metadata["place"] in listed:
                self.dropped += 1
                continue
            yield document
            del document


class FilterPart(_Step):
    """Passes what the filters of the source keep; counts what each of them dropped."""

    type, name = "filter", "bipe filters"

    def run(self, data: Stream, rank: int = 0, world_size: int = 1) -> Stream:
        self.dropped: Counter[str] = Counter()
        for filter in self.work.sources[self.work.tasks[rank].source].filters:
            counted = self._counted(data, filter.name, 1)
            data = self._counted(filter.step().run(counted, rank, world_size), filter.name, -1)
        yield from data

    def _counted(self, data: Stream, name: str, step: int) -> Stream:
        for document in data:
            self.dropped[name] += step
            yield document
            del document


class _Last(_Step):
    """Makes what is asked for of a part, unless that is done already."""

    def run(self, data: Stream, rank: int = 0, world_size: int = 1) -> None:
        if self.work.result(rank) is None:
            self.work.put(rank, lambda folder: self.write(data, rank, folder))

    def write(self, data: Stream, rank: int, folder: Path) -> dict[str, Any]:
        """Write into a folder; return what was counted."""
        raise NotImplementedError


class WritePart(_Last):
    """Segments, tokenizes, marks and writes a part."""

    type, name = "writer", "bipe shards"

    def __init__(
        self, work: Work, read: ReadPart, unique: DropDuplicates | None, filtered: FilterPart
    ) -> None:
        super().__init__(work)
        self.read, self.unique, self.filtered = read, unique, filtered

    def write(self, data: Stream, rank: int, folder: Path) -> dict[str, Any]:
        name = self.work.tasks[rank].source
        writer = PartWriter(
            name=name,
            source=self.work.sources[name],
            tokenizer=self.work.tokenizer,
            description=self.work.descriptions[name],
            folder=folder,
        )
        with writer:
            for batch, _ in grouped(_own(data), size=BATCH_CHARACTERS):
                writer.add(batch)
                batch.clear()
                self.work.report(rank, writer.counts)
        return {
            **writer.result(),
            "duplicates": self.unique.dropped if self.unique else 0,
            "bad": self.read.bad,
            "examples": self.read.examples,
            "filtered": {name: number for name, number in self.filtered.dropped.items() if number},
        }


class HashPart(_Last):
    """Hashes the documents of a part."""

    type, name = "dedup", "bipe hashes"

    def write(self, data: Stream, rank: int, folder: Path) -> dict[str, Any]:
        rows, size = [], 0
        for document in data:
            if document.text:  # empty ones are left out, and counted, for being empty
                rows.append((*hash_of(document.text), document.metadata["place"]))
                size += len(document.text)
            if len(rows) % _REPORTED == 0:
                self.work.report(rank, [len(rows), size, 0, 0])
        store_hashes(folder, rows)
        return {"counts": [len(rows), size, 0, 0]}


def pipeline(work: Work) -> list[Callable[..., Any]]:
    """Return the steps, which any executor of datatrove can run."""
    read, filtered = ReadPart(work), FilterPart(work)
    if work.product == "hashes":
        return [read, filtered, HashPart(work)]
    if not work.deduplicate:
        return [read, filtered, WritePart(work, read, None, filtered)]
    unique = DropDuplicates(work)
    return [read, unique, filtered, WritePart(work, read, unique, filtered)]


def _own(documents: Stream) -> Iterator[tuple[Document, int]]:
    """Yield documents as they were read, with their characters."""
    for passed in documents:
        document = replace(passed.metadata["document"], text=passed.text)
        del passed
        yield document, len(document.text)
        del document


def _bytes_of(text: str) -> int:
    """Return the size of a text in UTF-8, without a copy of a large one."""
    if text.isascii():
        return len(text)
    slices = range(0, len(text), _SLICE)
    return sum(len(text[start : start + _SLICE].encode()) for start in slices)
