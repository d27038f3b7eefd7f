"""Laws of the dialects of proofs, on texts made of what each dialect looks at."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import segmenters
from tests.segmenters.texts import any_text, grows_too_fast

WORDS = [
    *("a", "B", "x1", "Then", "one", " ", " ", "  ", "\n", "\n", "\n\n", "\r\n", "\r", "\t", ". ")
]
PIECES = {
    segmenters.ChainOfThought(): [
        *"1.:)(*-",
        *("Step ", "Step 2: ", "Case", "(b) ", "1. ", "12", "\u2028", "Mr. "),
        *("\\[", "\\]", "$$", "$", "\\(", "\\)", "$5", " $", "$ ", "\\\\", "\\$", ".", "?"),
        *("\\begin{align*}", "\\end{align*}", "\\begin{itemize}", "\\end{itemize}", "\\item"),
        *("\\begin{", "align", "}", "\\end{", "\\begin{verbatim}", "\\end{verbatim}", ","),
        *("```", "\n```py", "\n| a", "\n# ", "<think>", "</think>", "<thi", "[asy]", "[/asy]"),
    ],
    segmenters.Coq(): [
        *'.-+*{}:()"[]',
        "(*",
        "*)",
        "...",
        "..",
        "2: {",
        "all:",
        "[x]",
        "Qed.",
        "1 - 2 : {",
    ],
    segmenters.LaTeXProofs(): [
        *"$%\\{}[].,",
        *("$$", "\\[", "\\]", "\\(", "\\)", "\\item", "\\par", "\\section{", "\\section"),
        *("\\verb|", "\\begin{proof}", "\\end{proof}", "\\begin{align*}", "\\end{align*}"),
        *("\\begin{", "\\cite[", "\\begin{verbatim}", "\\end{verbatim}", "\\label{a}"),
        *("\\begin{tabular}", "equation", "\\end{tabular}", "\\subsubsection*", "% c", "|"),
        *("\\qedhere", "\\begin{theorem}["),
    ],
    segmenters.Lean(): [
        *"\"'-/|_\u00b7<>)]}@:=",
        *("/-", "-/", "--", "by", ":=", "=>", "| ", "_ ", "calc", "in", "@[simp]", "    ", "where"),
        *("'\"'", '\\"', "theorem", "do"),
    ],
    segmenters.Agda(): [
        *"\"'-{}()=|;:",
        *("{-", "-}", "{-#", "#-}", "--", "where", "=", "| ", "begin", "    ", "module", "data"),
        *("'\"'", '\\"', "a : b", "private"),
    ],
    segmenters.Tptp(): [
        *"()[]{}.'\"%/*,\\",
        *("fof(", "\nfof(a, axiom, ", "include('a').", "/*", "*/", ").", "% c", "\\'", "1.5"),
    ],
    segmenters.Hol(): [
        *"()[]{};,'\"`\u2018\u2019\u201c\u201d",
        *("\nTheorem a:", "\nProof\n", "\nQED\n", "\nval a", "\nDefinition", "\nEnd", "open b"),
        *("prove (", "store_thm(", "THEN ", "\n  >> ", " \\\\ ", ">- ", ";;", "``", "\n(*", "(*"),
        *("*)", "let A = prove\n (", "THENL [", "\nlet "),
    ],
    segmenters.Isabelle(): [
        *"\"`\\.{}()*?'",
        *("(*", "*)", "\\<open>", "\\<close>", "\u2039", "\u203a", "{*", "*}", "lemma", "proof"),
        *("by", "qed", "..", " . ", "have", "foo.", "sledgehammer_params", "quickcheck_generator"),
        *("theory", "keywords", '"foo"', " :: thy_decl", " and ", "begin", "foo", "private "),
    ],
    segmenters.Metamath(): [
        *"$.(){}[]ABUVZ?",
        *("$.", "$(", "$)", "${", "$}", "$a", "$p", "$=", "$[", "$]", " ( a ) "),
    ],
    segmenters.Mizar(): [
        *";:'.=",
        *(".=", "::", ":: c", "proof", "now", "hereby", "end;", "begin", "proofs", "let"),
    ],
}
each = pytest.mark.parametrize("segmenter", PIECES, ids=repr)


def text_of(segmenter):
    """Texts that are hard for this dialect."""
    pieces = st.sampled_from(WORDS + PIECES[segmenter])
    return st.one_of(st.lists(pieces, max_size=60).map("".join), any_text)


@each
@given(data=st.data())
def test_steps_tile_the_text_and_are_decided_within_the_lookahead(segmenter, data):
    text = data.draw(text_of(segmenter))
    cuts = segmenter.cut(text)
    assert cuts.dtype == np.int64 and cuts[0] == 0 and cuts[-1] == len(text)
    assert (np.diff(cuts) > 0).all()
    listing = isinstance(segmenter, segmenters.LaTeXProofs) and "verbatim" in text
    for place in cuts[1:-1].tolist():
        assert listing or not text[place].isspace()
    for length in range(1, len(text)):
        known = min(length - segmenter.lookahead, length - 1)
        seen = {place for place in segmenter.cut(text[:length]).tolist() if place <= known}
        assert seen == {place for place in cuts.tolist() if place <= known}


HOSTILE = [
    *(
        '"',
        "'",
        "(*",
        "*)",
        "$",
        "$$",
        "\\",
        "%",
        ".",
        " ",
        "\n",
        "\0",
        "{",
        "}",
        "\ud800",
        "`",
        "/-",
    ),
    *(
        "-/",
        "--",
        "\\[",
        "\\begin{align}",
        "\\begin{a}",
        "\\section{",
        "\\<open>",
        "$(",
        "${",
        "::",
    ),
    *(
        "e\u0301",
        "$$ x",
        "\\verb|",
        "\\cite[",
        "%\n",
        "\n\n%",
        "1 ",
        "2:",
        "- ",
        "a.",
        "Step 1. ",
        "|",
    ),
    *(
        "$$" + " " * 40 + "$$ A",
        "\\begin{verbatim}\n",
        "@[x]\n",
        "-- \n",
        " \n  ",
        "{*",
        "x'",
        "\u2039",
    ),
]


@each
def test_hostile_text_takes_linear_time(segmenter):
    """Twice the text, 2.5 times the time at most; times of a few milliseconds are noise."""
    for piece in HOSTILE:
        texts = (piece * (size // len(piece)) for size in (8_000, 16_000))
        assert not grows_too_fast(segmenter.cut, *texts, most=2.5, slack=0.025), piece


@each
def test_a_long_line_without_ends_is_one_step(segmenter):
    assert segmenter.cut("x" * 200_000).tolist() == [0, 200_000]
