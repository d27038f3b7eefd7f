"""Perplexity by the length of the context, under one protocol."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bipe import Decoder
from train.evals.intervals import over_documents
from train.evals.loop import Cell, Measurement, Subject
from train.evals.perplexity.losses import score
from train.evals.perplexity.protocols import Choice, FullContext, Losses, Protocol
from train.evals.rows import Row, left_out
from train.evals.texts import Excerpts

BINS = 32
_LARGEST = 700.0  # nats whose exponential a float still holds


def perplexity(nll: float) -> float:
    """Return exp of a mean loss in nats; infinite where a float cannot hold it."""
    return math.inf if nll >= _LARGEST else math.exp(nll)


@dataclass(frozen=True, kw_only=True)
class Perplexity(Measurement):
    """Perplexity on at most `documents` of each source. tokens_per_batch: read at once."""

    choice: Choice
    documents: int
    tokens_per_batch: int

    def cells(self, subject: Subject) -> Iterator[Cell]:
        """Yield a cell for each source and length; lengths beyond the documents are left out."""
        for source in subject.held_out.splits:
            excerpts = subject.held_out.excerpts(
                source, lengths=subject.lengths, limit=self.documents
            )
            longest = excerpts.tokens.shape[1]
            whole = self.choice.protocol == FullContext.name
            for length in [longest] if whole else sorted(subject.lengths):
                yield self._cell(subject, source, length, excerpts)

    def _cell(self, subject: Subject, source: str, length: int, excerpts: Excerpts) -> Cell:
        name = f"of {source} at {length} tokens"
        of: dict[str, Any] = {"source": source, "length": length}
        if length > excerpts.tokens.shape[1]:
            reason = f"no document has {length} tokens"
            on = [excerpts.fingerprint, reason]
            return Cell(name=name, depends_on=on, measure=left_out(reason, **of))
        protocol = self.choice.at(length, row_length=subject.row_length)
        windows = protocol.windows(excerpts.stream.ends.tolist())
        return Cell(
            name=name,
            length=length,
            depends_on=[excerpts.fingerprint, repr(protocol)],
            cost=sum(window.stop - window.start for window in windows),
            measure=partial(self.rows, excerpts, protocol, partial(Row, **of)),
        )

    def rows(
        self, excerpts: Excerpts, protocol: Protocol, of: partial[Row], model: Decoder
    ) -> list[Row]:
        """Return perplexity, losses by document and, at the longest length, losses by position."""
        batch = self.tokens_per_batch
        losses = score(model, excerpts.stream, protocol, tokens_per_batch=batch)
        sums, tokens = losses.by(losses.document, count=len(excerpts.tokens))
        between = over_documents(sums, tokens)
        low, high = (None, None) if between is None else map(perplexity, between)
        longest, mean = excerpts.tokens.shape[1], losses.mean()
        note = (
            f"{protocol.name}: {protocol.definition} Read are the first {longest} tokens of each "
            "of the held-out documents; perplexity is exp of the mean over scored tokens."
        )
        bits = mean / math.log(2) * excerpts.tokens.size / excerpts.bytes
        scored = int(losses.scored.sum())
        found = [
            of(measure="perplexity", value=perplexity(mean), low=low, high=high, note=note),
            of(measure="nll", unit="nats/token", value=mean, note=note),
            of(measure="bits_per_byte", unit="bits/byte", value=bits, note=note),
            of(measure="tokens_scored", unit="tokens", value=scored),
            of(measure="documents", unit="documents", value=len(excerpts.tokens)),
        ]
        for name, average in protocol.averages(losses).items():
            found.append(of(measure=f"published_{name}", value=perplexity(average), note=note))
        for number, (nll, count) in enumerate(zip(sums.tolist(), tokens.tolist(), strict=True)):
            found.append(of(measure="document_nll", unit="nats", number=number, value=nll))
            found.append(of(measure="document_tokens", unit="tokens", number=number, value=count))
        if of.keywords["length"] == longest:
            found += _by_position(losses, excerpts, of)
        return found


def _by_position(losses: Losses, excerpts: Excerpts, of: partial[Row]) -> Iterator[Row]:
    """Yield mean losses in equal bins of the position in the document."""
    shape = excerpts.tokens.shape
    nll, scored = losses.nll.reshape(shape), losses.scored.reshape(shape)
    edges = np.unique(np.linspace(0, shape[1], min(BINS, shape[1]) + 1).astype(int)).tolist()
    for start, stop in itertools.pairwise(edges):
        inside = nll[:, start:stop][scored[:, start:stop]]
        mean = float(inside.mean()) if inside.size else None
        bin_ = partial(of, start=start, stop=stop)
        yield bin_(measure="nll_by_position", unit="nats/token", value=mean)
        yield bin_(measure="tokens_by_position", unit="tokens", value=int(inside.size))
