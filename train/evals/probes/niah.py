"""Needles in a haystack, with distractors: the retrieval tasks of RULER (Hsieh et al., 2404.06654).

    single      one name with its number in held-out text
    multikey    other names with theirs beside it
    needles     nothing but names with their numbers, as many as there is room for
    multivalue  several numbers of one name, all asked for
    multiquery  several names, all asked for

The wording is ours, and shorter, so that contexts of a few hundred tokens have room for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from train.evals.probes.draft import Draft, Kind, Piece, Room, choices
from train.evals.probes.draw import Draw
from train.evals.probes.names import names

DIGITS = 7
SEVERAL = 4  # needles of the kinds with several
_INTRO = "Remember the secret numbers that are hidden in this text."
_MAX_NEW = 128


def _stated(name: str, number: str) -> str:
    return f"The secret number of {name} is {number}."


def _single(draw: Draw, room: Room) -> Draft:
    return _one_of(draw, room, 1)


def _multikey(draw: Draw, room: Room) -> Draft:
    return _one_of(draw, room, SEVERAL)


def _one_of(draw: Draw, room: Room, stated: int) -> Draft:
    called = names(draw, stated)
    numbers = draw.numbers(max(room.candidates, stated + 1), digits=DIGITS)
    needles = [
        Piece(_stated(name, number), sought=name == called[0])
        for name, number in zip(called, numbers[:stated], strict=True)
    ]
    return Draft(
        intro=_INTRO,
        needles=tuple(draw.shuffled(needles)),
        question=f"What is the secret number of {called[0]}? {_stated(called[0], '')[:-2]}",
        answers=(numbers[0],),
        candidates=choices(draw, numbers[:1], numbers[1:]),
    )


def _needles(draw: Draw, room: Room) -> Draft | None:
    name = names(draw, 1)[0]
    number = draw.numbers(1, digits=DIGITS)[0]
    question = f"What is the secret number of {name}? {_stated(name, '')[:-2]}"
    sought = Piece(f"\n{_stated(name, number)}", sought=True)
    left = room.tokens - sum(room.count([f"\n{_INTRO}", f"\n{question}", sought.text]))
    lines = _filling(draw, room, left, taken=(name, number))
    if not lines:
        return None
    stated = [line.text[:-1].rpartition(" ")[2] for line in lines[: room.candidates - 1]]
    fresh = draw.numbers(room.candidates, digits=DIGITS)
    others = [each for each in fresh if each not in (number, *stated)]
    others = [*stated, *others][: room.candidates - 1]
    return Draft(
        intro=_INTRO,
        lines=(sought, *lines),
        question=question,
        answers=(number,),
        candidates=choices(draw, [number], others),
    )


def _filling(draw: Draw, room: Room, left: int, *, taken: Sequence[str]) -> list[Piece]:
    """As many needles that are not sought as `left` tokens hold; names may come again."""
    found: list[Piece] = []
    seen = set(taken)
    while left > 0:
        batch: list[str] = []
        while len(batch) < 64:
            (name,), (number,) = names(draw, 1), draw.numbers(1, digits=DIGITS)
            if name not in taken and number not in seen:
                seen.add(number)
                batch.append(f"\n{_stated(name, number)}")
        for text, tokens in zip(batch, room.count(batch), strict=True):
            left -= tokens
            if left < 0:
                return found
            found.append(Piece(text))
    return found


def _multivalue(draw: Draw, room: Room) -> Draft:
    (name,) = names(draw, 1)
    return _all_of(draw, room, [name] * SEVERAL, f"Name all secret numbers of {name}. They are")


def _multiquery(draw: Draw, room: Room) -> Draft:
    called = names(draw, SEVERAL)
    listed = f"{', '.join(called[:-1])} and {called[-1]}"
    return _all_of(draw, room, called, f"Name the secret numbers of {listed}. They are")


def _all_of(draw: Draw, room: Room, called: Sequence[str], question: str) -> Draft:
    numbers = draw.numbers(max(room.candidates, 2 * len(called)), digits=DIGITS)
    answers, others = numbers[: len(called)], numbers[len(called) :]
    return Draft(
        intro=_INTRO,
        needles=tuple(Piece(_stated(*both), True) for both in zip(called, answers, strict=True)),
        question=question,
        answers=tuple(answers),
        candidates=choices(draw, answers, others),
    )


SINGLE = Kind(
    task="The number of a name is hidden in held-out text and asked for at the end.",
    draft=_single,
    max_new=_MAX_NEW,
    deep=True,
)
MULTIKEY = Kind(
    task=f"The numbers of {SEVERAL} names are hidden in held-out text; one is asked for.",
    draft=_multikey,
    max_new=_MAX_NEW,
    deep=True,
)
NEEDLES = Kind(
    task="The context is nothing but names with their numbers; one is asked for.",
    draft=_needles,
    max_new=_MAX_NEW,
    deep=True,
)
MULTIVALUE = Kind(
    task=f"{SEVERAL} numbers of one name are hidden in held-out text; all are asked for.",
    draft=_multivalue,
    max_new=_MAX_NEW,
)
MULTIQUERY = Kind(
    task=f"The numbers of {SEVERAL} names are hidden in held-out text; all are asked for.",
    draft=_multiquery,
    max_new=_MAX_NEW,
)
