"""What is known of a text from its first characters: what rules of detection.py ask for.

Each is counted once, when it is first asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from segmenters.asked import Asked
from segmenters.documents import detection_table as table
from segmenters.documents.signs import Head

# `is_worded`:
_SPACES = 3  # of a line of several words, at least
_WORDED = 0.75  # of the characters are in such lines, at least
_MOST_ODD = 0.025  # of the characters are digits and signs that prose has few of
_LEAST_SPACED = 0.1  # of the characters are spaces

# `is_dense`: with so many lines of code a text is code, whatever its comments and strings hold.
_LEAST_DENSE = 5  # lines
_SHARE_OF_DENSE = 0.15  # of all lines

# `is_packed`:
_SHARE_OF_JOINTS = 0.025  # of the characters are semicolons and braces
LEAST_JOINTS = 25  # of these

# `is_code`:
_MOST_CODE = 0.25  # of code is running text, without comments
_LEAST_PROSE = 0.6  # of prose is running text, without comments
LEAST_VISIBLE = 60  # characters outside of comments; of fewer, shares say little
LEAST_CODE = 3  # lines that only code has
_SHARE_OF_CODE = 0.06  # of all lines are such
_MOST_SHORT = 3  # lines of a text that is too short for shares of its lines
_SHARE_OF_JOINED = 0.4  # of all lines end with a semicolon or a brace
_SHARE_OF_SETTINGS = 0.7  # of the lines that are no comments are settings

_CERTAIN_POINTS = 8  # `is_certain`: with so many a text is of a format, even if it holds code
_LEAST_STEPS = 6  # `has_steps`: a share of so many at least
_LEAST_ROWS = 4  # of `columns`, the first one included
_MOST_ROWS = 12  # that are compared


class Evidence(Head):
    """What rules ask for about a text; each is counted once, when first asked for."""

    @Asked
    def unfenced(self) -> Evidence:
        """Return the text without what is fenced, which is an example."""
        if "```" not in self.text and "~~~" not in self.text:
            return self
        text = table.FENCED.sub("", self.text)
        return self if text == self.text else Evidence(text)

    @Asked
    def last_line(self) -> tuple[int, str]:
        """Return where the last line starts, and its end in small letters."""
        text = self.text
        start = text.rfind("\n", 0, len(text.rstrip())) + 1
        start = max(start, len(text) - table.LONGEST_ANSWER)
        # What else patterns take for small letters of ASCII: the first becomes two letters.
        lower = text[start:].lower()
        if not lower.isascii():
            lower = lower.replace("i\u0307", "i").replace("\u0131", "i").replace("\u017f", "s")
        return start, lower

    @Asked
    def lines(self) -> int:
        """Return how many lines are not blank."""
        return len(self.firsts) - self.firsts.count("")

    @Asked
    def code(self) -> int:
        """Return how many lines only code has."""
        has_sign = any(map(self.text.__contains__, table.IN_CODE))
        begins = self.begins.isdisjoint(table.CODE_BEGINS)
        if not has_sign and begins and self.words.isdisjoint(table.CODE_WORDS):
            return 0
        rows = (
            row
            for row, first in zip(self.rows, self.firsts, strict=True)
            if first in table.CODE_WORDS
            or first[:1] in table.CODE_BEGINS
            or (has_sign and any(sign in row for sign in table.IN_CODE))
        )
        return _matched(table.CODE, rows)

    @Asked
    def said(self) -> Evidence:
        """Return the text without its lines of comments."""
        if not self._comment_rows:
            return self
        rows = [*self.rows]
        for number in self._comment_rows:
            rows[number] = ""
        return Evidence("\n".join(rows))

    @Asked
    def _comment_rows(self) -> list[int]:
        """Return the numbers of the lines of comments."""
        signed = not self.begins.isdisjoint(table.COMMENT_BEGINS)
        if not signed and self.capitals.isdisjoint(table.COMMENT_WORDS):
            return []
        return [
            number
            for number, first in enumerate(self.firsts)
            if (first[:1] in table.COMMENT_BEGINS or first.upper() in table.COMMENT_WORDS)
            and table.COMMENT.match(self.rows[number])
        ]

    @property
    def comments(self) -> int:
        """Return how many lines are comments."""
        return len(self._comment_rows)

    @Asked
    def written(self) -> str:
        """Return what is no comment, without formulas and addresses between its words."""
        text = self.said.text
        if "@" in text:
            return table.INSERTED.sub("", text)
        return table.WITHOUT_ADDRESSES.sub("", text) if "$" in text or "://" in text else text

    @Asked
    def visible(self) -> int:
        """Return how many characters are visible outside of comments."""
        return _visible(self.written)

    @Asked
    def odd(self) -> int:
        """Return how many of its characters are digits and signs of ASCII that prose has few of."""
        data = self.text.encode("utf-8", "surrogatepass")
        return len(data) - len(data.translate(None, table.ODD_IN_PROSE))

    @Asked
    def is_worded(self) -> bool:
        """Return whether nearly all of it is lines of several words with few signs between them.

        That is running text, as most prose is, and is known in a tenth of the time.
        """
        size = len(self.text) - self.text.count("\n")
        worded = sum([len(row) for row in self.rows if row.count(" ") >= _SPACES])
        spaced = self.text.count(" ") >= _LEAST_SPACED * size
        return worded >= _WORDED * size and self.odd <= _MOST_ODD * size and spaced and size > 0

    @Asked
    def running(self) -> float:
        """Return the share of these that is running text."""
        if self.said.is_worded:
            return 1.0
        rows = (row.strip() for row in self.written.split("\n"))
        # Those of three words or fewer have none, in scripts with spaces.
        wordy = (r for r in rows if r.count(" ") + r.count("\t") >= _SPACES or not r.isascii())
        matches = table.RUNNING.finditer("\n".join(wordy))
        running = sum(_visible(match.group()) for match in matches)
        return running / max(self.visible, 1)

    @Asked
    def is_dense(self) -> bool:
        """Return whether it has so much code that it is code, whatever else it holds."""
        return self.code >= max(_LEAST_DENSE, _SHARE_OF_DENSE * self.lines)

    @Asked
    def joints(self) -> int:
        """Return how many semicolons and braces it has."""
        return sum(map(self.text.count, ";{}"))

    @Asked
    def is_packed(self) -> bool:
        """Return whether it holds code on few lines."""
        return self.joints >= max(LEAST_JOINTS, _SHARE_OF_JOINTS * len(self.text))

    @Asked
    def is_code(self) -> bool:
        """Return whether it is code or settings rather than text that people write."""
        if self.running < _MOST_CODE and self.visible >= LEAST_VISIBLE:
            return True
        if self.running < _LEAST_PROSE and (
            self.code >= max(LEAST_CODE, _SHARE_OF_CODE * self.lines) or self.is_packed
        ):
            return True
        lines = self.lines
        if lines <= _MOST_SHORT:
            return False
        enough = _SHARE_OF_JOINED * lines
        if self.joints >= enough <= joined(self.rows):
            return True
        said = lines - self.comments
        enough = _SHARE_OF_SETTINGS * said
        # Each line of settings has one of these.
        if said <= 1 or sum(map(self.text.count, (":", "=", "[", "- "))) < enough:
            return False
        return max(_matched(table.YAML, self.rows), _matched(table.SETTING, self.rows)) >= enough

    def has_steps(self, share: float) -> bool:
        """Return whether this share of its lines and sentences are steps of reasoning."""
        steps = len(table.STEP.findall(self.text)) + len(table.COMPUTED.findall(self.text))
        units = self.lines + len(table.SENTENCE_END.findall(self.text))
        return steps >= max(_LEAST_STEPS, units) * share

    @Asked
    def best(self) -> tuple[str, int]:
        """Return the format of which there are most signs, and its points."""
        points = dict.fromkeys(table.FORMATS, 0)
        for kind, rows in table.FORMATS.items() if table.POINTS.may_match(self) else ():
            for weight, sign in rows:
                points[kind] += weight * sign.times_in(self)
        return max(points.items(), key=lambda row: row[1])

    @Asked
    def is_certain(self) -> bool:
        """Return whether a format of running text has so many points that code may be in it."""
        best, points = self.best
        # What stands in comments is no evidence against code.
        if points >= _CERTAIN_POINTS and self.unfenced.said.best[1] >= _CERTAIN_POINTS:
            return True
        return best == "rst" and not self.unfenced.code and bool(table.DIRECTIVE.search(self.text))

    @Asked
    def columns(self) -> str | None:
        """Return the first row of a table: its rows have as many tabs, semicolons or commas."""
        rows = self.rows
        if len(rows) <= _LEAST_ROWS:
            return None
        shown = (row for row in islice(rows, len(rows) - 1) if row[:1] != "#" and row.strip())
        first = next(shown, "")
        signs = [s for s, least in (("\t", 1), (";", 2), (",", 2)) if first.count(s) >= least]
        others = [*islice(shown, _MOST_ROWS - 1)] if signs else []
        if len(others) >= _LEAST_ROWS - 1:
            for sign in signs:
                if {row.count(sign) for row in others} == {first.count(sign)}:
                    return first
        return None


def joined(rows: list[str]) -> int:
    """Return how many lines end with a semicolon or a brace."""
    return sum(1 for row in rows if row.rstrip(" \t\r").endswith((";", "{", "}")))


def _visible(text: str) -> int:
    return sum(map(len, text.split()))


def _matched(pattern: re.Pattern[str], rows: Iterable[str]) -> int:
    """Return how many lines a pattern matches that reads one line from its start."""
    return sum(1 for row in rows if pattern.match(row))
