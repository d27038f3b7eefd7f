"""Variable tracking (RULER, 2404.06654): which variables have a value, through a chain of others.

    VAR ABCDE = 12345.  ...  VAR FGHIJ = VAR ABCDE.  ...  VAR KLMNO = VAR FGHIJ.

A second chain of another value stands among the first; the candidates are the variables of both.
"""

from __future__ import annotations

from train.evals.probes.draft import Draft, Kind, Piece, Room, choices
from train.evals.probes.draw import Draw

HOPS = 4
CHAINS = 2
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _draft(draw: Draw, room: Room) -> Draft:
    called = draw.letters((HOPS + 1) * CHAINS, length=5, alphabet=_LETTERS)
    values = draw.numbers(CHAINS, digits=5)
    chains = [called[i::CHAINS] for i in range(CHAINS)]
    needles = []
    # Each statement of a chain comes behind the one that it refers to; chains mix as they fall.
    turns = draw.shuffled([i for i in range(CHAINS) for _ in range(HOPS + 1)])
    done = [0] * CHAINS
    for i in turns:
        name, before = chains[i][done[i]], done[i] - 1
        value = values[i] if before < 0 else f"VAR {chains[i][before]}"
        needles.append(Piece(f"VAR {name} = {value}.", sought=i == 0))
        done[i] += 1
    others = [name for chain in chains[1:] for name in chain]
    return Draft(
        intro="Remember the variables that are set in this text.",
        needles=tuple(needles),
        question=f"Which variables have the value {values[0]}? They are",
        answers=tuple(chains[0]),
        candidates=choices(draw, chains[0], others),
    )


VARIABLES = Kind(
    task=f"A value is handed on by {HOPS} variables in held-out text; all that have it are asked "
    "for.",
    draft=_draft,
    max_new=30,
)
