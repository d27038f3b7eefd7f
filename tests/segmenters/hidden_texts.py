"""What proofs and documents hide, and what their statements are."""

import segmenters
from tests.segmenters.hidden import Form, Hidden, inline, line_comment, string

_C, _DASHES = Hidden("/*", "*/"), line_comment("-- ")
_PAREN = Hidden("(* ", " *)", nests=True)


def _document(format: str, strings, comments=(), statements=(), **more) -> Form:
    told = ("We saw \1 here. ", "So \2 it is \1, then! ", "Who came?\n\n")
    told = told[:2] if format == "html" else told
    segmenter = segmenters.LaTeXProofs() if format == "latex" else segmenters.Mixed(format=format)
    return Form(segmenter, (*told, *statements), strings, comments, **more)


FORMS = {
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
    "html": _document(
        "html",
        (Hidden("<a href='", "'>b</a>", "'"), Hidden('<i title="', '">c</i>', '"')),
        (Hidden("<!-- ", " -->", "--"), Hidden("<![CDATA[", "]]>")),
        first="<p>",
        last="</p>",
    ),
}
