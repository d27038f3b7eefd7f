"""Guess what kind of text a document is from its first characters.

Four things are asked in turn. Has it a sign that texts of one kind rarely lack and others rarely
hold (`signs.SIGNS`)? Is it code: how much of what is no comment is running text, words beside words
on a line, and which lines only code has? Which format of running text has the most points
(`signs.FORMATS`)? Is it a table? Else it is prose.
"""

import re
from collections import Counter
from itertools import islice

from segmenters.documents import signs
from segmenters.records.logs import STAMPED

# How many characters are read.
_HEAD = 20_000
# Of what is no comment, so much is running text in prose, and so little in code.
_LEAST_PROSE, _MOST_CODE = 0.6, 0.25
_LEAST_VISIBLE = 60  # in shorter texts, shares say little
_LEAST_FORMULAS, _SHARE_OF_FORMULAS, _SHARE_OF_BRACES, _SHARE_OF_SEMICOLONS = 2, 0.3, 0.3, 0.012
_LEAST_SAID, _SHARE_OF_SAID, _SHARE_OF_NAMES = 5, 0.5, 0.6
_LONGEST_LINE = 1500  # on average
_LEAST_CODE, _SHARE_OF_CODE, _SHARE_LIKE_CODE = 3, 0.06, 0.4
# With so many lines of code a text is code, whatever its comments and strings hold.
_LEAST_DENSE, _SHARE_OF_DENSE = 5, 0.15
_LEAST_SIGNED, _SHARE_OF_SIGNS = 1000, 0.025
_LEAST_LINES, _SHARE_OF_SETTINGS = 3, 0.7
_LEAST_ROWS, _ROWS, _LEAST_RECORDS, _RECORDS = 4, 12, 3, 40
_MOST_TIMES, _LEAST_POINTS, _CERTAIN_POINTS = 3, 3, 8


def looks_like(text: str) -> str | None:
    """Return the kind that the text looks like, or None."""
    head = text.removeprefix("\ufeff")[:_HEAD]
    plain = signs.FENCED.sub("", head)
    seen = _Seen(plain)
    best, points = _best(head)
    # What stands in comments is no evidence against code.
    certain = points >= _CERTAIN_POINTS and _best(seen.said)[1] >= _CERTAIN_POINTS
    if best == "rst" and not seen.code:
        certain = certain or signs.DIRECTIVE.search(head) is not None
    if _is_transcript(head, seen.lines):
        return "transcript"
    solution = _is_solution(head)
    for kind, times, sign in signs.SIGNS:
        # What is fenced is an example; and many pages of Markdown hold some tags.
        place = head if kind == "markdown" else plain
        if kind == "html" and times > 1 and certain and best == "markdown":
            continue
        if kind in signs.UNLIKE_CODE and times > 1 and seen.is_dense() and not certain:
            return "code"
        if solution and (times > 1 or kind == "coq") and kind not in signs.BEFORE_SOLUTIONS:
            return "chain_of_thought"
        # Most texts lack most signs, and a search alone is the cheapest.
        if sign.search(place) and (times == 1 or _count(sign, place, times) == times):
            return kind
    is_code = seen.is_code() or head.startswith(("#!", "/*", "//"))
    if points >= _LEAST_POINTS and not seen.is_dense() and (certain or not is_code):
        return best
    table = None if seen.is_dense() else _table_in(head)
    if table or _is_log(head):
        return table or "log"
    return "code" if is_code else None


def kind_of_paper(text: str) -> str:
    """Return "markdown" for a paper that went through pandoc, else "latex"."""
    head = text[:_HEAD]
    return "markdown" if _count(signs.PANDOC, head) > _count(signs.LATEX, head) else "latex"


def _is_transcript(head: str, lines: int) -> bool:
    """Return whether most lines name who says them, and some of the names come again."""
    said = [match["name"] or match["nick"] for match in signs.SAID.finditer(head)]
    enough = len(said) >= max(_LEAST_SAID, _SHARE_OF_SAID * lines)
    return enough and 2 <= len({*said}) <= _SHARE_OF_NAMES * len(said)


def _is_solution(head: str) -> bool:
    """Return whether the text is a solution of a problem in mathematics."""
    said = signs.DISPLAY.sub("", head)  # displays and pictures look like code
    lines = _count(signs.NOT_BLANK, said)
    known = signs.SOLUTION.search(head) is not None
    return (
        (known or _count(signs.FORMULA, head) >= max(_LEAST_FORMULAS, _SHARE_OF_FORMULAS * lines))
        and _count(signs.PAPER, head) <= 1
        and len(said) <= _LONGEST_LINE * max(lines, 1)
        and not _dense(_count(signs.CODE, said), lines)
        and said.count(";") <= _SHARE_OF_SEMICOLONS * len(said)
        and _count(signs.LIKE_CODE, said) < max(_LEAST_CODE, _SHARE_OF_BRACES * lines)
    )


def _dense(code: int, lines: int) -> bool:
    return code >= max(_LEAST_DENSE, _SHARE_OF_DENSE * lines)


class _Seen:
    """Counts of a text: lines, those of code, and the share of running text."""

    def __init__(self, head: str) -> None:
        self.head = head
        self.said, self.comments = signs.COMMENT.subn("", head)  # without lines of comments
        plain = signs.INSERTED.sub("", self.said)
        self.lines, self.code = _count(signs.NOT_BLANK, head), _count(signs.CODE, head)
        self.visible = _visible(plain)  # characters outside of comments
        running = sum(_visible(match.group()) for match in signs.RUNNING.finditer(plain))
        self.running = running / max(self.visible, 1)  # the share of them that is running text

    def is_dense(self) -> bool:
        return _dense(self.code, self.lines)

    def is_code(self) -> bool:
        """Return whether it is code or settings rather than text that people write."""
        if self.running < _MOST_CODE and self.visible >= _LEAST_VISIBLE:
            return True
        if self.running < _LEAST_PROSE and (
            self.code >= max(_LEAST_CODE, _SHARE_OF_CODE * self.lines) or self.is_packed()
        ):
            return True
        if self.lines <= _LEAST_LINES:
            return False
        if _count(signs.LIKE_CODE, self.head) >= _SHARE_LIKE_CODE * self.lines:
            return True
        said = self.lines - self.comments
        settings = max(_count(signs.YAML, self.head), _count(signs.SETTING, self.head))
        return said > 1 and settings >= _SHARE_OF_SETTINGS * said

    def is_packed(self) -> bool:
        """Return whether it holds code on few lines."""
        wanted = _SHARE_OF_SIGNS * max(len(self.head), _LEAST_SIGNED)
        return sum(map(self.head.count, ";{}")) >= wanted


def _visible(text: str) -> int:
    return sum(map(len, text.split()))


def _best(head: str) -> tuple[str, int]:
    """Return the format of which there are most signs, and its points."""
    points: Counter[str] = Counter()
    for kind, weight, sign in signs.FORMATS:
        points[kind] += weight * _count(sign, head, _MOST_TIMES) if sign.search(head) else 0
    return points.most_common(1)[0]


def _count(pattern: re.Pattern[str], text: str, most: int | None = None) -> int:
    return sum(1 for _ in islice(pattern.finditer(text), most))


def _is_log(head: str) -> bool:
    """Return whether half of the first lines that are not indented begin with a time."""
    lines = [line for line in head.split("\n")[:_RECORDS] if line.strip() and line[0] not in " \t"]
    found = sum(1 for line in lines if STAMPED.match(line))
    return found >= _LEAST_RECORDS and 2 * found >= len(lines) and _table_in(head) is None


def _table_in(head: str) -> str | None:
    """Return the format of a table: its first lines have as many tabs, semicolons or commas."""
    rows = [row for row in head.split("\n")[:-1] if row.strip() and row[0] != "#"]
    rows = rows[:_ROWS]
    if len(rows) < _LEAST_ROWS:
        return None
    for format, sign, least in (("tsv", "\t", 1), ("csv", ";", 2), ("csv", ",", 2)):
        if len({row.count(sign) for row in rows}) == 1 and rows[0].count(sign) >= least:
            return format
    return None
