"""Documents -> cuts -> tokens and marks -> shards, once, so that training reads only shards.

An engine makes the parts in parallel; merged in order, they give the same bytes for any number of
workers and after any interruption.
"""

import hashlib
import json
import shutil
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from segmenters.wording import counted
from train import stop
from train.data.preparing.duplicates import list_duplicates
from train.data.preparing.engines import Engine, Local
from train.data.preparing.merge import merge, tallies
from train.data.preparing.progress import Meter, Watch
from train.data.preparing.source import Corpus
from train.data.preparing.work import Task, Work
from train.data.reading.documents import Part
from train.data.store import workplace
from train.data.store.folder import differences, read_top
from train.data.tokenizing.tokenizers import Tokenizer, reopened
from train.disk.files import read_json, write_whole
from train.disk.manifest import plain
from train.errors import DataError

IF_EXISTS = ("auto", "refuse", "resume", "overwrite")
_SHOWN_DIFFERENCES = 3  # keys in the message of a refusal


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
    there = workplace.finished(out)
    if there is not None and if_exists != "overwrite":
        _require_same(there, request, out=out, if_exists=if_exists)
        workplace.tidy(out)
        return Prepared(folder=out, manifest=there, kept=True)
    with workplace.workplace(out) as part:
        if workplace.recover(part, out):
            recovered = read_top(out)
            if recovered["request"] == request:
                return Prepared(folder=out, manifest=recovered, kept=False)
            if if_exists != "overwrite":
                _require_same(recovered, request, out=out, if_exists=if_exists)
        with Meter(show=progress) as meter:
            manifest = _build(corpus, request, part, engine or Local(), meter)
            workplace.install(part, out)
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
        workplace.clear(work.folder)  # another run would fail alike
        raise
    whole = work.folder / workplace.WHOLE
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
    plan = read_json(part / workplace.PLAN) or {}
    if plan.get("digest") == digest:
        tokenizer = reopened(plan["tokenizer"], plan["eos"], plan["bos"])
    else:
        workplace.clear(part)
        parts = {
            name: [[dict(part.where), part.size] for part in source.documents.division()]
            for name, source in corpus.sources.items()
        }
        meter.start("tokenizer")
        tokenizer = corpus.tokenizer.build(corpus.texts)
        described = {"tokenizer": tokenizer.json, "eos": tokenizer.eos, "bos": tokenizer.bos}
        plan = {"digest": digest, "parts": parts, **described}
        write_whole(part / workplace.PLAN, json.dumps(plan))
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
    differing = "; ".join(islice(differences(there["request"], request), _SHOWN_DIFFERENCES))
    if if_exists in ("auto", "resume") and not differing:
        return
    other = f" made with other settings ({differing})" if differing else ""
    cure = "if_exists=overwrite" + " or if_exists=auto" * (not differing)
    message = f"contains a data set{other}. Set data= to another folder, or set {cure}"
    raise DataError(f"{out} {message}")
