"""What a model finds: the most likely of several candidates, greedy decoding, repeated tokens.

The context is read once, in chunks through a cache: memory is linear in its length. Written answers
are scored by RULER's rules (2404.06654): a reference is looked for inside the prediction.

    induction   A B C ... A B C ...    random tokens twice: the second time, each can be known
    copy        hay  A B C  hay  A B C   a few random tokens at a depth, and at the end again
    segment     hay  s t u  hay  s t u   a segment of the text at a depth, and at the end again

Random tokens are drawn from the vocabulary, so that only the context predicts them (Olsson et al.,
2209.11895). A segment is predicted by its own words, too: what it gains is what was found.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bipe import Cache, Decoder, Positions
from bipe.encodings.base import reads_segments
from bipe.generation import generate
from bipe.positions import DOCUMENT_BIT, SEGMENT_BIT, Lengths
from segmenters.streaming.online import TokenMarker
from train.errors import ConfigError
from train.evals.perplexity.measure import CHUNK, LEVELS, hidden_states
from train.evals.probes.trials import AHEAD, Draw, Haystack, Kind, Texts, Trial

BLOCK = 32  # tokens of what is copied
SHORTEST = 8  # tokens of a segment that is repeated
CUE = 2  # tokens of the second copy that show what comes
_NO_DOCUMENT = ~np.uint8(1 << DOCUMENT_BIT)  # a context is one document, whatever its marks say


def shares_found(model: Decoder, trials: Sequence[Trial]) -> list[float]:
    """Return the share of each trial's n answers that are among its n most likely candidates.

    The trials must be of one length and have as many candidates each.
    """
    likely = log_likelihoods(model, trials)
    best = np.argsort(-likely, axis=1, kind="stable")
    return [
        float(trial.right[row[: trial.right.sum()]].mean())
        for row, trial in zip(best, trials, strict=True)
    ]


@torch.no_grad()
def log_likelihoods(model: Decoder, trials: Sequence[Trial], *, chunk: int = CHUNK) -> np.ndarray:
    """Return the log-probability of each candidate after its context, ``(trial, candidate)``."""
    tokens = torch.from_numpy(np.stack([trial.tokens for trial in trials]))
    marks = torch.from_numpy(np.stack([trial.marks for trial in trials]) & _NO_DOCUMENT)
    count = len(trials[0].candidates)
    longest = max(len(ids) for trial in trials for ids in trial.candidates)
    opened = [max(map(_segments, trial.candidate_marks)) for trial in trials]
    cache = _cache_for(model, marks, room=longest, segments=opened)
    hidden = _read(model, cache, tokens, marks, chunk=chunk)
    first = model.head(hidden[:, -1:]).float()
    likely = np.zeros((len(trials), count))
    for j in range(count):
        ids, cut = zip(*((t.candidates[j], t.candidate_marks[j]) for t in trials), strict=True)
        likely[:, j] = _behind(model, cache, first, ids, cut)
    return likely


def _cache_for(model: Decoder, marks: Tensor, *, room: int, segments: Sequence[int]) -> Cache:
    """Return a cache for contexts and `room` tokens after each, which open at most `segments`."""
    at = Positions.from_marks(marks.to(model.head.weight.device), packed=False)
    batch, time = marks.shape
    lengths = Lengths(
        token=at.token[:, -1] + 1 + room,
        inter=at.inter[:, -1] + 1 + torch.tensor(segments, device=at.inter.device),
        intra=torch.maximum(at.intra.amax(-1), at.intra[:, -1] + room) + 1,
    )
    return Cache(batch=batch, capacity=time + room, lengths=lengths)


def _read(model: Decoder, cache: Cache, tokens: Tensor, marks: Tensor, *, chunk: int) -> Tensor:
    """Read tokens in chunks; return the hidden states of the last chunk."""
    device = model.head.weight.device
    for part, opened in zip(tokens.split(chunk, 1), marks.split(chunk, 1), strict=True):
        hidden = model(
            part.to(device), cache.next(opened.to(device), levels=model.levels), cache=cache
        )
    return hidden


def _behind(
    model: Decoder,
    cache: Cache,
    first: Tensor,
    ids: Sequence[np.ndarray],
    marks: Sequence[np.ndarray],
) -> np.ndarray:
    """Return the log-probability of one candidate per row; the cache is left as it was."""
    device, length = first.device, len(cache)
    sizes = torch.tensor([len(row) for row in ids], device=device)
    # Attention is causal: the padding after a candidate changes nothing in it.
    tokens, opened = (
        pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True).to(device)
        for rows in (ids, marks)
    )
    logits = first
    if tokens.shape[1] > 1:
        at = cache.next(opened[:, :-1], levels=model.levels)
        behind = model.head(model(tokens[:, :-1], at, cache=cache)).float()
        logits = torch.cat([first, behind], 1)
        cache.rewind(length)
    chances = logits.log_softmax(-1).gather(-1, tokens[:, :, None])[:, :, 0]
    inside = torch.arange(tokens.shape[1], device=device) < sizes[:, None]
    return (chances * inside).sum(-1).double().cpu().numpy()


def _segments(marks: np.ndarray) -> int:
    return int((marks >> SEGMENT_BIT & 1).sum())


def followed(texts: Texts) -> TokenMarker:
    """Return the marker of written text; ConfigError if the segmenter reads ahead."""
    try:
        return texts.marker()
    except ValueError as fault:
        raise ConfigError(
            f"evaluate.probing.scoring: answers cannot be generated ({fault}); remove 'write', or "
            "evaluate on data whose segmenter works during generation"
        ) from None


def matches(
    model: Decoder, trials: Sequence[Trial], *, kind: Kind, texts: Texts
) -> list[tuple[float, str]]:
    """Return for each trial the share of its answers that was written, and what was written."""
    written = generate(
        model,
        [trial.tokens.tolist() for trial in trials],
        max_new=kind.max_new,
        marker=followed(texts) if reads_segments(model.scheme) else None,
        stop_ids=[texts.tokenizer.eos_id],
    )
    shares = []
    for trial, row in zip(trials, written, strict=True):
        text = b"".join(texts.pieces[id] for id in row.tokens).decode("utf-8", "replace")
        percent = string_match(postprocessed(text), trial.answers, any_of=kind.any_of)
        shares.append((percent / 100, text))
    return shares


_CONTROL = re.compile(r"[\x00-\x1f]")
_PLACES = 2


def postprocessed(prediction: str) -> str:
    """Return the prediction as RULER scores it: stripped, control characters as line ends."""
    return _CONTROL.sub("\n", prediction.strip()).strip()


def string_match(prediction: str, references: Sequence[str], *, any_of: bool) -> float:
    """Return the percent of references found in a prediction; any_of: 100 for a single one."""
    matches_of = [float(answer.lower() in prediction.lower()) for answer in references]
    return round(100 * (max(matches_of) if any_of else fmean(matches_of)), _PLACES)


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
        return _segments(self.marks[self.first + 1 : self.second + 1])


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


def segment(hay: Haystack, *, length: int, depth: float | None, draw: Draw) -> Repeat | None:
    """Return held-out text, and its segment at `depth` again at the end; None without room.

    The text ends with a whole segment; of a long segment the first `BLOCK` tokens are repeated.
    """
    opening = hay.texts.tokenizer.opening
    room = length - len(opening)
    text, starts = hay.take(draw, room + AHEAD)
    stop = int(starts[starts >= room][0])
    begin = stop + BLOCK - room  # or up to BLOCK before, so that the length is exact
    inside = starts[(begin <= starts) & (starts <= stop)]
    sizes = np.minimum(np.diff(inside), BLOCK)
    places, sizes = inside[:-1][sizes >= SHORTEST], sizes[sizes >= SHORTEST]
    if not len(places):
        return None
    nearest = np.abs(places - begin - (depth or 0.0) * (stop - begin)).argmin()
    place, size = int(places[nearest]), int(sizes[nearest])
    begin = stop + size - room
    tokens = np.concatenate([opening, text[begin:stop], text[place : place + size]])
    at = len(opening) + place - begin
    return Repeat(tokens, hay.texts.marks(tokens), at, length - size, size)


def _random(texts: Texts, count: int, draw: Draw) -> np.ndarray:
    """Draw tokens that have some text, all with the same probability."""
    ranks = texts.telling
    return ranks[[draw.below(len(ranks)) for _ in range(count)]] if count else ranks[:0]


def copied(
    model: Decoder, repeats: Sequence[Repeat], *, chunk: int = CHUNK
) -> list[dict[str, float]]:
    """Return the mean losses of both copies in nats per token, and the accuracy on the second."""
    tokens = np.stack([repeat.tokens for repeat in repeats])
    losses, right = losses_through(model, tokens, np.stack([r.marks for r in repeats]), chunk=chunk)
    scores = []
    for row, hits, repeat in zip(losses, right, repeats, strict=True):
        once, again = (slice(at + CUE, at + repeat.size) for at in (repeat.first, repeat.second))
        means = {"accuracy": hits[again], "first": row[once], "second": row[again]}
        scores.append({name: float(values.mean()) for name, values in means.items()})
    return scores


@torch.no_grad()
def losses_through(
    model: Decoder, tokens: np.ndarray, marks: np.ndarray, *, chunk: int
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


def by_position(
    model: Decoder,
    texts: Sequence[np.ndarray],
    marks: Sequence[np.ndarray],
    *,
    rows: int,
    chunk: int = CHUNK,
) -> Iterator[tuple[str, int, int, float | None, int]]:
    """Yield (level, start, stop, loss, tokens) for each octave of the ids of tokens at a level.

    The ids are from `start` to `stop` - 1; the loss is their mean in nats.
    """
    sums = {level: np.zeros(64) for level in LEVELS}
    counts = {level: np.zeros(64, np.int64) for level in LEVELS}
    for first in range(0, len(texts), rows):
        cuts = np.stack(marks[first : first + rows]) & _NO_DOCUMENT
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
            yield level, 2 ** (power - 1) if power else 0, 2**power, mean, inside
