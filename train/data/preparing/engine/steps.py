"""The datatrove pipeline that makes a part: read, filter, write.

datatrove gives each step the documents of the one before; a task is one part. Counts travel from
step to step through the steps that follow, which are in the same process and see the same task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from datatrove.data import Document as Passed
from datatrove.pipeline.base import PipelineStep

from train.data.preparing.duplicates import duplicates_of, hash_of, store_hashes
from train.data.preparing.engine.work import Work
from train.data.preparing.part_writer import BATCH_CHARACTERS, PartWriter
from train.data.reading.documents import Document
from train.data.reading.parts import Bad

_EXAMPLES = 3
_REPORTED = 1000  # documents
Stream = Iterator[Passed]


class ReadPart(PipelineStep):
    """Yields the documents of a part; counts what the reader left out."""

    type, name = "reader", "bipe part"

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work
        self.bad: Counter[str] = Counter()
        self.examples: list[str] = []

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Stream:
        self.bad, self.examples = Counter(), []
        task = self.work.tasks[rank]
        reader = self.work.sources[task.source].documents
        place = -1
        for item in reader.take(task.part):
            if isinstance(item, Bad):
                self._left_out(item)
                continue
            place += 1
            fields = {
                "kind": item.kind,
                "source": item.source,
                "meta": item.meta,
                "replaced": item.replaced,
                "place": place,
            }
            passed = Passed(text=item.text, id=item.id, metadata=fields)
            del item  # the text may be large, and the steps behind let go of it
            yield passed
            del passed

    def _left_out(self, item: Bad) -> None:
        self.bad[item.rule] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{item.where}: {item.detail}")


class DropDuplicates(PipelineStep):
    """Passes what no earlier document of the data set says; counts the rest."""

    type, name = "dedup", "bipe exact duplicates"

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work
        self.dropped = 0

    def run(self, data: Stream, rank: int = 0, world_size: int = 1) -> Stream:
        listed = duplicates_of(self.work, rank)
        self.dropped = 0
        for document in data:
            if document.metadata["place"] in listed:
                self.dropped += 1
                continue
            yield document
            del document


class FilterPart(PipelineStep):
    """Passes what the filters of the source keep; counts what each of them dropped."""

    type, name = "filter", "bipe filters"

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work
        self.dropped: Counter[str] = Counter()

    def run(self, data: Stream, rank: int = 0, world_size: int = 1) -> Stream:
        self.dropped = Counter()
        for filter in self.work.sources[self.work.tasks[rank].source].filters:
            counted = self._counted(data, filter.name, 1)
            data = self._counted(filter.step().run(counted, rank, world_size), filter.name, -1)
        yield from data

    def _counted(self, data: Stream, name: str, step: int) -> Stream:
        for document in data:
            self.dropped[name] += step
            yield document
            del document


class WritePart(PipelineStep):
    """Segments, tokenizes, marks and writes a part, unless that is done already."""

    type, name = "writer", "bipe shards"

    def __init__(
        self, work: Work, read: ReadPart, unique: DropDuplicates | None, filtered: FilterPart
    ) -> None:
        super().__init__()
        self.work, self.read, self.unique, self.filtered = work, read, unique, filtered

    def run(self, data: Stream, rank: int = 0, world_size: int = 1) -> None:
        if self.work.result(rank) is None:
            self.work.put(rank, lambda folder: self.write(data, rank, folder))

    def write(self, data: Stream, rank: int, folder: Path) -> dict[str, Any]:
        """Write the part into a folder; what was counted."""
        name = self.work.tasks[rank].source
        writer = PartWriter(
            name=name,
            source=self.work.sources[name],
            tokenizer=self.work.tokenizer,
            description=self.work.descriptions[name],
            folder=folder,
        )
        with writer:
            for batch in _batches(data):
                writer.add(batch)
                batch.clear()
                self.work.report(rank, writer.counts())
        return {
            **writer.result(),
            "duplicates": self.unique.dropped if self.unique else 0,
            "bad": self.read.bad,
            "examples": self.read.examples,
            "filtered": {name: number for name, number in self.filtered.dropped.items() if number},
        }


class HashPart(PipelineStep):
    """Hashes the documents of a part, unless that is done already."""

    type, name = "dedup", "bipe hashes"

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work

    def run(self, data: Stream, rank: int = 0, world_size: int = 1) -> None:
        if self.work.result(rank) is None:
            self.work.put(rank, lambda folder: self.write(data, rank, folder))

    def write(self, data: Stream, rank: int, folder: Path) -> dict[str, Any]:
        """Write the hashes into a folder; what was counted."""
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
    """The steps, which any executor of datatrove can run."""
    read, filtered = ReadPart(work), FilterPart(work)
    if work.product == "hashes":
        return [read, filtered, HashPart(work)]
    if not work.deduplicate:
        return [read, filtered, WritePart(work, read, None, filtered)]
    unique = DropDuplicates(work)
    return [read, unique, filtered, WritePart(work, read, unique, filtered)]


def _batches(documents: Stream) -> Iterator[list[Document]]:
    """Documents until they have enough characters; the receiver empties each list."""
    batch: list[Document] = []
    size = 0
    for passed in documents:
        fields = passed.metadata
        batch.append(
            Document(
                text=passed.text,
                kind=fields["kind"],
                id=passed.id,
                source=fields["source"],
                meta=fields["meta"],
                replaced=fields["replaced"],
            )
        )
        size += len(passed.text)
        del passed
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
