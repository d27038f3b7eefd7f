"""The Lightning module that trains a decoder. `LMModule.training_step` is one optimizer step.

The loss is the mean over the targets of the whole optimizer step, for any number of ranks and
micro-batches: each batch knows how many targets its step has. Random draws depend only on (seed,
step, rank), so that an exact resume needs only the step.
"""

import contextlib
import inspect
import io
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Self

import lightning
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from bipe import Decoder, DecoderConfig, Positions
from bipe.arguments import require, require_at_least
from bipe.attention import Path as AttentionPath
from bipe.attention.context import Context
from bipe.build import ALLOWED, build, describe
from bipe.encodings.base import annealed
from bipe.loss import IGNORE, summed_cross_entropy, summed_divergence
from bipe.random_positions import Draw, row_keys
from train.config.sections import OPTIMIZER, SCHEDULE
from train.data.rows.datamodule import LMDataModule
from train.data.rows.loader import Batch, as_batch
from train.errors import ConfigError, RunError
from train.fit.checkpoints.reading import OF_ANOTHER, read, told_of_others
from train.fit.lora import add_lora
from train.fit.optim import (
    Schedule,
    SkippedSteps,
    chosen,
    factor_at,
    name_parameters,
    norm_of,
    optimizer_of,
    refuse_unstepped,
    share_done,
    with_rate,
)  # fmt: skip
from train.fit.parallel.callbacks import refuse_empty, refuse_settings, unswallowed
from train.fit.parallel.sharded import (
    Sharded,
    refuse_adapted,
    refuse_compiled,
    refuse_rows,
    refuse_strategy,
)  # fmt: skip
from train.fit.watching.counts import IndexCounts, StepLosses, clamped, positions_of, summary_of
from train.fit.watching.metrics import Metrics

_ALL_HPARAMS = "module_arguments"  # of checkpoints: `load_from_checkpoint` of any class reads them
_FORMAT = 2  # of checkpoints: a batch is an optimizer step


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How the weights of a model are trained; conf/config.yaml explains each value.

    optimizer: from parameters, or from pairs of names and parameters if it takes `named`.
    schedule: from the step to a factor on the learning rate. z_loss, label_smoothing: only of the
    training loss. draw: random ids in training (bipe/random_positions). context_parallel: devices
    that share a row. allowed: see bipe.build.
    """

    optimizer: Annotated[Callable[[Any], torch.optim.Optimizer], OPTIMIZER]
    schedule: Annotated[Schedule, SCHEDULE]
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

    def __post_init__(self) -> None:
        rule = "callable, such as partial(torch.optim.AdamW, lr=1e-3)"
        require(callable(self.optimizer), rule, optimizer=self.optimizer)
        require(callable(self.schedule), "callable", schedule=self.schedule)
        clips = self.clip is None or (isinstance(self.clip, int | float) and self.clip > 0)
        require(clips, "above 0 or None", clip=self.clip)
        require(isinstance(self.seed, int), "a whole number", seed=self.seed)
        require_at_least(1, patience=self.patience)

    def as_plain(self) -> dict[str, Any]:
        """Return plain data, without `allowed`; TypeError for an optimizer without a name."""
        names = [field.name for field in fields(self) if field.name != "allowed"]
        return {name: describe(getattr(self, name)) for name in names}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Build what `as_plain` gave; ValueError for what may not be named (bipe.build)."""
        kinds = {"optimizer": OPTIMIZER, "schedule": SCHEDULE, "draw": Draw}
        given = {name: kind for name, kind in kinds.items() if name in plain}
        built = {name: build(plain[name], kind, path=name) for name, kind in given.items()}
        return cls(**{**plain, **built})


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """Which parameters of a trained model are trained further, and how fast.

    new: names that the checkpoint lacks. new_lr: factor on their learning rate. lora: the keys of
    `add_lora`, beside which new parameters are trained whole; None: all weights.
    """

    new: Collection[str] = ()
    new_lr: float = 1.0
    lora: Mapping[str, Any] | None = None


class _Planned(torch.optim.lr_scheduler.LambdaLR):
    """The schedule of Training; a scheduler of a subclass's own is none."""


class LMModule(lightning.LightningModule):
    """Trains a `Decoder` to predict the next token, under any `lightning.Trainer`.

    decoder, training, adaptation: values, or the plain data of `hparams`, as checkpoints keep them.
    weights: initial weights; None: random ones. teacher: a model to distil from, and the weight of
    the divergence. adaptation: which parameters are trained; None: all. sharded: allocate the model
    only when the devices are known; each then fills its own part (`Sharded`).

    Logs train/loss, train/grad_norm and train/lr of each step, and validation/loss.
    """

    automatic_optimization = False  # of Lightning's: `training_step` steps

    def __init__(
        self,
        decoder: DecoderConfig | Mapping[str, Any],
        training: Training | Mapping[str, Any],
        *,
        weights: Mapping[str, Tensor] | None = None,
        teacher: tuple[Decoder, float] | None = None,
        adaptation: Adaptation | Mapping[str, Any] | None = None,
        sharded: bool = False,
    ) -> None:
        super().__init__()
        rule = "a DecoderConfig or Training, or its plain data"
        require(isinstance(decoder, DecoderConfig | Mapping), rule, decoder=decoder)
        require(isinstance(training, Training | Mapping), rule, training=training)
        decoder = DecoderConfig(**decoder) if isinstance(decoder, Mapping) else decoder
        training = Training.from_plain(training) if isinstance(training, Mapping) else training
        if not isinstance(adaptation, Adaptation):
            adaptation = Adaptation(**(adaptation or {}))
        given = {"decoder": decoder, "training": training, "adaptation": adaptation}
        self.save_hyperparameters(_plain(given))
        self.teacher = teacher  # in a tuple: no part of this module, which is saved
        how = {name: getattr(training, name) for name in ("attention", "recompute", "allowed")}
        with torch.device("meta") if sharded else contextlib.nullcontext():
            self.model = Decoder(decoder, **how)
        self._start = weights
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
        self.losses: Any = None  # StepLosses, once the rows are known
        self._clamped: list[Tensor] = []  # shares beyond a learned table, per micro-batch
        self._norm: Any = None  # of the gradients of this step
        self._resumes = False
        self._group: Any = None  # devices that share rows with this one

    # Set-up

    def configure_callbacks(self) -> list[lightning.Callback]:
        """Add none; refuse what would train something else, before any of it acts."""
        refuse_settings(self.trainer)
        return []

    def setup(self, stage: str) -> None:
        """Check that this module, its data and the trainer fit together."""
        self._resumes = stage == "fit"
        refuse_settings(self.trainer)  # also where a subclass adds callbacks
        refuse_compiled(self)
        refuse_strategy(self.trainer)
        sharded, shared = isinstance(self.trainer.strategy, Sharded), self.options.context_parallel
        lora = self._adaptation.lora is not None
        refuse_adapted(self.teacher is not None, lora, sharded=sharded, shared=shared > 1)
        rows = getattr(self.trainer, "datamodule", None)
        if isinstance(rows, LMDataModule):
            refuse_rows(self, rows)
        elif shared > 1:
            raise ConfigError("context_parallel needs the rows of an LMDataModule")

    def configure_model(self) -> None:
        """Shard and fill the model, once; compile its blocks. Called on the device."""
        try:
            strategy, start = self.trainer.strategy, self._start
        except RuntimeError:  # without a trainer: Lightning reads a checkpoint
            return
        if isinstance(strategy, Sharded) and not isinstance(self.model, FSDPModule):
            if not any(parameter.is_meta for parameter in self.model.parameters()):
                start = {name: value.clone() for name, value in self.model.state_dict().items()}
            strategy.shard(self.model, weights=start, seed=self.options.seed)
        self._start = None
        if self.options.context_parallel > 1:
            self._group, _ = torch.distributed.new_subgroups(self.options.context_parallel)
        if self.options.compile:
            for block in self.model.blocks:
                block.compile()

    def configure_optimizers(self) -> Any:
        # Those of a subclass too.
        every = [(name.removeprefix("model."), p) for name, p in self.named_parameters()]
        named = [(name, p) for name, p in every if p.requires_grad]
        if not named:
            raise ConfigError("no parameter is to be trained: call module.unfreeze()")
        if any(p.dtype == torch.float16 for _, p in named):
            raise ConfigError("weights of float16 cannot be trained: set precision=bf16-true")
        new = chosen(named, self._adaptation.new)
        optimizer = with_rate(
            optimizer_of(self.options.optimizer, named), new, factor=self._adaptation.new_lr
        )
        # A function: of another callable, a checkpoint would keep the plan.
        schedule = lambda step: factor_at(self.options.schedule, step)  # noqa: E731
        scheduler = _Planned(optimizer, schedule)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    def on_fit_start(self) -> None:
        if self.teacher is not None:
            self.teacher[0].to(self.device)
        rows = getattr(self.trainer, "datamodule", None)
        self.losses = StepLosses.of(self.model, rows) if isinstance(rows, LMDataModule) else None

    def on_train_start(self) -> None:
        """Refuse what a step would not do; follow the schedule, not that of a checkpoint."""
        refuse_unstepped(self.trainer)
        for plan in self.trainer.lr_scheduler_configs:
            if isinstance(plan.scheduler, _Planned):
                plan.scheduler.last_epoch = self.global_step  # a step may have been cut off
                for group in self.trainer.optimizers[0].param_groups:
                    factor = factor_at(self.options.schedule, self.global_step)
                    group["lr"] = group["initial_lr"] * factor

    def on_train_epoch_end(self) -> None:
        refuse_empty(self.trainer)

    # A step

    @unswallowed
    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Do one optimizer step on this rank's rows of a global batch; return its mean loss."""
        if self.fabric is not None:
            raise ConfigError("LMModule needs a Trainer; under Fabric, train its Decoder, .model")
        refuse_settings(self.trainer)  # also those of a callback
        batch, step = self._completed(batch)
        optimizer, parts = self.trainer.optimizers[0], batch.split()
        torch.manual_seed(_stream(self.options.seed, step, self.global_rank))
        self._anneal(step)
        with torch.autocast(self.device.type, enabled=False):  # but for the loss
            for part in parts:
                with self._sums_gradients(part is parts[-1]):
                    self.manual_backward(self.loss(part))
            parameters = [p for p in self.parameters() if p.grad is not None]
            norm = self._norm = norm_of(parameters)
            self.configure_gradient_clipping(optimizer, self.options.clip, "norm")
            self.skipped.skip_unless(norm.isfinite(), optimizer=optimizer, parameters=parameters)
            self.skipped.check(step, last=step + 1 == self.trainer.max_steps)
            counting: Any = self.optimizers()  # Lightning's. Hooks as if it were automatic:
            self.optimizer_step(self.current_epoch, batch_idx, counting, lambda: None)
            loss = self._count(batch, step, norm)
            for plan in self.trainer.lr_scheduler_configs:  # before a hook may fail
                self.lr_scheduler_step(plan.scheduler, None)  # never one of a plateau
            for callback in self.trainer.callbacks:  # type: ignore[attr-defined]
                callback.on_before_zero_grad(self.trainer, self, optimizer)
            self.on_before_zero_grad(optimizer)
            self.optimizer_zero_grad(self.current_epoch, batch_idx, optimizer)
        return loss

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the norm of all gradients at `Training.clip`, under automatic optimization too."""
        if self.options.clip is not None:
            parameters = [p for p in self.parameters() if p.grad is not None]
            norm = norm_of(parameters) if self.automatic_optimization else self._norm
            nn.utils.clip_grads_with_norm_(parameters, self.options.clip, norm)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a micro-batch, whose gradient is averaged over ranks."""
        with self.trainer.precision_plugin.train_step_context():
            loss = self._summed_loss(batch)
        torch.clear_autocast_cache()  # copies of weights, else kept until the end of the step
        targets: Any = batch.step_targets
        least = targets.clamp(min=1) if isinstance(targets, Tensor) else max(1, targets)
        return loss * (self.trainer.world_size / least)

    def _read(self, batch: Any) -> Batch:
        """Return a batch; DataError for what the model cannot read, of a loader of the user's."""
        is_ours = isinstance(getattr(self.trainer, "datamodule", None), LMDataModule)
        batch = as_batch(batch)
        return batch if is_ours else batch.checked(self.model.config.vocab_size)

    def _completed(self, batch: Any) -> tuple[Batch, int]:
        """Return a batch and its step, with what a loader of the user's may leave out."""
        batch = self._read(batch)
        if self.losses is None:
            rows = SimpleNamespace(source_names=(), row_length=batch.tokens.shape[1])
            self.losses = StepLosses.of(self.model, rows)
        missing: dict[str, Any] = {}
        if batch.source is None:
            missing["source"] = torch.zeros_like(batch.tokens[:, 0])
        if batch.step is None:
            missing["step"] = self.global_step
        if batch.step_targets is None:
            scored = (batch.targets != IGNORE).sum()
            missing["step_targets"] = self.trainer.strategy.reduce(scored, reduce_op="sum")
        return replace(batch, **missing), missing.get("step", batch.step)

    @contextlib.contextmanager
    def _sums_gradients(self, last: bool) -> Iterator[None]:
        """Add gradients up over ranks only behind the last micro-batch of a step.

        FSDP2 reduces each, since no rank has memory for a whole gradient; only its replicas wait.
        """
        if isinstance(self.model, FSDPModule):
            self.model.set_requires_all_reduce(last)
        blocked = getattr(self.trainer.strategy, "block_backward_sync", contextlib.nullcontext)
        if not last and getattr(self.trainer.strategy.model, "static_graph", False):
            raise ConfigError(
                "static_graph of DDP takes no micro-batches: set it to False, or micro_batch=auto"
            )
        with contextlib.nullcontext() if last else blocked():
            yield

    def _anneal(self, step: int) -> None:
        for part in annealed(self.model.scheme):
            part.anneal(share_done(self.trainer, step))

    def _summed_loss(self, batch: Batch) -> Tensor:
        # `real` ids are of the text, which losses are counted by; the model may see drawn ones.
        at = real = positions_of(batch, levels=self.model.levels)
        options = self.options
        if options.draw is not None:
            keys = row_keys(batch.tokens, seed=options.seed, step=batch.step or 0)
            at = options.draw.drawn(at, keys)
        self._clamped += clamped(self.model, at)
        row, (batch, shared) = real, self._part(batch, at)
        if shared is not None:
            at, real = at.map(shared.own), real.map(shared.own)
        self.indices.add(at)
        hidden = self.model(batch.tokens, at, cache=shared)
        losses = torch.empty(batch.targets.shape, dtype=torch.float32, device=hidden.device)
        nll = summed_cross_entropy(
            hidden.flatten(0, 1),
            self.model.head.weight,
            batch.targets.flatten(),
            z_loss=options.z_loss,
            label_smoothing=options.label_smoothing,
            each=losses.flatten(),
        )
        self.losses.add(nll.detach(), losses, batch, real, row=row)
        if self.teacher is None:
            return nll
        model, weight = self.teacher
        with torch.no_grad():
            taught = model(batch.tokens, real).flatten(0, 1), model.head.weight.detach()
        scored, head = (batch.targets != IGNORE).flatten(), self.model.head.weight
        return nll + weight * summed_divergence(hidden.flatten(0, 1), head, taught, scored)

    def _count(self, batch: Batch, step: int, norm: Tensor) -> Tensor:
        """Put the numbers of a step where callbacks find them; return its mean loss."""
        sums = self.trainer.strategy.reduce(self.losses.take(self.device), reduce_op="sum")
        losses = self.losses.split(sums, targets=batch.step_targets)
        lr = self.trainer.optimizers[0].param_groups[0]["lr"]
        self.log("train/loss", losses["loss"], prog_bar=True)
        self.log("train/grad_norm", norm)
        self.log("train/lr", torch.tensor(lr))
        self.metrics.update(
            losses,
            grad_norm=norm,
            lr=lr,
            step=step + 1,
            tokens=batch.tokens_after,
            skipped_steps=self.skipped.total,
        )
        if self._clamped:
            self.metrics["clamped_share"] = torch.stack(self._clamped).mean()
        self._clamped = []
        return losses["loss"].float()

    def _part(self, batch: Batch, at: Positions) -> tuple[Batch, Context | None]:
        """Return the part of this device, if several share rows; each token is then in one."""
        if self._group is None:
            return batch, None
        shared = Context(self._group, at)
        parts = ((name, getattr(batch, name)) for name in ("tokens", "targets", "marks", "padding"))
        own: Any = {name: shared.own(part) for name, part in parts if part is not None}
        return replace(batch, **own), shared

    # Validation and use

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        batch = self._read(batch)
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
        self.log("validation/loss", nll / max(1, count), batch_size=weight, sync_dist=True)

    def forward(self, batch: Batch | Mapping[str, Any]) -> Tensor:
        """Return the logits of a batch, of which tokens and marks are enough; also in `predict`."""
        if isinstance(batch, Mapping) and "tokens" in batch:
            batch = {"targets": torch.full_like(batch["tokens"], IGNORE), **batch}
        batch = as_batch(batch).checked(self.model.config.vocab_size)
        return self.model.logits(batch.tokens, positions_of(batch, levels=self.model.levels))

    def to_torchscript(self, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        model = "what bipe convert RUN to=hf out=FOLDER writes"
        raise ConfigError(f"an LMModule cannot be exported; {model} can, by torch.export")

    to_onnx = to_tensorrt = to_torchscript  # type: ignore[assignment]

    # State that is neither weights nor optimizer

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["bipe"] = _FORMAT
        # A subclass may have saved the objects themselves, which are no plain data.
        checkpoint[_ALL_HPARAMS] = given = _plain(self.hparams)
        if not inspect.getfullargspec(type(self).__init__).varkw:  # LightningCLI takes no others
            own = inspect.signature(type(self)).parameters
            given = {key: value for key, value in given.items() if key in own or key[0] == "_"}
        checkpoint[self.CHECKPOINT_HYPER_PARAMS_KEY] = given
        checkpoint["skipped_steps"] = self.skipped.state()
        checkpoint["indices"] = state = self.indices.state(self.trainer.strategy.root_device)
        checkpoint["positions"] = summary_of(state)  # for the notes of a model at this step
        names = {id(parameter): name for name, parameter in self.named_parameters()}
        states = checkpoint.get("optimizer_states", [])  # none if only weights are saved
        for state, optimizer in zip(states, self.trainer.optimizers, strict=bool(states)):
            if state:  # FSDP gathers it on one rank only
                name_parameters(state, optimizer, names)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if not self._resumes:
            return  # only the weights are read
        if checkpoint.get("bipe") != _FORMAT:
            raise RunError(OF_ANOTHER)
        was = checkpoint.get(_ALL_HPARAMS, checkpoint[self.CHECKPOINT_HYPER_PARAMS_KEY])
        told_of_others(was, _plain(self.hparams))
        self.skipped.load(checkpoint["skipped_steps"])
        self.indices.load(checkpoint.get("indices"), rank=self.global_rank)

    @classmethod
    def load_from_checkpoint(cls, checkpoint_path: Any, *args: Any, **kwargs: Any) -> Self:  # type: ignore[override]
        """Return the module of a checkpoint, also of one in shards; see Lightning's own."""
        if hasattr(checkpoint_path, "read") or not Path(checkpoint_path).is_dir():
            return super().load_from_checkpoint(checkpoint_path, *args, **kwargs)
        file = io.BytesIO()
        torch.save(read(Path(checkpoint_path), weights_only=True), file)
        file.seek(0)
        return super().load_from_checkpoint(file, *args, **kwargs)


def _stream(seed: int, step: int, rank: int) -> int:
    # Odd factors of 64 bits (those of SplitMix64) keep streams of neighbouring numbers apart.
    x = seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB
    x &= (1 << 64) - 1
    return (x ^ (x >> 32)) & 0xFFFFFFFF  # torch's CPU generator uses 32 bits


def _plain(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a checkpoint holds, and `load_from_checkpoint` builds the module from."""
    plain = {}
    for name, value in hyperparameters.items():
        if name in ("weights", "teacher"):  # not of the trained module
            continue
        with contextlib.suppress(TypeError):  # else it is given when the module is loaded
            if isinstance(value, DecoderConfig | Adaptation):
                plain[name] = describe(asdict(value))
            else:
                plain[name] = value.as_plain() if isinstance(value, Training) else value
    return plain
