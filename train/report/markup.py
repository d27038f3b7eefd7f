"""Markup that is escaped by construction.

`tag` writes one element; every child that is not already `Markup` is text and is escaped, and so
is every attribute value. So a text reaches the page as markup only where the code says
`Markup(...)` about a literal. The output is HTML and well-formed XML at once (every element is
closed), which lets a test parse it with either parser.

Characters that XML cannot carry, or that would reorder or hide the text around them, are made
visible: a control character becomes its picture (U+2400 + code), anything else U+FFFD.
Deliberately not here: parsing, or sanitising foreign markup. Foreign text is only ever text.
"""

import re
from collections.abc import Iterable

_VOID = frozenset({"meta", "br", "hr", "col"})
_PICTURES = 0x2400
_HOSTILE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


class Markup(str):
    """Text that is markup already; `tag` does not escape it again."""

    __slots__ = ()


def visible(text: str) -> str:
    """The text with control, bidirectional and unpaired surrogate characters made visible."""
    return _HOSTILE.sub(_stand_in, text)


def escape(text: str) -> Markup:
    """The text as markup that shows it; valid in elements and in quoted attributes."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(character, entity)
    return Markup(visible(text).replace("'", "&#39;"))


def join(parts: Iterable[str]) -> Markup:
    """All the parts, one after another; text among them is escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def tag(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """One element.

    `class_` stands for `class`, and other underscores for hyphens; an attribute of None is left
    out; a float is written with at most two decimals, since it is a length in pixels.
    """
    opening = name + "".join(
        f' {_attribute(key)}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{opening}/>")
    return Markup(f"<{opening}>{join(children)}</{name}>")


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


def _stand_in(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr(_PICTURES + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"
