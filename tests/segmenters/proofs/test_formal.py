"""Steps of formal proofs. In a marked text, '@@' stands where a step ends."""

from itertools import pairwise

import pytest

from segmenters import Agda, Coq, Hol, Isabelle, Lean, Metamath, Mizar, Tptp


def check(segmenter, marked):
    pieces = marked.split("@@")
    text = "".join(pieces)
    cuts = segmenter.cut(text).tolist()
    assert [text[start:end] for start, end in pairwise(cuts)] == pieces


@pytest.mark.parametrize(
    "marked",
    [
        *("Lemma a : b = b.\n@@Proof.\n  @@reflexivity.\n@@Qed.\n",),
        *("(* One. Two (* Three. *) *) Check (f.g).@@",),
        *('Notation "x . y" := (f x y). @@Check ".".', 'Check "a "" . b". @@Check c.'),
        *('(* " *) . " *) Check a.\n@@Check b.',),
        *("Notation \"'sum' x .. y\" := (s x .. y). @@Qed.", "auto ... @@Qed."),
        *("Qed. @@(* behind. *) Lemma b : c.",),
        *("split. @@- @@auto. @@-- @@+ @@left. @@** @@right. @@Qed.",),
        *("{ @@auto. @@} @@2:{ @@auto. @@} @@[left_case]: { @@auto. @@} @@all:{ @@auto. @@}",),
        *("1-2: auto. @@all: lia. @@{@@- @@auto. @@}",),
        *("- @@(* first *) + @@by rewrite -[x]addn0 => /= [|n] //; case: n {IHn}.\n@@Qed.",),
        *("move=> [a b] {H} -> *. @@apply/eqP; split=> //.",),
        *("Definition two := 1.5%R.\n@@Check Nat.add.\r\n@@Check a.\t@@Check b.",),
        *("Check (* never closed. Check b. ", 'Check "never closed. Check b. '),
    ],
)
def test_coq_sentences_bullets_and_braces(marked):
    check(Coq(), marked.removesuffix("@@"))


@pytest.mark.parametrize(
    "marked",
    [
        "theorem a (n : Nat)\n    (h : n = 0) :\n    n = n := by\n  @@simp\n\n@@example : b := c\n",
        "by\n  @@rw [a,\n    b]\n  @@exact\n    c",
        "constructor\n@@\N{MIDDLE DOT} intro x\n  @@simp\n@@\N{MIDDLE DOT} rfl",
        "induction n with\n@@| zero => simp\n@@| succ n ih =>\n  @@rw [ih]\n  @@rfl",
        "def f : Nat -> Nat\n  @@| 0 => 1\n  @@| n + 1 => f n\n",
        "calc a = b := by simp\n  @@_ = c := by\n    @@rw [h]\n  @@_ = d := h\n@@exact f\n    _ x",
        "exact h <;>\n  ring\n@@all_goals simp\n<;> ring",
        "-- a\n/-- doc\n-- by -/\n@[simp]\ntheorem a : b := by\n  @@-- so\n  simp -- by\n  @@rfl",
        "/-! one /- two -/\n three -/\n\n@@import A\n@@open B in\ndef c' := '\"'\n@@def d := 1",
        'def a := "b\ndef c\\"\n"\n@@def d := 1',
        "def a : B := {\n  b := 1\n  c := 2\n}\n@@def d := 1",
        "if a then\n  @@b\n@@else\n  @@c",
        "simp\r\n@@rfl\r@@done",
        "have : |a| = b +\n    |c| := d",
        "/- never closed\nby\nsimp",
    ],
)
def test_lean_steps_by_indentation(marked):
    check(Lean(), marked)


@pytest.mark.parametrize(
    "marked",
    [
        'theory A imports B begin\n@@lemma a: "b"\n  @@by simp\n@@end',
        'from assms @@have "x" @@using foo.proof @@by (rule a) \n@@then @@show ?thesis @@..\n@@qed',
        "proof (induct n)\n  @@case 0\n  @@{ @@fix x @@}\n@@next\n  @@show ?case @@.\n@@qed",
        'lemma "have a" and \\<open>\\<open>by\\<close> qed\\<close> \u2039proof\u203a @@by auto',
        'lemma "a \\" by" (* by (* done *) qed *) @@done',
        "text {* by hand *} @@apply (simp add: lemma'_def proof_x `by fact`) @@done",
        "private lemma a @@including b @@by c @@qualified private fun d\n@@private fun e @@end",
        'theory A imports B keywords "foo" "bar" :: thy_goal % "proof" == "x" and "baz" and "q" ::'
        ' quasi_command and "o" :: diag abbrevs "p" = "q" begin\n@@foo x @@bar y baz p q by_x @@o',
        'have "\\<proof>" "... = 1" @@also @@have "x" @@finally @@show "y" @@sorry',
    ],
)
def test_isar_commands(marked):
    check(Isabelle(), marked)


@pytest.mark.parametrize(
    "marked",
    [
        "$c |- wff $.\n@@$v ph $.\n@@wph $f wff ph $.",
        "$( One $. two. $)\n@@${\n  @@a.1 $e |- ph $.\n  @@a $a |- ph $( in $. it $) $.\n@@$}\n",
        "th1 $p |- ps $= ( a b ) AB $.\n@@$[ other.mm $]\n@@$( Never closed $.",
        "$d x y$.@@$d x z$.",
    ],
)
def test_metamath_statements(marked):
    check(Metamath(), marked)


@pytest.mark.parametrize(
    "marked",
    [
        "theorem Th1: for x holds P[x]\n@@proof\n  @@let x;\n  @@thus thesis by A1;\n@@end;",
        "let x; :: a; proof\n@@:: b; c\nlet y;@@let z;",
        "A1: now\n  @@let x;\n@@end;\n@@hereby @@assume proofs;\n@@end;",
        "environ vocabularies A;\n@@begin\n@@reserve x for set;",
    ],
)
def test_mizar_steps(marked):
    check(Mizar(), marked)


@pytest.mark.parametrize(
    ("segmenter", "marked"),
    [
        (Metamath(inner=True), "t $p |- a $=\n  @@ab $( c d $) @@ax-mp @@? $.\n@@$( $= a b $)"),
        (Metamath(inner=True), "t $p |- a $= @@( a b ) @@A@@UBZ@@C\n  @@U\n V A@@? $.\n@@$c x $."),
        (
            Mizar(inner=True),
            "A1: a = b by C\n  @@.= c :: .= d\n  @@.= e;\n@@x.= y;".replace("x.", "x@@."),
        ),
    ],
)
def test_steps_inside_of_proofs_by_option(segmenter, marked):
    check(segmenter, marked)


@pytest.mark.parametrize(
    "marked",
    [
        "module A where\n\n@@open import B\n@@a : B \u2192\n    C\n@@a x = y\n  where\n  @@y = x\n",
        "f =\n  @@begin\n    @@a  \u2261\u27e8 b \u27e9\n    @@c  \u220e\n@@-- d\n{- e -}\ng : H\n",
        "{-# OPTIONS --safe #-}\n@@a with b\n@@... | c = d\n@@... | e\n  @@| f = '\"'\n",
        '@@g = "\\"\nh"'[2:],
        "x = record\n  { a = b\n  ; c = d -- where\n  }\n@@y' = a--b\n  c\n",
    ],
)
def test_agda_steps_by_indentation(marked):
    check(Agda(), marked)


@pytest.mark.parametrize(
    "marked",
    [
        """Theory A
@@Ancestors b
@@Theorem c[simp]:
  x >> y
@@Proof
  @@rw [] >> @@fs []
  @@\\\\ d
  @@>- (a >> b)
@@QED

@@(* x *)
val e = (f, g);
@@(* y
*)
(* z *)
fun h x =
  x
@@val _ = i""",
        """Definition a:
  b = (c
@@Termination
  @@d THEN @@e
@@End
@@val f = store_thm ("THEN, ",
  ``g,`` , @@h THEN
  @@i)
@@val j = 1""",
        """(* ;; *) let A = prove
 (`a;; THEN`, (* , *)
  @@B ";;" THEN @@C [D; E] THENL
   @@[F; G THEN H]);; (* I *)
@@(* J *)
let K = 'L';;""",
    ],
)
def test_hol_declarations_and_tactics(marked):
    check(Hol(), marked)


@pytest.mark.parametrize(
    "marked",
    [
        "% a.\nfof(a, axiom, p(1.5) & 'b. (' = \"c).\"). % d.\n@@% e\ninclude('f.ax', [g]).\n"
        "@@/* h. */ cnf(i, plain, j).",
        "fof(a, axiom, ( p .\n@@fof(b, axiom, (q)).\n@@thf(c, type, d: $i > $o).",
    ],
)
def test_formulas_of_tptp(marked):
    check(Tptp(), marked)


def test_only_the_next_character_is_read_where_a_terminator_needs_it():
    assert [s.lookahead for s in (Coq(), Metamath(), Lean())] == [1, 1, 2]
    assert Mizar().lookahead == len("proof;")
    assert Isabelle().lookahead == len("x" * 41 + ".x")
