"""The operations of a training step, against torch's own counter of what is run."""

import pytest
import torch

from bipe import Decoder, DecoderConfig, Positions
from bipe.loss import summed_cross_entropy
from train.commands.explain.counter import counter
from train.fit.flops import PEAK, keys_per_query, peak_flops, step_flops

ROPE = {"_target_": "bipe.encodings.RoPE", "head_width": 16, "theta": 10000.0}
ALIBI = {"_target_": "bipe.encodings.ALiBi", "n_head": 4}


def decoder(encoding, **sizes):
    sizes = {"vocab_size": 96, "width": 64, "n_layer": 2, "n_head": 4, "mlp_width": 160} | sizes
    return DecoderConfig(encoding=encoding, **sizes)


def counted(config, *, rows, time, starts=(), recompute=False):
    model = Decoder(config, recompute=recompute)
    model.init_weights(seed=0)
    tokens = torch.zeros(rows, time, dtype=torch.int64)
    marks = torch.zeros(rows, time, dtype=torch.uint8)
    marks[:, [0, *starts]] = 3
    with counter() as found:
        hidden = model(tokens, Positions.from_marks(marks, packed=bool(starts)))
        loss = summed_cross_entropy(hidden.flatten(0, 1), model.head.weight, tokens.flatten())
        loss.backward()
    return found.get_total_flops() / (rows * time)


@pytest.mark.parametrize(
    ("encoding", "recompute", "n_kv_head"),
    [(ROPE, False, None), (ROPE, True, 2), (ALIBI, True, None), (ALIBI, False, 2)],
)
def test_operations_are_those_that_torch_counts(encoding, recompute, n_kv_head):
    config = decoder(encoding, n_kv_head=n_kv_head)
    ours = step_flops(config, row_length=256, recompute=recompute)
    theirs = counted(config, rows=2, time=256, recompute=recompute)
    assert ours.device == pytest.approx(theirs, rel=0.02)
    assert ours.model == step_flops(config, row_length=256).model  # recomputing is no useful work
    assert ours.backward == 2 * ours.forward


def test_operations_of_packed_documents_are_those_that_torch_counts():
    lengths = (384, 128)
    mean = sum(n * n for n in lengths) / sum(lengths)
    ours = step_flops(decoder(ROPE), row_length=512, document=mean)
    theirs = counted(decoder(ROPE), rows=1, time=512, starts=(384,))
    assert ours.device == pytest.approx(theirs, rel=0.02)


def test_a_token_sees_half_of_its_document():
    seen = [keys_per_query(512, document=length) for length in (None, 64, 9000)]
    assert [keys_per_query(1), *seen] == [1, 256.5, 32.5, 256.5]


def test_devices_are_known_by_their_names():
    names = {"NVIDIA H100 80GB HBM3": "H100", "NVIDIA H100 PCIe": "H100 PCIe"}
    names |= {"NVIDIA GeForce RTX 4090": "RTX 4090", "NVIDIA A100-SXM4-80GB": "A100"}
    names |= dict.fromkeys(("Apple M3", "NVIDIA RTX A1000"))
    for name, known in names.items():
        assert peak_flops(name) == PEAK.get(known), name
