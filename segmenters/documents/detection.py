"""Detect what kind of text a document is from its first characters: an ordered table of rules.

The first rule that holds decides (`RULES`): signs that texts of one kind rarely lack and others
rarely hold (detection_table.py); how much of the text is code; which format of running text has the
most points; whether it is a table or a log. Where none holds, the text is prose. What is costly is
counted only when a rule asks for it, and plain prose is known by a shorter look.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple

from segmenters.asked import Asked
from segmenters.documents import detection_table as table
from segmenters.documents.signs import Head, Sign

# How many characters are read, and of plain prose.
_HEAD, _FIRST_LOOK = 20_000, 4_000
# Of what is no comment, so much is running text in prose, and so little in code.
_LEAST_PROSE, _MOST_CODE, _PLAIN = 0.6, 0.25, 0.7
_LEAST_VISIBLE = 60  # in shorter texts, shares say little
_SEVERAL, _WORDED, _MOST_ODD, _LEAST_SPACED = 3, 0.75, 0.025, 0.1
_LEAST_FORMULAS, _SHARE_OF_FORMULAS, _SHARE_OF_BRACES, _SHARE_OF_SEMICOLONS = 2, 0.3, 0.3, 0.012
_LEAST_SAID, _SHARE_OF_SAID, _SHARE_OF_NAMES = 5, 0.5, 0.6
_LONGEST_LINE = 1500  # on average
_LEAST_CODE, _SHARE_OF_CODE, _SHARE_LIKE_CODE = 3, 0.06, 0.4
# With so many lines of code a text is code, whatever its comments and strings hold.
_LEAST_DENSE, _SHARE_OF_DENSE = 5, 0.15
_LEAST_SIGNED, _SHARE_OF_SIGNS = 1000, 0.025
_LEAST_LINES, _SHARE_OF_SETTINGS = 3, 0.7
_LEAST_ROWS, _ROWS, _LEAST_RECORDS, _RECORDS = 4, 12, 3, 40
_LEAST_POINTS, _CERTAIN_POINTS = 3, 8
_LEAST_STEPS, _SHARE_OF_STEPS, _MOST_STEPS = 7, 0.3, 0.75
_SHOWN = 40  # characters of what matched
_DIGITS = re.compile(r"\d")


class Detection(NamedTuple):
    """The kind of a text, the rule that decided it, and what that rule matched, if anything."""

    kind: str
    rule: str
    matched: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.matched}" if self.matched else self.rule


class Rule(NamedTuple):
    """A row of the table: its name, the kind that it means, and what it matches (None: nothing)."""

    name: str
    kind: str
    when: Callable[[Evidence], str | None]


def detect(text: str) -> Detection | None:
    """Return the kind of a text and the rule that decided it; None for prose."""
    evidence = Evidence(text.removeprefix("\ufeff")[:_HEAD])
    if not _is_line_without_signs(evidence) and not _is_plain(evidence):
        plain = evidence.plain is evidence and not table.ALL.may_match(evidence)
        for name, kind, when in _OF_NO_SIGN if plain else RULES:
            if (matched := when(evidence)) is not None:
                line = evidence.line_of(matched)
                return Detection(kind, name, line)
    return None


def looks_like(text: str) -> str | None:
    """Return the kind that the text looks like, or None."""
    kind = detect(text)
    return kind and kind.kind


def kind_of_paper(text: str) -> str:
    """Return "markdown" for a paper that went through pandoc, else "latex"."""
    head = text[:_HEAD]
    return "markdown" if _count(table.PANDOC, head) > _count(table.LATEX, head) else "latex"


class Evidence(Head):
    """What rules ask for about a text; each is counted once, when first asked for."""

    @Asked
    def plain(self) -> Evidence:
        """Return the text without what is fenced, which is an example."""
        if "```" not in self.text and "~~~" not in self.text:
            return self
        plain = table.FENCED.sub("", self.text)
        return self if plain == self.text else Evidence(plain)

    def line_of(self, matched: str) -> str:
        """Return the first line of what a rule matched, with its number in the text."""
        shown = matched.strip().split("\n", 1)[0].strip()
        if not shown:
            return ""
        line = self.text.count("\n", 0, max(0, self.text.find(matched.strip()))) + 1
        return f"{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}, line {line}"

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
        return _rows(table.CODE, rows)

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
    def has_no_signs(self) -> bool:
        """Return True only of a text without signs and points, which one look tells of most."""
        return (
            table.WITHOUT_SIGNS.fullmatch(self.text) is not None
            and table.READ_FIRST.isdisjoint(self.capitals)
            and self.begins.isdisjoint(table.ALL.needs.begins)
            and table.ALL.at_start.match(self.text) is None
        )

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
        worded = sum([len(row) for row in self.rows if row.count(" ") >= _SEVERAL])
        spaced = self.text.count(" ") >= _LEAST_SPACED * size
        return worded >= _WORDED * size and self.odd <= _MOST_ODD * size and spaced and size > 0

    @Asked
    def running(self) -> float:
        """Return the share of these that is running text."""
        if self.said.is_worded:
            return 1.0
        rows = (row.strip() for row in self.written.split("\n"))
        # Those of three words or fewer have none, in scripts with spaces.
        wordy = (r for r in rows if r.count(" ") + r.count("\t") >= _SEVERAL or not r.isascii())
        matches = table.RUNNING.finditer("\n".join(wordy))
        running = sum(_visible(match.group()) for match in matches)
        return running / max(self.visible, 1)

    @Asked
    def is_dense(self) -> bool:
        return _dense(self.code, self.lines)

    @Asked
    def is_packed(self) -> bool:
        """Return whether it holds code on few lines."""
        wanted = _SHARE_OF_SIGNS * max(len(self.text), _LEAST_SIGNED)
        return sum(map(self.text.count, ";{}")) >= wanted

    @Asked
    def is_code(self) -> bool:
        """Return whether it is code or settings rather than text that people write."""
        if self.running < _MOST_CODE and self.visible >= _LEAST_VISIBLE:
            return True
        if self.running < _LEAST_PROSE and (
            self.code >= max(_LEAST_CODE, _SHARE_OF_CODE * self.lines) or self.is_packed
        ):
            return True
        lines = self.lines
        if lines <= _LEAST_LINES:
            return False
        enough = _SHARE_LIKE_CODE * lines
        if sum(map(self.text.count, ";{}")) >= enough <= _like_code(self.rows):
            return True
        said = lines - self.comments
        enough = _SHARE_OF_SETTINGS * said
        # Each line of settings has one of these.
        if said <= 1 or sum(map(self.text.count, (":", "=", "[", "- "))) < enough:
            return False
        return max(_rows(table.YAML, self.rows), _rows(table.SETTING, self.rows)) >= enough

    def has_steps(self, share: float) -> bool:
        """Return whether this share of its lines and sentences are steps of reasoning."""
        steps = len(table.STEP.findall(self.text))
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
        if points >= _CERTAIN_POINTS and self.plain.said.best[1] >= _CERTAIN_POINTS:
            return True
        return best == "rst" and not self.plain.code and bool(table.DIRECTIVE.search(self.text))

    @Asked
    def columns(self) -> str | None:
        """Return the first row of a table: its rows have as many tabs, semicolons or commas."""
        rows = self.rows
        if len(rows) <= _LEAST_ROWS:
            return None
        shown = (row for row in islice(rows, len(rows) - 1) if row[:1] != "#" and row.strip())
        first = next(shown, "")
        signs = [s for s, least in (("\t", 1), (";", 2), (",", 2)) if first.count(s) >= least]
        others = [*islice(shown, _ROWS - 1)] if signs else []
        if len(others) >= _LEAST_ROWS - 1:
            for sign in signs:
                if {row.count(sign) for row in others} == {first.count(sign)}:
                    return first
        return None


def _is_plain(whole: Evidence) -> bool:
    """Return whether the beginning of a text is running text without signs of any other kind."""
    head = whole.text
    first = whole if len(head) <= _FIRST_LOOK else Evidence(head[:_FIRST_LOOK])
    if not first.has_no_signs and (
        not first.chars.isdisjoint("\\$")
        or "```" in first.text
        or "~~~" in first.text
        or (
            table.ALL.may_match(first) and any(sign.search(first) is not None for sign in table.ALL)
        )
        or first.best[1] > 1
    ):
        return False
    return (
        first.code == 0
        and _speakers(first) is None
        and _answer(whole) is None
        and _conclusion(whole) is None
        and first.running >= _PLAIN
        and not first.is_code
        and first.columns is None
        and _stamps(first) is None
    )


def _is_line_without_signs(evidence: Evidence) -> bool:
    """Return True only for one line of which no rule holds.

    So are most documents of one line, which are known in a tenth of the time.
    """
    text = evidence.text
    match = table.FIRST_OF_LINE.match(text)
    if match is None or table.WITHOUT_SIGNS.fullmatch(text) is None:
        return False
    first = (match[1] or "").upper()
    if text.count(";") >= _SHARE_OF_SIGNS * _LEAST_SIGNED or (
        first in table.READ_FIRST
        and (not first.isalpha() or any(sign.search(evidence) is not None for sign in table.ALL))
    ):
        return False
    if (first in table.AT_START or not first.isalpha()) and table.ALL.at_start.match(text):
        return False
    if _answer(evidence) is not None or _conclusion(evidence) is not None:
        return False
    return len(text) - text.count(" ") < _LEAST_VISIBLE or evidence.is_worded


def _speakers(evidence: Evidence) -> str | None:
    """Return the first speaker, if most lines name theirs and some of the names come again."""
    text = evidence.text
    if text.count(":") + text.count("\uff1a") < _LEAST_SAID:
        return None
    rows = [row for row in evidence.rows if ":" in row or "\uff1a" in row]
    said = [match for row in rows if (match := table.SAID.match(row))]
    names = {match["name"] or match["nick"] for match in said}
    enough = len(said) >= max(_LEAST_SAID, _SHARE_OF_SAID * evidence.plain.lines)
    return said[0].group() if enough and 2 <= len(names) <= _SHARE_OF_NAMES * len(said) else None


def _solution(evidence: Evidence) -> str | None:
    """Return a sign of a solution of a problem in mathematics, if the text is one."""
    text = evidence.text
    if evidence.chars.isdisjoint("\\$") and not any(sign in text for sign in table.OF_SOLUTIONS):
        return None
    match = table.SOLUTION.search(text)
    # Each formula has one of these.
    if not match and text.count("\\") + text.count("$") < _LEAST_FORMULAS:
        return None
    # Displays and pictures look like code.
    shown = any(sign in text for sign in table.OF_DISPLAYS)
    said = Evidence(table.DISPLAY.sub("", text)) if shown else evidence
    enough = max(_LEAST_FORMULAS, _SHARE_OF_FORMULAS * said.lines)
    if not match and text.count("\\") + text.count("$") < enough:
        return None
    holds = (
        (match or _count(table.FORMULA, text) >= enough)
        and _count(table.PAPER, text) <= 1
        and len(said.text) <= _LONGEST_LINE * max(said.lines, 1)
        and not said.is_dense
        and said.text.count(";") <= _SHARE_OF_SEMICOLONS * len(said.text)
        and _like_code(said.rows) < max(_LEAST_CODE, _SHARE_OF_BRACES * said.lines)
    )
    return (match.group() if match else "") if holds else None


def _answer(evidence: Evidence) -> str | None:
    """Return the answer with which a chain of thought ends."""
    start, lower = evidence.last_line
    if not any(map(lower.__contains__, table.OF_ANSWERS)):
        return None
    match = table.ANSWER.search(evidence.text, start)
    if match is None or evidence.plain.is_dense or not evidence.has_steps(_SHARE_OF_STEPS):
        return None
    return match.group()


def _conclusion(evidence: Evidence) -> str | None:
    """Return the conclusion of a text nearly all of which are steps, unless it would be code."""
    start, lower = evidence.last_line
    if not lower.lstrip(" \t").startswith(table.CONCLUDING):
        return None
    match = table.CONCLUSION.search(evidence.text, start)
    if match is None:
        return None
    if evidence.columns is None:
        share = _SHARE_OF_STEPS if _code(evidence) is not None else _MOST_STEPS
        if not evidence.has_steps(share):
            return None
    return match.group()


def _lines_of_code(evidence: Evidence) -> str | None:
    return "" if evidence.plain.is_dense and not evidence.is_certain else None


def _tags(evidence: Evidence) -> str | None:
    """Return the first tag, unless it is in Markdown, many pages of which hold some."""
    if evidence.is_certain and evidence.best[0] == "markdown":
        return None
    return table.TAGS.found(evidence.plain)


def _points(kind: str) -> Callable[[Evidence], str | None]:
    """Return the rule of the format of running text that has most points."""

    def when(evidence: Evidence) -> str | None:
        best, points = evidence.best
        if best != kind or points < _LEAST_POINTS or evidence.plain.is_dense:
            return None
        if not evidence.is_certain and _code(evidence) is not None:
            return None
        return next(match for _, sign in table.FORMATS[kind] if (match := sign.search(evidence)))

    return when


def _table(evidence: Evidence) -> str | None:
    return None if evidence.plain.is_dense else evidence.columns


def _stamps(evidence: Evidence) -> str | None:
    """Return the first time, if half of the first lines that are not indented begin with one."""
    if len(evidence.rows) < _LEAST_RECORDS or (not evidence.odd and evidence.text.isascii()):
        return None
    rows = [row for row in evidence.rows[:_RECORDS] if row.strip() and row[0] not in " \t"]
    dated = [row for row in rows if _DIGITS.search(row)]
    if len(dated) < max(_LEAST_RECORDS, len(rows) / 2):
        return None
    stamped = [match for row in dated if (match := table.STAMPED.match(row))]
    enough = len(stamped) >= _LEAST_RECORDS and 2 * len(stamped) >= len(rows)
    return stamped[0].group() if enough and evidence.columns is None else None


def _code(evidence: Evidence) -> str | None:
    signed = evidence.text.startswith(("#!", "/*", "//"))
    return "" if signed or evidence.plain.is_code else None


def _signs(rows: Iterable[Sign], *, fenced: bool = False) -> list[Rule]:
    """Return the rules of signs; what is fenced counts only where a fence is the sign."""

    def when(sign: Sign) -> Callable[[Evidence], str | None]:
        return lambda evidence: sign.found(evidence if fenced else evidence.plain)

    return [Rule(sign.name, sign.kind, when(sign)) for sign in rows]


# Tried from the first on.
RULES: Final = (
    Rule("speakers", "transcript", _speakers),
    *_signs(table.CERTAIN),
    Rule("solution", "chain_of_thought", _solution),
    Rule("answer", "chain_of_thought", _answer),
    *_signs(table.PROOFS),
    Rule("conclusion", "chain_of_thought", _conclusion),
    Rule("lines of code", "code", _lines_of_code),
    *_signs([table.FENCES], fenced=True),
    *_signs([table.COMMANDS]),
    Rule("tags", "html", _tags),
    *_signs(table.CHAINS),
    Rule("points of Markdown", "markdown", _points("markdown")),
    Rule("points of reStructuredText", "rst", _points("rst")),
    Rule("table", "lines", _table),
    Rule("log", "lines", _stamps),
    Rule("code", "code", _code),
)
_OF_NO_SIGN: Final = [rule for rule in RULES if rule.name not in {sign.name for sign in table.ALL}]


def _dense(code: int, lines: int) -> bool:
    return code >= max(_LEAST_DENSE, _SHARE_OF_DENSE * lines)


def _visible(text: str) -> int:
    return sum(map(len, text.split()))


def _rows(pattern: re.Pattern[str], rows: Iterable[str]) -> int:
    """Return how many lines a pattern matches that reads one line from its start."""
    return sum(1 for row in rows if pattern.match(row))


def _like_code(rows: list[str]) -> int:
    """Return how many lines end with a semicolon or a brace."""
    return sum(1 for row in rows if row.rstrip(" \t\r").endswith((";", "{", "}")))


def _count(pattern: re.Pattern[str], text: str, most: int | None = None) -> int:
    return sum(1 for _ in islice(pattern.finditer(text), most))
