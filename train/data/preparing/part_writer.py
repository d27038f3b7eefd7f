"""One part of a source: documents -> cuts -> tokens and marks -> a small data set of its own.

What is counted on the way goes into one JSON-able result, so that the results of all parts, added
in order, are what a single process would have counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from segmenters.align import mark
from segmenters.base import Cuts, Segmenter, SegmenterError
from train.data.preparing.source import Source
from train.data.preparing.statistics import Lengths, Sample
from train.data.reading.documents import Document
from train.data.reading.split import SPLITS
from train.data.store.writer import ShardWriter
from train.data.tokenizing.tokenizers import Tokenizer

BATCH_CHARACTERS = 2_000_000
_ONE_SHARD = 1 << 62
_SLICE = 1 << 20  # characters


class PartWriter:
    """Writes FOLDER/{train,validation,test}, those that have documents; a context manager.

    description: what the manifests of the splits say beyond counts and files.
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
        self.name, self.source, self.tokenizer, self.folder = name, source, tokenizer, folder
        self.description = description
        self.levels = len(source.segmenter.levels(""))
        self.named = source.split.named() if source.split else set()
        self.seen: set[str] = set()
        self.empty = self.documents = self.size = self.tokens = self.segments = 0
        self.chosen: Counter[str] = Counter()
        self.lengths, self.sample = Lengths(), Sample()
        self._stack = ExitStack()
        self._writers: dict[str, ShardWriter] = {}

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, fault, trace)

    def add(self, batch: Sequence[Document]) -> None:
        """Segment, tokenize, mark and write a batch of documents."""
        # Cuts come first, and what is done with is let go of, since a document may have 100 MB.
        levels = [self._cut(document) for document in batch][::-1]
        encoded = self.tokenizer.encode_batch([document.text for document in batch])[::-1]
        for document in batch:
            if document.id in self.named:
                self.seen.add(document.id)
            self._write(document, levels.pop(), encoded.pop())

    def counts(self) -> list[int]:
        """Documents, bytes of text, tokens and segments so far."""
        return [self.documents, self.size, self.tokens, self.segments]

    def result(self) -> dict[str, Any]:
        """What was counted; JSON-able."""
        return {
            "levels": self.levels,
            "empty": self.empty,
            "counts": self.counts(),
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
        writer.add(
            tokens,
            marks,
            id=document.id,
            size=size,
            replaced=document.replaced,
        )
        self.documents, self.size = self.documents + 1, self.size + size
        self.tokens += len(marks)
        self.segments += int(np.count_nonzero(marks & 2))

    def _writer(self, split: str) -> ShardWriter:
        if split not in self._writers:
            self._writers[split] = self._stack.enter_context(
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

    def _segmenter_of(self, document: Document) -> Segmenter:
        """The segmenter for one document; counted, where it is not the source's own."""
        own = self.source.segmenter
        chosen = own.choose(
            text=document.text, kind=document.kind, name=document.id, meta=document.meta
        )
        if chosen is not own:
            self.chosen[repr(chosen)] += 1
        return chosen

    def _cut(self, document: Document) -> tuple[Cuts, ...]:
        """The cuts of a document; errors name it."""
        try:
            levels = self._segmenter_of(document).levels(document.text)
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


def _bytes_of(text: str) -> int:
    """The size of a text in UTF-8, without a copy of a large one."""
    if text.isascii():
        return len(text)
    slices = range(0, len(text), _SLICE)
    return sum(len(text[start : start + _SLICE].encode()) for start in slices)
