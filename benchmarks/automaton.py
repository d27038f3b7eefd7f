"""Which width does an encoding need to follow an automaton on two levels?

    python -m benchmarks.automaton [--widths 16 32 64] [--seeds 0 1 2] [--json FILE] [--svg FILE]

BiPE's analysis (He et al., arXiv 2401.16421) asks how wide a Transformer must be to follow an
automaton that reads segments with one automaton and their outcomes with another, and finds that
BiPE needs less width than flat absolute positions. Theirs are nondeterministic; here is the
deterministic form, trained. A word is a row of segments of 1 to 4 letters, each before a state:

    a b b 1 | a 0 | b b a 2 | ...

The lower automaton starts afresh in each segment, and each letter permutes its states; where it
stops permutes the states of the upper one, which are written down and are all that is scored. All
models read the same words in the same order. Accuracy is counted in segments up to the number in
training, then up to twice and to four times as many. A line of JSON per model is kept in FILE as it
comes, and a model that is there is not trained again.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.workers import machine
from bipe import Decoder, DecoderConfig, Positions
from bipe.loss import IGNORE

# The lower automaton, [letter][state]: letters turn or mirror a pentagon. The upper one, [lower
# state][state]: each lower state turns or mirrors another.
DOWN = ((1, 2, 3, 4, 0), (0, 4, 3, 2, 1), (2, 3, 4, 0, 1))
UP = ((1, 2, 3, 4, 0), (0, 4, 3, 2, 1), (3, 4, 0, 1, 2), (2, 1, 0, 4, 3), (4, 0, 1, 2, 3))
LETTERS, UPPER, LONGEST, SEGMENTS = len(DOWN), len(UP[0]), 6, 8
END = LETTERS + UPPER  # ids: the letters, the states, and one for the start of a word and padding
SEGMENT_START = 2  # its bit in marks
FACTORS = (1, 2, 4)
STEPS, BATCH, RATE, WARMUP, TESTED = 1000, 64, 4e-3, 50, 200
ENCODINGS = ("sinusoidal", "rope", "bipe_rope", "bipe_alibi")
NAMES = dict(zip(ENCODINGS, ("sinusoidal", "RoPE", "BiPE-RoPE", "BiPE-ALiBi"), strict=True))
_TARGET = "_target_"


def words(name: str, count: int, *, segments: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens ``[word, time]`` of random words between ENDs, and their marks."""
    draw = random.Random(name)
    tokens, marks = [], []
    for _ in range(count):
        word, starts, state = [END], [SEGMENT_START], 0
        for _ in range(segments):
            letters, inside = draw.choices(range(LETTERS), k=draw.randint(1, LONGEST)), 0
            for letter in letters:
                inside = DOWN[letter][inside]
            state = UP[inside][state]
            word += [*letters, LETTERS + state]
            starts += [SEGMENT_START] + [0] * len(letters)
        tokens.append(torch.tensor([*word, END]))
        marks.append(torch.tensor([*starts, SEGMENT_START], dtype=torch.uint8))
    padded = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    return padded(tokens, padding_value=END), padded(marks)


def model_of(encoding: str, width: int, seed: int) -> Decoder:
    """Return a model of three layers and two heads, whose other sizes do not change with width."""
    n_head, head_width = 2, width // 2
    table = {_TARGET: "bipe.encodings.Learned", "width": width, "length": LONGEST + 2}
    rope = {_TARGET: "bipe.encodings.RoPE", "head_width": head_width}
    alibi = {_TARGET: "bipe.encodings.ALiBi", "n_head": n_head, "multiplier": 8}
    bilevel = {_TARGET: "bipe.encodings.Bilevel", "intra": table}
    described = {
        "sinusoidal": {_TARGET: "bipe.encodings.Sinusoidal", "width": width},
        "rope": rope,
        "bipe_rope": bilevel | {"inter": rope},
        "bipe_alibi": bilevel | {"inter": alibi},
    }[encoding]
    sizes: dict[str, Any] = {"vocab_size": END + 1, "width": width, "mlp_width": 128}
    model = Decoder(DecoderConfig(**sizes, n_layer=3, n_head=n_head, encoding=described))
    model.init_weights(seed=seed)
    return model


def scores(model: Decoder, tokens: torch.Tensor, marks: torch.Tensor) -> torch.Tensor:
    """Return the scores of the states ``[word, time, state]``."""
    at = Positions.from_marks(marks[:, :-1], packed=False)
    return model.logits(tokens[:, :-1], at)[..., LETTERS:END]


def trained(encoding: str, width: int, seed: int, *, steps: int) -> Decoder:
    """Return a model after so many steps at a rate that falls to 0."""
    model = model_of(encoding, width, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    falling = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / WARMUP) * (1 - step / steps)
    )
    for step in range(steps):
        tokens, marks = words(f"train {seed} {step}", BATCH, segments=SEGMENTS)
        targets = tokens[:, 1:] - LETTERS
        targets[(targets < 0) | (targets >= UPPER)] = IGNORE
        loss = F.cross_entropy(scores(model, tokens, marks).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        falling.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: Decoder) -> list[float]:
    """Return the share of right states in segments up to 1, 2 and 4 times those of training."""
    tokens, marks = words("test", TESTED, segments=SEGMENTS * FACTORS[-1])
    right = (scores(model, tokens, marks).argmax(-1) + LETTERS == tokens[:, 1:]).numpy()
    state = ((tokens[:, 1:] >= LETTERS) & (tokens[:, 1:] < END)).numpy()
    bins = np.searchsorted(np.multiply(FACTORS, SEGMENTS), state.cumsum(1))
    shares = (right[state & (bins == place)].mean() for place in range(len(FACTORS)))
    return [round(float(share), 4) for share in shares]


def rows_of(
    given: argparse.Namespace, known: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the row of each model that is not known."""
    for seed in given.seeds:
        for width in given.widths:
            for encoding in given.encodings:
                of = {"encoding": encoding, "width": width, "seed": seed, "steps": given.steps}
                if not any(of.items() <= row.items() for row in known):
                    model = trained(encoding, width, seed, steps=given.steps)
                    yield of | {"accuracy": accuracy(model), "machine": machine()}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the accuracy of each encoding and width: the mean over seeds, lowest and highest."""
    bins = "".join(f"{f'to segment {SEGMENTS * factor}':>22}" for factor in FACTORS)
    lines = [f"{'encoding':12}{'width':>6}{'seeds':>6}{bins}"]
    for (name, width), of in grouped(rows).items():
        cells = (f"{fmean(x):.3f} ({min(x):.3f}-{max(x):.3f})" for x in zip(*of, strict=True))
        lines.append(f"{name:12}{width:6}{len(of):6}" + "".join(f"{cell:>22}" for cell in cells))
    return "\n".join(lines)


def grouped(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], list[list[float]]]:
    """Return the accuracies of all seeds by the name of the encoding and the width."""
    found: dict[tuple[str, int], list[list[float]]] = {}
    for row in sorted(rows, key=lambda row: (ENCODINGS.index(row["encoding"]), row["width"])):
        found.setdefault((NAMES[row["encoding"]], row["width"]), []).append(row["accuracy"])
    return found


def picture(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw accuracy against width, a panel per bin of segments."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": path.name}
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    panels = figure.subplots(1, len(FACTORS), sharey=True)
    for place, (panel, factor) in enumerate(zip(panels, FACTORS, strict=True)):
        for name in NAMES.values():
            of = {w: fmean(x[place] for x in a) for (n, w), a in grouped(rows).items() if n == name}
            panel.plot(of.keys(), of.values(), marker="o", label=name)
        panel.set(title=f"to segment {SEGMENTS * factor}", xlabel="width", xscale="log")
        panel.minorticks_off()
        panel.set_xticks(widths := sorted({row["width"] for row in rows}), map(str, widths))
    panels[0].set(ylabel=f"right states (chance {1 / UPPER:.2f})")
    panels[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--encodings", nargs="+", default=ENCODINGS, choices=ENCODINGS)
    parser.add_argument("--widths", nargs="+", type=int, default=(16, 32, 64))
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--json", type=Path, default=Path("automaton.jsonl"))
    parser.add_argument("--svg", type=Path)
    asked = parser.parse_args(given)
    torch.set_num_threads(1)
    rows = [*map(json.loads, asked.json.read_text().splitlines())] if asked.json.exists() else []
    for row in rows_of(asked, rows):
        rows.append(row)
        print(row["encoding"], row["width"], row["seed"], row["accuracy"], flush=True)
        with asked.json.open("a") as file:
            print(json.dumps(row), file=file)
    print(table(rows))
    if asked.svg:
        picture(rows, asked.svg)


if __name__ == "__main__":
    main()
