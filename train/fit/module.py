"""The Lightning module that trains a decoder.

The loss is the mean over the targets of the whole optimizer step, for any number of ranks and
micro-batches: each batch knows how many targets its step has. Random draws depend only on (seed,
step, rank), so that an exact resume needs only the step.

A step whose gradient is not finite is skipped. A fused optimizer decides that by itself, without
waiting for the device: given `found_inf`, as from torch.amp.GradScaler, its kernels change nothing.
Others, and sharded parameters, need the wait; their gradients are dropped.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from bipe import Carry, Decoder, DecoderConfig, Positions
from bipe.attention import Path as AttentionPath
from bipe.attention.context import Context
from bipe.build import ALLOWED
from bipe.encodings import Flat, Learned
from bipe.encodings.base import Fed, annealed
from bipe.loss import IGNORE, summed_cross_entropy, summed_divergence
from bipe.random_positions import Draw, row_keys
from train.data.rows.loader import Batch
from train.errors import ConfigError, RunError, as_config_error
from train.fit.lora import add_lora
from train.fit.optim import Schedule, optimizer_of, with_rate
from train.fit.parallel.sharded import Sharded
from train.fit.watching.counts import IndexCounts, StepLosses, summary_of
from train.fit.watching.metrics import Metrics

_LOOK_EVERY = 10  # steps, if looking waits for the device


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How the weights of a model are trained; conf/config.yaml explains each value.

    optimizer: from parameters, or from pairs of names and parameters if it takes `named`.
    schedule: from the step to a factor on the learning rate. z_loss, label_smoothing: only of the
    training loss. draw: random ids in training (bipe/random_positions). context_parallel: devices
    that share a row. allowed: see bipe.build.
    """

    optimizer: Callable[[Any], torch.optim.Optimizer]
    schedule: Schedule
    seed: int = 0
    clip: float | None = 1.0
    patience: int = 10
    attention: AttentionPath = "auto"
    compile: bool = False
    recompute: bool = False
    z_loss: float = 0.0
    label_smoothing: float = 0.0
    draw: Draw | None = None
    context_parallel: int = 1
    allowed: tuple[str, ...] = ALLOWED


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """Which parameters of a trained model are trained further, and how fast.

    new: names that the checkpoint lacks. new_lr: factor on their learning rate. lora: the keys of
    `add_lora`, beside which new parameters are trained whole; None: all weights.
    """

    new: Collection[str] = ()
    new_lr: float = 1.0
    lora: Mapping[str, Any] | None = None


class TrainingDiverged(RunError):
    """The loss was not finite for too many steps in a row."""


class LMModule(lightning.LightningModule):
    """Trains a `Decoder` to predict the next token.

    weights: initial weights; None: random ones. teacher: a model to distil from, and the weight of
    the divergence. adaptation: which parameters are trained. sharded: allocate the model only when
    the devices are known; each then fills its own part (`Sharded`).
    """

    def __init__(
        self,
        decoder: DecoderConfig,
        training: Training,
        *,
        weights: Mapping[str, Tensor] | None = None,
        teacher: tuple[Decoder, float] | None = None,
        adaptation: Adaptation = Adaptation(),
        sharded: bool = False,
    ) -> None:
        super().__init__()
        self.teacher = teacher  # in a tuple: no part of this module, which is saved
        how = {name: getattr(training, name) for name in ("attention", "recompute", "allowed")}
        with torch.device("meta") if sharded else contextlib.nullcontext():
            self.model = Decoder(decoder, **how)
        self._start = weights if sharded else None
        if weights is not None and not sharded:
            self.model.load_state_dict(weights)
        elif not sharded:
            self.model.init_weights(seed=training.seed)
        self._adaptation = adaptation
        if adaptation.lora is not None:
            add_lora(self.model, **adaptation.lora, whole=adaptation.new, seed=training.seed)
        self.options = training
        self.indices = IndexCounts()
        self.skipped = SkippedSteps(patience=training.patience)
        self.metrics = Metrics()
        self._clamped: list[Tensor] = []  # shares beyond a learned table, per micro-batch
        self._batch: Batch | None = None
        self._group: Any = None  # devices that share rows with this one

    # Set-up

    def configure_model(self) -> None:
        """Shard and fill the model, compile its blocks; called once, on the device."""
        strategy = self.trainer.strategy
        if isinstance(strategy, Sharded):
            strategy.shard(self.model, weights=self._start, seed=self.options.seed)
            self._start = None
        if self.options.context_parallel > 1:
            self._group, _ = torch.distributed.new_subgroups(self.options.context_parallel)
        if self.options.compile:
            for block in self.model.blocks:
                block.compile()

    def configure_optimizers(self) -> Any:
        named = [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]
        new = [p for name, p in named if name in self._adaptation.new]
        optimizer = with_rate(
            optimizer_of(self.options.optimizer, named), new, factor=self._adaptation.new_lr
        )
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, self.options.schedule)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    def on_fit_start(self) -> None:
        if self.teacher is not None:
            self.teacher[0].to(self.device)
        self.losses = StepLosses.of(self.model, self.trainer.datamodule)  # type: ignore[attr-defined]

    def on_train_start(self) -> None:
        """Follow the schedule from here, where a checkpoint has the rate of the plan before."""
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = group["initial_lr"] * self.options.schedule(self.global_step)

    # A step

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        torch.manual_seed(_stream(self.options.seed, batch.step, self.global_rank))
        last = self.trainer.max_steps - 1
        for part in annealed(self.model.scheme):
            part.anneal(batch.step / last if last > 0 else 1.0)
        # Set before the step, since checkpoints are written after it.
        self.trainer.datamodule.consumed_rows = batch.rows_after  # type: ignore[attr-defined]

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        self._batch = batch
        # `real` ids are of the text, which losses are counted by; the model may see drawn ones.
        at = real = positions_of(batch, levels=self.model.levels)
        options = self.options
        if options.draw is not None:
            keys = row_keys(batch.tokens, seed=options.seed, step=batch.step)
            at = options.draw.drawn(at, keys)
        self._count_clamped(at)
        row, (batch, shared) = real, self._part(batch, at)
        if shared is not None:
            at, real = at.map(shared.own), real.map(shared.own)
        self.indices.add(at)
        hidden = self.model(batch.tokens, at, cache=shared)
        each = torch.empty(batch.targets.shape, device=hidden.device)  # filled below
        nll = summed_cross_entropy(
            hidden.flatten(0, 1),
            self.model.head.weight,
            batch.targets.flatten(),
            z_loss=options.z_loss,
            label_smoothing=options.label_smoothing,
            each=each.flatten(),
        )
        self.losses.add(nll.detach(), each, batch, real, row=row)
        # Undo the averaging over ranks and micro-batches that follows.
        parts = self.trainer.world_size * self.trainer.accumulate_grad_batches
        loss = nll
        if self.teacher is not None:
            model, weight = self.teacher
            with torch.no_grad():
                taught = model(batch.tokens, real).flatten(0, 1), model.head.weight.detach()
            scored, own = (batch.targets != IGNORE).flatten(), self.model.head.weight
            loss = nll + weight * summed_divergence(hidden.flatten(0, 1), own, taught, scored)
        return loss * (parts / max(1, batch.step_targets))

    def _part(self, batch: Batch, at: Positions) -> tuple[Batch, Context | None]:
        """Return the part of this device, if several share rows; each token is then in one."""
        if self._group is None:
            return batch, None
        shared = Context(self._group, at)
        names = ("tokens", "targets", "marks", "padding")
        held = {name: getattr(batch, name) for name in names}
        own: Any = {name: shared.own(part) for name, part in held.items() if part is not None}
        return replace(batch, **own), shared

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: Any = None
    ) -> None:
        """Clip to `clip`, and skip the step if the gradient is not finite."""
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if isinstance(norm, DTensor):  # FSDP2: each rank holds a part
            norm = norm.full_tensor()
        self.metrics["grad_norm"] = norm
        if self.options.clip is not None:
            nn.utils.clip_grads_with_norm_(parameters, self.options.clip, norm)
        self.skipped.skip_unless(norm.isfinite(), optimizer=optimizer, parameters=parameters)
        step = self.global_step
        self.skipped.check(step, last=step + 1 == self.trainer.max_steps)

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        super().optimizer_step(*args, **kwargs)
        # Lightning drops gradients only after the next forward pass, at the peak of memory.
        for optimizer in self.trainer.optimizers:
            optimizer.zero_grad()
        # Put the numbers of a finished step where callbacks find them.
        batch = self._batch
        assert batch is not None
        sums = self.trainer.strategy.reduce(self.losses.take(self.device), reduce_op="sum")
        self.metrics.update(
            self.losses.split(sums, targets=batch.step_targets),
            lr=self.trainer.optimizers[0].param_groups[0]["lr"],
            step=batch.step + 1,
            tokens=batch.tokens_after,
            skipped_steps=self.skipped.total,
        )
        if self._clamped:
            self.metrics["clamped_share"] = torch.stack(self._clamped).mean()
        self._clamped = []

    # Validation

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        at = positions_of(batch, levels=self.model.levels)
        batch, shared = self._part(batch, at)
        at = at if shared is None else at.map(shared.own)
        hidden = self.model(batch.tokens, at, cache=shared).flatten(0, 1)
        targets = batch.targets.flatten()
        count = int((targets != IGNORE).sum())
        nll = summed_cross_entropy(hidden, self.model.head.weight, targets)
        # Lightning weights the mean over batches and ranks by batch_size: here the targets. It
        # rounds the mean of these integers over ranks down, so each must be a multiple of them.
        weight = count * self.trainer.world_size
        how: Any = {"batch_size": weight, "sync_dist": True, "logger": False}
        self.log("validation/loss", nll / max(1, count), **how)

    # State that is neither weights nor optimizer

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["skipped_steps"] = self.skipped.state()
        checkpoint["metrics"] = dict(self.metrics)  # of the step, for a validation that is due
        checkpoint["indices"] = state = self.indices.state(self.trainer.strategy.root_device)
        checkpoint["positions"] = summary_of(state)  # for the notes of a model at this step
        names = {id(parameter): name for name, parameter in self.named_parameters()}
        states = checkpoint.get("optimizer_states", [])  # none if only weights are saved
        for state, optimizer in zip(states, self.trainer.optimizers, strict=bool(states)):
            if state:  # FSDP gathers it on one rank only
                _name_parameters(state, optimizer, names)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.skipped.load(checkpoint["skipped_steps"])
        self.metrics.update(checkpoint.get("metrics", {}))
        self.indices.load(checkpoint.get("indices"), rank=self.global_rank)
        # Lightning's count of micro-batches decides where a step ends. A run may resume with
        # another micro-batch or other devices, and so with another number of them per step.
        batches = checkpoint["global_step"] * self.trainer.accumulate_grad_batches
        progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        for counts in (progress["total"], progress["current"]):
            more = batches - counts["processed"]
            counts.update({name: count + more for name, count in counts.items()})

    def _count_clamped(self, at: Positions) -> None:
        scheme = self.model.scheme
        beyond = [
            at.ids(level) >= each.table.num_embeddings
            for level, each in (scheme.fed() if isinstance(scheme, Fed) else {}).items()
            if isinstance(each, Learned) and level != "token"  # refused where rows are longer
        ]
        if beyond:
            inside = at.document >= 0
            some = torch.stack(beyond).any(0) & inside
            self._clamped.append(some.sum() / inside.sum().clamp(min=1))


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
        found = ~finite
        sharded = any(isinstance(parameter, DTensor) for parameter in parameters)
        if getattr(optimizer, "_step_supports_amp_scaling", False) and not sharded:
            optimizer.found_inf = found.float()  # type: ignore[attr-defined]
        elif found:
            for parameter in parameters:
                parameter.grad = None  # the optimizer skips parameters without a gradient
        counts = self._counts.to(finite.device)
        row = (counts[1] + 1) * found
        self._counts = torch.stack((counts[0] + found, row, torch.maximum(counts[2], row)))

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


def positions_of(batch: Batch, *, levels: int = 1) -> Positions:
    """Return the positions of a batch from its marks, on the device; levels: of the model."""
    carry = None if batch.carry is None else Carry.from_columns(batch.carry)
    return Positions.from_marks(
        batch.marks, carry=carry, padding=batch.padding, packed=batch.packed, levels=levels
    )


def _name_parameters(
    state: dict[str, Any], optimizer: torch.optim.Optimizer, names: dict[int, str]
) -> None:
    """Key the state by parameter names, as FSDP does: it can then be resumed on any devices."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    order: dict[Any, str] = {number: names[id(p)] for number, p in enumerate(parameters)}
    state["state"] = {order.get(key, key): value for key, value in state["state"].items()}
    for group in state["param_groups"]:
        group["params"] = [order.get(key, key) for key in group["params"]]


def _stream(seed: int, step: int, rank: int) -> int:
    mask = (1 << 64) - 1
    # Odd factors of 64 bits (those of SplitMix64) keep streams of neighbouring numbers apart.
    x = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB) & mask
    return (x ^ (x >> 32)) & 0xFFFFFFFF  # torch's CPU generator uses 32 bits


def refuse_unfit(module: LMModule, *, row_length: int) -> None:
    """Raise ConfigError for rows, an attention path or an optimizer that a model cannot take."""
    scheme = module.model.scheme
    encoding = scheme.encoding if isinstance(scheme, Flat) else None
    if isinstance(encoding, Learned) and encoding.table.num_embeddings < row_length:
        raise ConfigError(
            "row_length must be at most encoding.length of a flat learned table "
            f"({encoding.table.num_embeddings}), was: {row_length}"
        )
    options = module.options
    if options.attention != "auto":  # a path may not support the encoding's bias
        tokens = torch.zeros(1, 2, dtype=torch.int64)
        small = replace(module.model.config, n_layer=1, vocab_size=1)
        with as_config_error("attention: "), torch.no_grad():
            model = Decoder(small, attention=options.attention, allowed=options.allowed)
            model(tokens, Positions.from_marks(tokens.byte(), levels=model.levels))
    with as_config_error("optimizer: "):
        module.configure_optimizers()
