"""Decoding behind a long prompt against reading it: 128 tokens must cost less than 3 prefills.

    python -m benchmarks.long_prompt --threads 1 [--prompt 8192] [--new 128] [--beams 1 4]

One small model of each encoding, with drawn weights. The prompt is read once with one new token,
then with `--new`; the difference is what the others cost, with the cache. Ratios are of medians of
CPU time: on a machine that others use, the clock on the wall tells more of them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

from benchmarks.models import SEGMENT, Size, encodings
from bipe import Decoder, DecoderConfig
from bipe.generation import Beams, Marker, beam_search, generate

SMALL = Size(vocab=2048, width=128, layers=4, heads=4, mlp=512, time=512)


class Strides:
    """A marker that opens a segment every few tokens: no tokenizer is timed."""

    def __init__(self, read: int = 0) -> None:
        self.read = read

    def push(self, token: int) -> list[int]:
        self.read += 1
        return [2 * (self.read % SEGMENT == 1)]

    def provisional(self) -> list[int]:
        return []

    def copy(self) -> Strides:
        return Strides(self.read)


def small_model(description: Any) -> Decoder:
    model = Decoder(
        DecoderConfig(
            vocab_size=SMALL.vocab,
            width=SMALL.width,
            n_layer=SMALL.layers,
            n_head=SMALL.heads,
            mlp_width=SMALL.mlp,
            encoding=description,
        )
    )
    model.init_weights(seed=0)
    return model.eval()


def seconds(model: Decoder, prompt: list[int], *, new: int, beams: int) -> float:
    """CPU time of one call."""
    marker: Marker = Strides()
    begin = time.process_time()
    if beams > 1:
        beam_search(model, prompt, max_new=new, search=Beams(beams=beams), marker=marker)
    else:
        generate(model, [prompt], max_new=new, marker=marker)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", type=int, default=8192)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    generator = torch.Generator().manual_seed(0)
    for name, description in encodings(SMALL).items():
        model = small_model(description)
        tokens = torch.randint(SMALL.vocab, (given.prompt,), generator=generator)
        prompt = tokens.tolist()
        for beams in given.beams:
            times: dict[int, list[float]] = {1: [], given.new: []}
            for _ in range(given.repeats):
                for new, found in times.items():
                    found.append(seconds(model, prompt, new=new, beams=beams))
            prefill, whole = (statistics.median(found) for found in times.values())
            print(
                f"{name:<12} beams {beams}: prefill {prefill:6.2f} s, {given.new} tokens "
                f"{whole - prefill:6.2f} s, ratio {(whole - prefill) / prefill:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
