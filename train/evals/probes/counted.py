"""Words that are counted (RULER, 2404.06654): the context is nothing but words.

    common    ten words come up to 30 times, all others a tenth as often: name the ten
    frequent  how often a word comes falls with the square of its rank (zeta, 2): name the first 3

Contexts too short for 30 times have fewer, in the same proportion as far as it goes. Words are
made of syllables, so that there is no end of them and no language has an advantage.
"""

from __future__ import annotations

from train.evals.probes.draft import Draft, Kind, Piece, Room, choices
from train.evals.probes.draw import Draw

COMMON, MOST, RATIO = 10, 30, 10
FREQUENT, RANKS = 3, 10
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
_SAMPLE = 50  # words that tell how many tokens a word has


def made_up_words(draw: Draw, count: int) -> list[str]:
    """Different words of three syllables."""
    found = dict[str, None]()
    while len(found) < count:
        found["".join(draw.sample(_SYLLABLES, 3))] = None
    return list(found)


def _left(room: Room, intro: str, question: str) -> tuple[int, int]:
    """Tokens left for words, and the tokens of the longest of a sample of words."""
    sample = [f" {word}" for word in made_up_words(Draw("tokens of words"), _SAMPLE)]
    return room.tokens - sum(room.count([f"\n{intro}", f"\n{question}"])), max(room.count(sample))


def _common(draw: Draw, room: Room) -> Draft | None:
    intro = "Remember the words of this list that come most often."
    question = f"Which {COMMON} words are the most common in the list? They are"
    left, each = _left(room, intro, question)
    often = min(MOST, left // (2 * COMMON * each))  # half of the room at most
    rarely = max(1, often // RATIO)
    others = (left // each - COMMON * often) // rarely
    if often < 2 or others < COMMON:
        return None
    words = made_up_words(draw, COMMON + others)
    common, rare = words[:COMMON], words[COMMON:]
    listed = [Piece(f" {word}", sought=True) for word in common for _ in range(often)]
    listed += [Piece(f" {word}") for word in rare for _ in range(rarely)]
    return Draft(
        intro=intro,
        lines=tuple(draw.shuffled(listed)),
        question=question,
        answers=tuple(common),
        candidates=choices(draw, common, rare[:COMMON]),
    )


def _frequent(draw: Draw, room: Room) -> Draft | None:
    intro = "Remember the words of this list that come most often."
    question = f"Which {FREQUENT} words are the most frequent in the list? They are"
    left, each = _left(room, intro, question)
    weights = [10**6 // (rank * rank) for rank in range(1, RANKS + 1)]
    often = [max(1, left // each * weight // sum(weights)) for weight in weights]
    if often[FREQUENT - 1] == often[FREQUENT] or sum(often) * each > left:
        return None
    words = made_up_words(draw, RANKS)
    listed = [
        Piece(f" {word}", sought=rank < FREQUENT)
        for rank, word in enumerate(words)
        for _ in range(often[rank])
    ]
    return Draft(
        intro=intro,
        lines=tuple(draw.shuffled(listed)),
        question=question,
        answers=tuple(words[:FREQUENT]),
        candidates=choices(draw, words[:FREQUENT], words[FREQUENT:]),
    )


COMMON_WORDS = Kind(
    task=f"The {COMMON} words that come most often in a list of words are asked for.",
    draft=_common,
    max_new=120,
)
FREQUENT_WORDS = Kind(
    task=f"The {FREQUENT} most frequent words of a list, whose counts follow a power law, are "
    "asked for.",
    draft=_frequent,
    max_new=50,
)
