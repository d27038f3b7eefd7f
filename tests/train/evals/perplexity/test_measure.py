"""Perplexity against length is what a plain loop over windows and tokens gives."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from bipe import Positions
from tests.bipe.conftest import SCHEMES, far, flat, rope, small_decoder
from tests.train.data.corpora import Stream
from train.data.store.shards import open_dataset
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.errors import DataError
from train.evals.loop import Subject
from train.evals.perplexity.measure import Evaluator, LongPPL, Perplexity, score
from train.evals.perplexity.protocols import PROTOCOLS, Choice
from train.evals.rows import LEFT_OUT, Row
from train.evals.texts import Excerpts, HeldOut

ROW, LENGTHS = 16, [16, 32, 64]
SCHEMES = {
    "rope": flat(rope()),
    "bipe_alibi": SCHEMES["bilevel_learned_alibi_x96"],
    "dynamic": flat(rope(stretch=far("DynamicYaRN", original_length=ROW))),
}


@pytest.fixture(scope="module")
def held_out(data):
    return open_dataset(data / "proofs" / "test")


@pytest.fixture(scope="module")
def tokenizer(data):
    return LoadTokenizer(path=data, normaliser="drop").build()


@pytest.fixture(scope="module")
def cut(held_out, tokenizer):
    """Excerpts of the held-out documents."""
    made = HeldOut({"proofs": held_out}, tokenizer)
    return lambda lengths, limit=2: made.excerpts("proofs", lengths=lengths, limit=limit)


@pytest.fixture(scope="module")
def texts(cut):
    return cut(LENGTHS)


def model_of(name, vocab_size, *, init_std=0.3):
    sizes = {"vocab_size": vocab_size, "encoding": SCHEMES[name], "init_std": init_std}
    return small_decoder("flat_rope", **sizes).eval()


def measured(model, texts, *, lengths=LENGTHS, tokens_per_batch=128):
    """Values by measure, along the lengths; the last note."""
    found = {}
    windows = Choice(protocol="windows")
    made = Perplexity(choice=windows, documents=1, tokens_per_batch=tokens_per_batch)
    for length in lengths:
        protocol = windows.at(length, row_length=ROW)
        for one in made.rows(texts, protocol, partial(Row, length=length), {}, model):
            found.setdefault(one.measure, []).append(one.value)
            found["note"] = one.note or found["note"]
            if one.measure == "nll_by_position":
                found.setdefault("bins", []).append((one.start, one.stop))
    return found


@pytest.mark.parametrize(
    ("name", "protocol", "start_token"),
    [("bipe_alibi", protocol, None) for protocol in PROTOCOLS]
    + [("rope", "yarn", 1), ("dynamic", "windows", None)],
)
def test_what_longer_windows_read_is_not_read_again(name, protocol, start_token, texts, held_out):
    model = model_of(name, held_out.manifest["vocab_size"])
    read = []
    model.register_forward_pre_hook(lambda _, given: read.append(given[0].numel()))
    choice = Choice(protocol=protocol, start_token=start_token)
    known, counts = {}, []
    for length in sorted(LENGTHS, reverse=True):
        at = choice.at(length, row_length=ROW)
        alone = score(model, texts.stream, at, tokens_per_batch=64)
        counts.append([sum(read)])
        read.clear()
        found = score(model, texts.stream, at, tokens_per_batch=64, earlier=known)
        counts[-1].append(sum(read))
        read.clear()
        np.testing.assert_allclose(found.nll, alone.nll, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found.window, alone.window)
    (first, *shorter) = counts
    assert first[0] == first[1]
    assert all(shared <= own for own, shared in shorter)
    if name == "dynamic":  # the end of a window changes its start: each is read whole
        assert not known and all(own == shared for own, shared in shorter)
    elif protocol == "windows":
        assert all(2 * shared == own for own, shared in shorter)


@torch.no_grad()
def by_loop(model, texts, *, length):
    """Mean loss by windows one after the other, each token from the logits before it."""
    losses = []
    for tokens, marks in zip(texts.tokens, texts.marks, strict=True):
        for start in range(0, len(tokens), length):
            window = torch.from_numpy(tokens[start : start + length])[None]
            inside = torch.from_numpy(marks[start : start + length].copy())[None] & 0xFE
            log_p = model.logits(window, Positions.from_marks(inside))[0].log_softmax(-1)
            for place in range(1, length):
                if (start + place) % ROW:
                    losses.append(-float(log_p[place - 1, window[0, place]]))
    return sum(losses) / len(losses), len(losses)


@pytest.mark.parametrize("name", ["rope", "bipe_alibi"])
def test_it_is_the_exponential_of_the_mean_loss_over_tokens(name, texts, held_out, tokenizer):
    model = model_of(name, held_out.manifest["vocab_size"])
    found = measured(model, texts)
    for i, length in enumerate(LENGTHS):
        mean, count = by_loop(model, texts, length=length)
        assert found["nll"][i] == pytest.approx(mean, rel=1e-5)
        assert found["perplexity"][i] == pytest.approx(math.exp(mean), rel=1e-5)
        assert found["tokens_scored"][i] == count
    size = sum(len(tokenizer.decode(row).encode()) for row in texts.tokens)
    bits = found["nll"][0] / math.log(2) * texts.tokens.size / size
    assert found["bits_per_byte"][0] == pytest.approx(bits)
    nll, tokens = found["nll_by_position"], found["tokens_by_position"]
    assert sum(tokens) == found["tokens_scored"][0]
    total = sum(n * t for n, t in zip(nll, tokens, strict=True) if t)
    assert total / sum(tokens) == pytest.approx(found["nll"][-1])
    whole = sum(found["document_nll"][-2:]) / sum(found["document_tokens"][-2:])
    assert whole == pytest.approx(found["nll"][-1]) and found["documents"][-1] == 2
    assert "first 64 tokens" in found["note"] and "multiples of 16" in found["note"]
    bins = found["bins"]  # of the longest length alone
    assert (bins[0][0], bins[-1][1]) == (0, 64)
    assert [stop for _, stop in bins[:-1]] == [start for start, _ in bins[1:]]
    for size in (1, 10_000):
        assert measured(model, texts, tokens_per_batch=size)["nll"] == pytest.approx(found["nll"])


def test_lengths_beyond_the_texts_are_left_out_or_made_shorter(held_out, tokenizer, capsys):
    made = Perplexity(choice=Choice(protocol="windows"), documents=2, tokens_per_batch=128)
    held = HeldOut({"proofs": held_out}, tokenizer)
    subject = Subject(run=None, row_length=16, lengths=(16, 64, 10**6), held_out=held)
    last, *_ = made.cells(subject)
    assert [cell.length for cell in made.cells(subject)] == [None, 64, 16]
    (row,) = last.measure
    assert (row.measure, row.length) == ("left_out", 10**6)
    assert row.note == "no document has 1000000 tokens"
    capsys.readouterr()
    cells = list(made.cells(replace(subject, row_length=8000, lengths=(8000, 16000))))
    told = capsys.readouterr().err
    assert "no document has 8000 tokens" in told and "the longest has 924; measured at 500." in told
    assert told.count("warning") == 1
    assert [cell.length for cell in cells] == [None, None, 500]
    model = model_of("rope", held_out.manifest["vocab_size"])
    assert next(row for row in cells[-1].measure(model) if row.measure == "perplexity").value > 1


def test_the_first_documents_that_are_long_enough_are_taken_from_their_start(tokenizer):
    held = HeldOut({"x": Stream([3, 9, 4, 8, 20])}, tokenizer)
    found = held.excerpts("x", lengths=[3, 8], limit=2)
    assert found.tokens.tolist() == [[*range(3, 11)], [*range(16, 24)]]
    assert (found.marks[:, 0] == 3).all()
    assert held.excerpts("x", lengths=[4, 21], limit=9).tokens[:, 0].tolist() == [3, 12, 16, 24]
    with pytest.raises(DataError, match=r"no document has 21 tokens.*longest has 20.*split.test"):
        held.excerpts("x", lengths=[21], limit=2)


VOCABULARY, CONTEXT, LENGTH = 23, 8, 24
USUAL = {"alpha": 0.1, "beta": -6.0, "context": CONTEXT, "documents": 3, "tokens_per_batch": 64}


def long_ppl(**told):
    return LongPPL(**{"evaluator": None} | USUAL | told)


@pytest.fixture(scope="module")
def drawn():
    draw = np.random.default_rng(3)
    tokens = draw.integers(0, VOCABULARY, (3, 2 * LENGTH))
    return Excerpts(tokens, (draw.random(tokens.shape) < 0.2).astype(np.uint8) * 2, tokens.size)


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
def test_long_ppl_is_that_of_single_tokens(other, length, drawn):
    name = "bipe_alibi"
    model = model_of(name, VOCABULARY)
    judge, evaluator = model, None
    if other:
        judge = model_of("rope", VOCABULARY, init_std=0.5)
        evaluator = Evaluator(name="judge", sha256="0", load=lambda: judge)
    made = long_ppl(evaluator=evaluator)
    value, share = made.rows(drawn, CONTEXT, partial(Row, length=length), model)
    mean, expected = by_single_tokens(model, judge, drawn, length=length, alpha=0.1, beta=-6.0)
    assert value.value == pytest.approx(math.exp(mean), rel=1e-4)
    assert share.value == pytest.approx(expected, abs=1e-9)
    assert 0.02 < share.value < 0.9


def test_without_key_tokens_or_a_longer_context_there_is_no_value(drawn):
    none = long_ppl(alpha=50.0)
    value, share = none.rows(drawn, CONTEXT, partial(Row, length=LENGTH), model_of("rope", 23))
    assert (value.value, share.value) == (None, 0.0) and math.isnan(value.low)
    held = HeldOut({"text": None}, None)
    held.excerpts = lambda *_, **__: drawn
    subject = Subject(run=None, row_length=16, lengths=(8, 16, 48, 128), held_out=held)
    cells = [*long_ppl(context=None).cells(subject)]
    reasons = [None if callable(cell.measure) else cell.measure[0] for cell in cells]
    assert [row and row.measure for row in reasons] == [LEFT_OUT, None, None, LEFT_OUT]
    assert "no longer than the short context of 8" in reasons[0].note
    assert "no document has 128" in reasons[-1].note
