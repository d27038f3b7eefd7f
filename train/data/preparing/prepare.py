"""Documents -> cuts -> tokens and marks -> shards, once, so that training reads only shards.

An engine makes the parts in parallel; merged in order, they give the same bytes for any number of
workers and after any interruption. `describe` tells what would be done, from a sample.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from segmenters.align import SEGMENT, mark
from segmenters.base import tallied
from segmenters.fields import KNOWN_FIELDS, NESTING_FIELDS
from segmenters.wording import counted
from train import stop
from train.data.preparing.duplicates import list_duplicates
from train.data.preparing.engines import Engine, Local
from train.data.preparing.merge import merge, tallies
from train.data.preparing.progress import Meter, Watch
from train.data.preparing.source import Corpus, Source
from train.data.preparing.statistics import Flaws, Shares, sentences
from train.data.preparing.work import Task, Work
from train.data.reading.documents import Document, Part
from train.data.store import folder
from train.data.tokenizing.tokenizers import Tokenizer, reopened
from train.disk.files import read_json, write_whole
from train.disk.manifest import plain
from train.errors import DataError

IF_EXISTS = ("auto", "refuse", "resume", "overwrite")
_SHOWN_DIFFERENCES = 3  # keys in the message of a refusal
SAMPLE_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A data set on disk; kept: it existed before and was left alone."""

    folder: Path
    manifest: dict[str, Any]
    kept: bool


def prepare(
    corpus: Corpus,
    *,
    out: Path,
    limit: int | None = None,
    if_exists: str = "auto",
    engine: Engine | None = None,
    progress: bool = True,
) -> Prepared:
    """Prepare each source into OUT/SOURCE/{train,validation,test}.

    limit: documents per source. if_exists: "refuse" a folder that holds a data set, "overwrite" it
    once the new one is complete, or "auto" ("resume"): keep the data set if the request is the
    same, else refuse and name the keys that differ. engine: makes the parts; by default local
    processes. Raises DataError, or SegmenterError naming the document. Finished parts stay in
    OUT/.part for another run to continue.
    """
    if if_exists not in IF_EXISTS:
        raise DataError(f"if_exists must be {', '.join(IF_EXISTS)}, was: {if_exists}")
    corpus = corpus.completed(limit=limit)
    request = corpus.fingerprint()
    there = folder.finished(out)
    if there is not None and if_exists != "overwrite":
        _require_same(there, request, out=out, if_exists=if_exists)
        folder.tidy(out)
        return Prepared(folder=out, manifest=there, kept=True)
    with folder.workplace(out) as part:
        if folder.recover(part, out):
            recovered = folder.read_top(out)
            if recovered["request"] == request:
                return Prepared(folder=out, manifest=recovered, kept=False)
            if if_exists != "overwrite":
                _require_same(recovered, request, out=out, if_exists=if_exists)
        with Meter(show=progress) as meter:
            manifest = _build(corpus, request, part, engine or Local(), meter)
            folder.install(part, out)
    return Prepared(folder=out, manifest=manifest, kept=False)


def _build(
    corpus: Corpus, request: dict[str, Any], part: Path, engine: Engine, meter: Meter
) -> dict[str, Any]:
    tasks, tokenizer, digest = _plan(corpus, request, part, meter)
    work = Work(
        folder=part,
        sources=corpus.sources,
        tasks=tasks,
        digest=digest,
        tokenizer=tokenizer,
        deduplicate=corpus.deduplicate,
        descriptions={
            name: plain({"tokenizer": tokenizer.fingerprint(), **source.description()})
            for name, source in corpus.sources.items()
        },
    )
    with stop.kept(lambda: _kept(work)):
        return _make_all(work, engine, meter, request)


def _make_all(work: Work, engine: Engine, meter: Meter, request: dict[str, Any]) -> dict[str, Any]:
    if work.deduplicate:
        _make_parts(work.hashing(), engine, meter, title="hashes of ")
        list_duplicates(work)
    _make_parts(work, engine, meter)
    try:
        by_source = tallies(work)
    except DataError:
        folder.clear(work.folder)  # another run would fail alike
        raise
    whole = work.folder / folder.WHOLE
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir()
    return merge(by_source, whole, meter, request=request)


def _make_parts(work: Work, engine: Engine, meter: Meter, *, title: str = "") -> None:
    work.clear_reports()
    missing = len(work.missing())
    kept = len(work.tasks) - missing
    before = f", {kept} of them done before" if kept else ""
    meter.start(f"{title}{counted(len(work.tasks), 'part')} of {', '.join(work.sources)}{before}")
    watch = Watch(work, meter)
    if missing:
        engine.run(work, watch=watch)
    watch.finish()


def _kept(work: Work) -> str:
    done = len(work.tasks) - len(work.missing())
    return f"{done} of {counted(len(work.tasks), 'part')} done and kept; {stop.AGAIN}"


def _plan(
    corpus: Corpus, request: dict[str, Any], part: Path, meter: Meter
) -> tuple[list[Task], Tokenizer, str]:
    """Return tasks, tokenizer and digest, from an interrupted run of the same request if any."""
    states = plain({name: source.documents.state() for name, source in corpus.sources.items()})
    digest = hashlib.sha256(json.dumps([request, states]).encode()).hexdigest()
    plan = read_json(part / folder.PLAN) or {}
    if plan.get("digest") == digest:
        tokenizer = reopened(plan["tokenizer"], plan["eos"], plan["bos"])
    else:
        folder.clear(part)
        parts = {
            name: [[dict(part.where), part.size] for part in source.documents.division()]
            for name, source in corpus.sources.items()
        }
        meter.start("tokenizer")
        tokenizer = corpus.tokenizer.build(corpus.texts)
        described = {"tokenizer": tokenizer.json, "eos": tokenizer.eos, "bos": tokenizer.bos}
        plan = {"digest": digest, "parts": parts, **described}
        write_whole(part / folder.PLAN, json.dumps(plan))
        meter.finish()
    tasks = [
        Task(source=name, number=number, part=Part(where=plain(where), size=size))
        for name, parts in plan["parts"].items()
        for number, (where, size) in enumerate(parts)
    ]
    return tasks, tokenizer, f"{digest}:{tokenizer.fingerprint()['sha256']}"


def _require_same(
    there: dict[str, Any], request: dict[str, Any], *, out: Path, if_exists: str
) -> None:
    differing = "; ".join(islice(folder.differences(there["request"], request), _SHOWN_DIFFERENCES))
    if if_exists in ("auto", "resume") and not differing:
        return
    other = f" made with other settings ({differing})" if differing else ""
    cure = "if_exists=overwrite" + " or if_exists=auto" * (not differing)
    message = f"contains a data set{other}. Set data= to another folder, or set {cure}"
    raise DataError(f"{out} {message}")


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
    done = len(folder.done_parts(out / folder.PART))
    state = f"{counted(done, 'part')} of a run that was stopped" if done else "no data"
    if (there := folder.finished(out)) is not None:
        same = "the same" if there["request"] == request else "another"
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
        # Fields that state places in the text hold for the whole of it.
        plain = {*document.meta} <= {*KNOWN_FIELDS, *NESTING_FIELDS}
        yield replace(document, text=document.text[:left]) if plain else document
        left -= len(document.text)
        if left <= 0:
            return
