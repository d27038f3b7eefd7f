"""What callbacks, logging and checks cost in a training step, of a model of 20 million parameters.

    python -m benchmarks.overhead --data DATA [--steps 10] [--rounds 5] [--threads 1]

DATA: prepared data (bipe prepare experiment=smoke). Each round makes some steps of the same rows
twice, in turns: as `bipe pretrain` does with a line of metrics in each step (more than usual), and
by a bare loop over forward, backward, clipping and AdamW of the same model. Compared is the CPU
time of the process, in which waiting for other processes does not count; the medians of rounds are
printed as a ratio. Bar: below 1.02.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning
import torch

from bipe import DecoderConfig
from bipe.loss import summed_cross_entropy
from train.data.rows.datamodule import LMDataModule
from train.data.rows.loader import RowLoader
from train.fit.module import LMModule, Training, positions_of
from train.fit.optim import adamw, constant
from train.fit.training import quiet
from train.fit.watching.losses import StepLosses
from train.fit.watching.metrics import MetricsFile
from train.fit.watching.tracking import Tracking
from train.fit.watching.watch import ProgressBar

ROW_LENGTH, ROWS, SKIPPED = 512, 8, 2  # the first steps warm up


class Times(lightning.Callback):
    """The CPU time at the end of each step."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, *_: Any) -> None:
        self.ends.append(time.process_time())


def decoder(vocab_size: int) -> DecoderConfig:
    """Return a model of about 20 million parameters."""
    intra = {"_target_": "bipe.encodings.Learned", "width": 448, "length": 256}
    encoding: Mapping[str, Any] = {
        "_target_": "bipe.encodings.Bilevel",
        "intra": intra,
        "inter": {"_target_": "bipe.encodings.RoPE", "head_width": 64},
    }
    sizes = {"width": 448, "n_layer": 8, "n_head": 7, "mlp_width": 1216}
    return DecoderConfig(vocab_size=vocab_size, encoding=encoding, **sizes)


def rows_of(data: Path) -> LMDataModule:
    return LMDataModule(
        folder=str(data), row_length=ROW_LENGTH, global_batch=ROWS, micro_batch=ROWS,
        validation_rows=0, verify=False,
    )  # fmt: skip


def training() -> Training:
    return Training(optimizer=lambda parameters: adamw(parameters, lr=1e-4), schedule=constant())


def watched(data: Path, steps: int) -> float:
    """Return the seconds of CPU time per step of a training with everything around it."""
    rows, times = rows_of(data), Times()
    module = LMModule(decoder(rows.vocab_size), training())
    with tempfile.TemporaryDirectory() as place, quiet():
        folder = Path(place)
        tracking = Tracking(loggers={}, folder=folder, config={}, facts=dict, allowed=())
        file = MetricsFile(
            path=folder / "metrics.csv", every=1, decoder=module.model.config,
            losses=StepLosses.of(module.model, rows).names, send=tracking.send,
        )  # fmt: skip
        lightning.Trainer(
            max_steps=steps, max_epochs=-1, accelerator="cpu", logger=tracking,
            callbacks=[file, ProgressBar(title="overhead"), times], enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
            num_sanity_val_steps=0,
        ).fit(module, rows)  # fmt: skip
    return (times.ends[-1] - times.ends[SKIPPED]) / (steps - 1 - SKIPPED)


def bare(data: Path, steps: int) -> float:
    """Return the seconds of CPU time per step of the model, the loss and the optimizer alone."""
    rows = rows_of(data)
    module = LMModule(decoder(rows.vocab_size), training())
    model, optimizer = module.model, adamw(module.model.parameters(), lr=1e-4)
    loader = RowLoader(order=rows.order(), micro_batch=ROWS, global_batch=ROWS, steps=steps)
    ends = []
    for batch in loader.batches():
        hidden = model(batch.tokens, positions_of(batch)).flatten(0, 1)
        targets = batch.targets.flatten()
        loss = summed_cross_entropy(hidden, model.head.weight, targets) / batch.step_targets
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ends.append(time.process_time())
    return (ends[-1] - ends[SKIPPED]) / (steps - 1 - SKIPPED)


def main() -> None:
    """Measure in turns, and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    for name, default in (("steps", 10), ("rounds", 5), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    found: dict[str, list[float]] = {"bare": [], "watched": []}
    for turn in range(asked.rounds):
        pair = [("bare", bare), ("watched", watched)]
        for name, measure in pair if turn % 2 else reversed(pair):
            found[name].append(measure(asked.data, asked.steps))
    medians = {name: statistics.median(values) for name, values in found.items()}
    for name, values in found.items():
        spread = f"{min(values):.3f} to {max(values):.3f}"
        print(f"{name:<8} {medians[name]:.3f} s of CPU time per step ({spread})")
    print(f"ratio    {medians['watched'] / medians['bare']:.4f}")


if __name__ == "__main__":
    main()
