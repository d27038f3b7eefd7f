r"""SQL statements and JSON members, whose ends are inside lines.

SQL: ";" ends a statement, and a comment behind it on its line belongs to it; comments above one
belong to it. Not inside strings ('', "", ``, []; with doubled quotes or backslashes; E'', q'[]'),
dollar quotes, comments ("# " as well; blocks of them nest, but not in MySQL, which is known by its
back-quotes), parentheses, and blocks: BEGIN .. END and CASE .. END, declarations of PL/SQL between
IS or AS and BEGIN, packages. Lines of clients end statements too: GO, "/", DELIMITER (which changes
";"), psql's commands; behind `COPY .. FROM stdin;` each line up to "\." is a row. A block that is
never closed ends at the next line that creates a routine, or after so many characters. Dialects:
PostgreSQL, MySQL, SQLite, Transact-SQL, Oracle.

JSON: a member of the outermost object or an element of the outermost array; the first begins with
its bracket, the last ends with it. Several values in one text (JSON lines) are a level above. A
member that is too long, as where a bracket is never closed, is cut at members of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from segmenters.records.reading import LINE, LONGEST, Format, Literal, Reading

_REST = 0  # the place among SQL's literals of a comment up to the end of its line
_BLOCK: Final = 1 << 17  # characters, after which a block counts as never closed
_ROUTINE = r"(?:PROCEDURE|FUNCTION|PACKAGE|TRIGGER|EVENT)"
_CREATES = (
    rf"CREATE\s{{1,9}}(?:OR\s{{1,9}}(?:REPLACE|ALTER)\s{{1,9}})?(?:{_ROUTINE}|VIEW|TABLE|INDEX)\b"
)
_NO_BLOCK = (
    r"(?!\s{0,40}+(?:[;,)=.]|\Z|TRAN|WORK|DEFERRED|IMMEDIATE|EXCLUSIVE|ISOLATION|READ|CONCURR))"
)
_WORDS = (
    rf"(?<![\w@#$.\"`\[])(?i:(?P<begin>BEGIN){_NO_BLOCK}|(?P<case>CASE)|(?P<finish>END(?:\s{{1,9}}CASE)?)"
    r"(?!\s{1,9}(?:IF|LOOP|WHILE|REPEAT|FOR)\b)|(?P<create>CREATE|ALTER)"
    rf"|(?P<routine>{_ROUTINE})|(?P<body>IS|AS)(?!\s{{1,20}}+(?:[N]?'|\$))"
    r"|(?P<declare>DECLARE)(?=[ \t]{0,9}[\r\n])|(?P<copy>FROM\s{1,9}STDIN))(?![\w@#$])"
)
_AFTER = re.compile(rf"(?P<o0>--)|(?P<o1>#(?=\s))|(?P<o2>/\*)|(?P<next>\S)|{LINE}")
_NEXT_LINE = re.compile(rf"(?P<next>\S)|{LINE}")


@lru_cache(maxsize=64)
def _delimited(pattern: str, sign: str) -> re.Pattern[str]:
    """Return a pattern of tokens in which another sign ends statements."""
    return re.compile(rf"(?P<sign>{re.escape(sign)})|{pattern}")


@dataclass(slots=True, kw_only=True)
class _Inside(Reading):
    """Reads records that may end inside a line."""

    begun: int = 0  # where the record began
    same_line: bool = False  # as where the last record ended

    @property
    def decided(self) -> int:
        return self.size - 1 - (len(self.rest) - self.context)

    def emit(self, place: int, level: int) -> None:
        self.begun = place
        Reading.emit(self, place, level)


@dataclass(slots=True, kw_only=True)
class Sql(_Inside):
    """Reads SQL."""

    delimiter: str = ""  # instead of ";"
    parens: int = 0
    blocks: int = 0
    declared: bool = False  # semicolons end nothing until a block has ended
    first: bool = True  # no word of the statement has been read
    create: bool = False
    routine: str = ""
    comments: int = 0  # open ones, in each other
    copies: int = 0  # 1: a statement that copies rows; 2: the rows
    escapes: bool = False  # a backslash escapes any quote: this is MySQL, which has back-quotes

    def start(self, text: str, place: int, base: int) -> int:
        """Read the line of a client or a row of data; return where to read on."""
        self.same_line = False
        if self.goes_on(text, place, base):
            return place
        match = self.patterns.starts.match(text, place, place + self.format.head)
        kind = (match.lastgroup or "") if match else ""
        if self.copies == 2:
            if text.startswith("\\.", place):
                self._end()
            else:
                self.emit(base + place, 1)
            self.inside = _REST
            return place
        open_ = self.blocks or self.declared
        if open_ and (kind == "creates" or base + place - self.begun > _BLOCK):
            self._end()
        if kind == "hash":
            self._visible(place, base)
            self.inside = _REST
        elif kind == "go" and self.seen:
            self._end()
            self.inside = _REST
        elif match is not None and (kind == "delimiter" or (kind == "client" and self._free())):
            self._visible(place, base)
            self._end()
            self.inside = _REST
            if kind == "delimiter":
                self.delimiter = "" if match["sign"] == ";" else match["sign"]
        elif not self.seen and kind != "blank":
            self.emit(base + place, 1)
        return place

    def _free(self) -> bool:
        return bool(self.ended or not self.seen or self.first) and not self.parens

    def _visible(self, place: int, base: int) -> None:
        if self.ended or not self.seen:
            self.emit(base + place, 1)
            self.ended = 0

    def _end(self) -> None:
        """End the statement: the next one starts at the next visible character."""
        self.ended, self.same_line = 1, True
        self.parens = self.blocks = self.copies = 0
        self.declared, self.create, self.first, self.routine = False, False, True, ""

    def _token(self, match: re.Match[str], base: int) -> bool:
        if self.inside == _COMMENT and not self.escapes:
            self.comments += {"skip": 1, "end": -1}[match.lastgroup or ""]
            if self.comments:
                return False
        ends = _Inside._token(self, match, base)
        self.comments = int(self.inside == _COMMENT)
        self.escapes = self.escapes or match[0] == "`"
        if self.escapes and self.inside in _QUOTED:
            self.inside = _QUOTED[self.inside]
        return ends

    def tokens(self) -> re.Pattern[str]:
        if self.ended:
            return _AFTER if self.same_line else _NEXT_LINE
        tokens = self.patterns.tokens
        return _delimited(tokens.pattern, self.delimiter) if self.delimiter else tokens

    def mark(self, match: re.Match[str], place: int) -> None:
        sign = match[0]
        if sign == (self.delimiter or ";"):
            if self.delimiter or not (self.blocks or self.declared):
                copies = self.copies == 1
                self._end()
                self.copies = 2 * copies
        elif sign == "(":
            self.parens += 1
        elif sign == ")":
            self.parens = max(0, self.parens - 1)
        else:
            self._word(match)
            self.first = False

    def _word(self, match: re.Match[str]) -> None:
        groups = match.groupdict()
        if groups["begin"] or groups["case"]:
            self.blocks += not self.parens
        elif groups["finish"] and not self.parens:
            self.blocks = max(0, self.blocks - 1)
            self.declared = self.declared and self.blocks > 0
        elif groups["create"]:
            self.create = self.create or self.first
        elif groups["routine"]:
            self.routine = self.routine or (groups["routine"].upper() if self.create else "")
        elif groups["body"] and self.routine in _DECLARING and not self.parens and not self.blocks:
            self.declared = True
            self.blocks += self.routine == "PACKAGE"
        elif groups["declare"]:
            self.declared = self.declared or self.first or self.routine == "TRIGGER"
        elif groups["copy"]:
            self.copies = 1


# Places among SQL's literals: of block comments; of quotes, and of those that a backslash escapes.
_COMMENT: Final = 2
_QUOTED: Final = {3: 7, 4: 8}
_DECLARING = ("PROCEDURE", "FUNCTION", "PACKAGE")


@dataclass(slots=True, kw_only=True)
class Json(_Inside):
    """Reads JSON."""

    nested: int = 0
    base: int = 1  # how deep the members are that are cut: deeper where one is too long

    def start(self, text: str, place: int, base: int) -> int:
        """Note a new line; return where to read on."""
        self.same_line = False
        if not self.goes_on(text, place, base) and not text[place].isspace():
            self.seen = True
        if self.nested > self.base and base + place - self.begun > LONGEST:
            self.base = self.nested
        return place

    def tokens(self) -> re.Pattern[str]:
        if self.ended:
            return _AFTER_VALUE if self.same_line else _NEXT_VALUE
        return self.patterns.tokens

    def mark(self, match: re.Match[str], place: int) -> None:
        if match[0] in "{[":
            self.nested += 1
            self.seen = True
        elif match[0] == ",":
            self.ended = 1 if self.nested == self.base else self.ended
        else:
            self.nested = max(0, self.nested - 1)
            self.base = max(1, min(self.base, self.nested))
            self.ended = int(1 < self.base == self.nested) if self.nested else 2
        self.same_line = bool(self.ended)


# Brackets that close, and commas, belong to the member before them.
_AFTER_VALUE = re.compile(rf"(?P<o0>//)|(?P<o1>/\*)|(?P<mark>[}}\],])|(?P<next>\S)|{LINE}")
_NEXT_VALUE = re.compile(rf"(?P<mark>[}}\],])|(?P<next>\S)|{LINE}")


_QUOTING: Final = r"(?<![\w$])[Nn]?[Qq]'"  # of Oracle: q'[it's]'
# In MySQL it begins a comment; behind an operand, before another, it is an operator of PostgreSQL.
_NUMBER_SIGN: Final = Literal(
    r"(?<=[;,(])#(?=\s)|(?<=[;,(]\s)#(?=\s)|(?<=\s)#(?=\s)(?!\s{1,9}+(?:\d|[BX]'|\())", lines=False
)
SQL: Final = Format(
    names=("statement",),
    starts=r"(?P<blank>[ \t]{0,99}+(?:[\r\n]|\Z))|(?P<go>[ \t]*+(?:(?i:GO)(?:[ \t]+\d{1,9})?|/)"
    r"[ \t]*+;?[ \t]*(?:[\r\n]|\Z))"
    r"|(?P<delimiter>[ \t]*+(?i:DELIMITER)[ \t]++(?P<sign>[^\s]{1,16}))"
    rf"|(?P<client>\\[a-z.!?]|@@?[\w./]|(?i:PROMPT|REM|SET (?:ECHO|DEFINE|SERVEROUTPUT|TERM))\b)"
    rf"|(?P<hash>[ \t]*+#)|(?P<creates>(?i:{_CREATES}))|(?P<other>)",
    head=120,
    literals=(
        Literal("--", lines=False),
        _NUMBER_SIGN,
        Literal(r"/\*", r"\*/", r"(?<=\s)/\*"),
        Literal("'", "'", r"''|\\\\|\\'(?![\s,);]|\Z)"),
        Literal('"', '"', r'""|\\\\|\\"(?![\s,);]|\Z)'),
        Literal("`", "`", "``"),
        Literal(r"(?<![\w$])\$(?P<tag>[A-Za-z_]\w{0,40})?\$", r"\${tag}\$"),
        *(Literal("(?!)", sign, rf"{2 * sign}|\\.") for sign in "'\""),
        Literal(r"(?<![\w$])[Ee]'", "'", r"''|\\."),
        Literal(r"(?<![\w\]\"'`])\[", r"\]", r"\]\]", lines=False),
        *(Literal(rf"{_QUOTING}\{a}", rf"\{b}'") for a, b in ("[]", "{}", "()", "<>")),
        Literal(rf"{_QUOTING}(?P<own>[!|~^#\"/])", "{tag}'"),
    ),
    marks=rf";|[()]|{_WORDS}",
    reach=80,
    reading=Sql,
)


JSON: Final = Format(
    names=("member", "value"),
    starts=r"(?P<blank>[ \t]{0,99}+(?:[\r\n]|\Z))|(?P<other>)",
    head=100,
    literals=(
        Literal("//", lines=False),
        Literal(r"/\*", r"\*/"),
        Literal('"', '"', r"\\.", lines=False),
    ),
    marks=r"[{}\[\],]",
    reach=4,
    reading=Json,
)
