"""What records, proofs and documents hide, and what their statements are."""

import segmenters
from tests.segmenters.hidden import Form, Hidden, inline, line_comment, string

_C, _FLAT = Hidden("/*", "*/"), (Hidden("/*", "*/", "/*"),)
_NESTED = (Hidden("/*", "*/", "/*", nests=True),)
_DOUBLED = tuple(Hidden(sign, sign, "\\", doubles=sign) for sign in "'\"")
_PAREN = Hidden("(* ", " *)", nests=True)
_DASHES, _HASH, _ESCAPED = line_comment("-- "), line_comment("# "), inline('"', '"', escapes='\\"')
_COLONS, _QUOTED = line_comment("::"), inline("'", "'", doubles="'")


def _records(format: str, *arguments, **more) -> Form:
    return Form(segmenters.Records(format=format), *arguments, **more)


def _sql(strings, comments, *ends, statement="", first="") -> Form:
    statements = (
        "SELECT \1, \1 \2 FROM t\2;\n",
        "SELECT \1 \3, \1 FROM t \3; ",
        "\3INSERT INTO t VALUES (\1, 2, \1); \3",
        "UPDATE t SET a = \1 \2 WHERE b = \1 ;\n\n",
        *filter(None, (statement,)),
    )
    return _records("sql", statements, strings, comments, (_DASHES, *ends), first=first)


def _document(format: str, strings, comments=(), statements=(), **more) -> Form:
    told = ("We saw \1 here. ", "So \2 it is \1, then! ", "Who came?\n\n")
    told = told[:2] if format == "html" else told
    segmenter = segmenters.LaTeXProofs() if format == "latex" else segmenters.Mixed(format=format)
    return Form(segmenter, (*told, *statements), strings, comments, **more)


FORMS = {
    "sql of sqlite": _sql(_DOUBLED, _FLAT),
    "sql of postgresql": _sql(
        (
            *(*_DOUBLED, Hidden("E'", "'", escapes="\\'")),
            *(Hidden(sign, sign, "$") for sign in ("$$", "$ab$")),
        ),
        _NESTED,
        statement="CREATE FUNCTION f() RETURNS int AS $fn$ SELECT \1; $fn$ LANGUAGE sql; \3",
    ),
    "sql of mysql": _sql(
        (string("'", lines=True), string('"', lines=True), Hidden("`", "`")),
        (_C,),
        line_comment("# so "),
        first="CREATE TABLE `t` (a int);\n\0",
    ),
    "sql of oracle": _sql(
        (_DOUBLED[0], *(Hidden(f"q'{a}", f"{b}'") for a, b in ("[]", "{}", "()", "<>", "!!"))),
        _FLAT,
    ),
    "sql of sql server": _sql((_DOUBLED[0], inline("[", "]", doubles="]")), _NESTED),
    "csv": _records("csv", ("\1,a,\1\n", "b,\1,3\n"), _DOUBLED[1:]),
    "tsv": _records("tsv", ("\1\ta\t\1\n", "b\t\1\t3\n"), _DOUBLED[1:]),
    "json": _records(
        "json",
        ('"a": [\1, \2 \1], \3', '"b": {"c": \1},\n', '"d": \1 \2, '),
        (_ESCAPED,),
        (_C,),
        (line_comment("// "),),
        first="{",
        last='\0"e": 1}',
    ),
    "yaml": _records(
        "yaml",
        ("a: \1 \3", "b: [\1,\n  \1] \3", "c: {d: \1}\n", "\3e: 1\n", "f:\n\0  - \1 \3", "g: \4"),
        (_QUOTED, _ESCAPED),
        ends=(_HASH,),
        docs=(inline("|\n  ", "\n"), inline("'a\n  ", "'\n", "'"), inline('"a\n  ', '"\n', '" \\')),
    ),
    "toml": _records(
        "toml",
        ("a = \1 \3", "b = [\1, \3 \1]\n", "c = {d = \1, e = \1} \3", "\3f = 1\n"),
        (
            *(inline("'", "'"), _ESCAPED),
            *(Hidden("'''", "'''", "'"), Hidden('"""', '"""', '" \\')),
        ),
        ends=(_HASH,),
    ),
    "hcl": _records(
        "hcl",
        (
            *("a = \1 \3", "b = [\1, \2\n  \1] \3", "c = f(\1, \3  2)\n"),
            *("d {\n\0  e = \1\n\0}\n", "g = \4", "h = [\4, \4]\n", "i {\n\0  j = f(\4)\n\0}\n"),
        ),
        (inline('"', '"', "$", escapes='\\"'),),
        (_C,),
        (_HASH, line_comment("// ")),
        (Hidden("<<EOT\n", "\nEOT\n", "EOT"), Hidden("<<-EOT\n", "\n  EOT\n", "EOT")),
    ),
    "dockerfile": _records(
        "dockerfile",
        ("RUN a \\\n  \3  b\n", "RUN \1", "COPY \1", "\3CMD c\n"),
        tuple(
            Hidden(opens, "\nEOT\n", "EOT")
            for opens in ("<<EOT\n", "cat <<'EOT' > f\n", "<<A <<EOT b\nA\n")
        ),
        ends=(line_comment("# ", "\\"),),
    ),
    "makefile": _records(
        "makefile",
        ("a: b\n", "\tc \\\n\td\n", "\3E = f\n", "\1"),
        (Hidden("define X\n", "\nendef\n", "endef define \\"),),
        ends=(line_comment("# ", "\\"),),
        first="Z = 1\n\0",
    ),
    "bibtex": _records(
        "bibtex",
        ("@book{a,\n  b = \1,\n  c = \1\n}\n", "@misc{d, e = \1}\n\n"),
        (Hidden("{", "}", "{ } @ \\"), Hidden('"', '"', "{ } @ \\")),
    ),
    "gherkin": _records(
        "gherkin",
        ("  Given a\n\1\n", "  Then b\n", "\3  When c\n"),
        tuple(Hidden(f"    {s}\n", f"\n    {s}", s) for s in ('"""', "```")),
        ends=(line_comment("    # "),),
        first="Feature: a\n\0",
    ),
    "properties": _records(
        "properties", ("a = b \\\n  c\n", "\3d = e\n"), ends=(_HASH, line_comment("! "))
    ),
    "po": _records(
        "po",
        ("msgid \1\nmsgstr \1\n\1\n\n", "\3msgid \1\nmsgstr \1\n\n"),
        (_ESCAPED,),
        ends=(_HASH,),
    ),
    "coq": Form(
        segmenters.Coq(),
        ("Definition a \2 := \1. ", "Lemma b \2 : c \1.\n", "auto \2. "),
        (Hidden('"', '"', doubles='"'),),
        (Hidden("(* ", " *)", '"', nests=True),),
    ),
    "lean": Form(
        segmenters.Lean(),
        ("def a \2 := f \1 \3", "theorem b : c \1 \2 := d \3", "#eval \1\n"),
        (string('"', lines=True),),
        (Hidden("/- ", " -/", nests=True),),
        (_DASHES,),
    ),
    "agda": Form(
        segmenters.Agda(),
        ("a \2 = f \1 \3", "b : c \1 \2\n"),
        (string('"'),),
        (Hidden("{- ", " -}", nests=True),),
        (_DASHES,),
    ),
    "isabelle": Form(
        segmenters.Isabelle(),
        ("lemma \1 \2\n", "have \1 \2 ", "by (a \1)\n"),
        (string('"', lines=True), Hidden("\\<open>", "\\<close>"), Hidden("\u2039", "\u203a")),
        (_PAREN,),
    ),
    "metamath": Form(
        segmenters.Metamath(),
        ("$c a \2 b $.\n", "$c a $|- \2 d $. ", "\1\n"),
        *[(Hidden("$( ", " $)", "$"),)] * 2,
    ),
    "mizar": Form(
        segmenters.Mizar(), ("a = \3 b;\n", "thus c; \3", "let d; "), ends=(line_comment("::"),)
    ),
    "tptp": Form(
        segmenters.Tptp(),
        ("fof(a, axiom, f(\1) \2 ).\n", "cnf(b, axiom, \1 \3 | c). \3", "include(\1).\n"),
        (string("'"), string('"')),
        (_C,),
        (line_comment("% "),),
    ),
    "hol": Form(
        segmenters.Hol(),
        ("Definition a:\n  b \2 = \1\n\0End\n\n", "val c = f \1 \2\n"),
        (string('"'),),
        (_PAREN,),
    ),
    "latex": _document(
        "latex",
        (
            *(inline("\\verb+", "+"), inline("\\lstinline|", "|")),
            *(inline("\\mintinline{c}{", "}", "{ \\"), inline("\\url{", "}", "{ % \\")),
            inline("\\href{", "}{text}", "{ } % \\"),
        ),
        (line_comment("% "),),
    ),
    "markdown": _document(
        "markdown",
        (
            *(inline("`` ", " ``", "``"), inline("<http://a.b/", ">", "< ` $")),
            *(inline("[text](http://a.b/", ")", "( ) < ` $ [ ] \\"),),
            inline("<a href='", "'>", "` $ < > '"),
        ),
        (inline("<!-- ", " -->", "-- ` $"),),
    ),
    "rst": _document(
        "rst",
        (
            *(inline("``", "``", "` * |"), inline("`text <http://a.b/", ">`_", "` < >")),
            inline(":math:`a", "`", "` < >"),
        ),
        statements=("\4",),
        docs=(inline("Who came?\n\n\0.. so it is. ", "\n\n", "::"),),
    ),
    "org": _document(
        "org",
        (
            *(inline("=a", "b=", "="), inline("~a", "b~", "~")),
            *(inline("[[http://a.b/", closes, "[ ]") for closes in ("][text]]", "]]")),
        ),
    ),
    "asciidoc": _document(
        "asciidoc",
        (inline("`a", "b`", "`"), inline("link:++a", "++[text]", "+"), inline("+a", "b+", "+")),
    ),
    "typst": _document(
        "typst",
        (
            *(inline("`a", "b`", "`"), inline("$a", "b$", "$")),
            inline('#link("http://a.b/', '")[text]', '" \\'),
        ),
        (inline("/*", "*/", "/* //"),),
    ),
    "mediawiki": _document(
        "mediawiki",
        (
            *(inline("<nowiki>", "</nowiki>"), inline("<code>", "</code>", "<")),
            inline("[[A ", "|text]]", "[ ] |"),
        ),
        (inline("<!--", "-->", "--"),),
    ),
    "html": _document(
        "html",
        (Hidden("<a href='", "'>b</a>", "'"), Hidden('<i title="', '">c</i>', '"')),
        (Hidden("<!-- ", " -->", "--"), Hidden("<![CDATA[", "]]>")),
        first="<p>",
        last="</p>",
    ),
}
