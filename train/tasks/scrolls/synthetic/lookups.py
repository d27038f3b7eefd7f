"""Tasks that look something up: a fact by its key, the statement of a lemma by its name.

Facts: "ba is 7. fo is 2." and the question "What is fo?", the smallest task there is. One fact is
copying, which a tiny model learns from scratch in minutes on two cores; more facts are retrieval.
Made-up lemmas are identities whose right side rewrites the left one.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from segmenters import Coq
from train.data.reading.documents import Document, Reader
from train.errors import DataError
from train.tasks.scrolls.examples import Metric, Unprompted
from train.tasks.scrolls.synthetic.drawn import Synthetic, within, word


@dataclass(frozen=True, slots=True, kw_only=True)
class FactLookup(Synthetic):
    """Each of `facts` keys occurs once in a document; the answer is the number next to it."""

    facts: int
    keys: int
    values: int
    metric: ClassVar[Metric] = "exact_match"

    def __post_init__(self) -> None:
        Synthetic.__post_init__(self)  # slots make another class, which super() does not know
        if not 1 <= self.facts <= self.keys or self.values < 2:
            raise DataError(
                f"task {self.name}: facts must be from 1 to keys and values at least 2, were: "
                f"facts {self.facts}, keys {self.keys}, values {self.values}"
            )

    def generated(self, split: str) -> Iterator[Unprompted]:
        return self.made_up_examples(split)

    def draw_unit(self, rng: random.Random) -> tuple[tuple[int, int], ...]:
        keys = rng.sample(range(self.keys), self.facts)
        return tuple((key, rng.randrange(self.values)) for key in keys)

    def example_of(
        self, unit: tuple[tuple[int, int], ...], rng: random.Random, *, id: str
    ) -> Unprompted:
        key, value = rng.choice(unit)
        return Unprompted(
            id=id,
            question=f"What is {word(key)}?",
            document=" ".join(f"{word(key)} is {value}." for key, value in unit),
            output=str(value),
        )


_LEMMA = re.compile(
    r"(?:^|\*\))\s*(?:(?:Local|Global|Polymorphic|#\[[^\]]*\])\s+)*"
    r"(?:Lemma|Theorem|Corollary|Proposition|Fact|Remark)\s+([\w']+)\s*(\S.*?)\.?\s*$",
    re.DOTALL,
)
_LETTERS = "abcd"
_NAMES = range(75, 75 * 76)  # words of two syllables
_Term = str | tuple[str, "_Term", "_Term"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LemmaStatement(Synthetic):
    """The statement of a named lemma.

    documents: a reader of Coq files; null makes them up. characters: maximum, of neighbouring
    sentences of a file; null for the whole file. lemmas: per made-up file.
    """

    documents: Reader | None
    characters: int | None
    lemmas: int
    metric: ClassVar[Metric] = "f1"

    def generated(self, split: str) -> Iterator[Unprompted]:
        if self.documents is None:
            yield from self.made_up_examples(split)
            return
        files = self.share_of([*self.documents], split)
        places = [(file, place) for file in files for place in lemmas_of(file)]
        self.generator("order", split).shuffle(places)
        for file, (at, name, statement) in places:
            rng = self.generator("window", file.id, name)
            pieces = _sentences(file.text)
            document = within(pieces, at, characters=self.characters, rng=rng)
            yield _example(
                id=f"{file.id}:{name}", name=name, statement=statement, document=document
            )

    def draw_unit(self, rng: random.Random) -> tuple[str, ...]:
        return tuple(map(word, rng.sample(_NAMES, self.lemmas)))

    def example_of(self, unit: tuple[str, ...], rng: random.Random, *, id: str) -> Unprompted:
        statements = [identity(rng) for _ in unit]
        pieces = [
            f"Lemma {name} : {statement}.\nProof.\n  intros. ring.\nQed.\n\n"
            for name, statement in zip(unit, statements, strict=True)
        ]
        at = rng.randrange(len(unit))
        document = within(pieces, at, characters=self.characters, rng=rng)
        return _example(id=id, name=unit[at], statement=statements[at], document=document)


def _example(*, id: str, name: str, statement: str, document: str) -> Unprompted:
    return Unprompted(
        id=id, question=f"What does {name} state?", document=document, output=statement
    )


def lemmas_of(file: Document) -> Iterator[tuple[int, str, str]]:
    """Return (index of the sentence, name, statement) of each lemma whose name occurs once."""
    lemmas = [
        (at, match[1], " ".join(match[2].split()).removeprefix(": "))
        for at, piece in enumerate(_sentences(file.text))
        if (match := _LEMMA.search(piece))
    ]
    counts = Counter(name for _, name, _ in lemmas)
    return (lemma for lemma in lemmas if counts[lemma[1]] == 1)


def identity(rng: random.Random) -> str:
    """Draw a true identity of natural numbers, in the syntax of Coq."""
    left = right = _term(rng, depth=2)  # not used, but a draw less would change all examples
    while _spelled(right) == _spelled(left):
        left = _term(rng, depth=2)
        right = _rewritten(rng, left)
    used = [letter for letter in _LETTERS if letter in _spelled(left)]
    equation = f"{_spelled(left)} = {_spelled(right)}"
    return f"forall {' '.join(used)} : nat, {equation}" if used else equation


def _term(rng: random.Random, *, depth: int) -> _Term:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*_LETTERS, str(rng.randrange(1, 10))])
    return (rng.choice("+*"), _term(rng, depth=depth - 1), _term(rng, depth=depth - 1))


def _rewritten(rng: random.Random, term: _Term) -> _Term:
    if isinstance(term, str):
        return term
    operator, left, right = term[0], _rewritten(rng, term[1]), _rewritten(rng, term[2])
    if rng.random() < 0.5:
        left, right = right, left
    if operator == "*" and isinstance(right, tuple) and right[0] == "+" and rng.random() < 0.5:
        return ("+", ("*", left, right[1]), ("*", left, right[2]))
    return (operator, left, right)


def _spelled(term: _Term, *, inside: bool = False) -> str:
    if isinstance(term, str):
        return term
    text = f"{_spelled(term[1], inside=True)} {term[0]} {_spelled(term[2], inside=True)}"
    return f"({text})" if inside else text


def _sentences(text: str) -> list[str]:
    return [text[start:stop] for start, stop in pairwise(Coq().cut(text))]
