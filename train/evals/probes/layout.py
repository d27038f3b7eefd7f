"""A draft laid out as tokens and marks, exactly as long as is asked for.

    needles:  intro \\n  hay  needle  hay  needle  hay  \\n question |
    lines:    hay (what is left)  \\n  intro  line line line ...  \\n question |

The place of a sought needle is `depth` of the text around it; it stands before a segment of that
text, never inside of one. Distances are from the end of a needle to the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from train.evals.probes.draft import Draft, Kind, Piece, Room
from train.evals.probes.draw import Draw
from train.evals.probes.haystack import Haystack
from train.evals.probes.text import Texts

_PARTS = 1000  # in which depths are drawn


@dataclass(frozen=True, slots=True)
class Trial:
    """A context up to where the answer begins.

    tokens: int64 [length]. marks: uint8 [length]. candidates, candidate_marks: ids of each, and
    their marks behind the context. right: which of them are answers, bool. distance_tokens,
    distance_segments: to the farthest sought needle.
    """

    tokens: np.ndarray
    marks: np.ndarray
    answers: tuple[str, ...]
    candidates: list[np.ndarray]
    candidate_marks: list[np.ndarray]
    right: np.ndarray
    distance_tokens: int
    distance_segments: int


def trial(
    kind: Kind,
    hay: Haystack,
    texts: Texts,
    *,
    length: int,
    depth: float | None,
    candidates: int,
    draw: Draw,
) -> Trial | None:
    """One trial of `length` tokens; None if they have no room for it."""
    draft = kind.draft(draw, Room(tokens=length, count=texts.count, candidates=candidates))
    if draft is None:
        return None
    lay = _among_hay if draft.needles else _in_lines
    laid = lay(draft, hay, texts, length=length, depth=depth, draw=draw)
    if laid is None:
        return None
    tokens, ends = laid
    marks = texts.marks(tokens)
    segment = np.cumsum(marks >> 1 & 1)
    answers = {f" {answer}" for answer in draft.answers}
    chosen_from = texts.answers(draft.question, draft.candidates)
    return Trial(
        tokens=tokens,
        marks=marks,
        answers=draft.answers,
        candidates=chosen_from,
        candidate_marks=texts.behind(tokens, chosen_from),
        right=np.array([candidate in answers for candidate in draft.candidates]),
        distance_tokens=length - min(ends),
        distance_segments=int(segment[-1] - segment[min(ends)]),
    )


def _among_hay(
    draft: Draft, hay: Haystack, texts: Texts, *, length: int, depth: float | None, draw: Draw
) -> tuple[np.ndarray, list[int]] | None:
    stated = texts.encode([f"{p.text}\n" if hay.by_lines else f" {p.text}" for p in draft.needles])
    intro, question = texts.encode([f"{draft.intro}\n", f"\n{draft.question}"])
    room = length - len(intro) - len(question) - sum(map(len, stated))
    if room < 0:
        return None
    text, starts = hay.take(draw, room)
    depths = _depths(draft.needles, depth, draw)
    places = [int(starts[np.abs(starts - share * room).argmin()]) for share in depths]
    order = sorted(range(len(places)), key=lambda i: (places[i], i))
    parts, ends, at, size = [intro], [], 0, len(intro)
    for i in order:
        parts += [text[at : places[i]], stated[i]]
        size += places[i] - at + len(stated[i])
        at = places[i]
        if draft.needles[i].sought:
            ends.append(size - 1)
    return np.concatenate([*parts, text[at:], question]), ends


def _depths(needles: tuple[Piece, ...], depth: float | None, draw: Draw) -> list[float]:
    """Where each needle stands: the sought one at `depth`, or all where they fall, in order."""
    drawn = [draw.below(_PARTS + 1) / _PARTS for _ in needles]
    if depth is None:
        return sorted(drawn)
    return [depth if n.sought else d for n, d in zip(needles, drawn, strict=True)]


def _in_lines(
    draft: Draft, hay: Haystack, texts: Texts, *, length: int, depth: float | None, draw: Draw
) -> tuple[np.ndarray, list[int]] | None:
    lines = list(draft.lines)
    if depth is not None:  # the sought one goes to its place among the others
        others = [line for line in lines if not line.sought]
        place = round(depth * len(others))
        lines = others[:place] + [line for line in lines if line.sought] + others[place:]
    intro, question, *stated = texts.encode(
        [f"\n{draft.intro}", f"\n{draft.question}", *(line.text for line in lines)]
    )
    left = length - len(intro) - len(question) - sum(map(len, stated))
    if left < 0:
        return None
    before, _ = hay.take(draw, left)
    stops = left + len(intro) + np.cumsum([len(ids) for ids in stated]) - 1
    ends = [int(stop) for stop, line in zip(stops, lines, strict=True) if line.sought]
    return np.concatenate([before, intro, *stated, question]), ends
