"""What a trial of a probe is made of, before anything is tokenized.

A kind of probe drafts a trial from a `Draw` and the room that there is. layout.py puts the draft
among held-out text, so that all kinds have the same hay, the same lengths and the same marks:

    intro    hay  needle  hay  needle (sought)  hay    question | answer
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from train.evals.probes.draw import Draw


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement of the context; sought: an answer cannot be known without it."""

    text: str
    sought: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One trial.

    needles: stand in held-out text, in this order. lines: stand together, instead of held-out
    text, each with what parts it from the one before. question ends where the answer begins.
    answers: what has to be named. candidates: what a small model chooses from, the answers among
    them; each begins with the space before it.
    """

    intro: str
    question: str
    answers: tuple[str, ...]
    candidates: tuple[str, ...]
    needles: tuple[Piece, ...] = ()
    lines: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """How much a trial may hold.

    tokens: of the whole context. count: tokens of each text. candidates: to choose from.
    """

    tokens: int
    count: Callable[[Sequence[str]], list[int]]
    candidates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of probe.

    task: what is asked, in a sentence. deep: there is one sought needle, whose depth is chosen;
    others stand where they fall. any_of: one answer suffices (RULER's string_match_part), instead
    of the share that is named. max_new: tokens that are written for an answer. draft: None if
    the room does not do.
    """

    task: str
    draft: Callable[[Draw, Room], Draft | None]
    max_new: int
    deep: bool = False
    any_of: bool = False


def choices(draw: Draw, answers: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Answers and others in a drawn order, each behind a space."""
    return tuple(f" {word}" for word in draw.shuffled([*answers, *others]))
