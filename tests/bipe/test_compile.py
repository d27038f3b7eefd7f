"""Compiled blocks: nothing is compiled again once batches of a kind were seen, gradients agree.

With Dynamo's own back end, which compiles nothing: what counts is how often it is asked to.
"""

import sys

import pytest
import torch
from torch._dynamo.utils import counters

from bipe.attention import dispatch
from bipe.attention.banded import WORTH_FROM
from bipe.attention.dispatch import BY_DOCUMENT_FROM
from tests.bipe.conftest import positions_of, random_batch, random_marks, small_decoder
from tests.processes import run

# Dynamo looks at gradients of what has none.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
ROTATIONS = ("flat_rope_partial", "flat_xpos", "flat_pope", "flat_permuteformer")
SCHEMES = ("flat_rope", "bilevel_learned_rope", "flat_alibi", "bilevel_learned_alibi_x96")
SEVERAL = "multilevel"
WARM_UP = 2  # steps


def gradients(model, step, *, packed, time=50):
    """Those of one step; documents lie elsewhere in each."""
    tokens, _ = random_batch(2, time, seed=step)
    marks = random_marks(2, time, seed=step, documents=0.06 if packed else 0.0)
    marks[:, time // 2] |= packed  # some documents in every batch
    model.zero_grad()
    model(tokens, positions_of(marks, packed=packed)).square().sum().backward()
    return [parameter.grad for parameter in model.parameters()]


@pytest.fixture
def compiled(unchecked_types):
    """Makes a decoder whose blocks are compiled, and counts."""
    torch._dynamo.reset()
    counters.clear()

    def make(scheme, **options):
        model = small_decoder(scheme, n_layer=3, **options)
        for block in model.blocks:
            block.compile(backend="eager")
        return model

    yield make
    torch._dynamo.reset()


# Packed or not, tokens per row, graphs.
ROWS = ((False, 50, 1), (True, BY_DOCUMENT_FROM - 1, 1), (True, BY_DOCUMENT_FROM, 4))


@pytest.mark.parametrize(
    ("scheme", "packed", "time", "expected"),
    [
        *((scheme, *ROWS[0]) for scheme in (*SCHEMES, SEVERAL)),
        *((scheme, *ROWS[1]) for scheme in (*SCHEMES, SEVERAL, *ROTATIONS)),
        # Documents on their own, outside of the graphs: with a bias and without, and recomputed.
        *((scheme, *ROWS[2]) for scheme in ("flat_rope", "bilevel_learned_alibi_x96")),
        ("bilevel_learned_alibi_x96", False, WORTH_FROM, 1),
    ],
)
def test_nothing_is_compiled_again_after_warm_up(compiled, scheme, packed, time, expected):
    model = compiled(scheme, recompute=scheme == "flat_rope")
    for step in range(WARM_UP):
        gradients(model, step, packed=packed, time=time)
    assert counters["stats"]["unique_graphs"] == expected, "blocks share their graphs"
    with torch._dynamo.config.patch(error_on_recompile=True):
        for step in range(WARM_UP, WARM_UP + 2):
            gradients(model, step, packed=packed, time=time)
    assert counters["stats"]["unique_graphs"] == expected


@pytest.mark.parametrize(
    ("scheme", "packed"),
    [*((scheme, True) for scheme in ("bilevel_learned_rope", *ROTATIONS)), ("flat_alibi", False)],
)
def test_compiled_gradients_are_those_of_the_plain_blocks(compiled, scheme, packed):
    ours = gradients(compiled(scheme).double(), 7, packed=packed)
    plain = gradients(small_decoder(scheme, n_layer=3).double(), 7, packed=packed)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize(  # chosen in a block, and before it
    ("scheme", "whole"), [("flat_fox", False), ("flat_rope", True)]
)
def test_flex_is_compiled_without_a_warning_and_named_once(
    compiled, scheme, whole, monkeypatch, caplog
):
    """On the meta device, which stands for a GPU: shapes are computed, and nothing else."""
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None)
    monkeypatch.setattr(dispatch, "_LOGGED", set())
    # Dynamo warns of each place once in a process.
    torch._dynamo.utils.warn_once_cache.clear()
    model = compiled(scheme, attention="flex").to("meta")
    call = torch.compile(model.logits, backend="eager") if whole else model.logits
    with caplog.at_level("INFO", "bipe.attention"):
        for time in (50, 130):
            tokens, at = random_batch(2, time, seed=1, documents=0.06)
            found = call(tokens.to("meta"), at.map(lambda x: x.to("meta")))
            assert found.shape[:2] == tokens.shape and found.is_meta
    assert caplog.text.count("attention path: flex") == 1


WHOLE = """
import warnings
import torch
from tests.bipe.conftest import random_batch, small_decoder

warnings.simplefilter("error")
warnings.filterwarnings("ignore", "The .grad attribute")
for scheme in ("bilevel_learned_rope", "flat_alibi"):
    model = small_decoder(scheme)
    tokens, at = random_batch(2, 50, seed=1, documents=0.0)
    found = torch.compile(model.logits, backend="eager", fullgraph=True)(tokens, at)
    assert torch.equal(found, model.logits(tokens, at))
"""


def test_a_whole_model_is_one_graph_and_compiled_in_silence():
    """In a process of its own, whose types are not checked and which has not tried the kernel."""
    done = run([sys.executable, "-c", WHOLE], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
