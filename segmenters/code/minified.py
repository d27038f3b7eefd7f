r"""Statements in lines too long to be written by hand: minified scripts and style sheets.

A segment ends behind `;` and `}`, unless a round or square bracket is open or the statement goes on
(`}else{`, `},`); what closes blocks stays with the statement before. Strings, templates, block
comments and regular expressions are passed over. A parser would take minutes for such a line; this
reads each sign once, and keeps only the brackets that are open ("$": of an expression in a
template).
"""

import re
from collections.abc import Iterator

from segmenters.places import SPACE, Walk, past

# What may not follow a statement, by language.
_JAVASCRIPT = re.compile(
    r"[;,)\]}.:?=&|*%<>(\[+`-]|/(?!\*)|(?:else|catch|finally|while|in|of|instanceof|from|as)\b"
)
LANGUAGES = {
    "css": re.compile("[;}]"),
    "javascript": _JAVASCRIPT,
    "tsx": _JAVASCRIPT,
    "typescript": _JAVASCRIPT,
}
# A regular expression follows a sign that no value ends with; it has no bracket of its own here.
_SIGN = re.compile(
    r"[\"'`/;(){}\[\]](?:(?:(?<=[(,=:\[!&|?{};>+*%~^<-]/)(?<!\+\+/)(?<!--/)"
    r"|(?<=\breturn/)|(?<=\breturn[ ]/)|(?<=\btypeof/)|(?<=\bcase/))"
    r"(?![*/])(?:[^/\\\[\r\n]|\\.|\[(?:[^\]\\\r\n]|\\.){0,199}+\]){1,499}+/"
    r"|(?P<literal>(?<=[\"'`])|(?<=/)(?=\*))|(?<=;)(?P<end>)"
    r"|(?<=[({\[])(?P<open>)|(?<=[)}\]])(?P<close>))"
)
_CLOSES = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL),
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+'", re.DOTALL),
    "`": re.compile(r"[^`\\$]*+(?:(?:\\.|\$(?!\{))[^`\\$]*+)*+(?:`|\$\{)", re.DOTALL),
    "/": re.compile(r"\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/"),
}
_OPENS = {")": "(", "]": "["}


def statement_ends(text: str, start: int, end: int, language: str) -> Iterator[int]:
    """Yield where statements end in text[start:end], a line of one of LANGUAGES."""
    goes_on = LANGUAGES[language]
    nest: list[str] = []
    unclosed: set[str] = set()  # literals whose sign never closes them in the rest of the line
    walk = Walk(_SIGN, text, start, end)
    for match in walk:
        kind, sign = match.lastgroup, match[0][0]
        if kind == "close" and sign == "}":
            while nest and (opened := nest.pop()) != "{":
                if opened == "$":  # of an expression in a template, which goes on
                    kind, sign = "literal", "`"
                    break
        if kind == "literal":
            if sign not in unclosed:
                literal = _CLOSES[sign].match(text, match.end(), end)
                if literal is None:
                    unclosed.add(sign)
                else:
                    walk.skip(literal.end())
                    if literal[0].endswith("${"):
                        nest.append("$")
        elif kind == "open":
            nest.append(sign)
        elif kind == "close" and sign != "}":
            if nest and nest[-1] == _OPENS[sign]:
                nest.pop()
        elif kind is not None:
            place = past(SPACE, text, match.end(), end)
            if (not nest or nest[-1] == "{") and place < end and not goes_on.match(text, place):
                yield place
