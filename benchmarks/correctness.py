"""Every encoding on this machine's device, by the path that is chosen there, against eager float64.

    python -m benchmarks.correctness [--cpu] [--time 256 2304] [--dtype float32 bfloat16]
        [--jobs 1] [--json FILE]

For each YAML of conf/encoding, as it is and over segments: logits and gradients of a small model on
one document and on packed rows, by the loss of training, logits without gradients, and cached steps
against one pass, each as the norm of the difference over the norm of what the same weights give in
float64 on the CPU with every score. It fails if one is above its tolerance, see TOLERANCES.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.models import described
from benchmarks.workers import ROOT, machine, parser_of, write
from bipe import Cache, Decoder, DecoderConfig, Positions
from bipe.build import find
from bipe.encodings import Encoding, Scheme
from bipe.loss import summed_cross_entropy

SIZES = {"width": 128, "n_head": 4, "n_layer": 2}
VOCABULARY, STEPS, LEVELS = 257, 16, 2
# Of logits and of gradients. TENER does not divide scores, so that they round most.
TOLERANCES = {"float32": (1e-4, 1e-3), "bfloat16": (1e-1, 3e-1)}
# Gradients that say little: of positions, which jump at whole numbers (CoPE), and on a CPU in
# bfloat16 of gates, which are small sums of all scores after them.
UNSTEADY = {"cope": ("float32", "bfloat16")}
UNSTEADY_ON_CPU = dict.fromkeys(("fox", "fox_segments", "cable"), ("bfloat16",))
Found = dict[str, Tensor]


def schemes(names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every encoding as configured, and those that serve there over segments."""
    for name in names:
        found = described(name, 256, **SIZES)
        yield name, found
        if issubclass(find(found["_target_"], Encoding | Scheme), Encoding):
            nope = {"_target_": "bipe.encodings.NoPE"}
            over = {"_target_": "bipe.encodings.Bilevel", "intra": nope, "inter": found}
            yield f"segments {name}", over


def batch(time: int, *, packed: bool) -> tuple[Tensor, Tensor]:
    """Return tokens and marks of two rows; packed: of a few documents each."""
    draw = torch.Generator().manual_seed(time)
    tokens = torch.randint(0, VOCABULARY, (2, time), generator=draw)
    drawn = torch.rand(2, time, generator=draw)
    marks = (drawn < 0.05).to(torch.uint8) << 1 | (drawn < 0.01).to(torch.uint8) << 2
    return tokens, torch.where(drawn < 4 / time, 7, marks) if packed else marks


def passed(model: Decoder, tokens: Tensor, marks: Tensor, *, packed: bool, autocast: bool) -> Found:
    """Return the logits of one pass, and the gradient of each parameter by its loss."""
    device = model.head.weight.device
    tokens, marks = tokens.to(device), marks.to(device)
    at = Positions.from_marks(marks, packed=packed, levels=model.levels)
    with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
        hidden, targets = model(tokens, at), tokens[:, 1:].flatten()
        logits = model.head(hidden)
        loss = summed_cross_entropy(hidden[:, :-1].flatten(0, 1), model.head.weight, targets)
    (loss / len(targets)).backward()
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=autocast):
        evaluated = model.logits(tokens, at)
    named = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    found = {"logits": logits.detach(), "evaluation": evaluated}
    found |= {f"gradient of {n}": g for n, g in named.items()}
    model.zero_grad()
    return {name: x.double().cpu() for name, x in found.items()}


@torch.no_grad()
def stepped(model: Decoder, tokens: Tensor, marks: Tensor, *, autocast: bool) -> Found:
    """Return the logits of the last tokens, each read alone behind a cache of those before."""
    device, (rows, time) = model.head.weight.device, tokens.shape
    tokens, marks = tokens.to(device), marks.to(device)
    cache, logits = Cache(batch=rows, capacity=time), []
    for part, opened in zip(
        tokens.split([time - STEPS, *[1] * STEPS], 1), marks.split([time - STEPS, *[1] * STEPS], 1),
        strict=True,
    ):  # fmt: skip
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            at = cache.next(opened, levels=model.levels)
            logits.append(model.head(model(part, at, cache=cache))[:, -1:])
    return {"cached steps": torch.cat(logits[:-1], 1).double().cpu()}


def errors(found: Found, true: Found) -> dict[str, float]:
    """Return the norm of each difference over that of the reference, or of all gradients."""
    grads = torch.stack([x.norm() for name, x in true.items() if name.startswith("gradient")])
    floor = float(grads.norm()) / 100
    return {
        name: float((x - true[name]).norm() / max(float(true[name].norm()), floor))
        for name, x in found.items()
    }


def errors_of(
    name: str, scheme: dict[str, Any], time: int, dtypes: list[str], device: str
) -> list[dict[str, Any]]:
    """Return, for each dtype, the largest error of logits, gradients and cached steps."""
    config = DecoderConfig(
        vocab_size=VOCABULARY, mlp_width=256, init_std=0.1, encoding=scheme, **SIZES
    )
    eager = Decoder(config, attention="eager")
    eager.init_weights(seed=0)
    ours = Decoder(config)
    ours.load_state_dict(eager.state_dict())
    eager.double().eval()
    ours.to(device).eval()
    most: dict[str, dict[str, float]] = {dtype: {} for dtype in dtypes}
    for packed in (False, True):
        tokens, marks = batch(time, packed=packed)
        true = passed(eager, tokens, marks, packed=packed, autocast=False)
        if not packed:
            true["cached steps"] = true["logits"][:, -STEPS - 1 : -1]
        for dtype, worst in most.items():
            half = dtype == "bfloat16"
            found = passed(ours, tokens, marks, packed=packed, autocast=half)
            if not packed:
                found |= stepped(ours, tokens, marks, autocast=half)
            for what, error in errors(found, true).items():
                kind = what.split(" of ")[0] + ", packed" * packed
                worst[kind] = max(worst.get(kind, 0.0), error)
    return [
        {"encoding": name, "time": time, "dtype": dtype, "errors": found}
        for dtype, found in most.items()
    ]


def rows_of(
    case: tuple[str, dict[str, Any], int], dtypes: list[str], device: str
) -> list[dict[str, Any]]:
    """Return the errors of a case, and which of them are above their tolerance."""
    name, scheme, time = case
    try:
        rows = errors_of(name, scheme, time, dtypes, device)
    except Exception as fault:
        said = f"{type(fault).__name__}: {fault}"[:300]
        return [{"encoding": name, "time": time, "dtype": d, "wrong": said} for d in dtypes]
    for row in rows:
        most, of_gradients = TOLERANCES[row["dtype"]]
        unsteady = UNSTEADY | (UNSTEADY_ON_CPU if device == "cpu" else {})
        if row["dtype"] in unsteady.get(name.removeprefix("segments "), ()):
            of_gradients = float("inf")
        row["wrong"] = {
            what: error
            for what, error in row["errors"].items()
            if not error <= (of_gradients if what.startswith("gradient") else most)
        }
    return rows


def main() -> int:
    parser = parser_of(__doc__, jobs=1)
    known = sorted(path.stem for path in (ROOT / "conf" / "encoding").glob("*.yaml"))
    parser.add_argument("--encodings", nargs="+", choices=known, default=known, metavar="NAME")
    parser.add_argument("--time", type=int, nargs="+", default=[256, 2304], help="tokens")
    parser.add_argument("--dtype", nargs="+", choices=list(TOLERANCES), default=list(TOLERANCES))
    parser.add_argument("--cpu", action="store_true", help="even if there is a GPU")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() and not given.cpu else "cpu"
    found = list(schemes(given.encodings))
    cases = [(*each, time) for time in sorted(given.time, reverse=True) for each in found]
    one = functools.partial(rows_of, dtypes=given.dtype, device=device)
    rows: list[dict[str, Any]] = []
    threads = max(1, torch.get_num_threads() // given.jobs)
    with torch.multiprocessing.get_context("spawn").Pool(
        given.jobs, torch.set_num_threads, (threads,), maxtasksperchild=1
    ) as pool:
        for some in pool.imap_unordered(one, cases):
            rows += some
            for row in some:
                shown = " ".join(f"{k} {e:.1e};" for k, e in row.get("errors", {}).items())
                print(
                    f"{row['encoding']:24} {row['time']:5} {row['dtype']:9} {shown} "
                    f"{row['wrong'] or 'right'}",
                    flush=True,
                )
            if given.json:
                kept = {"machine": machine(), "tolerances": TOLERANCES, "cases": rows}
                write(given.json, kept)
    wrong = sum(bool(row["wrong"]) for row in rows)
    print(f"{wrong} of {len(rows)} are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
