"""What is known of a text from its first characters: what rules of detection.py ask for.

Each is counted once, when it is first asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from segmenters.asked import Asked
from segmenters.documents import detection_table as table
from segmenters.documents.detection_table import DIRECTIVE, FORMATS, POINTS
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
_QUOTED = re.compile(r'"[^"\n]*+"')  # a cell, or half of one with quotes in it

_LINES = re.MULTILINE
# Letters with their marks, which are no letters to Python: Hindi has vowels of that kind. Left out
# are white space, digits, ASCII and Latin-1 punctuation, symbols, private characters, emoji.
_LETTER = (
    r"[^\s\d_\x00-\x1f!-/:-@\[-`{-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf\u00d7\u00f7"
    r"\u2000-\u200b\u200e-\u2bff\u2e00-\u2e7f\u3000-\u3004\u3007-\u3020\u3030\u303d-\u303f"
    r"\ud800-\uf8ff\ufe10-\ufe1f\ufe30-\ufe6f\uff00-\uff20\ufff0-\uffff\U0001f000-\U0001faff]"
)
# Words with at most some punctuation around them, four in a row: what people write, code rarely.
_WORD = (
    rf"[\"'(\u201c\u2018*_`]{{0,2}}{_LETTER}{{1,40}}(?:['\u2019-]{_LETTER}{{1,40}}){{0,4}}+"
    r"[,;:.!?)\"'\u201d\u2019*_`]{0,9}(?!\S)"
)
_RUNNING = re.compile(
    rf"(?<!\S){_WORD}(?:[ \t]++{_WORD}){{3,}}+"
    # Scripts without spaces between words.
    r"|[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff\uff00-\uff9f]{6,}+"
)
# A block of any language in Markdown.
_FENCED = re.compile(
    r"^ {0,3}(?:```[^`\n]*+\n(?:(?! {0,3}```)[^\n]*+\n){0,2000}+ {0,3}```"
    r"|~~~[^\n]*+\n(?:(?! {0,3}~~~)[^\n]*+\n){0,2000}+ {0,3}~~~)[`~]*+[ \t\r]*$",
    _LINES,
)
# What these begin is no text of the document if it is code, and a heading or an item if it is not.
_COMMENT = re.compile(
    r"^[ \t]*+(?:#(?!\+|(?:let|set|show|import|figure)\b)|//|/\*|\*|;|--|%"
    r"|'|!|\"|<!--|\(\*|\{-|(?i:@?rem\b|dnl\b|::))[^\n]*+",
    _LINES,
)
# What is written between words.
_INSERTED = re.compile(r"\$[^$\n]{1,200}\$|https?://\S++|\S{1,80}@\S++")
_WITHOUT_ADDRESSES = re.compile(r"\$[^$\n]{1,200}\$|https?://\S++")
# Lines that prose does not have, and lines that it rarely has (verse ends with semicolons).
_CODE = re.compile(
    r"^[ \t]*+(?:#!|#include\b|#define\b|#if(?:n?def)?\b|import [\w.]+(?: as \w+)?;?[ \t\r]*$"
    r"|from [\w.]+ import\b|(?:package|using) [\w.:]+;|(?:async )?def \w+\("
    r"|class \w+[^\n]*[:{][ \t\r]*$"
    r"|func \w+\(|(?:pub )?fn \w+|function\b[^\n]*\{[ \t\r]*$|(?:public|private|static) [^\n]*[;{]"
    r"|return\b[^\n]*[;)\]][ \t\r]*$|elif\b|(?:if|for|while|switch) ?\([^\n]*\{[ \t\r]*$"
    r"|(?:var|let|const) \w+ =|@\w+(?:\.\w+)*(?:\([^\n]*\))?[ \t\r]*$|raise \w+|self\."
    r"|\w+(?:\.\w+)* = [^\n]*[\w)\]}'\"][ \t\r]*$|__\w+__|//|\*/|/\*|(?:my|our) [$@%]\w+|sub \w+"
    r"|(?:typedef|struct|enum|namespace|template|extern|const|inline)\b[^\n]*[{;<>,)][ \t\r]*$"
    r"|[\w.]+\([^\n]*\);[ \t\r]*$|[^\n]*<<'\w+';|(?:end|fi|done|esac|then|else)[ \t\r]*$)",
    _LINES,
)
# Few of these are in prose.
_ODD_IN_PROSE = b"0123456789#$%&*+/<=>@[\\]^_`{|}~"
# What a line of code begins with, or else holds; and what a comment begins with.
_WORDS_OF_CODE = """
    import from package using async def class func pub fn function public private static return
    elif if for while switch var let const raise self my our sub typedef struct enum namespace
    template extern inline end fi done esac then else
"""
_CODE_WORDS = frozenset(_WORDS_OF_CODE.split())
_CODE_BEGINS = frozenset("#@/*_")
_IN_CODE = (" = ", ");", "<<'")
_COMMENT_BEGINS = frozenset("#/*;-%'!\"<({:@")
_COMMENT_WORDS = frozenset(("REM", "DNL"))  # in any case
_YAML = re.compile(
    r"^[ \t]*+(?:- )?[\w.\"'/@-]{1,60}:(?:[ \t]+\S{0,80}[^\n]{0,60}[^.\n])?[ \t\r]*$"
    r"|^[ \t]*+- \S+$",
    _LINES,
)
_SETTING = re.compile(r"^[ \t]*+(?:\[[\w. \"-]{1,60}\]|[\w.-]{1,40}[ \t]*=[^\n]*)[ \t\r]*$", _LINES)


class Evidence(Head):
    """What rules ask for about a text; each is counted once, when first asked for."""

    @Asked
    def unfenced(self) -> Evidence:
        """Return the text without what is fenced, which is an example."""
        if "```" not in self.text and "~~~" not in self.text:
            return self
        text = _FENCED.sub("", self.text)
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
        has_sign = any(map(self.text.__contains__, _IN_CODE))
        begins = self.begins.isdisjoint(_CODE_BEGINS)
        if not has_sign and begins and self.words.isdisjoint(_CODE_WORDS):
            return 0
        rows = (
            row
            for row, first in zip(self.rows, self.firsts, strict=True)
            if first in _CODE_WORDS
            or first[:1] in _CODE_BEGINS
            or (has_sign and any(sign in row for sign in _IN_CODE))
        )
        return _matched(_CODE, rows)

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
        signed = not self.begins.isdisjoint(_COMMENT_BEGINS)
        if not signed and self.capitals.isdisjoint(_COMMENT_WORDS):
            return []
        return [
            number
            for number, first in enumerate(self.firsts)
            if (first[:1] in _COMMENT_BEGINS or first.upper() in _COMMENT_WORDS)
            and _COMMENT.match(self.rows[number])
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
            return _INSERTED.sub("", text)
        return _WITHOUT_ADDRESSES.sub("", text) if "$" in text or "://" in text else text

    @Asked
    def visible(self) -> int:
        """Return how many characters are visible outside of comments."""
        return _visible(self.written)

    @Asked
    def odd(self) -> int:
        """Return how many of its characters are digits and signs of ASCII that prose has few of."""
        data = self.text.encode("utf-8", "surrogatepass")
        return len(data) - len(data.translate(None, _ODD_IN_PROSE))

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
        matches = _RUNNING.finditer("\n".join(wordy))
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
        return max(_matched(_YAML, self.rows), _matched(_SETTING, self.rows)) >= enough

    def has_steps(self, share: float) -> bool:
        """Return whether this share of its lines and sentences are steps of reasoning."""
        steps = len(table.STEP.findall(self.text)) + len(table.COMPUTED.findall(self.text))
        units = self.lines + len(table.SENTENCE_END.findall(self.text))
        return steps >= max(_LEAST_STEPS, units) * share

    @Asked
    def best(self) -> tuple[str, int]:
        """Return the format of which there are most signs, and its points."""
        points = dict.fromkeys(FORMATS, 0)
        for kind, rows in FORMATS.items() if POINTS.may_match(self) else ():
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
        return best == "rst" and not self.unfenced.code and bool(DIRECTIVE.search(self.text))

    @Asked
    def columns(self) -> str | None:
        """Return the first row of a table: its rows have as many tabs, semicolons or commas."""
        rows = self.rows
        if len(rows) <= _LEAST_ROWS:
            return None
        shown = (row for row in islice(rows, len(rows) - 1) if row[:1] != "#" and row.strip())
        shown = (_QUOTED.sub("", row) if '"' in row else row for row in shown)
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
