"""`bipe pretrain --plan`: read the configuration, make the plan of the run, and print it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bipe.build import TARGET
from bipe.checkpoint import CONFIG as MODEL_CONFIG
from bipe.decoder import DecoderConfig
from train.commands.extend import stretched
from train.commands.plan.reckoning import (
    Data,
    Device,
    Measured,
    Placing,
    Plan,
    Schedule,
    make_plan,
)
from train.commands.plan.text import as_numbers, lines
from train.commands.pretrain import decoder_of, default_name, rows_of
from train.config import Config, encoding_name
from train.config.sections import Rows
from train.data.rows.choices import Curriculum, Stages
from train.data.rows.datamodule import LMDataModule
from train.data.store.folder import folders_of
from train.disk.files import read_numbers
from train.errors import ConfigError, DataError, RunError
from train.fit import runs
from train.fit.checkpoints.reading import find_base_run
from train.fit.flops import step_flops
from train.fit.machine import fast_precision, placed
from train.fit.optim import optimizer_of
from train.ranks import world

_NO_DATA = Data(sources=(), document=None, shared=0.0, validation_rows=0)
_WIDTH = 110  # of a file, in columns
_VOCABULARY = 32000  # where neither data nor configuration say
_MOST_DOCUMENTS = 20_000_000  # whose rows are packed within seconds


def show(config: Config, *, command: str, notes: Sequence[str], as_json: bool) -> None:
    """Print the plan of a run, as text or JSON."""
    plan, decoder = plan_of(config, command=command, notes=notes)
    if as_json:
        print(json.dumps(as_numbers(plan), indent=1))
        return
    from rich.console import Console

    title = f"{command}: {encoding_name(decoder.encoding)}, {plan.weights.total:,} parameters"
    wide = Console(highlight=False)
    if not wide.is_terminal:
        wide.width = _WIDTH
    wide.print(*lines(plan, title=title), sep="\n", soft_wrap=True)


def plan_of(config: Config, *, command: str, notes: Sequence[str]) -> tuple[Plan, DecoderConfig]:
    """Return the plan of a run, and its model."""
    notes = list(notes)
    config.build("schedule")  # its errors name the key, and so do the optimizer's
    optimizer_of(config.build("optimizer"), [("one", torch.nn.Parameter(torch.zeros(1, 1)))])
    rows = _rows(config, command, notes)
    data = _NO_DATA if rows is None else _data(rows, config)
    vocabulary = _vocabulary(config, notes) if rows is None else rows.vocab_size
    decoder = decoder_of(config, vocab_size=vocabulary)
    if config.stretch and config.checkpoint:
        with suppress(RunError):  # no checkpoint yet, as a note says
            base = find_base_run(config.checkpoint, key="checkpoint", allowed=config.allowed)
            done = stretched(base, config)
            decoder = decoder if done is None else done.config
    placing = _placing(config, notes)
    name = config.name or (default_name(config) if command == "pretrain" else "")
    plan = make_plan(
        decoder,
        _schedule(config, command),
        data,
        placing,
        folder=Path(config.out) / name,
        allowed=config.allowed,
        measured=_measured(Path(config.out)),
        notes=notes,
    )
    refused = [*_refusals(config)] if command == "scrolls" else []
    return replace(plan, warnings=[*refused, *plan.warnings]), decoder


def _refusals(config: Config) -> Iterator[str]:
    """Yield why `bipe scrolls` would be refused, as far as rows and outputs decide it."""
    from train.tasks.scrolls.encoding import Truncation

    try:
        if config.task and TARGET in config.task:
            task = config.build("task")
            output, last = task.output_tokens, task.last_tokens
            Truncation(row_length=config.row_length, output=output, last=last)
    except DataError as fault:
        yield f"the run would be refused: {fault}"


def _rows(config: Config, command: str, notes: list[str]) -> LMDataModule | None:
    """Return the rows of the run; None if there is no data yet."""
    if command == "scrolls":
        notes.append("examples are made when the run starts; the plan assumes one example per row")
        return None
    try:
        return rows_of(config)
    except (DataError, OSError) as fault:
        if all(folder.exists() for folder in folders_of(config.data).values()):
            raise  # not because there is no data yet
        notes.append(f"{fault}; documents are taken to be as long as rows")
        return None


def _data(rows: LMDataModule, config: Config) -> Data:
    documents = sum(rows.sets.counts(name, "train")["documents"] for name in rows.source_names)
    tested = sum(min(rows.validation_rows, len(each)) for each in rows.rows("validation").values())
    if documents > _MOST_DOCUMENTS or not config.steps:
        return Data(sources=(), document=None, shared=1.0, validation_rows=tested)
    sources = rows.statistics(steps=config.steps)
    packed = [each.packed for each in rows.order().rows]
    means = [each.squares() / max(1, each.inputs()) for each in packed]
    read = [source.read * (1 - source.padding) for source in sources]
    mean = sum(m * n for m, n in zip(means, read, strict=True)) / max(1.0, sum(read))
    shared = sum(source.shared_rows * source.read for source in sources)
    shared /= max(1, sum(source.read for source in sources))
    return Data(sources=sources, document=mean, shared=shared, validation_rows=tested)


def _vocabulary(config: Config, notes: list[str]) -> int:
    """Return the vocabulary that the model or the tokenizer is to have."""
    tokenizer = (config.corpus or {}).get("tokenizer")
    asked = config.model.get("vocab_size")
    if asked is None and isinstance(tokenizer, Mapping):
        asked = tokenizer.get("vocab_size")
    if not isinstance(asked, int):
        notes.append(f"the vocabulary is not known before there is data: {_VOCABULARY} is assumed")
        return _VOCABULARY
    return asked


def _schedule(config: Config, command: str) -> Schedule:
    stages = Stages(
        curriculum=Curriculum(stages=config.rows.curriculum or (), budget=config.rows.budget),
        row_length=config.row_length,
        global_batch=config.rows.global_batch,
    )
    warmup = config.schedule.get("warmup") or 0
    return Schedule(
        steps=config.steps,
        tokens=stages.consumed(config.steps) * config.row_length,
        warmup=warmup if isinstance(warmup, int) else 0,
        row_length=config.row_length,
        global_batch=config.rows.global_batch,
        micro_batch=config.rows.micro_batch,
        validate_every=config.validate_every,
        checkpoint_every=config.checkpoint_every,
        keep_checkpoints=config.keep_checkpoints,
        checkpoint_async=config.checkpoint_async,
        best=command == "scrolls" and config.scrolls.select == "best",
        recompute=config.recompute,
        compile=config.compile,
        attention=config.attention,
        muon=str(config.optimizer.get(TARGET)).endswith(".muon"),
    )


def _placing(config: Config, notes: list[str]) -> Placing:
    started = world()
    trainer = config.trainer if started is None else placed(config.trainer, started)
    nodes = int(trainer.get("num_nodes", 1))
    local = _devices(trainer, config.rows, nodes, notes)
    ranks = local * nodes
    strategy: Any = trainer.get("strategy", "auto")
    sharded = isinstance(strategy, Mapping) and str(strategy.get(TARGET)).endswith(".Sharded")
    replicas = int(strategy.get("replicas", 1)) if sharded else 1
    parts = {"trainer.strategy.replicas": replicas, "context_parallel": config.context_parallel}
    for key, count in parts.items():
        if ranks % count:
            raise ConfigError(f"{key} must divide the number of devices ({ranks}), was: {count}")
    asked = trainer.get("precision", "auto")
    width = int(config.model.get("width", 768))
    bf16 = (fast_precision(width) if asked == "auto" else str(asked)).startswith("bf16")
    kinds: tuple[Device, ...] = ("cpu", "cuda")
    if trainer.get("accelerator") == "cpu":
        kinds = ("cpu",)
    elif trainer.get("accelerator") in ("gpu", "cuda") or torch.cuda.is_available():
        kinds = ("cuda",)
    return Placing(
        ranks=ranks,
        local=local,
        shards=ranks // replicas if sharded else 1,
        buckets=ranks > 1 and not sharded,
        context=config.context_parallel,
        kinds=kinds,
        half={"cpu": bf16, "cuda": bf16 or asked == "auto"},  # GPUs have it in hardware
    )


def _devices(trainer: Mapping[str, Any], rows: Rows, nodes: int, notes: list[str]) -> int:
    """Return the number of devices of each node."""
    devices = trainer.get("devices", 1)
    if isinstance(devices, list):
        return len(devices)
    if str(devices) not in ("-1", "auto"):
        return int(devices)
    found = torch.cuda.device_count()
    if not found and str(devices) == "-1":
        if rows.micro_batch != "auto":  # one micro-batch each
            found = rows.global_batch // (rows.micro_batch * nodes)
        found = max(1, found)
        notes.append(
            "trainer.devices=-1 is all GPUs of a machine, and this one has none: planned for "
            f"{found * nodes}; set trainer.devices to plan for others"
        )
    return max(1, found)


def _measured(out: Path) -> Measured | None:
    """Return the speed of the newest run of the study that was trained on this CPU."""
    if torch.cuda.is_available():
        return None
    found = sorted(out.glob(f"*/{runs.METRICS}"), key=lambda path: -path.stat().st_mtime)
    for path in found:
        try:
            described = json.loads((path.parent / runs.MODEL / MODEL_CONFIG).read_text())
            decoder = DecoderConfig(**described["decoder"])
            length = described["notes"]["row_length"]
            rates: list[Any] = [row.get("tokens_per_second") for row in read_numbers(path)]
            speed = statistics.median(filter(None, rates))
        except (OSError, ValueError, KeyError, TypeError):  # without a rate too
            continue
        flops = step_flops(decoder, row_length=length).model * speed
        return Measured(run=str(path.parent), flops_per_second=flops)
    return None
