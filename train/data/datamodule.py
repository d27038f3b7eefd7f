"""The Lightning data module: prepared shards in, batches out, one integer of state.

`consumed_rows` is set by whoever trains, to a batch's `rows_after` once its step is done; it goes
into checkpoints, and the loader resumes there, with any number of ranks and any micro-batch. What
would make it count other rows (seed, lengths, weights, the data itself) is refused on resume.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning
import torch

from train.data.batch import Batch
from train.data.documents import DataError
from train.data.folder import TOKENIZER, read_top
from train.data.loader import RowLoader
from train.data.order import Mixture, require_known
from train.data.packing import Rows
from train.data.shards import DataSet, open_dataset
from train.data.validation import ValidationLoader
from train.data.verify import data_faults


class LMDataModule(lightning.LightningDataModule):
    """Rows of a prepared data set for training and validation.

    folder: what `bipe prepare` wrote. sources: weight of each source; by default all of them,
    row for row. row_length: inputs of a row, in tokens. packing, split_documents: see `Rows`.
    global_batch: rows of an optimizer step; micro_batch: rows of a device at once.
    validation_rows: at most that many rows of each source; 0 leaves validation out.
    verify: check the sha256 of every file before the first step.
    """

    def __init__(
        self,
        *,
        folder: str | Path,
        row_length: int,
        global_batch: int,
        micro_batch: int,
        sources: Mapping[str, float] | None = None,
        packing: str = "concat",
        split_documents: str = "restart",
        seed: int = 0,
        validation_rows: int = 256,
        verify: bool = True,
    ) -> None:
        super().__init__()
        self.folder, self.row_length = Path(folder), row_length
        self.global_batch, self.micro_batch = global_batch, micro_batch
        self.packing, self.split_documents, self.seed = packing, split_documents, seed
        self.validation_rows, self.verify = validation_rows, verify
        self.manifest = read_top(self.folder)
        known = self.manifest["sources"]
        require_known(sources or {}, known=known)
        self.weights = dict(sources) if sources else None
        self.source_names = [name for name in sources or known if not sources or sources[name]]
        self.consumed_rows = 0

    @property
    def vocab_size(self) -> int:
        """Ids are below it."""
        return int(self.manifest["tokenizer"]["vocab_size"])

    @property
    def tokenizer_path(self) -> Path:
        """The tokenizer.json that made the ids."""
        return self.folder / TOKENIZER

    def dataset(self, source: str, split: str) -> DataSet:
        """Open one split of one source; DataError if another tokenizer or segmenter made it."""
        require_known({source: 1}, known=self.manifest["sources"])
        data = open_dataset(self.folder / source / split, verify=False)
        for key, expected in (
            ("tokenizer", self.manifest["tokenizer"]),
            ("segmenter", self.manifest["sources"][source]["segmenter"]),
        ):
            if data.manifest[key] != expected:
                raise DataError(
                    f"{data.folder / 'manifest.json'}: its {key} is not that of "
                    f"{self.folder / 'manifest.json'}; prepare again"
                )
        return data

    def rows(self, split: str) -> dict[str, Rows]:
        """The rows of every source in a split."""
        return {
            name: Rows(
                data=self.dataset(name, split),
                row_length=self.row_length,
                packing=self.packing,
                split_documents=self.split_documents,
            )
            for name in self.source_names
        }

    def mixture(self) -> Mixture:
        """The order of all training rows."""
        return Mixture(rows=self.rows("train"), weights=self.weights, seed=self.seed)

    def prepare_data(self) -> None:
        """Check every file, on one rank a machine."""
        if self.verify:
            for fault in data_faults(self.folder, sources=self.source_names, structure=False):
                raise DataError(str(fault))
        splits = ("train", "validation") if self.validation_rows else ("train",)
        for name in self.source_names:
            for split in splits:
                self.dataset(name, split)

    def train_dataloader(self) -> RowLoader:
        trainer = self._trainer()
        if trainer.max_steps < 1:
            raise DataError("trainer.max_steps must be set: the order of rows has no end")
        return RowLoader(
            mixture=self.mixture(),
            micro_batch=self.micro_batch,
            global_batch=self.global_batch,
            steps=trainer.max_steps,
            rank=trainer.global_rank,
            world=trainer.world_size,
            start_row=self.consumed_rows,
        )

    def val_dataloader(self) -> ValidationLoader | list[Batch]:
        if not self.validation_rows:
            return []
        trainer = self._trainer()
        return ValidationLoader(
            rows=self.rows("validation"),
            micro_batch=self.micro_batch,
            rows_per_source=self.validation_rows,
            rank=trainer.global_rank,
            world=trainer.world_size,
        )

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        return batch.to(device, non_blocking=True)

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.consumed_rows, **self._order()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for key, now in self._order().items():
            if state_dict[key] != now:
                raise DataError(
                    f"{key} was {state_dict[key]} in the run to resume, is {now}: its rows would "
                    "not be those that are left. Set it back, or begin another run"
                )
        self.consumed_rows = int(state_dict["rows"])

    def _order(self) -> dict[str, Any]:
        """Everything that decides which row is the n-th."""
        digest = hashlib.sha256()
        for name in self.source_names:
            files = self.dataset(name, "train").manifest["files"]
            digest.update("".join(file["sha256"] for file in files.values()).encode())
        return {
            "seed": self.seed,
            "row_length": self.row_length,
            "global_batch": self.global_batch,
            "packing": self.packing,
            "split_documents": self.split_documents,
            "sources": self.weights or self.source_names,
            "data": digest.hexdigest(),
        }

    def _trainer(self) -> lightning.Trainer:
        if self.trainer is None:
            raise DataError("a loader is asked for without a trainer; use rows() or mixture()")
        return self.trainer
