"""Answers of a model: the most likely of several candidates, or greedy decoding.

Candidates suit models too small to write answers. The context is read once, in chunks through a
cache: memory is linear in its length. Written answers are scored by RULER's rules (2404.06654).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bipe import Cache, Decoder, Positions
from bipe.encodings.base import reads_segments
from bipe.generation import generate
from bipe.positions import Lengths
from segmenters.streaming.online import TokenMarker
from train.errors import ConfigError
from train.evals.probes.haystack import Texts
from train.evals.probes.trials import Kind, Trial
from train.evals.scoring.metrics import postprocessed, string_match_all, string_match_part

CHUNK = 1024  # tokens


def shares_found(model: Decoder, trials: Sequence[Trial], *, chunk: int = CHUNK) -> list[float]:
    """Return the share of each trial's n answers that are among its n most likely candidates.

    The trials must be of one length and have as many candidates each.
    """
    likely = log_likelihoods(model, trials, chunk=chunk)
    best = np.argsort(-likely, axis=1, kind="stable")
    return [
        float(each.right[row[: each.right.sum()]].mean())
        for row, each in zip(best, trials, strict=True)
    ]


@torch.no_grad()
def log_likelihoods(model: Decoder, trials: Sequence[Trial], *, chunk: int = CHUNK) -> np.ndarray:
    """Return the log-probability of each candidate after its context, ``(trial, candidate)``."""
    tokens = torch.from_numpy(np.stack([each.tokens for each in trials]))
    marks = torch.from_numpy(np.stack([each.marks for each in trials]) & 0xFE)
    count = len(trials[0].candidates)
    longest = max(len(ids) for each in trials for ids in each.candidates)
    opened = [max(int((m >> 1 & 1).sum()) for m in each.candidate_marks) for each in trials]
    cache = filled_cache(model, marks, room=longest, segments=opened)
    hidden = read(model, cache, tokens, marks, chunk=chunk)
    first = model.head(hidden[:, -1:]).float()
    likely = np.zeros((len(trials), count))
    for j in range(count):
        ids, cut = zip(*((t.candidates[j], t.candidate_marks[j]) for t in trials), strict=True)
        likely[:, j] = _behind(model, cache, first, ids, cut)
    return likely


def filled_cache(
    model: Decoder, marks: Tensor, *, room: int, segments: Sequence[int] | int = 0
) -> Cache:
    """Return a cache for contexts and `room` tokens after each, which open at most `segments`."""
    at = Positions.from_marks(marks.to(model.head.weight.device), packed=False)
    batch, time = marks.shape
    lengths = Lengths(
        token=at.token[:, -1] + 1 + room,
        inter=at.inter[:, -1] + 1 + torch.tensor(segments, device=at.inter.device),
        intra=torch.maximum(at.intra.amax(-1), at.intra[:, -1] + room) + 1,
    )
    return Cache(batch=batch, capacity=time + room, lengths=lengths)


def read(model: Decoder, cache: Cache, tokens: Tensor, marks: Tensor, *, chunk: int) -> Tensor:
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
    tokens, opened = (_padded(rows).to(device) for rows in (ids, marks))
    logits = first
    if tokens.shape[1] > 1:
        at = cache.next(opened[:, :-1].to(torch.uint8), levels=model.levels)
        behind = model.head(model(tokens[:, :-1], at, cache=cache)).float()
        logits = torch.cat([first, behind], 1)
        cache.rewind(length)
    chances = logits.log_softmax(-1).gather(-1, tokens[:, :, None])[:, :, 0]
    inside = torch.arange(tokens.shape[1], device=device) < sizes[:, None]
    return (chances * inside).sum(-1).double().cpu().numpy()


def _padded(rows: Sequence[np.ndarray]) -> Tensor:
    padded = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return torch.from_numpy(padded)


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
        [each.tokens.tolist() for each in trials],
        max_new=kind.max_new,
        marker=followed(texts) if reads_segments(model.scheme) else None,
        stop_ids=[texts.tokenizer.eos_id],
    )
    score = string_match_part if kind.any_of else string_match_all
    found = []
    for each, row in zip(trials, written, strict=True):
        text = b"".join(texts.pieces[id] for id in row.tokens).decode("utf-8", "replace")
        found.append((score([postprocessed(text)], [each.answers]) / 100, text))
    return found
