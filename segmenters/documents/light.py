r"""AsciiDoc, MediaWiki, Org, Typst and manual pages -> parts: one reader, a table of each format.

All five are read line by line. What begins a line decides: a heading, a line on its own (attribute,
macro, row of a table, comment), an item of a list, the opening of a listing up to its closing line,
a literal line (indented), or text. The title and what follows of a heading begin a section. In
Typst, lines from "#let" and the like up to the closing bracket are code. In manual pages, requests
that set type (.B, .Fl) belong to their sentence, and all others are lines. Sources: AsciiDoc
language documentation; Help:Formatting of MediaWiki; Org manual, "Org Syntax"; Typst reference,
"Syntax"; man(7) and mdoc(7).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from segmenters.documents.parts import EOL, Part, Reader
from segmenters.places import Walk

_REST = rf"[^\r\n]*+{EOL}"
_LINE_END = r"(?=[ \t]*+(?:[\r\n]|\Z))"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Markup:
    """A pattern of lines, with the kinds of lines as its groups, and what closes listings.

    A listing is closed by the pattern that `closings` has for its first word, or by its own line.
    """

    line: re.Pattern[str]
    closings: Mapping[str, str] = field(default_factory=dict)
    underlined: bool = False  # headings may be lines above a rule as long as they are
    joined: bool = False  # lines of code go on to their closing bracket


def _lines(*kinds: str) -> re.Pattern[str]:
    """Return the pattern of a line that begins as one of these, as text, or is blank."""
    starts = "|".join(kinds)
    return re.compile(rf"(?:{starts}|[ \t]*+(?P<text>[^\s])|(?P<blank>)){_REST}", re.IGNORECASE)


_MARKUPS: Final = {
    "asciidoc": _Markup(
        line=_lines(
            r"(?P<heading>={1,6}[ \t]+(?=\S))",
            rf"(?P<open>(?:-{{4,40}}|\.{{4,40}}|/{{4,40}}|\+{{4,40}}|`{{3}}[\w-]{{0,20}}){_LINE_END})",
            r"(?P<line>:!?[\w-]{1,60}!?:(?=[ \t\r\n]|\Z)"
            r"|\[(?:source[ \t]*,[ \t]*(?P<lang>[\w+#-]{1,30}))?"
            rf"[^\]\r\n]{{0,200}}+\]{_LINE_END}|\w{{1,20}}::\S{{0,500}}\[|//(?!/)"
            rf"|\.(?=[^\s.])|\||'''|<<<|(?:={{4,}}|\*{{4,}}|_{{4,}}|--|~{{4,}}){_LINE_END})",
            r"(?P<item>[ \t]*+(?:[*.-]{1,5}|\d{1,4}\.|[a-z]\.|<[\d.]{1,3}>)[ \t]+(?=\S)"
            rf"|\S[^\r\n:]{{0,100}}:{{2,4}}(?=[ \t]|{EOL}))",
            r"(?P<literal>[ \t]++(?=\S))",
        ),
        underlined=True,
    ),
    "mediawiki": _Markup(
        line=_lines(
            rf"(?P<heading>={{1,6}}[^=\r\n][^\r\n]{{0,300}}?=[ \t]*+{_LINE_END})",
            r"(?P<open>[ \t]*+<(?P<name>pre|syntaxhighlight|source|nowiki|math)(?:[ \t]+lang=\"?"
            r"(?P<lang>[\w+#-]{1,30}))?[^<>\r\n]{0,100}(?<!/)>(?![^\r\n]{0,2000}</))",
            r"(?P<line>\{\||\|[}+-]|[|!]|#REDIRECT|-{4}|\[\[(?:Category|File|Image):|__[A-Z]{2,20}__"
            rf"|\{{\{{[^{{}}\r\n]{{0,300}}\}}\}}{_LINE_END})",
            r"(?P<item>[*#:;]+)",
            r"(?P<literal>[ ](?=\S))",
        ),
        closings={
            name: rf"[^\r\n]*?</{name}"
            for name in ("pre", "syntaxhighlight", "source", "nowiki", "math")
        },
    ),
    "org": _Markup(
        line=_lines(
            r"(?P<heading>\*+[ \t])",
            r"(?P<open>[ \t]*+#\+begin_(?P<name>src|example|export|comment)\b"
            r"(?:[ \t]+(?P<lang>[\w+#-]{1,30}))?)",
            r"(?P<line>[ \t]*+(?:#(?:\+|[ \t])|:[\w-]{1,40}:(?=[ \t\r\n]|\Z)|:[ \t]|\||-{5,}"
            rf"{_LINE_END})|(?:CLOSED|DEADLINE|SCHEDULED):)",
            r"(?P<item>[ \t]*+(?:[-+]|\d{1,4}[.)])[ \t]+|[ \t]++\*[ \t]+)",
        ),
        closings={
            name: rf"[ \t]*+#\+end_{name}" for name in ("src", "example", "export", "comment")
        },
    ),
    "typst": _Markup(
        line=_lines(
            r"(?P<heading>={1,6}[ \t]+(?=\S))",
            r"(?P<open>[ \t]*+(?P<name>`{3})(?P<lang>[\w+#-]{0,30})(?![^\r\n`]*```))",
            r"(?P<code>[ \t]*+#(?:let|set|show|import|include|figure|table|grid|align"
            r"|outline|bibliography|context|if|for|while|place|block|box|stack|image|page"
            r"|pagebreak|v|h)\b)",
            r"(?P<line>[ \t]*+(?://|/\*))",
            r"(?P<item>[ \t]*+(?:[-+/]|\d{1,4}\.)[ \t]+(?=\S))",
        ),
        closings={"```": r"[ \t]*+```"},
        joined=True,
    ),
    "man": _Markup(
        line=_lines(
            r"(?P<heading>[.'][ \t]*+(?:SH|SS|Sh|Ss)\b)",
            r"(?P<open>[.'][ \t]*+(?P<name>nf|EX|Bd|TS|EQ|de|ig)\b)",
            r"(?P<inline>[.'][ \t]*+(?:BI?|BR|IB?|IR|RB|RI|SM|SB|MT|UR|ME|UE|Nm|Fl|Ar|Op|Oo|Oc|Xr"
            r"|Pa|Ic|Cm|Dv|Va|Vt|Ev|Er|Em|Sy|Li|Ql|Dq|Sq|Pq|Aq|Bq|Ns|No|Ft|Fn|Fa|In|Lb|Lk|Cd|Ad|An|At"
            r"|Bx|Fx|Nx|Ox|Ux|Tn|St|Do|Dc|So|Sc|Po|Pc|Qo|Qc|Ao|Ac|Eo|Ec|Ap|Sx|Ms|Rv|Ex|Bk|Ek|Xo|Xc)"
            r"\b)",
            r"(?P<item>[.'][ \t]*+(?:TP|TQ|IP|It|PP|LP|P|HP|Pp|sp|br)\b)",
            r"(?P<line>[.'](?=[^\r\n]))",
        ),
        closings={
            "nf": r"[.'][ \t]*+fi\b",
            "ex": r"[.'][ \t]*+EE\b",
            "bd": r"[.'][ \t]*+Ed\b",
            "ts": r"[.'][ \t]*+TE\b",
            "eq": r"[.'][ \t]*+EN\b",
            "de": rf"\.\.{_LINE_END}",
            "ig": rf"\.\.{_LINE_END}",
        },
    ),
}
_RULE = re.compile(rf"([=~^+-])\1{{3,}}+{_LINE_END}{_REST}")
_ANY_LINE = re.compile(_REST)
_BRACKETS = {**dict.fromkeys("([{", 1), **dict.fromkeys(")]}", -1)}
_NEITHER = re.compile(r"\"(?:[^\"\\\n]|\\.)*+\"|[^()\[\]{}\"]++|\"")


class _Light(Reader):
    def __init__(self, text: str, format: str) -> None:
        self.markup, self.format = _MARKUPS[format], format
        super().__init__(text, self.markup.line)
        self.last = -1  # where the last line on its own ends
        self.language: str | None = None  # of the next listing
        self.missing: set[str] = set()  # closing lines that are not in the rest of the text

    def block(self, line: re.Match[str], kind: str | None) -> list[Part]:
        if kind == "heading":
            return [Part(end=self.after_blank_lines(line.end()), kind="line", section=True)]
        if kind == "text" and self.markup.underlined and self.blank:
            rule = _RULE.match(self.text, line.end())
            if rule and abs(len(rule.group().strip()) - len(line.group().strip())) <= 1:
                return [Part(end=self.after_blank_lines(rule.end()), kind="line", section=True)]
        if kind == "open":
            return self.listing(line)
        if kind == "code":
            end = self.bracketed(line.start()) if self.markup.joined else line.end()
            return [Part(end=self.after_blank_lines(end), kind="lines")]
        if kind == "literal" and self.blank:
            return [Part(end=self.literal(line.start()), kind="code")]
        if kind == "line":
            self.language = line.groupdict().get("lang") or self.language
            end = self.after_blank_lines(line.end())
            begins, self.last = self.last != line.start(), line.end()
            return [Part(end=end, kind="line", paragraph=begins)]
        return []

    def listing(self, line: re.Match[str]) -> list[Part]:
        """Return the opening line, the code and the closing line; nothing if it is not closed."""
        groups = line.groupdict()
        name = (groups.get("name") or "").lower()
        sign = self.markup.closings.get(name) or re.escape(line["open"].strip()) + _LINE_END
        closing = None
        if sign not in self.missing:
            pattern = re.compile(rf"^(?:{sign}){_REST}", re.MULTILINE | re.IGNORECASE)
            closing = pattern.search(self.text, line.end())
        if closing is None:
            self.missing.add(sign)
            return []
        language, self.language = groups.get("lang") or self.language, None
        # Attributes in lines above belong to the listing.
        found = [Part(end=line.end(), kind="line", paragraph=self.last != line.start())]
        if closing.start() > line.end():
            found.append(Part(end=closing.start(), kind="code", language=language, paragraph=False))
        end = self.after_blank_lines(closing.end())
        return [*found, Part(end=end, kind="line", paragraph=False)]

    def bracketed(self, place: int) -> int:
        """Return the end of the line at which all brackets since `place` are closed."""
        depth = 0
        for line in Walk(_ANY_LINE, self.text, place):
            depth += sum(map(_BRACKETS.__getitem__, _NEITHER.sub("", line.group())))
            if depth <= 0:
                return line.end()
        return len(self.text)

    def literal(self, place: int) -> int:
        """Return the end of the indented lines from `place` on, blank lines behind included."""
        for line in Walk(_ANY_LINE, self.text, place):
            if line.group()[:1] not in (" ", "\t"):
                return self.after_blank_lines(line.start())
        return len(self.text)


def _parts(name: str, text: str) -> Iterator[Part]:
    return _Light(text, name).parts()


# The parts of a document in each of the formats, in order.
LIGHT: Final = {name: partial(_parts, name) for name in _MARKUPS}
