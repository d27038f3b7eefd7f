"""Laws of all protocols: what is read, that nothing is scored twice, and what is averaged."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bipe.conftest import small_decoder
from train.errors import ConfigError
from train.evals.perplexity.measure import perplexity, score
from train.evals.perplexity.protocols import (
    PROTOCOLS,
    BipeBlocks,
    Choice,
    LastK,
    Losses,
    Sliding,
    Windows,
    Yarn,
)
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


@given(documents, st.sampled_from(PROTOCOLS), st.integers(4, 40), st.data())
def test_no_token_is_scored_twice_and_all_windows_are_inside(sizes, name, length, data):
    stride = data.draw(st.integers(1, length - 1))
    choice = Choice(protocol=name, stride=stride, last=min(3, length))
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


@given(documents, st.integers(1, 30), st.data())
def test_the_last_tokens_are_the_same_at_every_length(sizes, length, data):
    last = data.draw(st.integers(1, length))
    found = [LastK(length=n, last=last).windows(ends(sizes)) for n in (length, 2 * length)]
    for short, long in zip(*found, strict=True):
        assert short.stop == long.stop
        assert long.start <= short.start <= short.first
        assert short.stop - short.first == min(last, short.stop - short.start)


@given(documents, st.integers(2, 30), st.integers(1, 6))
def test_windows_score_the_same_at_every_length(sizes, row, factor):
    scored = []
    for length in (row, factor * row):
        protocol = Windows(length=length, row_length=row)
        place = stream(sizes).place
        kept = ~protocol.spares(place)
        for window in protocol.windows(ends(sizes)):
            kept[window.start] = False
        scored.append(kept)
    assert np.array_equal(*scored)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_batches_and_chunks_change_nothing(name):
    model = small_decoder("bilevel_learned_alibi").eval()
    text = stream([60, 33, 7], vocabulary=model.config.vocab_size)
    protocol = Choice(protocol=name, stride=5, last=6).at(16, row_length=8)
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
    losses = Losses(
        nll=np.array([1.0, 1.0, 1.0, 5.0, 0.0]),
        window=np.array([0, 0, 0, 1, -1]),
        document=np.zeros(5, int),
    )
    assert losses.mean() == 2.0
    found = Sliding(length=4, stride=1).averages(losses)
    assert found == {"mean_of_windows": 3.0, "one_token_too_few": 1.0}
    assert BipeBlocks(length=4, batch=2).averages(losses) == {"mean_of_batches": 3.0}
    assert Yarn(length=4, stride=1).averages(losses) == {"mean_of_windows": 3.0}
    assert LastK(length=4, last=1).averages(losses) == {"mean_of_documents": 3.0}
    assert perplexity(1e6) == math.inf and perplexity(1.0) == pytest.approx(math.e)
    for kind, options in (
        (Sliding, {"stride": 9}),
        (Sliding, {"stride": 0}),
        (Yarn, {"stride": 8, "start_token": 1}),
        (LastK, {"last": 9}),
    ):
        with pytest.raises(ConfigError, match="must be from 1 to"):
            kind(length=8, **options)
