"""A sharded model starts, computes and steps as the whole one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh

from bipe import Decoder, DecoderConfig, Positions
from tests.processes import together
from tests.train.studies import losses, pretrain
from train.errors import ConfigError
from train.fit.parallel.sharded import Sharded, fill, full_state, materialize, shard

SMALL = DecoderConfig(vocab_size=31, width=12, n_layer=2, n_head=3, mlp_width=20)
BIPE_ROPE = {
    "_target_": "bipe.encodings.Bilevel",
    "intra": {"_target_": "bipe.encodings.Learned", "length": 7, "width": 12},
    "inter": {"_target_": "bipe.encodings.RoPE", "head_width": 4},
}
ALIBI = {"_target_": "bipe.encodings.ALiBi", "n_head": 3}
FOX = {"_target_": "bipe.encodings.fox.FoX", "width": 12, "n_head": 3, "n_layer": 2}
T5 = {"_target_": "bipe.encodings.t5.T5", "n_head": 3, "buckets": 8, "longest": 12}
CPU = torch.device("cpu")
CONFIGS = {
    "options": replace(SMALL, encoding=BIPE_ROPE, n_kv_head=1, qk_norm="both", qkv_bias="qkv"),
    "tied_alibi": replace(SMALL, encoding=ALIBI, tied_head=True),
    # Parameters of the encoding in every layer, and a table that all layers share.
    "fox": replace(SMALL, encoding=FOX),
    "t5": replace(SMALL, encoding=T5),
}
MESHES = {"fsdp": (2,), "hsdp_2x1": (2, 1), "hsdp_1x2": (1, 2)}


def batch():
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, 31, (4, 16), generator=generator)
    marks = (torch.rand(4, 16, generator=generator) < 0.2).byte() * 2
    return tokens, Positions.from_marks(marks, packed=False)


def one_step(model, rows):
    """The weights after a step of SGD on some rows: the mean over all of them."""
    tokens, at = batch()
    logits = model(tokens[rows], at.map(lambda ids: ids[rows])) @ model.head.weight.T
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[rows].flatten())
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    return full_state(model)


def started(config, mesh, weights=None):
    with torch.device("meta"):
        model = Decoder(config)
    assert all(parameter.is_meta for parameter in model.blocks.parameters())
    shard(model, mesh=mesh)
    materialize(model, CPU)
    fill(model, weights=weights, seed=5)
    return model


def on_each_rank():
    found, rank = {}, torch.distributed.get_rank()
    for kind, sizes in MESHES.items():
        names = ("replicas", "shards")[: len(sizes)] if len(sizes) > 1 else None
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        for name, config in CONFIGS.items():
            model = started(config, mesh)
            held = sum(p.to_local().numel() for p in model.parameters())
            start = {key: value.clone() for key, value in full_state(model).items()}
            step = one_step(model, slice(2 * rank, 2 * rank + 2))
            again = full_state(started(config, mesh, start or whole(config).state_dict()))
            found[kind, name] = held, start, step, again
    return found


def whole(config):
    model = Decoder(config)
    model.init_weights(seed=5)
    return model


@pytest.fixture(scope="module")
def sharded():
    return together(on_each_rank)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kind", MESHES)
def test_a_sharded_model_is_the_whole_one(kind, name, sharded):
    held, start, step, again = sharded[kind, name]
    alone = whole(CONFIGS[name])
    total = sum(p.numel() for p in alone.parameters())
    assert held == total if kind == "hsdp_2x1" else held <= 0.6 * total
    for state in (start, again):
        assert state.keys() == alone.state_dict().keys()
        assert all(torch.equal(state[key], value) for key, value in alone.state_dict().items())
    for key, value in one_step(alone, slice(0, 4)).items():
        assert torch.allclose(step[key], value, atol=1e-6), key


def test_one_device_alone_is_sharded_like_any_other(smoke, monkeypatch):
    """With the losses of autocast, too: blocks in bfloat16 are multiplied in bfloat16 anyway."""
    monkeypatch.delenv("OMP_NUM_THREADS")  # without it the launcher takes all cores, for a while
    options = ("trainer.accelerator=cpu", "trainer.devices=1")
    with pytest.raises(ConfigError, match="replicas must be at least 1, was: 0"):
        Sharded(replicas=0)
    for precision, tolerance in (("32-true", 0.0), ("bf16-mixed", 1e-6)):
        words = (*smoke, f"trainer.precision={precision}", "recompute=true", "steps=2")
        one = pretrain(*words, "trainer=cpu", f"name=one{precision}")
        other = pretrain(*words, "trainer=fsdp2", *options, f"name=other{precision}")
        assert np.allclose(losses(one), losses(other), atol=tolerance, rtol=0)
        assert torch.get_num_threads() == 1
