"""What records, proofs and documents hide, and what their statements are."""

from segmenters import (
    Agda,
    Coq,
    Hol,
    Isabelle,
    LaTeXProofs,
    Lean,
    Metamath,
    Mixed,
    Mizar,
    Records,
    Tptp,
)
from tests.segmenters.hidden import Form, Hidden, line_comment, string

_FLAT = Hidden("/*", "*/", bans=("/*",))
_C = Hidden("/*", "*/")
_DOUBLED = tuple(Hidden(sign, sign, doubles=sign, bans=("\\",)) for sign in "'\"")
_PAREN, _DASHES = Hidden("(* ", " *)", nests=True), line_comment("-- ")


_SQL = (
    "SELECT \1, \1 \2 FROM t\2;\n",
    "SELECT \1 \3, \1 FROM t \3; ",
    "\3INSERT INTO t VALUES (\1, 2, \1); \3",
    "UPDATE t SET a = \1 \2 WHERE b = \1 ;\n\n",
)
_DOCUMENT = ("We saw \1 here. ", "So \2 it is \1, then! ", "Who came?\n\n")


FORMS = {
    "sql of sqlite": Form(Records(format="sql"), _SQL, _DOUBLED, (_FLAT,), (_DASHES,)),
    "sql of postgresql": Form(
        Records(format="sql"),
        (*_SQL, "CREATE FUNCTION f() RETURNS int AS $fn$ SELECT \1; $fn$ LANGUAGE sql; \3"),
        (
            *(*_DOUBLED, Hidden("E'", "'", escapes="\\'")),
            *(Hidden(sign, sign, bans=("$",)) for sign in ("$$", "$ab$")),
        ),
        (Hidden("/*", "*/", nests=True, bans=("/*",)),),
        (_DASHES,),
    ),
    "sql of mysql": Form(
        Records(format="sql"),
        _SQL,
        (string("'", lines=True), string('"', lines=True), Hidden("`", "`")),
        (_C,),
        (_DASHES, line_comment("# so ")),
        first="CREATE TABLE `t` (a int);\n\0",
    ),
    "sql of oracle": Form(
        Records(format="sql"),
        _SQL,
        (_DOUBLED[0], *(Hidden(f"q'{a}", f"{b}'") for a, b in ("[]", "{}", "()", "<>", "!!"))),
        (_FLAT,),
        (_DASHES,),
    ),
    "sql of sql server": Form(
        Records(format="sql"),
        _SQL,
        (_DOUBLED[0], Hidden("[", "]", doubles="]", lines=False)),
        (Hidden("/*", "*/", nests=True, bans=("/*",)),),
        (_DASHES,),
    ),
    "csv": Form(Records(format="csv"), ("\1,a,\1\n", "b,\1,3\n"), _DOUBLED[1:]),
    "tsv": Form(Records(format="tsv"), ("\1\ta\t\1\n", "b\t\1\t3\n"), _DOUBLED[1:]),
    "json": Form(
        Records(format="json"),
        ('"a": [\1, \2 \1], \3', '"b": {"c": \1},\n', '"d": \1 \2, '),
        (Hidden('"', '"', escapes='\\"', lines=False),),
        (_C,),
        (line_comment("// "),),
        first="{",
        last='\0"e": 1}',
    ),
    "yaml": Form(
        Records(format="yaml"),
        ("a: \1 \3", "b: [\1,\n  \1] \3", "c: {d: \1}\n", "\3e: 1\n", "f:\n\0  - \1 \3", "g: \4"),
        (
            Hidden("'", "'", doubles="'", lines=False),
            Hidden('"', '"', escapes='\\"', lines=False),
        ),
        (),
        (line_comment("# "),),
        (
            Hidden("|\n  ", "\n", bans=("\n",), lines=False),
            Hidden("'a\n  ", "'\n", bans=("'", "\n"), lines=False),
            Hidden('"a\n  ', '"\n', bans=('"', "\\", "\n"), lines=False),
        ),
    ),
    "toml": Form(
        Records(format="toml"),
        ("a = \1 \3", "b = [\1, \3 \1]\n", "c = {d = \1, e = \1} \3", "\3f = 1\n"),
        (
            Hidden("'", "'", bans=("\n",), lines=False),
            Hidden('"', '"', escapes='\\"', lines=False),
            Hidden("'''", "'''", bans=("'",)),
            Hidden('"""', '"""', bans=('"', "\\")),
        ),
        (),
        (line_comment("# "),),
    ),
    "hcl": Form(
        Records(format="hcl"),
        (
            *("a = \1 \3", "b = [\1, \2\n  \1] \3", "c = f(\1, \3  2)\n"),
            *("d {\n\0  e = \1\n\0}\n", "g = \4", "h = [\4, \4]\n", "i {\n\0  j = f(\4)\n\0}\n"),
        ),
        (Hidden('"', '"', escapes='\\"', bans=("$",), lines=False),),
        (_C,),
        (line_comment("# "), line_comment("// ")),
        (
            Hidden("<<EOT\n", "\nEOT\n", bans=("EOT",)),
            Hidden("<<-EOT\n", "\n  EOT\n", bans=("EOT",)),
        ),
    ),
    "dockerfile": Form(
        Records(format="dockerfile"),
        ("RUN a \\\n  \3  b\n", "RUN \1", "COPY \1", "\3CMD c\n"),
        (
            Hidden("<<EOT\n", "\nEOT\n", bans=("EOT",)),
            Hidden("cat <<'EOT' > f\n", "\nEOT\n", bans=("EOT",)),
            Hidden("<<A <<EOT b\nA\n", "\nEOT\n", bans=("EOT",)),
        ),
        (),
        (line_comment("# ", "\\"),),
    ),
    "makefile": Form(
        Records(format="makefile"),
        ("a: b\n", "\tc \\\n\td\n", "\3E = f\n", "\1"),
        (Hidden("define X\n", "\nendef\n", bans=("endef", "define", "\\")),),
        (),
        (line_comment("# ", "\\"),),
        first="Z = 1\n\0",
    ),
    "bibtex": Form(
        Records(format="bibtex"),
        ("@book{a,\n  b = \1,\n  c = \1\n}\n", "@misc{d, e = \1}\n\n"),
        (Hidden("{", "}", bans=tuple("{}@\\")), Hidden('"', '"', bans=tuple("{}@\\"))),
    ),
    "gherkin": Form(
        Records(format="gherkin"),
        ("  Given a\n\1\n", "  Then b\n", "\3  When c\n"),
        tuple(Hidden(f"    {s}\n", f"\n    {s}", bans=(s,)) for s in ('"""', "```")),
        (),
        (line_comment("    # "),),
        first="Feature: a\n\0",
    ),
    "coq": Form(
        Coq(),
        ("Definition a \2 := \1. ", "Lemma b \2 : c \1.\n", "auto \2. "),
        (Hidden('"', '"', doubles='"'),),
        (Hidden("(* ", " *)", nests=True, bans=('"',)),),
    ),
    "lean": Form(
        Lean(),
        ("def a \2 := f \1 \3", "theorem b : c \1 \2 := d \3", "#eval \1\n"),
        (string('"', lines=True),),
        (Hidden("/- ", " -/", nests=True),),
        (line_comment("-- "),),
    ),
    "agda": Form(
        Agda(),
        ("a \2 = f \1 \3", "b : c \1 \2\n"),
        (string('"'),),
        (Hidden("{- ", " -}", nests=True),),
        (line_comment("-- "),),
    ),
    "isabelle": Form(
        Isabelle(),
        ("lemma \1 \2\n", "have \1 \2 ", "by (a \1)\n"),
        (string('"', lines=True), Hidden("\\<open>", "\\<close>"), Hidden("\u2039", "\u203a")),
        (_PAREN,),
    ),
    "metamath": Form(
        Metamath(),
        ("$c a \2 b $.\n", "c $a |- \2 d $. ", "\1\n"),
        (Hidden("$( ", " $)", bans=("$",)),),
        (Hidden("$( ", " $)", bans=("$",)),),
    ),
    "mizar": Form(Mizar(), ("a = \3 b;\n", "thus c; \3", "let d; "), (), (), (line_comment("::"),)),
    "tptp": Form(
        Tptp(),
        ("fof(a, axiom, f(\1) \2 ).\n", "cnf(b, axiom, \1 \3 | c). \3", "include(\1).\n"),
        (string("'"), string('"')),
        (_C,),
        (line_comment("% "),),
    ),
    "hol": Form(
        Hol(),
        ("Definition a:\n  b \2 = \1\nEnd\n\n".replace("End", "\0End"), "val c = f \1 \2\n"),
        (string('"'),),
        (_PAREN,),
    ),
    "latex": Form(
        LaTeXProofs(),
        _DOCUMENT,
        (
            Hidden("\\verb+", "+", lines=False),
            Hidden("\\lstinline|", "|", lines=False),
            Hidden("\\mintinline{c}{", "}", bans=("{", "\\"), lines=False),
            Hidden("\\url{", "}", bans=("{", "%", "\\"), lines=False),
            Hidden("\\href{", "}{text}", bans=("{", "}", "%", "\\"), lines=False),
        ),
        (line_comment("% "),),
    ),
    "markdown": Form(
        Mixed(format="markdown"),
        _DOCUMENT,
        (
            Hidden("`` ", " ``", bans=("``",), lines=False),
            Hidden(
                "[text](http://a.b/",
                ")",
                bans=("(", ")", "<", "`", "$", "[", "]", "\\"),
                lines=False,
            ),
            Hidden("<http://a.b/", ">", bans=("<", "`", "$"), lines=False),
            Hidden("<a href='", "'>", bans=("`", "$", "<", ">", "'"), lines=False),
        ),
        (Hidden("<!-- ", " -->", bans=("--", "`", "$"), lines=False),),
    ),
    "rst": Form(
        Mixed(format="rst"),
        (*_DOCUMENT, "\4"),
        (
            Hidden("``", "``", bans=("`", "*", "|"), lines=False),
            Hidden("`text <http://a.b/", ">`_", bans=("`", "<", ">"), lines=False),
            Hidden(":math:`a", "`", bans=("`", "<", ">"), lines=False),
        ),
        docs=(Hidden("Who came?\n\n\0.. so it is. ", "\n\n", bans=("::",), lines=False),),
    ),
    "org": Form(
        Mixed(format="org"),
        _DOCUMENT,
        (
            Hidden("=a", "b=", bans=("=",), lines=False),
            Hidden("~a", "b~", bans=("~",), lines=False),
            Hidden("[[http://a.b/", "][text]]", bans=("[", "]"), lines=False),
            Hidden("[[http://a.b/", "]]", bans=("[", "]"), lines=False),
        ),
    ),
    "asciidoc": Form(
        Mixed(format="asciidoc"),
        _DOCUMENT,
        (
            Hidden("`a", "b`", bans=("`",), lines=False),
            Hidden("link:++a", "++[text]", bans=("+",), lines=False),
            Hidden("+a", "b+", bans=("+",), lines=False),
        ),
    ),
    "typst": Form(
        Mixed(format="typst"),
        _DOCUMENT,
        (
            Hidden("`a", "b`", bans=("`",), lines=False),
            Hidden('#link("http://a.b/', '")[text]', bans=('"', "\\"), lines=False),
            Hidden("$a", "b$", bans=("$",), lines=False),
        ),
        (Hidden("/*", "*/", bans=("/*", "//"), lines=False),),
    ),
    "mediawiki": Form(
        Mixed(format="mediawiki"),
        _DOCUMENT,
        (
            Hidden("<nowiki>", "</nowiki>", lines=False),
            Hidden("<code>", "</code>", bans=("<",), lines=False),
            Hidden("[[A ", "|text]]", bans=("[", "]", "|"), lines=False),
        ),
        (Hidden("<!--", "-->", bans=("--",), lines=False),),
    ),
    "properties": Form(
        Records(format="properties"),
        ("a = b \\\n  c\n", "\3d = e\n"),
        (),
        (),
        (line_comment("# "), line_comment("! ")),
    ),
    "po": Form(
        Records(format="po"),
        ("msgid \1\nmsgstr \1\n\1\n\n", "\3msgid \1\nmsgstr \1\n\n"),
        (Hidden('"', '"', escapes='\\"', lines=False),),
        (),
        (line_comment("# "),),
    ),
    "html": Form(
        Mixed(format="html"),
        ("We saw \1 here. ", "So \2 it is \1, then! "),
        (
            Hidden("<a href='", "'>b</a>", bans=("'",)),
            Hidden('<i title="', '">c</i>', bans=('"',)),
        ),
        (Hidden("<!-- ", " -->", bans=("--",)), Hidden("<![CDATA[", "]]>")),
        first="<p>",
        last="</p>",
    ),
}
