"""Dialogues in many languages, with quotes in quotes, and where their sentences end.

A dialogue tells and quotes: narration, speech, what is quoted in speech, and again in that. Quotes
are straight, curly, low, angular or of Chinese and Japanese, terminators of ASCII or of the script.
The same seed gives the same dialogue. Sentences have no full stop, and no signs but these.
"""

import json
import random
from itertools import accumulate
from pathlib import Path

# How each language writes speech: sentences that it tells; what is before a quotation; what goes on
# with the sentence of one behind it; pairs of signs, from the outermost on; what ends sentences;
# the white space inside of quotes and between sentences; brackets, and the signs of titles.
LANGUAGES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
CUT = "|"
_DEEPEST = 3


class _Author:
    def __init__(self, draw: random.Random, language: dict) -> None:
        self.draw, self.language = draw, language
        self.quotes = draw.choice(language["quotes"]).split()
        self.space = language.get("space", " ")
        self.wide = not self.space  # a script without spaces

    def end(self) -> str:
        return self.draw.choice(self.language["ends"])

    def sentence(self) -> str:
        return self.draw.choice(self.language["told"]) + self.end()

    def quoted(self, depth: int) -> str:
        """Return speech in quotes; the last sentence in it has ended."""
        turns = (self.turn(depth + 1) for _ in range(self.draw.randint(1, 2)))
        return self.around(depth, self.joined(turns))

    def around(self, depth: int, inner: str) -> str:
        """Return what is inside of the quotes of a depth, with them."""
        opening, closing = self.quotes[depth % len(self.quotes)]
        apart = self.language.get("apart", "")
        return opening + apart + inner + apart + closing

    def turn(self, depth: int) -> str:
        """Return a sentence, or one that quotes, or several."""
        kind = self.draw.random()
        if kind < 0.4 or depth >= _DEEPEST:
            return self.sentence()
        if kind < 0.5 and self.wide:
            return self.bracketed()
        intro = self.draw.choice((*self.language["intro"], self.interrupted(depth)))
        if kind > 0.9:
            return intro + self.around(depth, self.draw.choice(self.language["told"])) + self.end()
        speech = intro + self.quoted(depth)
        if self.language["behind"] and self.draw.random() < 0.5:
            speech += self.draw.choice(self.language["behind"]) + self.draw.choice(
                self.language["ends"][:1]
            )
        return speech

    def interrupted(self, depth: int) -> str:
        """Return speech up to a comma, and who speaks; or nothing."""
        said = self.language["intro"][:1] if self.wide else self.language["behind"][:1]
        if not said or self.draw.random() < 0.5:
            return ""
        told = self.draw.choice(self.language["told"])
        behind = self.draw.random() < 0.5
        first = self.around(depth, told) + "," if behind else self.around(depth, told + ",")
        return first + said[0] + ("" if self.wide else ": ")

    def bracketed(self) -> str:
        """Return a sentence in brackets, or one with the title of a work."""
        if self.draw.random() < 0.5:
            opening, closing = self.draw.choice(self.language["brackets"].split())
            inner = "".join(self.sentence() for _ in range(self.draw.randint(1, 2)))
            return opening + inner + closing
        first, last = self.draw.choices(self.language["told"], k=2)
        title = self.draw.choice(self.language["told"]) + self.end()
        return (
            title.join((first + self.language["titles"][0], self.language["titles"][1] + last))
            + self.end()
        )

    def joined(self, turns) -> str:
        """Return turns one after the other, with a cut between two."""
        return (self.space + CUT).join(turns)

    def dialogue(self) -> str:
        lines = [
            self.joined(self.turn(0) for _ in range(self.draw.randint(1, 4)))
            for _ in range(self.draw.randint(1, 3))
        ]
        return (self.draw.choice(("\n", "\n\n")) + CUT).join(lines)


def dialogue(seed: int) -> tuple[str, list[int], str]:
    """Return a dialogue, where its sentences start (characters), and the name of its language."""
    draw = random.Random(seed)
    name = draw.choice(sorted(LANGUAGES))
    parts = _Author(draw, LANGUAGES[name]).dialogue().split(CUT)
    return "".join(parts), [0, *accumulate(map(len, parts[:-1]))], name
