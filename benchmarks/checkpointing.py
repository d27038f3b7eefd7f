"""How long training waits for a checkpoint: written at once, and in the background.

    python -m benchmarks.checkpointing [--saves 5] [--steps 12] [--threads 1] [--out FOLDER]

A decoder of 20 million parameters with AdamW trains on random tokens and saves every few steps, as
one file and as shards. The stall is what the call that saves takes, from the second save on: the
first one also makes the memory of the copies. The time of all steps shows what writing beside them
costs. All in one process, in turn, on the disk of FOLDER.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.workers import parser_of
from bipe import Decoder, DecoderConfig, Positions
from train.fit.checkpoints import shards
from train.fit.checkpoints.shards import Background
from train.fit.checkpoints.writing import AtomicCheckpointIO

CONFIG = DecoderConfig(
    vocab_size=8192,
    width=384,
    n_layer=8,
    n_head=6,
    mlp_width=1024,
    encoding={"_target_": "bipe.encodings.RoPE", "head_width": 64},
)
_BATCH, _TIME = 2, 128
Save = Callable[[dict[str, Any], Path], None]


class Training:
    """The model, its optimizer, and a checkpoint of both."""

    def __init__(self) -> None:
        self.model = Decoder(CONFIG)
        self.model.init_weights(seed=0)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.tokens = torch.randint(0, CONFIG.vocab_size, (_BATCH, _TIME))
        marks = torch.zeros(_BATCH, _TIME, dtype=torch.uint8)
        self.at = Positions.from_marks(marks, packed=False)

    def step(self) -> None:
        self.model.logits(self.tokens, self.at).logsumexp(-1).mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def checkpoint(self) -> dict[str, Any]:
        names = [name for name, _ in self.model.named_parameters()]
        state = self.optimizer.state_dict()
        state["state"] = {names[key]: value for key, value in state["state"].items()}
        return {"state_dict": self.model.state_dict(), "optimizer_states": [state]}


def run(
    training: Training, save: Save | None, folder: Path, *, saves: int, steps: int
) -> tuple[list[float], float]:
    """Return the stalls, and the seconds of all steps and saves without the last wait."""
    stalls, begin = [], time.perf_counter()
    for number in range(saves):
        for _ in range(steps):
            training.step()
        if save is not None:
            before = time.perf_counter()
            save(training.checkpoint(), folder / f"step={number:08d}.ckpt")
            stalls.append(time.perf_counter() - before)
    return stalls, time.perf_counter() - begin


def ways(background: Background) -> dict[str, Save | None]:
    """Return how checkpoints are saved."""
    at_once, behind = AtomicCheckpointIO(), AtomicCheckpointIO(background=background)
    return {
        "none": None,
        "file, at once": at_once.save_checkpoint,
        "file, in the background": behind.save_checkpoint,
        "shards, at once": shards.save,
        "shards, in the background": lambda c, path: background.write(
            c, partial(shards.save, path=path)
        ),
    }


def main() -> None:
    parser = parser_of(__doc__, saves=5, steps=12, threads=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    training, background = Training(), Background()
    numbers = sum(parameter.numel() for parameter in training.model.parameters())
    print(f"{numbers / 1e6:.1f} million parameters, {options.threads} threads")
    with tempfile.TemporaryDirectory(dir=options.out) as folder:
        store = f"file://{folder}/store"
        torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
        run(training, None, Path(folder), saves=1, steps=3)
        at_once = 0.0
        for number, (name, save) in enumerate(ways(background).items()):
            place = Path(folder) / str(number)
            place.mkdir()
            stalls, seconds = run(training, save, place, saves=options.saves, steps=options.steps)
            background.wait()
            stall = statistics.median(stalls[1:]) if stalls else 0.0
            at_once = stall if name.endswith("at once") else at_once
            share = f"  {stall / at_once:6.1%} of that at once" if "background" in name else ""
            print(
                f"{name:26}  stall {1e3 * stall:8.1f} ms{share}  all {seconds:6.1f} s", flush=True
            )
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
