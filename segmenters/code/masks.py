"""The text that grammars read: UTF-8 in which forms that make them fail on good code are replaced.

any       NUL, lone surrogates and unusual white space.
bash      a pattern in an expansion, `${x%%]*}`: the grammar takes the bracket for an end; the text
          of a here-document with a quoted word, or of $'': the grammar looks for escapes.
css       the text of a string or comment: the grammar looks for the other one.
java, swift  the text of a text block: the grammar looks for comments.
powershell   an empty here-string.
c, cpp    macros in capitals, of which the grammar cannot know what they stand for: in front of a
          word (`LIB_API class A`, `NO_CHECK("x") int f()`) they are blank, in a list of template
          parameters (`<class T, ENABLE_IF(..)>`) a parameter. Only names with an underscore count.
cpp       an assignment before a comma in brackets, `(a = 1, &a)`, which is a sum instead.
csharp    directives between arguments and operands, and all branches but the first.
kotlin    the modifiers of a constructor (`internal actual constructor`).

Line ends stay, so that the lines are those of the text. All repeats are bounded or possessive.
"""

import re
from collections.abc import Callable
from functools import partial

_ODD_SPACE = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_ODD_BYTES = bytes(32 if code in b"\0\x1a\x1c\x1d\x1e\x1f" else code for code in range(256))

_IN_EXPANSION = re.compile(
    rb"(\$\{\w++(?:\[[\w@*]{1,40}+\])?+)([%#/^,][^{}$\"'`\r\n\\]{1,99}+)(?=\})"
)
_HEREDOC = re.compile(
    rb"(?<![<\w])(<<-?[ ]?(['\"])(\w{1,40}+)\2[^\n]*+\n)"
    rb"((?:(?![ \t]*+\3[ \t\r]*+(?:\n|\Z))[^\n]*+\n)++)"
)
# A text block, and what may hold its signs.
_TEXT_BLOCK = re.compile(
    rb"//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/|'(?:[^'\n\\]|\\.)'"
    rb'|#"(?:[^"\n]|"(?!\#))*+"\#|(?P<block>"""(?:[^"\\]|\\.|"(?!""))*+""")|"(?:[^"\\\n]|\\.)*+"',
    re.DOTALL,
)
_ESCAPED = re.compile(rb"(?<=[\s=(])\$'((?:[^'\\]|\\.)*+)'", re.DOTALL)
_CSS_TEXT = re.compile(
    rb"(/\*)([^*]*+(?:\*(?!/)[^*]*+)*+)(\*/)"
    rb"|([\"'])((?:(?!\4)[^\\\n]|\\.)++)(\4)",
    re.DOTALL,
)
_EMPTY_HERE_STRING = re.compile(rb"@(['\"])(\r?\n[ \t]*+\r?\n)\1@")
_SIGN = re.compile(rb"[^\w\s]")
_TAIL = rb"[A-Z0-9]*+_[A-Z0-9_]*+(?!\w)"  # of the name of a macro, after its first letter
_INSIDE = rb"[^()\"'#;{}]{0,199}+"
_ARGUMENTS = rb"\((?:" + _INSIDE + rb"(?:\"[^\"\n\\]{0,99}+\"|\(" + _INSIDE + rb"\))?+){1,9}+\)"
_MACRO = (
    rb"(?<=[<,])(?P<parameter>\s{0,80}+[A-Z]" + _TAIL + _ARGUMENTS + rb"(?=\s{0,80}+[,>]))"
    rb"|(?<=[A-Z])(?<![\w.>:&*#=(].)(?P<blank>" + _TAIL + rb"(?:" + _ARGUMENTS + rb")?+"
    rb"(?=\s{1,200}+[A-Za-z_~\[:]))"
)
# Each form begins with a sign of one set, behind which the others follow: a search for a set skips
# what is between at four times the speed of a search for forms. A text without what looks like a
# macro, in a comment or not, needs no look at the others.
_C_MACRO = re.compile(rb"[<,A-Z](?:" + _MACRO + rb")")
_C_FORM = re.compile(
    rb"[\#/\"<,A-Z](?:(?<![^\n \t]\#)(?<=\#)(?:[^\n\\]|\\[^\n]|\\\n)*+"
    rb"|(?<=/)/[^\n]*+|(?<=\")(?:[^\"\n\\]|\\.)*+\"?+|" + _MACRO + rb")"
)
# Assignments before commas, in brackets that are no list of arguments or parameters.
_VALUE = rb"[^(),;{}\"']{0,200}+"
_ASSIGNED = re.compile(
    rb"(?:[(,=&|!?:;{}<>+*/-]|n(?<=\breturn))\s{0,80}+\((?:\s{0,80}+[\w.:*>\[\]-]{1,80}?\s{0,9}+"
    rb"(?:[-+*/%&|^]|<<|>>)?=(?!=)" + _VALUE + rb"(?:\([^()]{0,200}+\)" + _VALUE + rb"){0,4}+,)+"
)
_ASSIGNS = re.compile(rb"(?:[-+*/%&|^]|<<|>>)?(?<![=!<>])=(?!=)")
_MODIFIERS = re.compile(
    rb"(?<![\w.])(?:(?:actual|expect|internal|private|protected|public)[ \t]{1,9}+)+"
    rb"(?=constructor[ \t]{0,9}+\()"
)
# What brackets of C# are in, and directives.
_CSHARP = re.compile(
    rb"(?P<directive>(?<![^\n])[ \t]*+\#[ \t]*+(?P<word>if|elif|else|endif)\b[^\n]*+)"
    rb"|(?P<open>[(\[{])|(?P<close>[)\]}])|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/|'(?:[^'\n\\]|\\.){1,9}+'"
    rb'|"""(?:[^"]|"(?!""))*+"""|@\$?"(?:[^"]|"")*+"|\$@"(?:[^"]|"")*+"|"(?:[^"\\\n]|\\.)*+"',
    re.DOTALL,
)
_WORD = re.compile(rb"[^\s]")
_KEYWORD = b"class "


def _plain_bash(data: bytes) -> bytes:
    """Return Bash with letters for what the grammar takes for something else."""
    data = _HEREDOC.sub(lambda match: match[1] + _SIGN.sub(b"x", match[4]), data)
    data = _ESCAPED.sub(lambda match: b" '" + _SIGN.sub(b"x", match[1]) + b"'", data)
    return _IN_EXPANSION.sub(lambda m: m[1] + m[2][:1] + b"x" * (len(m[2]) - 1), data)


def _plain_css(match: re.Match[bytes]) -> bytes:
    """Return a comment or string with letters for its signs."""
    parts = match.group(1, 2, 3) if match[1] else match.group(4, 5, 6)
    return parts[0] + _SIGN.sub(b"x", parts[1]) + parts[2]


def _plain_block(match: re.Match[bytes]) -> bytes:
    """Return a text block with letters for its signs; what is none stays as it is."""
    block = match["block"]
    return b'"""'.join((b"", _SIGN.sub(b"x", block[3:-3]), b"")) if block else match[0]


def _without_macros(data: bytes) -> bytes:
    """Return C in which something stands for each macro.

    A directive, a comment or a string stays as it is.
    """
    if _C_MACRO.search(data) is None:
        return data
    parts: list[bytes] = []
    place = 0
    for match in _C_FORM.finditer(data):
        if match.lastgroup is not None:
            parts += (data[place : match.start()], _instead(match[0], match.lastgroup))
            place = match.end()
    return b"".join((*parts, data[place:])) if parts else data


def _instead(macro: bytes, form: str) -> bytes:
    """Return blanks, or for a parameter a keyword and a name, and blanks on further lines."""
    if form == "blank":
        return _WORD.sub(b" ", macro)
    space = 1 + len(macro[1:]) - len(macro[1:].lstrip())
    name, *more = re.split(rb"(?=[\r\n])", macro[space:], maxsplit=1)
    name = _KEYWORD + b"x" * (len(name) - len(_KEYWORD))
    return macro[:space] + name + _WORD.sub(b" ", b"".join(more))


def _summed(match: re.Match[bytes]) -> bytes:
    """Return brackets in which each assignment is a sum."""
    return _ASSIGNS.sub(lambda sign: b"+".ljust(len(sign[0])), match[0])


def _without_directives(data: bytes) -> bytes:
    """Return C# without the directives in brackets, and without their branches but the first."""
    parts: list[bytes] = []
    place, brackets = 0, [b""]
    # Of the directives in brackets that are open: whether a branch is left out, and of how many.
    branches: list[bool] = []
    left_out = 0
    for match in _CSHARP.finditer(data):
        if match["open"] or match["close"]:
            if left_out:
                continue
            if match["open"]:
                brackets.append(match["open"])
            elif len(brackets) > 1:
                brackets.pop()
        elif (word := match["word"]) and (
            branches or (word == b"if" and brackets[-1] in (b"(", b"["))
        ):
            if not left_out:
                parts.append(data[place : match.start()])
                place = match.start()
            if word == b"if":
                branches.append(False)
            elif word == b"endif":
                left_out -= branches.pop()
            elif not branches[-1]:
                branches[-1] = True
                left_out += 1
            if not left_out:
                parts.append(_WORD.sub(b" ", data[place : match.end()]))
                place = match.end()
    return b"".join((*parts, data[place:])) if parts else data


# Of a language: what such a text has somewhere, and what is done to it then.
_FORMS: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "bash": (b"", _plain_bash),
    "c": (b"", _without_macros),
    "cpp": (b"", lambda data: _ASSIGNED.sub(_summed, _without_macros(data))),
    "csharp": (b"#if", _without_directives),
    "css": (b"", partial(_CSS_TEXT.sub, _plain_css)),
    "java": (b'"""', partial(_TEXT_BLOCK.sub, _plain_block)),
    "kotlin": (b"constructor", partial(_MODIFIERS.sub, lambda match: b" " * len(match[0]))),
    "powershell": (b"", partial(_EMPTY_HERE_STRING.sub, rb" \1\2\1 ")),
    "swift": (b'"""', partial(_TEXT_BLOCK.sub, _plain_block)),
}


def encode(text: str, language: str) -> bytes:
    """Return the text as UTF-8 that the grammar of its language can read, with the same lines."""
    if not text.isascii():
        text = _ODD_SPACE.sub(" ", text)
    data = text.encode("utf-8", "replace").translate(_ODD_BYTES)
    sign, changed = _FORMS.get(language, (b"", bytes))
    return changed(data) if sign in data else data
