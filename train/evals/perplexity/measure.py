"""Perplexity by the length of the context, under one protocol, on texts of any length.

Rows are read in one pass, or chunk by chunk through a cache: memory is that of the keys and values
of a row, and of one chunk of everything else. A window is the beginning of every longer one that
starts with it, so the longest length is read first, and of each shorter one only half is read.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from bipe import Cache, Decoder, Positions
from bipe.encodings.base import counts_length
from bipe.loss import token_nll
from bipe.positions import DOCUMENT_BIT, SEGMENT_BIT, Lengths
from train.evals.loop import Cell, Measurement, Subject
from train.evals.perplexity.protocols import Choice, FullContext, Losses, Protocol, Window
from train.evals.rows import Row, left_out, over_documents
from train.evals.texts import Excerpts, Stream

BINS = 32
_LARGEST = 700.0  # nats whose exponential a float still holds
# By the start of a window: the first token that was scored, and the losses from it on.
Known = dict[int, tuple[int, np.ndarray]]
Seen = WeakKeyDictionary[Decoder, Known]


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
            seen: Seen = WeakKeyDictionary()
            asked = {longest} if whole else {*subject.lengths, min(longest, *subject.lengths)}
            for length in sorted(asked, reverse=True):
                protocol = self.choice.at(length, row_length=subject.row_length)
                of = partial(Row, source=source, length=length)
                yield self._cell(protocol, of, excerpts, seen)

    def _cell(self, protocol: Protocol, of: partial[Row], excerpts: Excerpts, seen: Seen) -> Cell:
        length = of.keywords["length"]
        name = f"of {of.keywords['source']} at {length} tokens"
        if length > excerpts.tokens.shape[1]:
            reason = f"no document has {length} tokens"
            on = [excerpts.fingerprint, reason]
            return Cell(name=name, depends_on=on, measure=left_out(reason, **of.keywords))
        windows = protocol.windows(excerpts.stream.ends.tolist())
        return Cell(
            name=name,
            length=length,
            depends_on=[excerpts.fingerprint, repr(protocol)],
            cost=sum(window.stop - window.start for window in windows),
            measure=partial(self.rows, excerpts, protocol, of, seen),
        )

    def rows(
        self,
        excerpts: Excerpts,
        protocol: Protocol,
        of: partial[Row],
        seen: Seen,
        model: Decoder,
    ) -> list[Row]:
        """Return perplexity, losses by document and, at the longest length, losses by position."""
        known, batch = seen.setdefault(model, {}), self.tokens_per_batch
        losses = score(model, excerpts.stream, protocol, tokens_per_batch=batch, known=known)
        sums, tokens = losses.by(losses.document, count=len(excerpts.tokens))
        low, high = map(perplexity, over_documents(sums, tokens))
        longest, mean = excerpts.tokens.shape[1], losses.mean()
        note = (
            f"{protocol.name}: {protocol.definition} Text: the first {longest} tokens of each "
            "held-out document; perplexity is exp of the mean loss of scored tokens."
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
        found += [of(measure=f"published_{name}", value=perplexity(average), note=note)
                  for name, average in protocol.averages(losses).items()]  # fmt: skip
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


# Tokens of a row that are read in one pass; longer rows are read in chunks.
ONE_PASS, CHUNK = 16384, 1024
LEVELS = ("token", "inter", "intra")


def score(
    model: Decoder,
    stream: Stream,
    protocol: Protocol,
    *,
    tokens_per_batch: int,
    one_pass: int = ONE_PASS,
    known: Known | None = None,
) -> Losses:
    """Read the windows of a protocol, those of one shape in batches, and score their tokens.

    known: losses of this model on this stream, not read again; new ones are added.
    """
    if known is None or counts_length(model.scheme):  # the end of a window then changes its start
        known = {}
    windows = protocol.windows(stream.ends.tolist())
    spared = protocol.spares(stream.place)
    nll = np.zeros(len(stream.tokens))
    window = np.full(len(stream.tokens), -1)
    shapes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, one in enumerate(windows):
        if _losses_of(one, known, protocol.start_token) is None:
            shapes[one.stop - one.start, one.first - one.start].append(index)
    for (size, _), members in shapes.items():
        rows = max(1, tokens_per_batch // size)
        for begin in range(0, len(members), rows):
            batch = [windows[index] for index in members[begin : begin + rows]]
            found = _batch(model, stream, batch, protocol.start_token, one_pass)
            for one, losses in zip(batch, found, strict=True):
                known[one.start] = one.stop - len(losses), losses
    for index, one in enumerate(windows):
        losses = _losses_of(one, known, protocol.start_token)
        assert losses is not None
        inside = slice(one.stop - len(losses), one.stop)
        kept = ~spared[inside]
        nll[inside][kept], window[inside][kept] = losses[kept], index
    return Losses(nll=nll, window=window, document=stream.document)


def _losses_of(one: Window, known: Known, start_token: int | None) -> np.ndarray | None:
    """Return the losses of a window, or None if they must be read."""
    begin, losses = known.get(one.start, (one.stop, np.zeros(0)))
    # Nothing predicts the first token of a window without a start token.
    first = max(one.first, one.start + (start_token is None))
    if begin > first or begin + len(losses) < one.stop:
        return None
    return losses[first - begin : one.stop - begin]


def _batch(
    model: Decoder,
    stream: Stream,
    batch: Sequence[Window],
    start_token: int | None,
    one_pass: int,
) -> np.ndarray:
    """Return the losses of windows of one shape, ``(window, scored)``."""
    tokens = np.stack([stream.tokens[one.start : one.stop] for one in batch]).astype(np.int64)
    marks = np.stack([stream.marks[one.start : one.stop] for one in batch])
    first = batch[0].first - batch[0].start
    if start_token is not None:
        tokens = np.pad(tokens, ((0, 0), (1, 0)), constant_values=start_token)
        # The start token opens the first segment, which the first token of the text continues.
        marks = np.pad(marks, ((0, 0), (1, 0)), constant_values=1 << SEGMENT_BIT)
        marks[:, 1] = 0
        first += 1
    device = model.head.weight.device
    losses = token_losses(
        model,
        torch.from_numpy(tokens).to(device),
        torch.from_numpy(marks).to(device),
        first=max(1, first),  # nothing predicts the first token of a window without a start token
        one_pass=one_pass,
    )
    return losses.cpu().double().numpy()


def token_losses(
    model: Decoder,
    tokens: Int[Tensor, "batch time"],
    marks: UInt8[Tensor, "batch time"],
    *,
    first: int = 1,
    one_pass: int = ONE_PASS,
    chunk: int = CHUNK,
) -> Float[Tensor, "batch scored"]:
    """Return the loss in nats of each token from `first` (at least 1) on, given all before it."""
    time, losses = tokens.shape[1], []
    for start, hidden in hidden_states(model, tokens, marks, one_pass=one_pass, chunk=chunk):
        low, high = max(first, start + 1), min(start + hidden.shape[1] + 1, time)
        if low < high:
            behind = hidden[:, low - 1 - start : high - 1 - start]
            targets = tokens[:, low:high]
            nll = token_nll(behind.flatten(0, 1), model.head.weight, targets.flatten())
            losses.append(nll.view_as(targets))
    return torch.cat(losses, 1) if losses else torch.zeros(len(tokens), 0)


@torch.no_grad()
def hidden_states(
    model: Decoder,
    tokens: Int[Tensor, "batch time"],
    marks: UInt8[Tensor, "batch time"],
    *,
    one_pass: int = ONE_PASS,
    chunk: int = CHUNK,
) -> Iterator[tuple[int, Float[Tensor, "batch part width"]]]:
    """Yield where each part of the rows starts, and the hidden states of its tokens, in order.

    A row is read as one document, whatever its marks say. chunk: tokens per part of long rows. A
    dynamic stretch gets the lengths of the whole row first, so chunks are rotated as in one pass.
    """
    marks = marks & ~(1 << DOCUMENT_BIT) & 0xFF
    at = Positions.from_marks(marks, packed=False, levels=model.levels)
    batch, time = tokens.shape
    if time <= one_pass:
        yield 0, model(tokens, at)
        return
    lengths = Lengths(**{name: getattr(at, name).amax(-1) + 1 for name in LEVELS})
    cache = Cache(batch=batch, capacity=time, lengths=lengths)
    for start in range(0, time, chunk):
        part = slice(start, start + chunk)
        yield start, model(tokens[:, part], at[part], cache=cache)
