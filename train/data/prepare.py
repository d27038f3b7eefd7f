"""Documents -> cuts -> tokens and marks -> shards, once, so that training reads shards only.

One process streams each source: memory holds a batch of texts, not the corpus. The same request
on the same documents gives the same bytes. The folder is installed whole at the end, so that an
interruption leaves what was there before.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from segmenters.align import mark
from segmenters.base import Cuts, Segmenter, SegmenterError
from train.data import folder
from train.data.card import card
from train.data.disk import write_whole
from train.data.documents import DataError, Document, Reader
from train.data.progress import Meter
from train.data.split import SPLITS, Split
from train.data.statistics import DOCUMENT_EDGES, SEGMENT_EDGES, Lengths, Sample
from train.data.tokenizers import Tokenizer
from train.data.vocabulary import TokenizerSource
from train.data.writer import ShardWriter

BATCH_CHARACTERS = 2_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_IF_EXISTS = ("refuse", "overwrite", "resume")
_SHOWN_DIFFERENCES = 3


@dataclass(frozen=True, kw_only=True)
class Source:
    """Documents and what cuts them; `split`, where given, replaces the split of the request."""

    documents: Reader
    segmenter: Segmenter
    split: Split | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A data set on disk; `kept` if it stood there before and was left alone."""

    folder: Path
    manifest: dict[str, Any]
    kept: bool


def prepare(
    *,
    sources: Mapping[str, Source],
    tokenizer: TokenizerSource,
    out: str | Path,
    split: Split | None = None,
    if_exists: str = "refuse",
    progress: bool = True,
) -> Prepared:
    """Prepare every source into OUT/SOURCE/{train,validation,test}.

    if_exists: "refuse" a folder that holds a data set, "overwrite" it once the new one is
    complete, or "resume": leave it alone if the request is the same, refuse another one by its key.
    Raises DataError, or SegmenterError naming the document; nothing is left of the attempt.
    """
    out = Path(out)
    sources = _with_splits(sources, split or Split())
    if if_exists not in _IF_EXISTS:
        raise DataError(f"if_exists must be {', '.join(_IF_EXISTS)}, was: {if_exists}")
    for source in sources.values():
        source.documents.check()
    request = _request(sources, tokenizer)
    standing = folder.finished(out)
    if standing is not None and if_exists != "overwrite":
        _require_same(standing, request, out=out, if_exists=if_exists)
        return Prepared(folder=out, manifest=standing, kept=True)
    with Meter(show=progress) as meter, folder.staged(out) as part:
        meter.start("tokenizer")
        built = tokenizer.build(lambda characters: _training_texts(sources, characters))
        manifest = _build(sources, built, part, meter, request=request)
    return Prepared(folder=out, manifest=manifest, kept=False)


def _build(
    sources: Mapping[str, Source],
    tokenizer: Tokenizer,
    part: Path,
    meter: Meter,
    *,
    request: dict[str, Any],
) -> dict[str, Any]:
    """Write everything into `part`, the manifest last; return it."""
    manifest: dict[str, Any] = {
        "format": folder.FORMAT,
        "version": folder.VERSION,
        "request": request,
        "tokenizer": tokenizer.fingerprint(),
        "sources": {},
    }
    statistics: dict[str, Any] = {
        "segment_edges": SEGMENT_EDGES,
        "document_edges": DOCUMENT_EDGES,
        "sources": {},
    }
    for name, source in sources.items():
        meter.start(name)
        entry, found = _SourceWork(name, source, tokenizer, part, meter).run()
        manifest["sources"][name], statistics["sources"][name] = entry, found
        meter.finish()
    write_whole(part / folder.TOKENIZER, tokenizer.json)
    write_whole(part / folder.STATISTICS, json.dumps(statistics) + "\n")
    write_whole(part / folder.CARD, card(manifest, statistics))
    return folder.write_top(part, manifest)


class _SourceWork:
    """One source on its way into three shards."""

    def __init__(
        self, name: str, source: Source, tokenizer: Tokenizer, part: Path, meter: Meter
    ) -> None:
        assert source.split is not None
        self.name, self.source, self.split = name, source, source.split
        self.tokenizer, self.part, self.meter = tokenizer, part, meter
        self.lengths, self.sample = Lengths(), Sample()
        self.levels = len(source.segmenter.levels(""))
        self.unseen = self.split.named()
        self.empty = 0
        self.chosen: Counter[str] = Counter()

    def run(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Write the shards; return the entries for the top manifest and the statistics."""
        with ExitStack() as stack:
            writers = {split: stack.enter_context(self.writer(split)) for split in SPLITS}
            for batch in _batches(self.source.documents):
                self.add(batch, writers)
            self.require_documents(sum(writer.counts["documents"] for writer in writers.values()))
        entry = {
            **self.description(),
            "levels": self.levels,
            "empty": self.empty,
            **({"segmenters": dict(self.chosen.most_common())} if self.chosen else {}),
            "splits": {split: writer.counts for split, writer in writers.items()},
        }
        return entry, {**self.lengths.summary(), "sample": self.sample.passage()}

    def writer(self, split: str) -> ShardWriter:
        return ShardWriter(
            folder=self.part / self.name / split,
            name=self.name,
            vocab_size=self.tokenizer.vocab_size,
            levels=self.levels,
            description={
                "split": split,
                "tokenizer": self.tokenizer.fingerprint(),
                **self.description(),
            },
        )

    def description(self) -> dict[str, Any]:
        documents = self.source.documents
        return {
            "segmenter": self.source.segmenter.fingerprint(),
            "documents": documents.fingerprint(),
            "licence": documents.licence,
            "provenance": documents.provenance,
        }

    def add(self, batch: Sequence[Document], writers: Mapping[str, ShardWriter]) -> None:
        """Segment, tokenize, mark and write a batch of documents."""
        encoded = self.tokenizer.encode_batch([document.text for document in batch])
        size = tokens = 0
        for document, (ids, anchors) in zip(batch, encoded, strict=True):
            self.unseen.discard(document.id)
            if not len(ids):
                self.empty += 1
                continue
            split = self.split.of(document.id)
            levels = self.cut(document)
            self.sample.offer(document.text, levels[0], id=document.id, split=split)
            # The end of a document inherits: it closes the last segment.
            marks = np.append(mark(anchors, levels), np.uint8(0))
            self.lengths.add(marks)
            bytes_of_text = len(document.text.encode())
            writers[split].add(
                np.append(ids, self.tokenizer.eos_id),
                marks,
                id=document.id,
                size=bytes_of_text,
                replaced=document.replaced,
            )
            size, tokens = size + bytes_of_text, tokens + len(marks)
        self.meter.advance(documents=len(batch), size=size, tokens=tokens)

    def segmenter_of(self, document: Document) -> Segmenter:
        """The segmenter for one document; counted, where it is not the source's own."""
        own = self.source.segmenter
        chosen = own.choose(
            text=document.text, kind=document.kind, name=document.id, meta=document.meta
        )
        if chosen is not own:
            self.chosen[repr(chosen)] += 1
        return chosen

    def cut(self, document: Document) -> tuple[Cuts, ...]:
        """The cuts of a document; errors name it."""
        try:
            levels = self.segmenter_of(document).levels(document.text)
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

    def require_documents(self, written: int) -> None:
        label = f"source {self.name} ({self.source.documents.label()})"
        if not written:
            raise DataError(f"{label}: all {self.empty} documents are empty; check its text_key")
        if self.unseen:
            raise DataError(
                f"{label}: split.ids names {', '.join(sorted(self.unseen)[:3])}, which is no "
                "document of it; ids are listed in the .ids files of a prepared data set"
            )


def _with_splits(sources: Mapping[str, Source], split: Split) -> dict[str, Source]:
    if not sources:
        raise DataError("sources must name at least one source")
    for name in sources:
        if not _NAME.fullmatch(name):
            raise DataError(f"sources: a name must be letters, digits, - and _, was: {name}")
    return {
        name: source if source.split else replace(source, split=split)
        for name, source in sources.items()
    }


def _request(sources: Mapping[str, Source], tokenizer: TokenizerSource) -> dict[str, Any]:
    request = {
        "tokenizer": tokenizer.fingerprint(),
        "sources": {
            name: {
                "documents": source.documents.fingerprint(),
                "segmenter": source.segmenter.fingerprint(),
                "split": source.split.fingerprint() if source.split else None,
            }
            for name, source in sources.items()
        },
    }
    return json.loads(json.dumps(request))  # as it will be read back: tuples are lists


def _require_same(
    standing: dict[str, Any], request: dict[str, Any], *, out: Path, if_exists: str
) -> None:
    differing = list(folder.differences(standing["request"], request))[:_SHOWN_DIFFERENCES]
    if if_exists == "resume" and not differing:
        return
    other = f" made otherwise ({'; '.join(differing)})" if differing else ""
    raise DataError(
        f"out={out} holds a data set{other}. Choose another folder, or set if_exists=overwrite"
        + ("" if differing else " or if_exists=resume")
    )


def _training_texts(sources: Mapping[str, Source], characters: int | None) -> Iterator[str]:
    for source in sources.values():
        read = 0
        for document in source.documents:
            if source.split is None or source.split.of(document.id) != "train":
                continue
            yield document.text
            read += len(document.text)
            if characters is not None and read >= characters:
                break


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
