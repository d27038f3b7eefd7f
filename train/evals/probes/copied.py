"""Copying: what stood once in the context and comes again is known from then on.

    induction   A B C ... A B C ...    random tokens twice: the second time, each can be known
    copy        hay  A B C  hay  A B C   a few random tokens at a depth, and at the end again

Tokens are drawn from the vocabulary, so that nothing but the context tells them (Olsson et al.,
2209.11895). Scored are the second appearances but for their first tokens, which say what is
repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bipe import Decoder
from train.evals.probes.draw import Draw
from train.evals.probes.haystack import Haystack
from train.evals.probes.rank import CHUNK, filled_cache
from train.evals.probes.text import Texts

BLOCK = 32  # tokens of what is copied
CUE = 2  # tokens of a second appearance that say what comes


@dataclass(frozen=True, slots=True)
class Repeat:
    """tokens: int64 [length]. marks: uint8 [length]. first, second: where the copies begin."""

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


@dataclass(frozen=True, slots=True)
class Copied:
    """Losses in nats a token of both appearances, and the share of the second that is right."""

    first: float
    second: float
    accuracy: float


def induction(
    hay: Haystack, texts: Texts, *, length: int, depth: float | None, draw: Draw
) -> Repeat | None:
    """Half of the context, twice."""
    del hay, depth
    size = length // 2
    if size <= CUE:
        return None
    block = _random(texts, size, draw)
    tokens = np.concatenate([_random(texts, length % 2, draw), block, block])
    return Repeat(tokens, texts.marks(tokens), length % 2, length % 2 + size, size)


def copy(
    hay: Haystack, texts: Texts, *, length: int, depth: float | None, draw: Draw
) -> Repeat | None:
    """A block at `depth` of held-out text, and again at the end."""
    room = length - 2 * BLOCK
    if room < 0:
        return None
    block = _random(texts, BLOCK, draw)
    text, starts = hay.take(draw, room)
    place = int(starts[np.abs(starts - (depth or 0.0) * room).argmin()])
    tokens = np.concatenate([text[:place], block, text[place:], block])
    return Repeat(tokens, texts.marks(tokens), place, length - BLOCK, BLOCK)


def _random(texts: Texts, count: int, draw: Draw) -> np.ndarray:
    """Tokens that stand for some text, each as likely as the others."""
    known = texts.telling
    return known[[draw.below(len(known)) for _ in range(count)]] if count else known[:0]


def copied(model: Decoder, repeats: Sequence[Repeat], *, chunk: int = CHUNK) -> list[Copied]:
    """How well each second appearance is known, beside the first."""
    tokens = torch.from_numpy(np.stack([each.tokens for each in repeats]))
    marks = torch.from_numpy(np.stack([each.marks for each in repeats]) & 0xFE)
    losses, right = losses_through(model, tokens, marks, chunk=chunk)
    found = []
    for row, known, each in zip(losses, right, repeats, strict=True):
        begin, end = each.second + CUE, each.second + each.size
        once = row[each.first + CUE : each.first + each.size]
        found.append(
            Copied(
                first=float(once.mean()),
                second=float(row[begin:end].mean()),
                accuracy=float(known[begin:end].mean()),
            )
        )
    return found


@torch.no_grad()
def losses_through(
    model: Decoder, tokens: torch.Tensor, marks: torch.Tensor, *, chunk: int = CHUNK
) -> tuple[np.ndarray, np.ndarray]:
    """Loss of each token in nats, and whether it was the likeliest, ``(row, time)`` each.

    Read in chunks through a cache: memory grows with the length alone. The first token is asked
    of nobody; its loss is 0.
    """
    device = model.head.weight.device
    cache = filled_cache(model, marks, room=0)
    losses = np.zeros(tokens.shape)
    right = np.zeros(tokens.shape, dtype=bool)
    following = torch.nn.functional.pad(tokens[:, 1:], (0, 1))
    for at in range(0, tokens.shape[1], chunk):
        part = slice(at, at + chunk)
        now = cache.next(marks[:, part].to(device))
        logits = model.head(model(tokens[:, part].to(device), now, cache=cache)).float()
        wanted = following[:, part].to(device)
        loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), wanted, reduction="none")
        stop = min(at + chunk, tokens.shape[1] - 1)  # behind the last token nothing is asked
        losses[:, at + 1 : stop + 1] = loss[:, : stop - at].double().cpu().numpy()
        right[:, at + 1 : stop + 1] = (logits.argmax(-1) == wanted)[:, : stop - at].cpu().numpy()
    return losses, right
