"""A trial of a probe: drafted as text, then laid out as tokens and marks of the length asked for.

A kind drafts a trial from a `Draw` and the available room; all kinds have the same layout:

    needles:  intro \\n  hay  needle  hay  needle (sought)  hay  \\n question | answer
    lines:    hay (what is left)  \\n  intro  line line line ...  \\n question | answer

A sought needle is at `depth` of the text around it, before a segment of that text and never inside
one. Distances are from the end of a needle to the answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bipe.positions import SEGMENT_BIT
from train.evals.probes.haystack import Draw, Haystack

_PARTS = 1000  # depths are drawn as multiples of 1 / 1000


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement of the context; sought: an answer cannot be known without it."""

    text: str
    sought: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One trial. candidates: a small model chooses from them; each begins with a space.

    needles: put into held-out text, in this order. lines: joined instead of held-out text, each
    with its separator at the front. The answer begins where the question ends.
    """

    intro: str
    question: str
    answers: tuple[str, ...]
    candidates: tuple[str, ...]
    needles: tuple[Piece, ...] = ()
    lines: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """How much a trial may hold. tokens: of the whole context. count: tokens of each text."""

    tokens: int
    count: Callable[[Sequence[str]], list[int]]
    candidates: int


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of probe.

    deep: one needle is sought, at a chosen depth; others fall at random. any_of: one answer
    suffices (RULER's string_match_part) instead of the share named. draft: None without room.
    """

    task: str
    draft: Callable[[Draw, Room], Draft | None]
    max_new: int = 128
    deep: bool = False
    any_of: bool = False


def choices(draw: Draw, answers: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return answers and others in random order, each after a space."""
    return tuple(f" {word}" for word in draw.shuffled([*answers, *others]))


@dataclass(frozen=True, slots=True)
class Trial:
    """A context up to where the answer begins.

    tokens: int64, marks: uint8 [length]. candidates, candidate_marks: of each, after the context.
    right: bool, which of them are answers. distance_...: to the farthest sought needle.
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
    *,
    length: int,
    depth: float | None,
    candidates: int,
    draw: Draw,
) -> Trial | None:
    """Return one trial of `length` tokens; None if they have no room for it."""
    draft = kind.draft(draw, Room(tokens=length, count=hay.texts.count, candidates=candidates))
    if draft is None:
        return None
    lay = _among_hay if draft.needles else _in_lines
    laid = lay(draft, hay, length=length, depth=depth, draw=draw)
    if laid is None:
        return None
    tokens, ends = laid
    marks = hay.texts.marks(tokens)
    segment = np.cumsum(marks >> SEGMENT_BIT & 1)
    answers = {f" {answer}" for answer in draft.answers}
    chosen_from = hay.texts.answers(draft.question, draft.candidates)
    return Trial(
        tokens=tokens,
        marks=marks,
        answers=draft.answers,
        candidates=chosen_from,
        candidate_marks=hay.texts.behind(tokens, chosen_from),
        right=np.array([candidate in answers for candidate in draft.candidates]),
        distance_tokens=length - min(ends),
        distance_segments=int(segment[-1] - segment[min(ends)]),
    )


def _among_hay(
    draft: Draft, hay: Haystack, *, length: int, depth: float | None, draw: Draw
) -> tuple[np.ndarray, list[int]] | None:
    stated = hay.texts.encode(
        [f"{p.text}\n" if hay.by_lines else f" {p.text}" for p in draft.needles]
    )
    intro, question = hay.texts.encode([f"{draft.intro}\n", f"\n{draft.question}"])
    intro = np.concatenate([hay.texts.tokenizer.opening, intro])
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
    """Return a depth per needle: `depth` for the sought one, else drawn; sorted without `depth`."""
    drawn = [draw.below(_PARTS + 1) / _PARTS for _ in needles]
    if depth is None:
        return sorted(drawn)
    return [depth if n.sought else d for n, d in zip(needles, drawn, strict=True)]


def _in_lines(
    draft: Draft, hay: Haystack, *, length: int, depth: float | None, draw: Draw
) -> tuple[np.ndarray, list[int]] | None:
    lines = list(draft.lines)
    if depth is not None:  # the sought one goes to its place among the others
        others = [line for line in lines if not line.sought]
        place = round(depth * len(others))
        lines = others[:place] + [line for line in lines if line.sought] + others[place:]
    intro, question, *stated = hay.texts.encode(
        [f"\n{draft.intro}", f"\n{draft.question}", *(line.text for line in lines)]
    )
    opening = hay.texts.tokenizer.opening
    left = length - len(intro) - len(question) - sum(map(len, stated))
    if left < len(opening):
        return None
    before = np.concatenate([opening, hay.take(draw, left - len(opening))[0]])
    stops = left + len(intro) + np.cumsum([len(ids) for ids in stated]) - 1
    ends = [int(stop) for stop, line in zip(stops, lines, strict=True) if line.sought]
    return np.concatenate([before, intro, *stated, question]), ends
