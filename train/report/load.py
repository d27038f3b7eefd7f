"""Run folders and a data folder, read into the records of `records.py`.

    RUN/evaluation.json of `bipe evaluate`                   -> Run
    DATA/statistics.json and manifest.json of `bipe prepare` -> SourceStatistics, one a source

Everything is checked here, so the rooms behind trust what they get. Keys that the report does not
need are ignored.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from train.errors import ReportError
from train.fit import runs
from train.report.entry import Entry, open_json
from train.report.load_stretch import stretched
from train.report.probes import load_probes
from train.report.records import (
    Arithmetic,
    Bucket,
    ByPosition,
    Lengths,
    Model,
    Passkey,
    Run,
    Sample,
    Scores,
    SourceStatistics,
    Training,
)
from train.report.scrolls import scores_of

EVALUATION = "bipe-evaluation/1"


def load_runs(folders: Sequence[Path]) -> tuple[Run, ...]:
    """The evaluated runs, in the order given; those with scores of SCROLLS alone are left out.

    Raises:
        ReportError: no run, or an evaluation.json that breaks the format or, where there are no
            scores of SCROLLS either, is missing.
    """
    if not folders:
        raise ReportError("runs must name at least one run folder, was: []")
    return _unique(tuple(_run(Path(folder)) for folder in folders if _evaluated(Path(folder))))


def load_statistics(folder: Path) -> dict[str, SourceStatistics]:
    """The statistics of each source of a prepared data set, in the order of the file.

    Raises:
        ReportError: a statistics.json or manifest.json that is missing or breaks its format.
    """
    cure = f"`bipe prepare` writes it into the data folder {folder}"
    manifest = open_json(Path(folder) / "manifest.json", cure=cure)
    statistics = open_json(Path(folder) / "statistics.json", cure=cure)
    edges = statistics["segment_edges"].rising()
    return {
        name: _source(entry, manifest["sources"][name], edges)
        for name, entry in statistics["sources"].items()
    }


def _evaluated(folder: Path) -> bool:
    """Whether to read an evaluation.json: a missing one is an error that the reading tells."""
    return (folder / runs.EVALUATION).exists() or not scores_of(folder)


def _run(folder: Path) -> Run:
    cure = f"`bipe evaluate` writes it into the run folder {folder}"
    root = open_json(folder / runs.EVALUATION, cure=cure)
    if root["format"].text() != EVALUATION:
        raise root["format"].fault(f"'{EVALUATION}'", cure=cure)
    passkey, chains = root.optional("passkey"), root.optional("arithmetic")
    sources = root["perplexity"]["sources"]
    others = (passkey, chains, root.optional("probes"), root.optional("stretch"))
    if not sources.mapping() and not any(h and h.value for h in others) and not scores_of(folder):
        raise sources.fault("a mapping with at least one source, for nothing else was measured")
    return Run(
        label=root["model"]["name"].text(),
        folder=folder.name or str(folder),
        model=_model(root["model"]),
        training=_training(root["training"]),
        protocol=root["perplexity"]["protocol"].text(),
        scores={name: _scores(entry) for name, entry in sources.items()},
        passkey=_passkey(passkey) if passkey else None,
        probes=load_probes(root),
        arithmetic=_arithmetic(chains) if chains else None,
        stretched=stretched(root.optional("stretch")),
        environment=root["environment"].mapping(),
        config=root["config"].mapping(),
    )


def _model(entry: Entry) -> Model:
    levels = entry["levels"]
    if levels.text() not in ("flat", "bilevel"):
        raise levels.fault("'flat' or 'bilevel'")
    return Model(
        name=entry["name"].text(),
        family=entry["family"].text(),
        levels=levels.text(),
        parameters=entry["parameters"].count(),
        encoding=entry["encoding"].mapping(),
        config=entry["config"].mapping(),
    )


def _training(entry: Entry) -> Training:
    clipped = entry.optional("clipped_share")
    points = [point.numbers(length=2) for point in entry["curve"].entries()]
    return Training(
        row_length=entry["row_length"].count(least=1),
        tokens=_noted(entry, "tokens"),
        steps=_noted(entry, "steps"),
        seconds=entry["seconds"].number(),
        seed=None if entry["seed"].value is None else entry["seed"].count(),
        sources={name: share.number() for name, share in entry["sources"].items()},
        curve=tuple((tokens, loss) for tokens, loss in points),
        skipped_steps=entry["skipped_steps"].count(),
        clipped_share=clipped.number() if clipped else float("nan"),
    )


def _noted(entry: Entry, name: str) -> float:
    return math.nan if entry[name].value is None else entry[name].count()


def _scores(entry: Entry) -> Scores:
    lengths = entry["lengths"].rising(least=1)
    by_position = entry.optional("by_position")
    size = len(lengths)
    return Scores(
        lengths=lengths,
        perplexity=entry["perplexity"].numbers(length=size),
        bits_per_byte=entry["bits_per_byte"].numbers(length=size),
        nll=entry["nll"].numbers(length=size),
        tokens_scored=entry["tokens_scored"].counts(length=size),
        documents=entry["documents"].counts(length=size),
        by_position=_by_position(by_position) if by_position else None,
    )


def _by_position(entry: Entry) -> ByPosition:
    edges = entry["edges"].rising()
    if len(edges) < 2:
        raise entry["edges"].fault("a list of at least two edges")
    return ByPosition(
        length=entry["length"].count(least=1),
        edges=edges,
        nll=entry["nll"].numbers(length=len(edges) - 1),
        tokens=entry["tokens"].counts(length=len(edges) - 1),
    )


def _passkey(entry: Entry) -> Passkey:
    lengths = entry["lengths"].rising(least=1)
    depths = entry["depths"].numbers()
    if not depths:
        raise entry["depths"].fault("a list of at least one depth")
    return Passkey(
        protocol=entry["protocol"].text(),
        lengths=lengths,
        depths=depths,
        accuracy=_grid(entry["accuracy"], rows=len(lengths), columns=len(depths)),
        exact=_grid(entry["exact"], rows=len(lengths), columns=len(depths)),
        trials=entry["trials"].count(least=1),
        chance=entry["chance"].number(),
    )


def _arithmetic(entry: Entry) -> Arithmetic:
    operators = entry["operators"].rising(least=1)
    size = len(operators)
    trained = entry["trained_operators"].rising()
    interval = [pair.numbers(length=2) for pair in entry["interval"].entries()]
    if len(interval) != size:
        raise entry["interval"].fault(f"a list of {size} intervals ({len(interval)} given)")
    return Arithmetic(
        protocol=entry["protocol"].text(),
        trained=trained,
        operators=operators,
        problems=entry["problems"].counts(length=size),
        answer=entry["answer"]["share"].numbers(length=size),
        steps=entry["steps"]["share"].numbers(length=size),
        tokens=entry["tokens"]["share"].numbers(length=size),
        interval=tuple((low, high) for low, high in interval),
    )


def _grid(entry: Entry, *, rows: int, columns: int) -> tuple[tuple[float, ...], ...]:
    lines = entry.entries()
    if len(lines) != rows:
        raise entry.fault(f"a list of {rows} rows, one a length ({len(lines)} given)")
    return tuple(line.numbers(length=columns) for line in lines)


def _source(entry: Entry, told: Entry, edges: tuple[int, ...]) -> SourceStatistics:
    counts = [split for _, split in told["splits"].items()]
    licence = told.optional("licence")
    sample = entry["sample"]
    return SourceStatistics(
        licence=licence.text() if licence else "",
        provenance=told["provenance"].text(),
        segmenter=told["segmenter"].mapping(),
        documents=sum(split["documents"].count() for split in counts),
        tokens=sum(split["tokens"].count() for split in counts),
        bytes=sum(split["bytes"].count() for split in counts),
        edges=(*edges, math.inf),
        lengths=_lengths(entry["tokens_per_segment"], bins=len(edges)),
        buckets=tuple(
            _bucket(bucket, bins=len(edges)) for bucket in entry["by_document_length"].entries()
        ),
        sample=_sample(sample) if sample.mapping() else None,
    )


def _lengths(entry: Entry, *, bins: int) -> Lengths:
    return Lengths(
        segments=entry["segments"].count(),
        mean=entry["mean"].number(),
        percentiles={rank: value.number() for rank, value in entry["percentiles"].items()},
        longest=entry["max"].count(),
        share_of_length_1=entry["share_of_length_1"].number(),
        histogram=entry["histogram"].counts(length=bins),
    )


def _bucket(entry: Entry, *, bins: int) -> Bucket:
    high = entry.optional("to")
    return Bucket(
        low=entry["from"].count(),
        high=high.count() if high else None,
        documents=entry["documents"].count(),
        segments_per_document=entry["segments_per_document"].number(),
        lengths=_lengths(entry, bins=bins),
    )


def _sample(entry: Entry) -> Sample:
    text, cuts = entry["text"].text(), entry["cuts"].rising()
    if cuts[0] != 0 or cuts[-1] != len(text):
        raise entry["cuts"].fault(f"offsets from 0 to the text's length, {len(text)}")
    return Sample(
        document=entry["document"].text(), split=entry["split"].text(), text=text, cuts=cuts
    )


def _unique(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Runs of one name are told apart by seed, and where that is not enough by their order."""
    for suffixes in (
        [f"seed {'unknown' if run.training.seed is None else run.training.seed}" for run in runs],
        [f"run {order}" for order in range(1, len(runs) + 1)],
    ):
        seen = Counter(run.label for run in runs)
        runs = tuple(
            replace(run, label=f"{run.label} ({suffix})") if seen[run.label] > 1 else run
            for run, suffix in zip(runs, suffixes, strict=True)
        )
    return runs
