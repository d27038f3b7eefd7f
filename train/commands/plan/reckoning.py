"""The plan of a training: what it will do and need, from its configuration alone.

Nothing is trained, no token is read, and the model is built without memory (on the meta device).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from bipe.build import build
from bipe.decoder import Decoder, DecoderConfig
from bipe.encodings.base import Scheme, as_scheme
from train.data.rows.choices import MicroBatch, uneven
from train.fit import runs
from train.fit.flops import PEAK, Flops, step_flops
from train.fit.machine import free_memory
from train.fit.memory import (
    DENSE,
    USABLE,
    Device,
    Memory,
    Step,
    Weights,
    count_weights,
    memory_of,
    of_rows,
    placed,
    rows_at_once,
)

if TYPE_CHECKING:  # Lightning takes seconds
    from train.data.rows.datamodule import RowStatistics

# Named GPUs, with their memory in 10^9 bytes.
GPUS = {"A100": 80, "H100": 80, "H200": 141, "B200": 180, "RTX 4090": 24}
# Share of the peak at which all products together are assumed to run, recomputed ones among them.
UTILISATION = 0.4
_MANY_EPOCHS = 4.0  # beyond which repeated data helps little (Muennighoff et al., 2305.16264)
_REST = 1 << 20  # of a checkpoint: counts, state of the loops


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """Where a run trains. ranks: processes, one per device; local: those of one machine.

    shards: ranks that share the weights. context: ranks that share each row. kinds: of devices to
    plan for. half: whether each computes in bfloat16. buckets: DDP.
    """

    ranks: int
    local: int
    shards: int
    buckets: bool
    context: int
    kinds: Sequence[Device]
    half: Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What is read. document: mean length of a token's document in its row; None: not known.

    shared: share of rows with several documents, or padding. validation_rows: of one validation,
    over all sources.
    """

    sources: Sequence[RowStatistics]
    document: float | None
    shared: float
    validation_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps, and what happens after some of them; tokens: of the whole run."""

    steps: int
    tokens: int
    warmup: int
    row_length: int
    global_batch: int
    micro_batch: MicroBatch
    validate_every: int | None
    checkpoint_every: int
    keep_checkpoints: int
    checkpoint_async: bool
    best: bool
    recompute: bool
    compile: bool
    attention: str
    muon: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDevice:
    """A step on one kind of device. micro_batch: rows at once, as chosen for its memory.

    available: bytes that are free on a device here, None if there is none. rows_on: the same rows
    on named GPUs; 0: too many.
    """

    kind: Device
    micro_batch: int
    precision: str
    path: str
    reason: str
    flops: Flops
    memory: Memory
    peak: int
    available: int | None
    rows_on: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Time on a device. days: of all ranks together at work, side by side.

    rows: that fit its memory at once; 0 if those asked for do not, None if that is not known.
    """

    device: str
    days: float
    device_days: float
    rows: int | None
    assumed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Bytes on disk. needed: at the most. free: where the run will be."""

    every: int
    number: int
    kept: int
    each: int
    model: int
    needed: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything about a run that is known before it runs. notes: what is assumed."""

    folder: str
    weights: Weights
    data: Data
    schedule: Schedule
    ranks: int
    accumulation: int
    validations: int
    flops: Flops
    total_flops: float
    on: Sequence[OnDevice]
    paces: Sequence[Pace]
    checkpoints: Checkpoints
    notes: Sequence[str]
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Floating-point operations per second that a run on this machine reached."""

    run: str
    flops_per_second: float


def make_plan(
    decoder: DecoderConfig,
    schedule: Schedule,
    data: Data,
    placing: Placing,
    *,
    folder: Path,
    allowed: tuple[str, ...],
    measured: Measured | None = None,
    notes: Sequence[str] = (),
) -> Plan:
    """Return the plan of a run. notes: what the caller assumes."""
    with torch.device("meta"):
        weights = count_weights(Decoder(decoder, allowed=allowed))
    scheme = as_scheme(build(decoder.encoding, allowed=allowed))
    share = max(1, schedule.global_batch // (placing.ranks // placing.context))
    step = Step(
        decoder=decoder,
        weights=weights,
        rows=share,
        time=schedule.row_length // placing.context,
        context=placing.context,
        packed=data.shared > 0,
        recompute=schedule.recompute,
        shards=placing.shards,
        buckets=placing.buckets,
        copied=schedule.checkpoint_async,
        muon=schedule.muon,
    )
    on = [_on_device(kind, step, scheme, schedule, data, placing) for kind in placing.kinds]
    needed = step_flops(decoder, row_length=schedule.row_length, document=data.document)
    every = schedule.validate_every
    validations = bool(data.validation_rows) * (1 if every is None else schedule.steps // every)
    # A validation is a forward pass.
    tested = validations * data.validation_rows * schedule.row_length * needed.forward
    plan = Plan(
        folder=str(folder),
        weights=weights,
        data=data,
        schedule=schedule,
        ranks=placing.ranks,
        accumulation=max(1, share // on[0].micro_batch),
        validations=validations,
        flops=needed,
        total_flops=schedule.tokens * needed.model,
        on=on,
        paces=[*_paces(on, schedule.tokens, tested, placing.ranks, measured)],
        checkpoints=_checkpoints(weights, schedule, folder),
        notes=notes,
        warnings=(),
    )
    return replace(plan, warnings=[*_faults(plan, placing)])


def _on_device(
    kind: Device, step: Step, scheme: Scheme, schedule: Schedule, data: Data, placing: Placing
) -> OnDevice:
    time, share, asked = schedule.row_length, step.rows, schedule.micro_batch
    half, attention = placing.half[kind], schedule.attention
    step, reason = placed(step, scheme, kind=kind, half=half, attention=attention)
    here = kind == "cpu" or torch.cuda.is_available()
    free = free_memory(torch.device(kind), processes=placing.local) if here else None
    chosen = rows_at_once(step, asked, share=share, free=free)
    rows = max(1, chosen) if asked == "auto" else asked
    memory = memory_of(of_rows(step, rows, share))
    keys = None
    if step.path in DENSE:  # where a mask hides some; rows of one document need no mask
        packed = 1 - (1 - data.shared) ** rows if attention == "auto" else 1.0
        keys = packed * time + (1 - packed) * (time + 1) / 2
    how = {"document": data.document, "recompute": schedule.recompute, "keys": keys}
    gpus = GPUS.items() if kind == "cuda" else ()
    return OnDevice(
        kind=kind,
        micro_batch=rows,
        precision="bf16-mixed" if half else "32-true",
        path=step.path,
        reason=reason,
        flops=step_flops(step.decoder, row_length=time, **how),  # type: ignore[arg-type]
        memory=memory,
        peak=memory.peak,
        available=free,
        rows_on={
            name: rows_at_once(step, asked, share=share, free=gigabytes * 10**9)
            for name, gigabytes in gpus
        },
    )


def _paces(
    on: Sequence[OnDevice], tokens: int, tested: float, ranks: int, measured: Measured | None
) -> Iterator[Pace]:
    for each in on:
        if each.kind == "cuda":
            work = tokens * each.flops.device + tested
            for name, rows in each.rows_on.items():
                peak = PEAK[name]
                days = work / (UTILISATION * peak) / 86400
                yield Pace(
                    device=name,
                    days=days / ranks,
                    device_days=days,
                    rows=rows,
                    assumed=f"{UTILISATION:.0%} of {peak / 1e12:,.0f} TFLOP/s",
                )
        elif measured is not None:
            days = (tokens * each.flops.model + tested) / measured.flops_per_second / 86400
            said = f"at the FLOP/s of {measured.run}"
            yield Pace(device="this machine", days=days, device_days=days, rows=None, assumed=said)


def _checkpoints(weights: Weights, schedule: Schedule, folder: Path) -> Checkpoints:
    each, model = 12 * weights.total + _REST, 4 * weights.total
    number = -(-schedule.steps // schedule.checkpoint_every)
    kept = min(number, schedule.keep_checkpoints)
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return Checkpoints(
        every=schedule.checkpoint_every,
        number=number,
        kept=kept,
        each=each,
        model=model,
        # A new checkpoint is whole before an old one goes.
        needed=min(number, kept + 1) * each + model * (2 if schedule.best else 1),
        free=shutil.disk_usage(place).free,
    )


def _faults(plan: Plan, placing: Placing) -> Iterator[str]:
    """Yield what is likely to be a mistake, each with its cure."""
    schedule = plan.schedule
    batches, shared = (schedule.global_batch, schedule.micro_batch), placing.context
    if fault := uneven(*batches, devices=placing.ranks, context=shared):
        yield f"the run would be refused: {fault}"
    every, steps = schedule.validate_every, schedule.steps
    yield from runs.rarely_meant(steps=steps, warmup=schedule.warmup, validate_every=every)
    if plan.data.sources and not plan.data.validation_rows:
        yield "the run never validates: set rows.validation_rows above 0"
    for source in plan.data.sources:
        if source.epochs > _MANY_EPOCHS:
            cure = "set fewer steps, or prepare more data"
            yield f"{source.source} is read {source.epochs:.1f} times: {cure}"
    for each in plan.on:
        if each.available is not None and each.peak > USABLE * each.available:
            lower = "rows.micro_batch=auto, " * (schedule.micro_batch != "auto")
            yield (
                f"a step takes {each.peak / 1e9:.1f} GB of the {each.available / 1e9:.1f} GB that "
                f"a device ({each.kind}) here has: set {lower}recompute=true, or trainer=fsdp2"
            )
    disk = plan.checkpoints
    if disk.needed > disk.free:
        yield (
            f"{plan.folder} needs {disk.needed / 1e9:.1f} GB, and {disk.free / 1e9:.1f} GB are "
            "free: set out to another disk, or keep_checkpoints lower"
        )
