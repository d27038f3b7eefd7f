"""What the next word tells, where the next character leaves a doubt whether a sentence ends.

These rules read `REACH` characters from a place on at most; text that is still being written is cut
without them.
"""

import re
from collections.abc import Iterator

from segmenters.prose import candidate_pattern, word_lists

# How many characters from a place on the rules read at most, and how far back the word before a
# period is searched.
REACH, WINDOW = 16, 24
# What may be at a place: who speaks ("he said"); what may be of a date whose number and period are
# before it ("8. 1999"); a day or time zone, which goes on behind "10 a.m."; an ellipsis and a word.
SPEAKER = re.compile(
    "(?:I|he|she|they|we) (?:say|said|ask|cr(?:y|ied)|repl|answer|whisper|shout|yell|thought|think)"
)
_DASH = re.compile(r"[-\u2013\u2014]{1,3}\s{1,3}(?P<word>\w)")
_WORD = re.compile(r"[\"'\u2018\u201c\u201e\u00ab(\[]*+(?P<word>[^\W\d_]+)")
DATE = re.compile(r"\d{1,2}\.|\d{4}(?!\d)|\D")
DAY = re.compile(r"(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|[ECMP][SD]?T|GMT|UTC)\b")
OMISSION = re.compile(candidate_pattern.OMISSION)
# "1.", "1)", "1.)", "(1)", "a." or "a)" behind white space, or a bullet alone, before some text.
_LISTED = re.compile(
    r"(?<!\S)(?:[\u2022\u2023\u2043]?\(?(?:(?P<number>\d{1,3})|(?P<letter>[a-z]))(?P<mark>\.\)|[.)])"
    r"|(?P<bullet>[*+-]))\s(?=\S)"
)
# What is before a list inside of a line.
_BEFORE_LIST = frozenset(".!?:;")
# A word glued to the period behind it is longer than this.
_LONGEST_PART = 3


def shows(pattern: re.Pattern[str], text: str, place: int) -> bool:
    """Return whether what the pattern describes is at `place`."""
    return pattern.match(text, place, place + REACH) is not None


def speaks_behind_dash(text: str, place: int) -> bool:
    """Return whether the sentence goes on behind a dash, in small letters: "- she asked"."""
    match = _DASH.match(text, place, place + REACH)
    return match is not None and match["word"].islower()


def says(text: str, place: int) -> bool:
    """Return whether the word at `place` is a verb of saying in some language."""
    match = _WORD.match(text, place, place + REACH)
    return match is not None and match["word"] in word_lists.SAYING


def starts_sentence(text: str, place: int) -> bool:
    """Return whether the word at `place`, or after the quotes there, often opens a sentence."""
    match = _WORD.match(text, place, place + REACH)
    return match is not None and match["word"].lower() in word_lists.STARTERS


def starts_glued(text: str, start: int, place: int) -> bool:
    """Return whether a title or starter is right behind a word or number and its period."""
    match = _WORD.match(text, place, place + REACH)
    last = text[start - 1 : start]
    if match is None or match.start("word") > place or not match["word"].istitle():
        return False
    if not (last.islower() or last.isdigit()):
        return False
    before = text[max(0, start - WINDOW) : start].rpartition(" ")[2]
    if len(before.strip(",")) <= _LONGEST_PART:
        return False
    word = match["word"].lower()
    title = word in word_lists.BEFORE_NAME and text[match.end() : place + REACH].startswith(".")
    return title or word in word_lists.STARTERS


def item_starts(text: str) -> Iterator[int]:
    """Yield where list items start that count on from the one before, in a line or in lines.

    The first of a list is at the start of a line or behind the end of a sentence.
    """
    last: tuple[str, int] | None = None
    line = seen = 0
    for match in _LISTED.finditer(text):
        bullet, number, letter = match["bullet"], match["number"], match["letter"]
        start = match.start()
        newline = text.rfind("\n", seen, start)
        seen = start
        if newline >= 0:
            line = newline + 1
        first = start - line <= REACH and not text[line:start].strip()
        if bullet and not first:
            continue
        if newline >= 0 and not first:
            last = None
        index = int(number) if number else ord(letter or "\0")
        item = (bullet or match["mark"] + ("1" if number else "a"), index)
        if last == (item[0], index - (not bullet)):
            yield start
        elif not first and (text[start - 2] not in _BEFORE_LIST or not (letter or index == 1)):
            continue
        last = item
