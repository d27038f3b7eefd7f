"""What languages of programming hide, and what their statements are.

Of the languages that a reader or a mask of ours reads; of others it is their grammar that knows.
"""

from segmenters import Lines
from tests.segmenters.hidden import Form, Hidden, line_comment, string

_C, _STRING = Hidden("/*", "*/"), string('"')
_BRACES = ("f(\1, \2 2,\n  \1); \3", "x = \1 + \2 \1;\n", "\2\n\0y = 2;\n")
_PLAIN = ("f(\1,\n  \1) \3", "x = \1 \3")


def lines(language: str) -> Lines:
    return Lines(granularity="logical", language=language)


FORMS = {
    "python": Form(
        lines("python"),
        _PLAIN,
        (
            *(string("'"), _STRING),
            *(Hidden(q, q, bans=(q[0], "\\")) for q in ("'''", '"""')),
            Hidden('r"', '"', bans=("\\", "\n"), lines=False),
        ),
        (),
        (line_comment("# "),),
    ),
    "haskell": Form(
        lines("haskell"),
        ("a = f \1 \2\n  \1 \3", "b \2 = \1\n"),
        (_STRING,),
        (Hidden("{- ", " -}", nests=True),),
        (line_comment("-- "),),
    ),
    "c": Form(lines("c"), _BRACES, (_STRING,), (_C,), (line_comment("// ", "\\"),)),
    "cpp": Form(
        lines("cpp"),
        _BRACES,
        (_STRING, Hidden('R"(', ')"'), Hidden('R"ab(', ')ab"')),
        (_C,),
        (line_comment("// ", "\\"),),
    ),
    "bash": Form(
        lines("bash"),
        ("a \1 \1\n", "b \4", "c \1 # d\n", "e=\1\n"),
        (
            Hidden("'", "'"),
            Hidden('"', '"', bans=("\\", "$", "`")),
            Hidden("$'", "'", escapes="\\'", lines=False),
        ),
        docs=(Hidden("<<'EOT'\n", "\nEOT\n", bans=("EOT",)),),
    ),
    "java": Form(
        lines("java"),
        _BRACES,
        (_STRING, Hidden('"""\n', '"""', bans=('"', "\\"))),
        (_C,),
        (line_comment("// ", "\\"),),
        first="class A { int f() {\n\0",
        last="\0}\n\0}\n",
    ),
    "swift": Form(
        lines("swift"),
        ("f(\1, \2 2,\n  \1)\n", "x = \1 + \2 \1\n"),
        (
            _STRING,
            Hidden('#"', '"#', bans=('"', "\\"), lines=False),
            Hidden('"""\n', '\n"""', bans=('"', "\\")),
        ),
        (Hidden("/*", "*/", nests=True),),
    ),
    "ruby": Form(
        lines("ruby"),
        ("f(\1,\n  \1) \3", "x = \1 \3", "y = \4"),
        (string('"', bans=("#",)), string("'")),
        (),
        (line_comment("# "),),
        (Hidden("<<~'EOT'\n", "\nEOT\n", bans=("EOT", "\\")),),
    ),
    "php": Form(
        lines("php"),
        ("f(\1, \2 2,\n  \1); \3", "$x = \1 . \2 \1;\n", "$y = \4"),
        (string("'"),),
        (_C,),
        (line_comment("// ", "?>"), line_comment("# ", "?>")),
        (Hidden("<<<'EOT'\n", "\nEOT;\n", bans=("EOT",)),),
        first="<?php\n\0",
    ),
    "powershell": Form(
        lines("powershell"),
        ("f \1 \2 2 \3", "$x = \1\n", "$y = \4"),
        (Hidden("'", "'", doubles="'", bans=("\u2018", "\u201d")),),
        (Hidden("<# ", " #>"),),
        (line_comment("# "),),
        (Hidden("@'\n", "\n'@\n", bans=("'@",)),),
    ),
    "css": Form(
        lines("css"),
        ("a { b: \1; }\n", "\2\n\0c { d: \1 }\n"),
        (_STRING, string("'"), Hidden("url(", ")", bans=tuple("()'\"\\ *"), lines=False)),
        (_C,),
    ),
    "perl": Form(
        lines("perl"),
        ("f(\1,\n  \1); \3", "$x = \1; \3", "$y = \4"),
        (string("'"), Hidden("q{", "}", bans=tuple("{}\\"))),
        (),
        (line_comment("# "),),
        (
            Hidden("<<'EOT';\n", "\nEOT\n", bans=("EOT",)),
            Hidden("1;\n\0=pod\n\n", "\n\n=cut\n", bans=("=",)),
        ),
    ),
}
# Statements of lines that are too long to be parsed.
MINIFIED = {
    "javascript": Form(
        Lines(),
        ("x=\1+\1;", "f(\1,\2 2);", "function g(){return \1;}"),
        (
            *(string('"'), string("'")),
            Hidden("`", "`", bans=("\\", "$"), lines=False),
            Hidden("`a${f({b:1},`c`,'", "')}d`", bans=("'", "\\"), lines=False),
            Hidden("/a", "b/", bans=tuple("/\\[]()*+?{}|"), lines=False),
        ),
        (Hidden("/*", "*/", lines=False),),
    ),
    "css": Form(
        Lines(),
        ("a{b:\1;\0c:\1}", "\2d{e:\1}"),
        (string('"'), string("'")),
        (Hidden("/*", "*/", lines=False),),
    ),
}
