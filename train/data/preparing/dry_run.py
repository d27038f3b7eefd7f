"""What a preparation would do: its sources, parts and tools, and an estimate from a sample.

Nothing is written. A tokenizer that would be trained is trained on the sample, so that its figures
are those of a smaller vocabulary's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from segmenters.align import mark
from train.data.preparing.engine.engines import Engine, Local
from train.data.preparing.prepare import Request, asked
from train.data.preparing.source import Source
from train.data.reading.documents import Document
from train.data.reading.parts import Part
from train.data.store import folder
from train.data.store.writer import SHARD_TOKENS
from train.data.tokenizing.tokenizers import Tokenizer

SAMPLE_CHARACTERS = 1_000_000


def describe(
    *,
    out: Path,
    engine: Engine | None = None,
    if_exists: str = "refuse",
    progress: bool = True,
    split: Any = None,
    deduplicate: bool = False,
    shard_tokens: int = SHARD_TOKENS,
    limit: int | None = None,
    **given: Any,
) -> str:
    """What `prepare` would do with the same arguments; raises what it would at once."""
    request = asked(
        split=split,
        deduplicate=deduplicate,
        shard_tokens=shard_tokens,
        limit=limit,
        **given,
    )
    samples = {name: list(_sample(source)) for name, source in request.sources.items()}
    texts = [document.text for document in chain.from_iterable(samples.values())]
    tokenizer = request.tokenizer.build(lambda characters: texts)
    told = request.told["tokenizer"]
    lines = [
        f"into {out}, which {_standing(out, request, if_exists)}",
        f"by {(engine or Local()).told()}",
        f"tokenizer: {', '.join(f'{key}={value}' for key, value in told.items())}",
        f"exact duplicates: {'left out' if deduplicate else 'kept'}",
    ]
    for name, source in request.sources.items():
        parts = source.documents.division()
        lines += ["", f"{name}: {source.documents.label()}"]
        lines += [f"  {line}" for line in _source(source, parts, samples[name], tokenizer)]
    return "\n".join(lines)


def _source(
    source: Source, parts: list[Part], sample: list[Document], tokenizer: Tokenizer
) -> Iterator[str]:
    stored = source.documents.fingerprint()
    if "files" in stored:
        yield f"files: {stored['files']:,}, {stored['bytes'] / 1e6:,.1f} MB as stored"
    yield f"parts: {len(parts):,}"
    yield f"segmenter: {source.segmenter!r}"
    if source.filters:
        yield f"filters: {', '.join(map(repr, source.filters))}"
    assert source.split is not None
    yield f"split: validation={source.split.validation}, test={source.split.test}"
    if not sample:
        yield "sample: no document in it"
        return
    characters = sum(len(document.text) for document in sample)
    size = sum(len(document.text.encode()) for document in sample)
    tokens, segments, seconds = _measured(source, sample, tokenizer)
    yield (
        f"sample: {len(sample):,} documents, {size / 1e6:.2f} MB of text, "
        f"{size / max(1, tokens):.2f} bytes a token, {tokens / max(1, segments):.1f} tokens a "
        f"segment, {size / 1e6 / max(seconds, 1e-9):.1f} MB/s a core"
    )
    if "bytes" in stored and characters >= SAMPLE_CHARACTERS:
        yield f"in all: about {stored['bytes'] * tokens / size / 1e6:,.1f}M tokens, if stored plain"


def _measured(
    source: Source, sample: list[Document], tokenizer: Tokenizer
) -> tuple[int, int, float]:
    """Tokens, segments, and seconds of the processor."""
    tokens = segments = 0
    began = time.process_time()
    encoded = tokenizer.encode_batch([document.text for document in sample])
    for document, (ids, anchors) in zip(sample, encoded, strict=True):
        segmenter = source.segmenter.choose(
            text=document.text, kind=document.kind, name=document.id, meta=document.meta
        )
        marks = mark(anchors, segmenter.levels(document.text))
        tokens += len(ids) + 1
        segments += int(np.count_nonzero(marks & 2))
    return tokens, segments, time.process_time() - began


def _sample(source: Source) -> Iterator[Document]:
    """The first documents, the last of them cut short."""
    left = SAMPLE_CHARACTERS
    for document in source.documents:
        yield Document(
            text=document.text[:left],
            kind=document.kind,
            id=document.id,
            source=document.source,
            meta=document.meta,
        )
        left -= len(document.text)
        if left <= 0:
            return


def _standing(out: Path, request: Request, if_exists: str) -> str:
    standing = folder.finished(out)
    if standing is None:
        part = out / folder.PART
        done = len(list(part.glob("parts/*/*/part.json")))
        return f"holds {done} parts of a run that was stopped" if done else "holds no data"
    same = "the same" if standing["request"] == request.told else "another"
    return f"holds {same} data set (if_exists={if_exists})"
