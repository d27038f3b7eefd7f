"""The text that grammars read: UTF-8 in which forms that make them fail on good code are replaced.

any       NUL, lone surrogates and unusual white space.
bash      a pattern in an expansion, `${x%%]*}`: the grammar takes the bracket for an end.
c, cpp    macros in capitals, of which the grammar cannot know what they stand for: in front of a
          word (`LIB_API class A`, `NO_CHECK("x") int f()`) they are blank, in a list of template
          parameters (`<class T, ENABLE_IF(..)>`) a parameter. Only names with an underscore count.

Line ends stay, so that the lines are those of the text. All repeats are bounded or possessive.
"""

import re

_ODD_SPACE = re.compile(
    "[\0\x1a\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)

_IN_EXPANSION = re.compile(
    rb"(?<=\$\{)(\w++(?:\[[\w@*]{1,40}+\])?+)([%#/^,][^{}$\"'`\n\\]{1,99}+)(?=\})"
)
_MACRO = rb"[A-Z][A-Z0-9]*+_[A-Z0-9_]*+(?!\w)"
_INSIDE = rb"[^()\"'#;{}]{0,199}+"
_ARGUMENTS = rb"\((?:" + _INSIDE + rb"(?:\"[^\"\n\\]{0,99}+\"|\(" + _INSIDE + rb"\))?+){1,9}+\)"
_C_FORM = re.compile(
    rb"(?P<skip>^[ \t]*+\#(?:[^\n\\]|\\[^\n]|\\\n)*+|//[^\n]*+|\"(?:[^\"\n\\]|\\.)*+\"?+)"
    rb"|(?P<parameter>(?<=[<,])\s{0,80}+" + _MACRO + _ARGUMENTS + rb"(?=\s{0,80}+[,>]))"
    rb"|(?P<blank>(?<![\w.>:&*#=(])" + _MACRO + rb"(?:" + _ARGUMENTS + rb")?+"
    rb"(?=\s{1,200}+[A-Za-z_~\[:]))",
    re.MULTILINE,
)  # fmt: skip
_WORD = re.compile(rb"[^\s]")
_KEYWORD = b"class "


def _plain(match: re.Match[bytes]) -> bytes:
    """Return the expansion with letters for its pattern."""
    return match[1] + match[2][:1] + b"x" * (len(match[2]) - 1)


def _c_form(match: re.Match[bytes]) -> bytes:
    """Return what stands for a macro; a directive, a comment or a string stays as it is.

    A parameter is a keyword and a name on its first line, and blank on the others.
    """
    found = match[0]
    if match.lastgroup == "skip":
        return found
    if match.lastgroup == "blank":
        return _WORD.sub(b" ", found)
    space = len(found) - len(found.lstrip())
    name, end, more = found[space + len(_KEYWORD) :].partition(b"\n")
    return found[:space] + _KEYWORD + b"x" * len(name) + end + _WORD.sub(b" ", more)


def encode(text: str, language: str) -> bytes:
    """Return the text as UTF-8 that the grammar of its language can read, with the same lines."""
    data = _ODD_SPACE.sub(" ", text).encode("utf-8", "replace")
    if language == "bash":
        return _IN_EXPANSION.sub(_plain, data)
    if language in ("c", "cpp"):
        return _C_FORM.sub(_c_form, data)
    return data
