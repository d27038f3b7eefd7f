"""Devices that share rows compute what one device does with whole rows."""

import pytest
import torch
import torch.distributed as dist

from bipe import Decoder, DecoderConfig, Positions
from bipe.attention import context
from bipe.attention.context import Context, refuse_shared
from bipe.bias import TableBias
from bipe.encodings import ALiBi, Bilevel, Flat, Learned, RoPE
from bipe.encodings.base import Encoding, levels_of
from bipe.encodings.multilevel import Multilevel
from bipe.extension import DynamicYaRN, ReRoPE
from tests.processes import together

NOPE = {"_target_": "bipe.encodings.NoPE"}  # in its place comes one of SCHEMES
CONFIG = DecoderConfig(
    vocab_size=31, width=16, n_layer=2, n_head=4, n_kv_head=2, mlp_width=20, encoding=NOPE
)
TIME = 24


class Distances(Encoding):
    """A learned bias for each distance: a table with gradients."""

    def __init__(self):
        super().__init__()
        self.values = torch.nn.Embedding(TIME, 4)

    def bias(self, q_ids, k_ids):
        def function(q, k):
            return self.values((q - k).clamp(0, TIME - 1)).permute(0, 3, 1, 2)

        return TableBias(function=function, q_ids=q_ids, k_ids=k_ids)


SCHEMES = {
    "alibi": lambda: Flat(encoding=ALiBi(n_head=4)),
    "table": lambda: Flat(encoding=Distances()),
    "bipe_rope": lambda: Bilevel(intra=Learned(length=5, width=16), inter=RoPE(head_width=4)),
    "multilevel": lambda: Multilevel(
        encodings={
            "token": Learned(length=5, width=16),
            "sentence": RoPE(head_width=4, part=[0.0, 0.5]),
            "paragraph": ALiBi(n_head=4),
        }
    ),
}
QUERIES = (512, 3)  # all at once; groups that do not divide a chunk


def model_of(name, *, recompute=False):
    model = Decoder(CONFIG, recompute=recompute)
    model.scheme = SCHEMES[name]()
    model.levels = levels_of(model.scheme)
    model.init_weights(seed=1)
    return model


def batch(packed):
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, 31, (2, TIME + 1), generator=generator)
    draw = torch.rand(2, TIME, generator=generator)
    marks = 2 * (draw < 0.25).byte() + 4 * (draw < 0.1).byte()
    if packed:
        marks[0, 9] = marks[0, 11] = marks[1, 17] = 3
    return tokens[:, :-1], tokens[:, 1:], Positions.from_marks(marks, packed=packed, levels=2)


def learned(model, tokens, targets, at, cache=None):
    """The summed loss and the gradients, added up over devices."""
    logits = model.head(model(tokens, at, cache=cache))
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), reduction="sum"
    )
    loss.backward()
    found = {name: p.grad for name, p in model.named_parameters()} | {"loss": loss.detach()}
    if cache is not None:
        for value in found.values():
            dist.all_reduce(value)
    return found


def on_each_rank():
    found = {}
    for name in SCHEMES:
        for packed in (False, True):
            for context.QUERIES in QUERIES:
                tokens, targets, at = batch(packed)
                shared = Context(dist.group.WORLD, at)
                tokens, targets, own = shared.own(tokens), shared.own(targets), at.map(shared.own)
                model = model_of(name, recompute=packed)
                found[name, packed, context.QUERIES] = learned(model, tokens, targets, own, shared)
                with torch.no_grad():  # as in a validation
                    model(tokens, own, cache=shared)
    return found


@pytest.fixture(scope="module")
def in_parts():
    return together(on_each_rank)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_loss_and_gradients_are_those_of_whole_rows(name, in_parts):
    for packed in (False, True):
        expected = learned(model_of(name), *batch(packed))
        for queries in QUERIES:
            found = in_parts[name, packed, queries]
            assert found.keys() == expected.keys()
            for key, value in expected.items():
                assert torch.allclose(found[key], value, atol=1e-5, rtol=1e-5), (key, queries)


def test_each_device_has_an_early_and_a_late_chunk(monkeypatch):
    row = torch.arange(12)[None]
    parts = []
    for rank in range(3):
        monkeypatch.setattr(dist, "get_world_size", lambda group: 3)
        monkeypatch.setattr(dist, "get_rank", lambda group, rank=rank: rank)
        parts.append(Context(None, batch(False)[2]).own(row)[0].tolist())
    assert parts == [[0, 1, 10, 11], [2, 3, 8, 9], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("scheme", "path", "words"),
    [
        (Flat(encoding=RoPE(head_width=4), far=ReRoPE(window=4)), "auto", "ReRoPE does not work"),
        (SCHEMES["alibi"](), "flex", "attention must be one of auto, eager, masked .* was: flex"),
        (
            Flat(encoding=RoPE(head_width=4, stretch=DynamicYaRN(original_length=8))),
            "auto",
            "a dynamic stretch does not work .* set context_parallel=1",
        ),
    ],
)
def test_what_does_not_work_is_refused(scheme, path, words):
    with pytest.raises(ValueError, match=words):
        refuse_shared(scheme, path=path)
