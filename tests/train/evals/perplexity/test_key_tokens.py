"""LongPPL is what a loop over single tokens gives, each behind its own two contexts."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from bipe import Positions
from tests.train.evals.perplexity.test_measure import model_of
from train.evals.loop import Subject
from train.evals.perplexity.key_tokens import Evaluator, LongPPL
from train.evals.rows import LEFT_OUT, Row
from train.evals.texts import Excerpts, HeldOut

VOCABULARY, CONTEXT, LENGTH = 23, 8, 24
USUAL = {"alpha": 0.1, "beta": -6.0, "context": CONTEXT, "documents": 3, "tokens_per_batch": 64}


def long_ppl(**told):
    return LongPPL(**{"evaluator": None} | USUAL | told)


@pytest.fixture(scope="module")
def texts():
    drawn = np.random.default_rng(3)
    tokens = drawn.integers(0, VOCABULARY, (3, 2 * LENGTH))
    return Excerpts(tokens, (drawn.random(tokens.shape) < 0.2).astype(np.uint8) * 2, tokens.size)


@torch.no_grad()
def log_p(model, tokens, marks):
    """The log-probability of the last token, given those before it."""
    at = Positions.from_marks(torch.from_numpy(marks & 0xFE)[None], packed=False)
    logits = model.logits(torch.from_numpy(tokens)[None], at)
    return float(logits.log_softmax(-1)[0, -2, tokens[-1]])


def by_single_tokens(model, judge, texts, *, length, alpha, beta):
    """The twin: each token read by itself; the mean loss of key tokens, and their share."""
    stride, losses, count = CONTEXT // 4, [], 0
    for tokens, marks in zip(texts.tokens, texts.marks, strict=True):
        for begin in range(0, len(tokens), length):
            for end in range(begin + 2, begin + length + 1):
                place = end - begin - 1
                # From CONTEXT to CONTEXT + stride - 1 tokens: where the sliding window begins.
                skipped = max(0, math.ceil((place + 1 - CONTEXT - stride) / stride)) * stride
                short, long = slice(begin + skipped, end), slice(begin, end)
                far = log_p(judge, tokens[long], marks[long])
                near = log_p(judge, tokens[short], marks[short])
                count += 1
                if far - near > alpha and far > beta:
                    losses.append(-log_p(model, tokens[long], marks[long]))
    return np.mean(losses), len(losses) / count


@pytest.mark.parametrize(
    ("other", "length"), [(False, 2 * LENGTH), (True, LENGTH)], ids=["itself", "another"]
)
def test_it_is_that_of_single_tokens(other, length, texts):
    name = "bipe_alibi"
    model = model_of(name, VOCABULARY)
    judge, evaluator = model, None
    if other:
        judge = model_of("rope", VOCABULARY, init_std=0.5)
        evaluator = Evaluator(name="judge", sha256="0", load=lambda: judge)
    made = long_ppl(evaluator=evaluator)
    value, share = made.rows(texts, CONTEXT, partial(Row, length=length), model)
    mean, expected = by_single_tokens(model, judge, texts, length=length, alpha=0.1, beta=-6.0)
    assert value.value == pytest.approx(math.exp(mean), rel=1e-4)
    assert share.value == pytest.approx(expected, abs=1e-9)
    assert 0.02 < share.value < 0.9


def test_without_key_tokens_or_a_longer_context_there_is_no_value(texts):
    none = long_ppl(alpha=50.0)
    value, share = none.rows(texts, CONTEXT, partial(Row, length=LENGTH), model_of("rope", 23))
    assert (value.value, value.low, share.value) == (None, None, 0.0)
    held = HeldOut({"text": None}, None)
    held.excerpts = lambda *_, **__: texts
    subject = Subject(run=None, row_length=16, lengths=(8, 16, 48, 128), held_out=held)
    cells = [*long_ppl(context=None).cells(subject)]
    reasons = [None if callable(cell.measure) else cell.measure[0] for cell in cells]
    assert [row and row.measure for row in reasons] == [LEFT_OUT, None, None, LEFT_OUT]
    assert "no longer than the short context of 8" in reasons[0].note
    assert "no document has 128" in reasons[-1].note
