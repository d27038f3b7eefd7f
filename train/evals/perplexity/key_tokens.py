"""LongPPL: perplexity over the tokens that a long context helps (Fang et al., 2410.23771, eq. 5).

    gain = log p(token | long context) - log p(token | short context)
    key  = gain > alpha and log p(token | long context) > beta
    long_ppl = exp(mean over key tokens of -log p(token | long context))

The evaluator, the model itself or another run, decides which tokens are key; the model gives the
losses. Long contexts are windows that do not overlap; a short one is the last `context` tokens of
it or up to a quarter more, since one pass scores that many.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from bipe import Decoder
from train.evals.loop import Cell, Measurement, Subject
from train.evals.perplexity.measure import perplexity, score
from train.evals.perplexity.protocols import Losses, Sliding, Windows
from train.evals.rows import Row, left_out, over_documents
from train.evals.texts import Excerpts

CONTEXT = 4096  # tokens of the paper's short context; half a training row if that is less


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """Another run that decides which tokens are key. sha256: of its weights."""

    name: str
    sha256: str
    load: Callable[[], Decoder]


@dataclass(frozen=True, kw_only=True)
class LongPPL(Measurement):
    """LongPPL on at most `documents` of each source; alpha, beta in nats, context in tokens."""

    alpha: float
    beta: float
    context: int | None
    evaluator: Evaluator | None
    documents: int
    tokens_per_batch: int
    _keys: dict[Any, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    def cells(self, subject: Subject) -> Iterator[Cell]:
        """Yield a cell for each source and length; lengths without a longer context are not."""
        context = self.context or min(CONTEXT, max(1, subject.row_length // 2))
        other = None if self.evaluator is None else self.evaluator.sha256
        for source in subject.held_out.splits:
            excerpts = subject.held_out.excerpts(
                source, lengths=subject.lengths, limit=self.documents
            )
            for length in subject.lengths:
                of = partial(Row, source=source, length=length)
                on = [excerpts.fingerprint, context, self.alpha, self.beta, other]
                reason = ""
                if length > excerpts.tokens.shape[1]:
                    reason = f"no document has {length} tokens"
                elif length <= context:
                    reason = f"{length} tokens are no longer than the short context of {context}"
                rows = partial(self.rows, excerpts, context, of)
                yield Cell(
                    name=f"of {source} at {length} tokens",
                    length=length,
                    depends_on=[*on, reason],
                    cost=0 if reason else 6 * excerpts.tokens.size,  # a short one: 5 strides
                    measure=left_out(reason, **of.keywords) if reason else rows,
                )

    def rows(self, excerpts: Excerpts, context: int, of: partial[Row], model: Decoder) -> list[Row]:
        """Return LongPPL, and how many tokens are key; none, and it has no value."""
        length = of.keywords["length"]
        long = self._losses(model, excerpts, length)
        key = self._key(model, excerpts, context, length, long)
        kept = Losses(nll=long.nll, window=np.where(key, long.window, -1), document=long.document)
        sums, tokens = kept.by(kept.document, count=len(excerpts.tokens))
        low, high = map(perplexity, over_documents(sums, tokens))
        by = "the model itself" if self.evaluator is None else self.evaluator.name
        note = (
            "LongPPL (2410.23771): exp of the mean loss of key tokens in non-overlapping windows "
            f"of {length} tokens. Key tokens have a log-probability above {self.beta:g} under "
            f"{by}, at least {self.alpha:g} nats higher than with {context} to "
            f"{context + context // 4} tokens of context."
        )
        value = perplexity(kept.mean()) if key.any() else None
        share = float(key.sum() / max(1, long.scored.sum()))
        return [
            of(measure="long_ppl", value=value, low=low, high=high, note=note),
            of(measure="key_tokens", unit="share", value=share, note=note),
        ]

    def _key(
        self, model: Decoder, excerpts: Excerpts, context: int, length: int, long: Losses
    ) -> np.ndarray:
        """Return which tokens are key; those of another run are found once."""
        place = (excerpts.fingerprint, context, length)
        if self.evaluator is None:
            return self._found(model, excerpts, context, length, long)
        if place not in self._keys:
            judge = self.evaluator.load().to(model.head.weight.device)
            its = self._losses(judge, excerpts, length)
            self._keys[place] = self._found(judge, excerpts, context, length, its)
        return self._keys[place]

    def _found(
        self, judge: Decoder, excerpts: Excerpts, context: int, length: int, long: Losses
    ) -> np.ndarray:
        stride = max(1, context // 4)
        whole, sliding = excerpts.stream, Sliding(length=context + stride, stride=stride)
        # The short windows lie within the long ones, as if each of those were a document.
        ends = [each.stop for each in _long(length).windows(whole.ends.tolist())]
        inner = replace(whole, ends=np.array(ends))
        short = score(judge, inner, sliding, tokens_per_batch=self.tokens_per_batch)
        gains = short.nll - long.nll > self.alpha
        return np.asarray(gains & (-long.nll > self.beta) & long.scored & short.scored)

    def _losses(self, model: Decoder, excerpts: Excerpts, length: int) -> Losses:
        batch = self.tokens_per_batch
        return score(model, excerpts.stream, _long(length), tokens_per_batch=batch)


def _long(length: int) -> Windows:
    return Windows(length=length, row_length=length)
