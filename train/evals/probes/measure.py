"""Probes as a measurement: accuracy by length and depth, and each trial with its distances.

Trials are functions of (seed, probe, length, depth, number) and held-out text, for all models.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from bipe import Decoder
from segmenters.wording import counted
from train.errors import DataError
from train.evals.loop import Cell, Measurement, Subject
from train.evals.probes import answers
from train.evals.probes.answers import CUE, Repeat
from train.evals.probes.kinds import KINDS
from train.evals.probes.trials import Draw, Haystack, Kind, Room, Trial, trial
from train.evals.rows import Row, key_of, left_out

COPIES = {"copy": answers.copy, "segment": answers.segment, "induction": answers.induction}
POSITIONS = "positions"
NAMES = (*KINDS, *COPIES, POSITIONS)
_RANKED = (
    "accuracy: share of the answers among the equally many most likely of {candidates} "
    "candidates (by the probability of all tokens; chance {chance:.2f})"
)
_WRITTEN = (
    "written: greedy decoding of {max_new} tokens, RULER's string match ({rule}), in which a "
    "number within a longer one counts"
)
_COPIED = (
    "accuracy: share of tokens of the second copy that are the most likely ones, except its first "
    f"{CUE}; first, second: loss in nats of the two copies"
)
_TASKS = {
    "copy": "A few random tokens are put at a depth of held-out text, and repeated at the end.",
    "segment": "A segment of held-out text, at a depth of it, is repeated at the end (at most its "
    f"first {answers.BLOCK} tokens).",
    "induction": "Random tokens fill half of the context, and are repeated in the other half.",
    POSITIONS: "Loss of held-out text by position: of the token in the document, of its segment, "
    "and in its segment.",
}
_UNITS = {"first": "nats/token", "second": "nats/token", "distance_tokens": "tokens",
          "distance_segments": "segments"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The trials of each length and depth (share of context); scoring: "rank", "write" or both."""

    depths: Sequence[float]
    trials: int
    candidates: int
    scoring: Sequence[str]
    tokens_per_batch: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Probe(Measurement):
    """One probe. name: one of NAMES. lengths: in tokens; None: those of the subject."""

    name: str
    hay: Haystack
    plan: Plan
    lengths: Sequence[int] | None = None

    def cells(self, subject: Subject) -> Iterator[Cell]:
        """Yield a cell for each length and depth; one without room for the probe is left out."""
        self._require_answerable(subject)
        lengths = sorted(set(self.lengths or subject.lengths))
        if self.name == POSITIONS:
            yield self._cell(lengths[-1], None)
            return
        deep = self.name in ("copy", "segment") or (self.name in KINDS and KINDS[self.name].deep)
        for length in lengths:
            for depth in self.plan.depths if deep else [None]:
                yield self._cell(length, depth)

    def _cell(self, length: int, depth: float | None) -> Cell:
        plan, texts = self.plan, self.hay.texts
        place = "" if depth is None else f", depth {depth:g}"
        numbers = [plan.trials, plan.candidates, sorted(plan.scoring), plan.seed]
        cut = texts.segmenter.fingerprint()
        digits = key_of([numbers, cut, self.hay.data.manifest])[:8]
        return Cell(
            name=f"in {self.hay.name} at {length} tokens{place}",
            length=length,
            depends_on=[self.name, length, depth, numbers, cut, self.hay.data.manifest],
            measurement=f"{counted(plan.trials, 'trial')} in {self.hay.name} [{digits}]",
            cost=plan.trials * length,
            measure=partial(self.rows, length=length, depth=depth),
        )

    def rows(self, model: Decoder, *, length: int, depth: float | None) -> list[Row]:
        """Return the means over the trials of a length and depth, and each trial."""
        row = partial(Row, task=self.name, source=self.hay.name, length=length, depth=depth)
        draws = self._draws(length, depth)
        if self.name == POSITIONS:
            return list(self._positions(model, draws, row))
        make: Callable[..., Trial | Repeat | None]
        if self.name in COPIES:
            make = COPIES[self.name]
        else:
            make = partial(trial, KINDS[self.name], candidates=self.plan.candidates)
        trials = [make(self.hay, length=length, depth=depth, draw=draw) for draw in draws]
        possible = [drawn for drawn in trials if drawn is not None]
        if len(possible) < len(trials):
            return left_out(f"{length} tokens have no room for it", **row.keywords)
        size = max(1, self.plan.tokens_per_batch // length)
        batches = [possible[start : start + size] for start in range(0, len(possible), size)]
        scores = [score for batch in batches for score in self._scores(model, batch)]
        first = possible[0]
        chance = float(first.right.sum() / len(first.right)) if isinstance(first, Trial) else None
        return list(self._rows(possible, scores, chance, row))

    def _draws(self, length: int, depth: float | None) -> list[Draw]:
        key: list[int | str] = [self.plan.seed, self.name, length]
        if self.name != POSITIONS:
            key.append(-1 if depth is None else round(1000 * depth))
        return [Draw(*key, number) for number in range(self.plan.trials)]

    def _scores(self, model: Decoder, batch: list[Any]) -> list[dict[str, float | str]]:
        if self.name in COPIES:
            return [dict(score) for score in answers.copied(model, batch)]
        scores: list[dict[str, float | str]] = [{} for _ in batch]
        if "rank" in self.plan.scoring:
            for score, share in zip(scores, answers.shares_found(model, batch), strict=True):
                score["accuracy"] = share
        if "write" in self.plan.scoring:
            kind, texts = KINDS[self.name], self.hay.texts
            wrote = answers.matches(model, batch, kind=kind, texts=texts)
            for score, (share, text) in zip(scores, wrote, strict=True):
                score |= {"written": share, "text": text}
        return scores

    def _rows(
        self,
        trials: Sequence[Trial | Repeat],
        scores: list[dict[str, float | str]],
        chance: float | None,
        row: partial[Row],
    ) -> Iterator[Row]:
        note = self._protocol(trials[0], chance)
        texts = [str(score.pop("text", "")) for score in scores]
        for item, score in zip(trials, scores, strict=True):
            score["distance_tokens"] = item.distance_tokens
            score["distance_segments"] = item.distance_segments
        for name in scores[0]:
            unit = _UNITS.get(name, "share")
            values = [float(score[name]) for score in scores]
            about = "" if name.startswith("distance") else note
            yield row(measure=name, unit=unit, value=fmean(values), note=about)
            for number, value in enumerate(values):
                yield row(measure=f"trial_{name}", unit=unit, number=number, value=value,
                         note=texts[number] if name == "written" else "")  # fmt: skip
        if chance is not None:
            yield row(measure="chance", unit="share", value=chance)
        yield row(measure="trials", unit="trials", value=len(trials))

    def _positions(self, model: Decoder, draws: list[Draw], row: partial[Row]) -> Iterator[Row]:
        length = row.keywords["length"]
        opening = self.hay.texts.tokenizer.opening
        taken = [self.hay.take(draw, length - len(opening))[0] for draw in draws]
        texts = [np.concatenate([opening, ids]) for ids in taken]
        marks = [self.hay.texts.marks(ids) for ids in texts]
        rows = max(1, self.plan.tokens_per_batch // length)
        over = f"{counted(len(draws), 'text')} of {self.hay.name}"
        note = f"{_TASKS[POSITIONS]} Means in octaves over {over}."
        octaves = answers.by_position(model, texts, marks, rows=rows)
        for level, start, stop, nll, tokens in octaves:
            octave = partial(row, start=start, stop=stop)
            yield octave(measure=f"nll_by_{level}", unit="nats/token", value=nll, note=note)
            yield octave(measure=f"tokens_by_{level}", unit="tokens", value=tokens)

    def _protocol(self, one: Trial | Repeat, chance: float | None) -> str:
        if isinstance(one, Repeat):
            how = f"{_TASKS[self.name]} {_COPIED}"
        else:
            kind = KINDS[self.name]
            how = f"{kind.task} {self._scored(kind, len(one.right), chance)}"
        again = ", repeated to fill longer contexts" * (len(self.hay) < len(one.tokens))
        return (
            f"{how}. Held-out text: {self.hay.name}{again}; "
            f"{counted(self.plan.trials, 'trial')} per length and depth; segmented like the data."
        )

    def _scored(self, kind: Kind, candidates: int, chance: float | None) -> str:
        rules = []
        if "rank" in self.plan.scoring:
            rules.append(_RANKED.format(candidates=candidates, chance=chance))
        if "write" in self.plan.scoring:
            rule = "one answer is enough" if kind.any_of else "share of the answers"
            rules.append(_WRITTEN.format(max_new=kind.max_new, rule=rule))
        return "; ".join(rules)

    def _require_answerable(self, subject: Subject) -> None:
        """Refuse, before anything is measured, a probe that cannot be answered at any length."""
        kind = KINDS.get(self.name)
        if kind is None:
            return
        if "write" in self.plan.scoring and subject.run.bilevel:
            answers.followed(self.hay.texts)
        texts = self.hay.texts
        room = Room(tokens=4096, count=texts.count, candidates=self.plan.candidates)
        draft = kind.draft(Draw("answerable"), room)
        if draft is None:
            return
        spelt = {ids.tobytes() for ids in texts.answers(draft.question, draft.candidates)}
        if len(spelt) < len(draft.candidates) or b"" in spelt:
            raise DataError(
                f"evaluate.probes: {self.name} does not work with the tokenizer of this data, "
                f"which encodes different answers as the same tokens, such as "
                f"{draft.candidates[0].strip()}; remove it: evaluate.probes=[]"
            )
