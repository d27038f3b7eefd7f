"""Question answering among passages that do not answer (RULER, 2404.06654), without a data set.

    Bafalu lies on the river Dimogu. It was founded by Zonika. Its people trade in Rutabe.
    ...
    Who founded Bafalu? Bafalu was founded by

RULER asks questions of SQuAD and HotpotQA among their paragraphs. Passages here are made up, each
tells the same of another town, and one is asked for one thing: so neither the subject nor the
question alone finds the answer, and no model can know it beforehand.
"""

from __future__ import annotations

import itertools

from train.evals.probes.counted import made_up_words
from train.evals.probes.draft import Draft, Kind, Piece, Room, choices
from train.evals.probes.draw import Draw

_INTRO = "Read these passages about towns."
_PASSAGE = (
    "\n{town} lies on the river {river}. It was founded by {founder}. Its people trade in {ware}."
)
_FIELDS = ("town", "river", "founder", "ware")
_QUESTIONS = {
    "river": "On which river does {town} lie? {town} lies on the river",
    "founder": "Who founded {town}? {town} was founded by",
    "ware": "In what do the people of {town} trade? The people of {town} trade in",
}
_SAMPLE = 50  # passages that tell how many tokens a passage has


def _towns(draw: Draw, count: int) -> list[dict[str, str]]:
    """What is told of so many towns; no word comes twice."""
    words = iter(made_up_words(draw, count * len(_FIELDS)))
    return [
        {field: word.capitalize() for field, word in zip(_FIELDS, words, strict=False)}
        for _ in range(count)
    ]


def _draft(draw: Draw, room: Room) -> Draft | None:
    sample = _towns(Draw("tokens of passages"), _SAMPLE)
    asked = sorted(_QUESTIONS)[draw.below(len(_QUESTIONS))]
    questions = room.count([f"\n{_QUESTIONS[asked].format(**town)}" for town in sample])
    left = room.tokens - sum(room.count([f"\n{_INTRO}"])) - max(questions)
    if left < 0:
        return None
    fewest = min(room.count([_PASSAGE.format(**town) for town in sample]))
    towns = _towns(draw, max(left // fewest + 1, room.candidates))
    sizes = room.count([_PASSAGE.format(**town) for town in towns])
    count = sum(stop <= left for stop in itertools.accumulate(sizes))
    if count < 2:
        return None
    sought = draw.below(count)
    others = [town[asked] for i, town in enumerate(towns) if i != sought]
    lines = [
        Piece(_PASSAGE.format(**town), sought=i == sought) for i, town in enumerate(towns[:count])
    ]
    return Draft(
        intro=_INTRO,
        lines=tuple(lines),
        question=_QUESTIONS[asked].format(**towns[sought]),
        answers=(towns[sought][asked],),
        candidates=choices(draw, [towns[sought][asked]], others[: room.candidates - 1]),
    )


QUESTIONS = Kind(
    task="The context is passages that tell the same of one town each; one is asked about.",
    draft=_draft,
    max_new=32,
    deep=True,
    any_of=True,
)
