"""Detect what kind of text a document is from its first characters: an ordered table of rules.

The first rule that holds decides (`RULES`): signs that texts of one kind rarely lack and others
rarely hold (detection_table.py); how much of the text is code; which format of running text has the
most points; whether it is a table or a log. Where none holds, the text is prose. What is costly is
counted only when a rule asks for it, and plain prose is known by a shorter look.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from segmenters.documents import detection_table as table
from segmenters.documents.evidence import LEAST_CODE, LEAST_JOINTS, LEAST_VISIBLE, Evidence, joined
from segmenters.documents.signs import Sign

_HEAD = 20_000  # characters that are read


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
    head = _head(text)
    if _is_line_without_signs(head) or _begins_as_prose(evidence := Evidence(head)):
        return None
    has_no_sign = evidence.unfenced is evidence and not table.ALL.may_match(evidence)
    for name, kind, when in _OF_NO_SIGN if has_no_sign else RULES:
        if (matched := when(evidence)) is not None:
            return Detection(kind, name, _shown(matched, evidence.text))
    return None


def _head(text: str) -> str:
    """Return the characters that are read, with line ends of one kind."""
    head = text.removeprefix("\ufeff")[:_HEAD]
    return head.replace("\r\n", "\n").replace("\r", "\n") if "\r" in head else head


_SHOWN = 40  # characters of what matched


def _shown(matched: str, text: str) -> str:
    """Return the first line of what a rule matched, with its number in the text."""
    shown = matched.strip().split("\n", 1)[0].strip()
    if not shown:
        return ""
    line = text.count("\n", 0, max(0, text.find(matched.strip()))) + 1
    return f"{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}, line {line}"


def looks_like(text: str) -> str | None:
    """Return the kind that the text looks like, or None."""
    kind = detect(text)
    return kind and kind.kind


def kind_of_paper(text: str) -> str:
    """Return "markdown" for a paper that went through pandoc, else "latex"."""
    head = _head(text)
    return "markdown" if _count(table.PANDOC, head) > _count(table.LATEX, head) else "latex"


_FIRST_LOOK = 4_000  # characters
_LEAST_RUNNING = 0.7  # of what is no comment in them is running text


def _begins_as_prose(whole: Evidence) -> bool:
    """Return whether the beginning of a text is running text without signs of any other kind.

    That asks for more than that no rule holds, of fewer characters.
    """
    head = whole.text
    first = whole if len(head) <= _FIRST_LOOK else Evidence(head[:_FIRST_LOOK])
    return (
        _has_no_sign(first)
        and first.code == 0
        and _speakers(first) is None
        and _answer(whole) is None
        and _conclusion(whole) is None
        and first.running >= _LEAST_RUNNING
        and not first.is_code
        and first.columns is None
        and _stamps(first) is None
    )


def _has_no_sign(first: Evidence) -> bool:
    """Return whether a text has no sign of another kind, and one point at most."""
    return _one_look_tells(first) or (
        first.chars.isdisjoint("\\$")
        and "```" not in first.text
        and "~~~" not in first.text
        and not (
            table.ALL.may_match(first) and any(sign.search(first) is not None for sign in table.ALL)
        )
        and first.best[1] <= 1
    )


def _one_look_tells(first: Evidence) -> bool:
    """Return True only of a text without signs and points: of most that have none."""
    return (
        table.WITHOUT_SIGNS.fullmatch(first.text) is not None
        and table.READ_FIRST.isdisjoint(first.capitals)
        and first.begins.isdisjoint(table.ALL.needs.begins)
        and table.ALL.at_start.match(first.text) is None
    )


def _is_line_without_signs(text: str) -> bool:
    """Return True only for one line of which no rule holds.

    So are most documents of one line, which are known in a tenth of the time: what is counted in a
    text is asked for only where it may decide.
    """
    match = table.FIRST_OF_LINE.match(text)
    if match is None or table.WITHOUT_SIGNS.fullmatch(text) is None:
        return False
    if text.count(";") >= LEAST_JOINTS:
        return False
    first, lower = (match[1] or "").upper(), text.lower()
    if (first in table.AT_START or not first.isalpha()) and table.ALL.at_start.match(text):
        return False
    if first in table.READ_FIRST:
        evidence = Evidence(text)
        if not first.isalpha() or any(sign.search(evidence) is not None for sign in table.ALL):
            return False
    if text.isascii():
        may_conclude = first.lower() in table.FIRST_OF_CONCLUSIONS
        words = table.OF_ASCII_ANSWERS
    else:
        may_conclude = lower.lstrip(" \t").startswith(table.CONCLUDING)
        words = table.OF_ANSWERS
    if may_conclude or _holds_any(lower, words):
        evidence = Evidence(text)
        if _answer(evidence) is not None or _conclusion(evidence) is not None:
            return False
    return len(text) - text.count(" ") < LEAST_VISIBLE or Evidence(text).is_worded


def _holds_any(text: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110  in two thirds of the time of `any`
        if word in text:
            return True
    return False


_LEAST_SAID = 5  # lines that name who speaks
_SHARE_OF_SAID = 0.5  # of all lines do
_LEAST_NAMES = 2  # that differ
_SHARE_OF_NAMES = 0.6  # of these lines have a new name, at most: some come again


def _speakers(evidence: Evidence) -> str | None:
    """Return the first speaker, if most lines name theirs and some of the names come again."""
    text = evidence.text
    if text.count(":") + text.count("\uff1a") < _LEAST_SAID:
        return None
    rows = [row for row in evidence.rows if ":" in row or "\uff1a" in row]
    said = [match for row in rows if (match := table.SAID.match(row))]
    names = {match["name"] or match["nick"] for match in said}
    enough = len(said) >= max(_LEAST_SAID, _SHARE_OF_SAID * evidence.unfenced.lines)
    few = _LEAST_NAMES <= len(names) <= _SHARE_OF_NAMES * len(said)
    return said[0].group() if enough and few else None


_LEAST_FORMULAS = 2  # of a solution without a sign of its own
_SHARE_OF_FORMULAS = 0.3  # for each of its lines
_MOST_OF_PAPERS = 1  # signs of a paper
_LONGEST_LINE = 1500  # characters, on average
_MOST_SEMICOLONS = 0.012  # of the characters; more are of code
_MOST_JOINED = 0.3  # of the lines end with a semicolon or a brace; more are of code


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
        and _count(table.PAPER, text) <= _MOST_OF_PAPERS
        and len(said.text) <= _LONGEST_LINE * max(said.lines, 1)
        and not said.is_dense
        and said.text.count(";") <= _MOST_SEMICOLONS * len(said.text)
        and joined(said.rows) < max(LEAST_CODE, _MOST_JOINED * said.lines)
    )
    return (match.group() if match else "") if holds else None


_SHARE_OF_STEPS = 0.3  # of the lines and sentences of a chain of thought are steps
_SHARE_OF_SURE_STEPS = 0.65  # if it ends with a conclusion alone and looks like prose


def _answer(evidence: Evidence) -> str | None:
    """Return the answer with which a chain of thought ends."""
    start, lower = evidence.last_line
    if not _holds_any(lower, table.OF_ANSWERS):
        return None
    match = table.ANSWER.search(evidence.text, start)
    if match is None or evidence.unfenced.is_dense or not evidence.has_steps(_SHARE_OF_STEPS):
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
        share = _SHARE_OF_STEPS if _code(evidence) is not None else _SHARE_OF_SURE_STEPS
        if not evidence.has_steps(share):
            return None
    return match.group()


def _lines_of_code(evidence: Evidence) -> str | None:
    return "" if evidence.unfenced.is_dense and not evidence.is_certain else None


def _tags(evidence: Evidence) -> str | None:
    """Return the first tag, unless it is in Markdown, many pages of which hold some."""
    if evidence.is_certain and evidence.best[0] == "markdown":
        return None
    return table.TAGS.found(evidence.unfenced)


def _fragment(evidence: Evidence) -> str | None:
    """Return the tag with which a text begins that ends with one, unless it is in Markdown."""
    match = table.BLOCK_TAG.match(evidence.text)
    if match is None or not table.CLOSING_TAG.search(evidence.last_line[1]):
        return None
    best, points = evidence.best
    return None if best == "markdown" and points >= _LEAST_POINTS else match.group()


_LEAST_POINTS = 3  # of a format of running text


def _points(kind: str) -> Callable[[Evidence], str | None]:
    """Return the rule of the format of running text that has most points."""

    def when(evidence: Evidence) -> str | None:
        best, points = evidence.best
        if best != kind or points < _LEAST_POINTS or evidence.unfenced.is_dense:
            return None
        if not evidence.is_certain and _code(evidence) is not None:
            return None
        return next(match for _, sign in table.FORMATS[kind] if (match := sign.search(evidence)))

    return when


def _table(evidence: Evidence) -> str | None:
    return None if evidence.unfenced.is_dense else evidence.columns


_LEAST_RECORDS = 3  # lines of a log that begin with a time
_MOST_RECORDS = 40  # lines that are looked at
_DIGITS = re.compile(r"\d")


def _stamps(evidence: Evidence) -> str | None:
    """Return the first time, if half of the first lines that are not indented begin with one."""
    if len(evidence.rows) < _LEAST_RECORDS or (not evidence.odd and evidence.text.isascii()):
        return None
    rows = [row for row in evidence.rows[:_MOST_RECORDS] if row.strip() and row[0] not in " \t"]
    dated = [row for row in rows if _DIGITS.search(row)]
    if len(dated) < max(_LEAST_RECORDS, len(rows) / 2):
        return None
    stamped = [match for row in dated if (match := table.STAMPED.match(row))]
    enough = len(stamped) >= _LEAST_RECORDS and 2 * len(stamped) >= len(rows)
    return stamped[0].group() if enough and evidence.columns is None else None


def _code(evidence: Evidence) -> str | None:
    signed = evidence.text.startswith(("#!", "/*", "//"))
    return "" if signed or evidence.unfenced.is_code else None


def _signs(rows: Iterable[Sign], *, fenced: bool = False) -> list[Rule]:
    """Return the rules of signs; what is fenced counts only where a fence is the sign."""

    def when(sign: Sign) -> Callable[[Evidence], str | None]:
        return lambda evidence: sign.found(evidence if fenced else evidence.unfenced)

    return [Rule(sign.name, sign.kind, when(sign)) for sign in rows]


# Tried from the first on.
RULES: Final = (
    Rule("speakers", "transcript", _speakers),
    *_signs(table.CERTAIN),
    Rule("solution", "chain_of_thought", _solution),
    Rule("answer", "chain_of_thought", _answer),
    *_signs(table.PROOFS),
    Rule("conclusion", "chain_of_thought", _conclusion),
    Rule("fragment of HTML", "html", _fragment),
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


def _count(pattern: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))
