"""`bipe pretrain --plan`: what a training will read, compute and write, from its configuration.

Nothing is trained, no token is read, and the model is built without memory (on the meta device).
Of memory the plan says what does not depend on rows: weights, gradients and the optimizer. What a
row takes is measured when a run starts (fit/parallel/at_once.py).

A plan is a dictionary of numbers, as `--json` prints it; its text is read off it.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from bipe.build import TARGET
from bipe.checkpoint import CONFIG as MODEL_CONFIG
from bipe.decoder import Decoder, DecoderConfig
from segmenters.wording import counted, size
from train.commands.extend import stretched
from train.commands.pretrain import default_name, refuse_planned, rows_of
from train.config import Config, encoding_name
from train.config.decoders import decoder_of
from train.data.rows.choices import Curriculum, Stages, uneven
from train.data.rows.datamodule import LMDataModule
from train.data.store.folder import folders_of
from train.disk.files import read_numbers
from train.errors import ConfigError, DataError, RunError
from train.fit import runs
from train.fit.checkpoints.reading import find_base_run
from train.fit.flops import PEAK, Flops, step_flops
from train.fit.machine import free_memory, placed
from train.fit.optim import state_bytes
from train.fit.training import rarely_meant
from train.ranks import world

Numbers = dict[str, Any]
GPUS = ("A100", "H100", "H200", "B200", "RTX 4090")  # whose days are shown
# Share of the peak at which all products together are assumed to run, recomputed ones among them.
UTILISATION = 0.4
_DAY, _HOUR, _MINUTE = 86400.0, 3600.0, 60.0  # seconds
_MANY_EPOCHS = 4.0  # beyond which repeated data helps little (Muennighoff et al., 2305.16264)
_REST = 1 << 20  # bytes of a checkpoint: counts, state of the loops
_VOCABULARY = 32000  # where neither data nor configuration say
_MOST_DOCUMENTS = 20_000_000  # whose rows are packed within seconds
_WIDTH = 110  # of a file, in columns


def show(config: Config, *, command: str, notes: Sequence[str], as_json: bool) -> None:
    """Print the plan of a run, as text or JSON. notes: what the caller assumes."""
    plan = plan_of(config, command=command, notes=notes)
    if as_json:
        print(json.dumps(plan, indent=1))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(*lines(plan), sep="\n", soft_wrap=True)


def plan_of(config: Config, *, command: str, notes: Sequence[str]) -> Numbers:
    """Return everything about a run that is known before it runs."""
    notes = list(notes)
    _ = config.schedule.built  # its errors name the key
    rows = _rows(config, command, notes)
    data = _data(rows, config)
    vocabulary = _vocabulary(config, notes) if rows is None else rows.vocab_size
    decoder = _decoder(config, vocabulary)
    with torch.device("meta"):
        model = Decoder(decoder, allowed=config.allowed)
    parameters = parameters_of(model)
    devices = _devices(config, notes)
    memory = _memory(config, model, shards=devices["shards"])
    length, batch = config.row_length, config.rows.global_batch
    flops = step_flops(
        decoder, row_length=length, document=data["document"], recompute=config.recompute
    )
    every = config.validate_every
    validations = bool(data["validation_rows"]) * (1 if every is None else config.steps // every)
    curriculum = Curriculum(stages=config.rows.curriculum or (), budget=config.rows.budget)
    stages = Stages(curriculum=curriculum, row_length=length, global_batch=batch)
    tokens = stages.consumed(config.steps) * length
    validated = validations * data["validation_rows"] * length * flops.forward  # a forward pass
    name = config.name or (default_name(config) if command == "pretrain" else "")
    folder, total = Path(config.out) / name, sum(parameters.values())
    plan = {
        "title": f"{command}: {encoding_name(decoder.encoding)}, {total:,} parameters",
        "folder": str(folder),
        "parameters": parameters,
        "steps": config.steps,
        "tokens": tokens,
        "row_length": length,
        "global_batch": batch,
        "micro_batch": config.rows.micro_batch,
        "devices": devices,
        "data": data,
        "validations": validations,
        "flops": asdict(flops) | {"model": flops.model, "device": flops.device},
        "memory": memory,
        "paces": [*_paces(devices, flops, tokens, validated, Path(config.out))],
        "disk": _disk(config, folder, command, parameters=total, optimizer=memory["optimizer"]),
        "notes": notes,
    }
    refusals = _refusals(config, command, devices, decoder, stages)
    warnings = [*refusals, *_warnings(config, plan)]
    return plan | {
        "warnings": warnings, "total_parameters": total, "total_flops": tokens * flops.model,
    }  # fmt: skip


def parameters_of(model: Decoder) -> dict[str, int]:
    """Return the numbers of parameters by part; a head of 0 is the embedding."""
    counts = dict.fromkeys(("embedding", "encoding", "attention", "mlp", "norms", "head"), 0)
    parts = {"tokens": "embedding", "scheme": "encoding", "head": "head"}
    for name, parameter in model.named_parameters():
        inner = (part for part in ("mlp", "attention") if f".{part}." in name)
        counts[next(inner, parts.get(name.partition(".")[0], "norms"))] += parameter.numel()
    return counts


def _decoder(config: Config, vocabulary: int) -> DecoderConfig:
    decoder = decoder_of(config, vocab_size=vocabulary)
    if config.stretch and config.checkpoint:
        with suppress(RunError):  # no checkpoint yet, as a note says
            base = find_base_run(config.checkpoint, key="checkpoint", allowed=config.allowed)
            extended = stretched(base, config)
            decoder = decoder if extended is None else extended.config
    return decoder


def _memory(config: Config, model: Decoder, *, shards: int) -> Numbers:
    """Return the bytes on each device that do not depend on the number of rows at once."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    state = state_bytes(config.optimizer.built, model.named_parameters())
    weights, state = (-(-whole // shards) for whole in (weights, state))
    return {"weights": weights, "gradients": weights, "optimizer": state,
            "total": 2 * weights + state}  # fmt: skip


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


def _data(rows: LMDataModule | None, config: Config) -> Numbers:
    """Return what is read. document: mean length of a token's document in its row, if known.

    validation_rows: of one validation, over all sources.
    """
    data: Numbers = {"sources": [], "document": None, "validation_rows": 0}
    if rows is None:
        return data
    documents = sum(rows.sets.counts(name, "train")["documents"] for name in rows.source_names)
    validation = rows.rows("validation").values()
    validated = sum(min(rows.validation_rows, len(of_source)) for of_source in validation)
    data["validation_rows"] = validated
    if documents > _MOST_DOCUMENTS or not config.steps:
        return data
    sources = rows.statistics(steps=config.steps)
    packed = [of_source.packed for of_source in rows.order().rows]
    means = [source.squares() / max(1, source.inputs()) for source in packed]
    inputs = [source.read * (1 - source.padding) for source in sources]
    mean = sum(m * n for m, n in zip(means, inputs, strict=True)) / max(1.0, sum(inputs))
    listed = [asdict(source) | {"epochs": source.epochs} for source in sources]
    return data | {"sources": listed, "document": mean}


def _vocabulary(config: Config, notes: list[str]) -> int:
    """Return the vocabulary that the model or the tokenizer is to have."""
    tokenizer = config.corpus and config.corpus.get("tokenizer")
    vocabulary = config.model.get("vocab_size")
    if vocabulary is None and isinstance(tokenizer, Mapping):
        vocabulary = tokenizer.get("vocab_size")
    if not isinstance(vocabulary, int):
        notes.append(f"the vocabulary is not known before there is data: {_VOCABULARY} is assumed")
        return _VOCABULARY
    return vocabulary


def _devices(config: Config, notes: list[str]) -> Numbers:
    """Return the number of processes, one per device; how many share weights, and a row; kinds."""
    started = world()
    trainer = config.trainer if started is None else placed(config.trainer, started)
    count = _device_count(trainer, config, notes)
    strategy: Any = trainer.get("strategy", "auto")
    sharded = isinstance(strategy, Mapping) and str(strategy.get(TARGET)).endswith(".Sharded")
    replicas = int(strategy.get("replicas", 1)) if sharded else 1
    parts = {"trainer.strategy.replicas": replicas, "context_parallel": config.context_parallel}
    for key, number in parts.items():
        if count % number:
            raise ConfigError(f"{key} must divide the number of devices ({count}), was: {number}")
    kinds = ["cpu", "cuda"]
    if trainer.get("accelerator") == "cpu":
        kinds = ["cpu"]
    elif trainer.get("accelerator") in ("gpu", "cuda") or torch.cuda.is_available():
        kinds = ["cuda"]
    shards = count // replicas if sharded else 1
    return {"count": count, "shards": shards, "context": config.context_parallel, "kinds": kinds}


def _device_count(trainer: Mapping[str, Any], config: Config, notes: list[str]) -> int:
    devices, nodes = trainer.get("devices", 1), int(trainer.get("num_nodes", 1))
    if isinstance(devices, list):
        return nodes * len(devices)
    if str(devices) not in ("-1", "auto"):
        return nodes * max(1, int(devices))
    count = torch.cuda.device_count()
    if not count and str(devices) == "-1":
        if config.rows.micro_batch != "auto":  # one micro-batch each
            count = config.rows.global_batch // (config.rows.micro_batch * nodes)
        notes.append(
            "trainer.devices=-1 is all GPUs of a machine, and this one has none: planned for "
            f"{max(1, count) * nodes}; set trainer.devices to plan for others"
        )
    return nodes * max(1, count)


def _paces(
    devices: Numbers, flops: Flops, tokens: int, validated: float, out: Path
) -> Iterator[Numbers]:
    """Yield days per kind of device: of one, and of all side by side; validated: operations."""
    if "cuda" in devices["kinds"]:
        work = tokens * flops.device + validated
        for name in GPUS:
            days = work / (UTILISATION * PEAK[name]) / _DAY
            rate = f"{UTILISATION:.0%} of {PEAK[name] / 1e12:,.0f} TFLOP/s"
            yield {"device": name, "days": days / devices["count"], "device_days": days,
                   "assumed": rate}  # fmt: skip
    if "cpu" in devices["kinds"] and (measured := _measured_speed(out)) is not None:
        run, speed = measured
        days = (tokens * flops.model + validated) / speed / _DAY
        yield {"device": "this machine", "days": days, "device_days": days,
               "assumed": f"at the FLOP/s of {run}"}  # fmt: skip


def _measured_speed(out: Path) -> tuple[Path, float] | None:
    """Return the newest run of a study that was trained here, and its operations per second."""
    tables = sorted(out.glob(f"*/{runs.METRICS}"), key=lambda path: -path.stat().st_mtime)
    for path in tables:
        try:
            model = json.loads((path.parent / runs.MODEL / MODEL_CONFIG).read_text())
            decoder = DecoderConfig(**model["decoder"])
            length = model["notes"]["row_length"]
            rates: list[Any] = [row.get("tokens_per_second") for row in read_numbers(path)]
            rate = statistics.median(filter(None, rates))
        except (OSError, ValueError, KeyError, TypeError):  # without a rate too
            continue
        return path.parent, step_flops(decoder, row_length=length).model * rate
    return None


def _disk(
    config: Config, folder: Path, command: str, *, parameters: int, optimizer: int
) -> Numbers:
    """Return the checkpoints, and bytes on disk. needed: at most. free: where the run will be."""
    model = 4 * parameters
    checkpoint = model + optimizer + _REST
    number = -(-config.steps // config.checkpoint_every)
    kept = min(number, config.keep_checkpoints)
    place = next(place for place in (folder.absolute(), *folder.absolute().parents)
                 if place.exists())  # fmt: skip
    keeps_best = command == "scrolls" and config.scrolls.select == "best"
    # A new checkpoint is whole before an old one goes.
    needed = min(number, kept + 1) * checkpoint + model * (2 if keeps_best else 1)
    return {"every": config.checkpoint_every, "number": number, "kept": kept,
            "checkpoint": checkpoint, "model": model, "needed": needed,
            "free": shutil.disk_usage(place).free}  # fmt: skip


def _refusals(
    config: Config, command: Any, devices: Numbers, decoder: DecoderConfig, stages: Stages
) -> Iterator[str]:
    """Yield why the run would be refused, as far as the configuration decides it."""
    from train.tasks.scrolls.encoding import Truncation

    rows = config.rows
    if fault := uneven(
        rows.global_batch, rows.micro_batch, devices=devices["count"], context=devices["context"]
    ):
        yield f"the run would be refused: {fault}"
    try:
        if config.steps or command == "pretrain":
            refuse_planned(config, decoder, stages, command)
        if command == "scrolls" and config.task and TARGET in config.task:
            task = config.task.built
            Truncation(row_length=config.row_length, output=task.output_tokens,
                       last=task.last_tokens)  # fmt: skip
    except (ConfigError, DataError) as refusal:
        yield f"the run would be refused: {refusal}"


def _warnings(config: Config, plan: Numbers) -> Iterator[str]:
    """Yield what is likely to be a mistake, each with its cure."""
    warmup = config.schedule.get("warmup")
    yield from rarely_meant(
        steps=config.steps,
        warmup=warmup,
        validate_every=config.validate_every,
        precision=str(config.trainer.get("precision", "auto")),
    )
    data, disk, taken = plan["data"], plan["disk"], plan["memory"]["total"]
    if data["sources"] and not data["validation_rows"]:
        yield "the run never validates: set rows.validation_rows above 0"
    for source in data["sources"]:
        if source["epochs"] > _MANY_EPOCHS:
            cure = "set fewer steps, or prepare more data"
            yield f"{source['source']} is read {source['epochs']:.1f} times: {cure}"
    here = "cuda" if torch.cuda.is_available() else "cpu"
    free = free_memory(torch.device(here)) if here in plan["devices"]["kinds"] else None
    if free is not None and taken > free:
        yield (
            f"weights, gradients and optimizer take {taken / 1e9:.1f} GB of the "
            f"{free / 1e9:.1f} GB that a device ({here}) here has: set trainer=fsdp2 on several "
            "devices, or a smaller model"
        )
    if disk["needed"] > disk["free"]:
        yield (
            f"{plan['folder']} needs {disk['needed'] / 1e9:.1f} GB, and {disk['free'] / 1e9:.1f} "
            "GB are free: set out to another disk, or keep_checkpoints lower"
        )


def lines(plan: Numbers) -> Iterator[RenderableType]:
    """Yield the parts of the plan, in the order in which a reader asks for them."""
    memory, disk = plan["memory"], plan["disk"]
    yield f"[bold]{escape(plan['title'])}[/]\n"
    table = _table("parameters", "", "share")
    for name, count in plan["parameters"].items():
        if count:
            table.add_row(name, f"{count:,}", f"{count / plan['total_parameters']:.1%}")
    table.add_row("total", f"{plan['total_parameters']:,}", "")
    yield table
    yield from _run(plan)
    for source in plan["data"]["sources"]:
        times = f"read {source['epochs']:.2f} times"
        yield f"  {escape(source['source'])}: {source['tokens']:,} tokens, {times}"
    yield ""
    parts = ("weights", "gradients", "optimizer")
    listed = ", ".join(f"{size(memory[part])} of {'the ' * (part == 'optimizer')}{part}"
                       for part in parts)  # fmt: skip
    rest = "; rows.micro_batch=auto measures what a row takes when the run starts"
    rest = rest if plan["micro_batch"] == "auto" else ""
    yield f"memory per device: {listed}: {size(memory['total'])}{rest}"
    if plan["paces"]:
        number = plan["devices"]["count"]
        heads = [f"with {number} of them"] * (number > 1)
        title = f"time (estimates; GPUs at {UTILISATION:.0%} of their peak)"
        table = _table(title, "one device", *heads, "")
        for pace in plan["paces"]:
            shown = [duration(pace["device_days"]), duration(pace["days"])][: 1 + len(heads)]
            table.add_row(pace["device"], *shown, escape(pace["assumed"]))
        yield table
    number, every = counted(disk["number"], "checkpoint"), counted(disk["every"], "step")
    kept = f"{disk['kept']} kept; model {size(disk['model'])}"
    yield f"{number} of {size(disk['checkpoint'])}, one every {every}, {kept}"
    needed = f"needs up to {size(disk['needed'])}; {size(disk['free'])} are free"
    yield f"{escape(plan['folder'])} {needed}"
    yield from (f"[dim]assumed:[/] {escape(note)}" for note in plan["notes"])
    yield from (f"[yellow]warning:[/] {escape(warning)}" for warning in plan["warnings"])


def _run(plan: Numbers) -> Iterator[str]:
    flops, devices, tokens = plan["flops"], plan["devices"]["count"], plan["tokens"]
    shares = [counted(devices, "device")] * (devices > 1)
    if plan["micro_batch"] != "auto":
        shares.append(f"{counted(plan['micro_batch'], 'row')} at once")
    division = f" ({', '.join(shares)})" if shares else ""
    rows = counted(plan["data"]["validation_rows"], "row")
    validations = f"; {counted(plan['validations'], 'validation')} of {rows}"
    yield (
        f"{counted(plan['steps'], 'step')} of {counted(plan['global_batch'], 'row')} of "
        f"{plan['row_length']:,} tokens{division}: {tokens / max(1, plan['steps']):,.0f} tokens "
        "per step"
    )
    yield (
        f"{tokens:,} tokens in total, {tokens / plan['total_parameters']:,.1f} per parameter"
        f"{validations if plan['validations'] else ''}"
    )
    yield (
        f"{flops['forward'] / 1e6:,.2f} MFLOP per token forward, {flops['backward'] / 1e6:,.2f} "
        f"backward; {plan['total_flops']:.3g} FLOP in total"
    )


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def duration(days: float) -> str:
    """Return days in the unit that suits them: 3.2 days, 5.1 hours, 12 minutes."""
    for unit, length in (("days", _DAY), ("hours", _HOUR), ("minutes", _MINUTE)):
        if (number := days * _DAY / length) >= 1:
            return f"{number:,.1f} {unit}"
    return "under a minute"
