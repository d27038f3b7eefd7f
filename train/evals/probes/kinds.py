"""The kinds of probes that are hidden in held-out text, or fill the context.

    passkey        a number in unrelated text (Mohtashami, 2305.16300)
    niah_...       needles in a haystack, with distractors
    variables      which variables have a value, through a chain of others
    ..._words      words that are counted: the context is only words
    qa             questions about passages that state the same facts of other towns

The tasks are RULER's (2404.06654). The wording is ours, and shorter, to fit a few hundred tokens.
"""

import itertools
from collections.abc import Sequence
from functools import partial

from train.evals.probes.trials import Draft, Draw, Kind, Piece, Room, choices, made_up_words, names

_KEY_DIGITS, _NEEDLE_DIGITS = 5, 7
SEVERAL = 4  # needles of the kinds with several
HOPS, CHAINS = 4, 2  # of variables
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
COMMON, MOST, RATIO = 10, 30, 10  # words asked for; times each at most, times as often as others
FREQUENT, RANKS = 3, 10  # words asked for, of how many
_SAMPLE = 50  # words or passages that show how many tokens one has


def _passkey(draw: Draw, room: Room) -> Draft:
    key, *others = draw.numbers(room.candidates, digits=_KEY_DIGITS)
    return Draft(
        intro="Remember the pass key that is hidden in this text.",
        needles=(Piece(f"The pass key is {key}. Remember it.", sought=True),),
        question="What is the pass key? The pass key is",
        answers=(key,),
        candidates=choices(draw, [key], others),
    )


_NUMBERS_INTRO = "Remember the secret numbers that are hidden in this text."


def _stated(name: str, number: str) -> str:
    return f"The secret number of {name} is {number}."


def _asked(name: str) -> str:
    return f"What is the secret number of {name}? {_stated(name, '')[:-2]}"  # without " ."


def _one_of(draw: Draw, room: Room, *, stated: int) -> Draft:
    """Draft several names with their numbers, one of which is asked for."""
    called = names(draw, stated)
    numbers = draw.numbers(max(room.candidates, stated + 1), digits=_NEEDLE_DIGITS)
    needles = [
        Piece(_stated(name, number), sought=name == called[0])
        for name, number in zip(called, numbers[:stated], strict=True)
    ]
    return Draft(
        intro=_NUMBERS_INTRO,
        needles=tuple(draw.shuffled(needles)),
        question=_asked(called[0]),
        answers=(numbers[0],),
        candidates=choices(draw, numbers[:1], numbers[1:]),
    )


def _needles(draw: Draw, room: Room) -> Draft | None:
    """Draft only names with their numbers, as many as there is room for."""
    name = names(draw, 1)[0]
    number = draw.numbers(1, digits=_NEEDLE_DIGITS)[0]
    sought = Piece(f"\n{_stated(name, number)}", sought=True)
    around = [f"\n{_NUMBERS_INTRO}", f"\n{_asked(name)}", sought.text]
    left = room.tokens - sum(room.count(around))
    lines = _filling(draw, room, left, taken=(name, number))
    if not lines:
        return None
    # The number is before the full stop of a statement.
    stated = [line.text[:-1].rpartition(" ")[2] for line in lines[: room.candidates - 1]]
    fresh = draw.numbers(room.candidates, digits=_NEEDLE_DIGITS)
    others = [*stated, *(other for other in fresh if other not in (number, *stated))]
    return Draft(
        intro=_NUMBERS_INTRO,
        lines=(sought, *lines),
        question=_asked(name),
        answers=(number,),
        candidates=choices(draw, [number], others[: room.candidates - 1]),
    )


def _filling(draw: Draw, room: Room, left: int, *, taken: Sequence[str]) -> list[Piece]:
    """Return as many needles that are not sought as `left` tokens hold; names may repeat."""
    pieces: list[Piece] = []
    seen = set(taken)
    while left > 0:
        batch: list[str] = []
        while len(batch) < 64:  # counting many texts at once is faster
            (name,), (number,) = names(draw, 1), draw.numbers(1, digits=_NEEDLE_DIGITS)
            if name not in taken and number not in seen:
                seen.add(number)
                batch.append(f"\n{_stated(name, number)}")
        for text, tokens in zip(batch, room.count(batch), strict=True):
            left -= max(1, tokens)  # at least 1: a vocabulary may have none of the letters
            if left < 0:
                return pieces
            pieces.append(Piece(text))
    return pieces


def _multivalue(draw: Draw, room: Room) -> Draft:
    (name,) = names(draw, 1)
    return _all_of(draw, room, [name] * SEVERAL, f"Name all secret numbers of {name}. They are")


def _multiquery(draw: Draw, room: Room) -> Draft:
    called = names(draw, SEVERAL)
    listed = f"{', '.join(called[:-1])} and {called[-1]}"
    return _all_of(draw, room, called, f"Name the secret numbers of {listed}. They are")


def _all_of(draw: Draw, room: Room, called: Sequence[str], question: str) -> Draft:
    numbers = draw.numbers(max(room.candidates, 2 * len(called)), digits=_NEEDLE_DIGITS)
    answers, others = numbers[: len(called)], numbers[len(called) :]
    return Draft(
        intro=_NUMBERS_INTRO,
        needles=tuple(Piece(_stated(*both), True) for both in zip(called, answers, strict=True)),
        question=question,
        answers=tuple(answers),
        candidates=choices(draw, answers, others),
    )


def _variables(draw: Draw, room: Room) -> Draft:
    """Draft two chains of variables, as in VAR ABCDE = 12345. ... VAR FGHIJ = VAR ABCDE."""
    called = draw.letters((HOPS + 1) * CHAINS, length=5, alphabet=_LETTERS)
    values = draw.numbers(CHAINS, digits=5)
    chains = [called[i::CHAINS] for i in range(CHAINS)]
    needles, last = [], values.copy()
    # A statement comes after the one that it refers to; the chains mix at random.
    turns = [i for i in range(CHAINS) for _ in range(HOPS + 1)]
    left = [iter(chain) for chain in chains]
    for i in draw.shuffled(turns):
        name = next(left[i])
        needles.append(Piece(f"VAR {name} = {last[i]}.", sought=i == 0))
        last[i] = f"VAR {name}"
    others = [name for chain in chains[1:] for name in chain]
    return Draft(
        intro="Remember the variables that are set in this text.",
        needles=tuple(needles),
        question=f"Which variables have the value {values[0]}? They are",
        answers=tuple(chains[0]),
        candidates=choices(draw, chains[0], others),
    )


_WORDS_INTRO = "Remember the words of this list that come most often."


def _left(room: Room, question: str) -> tuple[int, int]:
    """Return the tokens left for words, and the most tokens of a word in a sample."""
    sample = [f" {word}" for word in made_up_words(Draw("tokens of words"), _SAMPLE)]
    around = sum(room.count([f"\n{_WORDS_INTRO}", f"\n{question}"]))
    return room.tokens - around, max(room.count(sample))


def _common(draw: Draw, room: Room) -> Draft | None:
    """Draft ten words that come up to 30 times each; the others come a tenth as often."""
    question = f"Which {COMMON} words are the most common in the list? They are"
    left, size = _left(room, question)
    often = min(MOST, left // (2 * COMMON * size))  # half of the room at most
    rarely = max(1, often // RATIO)
    others = (left // size - COMMON * often) // rarely
    if often < 2 or others < COMMON:
        return None
    return _counted(draw, question, [often] * COMMON + [rarely] * others, asked=COMMON)


def _frequent(draw: Draw, room: Room) -> Draft | None:
    """Draft words whose counts fall with the square of their rank (zeta, 2)."""
    question = f"Which {FREQUENT} words are the most frequent in the list? They are"
    left, size = _left(room, question)
    weights = [10**6 // (rank * rank) for rank in range(1, RANKS + 1)]
    often = [max(1, left // size * weight // sum(weights)) for weight in weights]
    if often[FREQUENT - 1] == often[FREQUENT] or sum(often) * size > left:
        return None
    return _counted(draw, question, often, asked=FREQUENT)


def _counted(draw: Draw, question: str, often: Sequence[int], *, asked: int) -> Draft:
    """Draft words that come so often each; the first are asked for, among the next most often."""
    words = made_up_words(draw, len(often))
    listed = [
        Piece(f" {word}", sought=rank < asked)
        for rank, (word, times) in enumerate(zip(words, often, strict=True))
        for _ in range(times)
    ]
    return Draft(
        intro=_WORDS_INTRO,
        lines=tuple(draw.shuffled(listed)),
        question=question,
        answers=tuple(words[:asked]),
        candidates=choices(draw, words[:asked], words[asked : 2 * COMMON]),
    )


_TOWNS_INTRO = "Read these passages about towns."
_passage = (
    "\n{town} lies on the river {river}. It was founded by {founder}. Its people trade in {ware}."
).format_map
_FIELDS = ("town", "river", "founder", "ware")
_QUESTIONS = {
    "river": "On which river does {town} lie? {town} lies on the river",
    "founder": "Who founded {town}? {town} was founded by",
    "ware": "In what do the people of {town} trade? The people of {town} trade in",
}


def _towns(draw: Draw, count: int) -> list[dict[str, str]]:
    words = iter(made_up_words(draw, count * len(_FIELDS)))
    return [
        {field: word.capitalize() for field, word in zip(_FIELDS, words, strict=False)}
        for _ in range(count)
    ]


def _passages(draw: Draw, room: Room) -> Draft | None:
    """Draft passages that state the same facts of different towns; one fact is asked for."""
    sample = _towns(Draw("tokens of passages"), _SAMPLE)
    fact = sorted(_QUESTIONS)[draw.below(len(_QUESTIONS))]
    questions = room.count([f"\n{_QUESTIONS[fact].format(**town)}" for town in sample])
    left = room.tokens - sum(room.count([f"\n{_TOWNS_INTRO}"])) - max(questions)
    if left < 0:
        return None
    fewest = min(room.count(list(map(_passage, sample))))
    towns = _towns(draw, max(left // fewest + 1, room.candidates))
    sizes = room.count(list(map(_passage, towns)))
    count = sum(stop <= left for stop in itertools.accumulate(sizes))
    if count < 2:
        return None
    sought = draw.below(count)
    others = [town[fact] for i, town in enumerate(towns) if i != sought]
    passages = enumerate(map(_passage, towns[:count]))
    return Draft(
        intro=_TOWNS_INTRO,
        lines=tuple(Piece(text, sought=i == sought) for i, text in passages),
        question=_QUESTIONS[fact].format(**towns[sought]),
        answers=(towns[sought][fact],),
        candidates=choices(draw, [towns[sought][fact]], others[: room.candidates - 1]),
    )


KINDS: dict[str, Kind] = {
    "passkey": Kind(
        "A number is hidden in held-out text and asked for at the end.",
        _passkey, max_new=20, deep=True,
    ),
    "niah_single": Kind(
        "The number of a name is hidden in held-out text and asked for at the end.",
        partial(_one_of, stated=1), deep=True,
    ),
    "niah_multikey": Kind(
        f"The numbers of {SEVERAL} names are hidden in held-out text; one is asked for.",
        partial(_one_of, stated=SEVERAL), deep=True,
    ),
    "niah_needles": Kind(
        "The context consists of names with their numbers; one is asked for.", _needles, deep=True
    ),
    "niah_multivalue": Kind(
        f"{SEVERAL} numbers of one name are hidden in held-out text; all are asked for.",
        _multivalue,
    ),
    "niah_multiquery": Kind(
        f"The numbers of {SEVERAL} names are hidden in held-out text; all are asked for.",
        _multiquery,
    ),
    "variables": Kind(
        f"A value is passed on by {HOPS} variables in held-out text; all with this value are "
        "asked for.",
        _variables, max_new=30,
    ),
    "common_words": Kind(
        f"The {COMMON} most frequent words in a list are asked for.", _common, max_new=120
    ),
    "frequent_words": Kind(
        f"The {FREQUENT} most frequent words of a list, whose counts follow a power law, are "
        "asked for.",
        _frequent, max_new=50,
    ),
    "qa": Kind(
        "The context consists of similar passages on one town each; one is asked about.",
        _passages, max_new=32, deep=True, any_of=True,
    ),
}  # fmt: skip
