"""Beam search: the most likely continuations, several followed at once.

    best, *others = beam_search(model, prompt, max_new=100, search=Beams(beams=4), stop_ids=[0])

A hypothesis scores the sum of its log probabilities over (tokens drawn) ** length_penalty, the stop
counted (Wu et al., 1609.08144, use another power of the length; the one here is that of fairseq and
transformers). The prompt is read once and its cache copied to the beams; where beams change
places, a step moves what they wrote, not the prompt. One beam with early stopping is greedy
decoding; as many beams as there are continuations search them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from bipe.decoder import Decoder
from bipe.generation.session import PREFILL_CHUNK, Marker, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Beams:
    """How wide, and when it ends.

    beams: hypotheses that are followed, and returned at most.
    length_penalty: above 0 long ones are favoured, below 0 short ones; 0 is the bare sum.
    early_stopping: end as soon as `beams` are complete; otherwise when no open one can come to
        score more than the worst complete one that is kept.
    """

    beams: int = 4
    length_penalty: float = 1.0
    early_stopping: bool = True

    def __post_init__(self) -> None:
        if self.beams < 1:
            raise ValueError(f"beams must be at least 1, was: {self.beams}")
        if not abs(self.length_penalty) < float("inf"):
            raise ValueError(f"length_penalty must be finite, was: {self.length_penalty}")

    def score(self, log_likelihood: float, drawn: int) -> float:
        """Return what hypotheses are compared by; drawn: tokens, the stop included."""
        return log_likelihood / drawn**self.length_penalty

    def bound(self, log_likelihood: float, drawn: int, *, max_new: int) -> float:
        """Return the most that an open hypothesis can score: no token adds to its likelihood."""
        lengths = (min(drawn + 1, max_new), max_new)
        return max(self.score(log_likelihood, length) for length in lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One continuation. tokens: ids, without the stop. ended: "stop" or "length"."""

    tokens: list[int]
    score: float
    ended: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A hypothesis that goes on: its tokens and the sum of their log probabilities."""

    tokens: list[int]
    total: float


@torch.no_grad()
def beam_search(
    model: Decoder,
    prompt: Sequence[int],
    *,
    max_new: int,
    search: Beams,
    marker: Marker | None = None,
    marks: Sequence[int] | None = None,
    stop_ids: Sequence[int] = (),
    chunk: int = PREFILL_CHUNK,
) -> list[Hypothesis]:
    """Return the best continuations of at most `max_new` tokens, best first.

    marker, marks, stop_ids, chunk: as for `generate`. Raises ValueError for an empty prompt.
    """
    if not len(prompt):
        raise ValueError("prompt must hold at least one token; begin with the document end")
    if max_new < 1:
        raise ValueError(f"max_new must be at least 1 token, was: {max_new}")
    capacity = len(prompt) + max_new
    session = Session(model, batch=1, marker=marker, capacity=capacity, chunk=chunk, room=max_new)
    known = None if marks is None else [marks]
    logits = session.feed([prompt], marks=known, last_only=True)[:, -1]
    going, done = [_Open(tokens=[], total=0.0)], list[Hypothesis]()
    stops = set(stop_ids)
    for turn in range(max_new):
        totals = torch.tensor([each.total for each in going], dtype=torch.float64)
        chosen = _candidates(logits, totals, count=search.beams * (1 + len(stops)))
        parents, going, ended = _advance(chosen, going, stops=stops, search=search)
        done = _best([*done, *ended], search.beams)
        if not going or _is_over(done, going, search, max_new=max_new):
            break
        if turn == max_new - 1:
            done += [_complete(each, search, ended="length") for each in going]
            break
        session.select(parents, shared=len(prompt))
        logits = session.feed([[each.tokens[-1]] for each in going])[:, -1]
    return _best(done, search.beams)


def _candidates(
    logits: Float[Tensor, "row vocab"], totals: Float[Tensor, " row"], *, count: int
) -> list[tuple[int, int, float]]:
    """Return the most likely (row, token, total), best first."""
    # In float64, or logits that differ by little would become equal.
    scores = logits.double().log_softmax(-1).cpu() + totals[:, None]
    best = scores.flatten().topk(min(count, scores.numel()))
    vocabulary = scores.shape[1]
    return [
        (*divmod(place, vocabulary), total)
        for place, total in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def _advance(
    chosen: list[tuple[int, int, float]], going: list[_Open], *, stops: set[int], search: Beams
) -> tuple[list[int], list[_Open], list[Hypothesis]]:
    """Return the rows that go on, the open hypotheses in them, and those that end here."""
    parents, after, ended = list[int](), list[_Open](), list[Hypothesis]()
    for rank, (row, token, total) in enumerate(chosen):
        if token in stops:
            # One that is not among the best has no beam to end.
            if rank < search.beams:
                held = _Open(tokens=going[row].tokens, total=total)
                ended.append(_complete(held, search, ended="stop"))
        elif len(after) < search.beams:
            parents.append(row)
            after.append(_Open(tokens=[*going[row].tokens, token], total=total))
    return parents, after, ended


def _complete(held: _Open, search: Beams, *, ended: str) -> Hypothesis:
    drawn = len(held.tokens) + (ended == "stop")
    return Hypothesis(tokens=held.tokens, score=search.score(held.total, drawn), ended=ended)


def _best(hypotheses: list[Hypothesis], count: int) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda each: -each.score)[:count]


def _is_over(done: list[Hypothesis], going: list[_Open], search: Beams, *, max_new: int) -> bool:
    """Return whether no open hypothesis can still matter."""
    if len(done) < search.beams:
        return False
    if search.early_stopping:
        return True
    drawn = len(going[0].tokens)
    most = max(search.bound(each.total, drawn, max_new=max_new) for each in going)
    return most <= done[-1].score
