r"""The formats of records that a table can state, and what is a record in each.

Besides this table: `logs` (time stamps), `yaml` (indentation), `statements` (SQL and JSON, whose
records end inside lines). Comments belong to the record in the line below, blank lines to what is
above. Sources: RFC 4180 (CSV), RFC 5545 and 6350 (iCalendar, vCard), RFC 2849 (LDIF), the W3C's
WebVTT, TOML 1.0, the manuals of GNU gettext, GNU make, Docker, HCL, BibTeX, Gherkin and
java.util.Properties.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from segmenters.records.reading import Format, Literal, Reading

_BLANK = r"(?P<blank>[ \t\f]{0,99}+(?:[\r\n]|\Z))"
_HASH = r"(?P<comment>[ \t]{0,99}+#)"
_LINE_HASH = Literal(r"(?<![^\r\n])[ \t]{0,99}#", lines=False)
_TIME = r"[ \t]*+\d{1,4}:\d\d(?::\d\d)?[.,]\d{1,3}[ \t]*+-->"
# A here-document is ended by its word alone in a line; of several, by that of the last.
_HEREDOC = Literal(
    r"(?<=[\s=(\[,])(?:<<[-~]?[\"']?\w{1,40}[\"']?[ \t]{1,9}(?=<<)){0,2}+"
    r"<<[-~]?(?P<quote>[\"']?)(?P<tag>[A-Za-z_]\w{0,39})(?P=quote)",
    r"(?<![^\r\n])[ \t]{0,40}+{tag}(?=[ \t]*[\r\n]|\Z)",
)
_QUOTES = [rf"(?<![^\r\n])[ \t]{{0,99}}{sign}" for sign in ('"""', "```")]
_DOCSTRINGS = tuple(Literal(quote, quote) for quote in _QUOTES)
_PO = r"(?:#~[ \t]*+)?+"
_PARTS = r"(?:Background|Scenario(?: Outline| Template)?|Example)"
_STEP = r"(?:Given|When|Then|And|But|Examples|Scenarios|\*)(?!\w)"
_DIRECTIVES = r"(?:if(?:n?def|n?eq)|else|endif|endef)\b"
_TARGET = r"(?:[^:=\r\n#$]|\$\([^()\r\n]{0,99}\)|\$\{[^{}\r\n]{0,99}\}|\$[^({]|:(?![:=\s]))"


def _rows(delimiters: str) -> Format:
    """Return the format of tables: a quote opens a field only at its start, as for Python's csv."""
    field = Literal(rf'(?<![^{delimiters}\r\n])"', '"', rf'""|\\"(?![{delimiters}\r\n]|\Z)')
    return Format(names=("row",), starts=r"(?P<l1>[^\r\n])", head=1, literals=(field,), reach=3)


@dataclass(slots=True, kw_only=True)
class _Bibtex(Reading):
    def joins_below(self, kind: str) -> bool:
        return kind == "comment" or (kind == "blank" and self.above)


@dataclass(slots=True, kw_only=True)
class _Gherkin(Reading):
    foreign: bool = False  # keywords are in another language
    parts: int = 0  # keywords so far: below that of the feature is its description, then steps

    def level(self, kind: str, match: re.Match[str]) -> int:
        self.foreign = self.foreign or kind == "language"
        if kind == "key" and (self.blank or self.above):
            self.parts += 1
            return 2
        if kind in ("key", "other"):
            return int(self.foreign and self.parts > 1)
        return Reading.level(self, kind, match)


@dataclass(slots=True, kw_only=True)
class _Hcl(Reading):
    value: bool = False  # behind the equals sign of an attribute, where braces are of objects

    def level(self, kind: str, match: re.Match[str]) -> int:
        self.value = False
        return 1 if kind == "close" else Reading.level(self, kind, match)

    def mark(self, match: re.Match[str], place: int) -> None:
        if match[0] == "=":
            self.value = True
        elif match[0] == "{" and (self.depth or self.value):
            self.nest(place)
        elif match[0] == "}" and self.depth:
            self.depth -= 1


@dataclass(slots=True, kw_only=True)
class _Ini(Reading):
    column: int = -1  # of the last key: what is indented deeper goes on with its value

    def level(self, kind: str, match: re.Match[str]) -> int:
        if kind == "l2":
            self.column = -1
        elif kind == "key":
            column = match.end() - match.start()
            if 0 <= self.column < column:
                return 0
            self.column = column
            return 1
        return Reading.level(self, kind, match)


@dataclass(slots=True, kw_only=True)
class _Makefile(Reading):
    rule: bool = False  # below a rule, of which the next other line is no part

    def level(self, kind: str, match: re.Match[str]) -> int:
        if kind not in ("rule", "other"):
            return Reading.level(self, kind, match)
        before, self.rule = self.rule, kind == "rule"
        return 2 if before or self.rule else 1


_PHASES: Final = ("comment", "context", "id", "string")


@dataclass(slots=True, kw_only=True)
class _Po(Reading):
    phase: int = 0  # of the entry; an earlier one begins the next entry

    def level(self, kind: str, match: re.Match[str]) -> int:
        if kind not in _PHASES:
            return 0
        before, self.phase = self.phase, _PHASES.index(kind)
        again = kind in ("context", "id") and self.phase == before
        return 1 if self.blank or self.phase < before or again else 0


@dataclass(slots=True, kw_only=True)
class _Vtt(Reading):
    def level(self, kind: str, match: re.Match[str]) -> int:
        return int(kind == "times" or (kind == "free" and self.blank))

    def joins_below(self, kind: str) -> bool:
        return kind == "free" and self.blank


# `head` and `reach`: characters that `starts` and the other patterns may read, and a machine has to
# wait for.
FORMATS: Final[Mapping[str, Format]] = {
    "ass": Format(
        names=("record", "section"),
        starts=rf"{_BLANK}|(?P<comment>;)|(?P<l2>\[)|(?P<l1>)",
        head=100,
    ),
    # What is between entries is a comment.
    "bibtex": Format(
        names=("entry",),
        starts=rf"{_BLANK}|(?P<l1>[ \t]{{0,20}}+@[A-Za-z]{{1,40}}+[ \t]*+[{{(])"
        r"|(?P<comment>[ \t]{0,20}+[^\s@})])",
        head=100,
        opens="{",
        closes="}",
        resets=r"@[A-Za-z]{1,40}+[ \t]*+\{[^\s{}(),=]{1,50}+,",
        reading=_Bibtex,
    ),
    "csv": _rows(r",;\t|"),
    "dockerfile": Format(
        names=("instruction", "stage"),
        starts=rf"{_BLANK}|{_HASH}|(?P<l2>[ \t]*+(?i:FROM)[ \t])|(?P<l1>)",
        head=100,
        literals=(_LINE_HASH, _HEREDOC),
        joins=r"\\[ \t]{0,8}",
        keeps=True,
        reach=160,
    ),
    "fasta": Format(starts=r"(?P<l1>>)", head=1),
    "genbank": Format(starts=r"(?P<l1>LOCUS[ \t])", head=6),
    "gherkin": Format(
        names=("step", "scenario", "feature"),
        starts=rf"{_BLANK}|(?P<language>[ \t]*+#[ \t]*+language[ \t]*+:)|{_HASH}"
        r"|(?P<tag>[ \t]*+@)|(?P<row>[ \t]*+(?:\||\"\"\"|```))"
        rf"|(?P<l1>[ \t]*+{_STEP})"
        rf"|(?P<l3>[ \t]*+(?:Feature|Ability|Business Need|Rule):)|(?P<l2>[ \t]*+{_PARTS}:)"
        r"|(?P<key>[ \t]*+[^\s:|\"`][^\n:|\"`]{0,30}:[ \t\r\n])|(?P<other>)",
        head=120,
        literals=(_LINE_HASH, *_DOCSTRINGS),
        above=("comment", "tag", "language"),
        resets=rf"[ \t]{{0,4}}{_PARTS}:",
        reach=104,
        reading=_Gherkin,
    ),
    "gitlog": Format(names=("commit",), starts=r"(?P<l1>commit [0-9a-f]{7,64}+(?:\s|\Z))", head=72),
    "hcl": Format(
        names=("item", "block"),
        starts=rf"{_BLANK}|(?P<comment>[ \t]{{0,99}}+(?:#|//|/\*))|(?P<close>[ \t]{{0,99}}+[\]}})])"
        r"|(?P<l2>[^\s])|(?P<l1>[ \t]+[^\s])",
        head=120,
        literals=(
            Literal(r"#|//", lines=False),
            # Quotes inside of one interpolation do not end the string.
            Literal(
                '"',
                '"',
                r"\\.|\$\{[^\"{}\r\n]{0,60}+(?:\"[^\"\r\n]{0,60}+\"[^\"{}\r\n]{0,60}+)\}",
                lines=False,
            ),
            Literal(r"/\*", r"\*/"),
            _HEREDOC,
        ),
        opens="[(",
        closes="])",
        marks=r"[={}]",
        resets=r"[a-z_]\w{0,40}+(?: \"[^\"\r\n]{0,60}+\"){0,3} \{[ \t]*+\r?\n",
        reach=200,
        reading=_Hcl,
    ),
    "ics": Format(
        names=("record", "section"),
        starts=r"(?P<l2>BEGIN:V(?:CALENDAR|CARD)\b)|(?P<l1>BEGIN:V(?!ALARM)[A-Z]+)",
        head=20,
    ),
    "ini": Format(
        names=("item", "section"),
        starts=rf"{_BLANK}|(?P<comment>[ \t]*+[#;])|(?P<l2>[ \t]*+\[)|(?P<key>[ \t]*+)",
        head=100,
        reading=_Ini,
    ),
    "ldif": Format(
        starts=rf"{_BLANK}|(?P<comment>#)|(?P<l1>(?i:dn|version|search|result)::?[ \t<])", head=100
    ),
    "makefile": Format(
        names=("line", "target"),
        starts=rf"(?P<l1>\t|[ ]{{0,9}}+{_DIRECTIVES})|{_BLANK}|(?P<comment>[ ]{{0,9}}+#)"
        rf"|(?P<rule>[^\s:=#]{_TARGET}*+::?(?![:=])(?![^\r\n=]{{0,9}}:=))|(?P<other>[^\r\n])",
        head=250,
        literals=(
            Literal(r"(?<![^\r\n])[ ]{0,9}(?:override )?define\b", r"(?<![^\r\n])[ ]{0,9}endef\b"),
        ),
        joins=r"\\",
        reach=32,
        reading=_Makefile,
    ),
    "po": Format(
        names=("entry",),
        starts=rf"{_BLANK}|(?P<comment>#(?!~)|#~\|)|(?P<context>{_PO}msgctxt)"
        rf"|(?P<id>{_PO}msgid\s)|(?P<string>{_PO}msg(?:id_plural|str))",
        head=100,
        above=(),
        reading=_Po,
    ),
    "properties": Format(
        names=("item",),
        starts=rf"{_BLANK}|(?P<comment>[ \t\f]*+[#!])|(?P<l1>)",
        head=100,
        literals=(Literal(r"(?<![^\r\n])[ \t\f]{0,99}[#!]", lines=False),),
        joins=r"(?<!\\)(?:\\\\){0,9}\\",
        reach=104,
    ),
    "requirements": Format(
        names=("item",), starts=rf"{_BLANK}|{_HASH}|(?P<l1>)", head=100, joins=r"\\"
    ),
    # A number in a line of its own is above the times; some files lack it.
    "srt": Format(
        names=("cue",),
        starts=rf"(?P<tag>\ufeff?[ \t]*+\d{{1,9}}[ \t]*+(?:\r\n?|\n){_TIME})|(?P<l1>{_TIME})",
        head=80,
    ),
    "toml": Format(
        names=("item", "table"),
        starts=rf"{_BLANK}|{_HASH}|(?P<l2>[ \t]*+\[)|(?P<close>[ \t]*+[\]}}])|(?P<l1>[ \t]*+\S)",
        head=100,
        literals=(
            Literal(r'"""', r'"""(?!")', r"\\."),
            Literal("'''", "'''(?!')"),
            Literal('"', '"', r"\\.", lines=False),
            Literal("'", "'", lines=False),
            Literal("#", lines=False),
        ),
        opens="[{",
        closes="]}",
        resets=r"\[{1,2}[A-Za-z_][\w.-]{0,60}\]{1,2}[ \t]*+\r?\n",
    ),
    "tsv": _rows(r"\t"),
    "vcard": Format(starts=r"(?P<l1>(?i:BEGIN:VCARD))", head=12),
    "vtt": Format(
        names=("cue",), starts=rf"{_BLANK}|(?P<times>{_TIME})|(?P<free>)", head=100, reading=_Vtt
    ),
}
