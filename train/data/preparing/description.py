"""What `prepare` would do, told from a sample of each source: `bipe prepare --dry-run`."""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from segmenters.align import SEGMENT, mark
from segmenters.base import tallied
from segmenters.wording import counted
from train.data.preparing.engines import Engine
from train.data.preparing.flaws import Flaws, sentences
from train.data.preparing.source import Corpus, Source
from train.data.preparing.statistics import Shares
from train.data.reading.documents import Document
from train.data.store.workplace import PART, done_parts, finished
from train.data.tokenizing.tokenizers import Tokenizer

SAMPLE_CHARACTERS = 1_000_000


def describe(
    corpus: Corpus, *, out: Path, limit: int | None, if_exists: str, engine: Engine
) -> str:
    """Describe what `prepare` would do with these arguments; raise what it would raise at once."""
    corpus = corpus.completed(limit=limit)
    request = corpus.fingerprint()
    samples = {name: list(_sample(source)) for name, source in corpus.sources.items()}
    texts = [document.text for document in chain.from_iterable(samples.values())]
    tokenizer = corpus.tokenizer.build(lambda characters: texts)
    chosen = ", ".join(f"{key}={value}" for key, value in request["tokenizer"].items())
    done = len(done_parts(out / PART))
    state = f"{counted(done, 'part')} of a run that was stopped" if done else "no data"
    if (manifest := finished(out)) is not None:
        same = "the same" if manifest["request"] == request else "another"
        state = f"{same} data set (if_exists={if_exists})"
    lines = [
        f"into {out}, which contains {state}",
        f"by {engine}",
        f"tokenizer: {chosen}; by {'tiktoken' if tokenizer.twin else 'tokenizers'}",
        f"exact duplicates: {'left out' if corpus.deduplicate else 'kept'}",
    ]
    for name, source in corpus.sources.items():
        lines += ["", f"{name}: {source.documents.label()}"]
        lines += [f"  {line}" for line in _described(source, samples[name], tokenizer)]
    return "\n".join(lines)


def _described(source: Source, sample: list[Document], tokenizer: Tokenizer) -> Iterator[str]:
    stored = source.documents.fingerprint()
    if "files" in stored:
        yield f"files: {stored['files']:,}, {stored['bytes'] / 1e6:,.1f} MB as stored"
    yield f"parts: {len(source.documents.division()):,}"
    yield f"segmenter: {source.segmenter!r}"
    if source.levels != 1:
        yield f"levels: {', '.join(source.kept.level_names)}"
    if source.longest is not None:
        yield f"longest: {source.longest}"
    if source.filters:
        yield f"filters: {', '.join(map(repr, source.filters))}"
    split = source.drawn
    drawn = f"validation={split.validation:.2g}, test={split.test:.2g}"
    drawn += ", within=true" * bool(split.within)
    yield f"split: {drawn}{f': {split.why}' if split.why else ''}"
    if not sample:
        yield "sample: no document in it"
    else:
        yield from _sampled(source, sample, tokenizer, stored)


def _sampled(
    source: Source, sample: list[Document], tokenizer: Tokenizer, stored: dict[str, Any]
) -> Iterator[str]:
    """Yield what some documents are cut into, and what the whole would come to."""
    texts = [document.text for document in sample]
    size = len("".join(texts).encode())
    names = source.kept.level_names
    tokens, segments, done = 0, [0] * len(names), Shares()
    began = time.process_time()
    for document, (ids, anchors) in zip(sample, tokenizer.encode_documents(texts), strict=True):
        chosen = source.segmenter_of(document)
        with tallied() as rules:
            levels = source.kept.around(chosen).levels_of_tokens(document.text, anchors)
        done.add(chosen, rules, len(document.text))
        marks = mark(anchors, levels)
        tokens += len(ids) + 1  # the end of the document
        for level in range(len(names)):
            segments[level] += int(np.count_nonzero(marks & (SEGMENT << level)))
    seconds = time.process_time() - began
    yield (
        f"sample: the first {counted(len(sample), 'document')}, {size / 1e6:.2f} MB of text, "
        f"{size / max(1, tokens):.2f} bytes per token, {tokens / max(1, segments[0]):.1f} tokens "
        f"per segment, {size / 1e6 / max(seconds, 1e-9):.1f} MB/s per core"
    )
    flaws = Flaws()
    for document in sample:
        flaws.add(document)
    for sentence, warning in sentences(flaws.table(), source.documents):
        yield f"{'warning: ' * warning}{sentence}"
    whole = max(1, sum(map(len, texts)))
    table = done.table().items()
    shares = (f"{counts['characters'] / whole:.1%} {rule}" for rule, counts in table)
    yield f"what cuts it: {', '.join(shares)}"
    if len(names) > 1:
        pairs = zip(names, segments, strict=True)
        sizes = (f"{name} {tokens / max(1, number):.1f}" for name, number in pairs)
        yield f"tokens per level: {', '.join(sizes)}"
    if "bytes" in stored and whole >= SAMPLE_CHARACTERS:
        yield f"in all: about {stored['bytes'] * tokens / size / 1e6:,.1f}M tokens, if stored plain"


def _sample(source: Source) -> Iterator[Document]:
    left = SAMPLE_CHARACTERS
    for document in source.documents:
        whole = document.placed_fields or len(document.text) <= left
        yield document if whole else replace(document, text=document.text[:left])
        left -= len(document.text)
        if left <= 0:
            return
