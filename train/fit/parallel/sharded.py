"""Fully sharded training (FSDP2; Zhao et al., 2304.11277): each device holds a part of each matrix.

The model is built without memory (on the meta device), sharded, and filled matrix by matrix: no
rank ever holds all of it, and each starts with the weights that one device would draw. Under
precision=bf16-mixed the matrices of blocks are gathered in bfloat16, in which autocast multiplies
anyway; gradients are reduced, and weights kept, in float32.

With replicas > 1 (HSDP) the devices form as many groups; each group holds the whole model in
shards, and only gradients travel between groups: across the slower links between machines.
"""

import functools
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import lightning
import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.strategies import (
    DDPStrategy,
    ModelParallelStrategy,
    SingleDeviceStrategy,
)
from lightning.pytorch.utilities.compile import to_uncompiled
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from bipe import Decoder
from bipe.decoder import start_bias
from train.errors import ConfigError, RunError
from train.fit.checkpoints import shards
from train.fit.checkpoints.shards import Background


class Replicated(DDPStrategy):
    """Lightning's DDP. timeout: seconds in which all ranks must meet."""

    def __init__(self, *, timeout: float = 300.0) -> None:
        super().__init__(timeout=timedelta(seconds=timeout))


class Sharded(ModelParallelStrategy):
    """Lightning's strategy for FSDP2, with our mesh, start and checkpoints.

    replicas: groups that each hold the whole model. timeout: seconds in which all ranks must meet.
    """

    def __init__(self, *, replicas: int = 1, timeout: float = 300.0) -> None:
        super().__init__(timeout=timedelta(seconds=timeout))
        if replicas < 1:
            raise ConfigError(f"trainer.strategy.replicas must be at least 1, was: {replicas}")
        self.replicas = replicas
        self._background: Background | None = None
        self._group: Any = None

    def saves(self, *, whole: bool, background: Background | None) -> None:
        """Decide how checkpoints of a training are saved: whole, as one file; in the background."""
        self._save_distributed_checkpoint, self._background = not whole, background

    def mesh(self) -> DeviceMesh:
        """Return the devices of the shards; ConfigError if they make no equal groups."""
        # In Lightning's, the ranks of a machine are a tensor-parallel group, without averaging.
        world, device = self.world_size, self.root_device.type
        if world % self.replicas:
            raise ConfigError(
                "trainer.strategy.replicas must divide the number of devices "
                f"({world}), was: {self.replicas}"
            )
        if self.replicas == 1:
            return init_device_mesh(device, (world,))
        sizes, names = (self.replicas, world // self.replicas), ("replicas", "shards")
        return init_device_mesh(device, sizes, mesh_dim_names=names)

    def shard(self, model: Decoder, *, weights: Mapping[str, Tensor] | None, seed: int) -> None:
        """Shard a model that is on the meta device, and fill it with `weights` or fresh ones."""
        module = self.lightning_module
        if beside := {*(module or model).parameters()} - {*model.parameters()}:
            raise ConfigError(
                f"Sharded shards .model alone, and the module has {len(beside)} parameters beside "
                "it: use ddp"
            )
        shard(model, mesh=self.mesh(), bf16=self.precision_plugin.precision == "bf16-mixed")
        materialize(model, self.root_device)
        fill(model, weights=weights, seed=seed)

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Return the weights: this rank's part, not copied; or, for a file, all on rank 0."""
        if not self._save_distributed_checkpoint:
            return super().lightning_module_state_dict()
        return get_model_state_dict(self._module)

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        if not self._save_distributed_checkpoint:
            return super().optimizer_state(optimizer)
        inner = optimizer.optimizer if isinstance(optimizer, LightningOptimizer) else optimizer
        return cast(dict[str, Any], get_optimizer_state_dict(self._module, inner))

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None
    ) -> None:
        path = Path(self.broadcast(filepath))
        if not self._save_distributed_checkpoint:
            if self.is_global_zero:
                self.checkpoint_io.save_checkpoint(checkpoint, path)
            return
        if self._group is None:  # a group of its own: the thread must not meet the training
            self._group = torch.distributed.new_group(backend="gloo")
        write = functools.partial(shards.save, path=path, group=self._group)
        if self._background is None:
            write(checkpoint)
        else:
            self._background.write(checkpoint, write)

    def load_checkpoint(
        self, checkpoint_path: Any, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint of any kind, each rank its part, and return the rest of it."""
        path = Path(self.broadcast(checkpoint_path))
        states: list[Any] = [get_optimizer_state_dict(self._module, o) for o in self.optimizers]
        live = {"state_dict": get_model_state_dict(self._module), "optimizer_states": states}
        rest = shards.load(path, live) if path.is_dir() else _load_file(path, live)
        read_states = rest["optimizer_states"]
        for optimizer, state, read in zip(self.optimizers, states, read_states, strict=True):
            for name, scalars in read["state"].items():
                state["state"][name].update(scalars)
            state["param_groups"] = read["param_groups"]
            set_optimizer_state_dict(self._module, optimizer, state)
        return rest

    @property
    def _module(self) -> nn.Module:
        assert self.model is not None
        return self.model


def _load_file(path: Path, live: dict[str, Any]) -> dict[str, Any]:
    """Read a file into the tensors of `live`; only the parts of a rank leave the disk."""
    checkpoint = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    targets, _ = shards.split(live)
    values, rest = shards.split(checkpoint)
    if targets.keys() != values.keys():
        names = ", ".join(sorted(targets.keys() ^ values.keys()))
        raise RunError(f"{path} belongs to another model: only one of them has {names}")
    with torch.no_grad():
        for name, target in targets.items():
            put(target, values[name])
    return rest


def shard(model: Decoder, *, mesh: DeviceMesh, bf16: bool = False) -> None:
    # Inputs stay as they are: autocast decides, so the residual stream is in float32.
    dtypes = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32} if bf16 else {}
    policy = MixedPrecisionPolicy(**dtypes, cast_forward_inputs=not bf16)
    for block in model.blocks:
        if bf16:  # norms are computed in float32, and slow with weights of another dtype
            norms = (part for part in block.modules() if isinstance(part, nn.RMSNorm))
            fully_shard([*norms], mesh=mesh)
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh)


def materialize(model: nn.Module, device: torch.device) -> None:
    """Give memory to what is on the meta device; vectors start as their modules start them."""
    without = [part for part in model.modules() if any(p.is_meta for p in part.parameters(False))]
    model._apply(lambda x: torch.empty_like(x, device=device) if x.is_meta else x.to(device))
    for part in without:
        if isinstance(part, nn.RMSNorm):
            part.reset_parameters()
        elif isinstance(part, nn.Linear):
            start_bias(part)


@torch.no_grad()
def fill(model: Decoder, *, weights: Mapping[str, Tensor] | None, seed: int) -> None:
    """Copy `weights`, or else fresh ones, into sharded parameters; each rank keeps its part."""
    parameters = dict(model.named_parameters())
    values = model.drawn_weights(seed=seed) if weights is None else None
    for name, value in values or ((name, weights[name]) for name in parameters):  # type: ignore[index]
        put(parameters[name], value)


def put(target: Tensor, value: Tensor) -> None:
    """Copy a whole tensor, which all ranks have, into a tensor that may be sharded."""
    if isinstance(target, DTensor):
        value = distribute_tensor(  # without a source nothing is sent
            value.to(target.device), target.device_mesh, target.placements, src_data_rank=None
        )
    target.copy_(value)


def full_state(model: nn.Module) -> dict[str, Any]:
    """Return all weights on the host of rank 0, gathered if sharded; on others perhaps none."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return dict(get_model_state_dict(model, options=options))


_PRECISIONS = ("32-true", "bf16-mixed", "bf16-true", "64-true")


def refuse_strategy(trainer: lightning.Trainer) -> None:
    """Raise ConfigError for a strategy or a precision whose gradients this module cannot sum."""
    strategy, precision = trainer.strategy, str(trainer.precision)
    sharded = isinstance(strategy, Sharded)
    if not sharded and type(strategy) not in (SingleDeviceStrategy, DDPStrategy, Replicated):
        raise ConfigError(
            "trainer.strategy must be auto, ddp or one of its forms (ddp_spawn, ddp_fork, "
            "ddp_notebook), or train.fit.parallel.sharded.Sharded, which is FSDP2 (trainer=fsdp2), "
            f"was: {type(strategy).__name__}"
        )
    precisions = _PRECISIONS[:2] if sharded else _PRECISIONS
    if precision not in precisions:
        raise ConfigError(f"trainer.precision must be {' or '.join(precisions)}, was: {precision}")


def refuse_adapted(teacher: bool, lora: bool, *, sharded: bool, shared: bool) -> None:
    """Raise ConfigError for a teacher or LoRA without whole models. shared: rows, by devices."""
    if teacher and (sharded or shared):
        raise ConfigError(
            "extend.distill needs a second whole model on each device, and whole rows: set "
            "trainer=ddp context_parallel=1, or extend.distill=0"
        )
    if lora and sharded:
        raise ConfigError("extend.lora needs the whole model on each device: set trainer=ddp")


def refuse_compiled(module: lightning.LightningModule) -> None:
    """Raise ConfigError for torch.compile(module), which traces whole steps; take it back."""
    try:
        to_uncompiled(module)
    except ValueError:  # it is not
        return
    raise ConfigError(
        "torch.compile cannot be called on LMModule, whose steps are more than its model: set "
        "compile=True of Training"
    )


def refuse_rows(module: Any, rows: Any) -> None:
    """Raise ConfigError for an LMModule and an LMDataModule that do not fit together."""
    mine, theirs = module.options.context_parallel, rows.context_parallel
    if mine != theirs:
        raise ConfigError(
            f"context_parallel of LMModule and of LMDataModule must be equal, was: {mine}, {theirs}"
        )
    size = module.model.config.vocab_size
    if size < rows.vocab_size:
        raise ConfigError(
            f"vocab_size must be at least that of the data ({rows.vocab_size}), was: {size}"
        )
