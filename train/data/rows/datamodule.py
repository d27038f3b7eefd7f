"""The Lightning data module: prepared shards in, batches out, one integer of state.

A batch is a rank's rows of one optimizer step. The module counts the rows of the steps that are
done, whatever model they train, and resumes there with any number of ranks and any micro-batch. A
run with other rows (seed, lengths, weights, data) cannot resume, nor one with another global batch
unless it is to be converted.
"""

import hashlib
import inspect
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import lightning
import numpy as np

from bipe.arguments import NOT_NEGATIVE, Count, Rule
from bipe.build import faults_of
from segmenters.wording import counted
from train.data.rows.choices import Curriculum, MicroBatch, Mixture, Packing, Stages
from train.data.rows.loader import Batch, RowLoader, ValidationLoader
from train.data.rows.order import RowOrder, RowStatistics, row_statistics
from train.data.rows.packing import Rows
from train.data.rows.sets import DataSets
from train.data.store.folder import Folders
from train.data.store.shards import Coarser, LevelWish
from train.data.store.verify import data_faults
from train.errors import ConfigError, DataError

log = logging.getLogger("bipe")
_PASSES = Rule("above 0", lambda value: 0 < value < math.inf)


class LMDataModule(lightning.LightningDataModule):
    """Rows of prepared data for training and validation.

    folder: one or several that `bipe prepare` wrote; level, coarser: see `DataSets`.
    row_length: inputs of a row, in tokens. global_batch: rows per optimizer step. micro_batch: rows
    per device at once; "auto": its whole share of a step, unless a training chooses fewer. steps:
    of the run. epochs: passes over the rows of all sources, instead of steps. drop_last: drop a
    short last batch instead of padding it. on_batch_change: whether a run may resume with another
    global_batch. validation_rows: maximum per source; 0 disables validation. verify: check all
    files first. context_parallel: neighbouring ranks that share rows. replan: whether a run may
    resume with other epochs.
    """

    def __init__(
        self,
        *,
        folder: Folders,
        level: LevelWish | None = None,
        coarser: Coarser = 0,
        row_length: Count,
        global_batch: Count,
        micro_batch: MicroBatch = "auto",
        packing: Packing | Mapping[str, Any] | None = None,
        mixture: Mixture | Mapping[str, Any] | None = None,
        curriculum: Curriculum | Mapping[str, Any] | None = None,
        steps: Annotated[int, NOT_NEGATIVE] | None = None,
        epochs: Annotated[float, _PASSES] | None = None,
        drop_last: bool = False,
        on_batch_change: Literal["refuse", "convert"] = "refuse",
        seed: Annotated[int, NOT_NEGATIVE] = 0,
        validation_rows: Annotated[int, NOT_NEGATIVE] = 256,
        verify: bool = True,
        context_parallel: Count = 1,
        replan: bool = False,
    ) -> None:
        arguments = locals()
        super().__init__()
        self.save_hyperparameters({name: _plain(arguments[name]) for name in _ARGUMENTS})
        if faults := faults_of(self.hparams, LMDataModule, allowed=(), name="LMDataModule"):
            raise ConfigError("; ".join(faults))
        if isinstance(curriculum, Mapping):
            curriculum = Curriculum(**curriculum)
        self.packing = Packing(**packing) if isinstance(packing, Mapping) else packing or Packing()
        self.asked = Mixture(**mixture) if isinstance(mixture, Mapping) else mixture or Mixture()
        self.stages = Stages(
            row_length=row_length, global_batch=global_batch, curriculum=curriculum
        )
        if self.packing.prompt_level is not None and len(self.stages.each) > 1:
            raise DataError("rows.curriculum must be null: documents with a prompt are not split")
        self.sets = DataSets(folder, level=level, coarser=coarser)
        self.row_length, self.seed = row_length, seed
        self.global_batch, self.micro_batch = global_batch, micro_batch
        self.epochs, self.drop_last = epochs, drop_last
        # The rows of the run, if it is to read only long documents (RowOrder).
        self._first: int | None = None
        if self.packing.strategy == "long_first" and epochs is None and steps is not None:
            self._first = self.stages.consumed(steps)
        self.on_batch_change, self.replan = on_batch_change, replan
        self.validation_rows, self.verify = validation_rows, verify
        self.context_parallel = context_parallel
        self.source_names, self.weights = self.sets.weights(self.asked)
        for name in self.source_names if self.packing.prompt_level is None else ():
            if row_length > (tokens := self.sets.counts(name, "train")["tokens"]):
                raise ConfigError(
                    f"row_length must be at most the training tokens of each source ({name}: "
                    f"{tokens}), was: {row_length}"
                )
        self._begin = 0  # the first row of the present fit
        self._order: RowOrder | None = None
        self._loader: RowLoader | None = None

    @property
    def vocab_size(self) -> int:
        return self.sets.vocab_size

    def rows(self, split: str) -> dict[str, Rows]:
        return {
            name: Rows(
                data=self.sets.open(name, split), row_length=self.row_length, packing=self.packing
            )
            for name in self.source_names
        }

    def order(self) -> RowOrder:
        if self._order is None:
            self._order = RowOrder(
                rows=self.rows("train"), weights=self.weights, seed=self.seed, first=self._first
            )
        return self._order

    def end_row(self) -> int | None:
        """Return the number of global rows of the run; None if steps decide."""
        return None if self.epochs is None else round(self.epochs * len(self.order()))

    def epoch_steps(self) -> int:
        rows = self.end_row()
        if rows is None:
            raise DataError("epochs must be set to count steps")
        steps = self.stages.steps(rows)
        if self.drop_last and self.stages.consumed(steps) > rows:
            steps -= 1
        if steps < 1:
            raise DataError(
                f"epochs={self.epochs} gives {counted(rows, 'row')}, less than one step "
                f"(rows.global_batch={self.global_batch}): increase it, or set rows.drop_last=false"
            )
        return steps

    def statistics(self, *, steps: int) -> list[RowStatistics]:
        rows = self.stages.consumed(steps)
        return row_statistics(self.order(), rows=min(rows, self.end_row() or rows))

    def check(self, *, steps: int) -> None:
        """Raise DataError for a run that reads sources too often, or warn of it."""
        if self.asked.max_epochs is None:
            return
        often = ", ".join(
            f"{source.source} {source.epochs:.1f} times"
            for source in self.statistics(steps=steps)
            if source.epochs > self.asked.max_epochs
        )
        if not often:
            return
        message = (
            f"the run reads {often}, more than rows.max_epochs={self.asked.max_epochs:g}, and may "
            "learn them by heart: lower steps or their weights (rows.sources), or prepare more text"
        )
        if self.asked.if_repeated == "refuse":
            raise DataError(message)
        log.warning("%s", message)

    @property
    def consumed_rows(self) -> int:
        """Return the number of global rows of the steps that are done."""
        if self._loader is None or self.trainer is None:
            return self._begin
        progress: Any = self.trainer.fit_loop.epoch_loop.batch_progress.current
        return self._loader.consumed_rows(unfinished=progress.ready > progress.processed)

    def setup(self, stage: str) -> None:
        """Check the trainer before a fit, which begins at the first row unless it is resumed."""
        if stage != "fit":
            return
        trainer = self._trainer()
        validates = self.validation_rows > 0 and trainer.limit_val_batches != 0
        refuse_trainer(trainer, validates=validates)
        self._begin = self.consumed_rows if self._trainer().global_step else 0
        self._loader = None

    def prepare_data(self) -> None:
        if self.verify:
            for folder, sources in self.sets.by_folder(self.source_names).items():
                for fault in data_faults(folder, sources=sources, structure=False):
                    raise DataError(str(fault))
        splits = ("train", "validation") if self.validation_rows else ("train",)
        for name in self.source_names:
            for split in splits:
                self.sets.open(name, split)

    def train_dataloader(self) -> RowLoader:
        trainer = self._trainer()
        self.teardown("fit")
        # A checkpoint of what was then the last step says so, but there may be more by now.
        trainer.fit_loop.epoch_loop.batch_progress.is_last_batch = False
        self._loader = RowLoader(
            order=self.order(),
            micro_batch=self.at_once(trainer.world_size),
            global_batch=self.global_batch,
            steps=int(trainer.max_steps),  # may be typed as 1e5
            # Ranks that share rows read the same ones.
            rank=trainer.global_rank // self.context_parallel,
            world=trainer.world_size // self.context_parallel,
            start_row=self._begin,
            start_step=trainer.global_step,
            end_row=self.end_row(),
            stages=self.stages,
            pin=trainer.strategy.root_device.type == "cuda",
            done=lambda: trainer.global_step,
        )
        return self._loader

    def val_dataloader(self) -> ValidationLoader | list[Batch]:
        if not self.validation_rows:
            return []
        trainer = self._trainer()
        return ValidationLoader(
            rows=self.rows("validation"),
            micro_batch=self.at_once(trainer.world_size),
            rows_per_source=self.validation_rows,
            rank=trainer.global_rank // self.context_parallel,
            world=trainer.world_size // self.context_parallel,
        )

    def share(self, devices: int) -> int:
        """Return the rows of each device, or of each group that shares rows, per optimizer step."""
        return self.global_batch // (devices // self.context_parallel)

    def at_once(self, devices: int) -> int:
        return self.share(devices) if self.micro_batch == "auto" else self.micro_batch

    def teardown(self, stage: str) -> None:
        if self._loader is not None and stage == "fit":  # another Trainer may validate meanwhile
            self._loader.close()

    def on_exception(self, exception: BaseException) -> None:
        self.teardown("fit")

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.consumed_rows, "first": self._first, **self._decisive()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for key, now in self._decisive().items():
            was = state_dict.get(key)
            if was == now or (key == "epochs" and self.replan):
                continue
            if key == "global_batch" and self.on_batch_change == "convert":
                if self.epochs is not None:
                    raise DataError(
                        f"global_batch is {now}, but was {was} in the run to resume, which would "
                        "change the steps of an epoch. Set steps instead of epochs, or restore it"
                    )
                kept = f"the {state_dict['rows']} rows that are consumed stay consumed"
                log.warning("global_batch was %d, is %d: %s", was, now, kept)
                continue
            cure = ", or rows.on_batch_change=convert" if key == "global_batch" else ""
            raise DataError(
                f"{key} is {now}, but was {was} in the run to resume, which would change the "
                f"remaining rows. Restore it, or start another run{cure}"
            )
        self._begin, self._loader = int(state_dict["rows"]), None
        if self._first != state_dict.get("first", self._first):  # of the steps first planned
            self._first, self._order = state_dict["first"], None

    def _decisive(self) -> dict[str, Any]:
        """Return what decides which row is the n-th, and what is in it."""
        asked = self.stages.curriculum
        return {
            "seed": self.seed,
            "row_length": self.row_length,
            "global_batch": self.global_batch,
            "packing": self.packing.strategy,
            "split_documents": self.packing.split_documents,
            "prompt_level": self.packing.prompt_level,
            "curriculum": [[*map(dict, asked.stages)], asked.budget],
            "epochs": self.epochs,
            "sources": self.weights or self.source_names,
            "level": self.sets.level,
            "coarser": self.sets.coarser or None,
            "data": self.data_digest(),
        }

    def data_digest(self) -> str:
        digest = hashlib.sha256()
        for name in self.source_names:
            files = self.sets.open(name, "train").manifest["files"]
            digest.update(json.dumps(files, sort_keys=True).encode())
        return digest.hexdigest()

    def _trainer(self) -> lightning.Trainer:
        if self.trainer is None:
            raise DataError(
                "a loader needs a trainer: fit(module, datamodule=...); without one, use rows() or "
                "order()"
            )
        return self.trainer


_ARGUMENTS = inspect.signature(LMDataModule).parameters.keys()


def _plain(value: Any) -> Any:
    """Return an argument as plain data, from which it is built again."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value


def refuse_trainer(trainer: Any, *, validates: bool) -> None:
    """Raise DataError for a trainer under which a batch would not be an optimizer step.

    validates: whether there are rows for it; else a callback must not wait for their loss.
    """
    if trainer.max_steps < 1:
        raise DataError(
            "trainer.max_steps must be set, since rows repeat without end (for epochs of "
            f"LMDataModule, to its epoch_steps()), was: {trainer.max_steps}"
        )
    limit = trainer.limit_train_batches  # 1 is one batch, and 1.0 all
    limited = (limit != 1.0 or isinstance(limit, int)) and not trainer.fast_dev_run
    for key, value, wrong, cure in (
        ("accumulate_grad_batches", trainer.accumulate_grad_batches,
         trainer.accumulate_grad_batches != 1,
         "a batch has all rows of an optimizer step: set rows.global_batch and rows.micro_batch"),
        ("overfit_batches", trainer.overfit_batches, trainer.overfit_batches != 0,
         "to train on few rows, prepare few documents (limit) and set epochs"),
        ("limit_train_batches", trainer.limit_train_batches, limited,
         "to end earlier, set steps (max_steps of your own Trainer)"),
    ):  # fmt: skip
        if wrong:
            raise DataError(f"trainer.{key} cannot be set, was: {value}; {cure}")
    interval = getattr(trainer, "val_check_interval", None)  # none with an interval in time
    at_ends = interval == 1.0 and trainer.check_val_every_n_epoch == 1
    if trainer.early_stopping_callbacks and at_ends and not trainer.fast_dev_run:
        raise DataError(
            "EarlyStopping would wait for the end of an epoch, and rows repeat without end: set "
            "validate_every (of your own Trainer val_check_interval=STEPS and "
            "check_val_every_n_epoch=None), was: none"
        )
    for callback in () if validates else trainer.callbacks:
        monitor = getattr(callback, "monitor", None)
        if isinstance(monitor, str) and monitor.startswith("validation/"):
            raise DataError(
                f"{type(callback).__name__} would wait for {monitor}, and nothing is validated: "
                "set rows.validation_rows above 0 (of your own Trainer validation_rows of "
                "LMDataModule, and limit_val_batches)"
            )
