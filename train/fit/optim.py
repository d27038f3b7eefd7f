"""AdamW, Muon, the learning-rate schedules as values that are called with a step, skipped steps.

A schedule is a factor on the learning rate: warm-up from 0, then its own shape, down to `floor`.

A step whose gradient is not finite is skipped. A fused optimizer decides that by itself, without
waiting for the device: given `found_inf`, as from torch.amp.GradScaler, its kernels change nothing.
Others, and sharded parameters, need the wait; their gradients are dropped.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from train.config.sections import SCHEDULE
from train.errors import ConfigError, RunError, as_config_error

_LOOK_EVERY = 10  # steps, if looking waits for the device


class Schedule(Protocol):
    """A factor on the learning rate as a function of the step; base of classes of your own."""

    def __call__(self, step: int) -> float: ...


def adamw(
    parameters: Iterable[nn.Parameter],
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.95),
    eps: float = 1e-8,
    weight_decay: float = 0.1,
    fused: bool = True,
) -> torch.optim.AdamW:
    """Return AdamW (Loshchilov and Hutter, 1711.05101); only matrices decay, not vectors."""
    _require("optimizer.lr", lr, 0 < lr < math.inf, "above 0")
    good = len(betas) == 2 and all(0 <= beta < 1 for beta in betas)
    _require("optimizer.betas", betas, good, "two numbers from 0 to below 1")
    _require("optimizer.eps", eps, eps > 0, "above 0")
    _require("optimizer.weight_decay", weight_decay, weight_decay >= 0, "at least 0")
    parameters = [p for p in parameters if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=lr,
        betas=(betas[0], betas[1]),  # YAML gives a list
        eps=eps,
        fused=fused,
    )


def muon(
    named: Iterable[tuple[str, nn.Parameter]],
    *,
    lr: float,
    momentum: float = 0.95,
    betas: tuple[float, float] = (0.9, 0.95),
    eps: float = 1e-8,
    weight_decay: float = 0.1,
) -> torch.optim.Optimizer:
    """Return Muon (Jordan, 2024) for the matrices of blocks, with AdamW for all else.

    Its updates are scaled to those of AdamW (0.2 sqrt(larger side); Liu et al., 2502.16982), so one
    lr fits both.
    """
    _require("optimizer.momentum", momentum, 0 <= momentum < 1, "from 0 to below 1")
    in_blocks: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, p in named:
        if p.requires_grad:
            (in_blocks if name.startswith("blocks.") and p.ndim == 2 else others).append(p)
    both: dict[str, Any] = {"lr": lr, "weight_decay": weight_decay}
    parts: list[torch.optim.Optimizer] = []
    if in_blocks:
        parts.append(
            torch.optim.Muon(in_blocks, **both, momentum=momentum, adjust_lr_fn="match_rms_adamw")
        )
    if others or not parts:
        parts.append(adamw(others, **both, betas=betas, eps=eps, fused=False))
    return Optimizers(parts)


class Optimizers(torch.optim.Optimizer):
    """Several optimizers as one, with one state and one list of groups, as checkpoints need."""

    def __init__(self, parts: list[torch.optim.Optimizer]) -> None:
        self.parts: list[torch.optim.Optimizer] = []
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts = parts
        self._share()

    def _share(self) -> None:
        groups = iter(self.param_groups)
        for part in self.parts:
            part.param_groups = list(itertools.islice(groups, len(part.param_groups)))
            part.state = self.state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # when a state is loaded: new groups
        self._share()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for part in self.parts:
            part.step()
        return loss


def optimizer_of(
    factory: Callable[..., torch.optim.Optimizer], named: Iterable[tuple[str, nn.Parameter]]
) -> torch.optim.Optimizer:
    """Call a factory with parameters, or with pairs of names and parameters if it has `named`."""
    takes_names = "named" in inspect.signature(factory).parameters
    with as_config_error("optimizer: ", TypeError):
        made = factory(named if takes_names else (parameter for _, parameter in named))
    is_one = isinstance(made, torch.optim.Optimizer)
    _require("optimizer", made, is_one, "a function that returns one torch.optim.Optimizer")
    return made


def state_bytes(
    factory: Callable[..., torch.optim.Optimizer], named: Iterable[tuple[str, nn.Parameter]]
) -> int:
    """Return the bytes of the state of an optimizer on this device, before there is any.

    Found by a step of stand-ins with two places along each axis; the parameters may be on meta.
    """
    named = [(name, p) for name, p in named if p.requires_grad]
    small = {name: nn.Parameter(torch.zeros((2,) * p.ndim)) for name, p in named}
    for parameter in small.values():
        parameter.grad = torch.zeros_like(parameter)
    optimizer = optimizer_of(factory, small.items())
    optimizer.step()
    total = 0
    for name, parameter in named:
        here = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        state = [v for v in optimizer.state[small[name]].values() if isinstance(v, Tensor)]
        size = sum(value.numel() * value.element_size() for value in state if value.numel() > 1)
        total += size * here.numel() // small[name].numel()
    return total


def chosen(named: Iterable[tuple[str, nn.Parameter]], names: Collection[str]) -> list[nn.Parameter]:
    """Return the parameters of these names; ConfigError for a name that none has."""
    found = {name: p for name, p in named if name in names}
    missing = sorted({*names} - {*found})
    _require("new of Adaptation", ", ".join(missing), not missing, "names of trained parameters")
    return [*found.values()]


def with_rate(
    optimizer: torch.optim.Optimizer, parameters: Collection[nn.Parameter], *, factor: float
) -> torch.optim.Optimizer:
    """Return the optimizer with a factor on the learning rate of some parameters."""
    # Their groups come last, since the rate of the first group is logged.
    ids = {id(parameter) for parameter in parameters}
    if factor == 1 or not ids:
        return optimizer
    if isinstance(optimizer, Optimizers):
        return Optimizers([with_rate(part, parameters, factor=factor) for part in optimizer.parts])
    kept, moved = [], []
    for group in optimizer.param_groups:
        mine = [p for p in group["params"] if id(p) in ids]
        rest = [p for p in group["params"] if id(p) not in ids]
        kept += [group | {"params": rest}] if rest else []
        moved += [group | {"params": mine, "lr": factor * group["lr"]}] if mine else []
    optimizer.param_groups = kept + moved
    return optimizer


def constant(*, warmup: int = 0, steps: int = 0) -> Schedule:
    """Return warm-up, then 1; `steps` has no effect, but gives all schedules one signature."""
    return Curve(shape="constant", warmup=warmup, begin=warmup, steps=steps, floor=0.0)


def cosine(*, warmup: int, steps: int, floor: float = 0.1) -> Schedule:
    """Return warm-up, then half a cosine from 1 to `floor` (Loshchilov and Hutter, 1608.03983)."""
    return Curve(shape="cosine", warmup=warmup, begin=warmup, steps=steps, floor=floor)


def linear(*, warmup: int, steps: int, floor: float = 0.0) -> Schedule:
    """Return warm-up, then a line from 1 to `floor`: the schedule of the released BiPE."""
    return Curve(shape="line", warmup=warmup, begin=warmup, steps=steps, floor=floor)


def wsd(*, warmup: int, steps: int, decay: float = 0.2, floor: float = 0.0) -> Schedule:
    """Return warm-up, stable, decay (Hu et al., MiniCPM, 2404.06395); decay: share of steps."""
    _require("schedule.decay", decay, 0 < decay <= 1, "above 0 and at most 1")
    begin = max(warmup, steps - max(1, round(decay * steps)))
    return Curve(shape="line", warmup=warmup, begin=begin, steps=steps, floor=floor)


_SHAPES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "line": lambda done: 1 - done,
}


@dataclass(frozen=True, kw_only=True)
class Curve(Schedule):
    """Warm-up from 0 to 1 in `warmup` steps, then from `begin` to `steps` the shape, above `floor`.

    A value, so that it can be stored beside a model and sent to other processes.
    """

    shape: Literal["constant", "cosine", "line"]
    warmup: int
    begin: int
    steps: int
    floor: float

    def __post_init__(self) -> None:
        _require("schedule.warmup", self.warmup, self.warmup >= 0, "at least 0")
        _require("schedule.floor", self.floor, 0 <= self.floor <= 1, "from 0 to 1")

    def __call__(self, step: int) -> float:
        done = min(1.0, max(0.0, (step - self.begin) / max(1, self.steps - self.begin)))
        falling = self.floor + (1 - self.floor) * _SHAPES[self.shape](done)
        return min(1.0, (step + 1) / (self.warmup + 1)) * falling


@dataclass(frozen=True, kw_only=True)
class Cooled(Schedule):
    """A schedule up to step `begin`, then a line from its rate there to 0 at `steps`.

    It is how `bipe finish` ends a run: a cooldown from a trunk (Haegele et al., 2405.18392).
    """

    before: Annotated[Schedule, SCHEDULE]
    begin: int
    steps: int

    def __call__(self, step: int) -> float:
        left = min(1.0, max(0.0, (self.steps - step) / max(1, self.steps - self.begin)))
        return self.before(min(step, self.begin)) * left


cooled = Cooled  # as configurations of runs name it


def factor_at(schedule: Schedule, step: int) -> float:
    """Return the factor of a schedule; ConfigError for what is none."""
    with as_config_error(f"schedule at step {step}: ", TypeError):
        factor = float(schedule(step))
    _require("schedule", factor, 0 <= factor < math.inf, f"at least 0 at step {step}")
    return factor


class TrainingDiverged(RunError):
    """The loss was not finite for too many steps in a row."""


class SkippedSteps:
    """Counts skipped steps, in total and in a row, on the device."""

    def __init__(self, *, patience: int) -> None:
        self.patience = patience
        self._counts = torch.zeros(3, dtype=torch.int64)  # in total, in a row, maximum in a row

    @property
    def total(self) -> Tensor:
        return self._counts[0]

    def state(self) -> tuple[int, int]:
        total, row, _ = self._counts.tolist()
        return total, row

    def load(self, state: Sequence[int]) -> None:
        self._counts = torch.tensor([state[0], state[1], state[1]])

    def skip_unless(
        self, finite: Tensor, *, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
    ) -> None:
        """Make the optimizer skip this step if its gradient is not finite, and count that."""
        skipped = ~finite
        sharded = any(isinstance(parameter, DTensor) for parameter in parameters)
        if getattr(optimizer, "_step_supports_amp_scaling", False) and not sharded:
            optimizer.found_inf = skipped.float()  # type: ignore[attr-defined]
        elif skipped:
            for parameter in parameters:
                parameter.grad = None  # the optimizer skips parameters without a gradient
        counts = self._counts.to(finite.device)
        row = (counts[1] + 1) * skipped
        self._counts = torch.stack((counts[0] + skipped, row, torch.maximum(counts[2], row)))

    def check(self, step: int, *, last: bool) -> None:
        """Raise TrainingDiverged after `patience` skipped steps in a row, checked at intervals."""
        if self._counts.device.type != "cpu" and step % _LOOK_EVERY and not last:
            return
        longest = int(self._counts[2])
        if longest >= self.patience:
            raise TrainingDiverged(
                f"loss or gradient was not finite for {longest} steps in a row (patience), last at "
                f"step {step}: lower optimizer.lr, raise schedule.warmup, or resume from an older "
                "checkpoint"
            )


def _require(key: str, value: Any, holds: bool, rule: str) -> None:
    if not holds:
        raise ConfigError(f"{key} must be {rule}, was: {value}")


def norm_of(parameters: list[nn.Parameter]) -> Tensor:
    """Return the norm of all gradients."""
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    return norm.full_tensor() if isinstance(norm, DTensor) else norm  # FSDP2: ranks have parts


def name_parameters(
    state: dict[str, Any], optimizer: torch.optim.Optimizer, names: dict[int, str]
) -> None:
    """Key the state by parameter names, as FSDP does: it can then be resumed on any devices."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    order: dict[Any, str] = {number: names[id(p)] for number, p in enumerate(parameters)}
    state["state"] = {order.get(key, key): value for key, value in state["state"].items()}
    for group in state["param_groups"]:
        group["params"] = [order.get(key, key) for key in group["params"]]


def refuse_unstepped(trainer: Any) -> None:
    """Raise ConfigError for optimizers and schedules of a module that a step would not follow."""
    if (count := sum(bool(o.param_groups) for o in trainer.optimizers)) != 1:
        raise ConfigError(f"configure_optimizers must return one optimizer, returned: {count}")
    kind = type(trainer.optimizers[0])
    closure = inspect.signature(kind.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise ConfigError(f"{kind.__name__} computes a loss several times per step; use another")
    for plan in trainer.lr_scheduler_configs:
        name = f"{type(plan.scheduler).__name__} of configure_optimizers"
        if isinstance(plan.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise ConfigError(f"{name} waits for a loss, which no step gives it; use another")
        if (plan.interval, plan.frequency) != ("step", 1):
            raise ConfigError(
                f"{name} must be stepped at each step, was: every {plan.frequency} "
                f"{plan.interval}; return it as "
                "{'scheduler': ..., 'interval': 'step'}, or step it in a hook of your own"
            )


def share_done(trainer: Any, step: int) -> float:
    """Return the share of a training that is over at a step; ConfigError if it has no end."""
    steps = trainer.estimated_stepping_batches
    if not 1 <= steps < math.inf:
        raise ConfigError(
            "max_steps of the Trainer must be set, since the encoding is annealed over all steps, "
            f"was: {trainer.max_steps}"
        )
    return step / (steps - 1) if steps > 1 else 1.0
