"""Documents -> cuts -> tokens and marks -> shards, once, so that training reads shards only.

The work is divided into parts (parts.py) that an engine makes side by side; merged in order, they
give the same bytes for any number of workers and after any interruption. A run that was killed is
taken up by the next one with the same request: what is done is not done again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from train.data.preparing.card import card, card_data
from train.data.preparing.duplicates import list_duplicates
from train.data.preparing.engine.engines import Engine, Local
from train.data.preparing.engine.work import Task, Work
from train.data.preparing.merge import merge_source, tallies
from train.data.preparing.progress import Meter, Watch
from train.data.preparing.source import Source, completed, plain
from train.data.preparing.statistics import DOCUMENT_EDGES, SEGMENT_EDGES
from train.data.reading.parts import Part
from train.data.reading.split import Split
from train.data.store import folder
from train.data.store.writer import SHARD_TOKENS
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import TokenizerSource
from train.disk.files import write_whole
from train.errors import DataError

__all__ = ["Prepared", "Source", "prepare"]

IF_EXISTS = ("refuse", "overwrite", "resume")
_SHOWN_DIFFERENCES = 3
_PLAN, _TOKENIZER = "plan.json", "tokenizer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A data set on disk; `kept` if it stood there before and was left alone."""

    folder: Path
    manifest: dict[str, Any]
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for, complete and checked; `told` is what the manifest says of it."""

    sources: Mapping[str, Source]
    tokenizer: TokenizerSource
    deduplicate: bool
    shard_tokens: int
    told: dict[str, Any]


def prepare(
    *,
    sources: Mapping[str, Source],
    tokenizer: TokenizerSource,
    out: str | Path,
    split: Split | None = None,
    deduplicate: bool = False,
    shard_tokens: int = SHARD_TOKENS,
    limit: int | None = None,
    if_exists: str = "refuse",
    engine: Engine | None = None,
    progress: bool = True,
) -> Prepared:
    """Prepare every source into OUT/SOURCE/{train,validation,test}.

    deduplicate: leave out documents whose text, white space apart, was there before, in any
    source. shard_tokens: a shard that holds as many takes no further document. limit: documents a
    source. if_exists: "refuse" a folder that holds a data set, "overwrite" it once the new one is
    complete, or "resume": leave it alone if the request is the same, refuse another one by its key.
    engine: what makes the parts; by default, processes of this machine.
    Raises DataError, or SegmenterError naming the document. Parts that are done stay in OUT/.part
    for another run to go on from.
    """
    out = Path(out)
    if if_exists not in IF_EXISTS:
        raise DataError(f"if_exists must be {', '.join(IF_EXISTS)}, was: {if_exists}")
    request = asked(
        sources=sources,
        tokenizer=tokenizer,
        split=split,
        deduplicate=deduplicate,
        shard_tokens=shard_tokens,
        limit=limit,
    )
    standing = folder.finished(out)
    if standing is not None and if_exists != "overwrite":
        _require_same(standing, request.told, out=out, if_exists=if_exists)
        return Prepared(folder=out, manifest=standing, kept=True)
    with folder.workplace(out) as part:
        if folder.recover(part, out):
            recovered = folder.read_top(out)
            if recovered["request"] == request.told:
                return Prepared(folder=out, manifest=recovered, kept=False)
            if if_exists != "overwrite":
                _require_same(recovered, request.told, out=out, if_exists=if_exists)
        with Meter(show=progress) as meter:
            manifest = _build(request, part, engine or Local(), meter)
            folder.install(part, out)
    return Prepared(folder=out, manifest=manifest, kept=False)


def asked(
    *,
    sources: Mapping[str, Source],
    tokenizer: TokenizerSource,
    split: Split | None,
    deduplicate: bool,
    shard_tokens: int,
    limit: int | None,
) -> Request:
    """The request, with all that can be found wrong with it before any work is done."""
    made = completed(sources, split=split or Split(), limit=limit)
    if shard_tokens < 1:
        raise DataError(f"shard_tokens must be at least 1, was: {shard_tokens}")
    for name, source in made.items():
        try:
            source.documents.check()
            for each in source.filters:
                each.check()
        except DataError as fault:
            raise DataError(f"corpus.sources.{name}.documents.{fault}") from None
    told = {
        "tokenizer": tokenizer.fingerprint(),
        "deduplicate": deduplicate,
        "shard_tokens": shard_tokens,
        "sources": {name: source.fingerprint() for name, source in made.items()},
    }
    return Request(
        sources=made,
        tokenizer=tokenizer,
        deduplicate=deduplicate,
        shard_tokens=shard_tokens,
        told=plain(told),
    )


def _build(request: Request, part: Path, engine: Engine, meter: Meter) -> dict[str, Any]:
    """Make all parts, merge them into PART/whole, the manifest last; return it."""
    tasks, digest = _plan(request, part)
    tokenizer = _tokenizer(request, part, digest, meter)
    vouched = {"tokenizer": tokenizer.fingerprint()}
    work = Work(
        folder=part,
        sources=request.sources,
        tasks=tasks,
        digest=f"{digest}:{vouched['tokenizer']['sha256']}",
        tokenizer=tokenizer,
        deduplicate=request.deduplicate,
        descriptions={
            name: plain({**vouched, **source.description()})
            for name, source in request.sources.items()
        },
    )
    if request.deduplicate:
        _make(work.hashing(), engine, meter, title="hashes of ")
        list_duplicates(work)
    _make(work, engine, meter)
    try:
        counted = tallies(work)
    except DataError:
        folder.clear(part)  # another run would find the same
        raise
    whole = part / folder.WHOLE
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir()
    manifest: dict[str, Any] = {
        "format": folder.FORMAT,
        "version": folder.VERSION,
        "request": request.told,
        **vouched,
        "sources": {},
    }
    statistics: dict[str, Any] = {
        "segment_edges": SEGMENT_EDGES,
        "document_edges": DOCUMENT_EDGES,
        "sources": {},
    }
    meter.start("shards")
    for name, tally in counted.items():
        manifest["sources"][name] = merge_source(
            tally, whole / name, meter, shard_tokens=request.shard_tokens
        )
        statistics["sources"][name] = tally.statistics()
    meter.finish()
    write_whole(whole / folder.TOKENIZER, tokenizer.json)
    write_whole(whole / folder.STATISTICS, json.dumps(statistics) + "\n")
    data = card_data(manifest, statistics)
    write_whole(whole / folder.CARD_DATA, json.dumps(data, indent=1) + "\n")
    write_whole(whole / folder.CARD, card(data))
    return folder.write_top(whole, manifest)


def _make(work: Work, engine: Engine, meter: Meter, *, title: str = "") -> None:
    """Let the engine make the parts."""
    work.clear_reports()
    missing = len(work.missing())
    kept = len(work.tasks) - missing
    meter.start(
        f"{title}{len(work.tasks)} parts of {', '.join(work.sources)}"
        + (f", {kept} of them done before" if kept else "")
    )
    watch = Watch(work, meter)
    if missing:
        engine.run(work, watch=watch)
    watch.finish()


def _plan(request: Request, part: Path) -> tuple[list[Task], str]:
    """The parts of all sources, as an interrupted run left them if it was this one."""
    states = plain({name: source.documents.state() for name, source in request.sources.items()})
    digest = hashlib.sha256(json.dumps([request.told, states]).encode()).hexdigest()
    found = _read(part / _PLAN)
    if found is None or found.get("digest") != digest:
        folder.clear(part)
        divided = {name: source.documents.division() for name, source in request.sources.items()}
        found = {
            "digest": digest,
            "parts": {
                name: [[dict(each.where), each.size] for each in parts]
                for name, parts in divided.items()
            },
        }
        write_whole(part / _PLAN, json.dumps(found))
    tasks = [
        Task(source=name, number=number, part=Part(where=plain(where), size=size))
        for name, parts in found["parts"].items()
        for number, (where, size) in enumerate(parts)
    ]
    return tasks, digest


def _tokenizer(request: Request, part: Path, digest: str, meter: Meter) -> Tokenizer:
    """The tokenizer of the request, or the same one as an interrupted run left it."""
    path = part / _TOKENIZER
    found = _read(path)
    if found is not None and found.get("digest") == digest:
        fast = tokenizers.Tokenizer.from_str(found["json"])
        made = Tokenizer(fast=fast, eos=found["eos"])
        if made.fingerprint() == found["fingerprint"]:
            return made
    meter.start("tokenizer")
    made = request.tokenizer.build(lambda characters: _training_texts(request.sources, characters))
    kept = {
        "digest": digest,
        "json": made.json,
        "eos": made.fast.id_to_token(made.eos_id),
        "fingerprint": made.fingerprint(),
    }
    write_whole(path, json.dumps(kept))
    meter.finish()
    return made


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


def _require_same(
    standing: dict[str, Any], request: dict[str, Any], *, out: Path, if_exists: str
) -> None:
    differing = list(folder.differences(standing["request"], request))[:_SHOWN_DIFFERENCES]
    if if_exists == "resume" and not differing:
        return
    other = f" made otherwise ({'; '.join(differing)})" if differing else ""
    raise DataError(
        f"{out} holds a data set{other}. Set data= to another folder, or set if_exists=overwrite"
        + ("" if differing else " or if_exists=resume")
    )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
