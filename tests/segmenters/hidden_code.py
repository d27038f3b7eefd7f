"""What languages of programming hide, and what their statements are.

Of the languages that a reader or a mask of ours reads; of others it is their grammar that knows.
"""

from segmenters import Lines
from tests.segmenters.hidden import Form, Hidden, inline, line_comment, string
from tests.segmenters.texts import logical

_C, _SLASHES, _HASH = Hidden("/*", "*/"), line_comment("// ", "\\"), line_comment("# ")
_BRACES = ("f(\1, \2 2,\n  \1); \3", "x = \1 + \2 \1;\n", "\2\n\0y = 2;\n")
_PLAIN = ("f(\1,\n  \1) \3", "x = \1 \3")
_QUOTES = (string('"'), string("'"))
_LITERALS = {
    "python": (
        *(*_QUOTES, inline('r"', '"', "\\")),
        *(Hidden(quote, quote, f"{quote[0]} \\") for quote in ("'''", '"""')),
    ),
    "cpp": (_QUOTES[0], Hidden('R"(', ')"'), Hidden('R"ab(', ')ab"')),
    "bash": (*(Hidden("'", "'"), Hidden('"', '"', "\\ $ `"), inline("$'", "'", escapes="\\'")),),
    "swift": (_QUOTES[0], inline('#"', '"#', '" \\'), Hidden('"""\n', '\n"""', '" \\')),
    "powershell": (Hidden("'", "'", "\u2018 \u201d", doubles="'"),),
}
_DOCS = {
    "bash": (Hidden("<<'EOT'\n", "\nEOT\n", "EOT"),),
    "ruby": (Hidden("<<~'EOT'\n", "\nEOT\n", "EOT \\"),),
    "php": (Hidden("<<<'EOT'\n", "\nEOT;\n", "EOT"),),
    "powershell": (Hidden("@'\n", "\n'@\n", "'@"),),
    "perl": (Hidden("<<'EOT';\n", "\nEOT\n", "EOT"), Hidden("1;\n\0=pod\n\n", "\n\n=cut\n", "=")),
}


def _form(language: str, statements, strings=None, comments=(), ends=(), **more) -> Form:
    strings = _LITERALS[language] if strings is None else strings
    docs = _DOCS.get(language, ())
    return Form(logical(language), statements, strings, comments, ends, docs, **more)


_ALL = [
    _form("python", _PLAIN, ends=(_HASH,)),
    _form(
        "haskell",
        ("a = f \1 \2\n  \1 \3", "b \2 = \1\n"),
        _QUOTES[:1],
        (Hidden("{- ", " -}", nests=True),),
        (line_comment("-- "),),
    ),
    _form("c", _BRACES, _QUOTES[:1], (_C,), (_SLASHES,)),
    _form("cpp", _BRACES, None, (_C,), (_SLASHES,)),
    _form("bash", ("a \1 \1\n", "b \4", "c \1 # d\n", "e=\1\n")),
    _form(
        "java",
        _BRACES,
        (_QUOTES[0], Hidden('"""\n', '"""', '" \\')),
        (_C,),
        (_SLASHES,),
        first="class A { int f() {\n\0",
        last="\0}\n\0}\n",
    ),
    _form(
        "swift",
        ("f(\1, \2 2,\n  \1)\n", "x = \1 + \2 \1\n"),
        comments=(Hidden("/*", "*/", nests=True),),
    ),
    _form("ruby", (*_PLAIN, "y = \4"), (string('"', "#"), string("'")), ends=(_HASH,)),
    _form(
        "php",
        ("f(\1, \2 2,\n  \1); \3", "$x = \1 . \2 \1;\n", "$y = \4"),
        _QUOTES[1:],
        (_C,),
        (line_comment("// ", "?>"), line_comment("# ", "?>")),
        first="<?php\n\0",
    ),
    _form(
        "powershell",
        ("f \1 \2 2 \3", "$x = \1\n", "$y = \4"),
        comments=(Hidden("<# ", " #>"),),
        ends=(_HASH,),
    ),
    _form(
        "css",
        ("a { b: \1; }\n", "\2\n\0c { d: \1 }\n"),
        (*_QUOTES, inline("url(", ")", "( ) ' \" \\ *")),
        (_C,),
    ),
    _form(
        "perl",
        ("f(\1,\n  \1); \3", "$x = \1; \3", "$y = \4"),
        (_QUOTES[1], Hidden("q{", "}", "{ } \\")),
        ends=(_HASH,),
    ),
]
FORMS = {form.segmenter.language: form for form in _ALL}
_IN_LINE = (inline("/*", "*/"),)
# Statements of lines that are too long to be parsed.
MINIFIED = {
    "javascript": Form(
        Lines(),
        ("x=\1+\1;", "f(\1,\2 2);", "function g(){return \1;}"),
        (
            *(*_QUOTES, inline("`", "`", "\\ $"), inline("`a${f({b:1},`c`,'", "')}d`", "' \\")),
            inline("/a", "b/", "/ \\ [ ] ( ) * + ? { } |"),
        ),
        _IN_LINE,
    ),
    "css": Form(Lines(), ("a{b:\1;\0c:\1}", "\2d{e:\1}"), _QUOTES, _IN_LINE),
}
