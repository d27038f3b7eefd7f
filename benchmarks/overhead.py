"""What `bipe pretrain` costs beside the step itself: rows, Lightning, callbacks, logs, checks.

    python -m benchmarks.overhead [--steps 14] [--rounds 5] [--threads 1] [--json FILE] [WORD ...]

WORD: of `bipe pretrain`, with data=FOLDER; by default a model of 20 million parameters on the
demo's data, which `bipe prepare experiment=demo` makes. In turns, the same steps are made by the
command as it is, by Lightning and our module without callbacks, by a plain loop over the rows, and
by a plain loop over one batch: forward, backward, clipping, AdamW. Compared is the CPU time of the
process per step, in which waiting for others does not count, and the medians of the rounds are
printed: the step's share of each. Bar for the command: 0.95.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

import lightning
import torch

from benchmarks.workers import machine, parser_of, write
from bipe import DecoderConfig
from bipe.loss import summed_cross_entropy
from train.cli import main as bipe
from train.data.rows.datamodule import LMDataModule
from train.data.rows.loader import Batch, RowLoader
from train.fit.module import LMModule, Training, positions_of
from train.fit.optim import optimizer_of
from train.fit.training import quiet

SKIPPED = 2  # steps that warm up
WORDS = (
    *("experiment=demo", "data=runs/demo/data", "encoding=bipe_rope", "model.n_head=7"),
    *("model.width=448", "model.n_layer=8", "model.mlp_width=1216"),
    "trainer.precision=32-true",
)


class Times(lightning.Callback):
    """The CPU time at the end of each step, and what was trained."""

    last: Times

    def __init__(self) -> None:
        self.ends: list[float] = []
        Times.last = self

    def on_train_start(self, trainer: Any, module: Any) -> None:
        self.config: DecoderConfig = module.model.config
        self.options: Training = module.options
        self.precision: str = trainer.precision
        self.rows: LMDataModule = trainer.datamodule

    def on_train_batch_end(self, *_: Any) -> None:
        self.ends.append(time.process_time())

    def per_step(self) -> float:
        return (self.ends[-1] - self.ends[SKIPPED]) / (len(self.ends) - 1 - SKIPPED)


def command(words: list[str], steps: int) -> Times:
    """Train by `bipe pretrain`, in a folder of its own."""
    with tempfile.TemporaryDirectory() as place:
        own = [f"steps={steps}", f"out={place}", "allowed_targets=[benchmarks]"]
        own += ["+callbacks.times._target_=benchmarks.overhead.Times"]
        with contextlib.redirect_stderr(io.StringIO()):
            failed = bipe(["pretrain", *words, *own])
    if failed:
        raise SystemExit("bipe pretrain has failed; see it alone with these words")
    return Times.last


def by_lightning(known: Times, steps: int) -> Times:
    """Train by Lightning's trainer and our module, without callbacks of ours and without logs."""
    times, module = Times(), LMModule(known.config, known.options)
    with quiet():
        lightning.Trainer(
            max_steps=steps, max_epochs=-1, accelerator="cpu", logger=False, callbacks=[times],
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            num_sanity_val_steps=0, limit_val_batches=0, precision=known.precision,  # type: ignore[arg-type]
        ).fit(module, known.rows)  # fmt: skip
    return times


def plain(known: Times, steps: int, *, one_batch: bool) -> Times:
    """Train by a plain loop over the rows of the run, or over the first batch of them."""
    times, module, rows = Times(), LMModule(known.config, known.options), known.rows
    model, options = module.model, known.options
    optimizer = optimizer_of(options.optimizer, model.named_parameters())
    sizes = {"micro_batch": rows.global_batch, "global_batch": rows.global_batch}
    batches: Iterable[Batch] = RowLoader(order=rows.order(), steps=steps, **sizes).batches()
    if one_batch:
        batches = itertools.repeat(next(iter(batches)), steps)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=known.precision != "32-true")
    for batch in batches:
        with autocast:
            hidden = model(batch.tokens, positions_of(batch, levels=model.levels)).flatten(0, 1)
            loss = summed_cross_entropy(hidden, model.head.weight, batch.targets.flatten())
        (loss / batch.step_targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip or float("inf"))
        optimizer.step()
        optimizer.zero_grad()
        times.on_train_batch_end()
    return times


def main() -> None:
    """Measure in turns, and print the shares."""
    parser = parser_of(__doc__, steps=14, rounds=5, threads=1)
    parser.add_argument("words", nargs="*", default=WORDS, metavar="WORD")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    known = command([*asked.words], SKIPPED + 2)
    torch.set_flush_denormal(True)  # as the command does
    ways: dict[str, Callable[[], Times]] = {
        "one batch": lambda: plain(known, asked.steps, one_batch=True),
        "rows": lambda: plain(known, asked.steps, one_batch=False),
        "Lightning": lambda: by_lightning(known, asked.steps),
        "bipe pretrain": lambda: command([*asked.words], asked.steps),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(asked.rounds):
        for name in ways if turn % 2 else reversed(ways):
            found[name].append(ways[name]().per_step())
            torch.set_flush_denormal(True)
    medians = {name: statistics.median(values) for name, values in found.items()}
    shares = {name: medians["one batch"] / each for name, each in medians.items()}
    for name, values in found.items():
        spread = f"{min(values):.3f} to {max(values):.3f}"
        print(
            f"{name:<14} {medians[name]:.3f} s of CPU time per step ({spread}) {shares[name]:.3f}"
        )
    write(asked.json, {"machine": machine(), "words": [*asked.words], "seconds": medians})


if __name__ == "__main__":
    from benchmarks.overhead import main as run  # callbacks name this module, which runs twice else

    run()
