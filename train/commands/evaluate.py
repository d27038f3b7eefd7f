"""`bipe evaluate`: measure trained runs on held-out documents, into RUN/evaluation.jsonl.

bipe evaluate out=runs/mine
bipe evaluate out=runs/mine evaluate.lengths=[1,4] evaluate.probes=[passkey,copy]
bipe evaluate evaluate.runs=runs/mine/rope@200                  # a checkpoint of a run
bipe evaluate statistics out=runs/mine                          # without a model
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from bipe import Decoder
from bipe.build import build
from segmenters.wording import escaped
from train.config import Config
from train.data.rows.sets import DataSets, read_by
from train.data.rows.source_segmenter import require_source, source_segmenter
from train.data.store.shards import Coarser, LevelWish
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.errors import ConfigError, DataError, RunError, nearest
from train.evals.arithmetic import Arithmetic, has_problems, task_of
from train.evals.grids import summary
from train.evals.loop import Cell, Job, Measurement, Subject, measure
from train.evals.perplexity.measure import Evaluator, LongPPL, Perplexity
from train.evals.perplexity.protocols import Choice
from train.evals.probes.measure import NAMES, Plan, Probe
from train.evals.probes.trials import Haystack, Texts
from train.evals.rows import FILE, Journal, left_out
from train.evals.texts import HeldOut
from train.evals.variants import variants
from train.fit.checkpoints import (
    Place,
    at_step,
    find_place,
    find_places,
    named_step,
    step_of,
    whole_checkpoints,
)
from train.fit.checkpoints.reading import load_place
from train.fit.trained_run import TrainedRun, data_of_runs, read_run

T = TypeVar("T")

_LOOKED_AT = 20_000  # tokens of text that a segmenter with a choice may look at
_OF_VARIANTS = ("perplexity", "passkey")  # what is measured of stretched models


def evaluate(config: Config) -> list[Path]:
    """Evaluate all runs that the configuration names; return the files with their rows."""
    trained = [read_run(place) for place in _places(config)]
    # Runs that read the same levels of the same data have their held-out text in common.
    measured: dict[str, tuple[int, HeldOut, dict[str, Measurement]]] = {}
    jobs: list[Job] = []
    anew: dict[str, list[str]] = {}  # what is measured anew, and of which runs
    of_runs = data_of_runs(trained, asked=config.data, out=config.out)
    for run, data in zip(trained, of_runs, strict=True):
        config_of_run, levels = replace(config, data=data), read_by(run.notes)
        key = f"{data} {levels}"
        if key not in measured:
            measured[key] = measured_on(config_of_run, **levels)
        jobs += _jobs(config_of_run, run, *measured[key], anew=anew)
    for change, labels in anew.items():
        listed = ", ".join(labels) if len(labels) < 4 else f"{len(labels)} models"
        print(escaped(f"bipe: evaluate: {listed}: {change}"), file=sys.stderr)
    measure(jobs, allowed=config.allowed)
    for run in trained:
        rows = Journal(run.folder / FILE).rows_at(run.step)
        Console().print(summary(rows, title=run.label))
    return list(dict.fromkeys(run.folder / FILE for run in trained))


def _places(config: Config) -> list[Place]:
    """Return the models to measure: of runs, or the checkpoints of these that are asked for."""
    key, steps = "evaluate.checkpoints", config.evaluate.checkpoints
    places = find_places(config.evaluate.runs, key="evaluate.runs")
    if steps is None:
        return places
    runs = config.evaluate.runs
    if named := list(filter(named_step, [runs] if isinstance(runs, str) else runs)):
        raise ConfigError(
            f"evaluate.runs={named[0]} is one checkpoint, and {key} names others: remove one"
        )
    homes = dict.fromkeys(place.home for place in places)
    if steps != "all":
        return [at_step(home, step, key=key) for home in homes for step in sorted({*steps})]
    whole = [(home, step_of(path)) for home in homes for path in whole_checkpoints(home)]
    if not whole:
        raise RunError(f"{key}: {', '.join(map(str, homes))} have no checkpoints; set it to null")
    return [at_step(home, step, key=key) for home, step in whole]


def measured_on(
    config: Config, *, level: LevelWish | None, coarser: Coarser
) -> tuple[int, HeldOut, dict[str, Measurement]]:
    """Return the size of the vocabulary, the held-out text and what is measured on it."""
    options, sets = config.evaluate, DataSets(config.data, level=level, coarser=coarser)
    sources = list(sets.sources) if options.sources is None else options.sources
    for name in sources:
        require_source(name, sets.sources, key="evaluate.sources")
    if not 0 <= (options.start_token or 0) < sets.vocab_size:
        rule = f"evaluate.start_token must be an id below {sets.vocab_size}"
        raise ConfigError(f"{rule}, was: {options.start_token}")
    splits = {name: sets.open(name, options.split, verify=True) for name in sources}
    held_out = HeldOut(splits, LoadTokenizer(path=sets.folder).build())
    return sets.vocab_size, held_out, dict(_measurements(config, sets, held_out))


def _jobs(
    config: Config,
    run: TrainedRun,
    vocab_size: int,
    held_out: HeldOut,
    measurements: Mapping[str, Measurement],
    *,
    anew: dict[str, list[str]],
) -> Iterator[Job]:
    """Yield the measurements of a run, then those of its variants; anew: see `_lengths`."""
    if run.model["vocab_size"] < vocab_size:
        raise DataError(
            f"data={config.data} has a vocabulary of {vocab_size}, but {run.folder} one of "
            f"{run.model['vocab_size']}: it was trained on other data"
        )
    row_length = run.row_length or config.row_length
    configured = tuple(factor * row_length for factor in sorted(set(config.evaluate.lengths)))
    lengths = _lengths(config, run, held_out, configured, row_length=row_length, anew=anew)
    subject = Subject(run=run, row_length=row_length, lengths=lengths, held_out=held_out)
    for name, measurement in measurements.items():
        if isinstance(measurement, Probe) and measurement.lengths is None:
            measurement = replace(measurement, lengths=configured)
        yield subject, name, measurement
    sweep = config.evaluate.sweep
    if sweep is None:
        return
    methods = {name: sweep.stretch.get(name) for name in sweep.methods}
    for stretched, misfit in variants(
        subject, methods, units=sweep.units, factor=sweep.factor, allowed=config.allowed
    ):
        if misfit:
            yield stretched, "", _LeftOut(misfit)
            continue
        for name, measurement in measurements.items():
            if name in _OF_VARIANTS:
                if isinstance(measurement, Probe):  # variants have no other lengths
                    measurement = replace(measurement, lengths=configured)
                yield stretched, name, measurement


def _lengths(
    config: Config,
    run: TrainedRun,
    held_out: HeldOut,
    configured: tuple[int, ...],
    *,
    row_length: int,
    anew: dict[str, list[str]],
) -> tuple[int, ...]:
    """Return the configured lengths and those measured by the same protocol before, in tokens.

    Texts are cut at the longest: all lengths are then measured on the same tokens. `anew` gets what
    is measured again on others than before, with the run.
    """
    if not (held_out.splits and configured):
        return configured
    protocol = _filled(Choice, config.evaluate).at(configured[-1], row_length=row_length)
    begin = f"{protocol.identity}, "
    before: dict[str, dict[int, str]] = {source: {} for source in held_out.splits}
    for row in Journal(run.folder / FILE).rows(weights=run.weights):
        place = (row.measure, row.step, row.variant, row.task)
        if (
            place == ("perplexity", run.step, "", "")
            and row.measurement.startswith(begin)
            and row.length is not None
            and row.source in before
        ):
            before[row.source][row.length] = row.measurement.removeprefix(begin)
    lengths = tuple(sorted({*configured, *(at for texts in before.values() for at in texts)}))
    for source, texts in before.items():
        limit = config.evaluate.documents
        new = held_out.excerpts(source, lengths=lengths, limit=limit).identity
        changed = {length: old for length, old in sorted(texts.items()) if old != new}
        if changed:
            at, old = ", ".join(map(str, changed)), "; ".join(dict.fromkeys(changed.values()))
            anew.setdefault(
                f"perplexity of {source} at {at} tokens is measured anew, since the scored tokens "
                f"change: {new}, was: {old}",
                [],
            ).append(run.label)
    return lengths


class _LeftOut(Measurement):
    def __init__(self, reason: str) -> None:
        self._reason = reason

    def cells(self, subject: Subject) -> Iterator[Cell]:
        yield Cell(name="", depends_on=self._reason, measure=left_out(self._reason))


def _measurements(
    config: Config, sets: DataSets, held_out: HeldOut
) -> Iterator[tuple[str, Measurement]]:
    options = config.evaluate
    if held_out.splits:
        yield "perplexity", _filled(Perplexity, options, choice=_filled(Choice, options))
    if options.long_ppl is not None and held_out.splits:
        long_ppl, other = options.long_ppl, _evaluator(config, sets)
        limits = {"documents": options.documents, "tokens_per_batch": options.tokens_per_batch}
        yield "long_ppl", _filled(LongPPL, long_ppl, evaluator=other, **limits)
    for name in options.probes:
        if name not in NAMES:
            raise ConfigError(f"evaluate.probes: {name!r} is not a probe; {nearest(name, NAMES)}")
    require_source(options.probing.source, sets.sources, key="evaluate.probing.source")
    if options.probes:
        hay = _haystack(config, sets, held_out.tokenizer)
        tokens = options.tokens_per_batch
        plan = _filled(Plan, options.probing, tokens_per_batch=tokens, seed=config.seed)
        for name in options.probes:
            yield name, Probe(name=name, hay=hay, plan=plan, lengths=options.probing.lengths)
    if options.arithmetic is not None:
        yield "arithmetic", _arithmetic(config, sets, held_out.tokenizer)
    for name, description in options.measurements.items():
        key = f"evaluate.measurements.{name}"
        if name in ("perplexity", "long_ppl", "arithmetic", *NAMES):
            raise ConfigError(f"{key}: bipe already has a measurement of this name; choose another")
        yield name, build(description, Measurement, allowed=config.allowed, path=key)


def _evaluator(config: Config, sets: DataSets) -> Evaluator | None:
    """Return the run that decides which tokens are key; None: each model for itself."""
    key = "evaluate.long_ppl.evaluator"
    options = config.evaluate.long_ppl
    if options is None or (place := options.evaluator) is None:
        return None
    judge = find_place(place, key=key)
    run = read_run(judge)
    if run.model["vocab_size"] < sets.vocab_size or run.notes.get("tokenizer") != sets.tokenizer:
        raise ConfigError(
            f"{key}: {judge} was trained with a different tokenizer than {config.data}"
        )

    @cache
    def load() -> Decoder:
        return load_place(judge, allowed=config.allowed)[0].eval()

    return Evaluator(name=run.label, sha256=run.weights, load=load)


def _filled(kind: Callable[..., T], options: Any, **given: Any) -> T:
    """Call `kind`; arguments that are not given are read from `options` by name."""
    names = (name for name in signature(kind).parameters if name not in given)
    return kind(**{name: getattr(options, name) for name in names}, **given)


def _haystack(config: Config, sets: DataSets, tokenizer: Tokenizer) -> Haystack:
    """Return the held-out text of a source, with the segmenter for that text."""
    source = config.evaluate.probing.source or next(iter(sets.sources))
    data = sets.open(source, config.evaluate.split)
    try:
        segmenter = source_segmenter(sets, source=source, allowed=config.allowed)
    except ValueError as fault:
        raise ConfigError(
            f"evaluate.probing.source={source}: {fault}; name a source whose segmenter can be "
            "built, or set evaluate.probes=[]"
        ) from None
    beginning = tokenizer.decode(data.tokens[: min(_LOOKED_AT, len(data.tokens))])
    name = Path(next(iter(data.document_ids()), "")).name or None
    chosen = segmenter.choose(text=beginning, name=name)
    texts = Texts(tokenizer=tokenizer, segmenter=chosen, levels=len(data.levels))
    return Haystack(data, texts=texts, name=source)


def _arithmetic(config: Config, sets: DataSets, tokenizer: Tokenizer) -> Arithmetic:
    options = config.evaluate.arithmetic
    assert options is not None
    requests = {
        name: sets.manifests[folder]["request"]["sources"][inner]
        for name, (folder, inner) in sets.sources.items()
    }
    posed = filter(lambda name: has_problems(requests[name]), requests)
    name = options.source or next(posed, next(iter(requests)))
    require_source(name, sets.sources, key="evaluate.arithmetic.source")
    segmenter = source_segmenter(sets, source=name, allowed=config.allowed)
    return Arithmetic(
        source=name,
        task=task_of(requests[name], name=name, segmenter=segmenter),
        tokenizer=tokenizer,
        operators=options.operators,
        problems=options.problems,
        split=config.evaluate.split,
        tokens_per_batch=config.evaluate.tokens_per_batch,
    )
