"""Passkey retrieval: who copies the key finds it always, who guesses finds it by chance."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from train.data.store.shards import open_dataset
from train.data.tokenizing.vocabulary import LoadTokenizer, TrainBPE
from train.errors import DataError
from train.evals.passkey import QUESTION, WORDS, make_keys, passkey

LENGTHS, DEPTHS = [64, 128], [0.0, 0.5, 1.0]


@pytest.fixture(scope="module")
def held_out(data):
    return open_dataset(data / "proofs" / "test")


@pytest.fixture(scope="module")
def tokenizer(data):
    return LoadTokenizer(path=data, normaliser="drop").build()


class Stub(nn.Module):
    """A model whose logits are a function of the tokens; keeps what it was asked."""

    def __init__(self, predict, vocab_size):
        super().__init__()
        self.predict, self.vocab_size = predict, vocab_size
        self.head = nn.Identity()
        self.head.weight = torch.zeros(())
        self.asked = []

    def forward(self, tokens, at):
        self.asked.append((tokens.numpy().copy(), at))
        return torch.stack([self.predict(row, self.vocab_size) for row in tokens])


def copies(row, vocab_size):
    """Each token is followed by what followed the longest match of the last tokens before."""
    row, logits = row.tolist(), torch.zeros(len(row), vocab_size)
    for t in range(len(row)):
        best = (0, None)
        for s in range(t):
            n = 0
            while n <= s and row[s - n] == row[t - n] and n < 30:
                n += 1
            best = max(best, (n, row[s + 1]), key=lambda found: found[0])
        if best[1] is not None:
            logits[t, best[1]] = 1.0
    return logits


def guesses():
    generator = torch.Generator().manual_seed(0)
    return lambda row, vocab_size: torch.rand(len(row), vocab_size, generator=generator)


def measured(predict, held_out, tokenizer, **options):
    stub = Stub(predict, tokenizer.vocab_size)
    options = {
        "lengths": LENGTHS,
        "depths": DEPTHS,
        "trials": 4,
        "candidates": 4,
        "tokens_per_batch": 256,
        "seed": 0,
    } | options
    return passkey(stub, held_out, tokenizer, **options), stub


def test_who_copies_the_key_finds_it_always(held_out, tokenizer):
    found, _ = measured(copies, held_out, tokenizer)
    assert found["accuracy"] == [[1.0] * 3] * 2
    assert found["exact"] == [[1.0] * 3] * 2


@pytest.mark.parametrize("candidates", [2, 4, 10])
def test_who_guesses_finds_it_by_chance(held_out, tokenizer, candidates):
    options = {"trials": 300, "candidates": candidates, "depths": [0.5], "lengths": [64]}
    found, _ = measured(guesses(), held_out, tokenizer, **options)
    chance = 1 / candidates
    assert found["chance"] == chance
    spread = (chance * (1 - chance) / 300) ** 0.5
    assert abs(found["accuracy"][0][0] - chance) < 4 * spread
    assert found["exact"][0][0] <= 0.02


def test_who_names_always_the_same_key_finds_it_by_chance(held_out, tokenizer):
    def same(row, vocab_size):
        return torch.zeros(len(row), vocab_size)

    found, _ = measured(same, held_out, tokenizer, trials=300, depths=[0.5], lengths=[64])
    assert abs(found["accuracy"][0][0] - 0.25) < 0.1


def test_every_text_has_the_length_that_is_told(held_out, tokenizer):
    _, stub = measured(guesses(), held_out, tokenizer, tokens_per_batch=1)
    lengths = [tokens.shape for tokens, _ in stub.asked]
    assert lengths == [(1, 64)] * 12 + [(1, 128)] * 12


def test_the_key_is_named_once_at_its_depth_and_asked_for_at_the_end(held_out, tokenizer):
    _, stub = measured(guesses(), held_out, tokenizer, tokens_per_batch=1, lengths=[256])
    for number, (tokens, at) in enumerate(stub.asked):
        text = tokenizer.decode(tokens[0])
        assert text.count(QUESTION) == 2
        before, _, after = text.partition(QUESTION)
        key = text.rpartition(QUESTION)[2].strip()
        assert key in WORDS
        assert text.endswith(f"{QUESTION} {key}")
        assert after.startswith(f" {key}.")
        depth = DEPTHS[number // 4]
        hay = len(before) + len(after) - len(f" {key}.") - len(f"{QUESTION} {key}")
        assert len(before) / hay == pytest.approx(depth, abs=0.1)
        assert int(at.document.max()) == 0


def test_statement_and_question_are_segments_of_their_own(held_out, tokenizer):
    _, stub = measured(guesses(), held_out, tokenizer, tokens_per_batch=1, depths=[0.5])
    for tokens, at in stub.asked:
        starts = np.flatnonzero(at.intra[0].numpy() == 0)
        pieces = [
            tokenizer.decode(tokens[0][start:stop])
            for start, stop in zip(starts, [*starts[1:], tokens.shape[1]], strict=True)
        ]
        stated = [piece for piece in pieces if piece.startswith(QUESTION)]
        assert len(stated) == 2
        assert stated[0].endswith(".")
        assert stated[1] == pieces[-1]


def test_it_is_the_same_every_time_whatever_the_batch(held_out, tokenizer):
    one, _ = measured(copies, held_out, tokenizer, lengths=[64], tokens_per_batch=1)
    two, stub = measured(copies, held_out, tokenizer, lengths=[64], tokens_per_batch=10_000)
    assert one == two
    assert stub.asked[0][0].shape[0] == 4
    _, other = measured(copies, held_out, tokenizer, lengths=[64], seed=1, tokens_per_batch=10_000)
    assert not np.array_equal(stub.asked[0][0], other.asked[0][0])


def test_lengths_beyond_the_held_out_text_are_left_out(held_out, tokenizer):
    found, _ = measured(guesses(), held_out, tokenizer, lengths=[64, 10**7])
    assert found["lengths"] == [64]
    assert len(found["accuracy"]) == len(found["exact"]) == 1


def test_the_protocol_is_told_with_its_numbers(held_out, tokenizer):
    found, _ = measured(guesses(), held_out, tokenizer)
    for part in ("One of 4 words", "(proofs)", "chance 0.25", "4 trials a cell"):
        assert part in found["protocol"]


@pytest.mark.parametrize("candidates", [2, 4, 10])
def test_candidates_are_told_apart_by_their_first_token(tokenizer, candidates):
    keys = make_keys(tokenizer, candidates=candidates)
    assert len(set(keys.first_tokens.tolist())) == len(keys.words) == candidates
    for word, answer in zip(keys.words, keys.answers, strict=True):
        whole = np.concatenate((keys.question, answer))
        assert tokenizer.decode(whole) == f"{QUESTION} {word}"


def test_a_large_vocabulary_has_keys_of_one_token():
    text = " ".join(f"The pass key is {word}." for word in WORDS)
    tokenizer = TrainBPE(vocab_size=600).build(lambda _: [text] * 50)
    keys = make_keys(tokenizer, candidates=20)
    assert [len(answer) for answer in keys.answers] == [1] * 20
    assert tokenizer.decode(keys.question) == QUESTION


def test_too_many_candidates_are_refused_with_their_key(tokenizer):
    with pytest.raises(DataError, match=r"evaluate.passkey.candidates must be less than 41"):
        make_keys(tokenizer, candidates=41)


def test_lengths_without_room_for_statement_and_question_are_left_out(tokenizer, held_out):
    found, _ = measured(guesses(), held_out, tokenizer, lengths=[8, 30, 64], trials=1)
    assert found["lengths"] == [64]


def test_marks_of_documents_play_no_part(tokenizer):
    """The text may run over the end of a document: for the model it is one."""
    tokens = np.arange(4000) % 200
    held_out = SimpleNamespace(
        tokens=tokens, name="x", marks=lambda a, b: np.full(b - a, 3, np.uint8)
    )
    _, stub = measured(guesses(), held_out, tokenizer, lengths=[64], depths=[0.5])
    assert all(int(at.document.max()) == 0 for _, at in stub.asked)
