"""Ordinary text of each segmenter's kind, and hostile text: units, repeated or mixed."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator

from segmenters import (
    Agda,
    ArithmeticSteps,
    Auto,
    ChainOfThought,
    Coq,
    Hol,
    Isabelle,
    LaTeXProofs,
    Lean,
    Lines,
    Metamath,
    Mixed,
    Mizar,
    Newline,
    Official,
    Pattern,
    RandomCuts,
    Segmenter,
    Sentences,
    Stride,
    Tptp,
    Turns,
)
from segmenters.documents.mixed import FORMATS
from segmenters.registry import LANGUAGES
from tests.segmenters.samples import SNIPPETS

UNITS = (
    *("'", '"', "\"'", "(", ")", "[", "]", "{", "}", "<", ">", "()", "[]", "{}", "][", "([{"),
    *(".", "..", ". ", " .", ". A", "a.", "A.", "a.B", ".a ", "... ", "?!", "? ", "! A", "!A"),
    *("1.", "1. ", "(1) ", "e.g. ", "Mr. ", "U.S. ", "5 p.m. ", "I. ", "Yes. ", "no. a", '." '),
    *(".\n", ". ''", ". \u00bb", ".[1] ", "; ", ": ", "a\u2026 ", "\u3002", "\u3002a", "\uff0e1"),
    *("\u3002\u300d\u3068", "\u0964 ", "\u06d4", "\u0561:", "\u03b1; ", "\u2022 ", "\u4e2d"),
    *("\u1361", "\u1361\u1361 ", "\U00011047", "\U00011047 "),
    *(" ", "\t", "\n", "\n\n", "\r", "\r\n", "\n-", "\n ", "\n\n\t", "\u2028", "\u2029", "\u00a0"),
    *("\0", "\x1c", "\x85", "a\u0301", "\u0301", "\ud800", "\udfff", "\u200d", "\u200f", "\ufeff"),
    *("\U0001f600", "\U0001f600 A", ". \U0001f600", "\u202ea.", "x", "x ", "1 ", "1", "-", "--"),
    *("$", "$$", "$ ", "\\", "\\\\", "%", "%\n", "\\[", "\\[ ", "\\(", "\\begin{"),
    *(
        "\\begin{align}\n",
        "\\item",
        "\\section{",
        "\\verb|",
        "\\cite[",
        "\\end{",
        "\\begin{verbatim}\n",
        "\\<open>",
    ),
    *("(*", "*)", "(* *)", "{-", "-}", "/*", "*/", "//", "/-", "-/", "<!--", "-->", "::", ":="),
    *("$(", "$)", "${", "$}", "$.", "$[", "proof ", "by ", "lemma ", "Step 1: ", "end;", "all:{"),
    *("#", "# ", "##\n", "```", "```\n", "~~~\n", "`", "|", "| ", "=", "==", "a=", "<a", "<a>"),
    *("</a>", "<script>", "&amp;", "http://", "a@b.", "if ", "if(", "f(", "else ", "{a;", "'''"),
    *('"""', '"\\', "@a ", "a,", ";", ",", "begin ", "do "),
    *("fn ", "class A{", "\\\n", "EOF\n", "<<A\n"),
)
_PROSE = (
    "It was late when Mr. Arden came home, and the house was dark. He had walked 3.5 miles in the "
    'rain! "Is anybody there?" he asked. Nobody answered; the clock (an old one) struck ten... '
    "He lit a lamp. On the table lay a letter from J. Hale, dated Jan. 4, with two words in it: "
    "come back. He read it twice, put it into his coat, and went out again.\n\n"
)
_COQ = (
    "(* Sums. *)\nLemma add_0 : forall n, n + 0 = n.\nProof.\n  intros n. induction n as [|m IH].\n"
    "  - reflexivity.\n  - simpl. { rewrite IH. reflexivity. }\nQed.\n\n"
)
_LEAN = (
    "/-- Sums. -/\ntheorem add_zero (n : Nat) : n + 0 = n := by\n  induction n with\n"
    "  | zero => rfl\n  | succ m ih =>\n    rw [Nat.succ_add]\n    simp [ih] -- done\n\n"
)
_ISABELLE = (
    '(* Sums. *)\nlemma add_0: "n + (0::nat) = n"\nproof (induct n)\n  case 0 show ?case by simp\n'
    "next\n  case (Suc m) from this have \\<open>m = m\\<close> by auto\n"
    "  then show ?case by simp\nqed\n\n"
)
_METAMATH = (
    "$( Sums of numbers. $)\n$c + 0 = |- $.\n${\n  min $e |- ph $.\n  maj $e |- ( ph -> ps ) $.\n"
    "  ax-mp $a |- ps $.\n$}\nth1 $p |- t = t $= tt tze tpl tt weq tt ax-mp $.\n"
)
_MIZAR = (
    ":: Sums.\ntheorem Th1: for n being Nat holds n + 0 = n\nproof\n  let n be Nat;\n  A1: n = n;\n"
    "  now assume n > 0; hence n + 0 = n by A1; end;\n  hence thesis;\nend;\n\n"
)
_AGDA = (
    "-- Sums.\nadd-0 : (n : Nat) -> n + 0 \u2261 n\nadd-0 zero    = refl\nadd-0 (suc n) =\n"
    "  begin\n    suc n + 0    \u2261\u27e8 lemma n \u27e9\n    suc (n + 0)  \u220e\n"
    "  where\n  lemma : (m : Nat) -> suc m + 0 \u2261 suc (m + 0)\n  lemma m = refl\n\n"
)
_HOL = (
    "(* Sums. *)\nTheorem add_0[simp]:\n  !n:num. n + 0 = n\nProof\n  Induct >> rw [A] \\\\ fs []\n"
    'QED\n\nval a = store_thm ("a",\n  ``b:num``,\n  REWRITE_TAC [a; b] THEN ARITH_TAC);\n'
)
_TPTP = (
    "% Sums.\nfof(add_0, axiom, ! [N] : ( nat(N) => ( add(N, 'zero') = N & ~ big(N) ) )). % one\n"
    "cnf(c, plain, p(X) | ~ q(f(X)), inference(r, [status(thm)], [add_0])).\n"
)
_LATEX = (
    "\\section{Sums} Let $n$ be a number, as in \\cite[p. 3]{a}. Then\n"
    "\\begin{equation}\n  n + 0 = n.\n\\end{equation}\n% a remark\n"
    "\\begin{proof}\nBy induction. For $n = 0$ it is clear; see Fig. 2. Now\n"
    "\\[ m + 1 = 1 + m. \\]\nSo it holds for all $n$.\n\\end{proof}\n\n"
)
_LIST = "Things to do:\n- Buy some bread. And milk.\n- Call Mr. Hale\n1. one\n2. two, or three\n\n"
_TURNS = (
    "<|im_start|>user\nIs it late? I think so.<|im_end|>\n<|im_start|>assistant\nIt is. The clock "
    "struck ten, so go home.\n\n- Take a lamp.\n- Be quick.<|im_end|>\n"
)
_IRC = "[10:15] <ann> Is it late? I think so.\n[10:16] <bob> It is. Go home.\nMR. HALE: Now!\n"
_STEPS = "Step 1: add 3 and 4. We get 7.\nStep 2: Double it, so 14. Is it even?\n1. Then stop.\n\n"
_MARKDOWN = f"# A title\n\n{_PROSE}- an item\n- another one\n\n```python\nx = 1\ny = f(x)\n```\n\n"
_PAGE = (
    "<html><body><h1>A title</h1><p>It rained. <b>We</b> left.</p>"
    "<ul><li>one</li></ul></body></html>\n"
)
_PYTHON = (
    "def f(a, *, b=1):\n    '''Sums.'''\n    x = [a,\n         b]  # both\n    return sum(x)\n\n\n"
)

Sample = tuple[Segmenter, str]


def samples() -> dict[str, Sample]:
    """Every segmenter by a name, with ordinary text of its kind."""
    snippets = SNIPPETS | {"python": _PYTHON}
    plain = {name: text.replace("@=|", "").replace("@|", "") for name, text in snippets.items()}
    code = {
        f"lines {language}": (Lines(granularity="logical", language=language), plain[language])
        for language in LANGUAGES
        if language in plain
    }
    formats = {"html": _PAGE, "latex": _LATEX, "markdown": _MARKDOWN, "notebook": _PYTHON}
    mixed = {
        f"mixed {name}": (Mixed(format=name), formats.get(name, _MARKDOWN)) for name in FORMATS
    }
    return {
        "rules": (Sentences(backend="rules"), _PROSE),
        "next word": (Sentences(backend="rules", next_word=True), _PROSE),
        "spacy": (Sentences(backend="spacy"), _PROSE),
        "lists": (Sentences(), _LIST),
        "turns": (Turns(), _TURNS),
        "transcript": (Turns(names=True), _IRC),
        "chain of thought": (ChainOfThought(), _STEPS),
        "agda": (Agda(), _AGDA),
        "hol": (Hol(), _HOL),
        "tptp": (Tptp(), _TPTP),
        "metamath inner": (Metamath(inner=True), _METAMATH),
        "mizar inner": (Mizar(inner=True), _MIZAR),
        "arithmetic": (ArithmeticSteps(), "(1 + 2) * 3 = 3 * 3 = 9\n"),
        "coq": (Coq(), _COQ),
        "isabelle": (Isabelle(), _ISABELLE),
        "latex": (LaTeXProofs(), _LATEX),
        "lean": (Lean(), _LEAN),
        "metamath": (Metamath(), _METAMATH),
        "mizar": (Mizar(), _MIZAR),
        "newline": (Newline(), _PROSE),
        "official": (Official(), _PROSE),
        "stride": (Stride(length=100), _PROSE),
        "random": (RandomCuts(mean=100), _PROSE),
        "pattern": (Pattern(ends=r"[.!?]\s+"), _PROSE),
        "lines": (Lines(), _PYTHON),
        "auto": (Auto(), _PROSE),
        **mixed,
        **code,
    }


def patterns(size: int) -> Iterator[tuple[str, str]]:
    """Names and texts of `size` characters: each unit repeated, and mixes with fixed seeds."""
    for unit in UNITS:
        yield ascii(unit), repeated(unit, size)
    for seed in range(3):
        draw = random.Random(seed)
        few = draw.sample(UNITS, 4)
        yield f"mix {seed}", "".join(draw.choices(UNITS, k=size))[:size]
        yield f"mix of {' '.join(map(ascii, few))}", "".join(draw.choices(few, k=size))[:size]
        signs = string.punctuation + " \n"
        yield f"signs {seed}", "".join(draw.choices(signs, k=size))


def repeated(text: str, size: int) -> str:
    """Return the text again and again, up to `size` characters."""
    return (text * (size // len(text) + 1))[:size]
