"""Copying: tokens that came once in the context can be predicted when they come again.

    induction   A B C ... A B C ...    random tokens twice: the second time, each can be known
    copy        hay  A B C  hay  A B C   a few random tokens at a depth, and at the end again

Tokens are drawn from the vocabulary, so that only the context predicts them (Olsson et al.,
2209.11895). The first tokens of the second copy show what is repeated, and are not scored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from bipe import Decoder, Positions
from bipe.positions import DOCUMENT_BIT
from train.evals.perplexity.measure import hidden_states
from train.evals.probes.answers import CHUNK
from train.evals.probes.draws import Draw
from train.evals.probes.haystack import Haystack, Texts

BLOCK = 32  # tokens of what is copied
CUE = 2  # tokens of the second copy that show what comes


@dataclass(frozen=True, slots=True)
class Repeat:
    """Two copies in a context. tokens: int64, marks: uint8 [length]; first, second: starts."""

    tokens: np.ndarray
    marks: np.ndarray
    first: int
    second: int
    size: int

    @property
    def distance_tokens(self) -> int:
        return self.second - self.first

    @property
    def distance_segments(self) -> int:
        segment = np.cumsum(self.marks >> 1 & 1)
        return int(segment[self.second] - segment[self.first])


def induction(hay: Haystack, *, length: int, depth: float | None, draw: Draw) -> Repeat | None:
    """Return random tokens that fill half of the context, twice; None without room."""
    texts, opening = hay.texts, hay.texts.tokenizer.opening
    size, rest = divmod(length - len(opening), 2)
    if size <= CUE:
        return None
    block = _random(texts, size, draw)
    tokens = np.concatenate([opening, _random(texts, rest, draw), block, block])
    return Repeat(tokens, texts.marks(tokens), length - 2 * size, length - size, size)


def copy(hay: Haystack, *, length: int, depth: float | None, draw: Draw) -> Repeat | None:
    """Return a block at `depth` of held-out text, and again at the end; None without room."""
    texts, opening = hay.texts, hay.texts.tokenizer.opening
    room = length - 2 * BLOCK - len(opening)
    if room < 0:
        return None
    block = _random(texts, BLOCK, draw)
    text, starts = hay.take(draw, room)
    place = int(starts[np.abs(starts - (depth or 0.0) * room).argmin()])
    tokens = np.concatenate([opening, text[:place], block, text[place:], block])
    return Repeat(tokens, texts.marks(tokens), len(opening) + place, length - BLOCK, BLOCK)


def _random(texts: Texts, count: int, draw: Draw) -> np.ndarray:
    """Draw tokens that have some text, all with the same probability."""
    known = texts.telling
    return known[[draw.below(len(known)) for _ in range(count)]] if count else known[:0]


def copied(
    model: Decoder, repeats: Sequence[Repeat], *, chunk: int = CHUNK
) -> list[dict[str, float]]:
    """Return the mean losses of both copies in nats per token, and the accuracy on the second."""
    tokens = np.stack([each.tokens for each in repeats])
    losses, right = losses_through(model, tokens, np.stack([r.marks for r in repeats]), chunk=chunk)
    found = []
    for row, known, each in zip(losses, right, repeats, strict=True):
        once, again = (slice(at + CUE, at + each.size) for at in (each.first, each.second))
        means = {"accuracy": known[again], "first": row[once], "second": row[again]}
        found.append({name: float(values.mean()) for name, values in means.items()})
    return found


@torch.no_grad()
def losses_through(
    model: Decoder, tokens: np.ndarray, marks: np.ndarray, *, chunk: int = CHUNK
) -> tuple[np.ndarray, np.ndarray]:
    """Return losses in nats (first token: 0) and whether argmax is right, ``(row, time)`` each."""
    device = model.head.weight.device
    ids = torch.from_numpy(tokens).to(device)
    losses, right = np.zeros(tokens.shape), np.zeros(tokens.shape, dtype=bool)
    cuts, following = torch.from_numpy(marks).to(device), torch.roll(ids, -1, 1)
    for start, hidden in hidden_states(model, ids, cuts, one_pass=0, chunk=chunk):
        wanted = following[:, start : start + hidden.shape[1]]
        logits = model.head(hidden).float()
        loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), wanted, reduction="none")
        behind = slice(start + 1, start + 1 + hidden.shape[1])  # the last token predicts nothing
        count = losses[:, behind].shape[1]
        losses[:, behind] = loss[:, :count].double().cpu().numpy()
        right[:, behind] = (logits.argmax(-1) == wanted)[:, :count].cpu().numpy()
    return losses, right


LEVELS = ("token", "inter", "intra")


class Octave(NamedTuple):
    """Mean loss in nats of the tokens whose id at a level is from `start` to `stop` - 1."""

    level: str
    start: int
    stop: int
    nll: float | None
    tokens: int


def by_position(
    model: Decoder,
    texts: Sequence[np.ndarray],
    marks: Sequence[np.ndarray],
    *,
    rows: int,
    chunk: int = CHUNK,
) -> Iterator[Octave]:
    """Yield the loss in octaves of the token's ids at each level.

    A model that uses distant context keeps improving along the first two levels; the third shows
    what the start of a segment costs, where only the inter level distinguishes tokens.
    """
    sums = {level: np.zeros(64) for level in LEVELS}
    counts = {level: np.zeros(64, np.int64) for level in LEVELS}
    for first in range(0, len(texts), rows):
        cuts = np.stack(marks[first : first + rows]) & ~np.uint8(1 << DOCUMENT_BIT)
        losses, _ = losses_through(model, np.stack(texts[first : first + rows]), cuts, chunk=chunk)
        at = Positions.from_marks(torch.from_numpy(cuts), packed=False)
        for level in LEVELS:
            # 0 | 1 | 2 3 | 4 .. 7 | ...: the first token of a text is not scored
            bins = np.frexp(getattr(at, level).numpy()[:, 1:])[1].ravel()
            sums[level] += np.bincount(bins, losses[:, 1:].ravel(), 64)
            counts[level] += np.bincount(bins, minlength=64)
    for level in LEVELS:
        for power in range(int(np.flatnonzero(counts[level])[-1]) + 1):
            inside = int(counts[level][power])
            mean = float(sums[level][power] / inside) if inside else None
            yield Octave(level, 2 ** (power - 1) if power else 0, 2**power, mean, inside)
