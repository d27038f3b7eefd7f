"""What `bipe pretrain --plan` says against what the same run takes, for a few shapes.

    python -m benchmarks.plan [SHAPE ...] [--json FILE]

Each shape is planned, and trained for two steps by the same words, in a process of its own:
- floating-point operations per token, by torch's own counter of what is run (FlopCounterMode);
- the most bytes of live tensors (benchmarks/live_bytes.py), which needs no allocator to agree.
Bar: both within 10%.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.workers import machine, parser_of, write

_BAR = 0.10
_STEPS = 2
_20M = ("model.width=384", "model.n_layer=6", "model.n_head=6", "model.mlp_width=1024")
_20M += ("model.vocab_size=16384", "row_length=512", "rows.micro_batch=4")
_SMALL = ("model=small", "model.vocab_size=8192", "row_length=512", "rows.micro_batch=8")
SHAPES = {
    "tiny, BiPE-RoPE": ("encoding=bipe_rope", "rows.global_batch=4"),
    "small, BiPE-ALiBi": (*_SMALL, "encoding=bipe_alibi", "rows.global_batch=8"),
    "20M, RoPE, 2 micro-batches": (*_20M, "encoding=rope", "rows.global_batch=8"),
    "20M, BiPE-RoPE, recompute": (
        *(*_20M, "encoding=bipe_rope", "rows.global_batch=4", "recompute=true"),
        "corpus.sources.proofs.documents.chains=400",
    ),
    "small, ALiBi, bf16": (
        *(*_SMALL, "encoding=alibi", "rows.global_batch=8"),
        "trainer.precision=bf16-mixed",
    ),
}


def words(shape: str, folder: Path) -> list[str]:
    own = (f"out={folder}", "experiment=smoke", f"steps={_STEPS}", "rows.validation_rows=0")
    # After the first checkpoint its copy stays.
    return [*own, "schedule.warmup=1", "checkpoint_every=1", *SHAPES[shape]]


def measure(shape: str, folder: Path, what: str) -> float:
    """Train in this process; return bytes at the peak of the last step, or its operations."""
    from benchmarks.live_bytes import LiveBytes
    from train.cli import main
    from train.fit.flops import counter
    from train.fit.module import LMModule

    # Each alone: the counter keeps tensors for longer than they live.
    mode = LiveBytes() if what == "bytes" else counter()
    found: dict[str, int] = {}
    start, end = LMModule.on_train_batch_start, LMModule.on_train_batch_end

    def on_start(module: LMModule, batch: Any, batch_idx: int) -> None:
        if batch.step == _STEPS - 1 and not found:  # the moments of the optimizer are there
            if isinstance(mode, LiveBytes):
                mode.begin()
            found["before"] = 0 if isinstance(mode, LiveBytes) else mode.get_total_flops()
        start(module, batch, batch_idx)

    def on_end(module: LMModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        end(module, outputs, batch, batch_idx)
        if module.trainer.global_step == _STEPS:
            now = mode.peak if isinstance(mode, LiveBytes) else mode.get_total_flops()
            found["value"] = now - found["before"]

    LMModule.on_train_batch_start, LMModule.on_train_batch_end = on_start, on_end  # type: ignore
    with mode:
        assert main(["pretrain", *words(shape, folder), "if_exists=overwrite"]) == 0
    return found["value"]


def compare(shape: str) -> dict[str, float | str]:
    """Prepare, plan and train one shape; return planned and measured numbers."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bipe = [sys.executable, "-m", "train.cli"]
        ask = {"check": True, "capture_output": True, "text": True}
        subprocess.run([*bipe, "prepare", *words(shape, folder)], **ask)
        told = subprocess.run([*bipe, "pretrain", "--plan", "--json", *words(shape, folder)], **ask)
        plan = json.loads(told.stdout)
        command = [sys.executable, "-m", "benchmarks.plan", "--folder", str(folder), shape]
        found = {
            what: float(
                subprocess.run([*command, "--measure", what], **ask).stdout.splitlines()[-1]
            )
            for what in ("bytes", "flops")
        }
    (on,) = plan["on"]
    tokens = plan["schedule"]["tokens"] / _STEPS
    planned = on["flops"]["device"] * tokens
    return {
        "shape": shape,
        "planned_mb": on["peak"] / 1e6,
        "measured_mb": found["bytes"] / 1e6,
        "memory": on["peak"] / found["bytes"],
        "planned_gflop": planned / 1e9,
        "measured_gflop": found["flops"] / 1e9,
        "flops": planned / found["flops"],
    }


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("shapes", nargs="*", choices=[[], *SHAPES], metavar="SHAPE")
    parser.add_argument("--measure", choices=["bytes", "flops"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(measure(given.shapes[0], given.folder, given.measure))
        return 0
    print(f"{'shape':<28} {'memory, MB':>20} {'ratio':>6} {'GFLOP a step':>18} {'ratio':>6}")
    found = []
    for shape in given.shapes or SHAPES:
        one = compare(shape)
        found.append(one)
        print(
            f"{shape:<28} {one['planned_mb']:>9.1f} /{one['measured_mb']:>9.1f} "
            f"{one['memory']:>6.3f} {one['planned_gflop']:>8.2f} /{one['measured_gflop']:>8.2f} "
            f"{one['flops']:>6.3f}",
            flush=True,
        )
    write(given.json, {"machine": machine(), "shapes": found})
    far = [one for one in found if max(abs(one[k] - 1) for k in ("memory", "flops")) > _BAR]
    return 1 if far else 0


if __name__ == "__main__":
    raise SystemExit(main())
