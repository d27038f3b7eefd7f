"""What does not fit gets the right answer, or is refused by name, with the rule and the value."""

import functools
import inspect
from types import SimpleNamespace

import jaxtyping
import numpy as np
import pytest
import torch

from bipe import Carry, Decoder, DecoderConfig, Positions
from bipe import extension as ext
from bipe import random_positions as draws
from bipe.arguments import explained
from bipe.build import build, find
from bipe.cache import Cache
from bipe.encodings import ALiBi, Bilevel, Encoding, Flat, Learned, NoPE, RoPE, Sinusoidal
from bipe.encodings.base import require_hook
from bipe.encodings.complex_order import ComplexOrder
from bipe.encodings.hirope import HiRoPE
from bipe.encodings.permuteformer import PermuteFormer
from bipe.encodings.pope import PoPE
from bipe.encodings.xpos import XPos
from bipe.generation import Beams, Sampling, Session, beam_search, generate
from bipe.layouts import config_to_official
from bipe.loss import IGNORE, summed_cross_entropy
from bipe.rotation import compose
from segmenters import (
    ByteTable,
    Online,
    Sentences,
    TokenMarker,
    anchors_from_offsets,
    mark,
    official_marks,
    segment_ids,
)
from tests.bipe.conftest import (
    ONE_EACH,
    SCHEMES,
    bilevel,
    far,
    positions_of,
    random_batch,
    random_marks,
    small_decoder,
    target,
)
from train.fit.lora import add_lora

SIZES = {"vocab_size": 61, "width": 48, "n_layer": 2, "n_head": 6, "mlp_width": 64}
LISTS = {"short_factor": [1.0], "long_factor": [1.0] * 4}
IDS, TOKENS = torch.arange(4)[None], torch.ones(1, 2, dtype=torch.long)
MARKS = torch.zeros(1, 2, dtype=torch.uint8)
AT = Positions.from_marks(MARKS)
WINDOW = target("Flat", encoding=target("NoPE"), far=far("Window", window=2))
MARKER = TokenMarker(segmenter=Sentences(), pieces=[b"a", b"b"])
BEAMS = Beams()
small = functools.cache(small_decoder)
flat, bipe = (functools.partial(small, name) for name in ("flat_rope", "bipe_rope"))


def config(encoding=None, **options):
    return DecoderConfig(**SIZES | options, **({"encoding": encoding} if encoding else {}))


def decoder(encoding, **how):
    return Decoder(config(encoding), **how)


def inter(encoding):
    """A model whose segments have an encoding."""
    return decoder(bilevel(target("NoPE"), encoding))


def with_far(method, **how):
    return Decoder(config({**SCHEMES["flat_rope"], "far": method}), **how)


def write(prompts, *, by=flat, max_new=1, **how):
    return generate(by(), prompts, max_new=max_new, **how)


def search(prompt, *, by=flat, max_new=1, how=BEAMS):
    return beam_search(by(), prompt, max_new=max_new, search=how)


def lost(**options):
    x = torch.zeros(1, 4)
    return summed_cross_entropy(x, x, torch.zeros(1, dtype=torch.long), **options)


def continued(*, marked):
    """Marks of tokens that follow some which the marker has read."""
    session = Session(bipe(), batch=1, marker=MARKER)
    if marked:
        session.feed([[0, 1]], marks=[[3, 0]])
        session.feed([[1]], marks=[[0]])
    session.feed([[0]])
    session.feed([[1]], marks=[[2]])


REFUSED = [
    (lambda: RoPE(head_width=7), "head_width must be even, was: 7"),
    (lambda: RoPE(head_width=8, theta=0.0), "theta must be above 0, was: 0.0"),
    (lambda: RoPE(head_width=8, part=[0.0, 0.3]), "part must be two increasing fractions from 0"),
    (lambda: RoPE(head_width=8, part=[0.0, 0.125]), r"multiples of 2/8, was: \(0.0, 0.125\)"),
    (lambda: RoPE(head_width=8, part=[0.5, 0.5]), "part must be"),
    (lambda: RoPE(head_width=8, part=[0.5]), "part must be"),
    (lambda: RoPE(head_width=8, pairs=[0.0, 1.25]), r"pairs .* multiples of 1/4"),
    (lambda: ALiBi(n_head=0), "n_head must be at least 1, was: 0"),
    (lambda: Learned(width=4, length=0), "length must be at least 1, was: 0"),
    (lambda: Learned(width=4, length=2, overflow="wrap"), "overflow must be 'clamp' or 'error'"),
    (lambda: Sinusoidal(width=7), r"width must be even \(each wave has .*\), was: 7"),
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
    (lambda: ext.YaRN(factor=2.0, original_length=9, beta_slow=40.0),
     r"beta_slow must be above 0 and at most beta_fast \(32.0\), was: 40.0"),
    (lambda: ext.DynamicNTK(factor=2.0, original_length=-1), "original_length must be at least 1"),
    (lambda: ext.Llama3(factor=2.0, original_length=9, low_freq_factor=4.0), "low_freq_factor mus"),
    (lambda: ext.DroPE(attention_factor=0.0), "attention_factor must be above 0, was: 0.0"),
    (lambda: RoPE(head_width=8, stretch=ext.LongRoPE(factor=2.0, original_length=9, **LISTS)),
     "short_factor must have one number per rotary pair, 4, was: 1"),
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
    (lambda: config(width=50), r"width must be a multiple of n_head \(6\), was: 50"),
    (lambda: config(n_kv_head=4), "n_head must be a multiple of n_kv_head"),
    (lambda: config(n_layer=0), "n_layer must be at least 1, was: 0"),
    (lambda: config(head_width=0), "head_width must be at least 1, was: 0"),
    (lambda: config(init_std=float("inf")), "init_std must be finite and at least 0, was: inf"),
    (lambda: config(qk_norm="queries"), "qk_norm must be 'both', 'key' or None, was: 'queries'"),
    (lambda: config(qkv_bias="q"), "qkv_bias must be 'qkv', 'qk' or None, was: 'q'"),
    (lambda: Sampling(temperature=-1.0), "temperature must be at least 0"),
    (lambda: Sampling(top_k=0), "top_k must be at least 1"),
    (lambda: Sampling(top_p=0.0), "top_p must be above 0"),
    (lambda: Sampling(temperature=1e-45), "temperature must be 0 or at least 1e-20, was: 1e-45"),
    (lambda: Sampling(temperature=None), "temperature must be a number, was: None"),
    (lambda: Sampling(top_k=1.5), "top_k must be a whole number or None, was: 1.5"),
    (lambda: Sampling(repetition_penalty=0.0), "repetition_penalty must be from 1e-10 to 1e10"),
    (lambda: Beams(beams=0), "beams must be at least 1, was: 0"),
    (lambda: Beams(length_penalty=float("nan")), "length_penalty must be finite"),
    (lambda: lost(z_loss=-1.0), "z_loss must be 0 or more"),
    (lambda: lost(label_smoothing=1.0), "label_smoothing must be from 0 to below 1"),
    (lambda: lost(label_smoothing=-0.1), "label_smoothing must be from 0 to below 1"),
    (lambda: add_lora(flat(), rank=2, alpha=1.0, layers=["query", "heads"]),
     r"layers must be among query, .* was: heads"),
    (lambda: Cache(batch=1), "capacity must be given"),
    (lambda: Cache(batch=1, capacity=0), "capacity must be at least 1 token, was: 0"),
    (lambda: Cache(batch=1, capacity=4).rewind(1), "length must be from 0 to 0"),
    (lambda: Cache(batch=1, capacity=1).extend(AT), "has room for 1 tokens per row, 2 are"),
    (lambda: Cache(batch=2, capacity=4).extend(AT), "batch must be 2, as in earlier.* was: 1"),
    # What does not go together.
    (lambda: compose(RoPE(head_width=8).rotation(IDS), PoPE(head_width=8, n_head=2).rotation(IDS)),
     r"PoPE .*\(PlaneRotation\)"),
    (lambda: PermuteFormer(head_width=8, n_head=2).rotation(IDS / 2), "PermuteFormer needs whole"),
    (lambda: build({**SCHEMES["flat_alibi"], "far": far("ReRoPE", window=4)}),
     "ALiBi has none: remove far"),
    (lambda: build(target("Chain", links=[WINDOW] * 2)),
     "at most one encoding of a chain may set far, 2 do"),
    (lambda: Learned(width=4, length=3, overflow="error").embed(torch.zeros(1, 4, 4), IDS),
     r"below the length of the learned table \(3\), was: 3; use a longer table"),
    (lambda: write([[1, 2, 3]], max_new=12,
                   by=lambda: decoder(target("Learned", width=48, length=8, overflow="error"))),
     r"below the length of the learned table \(8\)"),
    (lambda: with_far(far("ReRoPE", window=4), attention="masked")(*random_batch(1, 40, seed=1)),
     "'masked' does not support passes"),
    (lambda: config_to_official(with_far(far("ReRoPE", window=4)).config, max_length=64),
     "no name for a far method"),
    *((lambda how=how: config_to_official(config(SCHEMES["flat_rope"], **how), max_length=64),
       r"does not support q\w+=")
      for how in ({"qk_norm": "key"}, {"qkv_bias": "qk"}, {"qk_norm": "both", "qkv_bias": "qkv"})),
    # A description for another model, or of what is none.
    (lambda: inter(target("RoPE", head_width=16)),
     r"encoding\.inter\.head_width must be that of the model, 8, was: 16"),
    (lambda: inter(target("ALiBi", n_head=1)), "n_head must be that of the model, 6, was: 1"),
    (lambda: inter(target("Sinusoidal", width=1)), "width must be that of the model, 48, was: 1"),
    (lambda: inter(target("KERPLE", n_head=6)),
     r"encoding\.inter.*did you mean 'bipe.encodings.kerple.Kerple'"),
    (lambda: inter(target("Rope", head_width=8)), "did you mean 'bipe.encodings.rope.RoPE'"),
    (lambda: build(target("Xpos")), r"'bipe\.encodings\.X"),
    (lambda: decoder({"rope": 1}), "encoding must describe a position encoding"),
    (lambda: decoder(RoPE), "encoding must be a description"),
    (lambda: config(encoding=NoPE()), "encoding must be a description .*_recursive_: false.*NoPE"),
    (lambda: decoder(target("NoPE"), attention="flash"), "attention must be one of auto"),
    (lambda: Decoder({}), "config must be DecoderConfig"),
    (lambda: decoder(SCHEMES["flat_rope"], attention="flex").logits(TOKENS, AT),
     "flex has no gradients on a CPU"),
    # Tokens, marks and positions.
    *((lambda id=id: Session(flat(), batch=1).feed([[1, id]]), f"must be from 0 to 60, was: {id}")
      for id in (61, -1)),
    (lambda: flat().logits(TOKENS + torch.arange(2) * 60, AT), "from 0 to 60, were: 1 to 61"),
    (lambda: flat().logits(TOKENS[0], AT), r"tokens must be a tensor \[batch, time\], was: \[2\]"),
    (lambda: AT.ids("intar"), "level must be one of .*, was: 'intar'"),
    *((lambda time=time: bipe().logits(torch.ones(1, 5).long(), Positions.from_marks(
        torch.ones(1, time).byte())), f"of the 5 tokens of a row, were of {time}")
      for time in (1, 4, 6)),
    *((lambda wrong=wrong: Positions.from_marks(wrong), r"marks must be a tensor uint8 \[batch")
      for wrong in (TOKENS, MARKS[0], MARKS.numpy())),
    *((lambda how=how: Positions.from_marks(MARKS, level=how[0], levels=how[1]),
       f"within the 7 levels of marks, were: {how[0]}")
      for how in ((-1, 1), (0, 0), (7, 1), (5, 3))),
    (lambda: Positions.from_marks(MARKS, carry=AT), r"Positions\.carry\(\)"),
    (lambda: Positions.from_marks(MARKS, carry=positions_of(MARKS.expand(2, 2)).carry()),
     "carry must be of 1 rows, was of 2"),
    (lambda: mark(np.arange(5), np.array([0, 3])), r"\[cuts\]"),
    (lambda: official_marks("abc"), "ids must be integers"),
    (lambda: anchors_from_offsets("ab", [0, 1, 1, 2]), r"offsets must be pairs .*, were: \[4\]"),
    (lambda: TokenMarker(segmenter=Sentences(), pieces=["a", "b"]), "a list of the bytes of each"),
    *((lambda id=id: MARKER.copy().push(id), f"token must be an id of the 2 pieces, was: {id}")
      for id in (2, -1)),
    (lambda: Online(segmenter=Sentences), "segmenter must be one"),
    (lambda: segment_ids("a", None, segmenter=Sentences()), "tokenizer must be a fast one"),
    # Generation.
    (lambda: write([1, 2]), "prompts must be a list of lists"),
    (lambda: write([]), "at least one prompt, were: none"),
    (lambda: write([[]]), "each prompt must have at least one token"),
    (lambda: write(TOKENS[:, :0]), "each prompt must have at least one token"),
    (lambda: write("Kelp"), "one list for each prompt"),
    (lambda: write([[99]]), "ids must be from 0 to 60, was: 99"),
    (lambda: write([[1]], max_new=0), "max_new must be at least 1"),
    (lambda: write([[1]], sampling=0.7), "sampling must be Sampling"),
    (lambda: write([[1]], by=bipe, marker=Sentences()), "marker must be a Marker"),
    (lambda: write([[1]], by=bipe), "the model counts segments: pass marker="),
    (lambda: write([[1]], stop_ids=["a"]), "stop_ids must be a list of ids"),
    (lambda: write([[1]], stop_strings="a"), "stop_strings must be a list"),
    (lambda: write([[1]], stop_strings=["x"]), "stop_strings need decode"),
    (lambda: search([1], by=bipe), "the model counts segments: pass marker="),
    (lambda: search([[1]]), "continues one prompt"),
    (lambda: search([]), "must have at least one token"),
    (lambda: search([1], max_new=0), "max_new must be at least 1 token"),
    (lambda: search([1], how=3), "search must be Beams"),
    (lambda: Session(bipe(), batch=2).feed([[1, 2], [3]]), "rows must have the same length"),
    (lambda: Session(bipe(), batch=2, chunk=0), "chunk must be at least 1"),
    (lambda: Session(bipe(), batch=1, marker=MARKER).feed([[1, 0]], marks=[[3]]),
     "2 marks, one per token, were"),
    *((lambda marked=marked: continued(marked=marked), "cannot follow tokens without marks")
      for marked in (True, False)),
]  # fmt: skip
KINDS = [
    (lambda: Positions.from_marks([[3, 0]]),
     r"marks must be UInt8\[Tensor, 'batch time'\], was: list \[\[3, 0\]\]"),
    (lambda: write(3), "prompts must be Sequence.*, was: int 3"),
    (lambda: write([[1]], max_new="2"), "max_new must be int, was: str '2'"),
    (lambda: generate(flat(), [[1]]), "required keyword-only argument: 'max_new'"),
    (lambda: flat().logits(TOKENS, TOKENS), "at must be Positions, was: Tensor"),
    (lambda: flat().logits(AT, TOKENS), "tokens must be Int.*, was: Positions"),
    (lambda: config(width="48"), "width must be int, was: '48'"),
    (lambda: config(width=48.0), "width must be int, was: 48.0"),
    (lambda: config(n_kv_head="2"), "n_kv_head must be a number, was: str"),
    (lambda: Sampling(temperature="1"), "temperature must be a number, was: str"),
    (lambda: Flat(encoding=RoPE), "encoding must be Encoding, was: the class RoPE"),
    (lambda: Bilevel(intra=target("NoPE"), inter=NoPE()), "intra must be Encoding, was: dict"),
    (lambda: ByteTable.of_tokenizer("gpt2"), "fast must be a tokenizers.Tokenizer, was: str"),
    (lambda: anchors_from_offsets([(0, 1)], "a"), "text must be a str, was: list"),
    (lambda: segment_ids("a", SimpleNamespace(encode_batch=None), segmenter=None),
     "segmenter must be a Segmenter"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "told", "error"),
    [*((*each, ValueError) for each in REFUSED), *((*each, TypeError) for each in KINDS)],
)
@pytest.mark.usefixtures("unchecked_types")
def test_what_makes_no_sense_is_named(call, told, error):
    with pytest.raises(error, match=told):
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


def test_an_encoding_whose_hook_is_misspelt_is_refused():
    class Misspelt(Encoding):
        def __init__(self):
            super().__init__()
            self.slopes = torch.nn.Parameter(torch.zeros(6))

        def bais(self, q_ids, k_ids):
            return None

    with pytest.raises(ValueError, match=r"Misspelt has parameters .*'bais' is none: did you mean"):
        require_hook(Misspelt())


def test_shapes_are_checked_in_tests_and_explained_without_them():
    for _ in range(2):  # the first two calls of a function in a test, see conftest.py
        with pytest.raises(jaxtyping.TypeCheckError):
            Carry.from_columns(torch.zeros(3))
    with pytest.raises(ValueError, match=r"tensor uint8 \[batch, time\], were: Tensor .* \[5\]"):
        inspect.unwrap(Positions.from_marks.__func__)(Positions, torch.ones(5, dtype=torch.uint8))


@pytest.mark.usefixtures("unchecked_types")
def test_a_call_that_fails_for_another_reason_is_left_alone():
    with pytest.raises(torch.OutOfMemoryError):  # whatever the type of the argument

        @explained
        def full(size: int):
            raise torch.OutOfMemoryError

        full("3")


@pytest.mark.usefixtures("unchecked_types")
def test_prompts_may_be_a_tensor_and_marks_stand_for_a_marker():
    prompts = torch.tensor([[1, 2], [3, 4]])
    assert write(prompts, max_new=3) == write(prompts.tolist(), max_new=3)
    assert write([[1, 2]], by=bipe, max_new=2, marks=[[3, 0]])


@pytest.mark.parametrize("packed", [False, True], ids=["one", "packed"])
@pytest.mark.parametrize("scheme", ONE_EACH)
def test_models_read_one_token_and_rows_of_padding(scheme, packed):
    model = small_decoder(scheme)
    tokens, at = random_batch(3, 1 if not packed else 9, seed=2)
    if packed:
        padding = torch.zeros(3, 9, dtype=torch.bool)
        padding[1], padding[2, 4:] = True, True
        at = positions_of(random_marks(3, 9, seed=2), padding=padding)
    hidden = model(tokens, at)
    targets = torch.where(at.document >= 0, tokens, IGNORE)
    loss = summed_cross_entropy(hidden.flatten(0, 1), model.head.weight, targets.flatten())
    loss.backward()
    assert torch.isfinite(hidden).all() and torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
