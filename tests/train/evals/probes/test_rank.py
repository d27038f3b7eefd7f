"""Scores of probes: who copies finds, who guesses finds by chance; chunks and caches agree."""

import numpy as np
import pytest
import torch

from bipe import Decoder, DecoderConfig, Positions
from segmenters import Lines, Mixed, Newline, Pattern, Sentences, Stride
from tests.train.evals.probes.conftest import Cheat, copies, guesses
from train.evals.probes import COPIES, KINDS, NAMES
from train.evals.probes.copied import CUE, copied, losses_through
from train.evals.probes.draw import Draw
from train.evals.probes.layout import trial
from train.evals.probes.measure import Plan, probe
from train.evals.probes.positions import positions
from train.evals.probes.rank import log_likelihoods, shares_found
from train.evals.probes.text import Texts

ROPE = {"_target_": "bipe.encodings.RoPE", "head_width": 8}
ALIBI = {"_target_": "bipe.encodings.ALiBi", "n_head": 2}
LEARNED = {"_target_": "bipe.encodings.Learned", "width": 16, "length": 64}
ENCODINGS = {
    "rope": ROPE,
    "bipe_rope": {"_target_": "bipe.encodings.Bilevel", "intra": LEARNED, "inter": ROPE},
    "bipe_alibi": {"_target_": "bipe.encodings.Bilevel", "intra": LEARNED, "inter": ALIBI},
}


def decoder(encoding, vocab_size):
    sizes = {"vocab_size": vocab_size, "width": 16, "n_layer": 2, "n_head": 2, "mlp_width": 32}
    model = Decoder(DecoderConfig(**sizes, encoding=ENCODINGS[encoding]))
    model.init_weights(seed=1)
    return model.eval()


def trials(name, hay, texts, count, *, length=300, depth=0.5):
    kind = KINDS[name]
    return [
        trial(kind, hay, texts, length=length, depth=depth if kind.deep else None,
              candidates=6, draw=Draw(0, name, number))
        for number in range(count)
    ]  # fmt: skip


def plan(**options):
    defaults = {"lengths": [400], "depths": [0.0, 1.0], "trials": 2, "candidates": 3}
    rest = {"scoring": ["rank"], "tokens_per_batch": 800, "seed": 0}
    return Plan(**(defaults | rest | options))


@pytest.fixture(scope="module", params=["newline", "stride"])
def cut(request, texts, tokenizer):
    """Texts whose answers go on with the segment of the question, or open segments of their own."""
    return texts if request.param == "newline" else of(Stride(length=3), tokenizer)


def of(segmenter, tokenizer):
    return Texts(tokenizer=tokenizer, segmenter=segmenter)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("chunk", [64, 1000])
def test_likelihoods_are_those_of_the_whole_text(encoding, chunk, hay, cut):
    model = decoder(encoding, cut.tokenizer.vocab_size)
    made = trials("niah_multikey", hay, cut, 2)
    found = log_likelihoods(model, made, chunk=chunk)
    for row, each in zip(found, made, strict=True):
        for value, ids in zip(row, each.candidates, strict=True):
            whole = np.concatenate([each.tokens, ids])
            tokens, marks = torch.from_numpy(whole)[None], cut.marks(whole)
            at = Positions.from_marks(torch.from_numpy(marks)[None], packed=False)
            with torch.no_grad():
                chances = model.logits(tokens, at)[0].log_softmax(-1)
            expected = sum(float(chances[299 + i, id]) for i, id in enumerate(ids.tolist()))
            assert value == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize(
    "segmenter",
    [Stride(length=3), Newline(), Sentences(), Sentences(backend="rules", next_word=True),
     Lines(language="python"), Pattern(ends=r"\d\d"), Mixed()],
    ids=lambda each: type(each).__name__,
)  # fmt: skip
def test_candidates_are_cut_as_the_text_that_goes_on_with_them(segmenter, tokenizer):
    here = of(segmenter, tokenizer)
    words = here.encode([" 1234567", ". So.\n It is", "12", "\n\n- a\n"])
    for text in ("It is. The number is", "She said", "a. \u00e9\u4e2d\u3002", ""):
        (ids,) = here.encode([text])
        for word, found in zip(words, here.behind(ids, words), strict=True):
            expected = here.marks(np.concatenate([ids, word]))[len(ids) :]
            assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_losses_in_chunks_are_those_of_the_whole_text(encoding, hay, texts):
    model = decoder(encoding, texts.tokenizer.vocab_size)
    ids, _ = hay.take(Draw(1), 200)
    tokens, marks = torch.from_numpy(ids)[None], torch.from_numpy(texts.marks(ids))[None] & 0xFE
    losses, right = losses_through(model, tokens, marks, chunk=33)
    with torch.no_grad():
        logits = model.logits(tokens, Positions.from_marks(marks, packed=False))[0]
    expected = torch.nn.functional.cross_entropy(logits[:-1], tokens[0, 1:], reduction="none")
    np.testing.assert_allclose(losses[0, 1:], expected.numpy(), atol=2e-5)
    assert losses[0, 0] == 0 and not right[0, 0]
    assert np.array_equal(right[0, 1:], (logits[:-1].argmax(-1) == tokens[0, 1:]).numpy())


@pytest.mark.parametrize("name", ["niah_single", "niah_multikey"])
def test_who_copies_finds_every_needle(name, hay, texts):
    model = Cheat(copies, texts.tokenizer.vocab_size)
    assert shares_found(model, trials(name, hay, texts, 3)) == [1.0] * 3


def test_who_guesses_finds_by_chance(hay, texts):
    model = Cheat(guesses(), texts.tokenizer.vocab_size)
    made = trials("passkey", hay, texts, 1, length=64)
    found = np.array([shares_found(model, made)[0] for _ in range(100)])
    assert abs(found.mean() - 1 / 6) < 4 * (1 / 6 * 5 / 6 / 100) ** 0.5


def test_several_answers_count_by_their_share(hay, texts):
    (made,) = trials("niah_multivalue", hay, texts, 1)
    model = Cheat(guesses(), texts.tokenizer.vocab_size)
    row = np.where(made.right, 1.0, 0.0)
    row[np.flatnonzero(made.right)[0]] = -9.0  # one of four is missed
    best = np.argsort(-row, kind="stable")[:4]
    assert made.right[best].mean() == 0.75
    assert shares_found(model, [made])[0] in (0.0, 0.25, 0.5, 0.75, 1.0)


@pytest.mark.parametrize("name", COPIES)
def test_who_copies_knows_the_second_appearance_alone(name, hay, texts):
    made = [
        COPIES[name](hay, texts, length=151, depth=0.5, draw=Draw(number)) for number in range(2)
    ]
    for each in made:
        assert len(each.tokens) == len(each.marks) == 151
        once = each.tokens[each.first : each.first + each.size]
        assert np.array_equal(once, each.tokens[each.second :])
        assert each.distance_tokens == each.second - each.first
    known = copied(Cheat(copies, texts.tokenizer.vocab_size), made, chunk=50)
    assert all(one.accuracy > 0.95 and one.second < 1 < one.first for one in known)
    guessed = copied(Cheat(guesses(), texts.tokenizer.vocab_size), made)
    assert all(one.accuracy < 0.2 for one in guessed)
    assert made[0].size > CUE


@pytest.mark.parametrize("name", NAMES)
def test_a_probe_is_the_same_every_time_whatever_the_batch(name, hay, texts):
    model = decoder("bipe_rope", texts.tokenizer.vocab_size)
    one = probe(name, model, hay, texts, plan=plan())
    two = probe(name, model, hay, texts, plan=plan(tokens_per_batch=1))
    other = probe(name, model, hay, texts, plan=plan(seed=1))
    assert rounded(one) == rounded(two) != rounded(other)


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(held) for key, held in value.items()}
    if isinstance(value, list):
        return [rounded(held) for held in value]
    return round(value, 3) if isinstance(value, float) else value


def test_a_result_has_its_cells_its_distances_and_its_protocol(hay, texts):
    model = decoder("rope", texts.tokenizer.vocab_size)
    found = probe(
        "niah_multikey", model, hay, texts, plan=plan(lengths=[40, 300, 500], candidates=5)
    )
    assert found["lengths"] == [300, 500]  # 40 have no room for it
    assert found["depths"] == [0.0, 1.0] and found["chance"] == 0.2
    for grid in ("accuracy", "distance_tokens", "distance_segments"):
        assert [len(row) for row in found[grid]] == [2, 2]
    assert found["written"] == [[None] * 2] * 2
    results = found["results"]
    assert len(results["length"]) == 2 * 2 * 2
    assert max(results["distance_tokens"]) < 500
    for row in found["distance_tokens"]:
        assert row == sorted(row, reverse=True)
    for part in ("5 candidates", "chance 0.20", "made up", "2 trials a cell"):
        assert part in found["protocol"]


def test_losses_by_position_hold_every_token_once(hay, texts):
    model = decoder("bipe_rope", texts.tokenizer.vocab_size)
    curves = positions(
        model, hay, texts, length=300, trials=3, draw=lambda n: Draw("here", n), rows=2, chunk=64
    )
    for curve in curves.values():
        assert sum(curve["tokens"]) == 3 * 299
        assert len(curve["nll"]) == len(curve["tokens"]) == len(curve["edges"]) - 1
    means = {
        level: sum(n * (m or 0) for n, m in zip(c["tokens"], c["nll"], strict=True)) / (3 * 299)
        for level, c in curves.items()
    }
    assert len({round(mean, 9) for mean in means.values()}) == 1
    assert curves["token"]["tokens"][:5] == [0, 3, 6, 12, 24]


@pytest.mark.parametrize("name", ["niah_single", "niah_multiquery"])
def test_who_copies_writes_the_answer(name, hay, texts):
    model = Cheat(copies, texts.tokenizer.vocab_size)
    chosen = plan(lengths=[300], depths=[0.5], scoring=["write"], trials=1)
    found = probe(name, model, hay, texts, plan=chosen)
    assert found["accuracy"] == [[None]]
    if name == "niah_single":
        assert found["written"] == [[1.0]]
    assert 0 <= found["written"][0][0] <= 1
    assert found["results"]["text"][0]


def test_a_bilevel_model_writes_along_the_rules_of_the_data(hay, texts):
    model = decoder("bipe_rope", texts.tokenizer.vocab_size)
    found = probe(
        "variables", model, hay, texts, plan=plan(lengths=[300], scoring=["rank", "write"])
    )
    assert found["written"][0][0] is not None and found["accuracy"][0][0] is not None
