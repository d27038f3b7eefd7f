"""The documents of one part of a source that are kept: whole, not repeated, not filtered out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from datatrove.data import Document as Passed

from train.data.preparing.duplicates import duplicates_of
from train.data.preparing.work import Work
from train.data.reading.documents import Bad, Document
from train.errors import DataError

_EXAMPLES = 3  # of what is left out, per part
Stream = Iterator[Passed]


class KeptDocuments:
    """The documents of a part that are kept, in datatrove's type; counts what is left out."""

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

    def sized(self) -> Iterator[tuple[Document, int]]:
        """Yield each document, with the text that filters left it, and its size in characters."""
        for passed in self:
            document = passed.metadata["document"]
            if passed.text != document.text:
                if fields := document.placed_fields:
                    names = ", ".join(filter.name for filter in self._source.filters)
                    raise DataError(
                        f"filters ({names}) changed the text of {document.id}, whose fields "
                        f"{fields} may refer to positions in it; remove the one that edits text"
                    )
                document = replace(document, text=passed.text)
            del passed
            yield document, len(document.text)
            del document
