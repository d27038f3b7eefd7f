"""The plan of a training: what it will do and need, from its configuration alone.

Nothing is trained, no token is read, and the model is built without memory (on the meta device).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from bipe.attention.dispatch import Case, bias_kind, choose_rule
from bipe.attention.fused import bias_row_works
from bipe.build import build
from bipe.decoder import Decoder, DecoderConfig
from bipe.encodings.base import Scheme, as_scheme, levels_of
from bipe.positions import Positions
from train.data.rows.choices import uneven
from train.fit.flops import Flops, peak_flops, step_flops
from train.fit.plan.memory import Memory, Step, Weights, count_weights, memory_of

if TYPE_CHECKING:  # Lightning takes seconds
    from train.data.rows.datamodule import RowStatistics

# Named GPUs, with their memory in 10^9 bytes.
GPUS = {"A100": 80, "H100": 80, "H200": 141, "B200": 180, "RTX 4090": 24}
# Share of the peak at which all products together are assumed to run, recomputed ones among them.
UTILISATION = 0.4
_DENSE = ("masked", "eager")  # paths that compute all pairs of a row
_USABLE = 0.9  # of a device's memory
_MANY_EPOCHS = 4.0  # beyond which repeated data helps little (Muennighoff et al., 2305.16264)
_REST = 1 << 20  # of a checkpoint: counts, state of the loops

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """Where a run trains. ranks: processes, one per device. shards: ranks that share the weights.

    context: ranks that share each row. kinds: of devices to plan for. half: whether each computes
    in bfloat16. buckets: DDP.
    """

    ranks: int
    shards: int
    buckets: bool
    context: int
    kinds: Sequence[Device]
    half: Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What is read. document: mean length of a token's document in its row; None: not known.

    packed: share of micro-batches with several documents in a row, or padding. validation_rows: of
    one validation, over all sources.
    """

    sources: Sequence[RowStatistics]
    document: float | None
    packed: float
    validation_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps, and what happens after some of them; tokens: of the whole run."""

    steps: int
    tokens: int
    warmup: int
    row_length: int
    global_batch: int
    micro_batch: int
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
    """A step on one kind of device. bytes: what a device there has, None if it is not known."""

    kind: Device
    precision: str
    path: str
    reason: str
    flops: Flops
    memory: Memory
    peak: int
    available: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Time on a device. days: of all ranks together at work, side by side. fits: in its memory."""

    device: str
    days: float
    device_days: float
    fits: bool | None
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
    at_once = schedule.micro_batch * (placing.ranks // placing.context)
    accumulation = max(1, schedule.global_batch // at_once)
    on = [
        _on_device(
            kind, decoder, scheme, weights, schedule, data, placing, accumulates=accumulation > 1
        )
        for kind in placing.kinds
    ]
    needed = step_flops(decoder, row_length=schedule.row_length, document=data.document)
    validations = _validations(schedule, data)
    # A validation is a forward pass.
    tested = validations * data.validation_rows * schedule.row_length * needed.forward
    plan = Plan(
        folder=str(folder),
        weights=weights,
        data=data,
        schedule=schedule,
        ranks=placing.ranks,
        accumulation=accumulation,
        validations=validations,
        flops=needed,
        total_flops=schedule.tokens * needed.model,
        on=on,
        paces=_paces(on, schedule.tokens, tested, placing, measured),
        checkpoints=_checkpoints(weights, schedule, folder),
        notes=notes,
        warnings=(),
    )
    return replace(plan, warnings=_faults(plan, placing))


def attention_of(
    scheme: Scheme, *, kind: Device, time: int, packed: bool, path: str
) -> tuple[str, str, str, bool]:
    """Return path and reason of attention, what its bias is, and whether there is a rotation."""
    nothing = torch.zeros(1, 2, dtype=torch.uint8)
    at = Positions.from_marks(nothing, packed=packed, levels=levels_of(scheme))
    with torch.no_grad():
        bias, rotated = bias_kind(scheme.bias(at, at)), scheme.rotation(at) is not None
    if path != "auto":
        return path, "as configured", bias, rotated
    case = Case(
        device=kind,
        bias=bias,
        queries="all",
        time=time,
        packed=packed,
        gradients=True,
        row_kernel=bias_row_works(),
    )
    rule = choose_rule(case)
    return rule.path, rule.reason, bias, rotated


def _on_device(
    kind: Device,
    decoder: DecoderConfig,
    scheme: Scheme,
    weights: Weights,
    schedule: Schedule,
    data: Data,
    placing: Placing,
    *,
    accumulates: bool,
) -> OnDevice:
    time, context = schedule.row_length, placing.context
    path, reason, bias, rotated = attention_of(
        scheme, kind=kind, time=time, packed=data.packed > 0, path=schedule.attention
    )
    if context > 1 and path not in _DENSE:
        path, reason = "masked", f"a row is shared by {context} devices"
    step = Step(
        decoder=decoder,
        weights=weights,
        rows=schedule.micro_batch,
        time=time // context,
        context=context,
        device=kind,
        path=path,
        dense_bias=bias != "none",
        rotated=rotated,
        packed=data.packed > 0,
        half=placing.half[kind],
        recompute=schedule.recompute,
        accumulates=accumulates,
        shards=placing.shards,
        buckets=placing.buckets,
        copied=schedule.checkpoint_async,
        muon=schedule.muon,
    )
    memory = memory_of(step)
    return OnDevice(
        kind=kind,
        precision="bf16-mixed" if step.half else "32-true",
        path=path,
        reason=reason,
        flops=step_flops(
            decoder,
            row_length=time,
            document=data.document,
            recompute=schedule.recompute,
            keys=_dense_keys(schedule, data) if path in _DENSE else None,
        ),
        memory=memory,
        peak=memory.peak,
        available=available(kind),
    )


def _dense_keys(schedule: Schedule, data: Data) -> float:
    """Return the keys per query where a mask hides some; rows of one document need no mask."""
    time = schedule.row_length
    share = data.packed if schedule.attention == "auto" else 1.0
    return share * time + (1 - share) * (time + 1) / 2


def available(kind: Device) -> int | None:
    """Return the memory of this machine's devices of a kind, in bytes; None if it has none."""
    if kind == "cuda":
        if not torch.cuda.is_available():
            return None
        return int(torch.cuda.get_device_properties(0).total_memory)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _validations(schedule: Schedule, data: Data) -> int:
    if not data.validation_rows:
        return 0
    return 1 if schedule.validate_every is None else schedule.steps // schedule.validate_every


def _paces(
    on: Sequence[OnDevice],
    tokens: int,
    tested: float,
    placing: Placing,
    measured: Measured | None,
) -> list[Pace]:
    found = []
    for each in on:
        work = tokens * each.flops.device + tested
        if each.kind == "cpu":
            if measured is not None:
                own = tokens * each.flops.model + tested
                speed, assumed = measured.flops_per_second, f"at the FLOP/s of {measured.run}"
                found.append(_pace("this machine", own, speed, 1, None, assumed))
            continue
        for name, gigabytes in GPUS.items():
            peak = peak_flops(name)
            assert peak is not None
            assumed = f"{UTILISATION:.0%} of {peak / 1e12:,.0f} TFLOP/s"
            fits = each.peak <= _USABLE * gigabytes * 1e9
            found.append(_pace(name, work, UTILISATION * peak, placing.ranks, fits, assumed))
    return found


def _pace(
    device: str, work: float, speed: float, ranks: int, fits: bool | None, assumed: str
) -> Pace:
    days = work / speed / 86400
    return Pace(device=device, days=days / ranks, device_days=days, fits=fits, assumed=assumed)


def _checkpoints(weights: Weights, schedule: Schedule, folder: Path) -> Checkpoints:
    steps, every = schedule.steps, schedule.checkpoint_every
    each, model = 12 * weights.total + _REST, 4 * weights.total
    number = -(-steps // every)
    kept = min(number, schedule.keep_checkpoints)
    # A new checkpoint is whole before an old one goes.
    most = (min(number, kept + 1)) * each + model + (model if schedule.best else 0)
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return Checkpoints(
        every=every,
        number=number,
        kept=kept,
        each=each,
        model=model,
        needed=most,
        free=shutil.disk_usage(place).free,
    )


def _faults(plan: Plan, placing: Placing) -> list[str]:
    """Return what is likely to be a mistake, each with its cure."""
    schedule, found = plan.schedule, []
    batches, shared = (schedule.global_batch, schedule.micro_batch), placing.context
    if fault := uneven(*batches, devices=placing.ranks, context=shared):
        found.append(f"the run would be refused: {fault}")
    if schedule.warmup and schedule.warmup >= schedule.steps:
        found.append(
            f"schedule.warmup ({schedule.warmup}) is not over after {schedule.steps} steps: the "
            "learning rate rises to the end; set schedule.warmup below steps"
        )
    if plan.data.sources and not plan.validations:
        cure = f"validate_every ({schedule.validate_every}) to at most {schedule.steps}"
        if not plan.data.validation_rows:
            cure = "rows.validation_rows above 0"
        found.append(f"the run never validates: set {cure}")
    found += [
        f"{each.source} is read {each.epochs:.1f} times: set fewer steps, or prepare more data"
        for each in plan.data.sources
        if each.epochs > _MANY_EPOCHS
    ]
    for each in plan.on:
        if each.available is not None and each.peak > _USABLE * each.available:
            found.append(
                f"a step takes {each.peak / 1e9:.1f} GB of the {each.available / 1e9:.1f} GB that "
                f"a device ({each.kind}) here has: set rows.micro_batch lower, recompute=true, or "
                "trainer=fsdp2"
            )
    disk = plan.checkpoints
    if disk.needed > disk.free:
        found.append(
            f"{plan.folder} needs {disk.needed / 1e9:.1f} GB, and {disk.free / 1e9:.1f} GB are "
            "free: set out to another disk, or keep_checkpoints lower"
        )
    return found
