"""Rows read in chunks through a cache lose what they lose in one pass."""

import pytest
import torch

from bipe import Decoder, Positions
from bipe.extension import extend_config
from tests.bipe.conftest import SCHEMES, small_decoder, stretch
from train.evals.perplexity.measure import hidden_states, token_losses

NOTES = {
    "row_length": 24,
    "positions": {"segment": {"counted": 1, "maximum": 6, "p99": 4, "p99.9": 5}},
}
STRETCHES = {
    "yarn": stretch("YaRN", factor=4.0),
    "dynamic_ntk": stretch("DynamicNTK", factor=2.0),
}


def rows(model, *, batch=2, time=100, seed=0):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(model.config.vocab_size, (batch, time), generator=generator)
    opens = torch.rand(batch, time, generator=generator) < 0.2
    return tokens, (opens * 2).to(torch.uint8)


@torch.no_grad()
def by_logits(model, tokens, marks, first):
    """The twin: all logits at once, each token from those before it."""
    log_p = model.logits(
        tokens, Positions.from_marks(marks & 0xFE, packed=False, levels=model.levels)
    ).log_softmax(-1)
    picked = log_p[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    return -picked[:, first - 1 :]


@pytest.mark.parametrize(
    ("scheme", "first", "chunk"),
    [(scheme, 40, 33) for scheme in SCHEMES]
    # The first and the last token, long and short chunks.
    + [("bilevel_learned_alibi", *edge) for edge in ((1, 16), (99, 16), (1, 99))],
)
def test_chunks_and_one_pass_are_what_all_logits_give(scheme, first, chunk):
    model = small_decoder(scheme).eval()
    tokens, marks = rows(model, seed=chunk)
    expected = by_logits(model, tokens, marks, first)
    whole = token_losses(model, tokens, marks, first=first)
    parts = token_losses(model, tokens, marks, first=first, one_pass=8, chunk=chunk)
    assert torch.allclose(whole, expected, atol=2e-5)
    assert torch.allclose(parts, expected, atol=2e-5)


@pytest.mark.parametrize("name", STRETCHES)
def test_a_stretched_model_is_the_same_in_chunks(name):
    """A dynamic stretch counts with the whole row from its first chunk on."""
    plain = small_decoder("bilevel_learned_rope")
    model = Decoder(extend_config(plain.config, STRETCHES[name], notes=NOTES).config)
    model.load_state_dict(plain.state_dict())
    tokens, marks = rows(model.eval())
    whole = token_losses(model, tokens, marks)
    parts = token_losses(model, tokens, marks, one_pass=10, chunk=17)
    assert torch.allclose(whole, parts, atol=2e-5)


def test_rows_that_fit_are_read_in_one_pass_whatever_they_were_packed_with():
    model = small_decoder("bilevel_learned_rope").eval()
    tokens, marks = rows(model, time=32)
    assert [start for start, _ in hidden_states(model, tokens, marks)] == [0]
    starts = [start for start, _ in hidden_states(model, tokens, marks, one_pass=31, chunk=10)]
    assert starts == [0, 10, 20, 30]
    packed = marks.clone()
    packed[:, 20] |= 1
    for one_pass in (1000, 16):
        same = (token_losses(model, tokens, m, one_pass=one_pass, chunk=7) for m in (marks, packed))
        assert torch.equal(*same)
    with pytest.raises(ValueError, match="first must be at least 1"):
        token_losses(model, tokens, marks, first=0)
    assert token_losses(model, tokens[:, :1], marks[:, :1]).shape == (2, 0)
