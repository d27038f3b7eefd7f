"""Passkey: one number among text that has nothing to do with it (Mohtashami and Jaggi, 2305.16300).

Unlike evals/passkey.py, whose keys are words that suit any vocabulary, keys are numbers and the
task is told first, as in the paper and in YaRN's evaluation.
"""

from __future__ import annotations

from train.evals.probes.draft import Draft, Kind, Piece, Room, choices
from train.evals.probes.draw import Draw

DIGITS = 5


def _draft(draw: Draw, room: Room) -> Draft:
    key, *others = draw.numbers(room.candidates, digits=DIGITS)
    return Draft(
        intro="Remember the pass key that is hidden in this text.",
        needles=(Piece(f"The pass key is {key}. Remember it.", sought=True),),
        question="What is the pass key? The pass key is",
        answers=(key,),
        candidates=choices(draw, [key], others),
    )


PASSKEY = Kind(
    task="A number is hidden in held-out text and asked for at the end.",
    draft=_draft,
    max_new=20,
    deep=True,
)
