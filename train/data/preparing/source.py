"""A source of a data set: documents, what cuts them, and what is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from segmenters.base import Segmenter
from train.data.preparing.filters import Filter
from train.data.reading.documents import Reader
from train.data.reading.split import Split
from train.errors import DataError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Documents and what cuts them.

    split: replaces the split of the request, where given.
    filters: what a document must pass, in this order.
    """

    documents: Reader
    segmenter: Segmenter
    split: Split | None = None
    filters: Sequence[Filter] = ()

    def description(self) -> dict[str, Any]:
        """What manifests say of it."""
        return {
            "segmenter": self.segmenter.fingerprint(),
            "documents": self.documents.fingerprint(),
            "licence": self.documents.licence,
            "provenance": self.documents.provenance,
        }

    def fingerprint(self) -> dict[str, Any]:
        """Everything that decides what is written of it."""
        return {
            "documents": self.documents.fingerprint(),
            "segmenter": self.segmenter.fingerprint(),
            "split": self.split.fingerprint() if self.split else None,
            "filters": [each.fingerprint() for each in self.filters],
        }


def completed(
    sources: Mapping[str, Source], *, split: Split, limit: int | None
) -> dict[str, Source]:
    """The sources with what the request decides for all of them; DataError for a bad name."""
    if not sources:
        raise DataError("sources must name at least one source")
    for name in sources:
        if not _NAME.fullmatch(name):
            raise DataError(f"sources: a name must be letters, digits, - and _, was: {name}")
    if limit is not None and limit < 1:
        raise DataError(f"limit must be at least 1 document, or null for all, was: {limit}")
    return {
        name: replace(
            source,
            split=source.split or split,
            documents=_limited(source.documents, limit),
        )
        for name, source in sources.items()
    }


def plain(value: Any) -> Any:
    """A value as it is read back from JSON: tuples are lists."""
    return json.loads(json.dumps(value))


def _limited(reader: Reader, limit: int | None) -> Reader:
    if limit is None or (reader.limit is not None and reader.limit <= limit):
        return reader
    return replace(reader, limit=limit)
