"""Sentences of the prose in code: docstrings and comments.

A segment that is nothing but a comment or a string is prose. Signs that open it and those at its
margin (` * `, `# `) count as white space, and all such texts are cut at once by a segmenter of
prose, with a blank line between two. Tags, items of lists and examples (`@param`, `:return:`, `- `,
`1. `, `>>> `) begin a sentence. A cut between lines lies at the start of a line, so that the margin
stays with its line; the signs that close a comment stay with its last sentence.
"""

import re
from functools import lru_cache
from itertools import pairwise

import numpy as np

from segmenters.base import Cuts, Segmenter

# How prose opens, how it closes ("" at the end of a line), and the signs at its margin.
_FORMS = {
    "hash": (r"\#[\#!:]*+", "", r"\#[\#!:]*+"),
    "slash": (r"//[/!]*+", "", r"//[/!]*+"),
    "star": (r"/\*[*!]*+", "*/", r"\*(?!/)"),
    "dash": (r"--+(?!\[)(?:[ ]?[|^])?", "", r"--+(?:[ ]?[|^])?"),
    "long": (r"--\[\[", "]]", ""),
    "brace": (r"\{-(?!\#)[ ]?[|^]?", "-}", ""),
    "paren": (r"\(\*+", "*)", r"\*(?!\))"),
    "tag": (r"<!--(?!\[if\b)", "-->", ""),
    "angle": (r"<\#", "#>", ""),
    "quote": (r"(?:[rRuU]|@\w{0,9}doc[ ](?:~[sS])?)?+\"\"\"", '"""', ""),
    "single": (r"[rRuU]?+'''", "'''", ""),
    "pod": (r"=(?:pod|head\d|over|item|begin|for|encoding)\b", "=cut", ""),
}
_LANGUAGES_WITH = {
    "hash quote single": "python",
    "hash quote": "elixir julia",
    "hash": "bash ruby",
    "hash pod": "perl",
    "hash angle": "powershell",
    "hash slash star": "php",
    "slash star": "c cpp csharp dart go java javascript json kotlin rust scala swift tsx "
    "typescript zig",
    "star": "css",
    "dash brace": "haskell",
    "dash long": "lua",
    "paren": "ocaml ocaml_interface",
    "tag": "html",
}
_FORMS_OF = {
    name: forms.split() for forms, names in _LANGUAGES_WITH.items() for name in names.split()
}
_ITEM = re.compile(
    r"\n[ \t]*+(?=@\w|\\[a-z]|:\w[^:\n]{0,80}+:|[-*+\u2022][ \t]|\d{1,3}+[.)][ \t]"
    r"|>>>[ ]|\.\.\.[ ])"
)
_APART = "\n\n"


@lru_cache(maxsize=64)
def _opening(language: str) -> re.Pattern[str]:
    """Return the pattern of how prose opens in a language, a group for each form."""
    groups = [f"(?P<{form}>{_FORMS[form][0]})" for form in _FORMS_OF.get(language, ())]
    never = "(?!)"
    return re.compile(f"[ \t]*+(?:{'|'.join(groups) or never})")


@lru_cache(maxsize=64)
def _margin(form: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*+(?:{_FORMS[form][2]})[ \t]*+", re.MULTILINE)


def prose_cuts(text: str, cuts: Cuts, language: str, prose: Segmenter) -> Cuts:
    """Return where sentences begin inside those segments of code that are prose, in any order."""
    opening = _opening(language)
    texts: list[str] = []
    places: list[Cuts] = []  # of their characters in the document; -1 where no sentence begins
    for start, end in pairwise(cuts.tolist()):
        match = opening.match(text, start, end)
        if match is None or match.lastgroup is None:
            continue
        inner, first = _inner(text[match.end() : end], match.lastgroup), match.end()
        if inner:
            texts.append(inner)
            places.append(np.full(len(inner) + len(_APART), -1))
            places[-1][1 : len(inner)] = np.arange(first + 1, first + len(inner))
    if not texts:
        return np.empty(0, dtype=np.int64)
    starts = np.concatenate(places)[_line_starts(_APART.join(texts), prose)]
    return starts[starts >= 0]


def _inner(text: str, form: str) -> str:
    """Return the prose behind its opening sign, its margin blank; "" if more follows it."""
    text = text.rstrip()
    _, closing, margin = _FORMS[form]
    if not text.endswith(closing) or (closing and closing in text[: -len(closing)]):
        return ""
    text = text[: len(text) - len(closing)].rstrip()
    if "\n" not in text:
        return text
    if not closing and any(not _margin(form).match(line) for line in text.split("\n")[1:]):
        return ""
    return _margin(form).sub(lambda found: " " * len(found[0]), text) if margin else text


def _line_starts(text: str, prose: Segmenter) -> list[int]:
    """Return the cuts of the prose and of its items, between lines at the start of a line."""
    starts = [match.start() + 1 for match in _ITEM.finditer(text)]
    last = 0
    for cut in prose.cut(text).tolist():
        line = text.rfind("\n", last, cut) + 1
        starts.append(line if line and text[line:cut].isspace() else cut)
        last = cut
    return starts
