"""Parameters that make no sense are refused by name, with the rule and the value."""

import pytest
import torch

from bipe import Decoder, DecoderConfig
from bipe import extension as ext
from bipe import random_positions as draws
from bipe.build import build, find
from bipe.encodings import ALiBi, Bilevel, Learned, RoPE, Sinusoidal
from bipe.encodings.complex_order import ComplexOrder
from bipe.encodings.hirope import HiRoPE
from bipe.encodings.permuteformer import PermuteFormer
from bipe.encodings.pope import PoPE
from bipe.encodings.xpos import XPos
from bipe.rotation import compose
from tests.bipe.conftest import SCHEMES, far, target

SIZES = {"vocab_size": 61, "width": 48, "n_layer": 2, "n_head": 6, "mlp_width": 64}
LISTS = {"short_factor": [1.0], "long_factor": [1.0] * 4}
IDS, WINDOW = (
    torch.arange(4)[None],
    target("Flat", encoding=target("NoPE"), far=far("Window", window=2)),
)


def decoder(encoding=None, **options):
    return DecoderConfig(**SIZES | options, **({"encoding": encoding} if encoding else {}))


def together(*encodings):
    return compose(*(each.rotation(IDS) for each in encodings))


REFUSED = [
    (lambda: RoPE(head_width=7), "head_width must be even, was: 7"),
    (lambda: RoPE(head_width=8, part=[0.0, 0.3]), "part must be two increasing fractions from 0"),
    (lambda: RoPE(head_width=8, part=[0.0, 0.125]), r"multiples of 2/8, was: \(0.0, 0.125\)"),
    (lambda: RoPE(head_width=8, part=[0.5, 0.5]), "part must be"),
    (lambda: RoPE(head_width=8, part=[0.5]), "part must be"),
    (lambda: RoPE(head_width=8, pairs=[0.0, 1.25]), r"pairs .* multiples of 1/4"),
    (lambda: ALiBi(n_head=0), "n_head must be at least 1, was: 0"),
    (lambda: Learned(width=4, length=0), "length must be at least 1, was: 0"),
    (lambda: Learned(width=4, length=2, overflow="wrap"), "overflow must be 'clamp' or 'error'"),
    (lambda: Sinusoidal(width=7), r"width must be even, was: 7 \(each wave has"),
    (lambda: Sinusoidal(width=3, layout="spread"), "width must be at least 4 in the layout"),
    (lambda: Sinusoidal(width=8, layout="rows"), "layout must be interleaved, halves, spread"),
    (lambda: Sinusoidal(width=8, combine="x"), "combine must be 'add' or 'multiply', was: 'x'"),
    (lambda: ComplexOrder(width=5), "width must be even, was: 5"),
    (lambda: HiRoPE(head_width=8, window=0), "window must be at least 1, was: 0"),
    (lambda: HiRoPE(head_width=8, split=1.0), "split must be above 0 and below 1, was: 1.0"),
    (lambda: HiRoPE(head_width=8, split=0.3), "pairs must be two increasing fractions"),
    (lambda: PermuteFormer(head_width=0, n_head=2), "head_width must be at least 1, was: 0"),
    (lambda: PermuteFormer(head_width=8, n_head=6, n_kv_head=4), "n_head must be a multiple of"),
    (lambda: XPos(head_width=8, gamma=0.0), "gamma must be above 0, was: 0.0"),
    (lambda: PoPE(head_width=8, n_head=0), "n_head must be at least 1, was: 0"),
    (lambda: ext.Linear(factor=0.5), "factor must be at least 1, was: 0.5"),
    (lambda: ext.Linear(factor=float("nan")), "factor must be at least 1, was: nan"),
    (lambda: ext.YaRN(factor=2.0, original_length=0), "original_length must be at least 1, was: 0"),
    (
        lambda: ext.YaRN(factor=2.0, original_length=9, beta_slow=40.0),
        r"beta_slow must be above 0 and at most beta_fast \(32.0\), was: 40.0",
    ),
    (lambda: ext.DynamicNTK(factor=2.0, original_length=-1), "original_length must be at least 1"),
    (
        lambda: ext.Llama3(factor=2.0, original_length=9, low_freq_factor=4.0),
        "low_freq_factor must",
    ),
    (lambda: ext.DroPE(attention_factor=0.0), "attention_factor must be above 0, was: 0.0"),
    (
        lambda: RoPE(head_width=8, stretch=ext.LongRoPE(factor=2.0, original_length=9, **LISTS)),
        "short_factor must have one number per rotary pair, 4, was: 1",
    ),
    (lambda: ext.ReRoPE(window=0), "window must be at least 1, was: 0"),
    (lambda: ext.ReRoPE(window=2, log_n=1), "log_n must be at least 2, was: 1"),
    (lambda: ext.LeakyReRoPE(window=2, factor=0.5), "factor must be at least 1, was: 0.5"),
    (lambda: ext.SelfExtend(window=2, group=0), "group must be at least 1, was: 0"),
    (lambda: ext.DualChunk(chunk=8, length=7), "length must be at least 8, was: 7"),
    (lambda: ext.Clip(distance=0), "distance must be at least 1, was: 0"),
    (lambda: ext.Separators(window=0), "window must be at least 1, was: 0"),
    (lambda: ext.Separators(window=1, sinks=-1), "sinks must be at least 0, was: -1"),
    (lambda: ext.Blockwise(block=0), "block must be at least 1, was: 0"),
    (lambda: ext.LogN(original_length=1), "original_length must be at least 2, was: 1"),
    (lambda: ext.Window(window=2, unit="words"), "unit must be tokens, segments or null"),
    (lambda: draws.PoSE(reach=0), "reach must be at least 1, was: 0"),
    (lambda: draws.PoSE(reach=9, chunks=1), "chunks must be at least 2, was: 1"),
    (lambda: draws.Randomised(reach=-1), "reach must be at least 1, was: -1"),
    (lambda: draws.Shifted(most=-1), "most must be at least 0, was: -1"),
    (lambda: decoder(width=50), r"width must be a multiple of n_head \(6\), was: 50"),
    (lambda: decoder(n_kv_head=4), "n_head must be a multiple of n_kv_head"),
    (lambda: decoder(n_layer=0), "n_layer must be at least 1, was: 0"),
    (lambda: decoder(head_width=0), "head_width must be at least 1, was: 0"),
    (lambda: decoder(init_std=float("inf")), "init_std must be finite and at least 0, was: inf"),
    (lambda: decoder(qk_norm="queries"), "qk_norm must be 'both', 'key' or None, was: 'queries'"),
    (lambda: decoder(qkv_bias="q"), "qkv_bias must be 'qkv', 'qk' or None, was: 'q'"),
    # What does not go together.
    (
        lambda: together(RoPE(head_width=8), PoPE(head_width=8, n_head=2)),
        r"PoPE .*\(PlaneRotation\)",
    ),
    (
        lambda: PermuteFormer(head_width=8, n_head=2).rotation(IDS / 2),
        "PermuteFormer needs whole ids",
    ),
    (
        lambda: build({**SCHEMES["flat_alibi"], "far": far("ReRoPE", window=4)}),
        "ALiBi has none: remove far",
    ),
    (
        lambda: build(target("Chain", links=[WINDOW] * 2)),
        "at most one encoding of a chain may set far, 2 do",
    ),
    (
        lambda: Learned(width=4, length=3, overflow="error").embed(torch.zeros(1, 4, 4), IDS),
        "position of 3 is beyond the learned table: length is 3",
    ),
    (lambda: build(target("Xpos")), r"'bipe\.encodings\.X"),
    (lambda: Decoder(decoder({"rope": 1})), "encoding must describe a position encoding"),
    (lambda: Decoder(decoder(target("NoPE")), attention="flash"), "attention must be one of auto"),
]


@pytest.mark.parametrize(("call", "told"), REFUSED)
@pytest.mark.usefixtures("unchecked_types")
def test_what_makes_no_sense_is_named(call, told):
    with pytest.raises(ValueError, match=told):
        call()


INSIDE = {
    "T5 has a bias that needs": {"n_head": 2},
    "Sandwich has a bias that needs": {"n_head": 2},
    "XPos has a decay that needs": {"head_width": 8},
    "TUPE has a bias that needs": {"n_head": 2, "width": 8, "length": 4, "buckets": 8},
}


@pytest.mark.parametrize("reason", INSIDE)
def test_what_counts_on_growing_ids_is_refused_inside_segments(reason):
    kind = reason.partition(" ")[0]
    encoding = find(f"bipe.encodings.{kind.lower()}.{kind}")(**INSIDE[reason])
    with pytest.raises(ValueError, match=f"intra: {reason}.*: use it as inter"):
        Bilevel(intra=encoding, inter=ALiBi(n_head=2))
