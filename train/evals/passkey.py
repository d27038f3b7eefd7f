"""Passkey retrieval against length and depth (Mohtashami and Jaggi, 2305.16300), for small models.

A word is named once in real held-out text, and asked for at the end:

    ... text ...  The pass key is river. ... text ...  The pass key is river
    segments                             |                                  (asked for)

Perplexity alone flatters models that look at near tokens only; this asks for far ones. A model of
a few million weights rarely spells the key out, so two scores are kept: `accuracy`, whether the
key is the likeliest of the candidates (chance is one in so many), and `exact`, whether greedy
decoding spells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bipe import Decoder, Positions
from train.data.store.shards import DataSet
from train.data.tokenizing.tokenizers import Tokenizer
from train.errors import DataError

STATEMENT = " The pass key is {key}."
QUESTION = " The pass key is"
WORDS = [
    "river",
    "stone",
    "bread",
    "water",
    "house",
    "mother",
    "silver",
    "garden",
    "mountain",
    "window",
    "morning",
    "winter",
    "summer",
    "letter",
    "number",
    "table",
    "field",
    "horse",
    "iron",
    "gold",
    "paper",
    "light",
    "night",
    "city",
    "road",
    "tree",
    "fire",
    "king",
    "door",
    "ship",
    "voice",
    "heart",
    "hand",
    "tower",
    "bridge",
    "island",
    "forest",
    "valley",
    "castle",
    "village",
]
PROTOCOL = (
    "One of {candidates} words is named once in held-out text ({source}) at the given depth and "
    "asked for at the end; accuracy: it is the likeliest of the words by its first token (chance "
    "{chance:.2f}); exact: greedy decoding spells it; {trials} trials a cell."
)
SEGMENT = np.uint8(2)


@dataclass(frozen=True, slots=True)
class Keys:
    """Candidate keys as words and as ids that follow the question; no two start alike."""

    question: np.ndarray
    words: list[str]
    answers: list[np.ndarray]

    @property
    def first_tokens(self) -> np.ndarray:
        return np.array([answer[0] for answer in self.answers])


def make_keys(tokenizer: Tokenizer, *, candidates: int) -> Keys:
    """Words whose first tokens tell them apart.

    Where a vocabulary knows few words, many begin with the same token (the space before them):
    then these are taken, and that token becomes the end of the question.
    """
    asked = [(word, _ids(tokenizer, f"{QUESTION} {word}")) for word in WORDS]
    shared = 0
    while True:
        groups: dict[int, list[tuple[str, np.ndarray]]] = {}
        for word, ids in asked:
            if len(ids) > shared:
                groups.setdefault(int(ids[shared]), []).append((word, ids))
        if len(groups) >= candidates:
            break
        asked = max(groups.values(), key=len, default=[])
        if len(asked) < candidates:
            raise DataError(
                f"evaluate.passkey.candidates must be less than {candidates} with this tokenizer, "
                f"which gives too few of the words a first token of their own"
            )
        shared += 1
    # Short keys first: fewer tokens to spell.
    firsts = sorted((group[0] for group in groups.values()), key=lambda pair: len(pair[1]))
    chosen = firsts[:candidates]
    return Keys(
        chosen[0][1][:shared], [word for word, _ in chosen], [ids[shared:] for _, ids in chosen]
    )


def passkey(
    model: Decoder,
    data: DataSet,
    tokenizer: Tokenizer,
    *,
    lengths: Sequence[int],
    depths: Sequence[float],
    trials: int,
    candidates: int,
    tokens_per_batch: int,
    seed: int,
) -> dict[str, Any]:
    """Scores by length (tokens) and depth (0: the start of the text). Deterministic in `seed`.

    Lengths beyond the held-out text, or too short for statement and question, are left out.
    """
    keys = make_keys(tokenizer, candidates=candidates)
    shortest = len(keys.question) + max(
        len(_ids(tokenizer, STATEMENT.format(key=word))) + len(answer)
        for word, answer in zip(keys.words, keys.answers, strict=True)
    )
    lengths = [length for length in lengths if shortest <= length < len(data.tokens)]
    result: dict[str, Any] = {"accuracy": [], "exact": []}
    for length in lengths:
        cells = []
        for depth in depths:
            rng = np.random.default_rng([seed, length, round(1000 * depth)])
            rows = [
                _trial(data, tokenizer, keys, length=length, depth=depth, rng=rng)
                for _ in range(trials)
            ]
            size = max(1, tokens_per_batch // length)
            scores = [
                _score(model, row, keys)
                for start in range(0, trials, size)
                for row in [rows[start : start + size]]
            ]
            cells.append(np.concatenate(scores).mean(0).tolist())
        result["accuracy"].append([accuracy for accuracy, _ in cells])
        result["exact"].append([exact for _, exact in cells])
    protocol = PROTOCOL.format(
        candidates=candidates, source=data.name, chance=1 / candidates, trials=trials
    )
    return {
        "protocol": protocol,
        "lengths": lengths,
        "depths": list(depths),
        "trials": trials,
        "chance": 1 / candidates,
        **result,
    }


@dataclass(frozen=True, slots=True)
class _Row:
    tokens: np.ndarray  # up to and without the key that is asked for, padded at the end with it
    marks: np.ndarray
    question_end: int
    key: int


def _trial(
    data: DataSet,
    tokenizer: Tokenizer,
    keys: Keys,
    *,
    length: int,
    depth: float,
    rng: np.random.Generator,
) -> _Row:
    """One text of `length` tokens, the key that is asked for included."""
    key = int(rng.integers(len(keys.words)))
    answer, question = keys.answers[key], keys.question
    statement = _ids(tokenizer, STATEMENT.format(key=keys.words[key]))
    room = length - len(statement) - len(question) - len(answer)
    start = int(rng.integers(max(1, len(data.tokens) - room)))
    hay = data.tokens[start : start + room].astype(np.int64)
    marks = data.marks(start, start + len(hay)) & SEGMENT
    # Before a segment, not inside one.
    places = np.append(np.flatnonzero(marks), len(hay))
    place = int(places[np.abs(places - depth * len(hay)).argmin()])
    tokens = np.concatenate((hay[:place], statement, hay[place:], question))
    opened = np.zeros(len(tokens), np.uint8)
    opened[:place], opened[place + len(statement) : -len(question)] = marks[:place], marks[place:]
    opened[[0, place, len(tokens) - len(question)]] = SEGMENT
    if place < len(hay):
        opened[place + len(statement)] = SEGMENT
    return _Row(
        tokens=np.concatenate((tokens, answer)),
        marks=np.concatenate((opened, np.zeros(len(answer), np.uint8))),
        question_end=len(tokens),
        key=key,
    )


@torch.no_grad()
def _score(model: Decoder, rows: list[_Row], keys: Keys) -> np.ndarray:
    """(accuracy, exact) of each row, ``(row, 2)``."""
    device = model.head.weight.device
    longest = max(len(row.tokens) for row in rows)
    tokens = np.zeros((len(rows), longest), np.int64)
    marks = np.zeros((len(rows), longest), np.uint8)
    for i, row in enumerate(rows):  # causal: what stands behind a row changes nothing in it
        tokens[i, : len(row.tokens)], marks[i, : len(row.marks)] = row.tokens, row.marks
    at = Positions.from_marks(torch.from_numpy(marks).to(device), packed=False)
    hidden = model(torch.from_numpy(tokens).to(device), at)
    scores = []
    for i, row in enumerate(rows):
        answer = keys.answers[row.key]
        logits = model.head(hidden[i, row.question_end - 1 : len(row.tokens) - 1]).cpu().numpy()
        choice = int(logits[0, keys.first_tokens].argmax())
        scores.append((choice == row.key, np.array_equal(logits.argmax(-1), answer)))
    return np.array(scores, dtype=np.float64)


def _ids(tokenizer: Tokenizer, text: str) -> np.ndarray:
    (ids, _), *_ = tokenizer.encode_batch([text])
    return ids
