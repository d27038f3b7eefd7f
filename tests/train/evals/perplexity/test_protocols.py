"""Laws of all protocols: what is read, that nothing is scored twice, and what is averaged."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe import Decoder, Positions
from bipe.extension import extend_config
from tests.bipe.conftest import SCHEMES, small_decoder, stretch
from train.errors import ConfigError
from train.evals.perplexity import protocols
from train.evals.perplexity.measure import hidden_states, perplexity, score, token_losses
from train.evals.texts import Stream

documents = st.lists(st.integers(1, 70), min_size=1, max_size=5)


def stream(sizes, *, seed=0, vocabulary=31):
    draw = np.random.default_rng(seed)
    size = sum(sizes)
    return Stream(
        tokens=draw.integers(vocabulary, size=size),
        marks=((draw.random(size) < 0.2) * 2).astype(np.uint8),
        ends=np.cumsum(sizes),
    )


def ends(sizes):
    return np.cumsum(sizes).tolist()


@given(documents, st.sampled_from(protocols.PROTOCOLS), st.integers(4, 40), st.data())
def test_no_token_is_scored_twice_and_all_windows_are_inside(sizes, name, length, data):
    stride = data.draw(st.integers(1, length - 1))
    choice = protocols.Choice(protocol=name, stride=stride, last=min(3, length))
    protocol = choice.at(length, row_length=8)
    seen = np.zeros(sum(sizes), int)
    for window in protocol.windows(ends(sizes)):
        assert 0 <= window.start <= window.first < window.stop <= sum(sizes)
        seen[window.first : window.stop] += 1
        if name == "sliding":  # it has the context that is promised
            assert window.first == window.start or window.first - window.start >= length - stride
        if name != "full_context":
            assert window.stop - window.start <= length + (name == "last_k")
        if name != "bipe_blocks":  # no window reads two documents
            assert (
                np.ptp(np.searchsorted(ends(sizes), [window.start, window.stop - 1], "right")) == 0
            )
    assert seen.max(initial=0) <= 1
    if name in ("windows", "sliding", "yarn", "full_context"):
        assert (seen == 1).all()
    assert name in protocol.name
    assert str(length) in protocol.definition or name == "full_context"


@given(documents, st.integers(2, 30), st.integers(1, 6), st.data())
def test_the_same_tokens_are_scored_at_every_length(sizes, row, factor, data):
    last = data.draw(st.integers(1, row))
    scored, ending = [], []
    for length in (row, factor * row):
        protocol = protocols.Windows(length=length, row_length=row)
        place = stream(sizes).place
        kept = ~protocol.spares(place)
        for window in protocol.windows(ends(sizes)):
            kept[window.start] = False
        scored.append(kept)
        windows = protocols.LastK(length=length, last=last).windows(ends(sizes))
        ending.append([(window.first, window.stop) for window in windows])
        for window in windows:
            assert window.stop - window.first == min(last, window.stop - window.start)
    assert np.array_equal(*scored) and ending[0] == ending[1]


@pytest.mark.parametrize("name", protocols.PROTOCOLS)
def test_batches_and_chunks_change_nothing(name):
    model = small_decoder("bilevel_learned_alibi").eval()
    text = stream([60, 33, 7], vocabulary=model.config.vocab_size)
    protocol = protocols.Choice(protocol=name, stride=5, last=6).at(16, row_length=8)
    one = score(model, text, protocol, tokens_per_batch=1)
    many = score(model, text, protocol, tokens_per_batch=1000, one_pass=9)
    assert np.array_equal(one.window, many.window)
    assert np.allclose(one.nll, many.nll, atol=2e-5)
    assert not one.nll[~one.scored].any()
    sums, counts = one.by(one.document, count=3)
    assert sums.sum() / counts.sum() == pytest.approx(one.mean())
    losses = score(model, stream([1], vocabulary=5), protocol, tokens_per_batch=64)
    assert not losses.scored.any() and math.isnan(losses.mean())
    assert all(math.isnan(mean) for mean in protocol.averages(losses).values())


def test_the_averages_differ_where_windows_do():
    """Two windows of 3 and 1 tokens, losses 1 and 5."""
    losses = protocols.Losses(
        nll=np.array([1.0, 1.0, 1.0, 5.0, 0.0]),
        window=np.array([0, 0, 0, 1, -1]),
        document=np.zeros(5, int),
    )
    assert losses.mean() == 2.0
    found = protocols.Sliding(length=4, stride=1).averages(losses)
    assert found == {"mean_of_windows": 3.0, "one_token_too_few": 1.0}
    assert protocols.BipeBlocks(length=4, batch=2).averages(losses) == {"mean_of_batches": 3.0}
    assert protocols.Yarn(length=4, stride=1).averages(losses) == {"mean_of_windows": 3.0}
    assert protocols.LastK(length=4, last=1).averages(losses) == {"mean_of_documents": 3.0}
    assert perplexity(1e6) == math.inf and perplexity(1.0) == pytest.approx(math.e)
    for name, options in (
        ("sliding", {"stride": 9}),
        ("sliding", {"stride": 0}),
        ("yarn", {"stride": 8, "start_token": 1}),
        ("last_k", {"last": 9}),
    ):
        with pytest.raises(ConfigError, match=r"evaluate\.(stride|last) must be from 1 to"):
            protocols.Choice(protocol=name, **options).at(8, row_length=8)


@pytest.mark.parametrize("name", protocols.PROTOCOLS)
def test_numbers_that_are_not_set_fit_texts_shorter_than_a_row(name):
    choice = protocols.Choice(protocol=name, start_token=1)
    assert choice.at(512, row_length=2048) == choice.at(512, row_length=512) or name == "windows"


NOTES = {
    "row_length": 24,
    "positions": {"segment": {"counted": 1, "maximum": 6, "p99": 4, "p99.9": 5}},
}
STRETCHES = {"yarn": stretch("YaRN", factor=4.0), "dynamic_ntk": stretch("DynamicNTK", factor=2.0)}


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
    assert token_losses(model, tokens[:, :1], marks[:, :1]).shape == (2, 0)
