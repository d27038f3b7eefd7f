"""Beam search.

    best, *others = beam_search(model, prompt, max_new=100, search=Beams(beams=4), stop_ids=[0])

A score is the sum of log probabilities over (tokens drawn) ** length_penalty, the stop included, as
in fairseq and transformers (Wu et al., 1609.08144, use another power). The prompt is read once;
reordering beams moves only the generated tokens. One beam with early stopping is greedy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from bipe.arguments import explained, require, require_at_least
from bipe.decoder import Decoder
from bipe.generation.session import PREFILL_CHUNK, Marker, Session, require_sound


@dataclass(frozen=True, slots=True, kw_only=True)
class Beams:
    """The width of a search, and when it ends.

    beams: hypotheses kept at each step, and the maximum returned.
    length_penalty: above 0 favours long ones, below 0 short ones; 0 is the plain sum.
    early_stopping: stop as soon as `beams` are complete; otherwise when no open one can exceed the
        worst complete one.
    """

    beams: int = 4
    length_penalty: float = 1.0
    early_stopping: bool = True

    def __post_init__(self) -> None:
        require_at_least(1, beams=self.beams)
        penalty = self.length_penalty
        require(abs(penalty) < float("inf"), "finite", length_penalty=penalty)

    def score(self, log_likelihood: float, drawn: int) -> float:
        """Return the score that hypotheses are compared by; drawn: tokens, the stop included."""
        return log_likelihood / drawn**self.length_penalty


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One continuation. tokens: ids, without the stop. ended: "stop" or "length"."""

    tokens: list[int]
    score: float
    ended: str


class _Open(NamedTuple):
    """An open hypothesis: the row that it came from, its tokens, their log probability."""

    row: int
    tokens: list[int]
    total: float


@explained
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
    known = None if marks is None else [marks]
    require_sound(model, [prompt], max_new, marker=marker, marks=known, stop_ids=stop_ids)
    if any(isinstance(id_, Sequence) for id_ in prompt):
        raise ValueError("prompt must be a list of ids: beam_search continues one prompt")
    require(isinstance(search, Beams), "Beams(...)", search=search)
    capacity = len(prompt) + max_new
    session = Session(model, batch=1, marker=marker, capacity=capacity, chunk=chunk, room=max_new)
    logits = session.feed([prompt], marks=known, last_only=True)[:, -1]
    shared = session.decided
    going, done = [_Open(0, [], 0.0)], list[Hypothesis]()
    for drawn in range(1, max_new + 1):
        going, ended = _advance(logits, going, search, frozenset(stop_ids))
        scored = [(beam, search.score(beam.total, drawn)) for beam in ended]
        done += [Hypothesis(tokens=beam.tokens, score=s, ended="stop") for beam, s in scored]
        done = sorted(done, key=lambda each: -each.score)[: search.beams]
        if not going or _is_over(done, going, search, drawn, max_new):
            return done
        if drawn < max_new:
            session.select([each.row for each in going], shared=shared)
            logits = session.feed([[beam.tokens[-1]] for beam in going])[:, -1]
    scored = [(beam, search.score(beam.total, max_new)) for beam in going]
    done += [Hypothesis(tokens=beam.tokens, score=s, ended="length") for beam, s in scored]
    return sorted(done, key=lambda each: -each.score)[: search.beams]


def _advance(
    logits: Float[Tensor, "row vocab"], going: list[_Open], search: Beams, stops: frozenset[int]
) -> tuple[list[_Open], list[_Open]]:
    """Return the hypotheses of one more token that go on, and those that end here, best first."""
    totals = torch.tensor([beam.total for beam in going], dtype=torch.float64)
    # In float64, because sums of float32 logits that differ by little would become equal.
    scores = logits.double().log_softmax(-1).cpu() + totals[:, None]
    best = scores.flatten().topk(min(search.beams * (1 + len(stops)), scores.numel()))
    after, ended = list[_Open](), list[_Open]()
    for rank, (place, total) in enumerate(
        zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ):
        row, token = divmod(place, scores.shape[1])
        if token not in stops:
            after.append(_Open(row, [*going[row].tokens, token], total))
        elif rank < search.beams:  # below the best ranks there is no beam that could end
            ended.append(_Open(row, going[row].tokens, total))
    return after[: search.beams], ended


def _is_over(
    done: list[Hypothesis], going: list[_Open], search: Beams, drawn: int, max_new: int
) -> bool:
    """Return whether no open hypothesis can still matter."""
    # No token raises a likelihood, and a score is monotonic in the length: its ends are enough.
    lengths = (min(drawn + 1, max_new), max_new)
    most = max(search.score(beam.total, length) for beam in going for length in lengths)
    enough = search.early_stopping or (bool(done) and most <= done[-1].score)
    return len(done) == search.beams and enough
