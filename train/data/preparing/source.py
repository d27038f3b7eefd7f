"""A corpus and its sources: documents, their segmenter and their filters.

A filter is frozen and has a fingerprint; `step` builds datatrove's in the process that runs it.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

from bipe.arguments import Count
from segmenters import Levels, Segmenter
from train.data.reading.documents import Document, Reader
from train.data.reading.split import Split, for_few
from train.data.store.writer import SHARD_TOKENS
from train.data.tokenizing.vocabulary import TokenizerSource
from train.disk.manifest import plain
from train.errors import DataError, as_config_error

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True, kw_only=True)
class Filter(ABC):
    """A filter that keeps or drops each document by itself; its drops are counted by its name."""

    @property
    def name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def step(self) -> Any:
        """Return the datatrove filter; DataError if it cannot work here."""

    def fingerprint(self) -> dict[str, Any]:
        return {"filter": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Length(Filter):
    """Keeps documents of min_characters to max_characters."""

    min_characters: int = 0
    max_characters: int | None = None

    def __post_init__(self) -> None:
        if self.max_characters is not None and self.max_characters < self.min_characters:
            raise DataError(
                f"max_characters must be at least min_characters={self.min_characters}, was: "
                f"{self.max_characters}"
            )

    def step(self) -> Any:
        from datatrove.pipeline.filters import LambdaFilter

        most = math.inf if self.max_characters is None else self.max_characters
        return LambdaFilter(lambda document: self.min_characters <= len(document.text) <= most)


@dataclass(frozen=True, kw_only=True)
class Datatrove(Filter):
    """Any filter of datatrove.pipeline.filters, by the name of its class.

    Example: ``filter: GopherQualityFilter, options: {min_doc_words: 50}``. It must depend only on
    the document; SamplerFilter needs its seed. LanguageFilter downloads a model of fastText.
    """

    filter: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.filter

    def step(self) -> Any:
        from datatrove.pipeline import filters

        names = [name for name in vars(filters) if name.endswith("Filter")]
        if self.filter not in names:
            raise DataError(f"filter must be one of {', '.join(names)}, was: {self.filter}")
        try:
            return getattr(filters, self.filter)(**self.options)
        except (TypeError, ImportError) as fault:
            raise DataError(f"filter={self.filter}: {fault}") from None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Documents, their segmenter and their filters, in order; split: replaces the corpus's.

    levels: how many levels of the segmenter marks hold, the finest ones, or their names. longest: a
    bound on segments, in characters or as in "128 tokens" (segmenters.Levels).
    """

    documents: Reader
    segmenter: Segmenter
    split: Split | None = None
    filters: Sequence[Filter] = ()
    levels: int | Sequence[str] = 1
    longest: int | str | None = None

    def __post_init__(self) -> None:
        _ = self.kept  # refuses levels that the segmenter does not have

    @cached_property
    def kept(self) -> Levels:
        return Levels(of=self.segmenter, keep=self.levels, longest=self.longest)

    @property
    def drawn(self) -> Split:
        """Return the split of a source of a corpus that is `completed`."""
        assert self.split is not None
        return self.split

    def segmenter_of(self, document: Document) -> Segmenter:
        return self.segmenter.choose(
            text=document.text, kind=document.kind, name=document.id, meta=document.meta
        )

    def description(self) -> dict[str, Any]:
        return {
            "segmenter": self.kept.fingerprint(),
            "level_names": self.kept.level_names,
            "documents": self.documents.fingerprint(),
            "licence": self.documents.licence,
            "provenance": self.documents.provenance,
        }

    def fingerprint(self) -> dict[str, Any]:
        return {
            "documents": self.documents.fingerprint(),
            "segmenter": self.kept.fingerprint(),
            "split": self.split.fingerprint() if self.split else None,
            "filters": [filter.fingerprint() for filter in self.filters],
        }


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """What to prepare: sources, their common tokenizer, and how they are written.

    split: of sources without their own. deduplicate: leave out what repeats an earlier text of any
    source, apart from white space. shard_tokens: a shard with as many takes no further document.
    """

    sources: Mapping[str, Source]
    tokenizer: TokenizerSource
    split: Split = field(default_factory=Split)
    deduplicate: bool = False
    shard_tokens: Count = SHARD_TOKENS

    def __post_init__(self) -> None:
        if not self.sources:
            raise DataError("sources must contain at least one source")
        for name, source in self.sources.items():
            if not _NAME.fullmatch(name):
                rule = "names must consist of letters, digits, - and _"
                raise DataError(f"sources: {rule}, was: {name}")
            if not isinstance(source.split, Split | None):
                key = f"corpus.sources.{name}.split"
                raise DataError(
                    f"{key} must name its class, was: {source.split}; set {key}._target_="
                    "train.data.Split as well, or corpus.split, which is for all sources"
                )

    def completed(self, *, limit: int | None) -> Corpus:
        """Return the corpus with the split and the limit of each source; DataError if one is bad.

        limit: documents per source. Readers then name their keys in messages.
        """
        readers = {}
        for name, source in self.sources.items():
            keys = f"corpus.sources.{name}.documents."
            readers[name] = source.documents.keyed(keys)
            try:
                readers[name].check()
                keys = f"corpus.sources.{name}.filters: "
                for filter in source.filters:
                    filter.step()
            except DataError as fault:
                raise DataError(f"{keys}{str(fault).removeprefix(keys)}") from None
        sources = {}
        for name, source in self.sources.items():
            reader = readers[name]
            if limit is not None and (reader.limit is None or reader.limit > limit):
                reader = replace(reader, limit=limit).keyed(reader.keys)
            split = source.split or self.split
            if split.within == "auto":
                split = for_few(split, reader)
            sources[name] = replace(source, split=split, documents=reader)
        return replace(self, sources=sources)

    def texts(self, characters: int | None, *, training: bool = True) -> Iterator[str]:
        """Yield about so many characters of each source, for training or held out."""
        for source in self.sources.values():
            read, split = 0, source.drawn
            for document in chain.from_iterable(map(split.pieces, source.documents)):
                if (split.of(document.id) == "train") is not training:
                    continue
                yield document.text
                read += len(document.text)
                if characters is not None and read >= characters:
                    break

    def fingerprint(self) -> dict[str, Any]:
        sources = {}
        for name, source in self.sources.items():
            with as_config_error(f"corpus.sources.{name}.segmenter: "):
                sources[name] = source.fingerprint()
        described = {"tokenizer": self.tokenizer.fingerprint(), "deduplicate": self.deduplicate}
        return plain({**described, "shard_tokens": self.shard_tokens, "sources": sources})
