"""Perplexity by the length of the context, under one protocol, on texts of any length.

Rows are read in one pass, or chunk by chunk through a cache: memory is that of the keys and values
of a row, and of one chunk of everything else. A window is the beginning of every longer one that
starts with it, so the longest length is read first, and of each shorter one only half is read.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
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
from train.evals.perplexity.protocols import (
    Choice,
    FullContext,
    Losses,
    Protocol,
    Sliding,
    Window,
    Windows,
)
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
            lengths = {longest} if whole else {*subject.lengths, min(longest, *subject.lengths)}
            for length in sorted(lengths, reverse=True):
                protocol = self.choice.at(length, row_length=subject.row_length)
                of = partial(Row, source=source, length=length)
                yield self._cell(protocol, of, excerpts, seen)

    def _cell(self, protocol: Protocol, of: partial[Row], excerpts: Excerpts, seen: Seen) -> Cell:
        length = of.keywords["length"]
        name = f"of {of.keywords['source']} at {length} tokens"
        measurement = f"{protocol.identity}, {excerpts.identity}"
        if length > excerpts.tokens.shape[1]:
            reason = f"no document has {length} tokens"
            on, rows = [excerpts.fingerprint, reason], left_out(reason, **of.keywords)
            return Cell(name=name, depends_on=on, measure=rows, measurement=measurement)
        windows = protocol.windows(excerpts.stream.ends.tolist())
        return Cell(
            name=name,
            length=length,
            measurement=measurement,
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
        earlier, batch = seen.setdefault(model, {}), self.tokens_per_batch
        losses = score(model, excerpts.stream, protocol, tokens_per_batch=batch, earlier=earlier)
        sums, tokens = losses.by(losses.document, count=len(excerpts.tokens))
        low, high = map(perplexity, over_documents(sums, tokens))
        longest, mean = excerpts.tokens.shape[1], losses.mean()
        note = (
            f"{protocol.name}: {protocol.definition} Text: the first {longest} tokens of each "
            "held-out document; perplexity is exp of the mean loss of scored tokens."
        )
        bits = mean / math.log(2) * excerpts.tokens.size / excerpts.bytes
        scored = int(losses.scored.sum())
        rows = [
            of(measure="perplexity", value=perplexity(mean), low=low, high=high, note=note),
            of(measure="nll", unit="nats/token", value=mean, note=note),
            of(measure="bits_per_byte", unit="bits/byte", value=bits, note=note),
            of(measure="tokens_scored", unit="tokens", value=scored),
            of(measure="documents", unit="documents", value=len(excerpts.tokens)),
        ]
        rows += [of(measure=f"as_averaged_by_{name}", value=perplexity(average), note=note)
                 for name, average in protocol.averages(losses).items()]  # fmt: skip
        for number, (nll, count) in enumerate(zip(sums.tolist(), tokens.tolist(), strict=True)):
            rows.append(of(measure="document_nll", unit="nats", number=number, value=nll))
            rows.append(of(measure="document_tokens", unit="tokens", number=number, value=count))
        if of.keywords["length"] == longest:
            rows += _by_position(losses, excerpts, of)
        return rows


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
    earlier: Known | None = None,
) -> Losses:
    """Read the windows of a protocol, those of one shape in batches, and score their tokens.

    earlier: losses of this model on this stream, not read again; new ones are added.
    """
    if earlier is None or counts_length(model.scheme):  # the end of a window then changes its start
        earlier = {}
    windows = protocol.windows(stream.ends.tolist())
    spared = protocol.spares(stream.place)
    nll = np.zeros(len(stream.tokens))
    window = np.full(len(stream.tokens), -1)
    shapes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, item in enumerate(windows):
        if _losses_of(item, earlier, protocol.start_token) is None:
            shapes[item.stop - item.start, item.first - item.start].append(index)
    for (size, _), members in shapes.items():
        rows = max(1, tokens_per_batch // size)
        for begin in range(0, len(members), rows):
            batch = [windows[index] for index in members[begin : begin + rows]]
            batch_losses = _batch(model, stream, batch, protocol.start_token, one_pass)
            for item, losses in zip(batch, batch_losses, strict=True):
                earlier[item.start] = item.stop - len(losses), losses
    for index, item in enumerate(windows):
        losses = _losses_of(item, earlier, protocol.start_token)
        assert losses is not None
        inside = slice(item.stop - len(losses), item.stop)
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
    tokens = np.stack([stream.tokens[item.start : item.stop] for item in batch]).astype(np.int64)
    marks = np.stack([stream.marks[item.start : item.stop] for item in batch])
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


CONTEXT = 4096  # tokens of the paper's short context; half a training row if that is less


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """Another run that decides which tokens are key. sha256: of its weights."""

    name: str
    sha256: str
    load: Callable[[], Decoder]


@dataclass(frozen=True, kw_only=True)
class LongPPL(Measurement):
    """Perplexity over the tokens that a long context helps (Fang et al., 2410.23771, eq. 5).

        gain = log p(token | long context) - log p(token | short context)
        key  = gain > alpha and log p(token | long context) > beta
        long_ppl = exp(mean over key tokens of -log p(token | long context))

    The evaluator, the model itself or another run, decides which tokens are key; the model gives
    the losses. Long contexts are windows that do not overlap; a short one is the last `context`
    tokens of it or up to a quarter more, since one pass scores that many. documents: of each
    source, at most. alpha, beta: in nats. context: in tokens.
    """

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
        by = "each model" if self.evaluator is None else self.evaluator.name
        how = f"alpha {self.alpha:g}, beta {self.beta:g}, context {context}, keys by {by}"
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
                    measurement=f"{how}, {excerpts.identity}",
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
        ends = [window.stop for window in _long(length).windows(whole.ends.tolist())]
        inner = replace(whole, ends=np.array(ends))
        short = score(judge, inner, sliding, tokens_per_batch=self.tokens_per_batch)
        gains = short.nll - long.nll > self.alpha
        return np.asarray(gains & (-long.nll > self.beta) & long.scored & short.scored)

    def _losses(self, model: Decoder, excerpts: Excerpts, length: int) -> Losses:
        batch = self.tokens_per_batch
        return score(model, excerpts.stream, _long(length), tokens_per_batch=batch)


def _long(length: int) -> Windows:
    return Windows(length=length, row_length=length)
