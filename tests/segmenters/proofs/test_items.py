"""Levels of proofs: '@l' begins a lemma, '@t' a theory (paragraph, section); also while written."""

import re

import pytest

import segmenters

LEVELS = {
    segmenters.Coq(): """Require Import Arith.
Set Implicit Arguments.
@t(** Sums. *)
Section Sums.
Variable n : nat.
@l(* Nothing. *)
#[local] Lemma a : n + 0 = n.
Proof.
  - auto. Check n.
Qed.
@lHint Resolve a.
Arguments a.
@lDefinition b := n.
@lProgram Fixpoint c := b.
End Sums.
@tImport Sums.
@tModule M.
@lTheorem d : c = c. auto. Defined.
""",
    segmenters.Lean(): """import Mathlib
open Nat
@t/-! # Sums -/

@tnamespace A

@l/-- Nothing. -/
@[simp] theorem a : n = n := by
  rfl
@lopen B in
private def b : C := 1
@lvariable (n : Nat)
#eval b

@l-- as above
instance : D where
  e := 1

@l/- alone -/

@lexample : F := g

end A

@tset_option x true
""",
    segmenters.Isabelle(): """@ttheory A imports B keywords "foo" :: thy_goal begin
@tsection \\<open>Sums\\<close>
text \\<open>alone\\<close>

@ltext \\<open>above\\<close>
lemma a: "b"
proof -
  have "c" by auto
qed
@ldeclare a[simp]
hide_const x
@lfoo b by simp
@tcontext fixes x begin
@lprivate fun f where "f x = x"
  lemma
@end
@tML \\<open>lemma\\<close>
""".replace("  lemma\n@end", "end"),
    segmenters.Mizar(): """environ
 vocabularies A;
@tbegin :: Sums
reserve x for set;
@l:: The first.
theorem Th1: x = x
proof
  A1: x = x;
  thus thesis;
end;
@lLm1: x = x;
@ldefinition
  let x;
  func f(x) -> set means x = x;
  existence;
end;
@lreserve y for set;
""",
    segmenters.Metamath(): """$c wff |- $.
$v ph $.
@l$( Above. $)
wph $a wff ph $.
@l$( Alone. $)

@l${
  min $e |- ph $.
  $( Above. $)
  th $p |- ph $= ( min ) A $.
  @l$( More. $)
  ti $p |- ph $= min $.
$}
@t$( =-=-=-=
  Sums
=-=-=-= $)
$d x y $.
""",
    segmenters.Agda(): """-- A file.

@tmodule A where

open import B
@l-- above
a : B
a = c

@lb c : {x : D} -> E
b = refl
  where
  @ld : F
  d = begin
    e \u2261\u27e8 f \u27e9
    g \u220e
@linfixl 5 _+_
open C
@t------------------------------
-- Sums

@ldata N : Set where
  @lzero : N
""",
    segmenters.Hol(): """open HolKernel;
@tTheory a
Ancestors b
@l(* above *)
Theorem c:
  !x. x = x
Proof
  rw[] \\\\ fs[]
QED
@lDefinition d:
  d = 1
End
@lval _ = export_theory ();
@t(* ==================== *)
(* Sums *)
needs "a.ml";;
@l(* above *)
let A = prove
 (`a`,
  B THEN C);;
@llet D = new_definition `d = 1`;;
@lneeds "b.ml";;
""",
    segmenters.Tptp(): """% A problem.
include('a.ax').
@l% above
fof(a, axiom, p(X)).
@lfof('b c', conjecture, q(X)).
fof(c, negated_conjecture, ~q(X)).
fof(d, plain, p(X), inference(e, [], [a])).
@lcnf(e, lemma, p).
""",
    segmenters.ChainOfThought(): """Let us see.
It is.

@lSo. Then
@t## Two
A
@tStep 3: B
""",
    segmenters.LaTeXProofs(): """A. B

@lC
@t\\section{D}
@lE
@l\\begin{proof}
F
@l\\end{proof}
""".replace("@l\\end", "\\end"),
}
TEXTS = {segmenter: re.sub("@[lt]", "", marked) for segmenter, marked in LEVELS.items()}


@pytest.mark.parametrize("segmenter", LEVELS, ids=lambda s: type(s).__name__)
def test_lemmas_and_theories_begin_here(segmenter):
    shown, found = segmenter.levels(TEXTS[segmenter]), ""
    for place, sign in enumerate(TEXTS[segmenter]):
        marks = [place > 0 and place in cuts.tolist() for cuts in shown]
        found += "@t" * marks[2] or "@l" * marks[1]
        found += sign
    assert found == LEVELS[segmenter].removeprefix("@t")
