r"""What the sentence rules may read beyond the next character, if they are asked to.

Three places need it: an abbreviation or initial that also stands at ends ("in the U.S. Senate" and
"in the U.S. They left"), list items inside of a line ("1) milk 2) eggs"), and words left out at the
start of a sentence ("so. . . . Then"). Each looks at no more than `REACH` characters from the place
in question on. The words are general knowledge; nothing is learned from a corpus.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from segmenters.prose.abbreviations import words

# Characters, from the place in question on, that these rules read.
REACH = 16

# Words that open sentences far more often than they follow an abbreviation with a capital.
STARTERS = words(
    """
    the a an this that these those he she it we you they i his her its our their my your one some
    many most all each both no not what when where who why how which if in on at by for from with
    as after before since while although though but and or so yet because then however moreover
    also there here do does did is are was were have has had can could will would should may might
    let please once now today
    der die das ein eine er sie es wir ich und aber doch im am
    le la les un une il elle nous vous on ce cette et mais
    el los las una ella ellos pero y en su
    lo gli uno ma nel con
    o os as um uma ele ela eles mas e
    de het een hij zij wij maar er
    \u0432 \u0438 \u043d\u0430 \u043e\u043d \u043e\u043d\u0430 \u043e\u043d\u0438 \u043d\u043e
    \u0430 \u044d\u0442\u043e \u043a\u0430\u043a \u044f \u043c\u044b \u043f\u043e \u0441
    w i na to ten ta on ona nie z po
    """
)
_WORD = re.compile(r"[\"'\u2018\u201c\u201e\u00ab(\[]*+(?P<word>[^\W\d_]+)")
# "1.", "1)", "1.)", "(1)", "a." or "a)" behind white space, before some text.
_ITEM = re.compile(
    r"(?<!\S)[\u2022\u2023\u2043]?\(?(?:(?P<number>\d{1,3})|(?P<letter>[a-z]))(?P<mark>\.\)|[.)])\s(?=\S)"
)
# The pattern of words left out at the start of a sentence.
OMISSION = r"\.(?: \.){2} \w"
_OMISSION = re.compile(OMISSION)


def starts_sentence(text: str, place: int) -> bool:
    """Whether the word at `place`, or behind the quotes there, often opens a sentence."""
    match = _WORD.match(text, place, place + REACH)
    return match is not None and match["word"].lower() in STARTERS


def omission_starts(text: str, place: int) -> bool:
    """Whether a spaced ellipsis and then a word stand at `place`, behind a full stop."""
    return _OMISSION.match(text, place, place + REACH) is not None


def item_starts(text: str) -> Iterator[int]:
    """Where list items start that follow the item before them, numbered or lettered, in a line.

    The first item of a list stands at the start of its line; each further one counts on from the
    one before in the same style.
    """
    last: tuple[str, int] | None = None
    line = seen = 0
    for match in _ITEM.finditer(text):
        number, letter = match["number"], match["letter"]
        style = match["mark"] + ("1" if number else "a")
        index = int(number) if number else ord(letter)
        start = match.start()
        newline = text.rfind("\n", seen, start)
        seen = start
        if newline >= 0:
            line, last = newline + 1, None
        if last == (style, index - 1):
            yield start
        elif start - line > REACH or text[line:start].strip():
            continue
        last = (style, index)
