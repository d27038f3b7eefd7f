"""Steps, lemmas and theories of proofs of all dialects, and turns of conversations.

In a marked text, '@@' stands where a step ends; in proofs.txt are signs where a lemma and where a
theory begin (paragraph, section).
"""

import pytest

import segmenters
from segmenters.base import UNCLOSED, tallied
from segmenters.code.advice import cure
from segmenters.registry import LANGUAGES, of_kind
from tests.segmenters.samples import marked_in, plain, typed, with_marks
from tests.segmenters.texts import logical, pieces

MARKED = {
    segmenters.Coq(): [
        "Lemma a : b = b.\n@@Proof.\n  @@reflexivity.\n@@Qed.\n",
        "(* One. Two (* Three. *) *) Check (f.g).",
        *('Notation "x . y" := (f x y). @@Check ".".', 'Check "a "" . b". @@Check c.'),
        '(* " *) . " *) Check a.\n@@Check b.',
        *("Notation \"'sum' x .. y\" := (s x .. y). @@Qed.", "auto ... @@Qed."),
        "Qed. @@(* behind. *) Lemma b : c.",
        "split. @@- @@auto. @@-- @@+ @@left. @@** @@right. @@Qed.",
        "{ @@auto. @@} @@2:{ @@auto. @@} @@[left_case]: { @@auto. @@} @@all:{ @@auto. @@}",
        "1-2: auto. @@all: lia. @@{@@- @@auto. @@} @@2:{@@auto. @@}",
        "- @@(* first *) + @@by rewrite -[x]addn0 => /= [|n] //; case: n {IHn}.\n@@Qed.",
        "move=> [a b] {H} -> *. @@apply/eqP; split=> //.",
        "Definition two := 1.5%R.\n@@Check Nat.add.\r\n@@Check a.\t@@Check b.",
        *("Check (* never closed. Check b. ", 'Check "never closed. Check b. '),
    ],
    segmenters.Lean(): [
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
    segmenters.Isabelle(): [
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
    segmenters.Metamath(): [
        "$c |- wff $.\n@@$v ph $.\n@@wph $f wff ph $.",
        "$( One $. two. $)\n@@${\n  @@a.1 $e |- ph $.\n  @@a $a |- ph $( in $. it $) $.\n@@$}\n",
        "th1 $p |- ps $= ( a b ) AB $.\n@@$[ other.mm $]\n@@$( Never closed $.",
        "$d x y$.@@$d x z$.",
    ],
    segmenters.Mizar(): [
        "theorem Th1: for x holds P[x]\n@@proof\n  @@let x;\n  @@thus thesis by A1;\n@@end;",
        "let x; :: a; proof\n@@:: b; c\nlet y;@@let z;",
        "A1: now\n  @@let x;\n@@end;\n@@hereby @@assume proofs;\n@@end;",
        "environ vocabularies A;\n@@begin\n@@reserve x for set;",
    ],
    segmenters.Agda(): [
        "module A where\n\n@@open import B\n@@a : B \u2192\n    C\n@@a x = y\n  where\n  @@y = x\n",
        "f =\n  @@begin\n    @@a  \u2261\u27e8 b \u27e9\n    @@c  \u220e\n@@-- d\n{- e -}\ng : H\n",
        "{-# OPTIONS --safe #-}\n@@a with b\n@@... | c = d\n@@... | e\n  @@| f = '\"'\n",
        '@@g = "\\"\nh"'[2:],
        "x = record\n  { a = b\n  ; c = d -- where\n  }\n@@y' = a--b\n  c\n",
    ],
    segmenters.Hol(): [
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
    segmenters.Tptp(): [
        "% a.\nfof(a, axiom, p(1.5) & 'b. (' = \"c).\"). % d.\n@@% e\ninclude('f.ax', [g]).\n"
        "@@/* h. */ cnf(i, plain, j).",
        "fof(a, axiom, ( p .\n@@fof(b, axiom, (q)).\n@@thf(c, type, d: $i > $o).",
    ],
    segmenters.ChainOfThought(): [
        "Step 1: Add two and three. @@We get five.\n@@Step 2: Done. @@Step 3. Check it.",
        "Problem solved. @@We now check it. @@Case closed. @@Step two. Go on. @@Part iv. Next.",
        "1. Assume it. @@Then go on.\n@@2. Stop.\n\n\n@@(c) Fine. @@IV. Finer.",
        "**Step 4:** Multiply. @@Case (b). None.\n@@Therefore x is big! @@So?",
        "x = 2\n@@y = x + 1\r\n@@z\u2028@@end",
        "Dr. Smith proved it, e.g. here, and 2.5 is it. @@Qed",
        "- first\n@@- second\n    @@indented",
        "\n\nProof. Let us see. @@This is proof. @@That too.",
        "We get:\n\\[\nx = 1. \\\\\ny = 2\n\\]\n@@So $x. y$ is. @@Then",
        "We get\n\n$$ a. B $$\n\nwhere $a$ is small. @@Done",
        "By\n\\begin{align*}\na &= b. \\\\\n\nc &= d.\n\\end{align*}\n@@Thus",
        "First\n\\[ a \\]\n@@\\[ b, \\]\n@@\\[ c \\]\nand\n\\[ d \\]. @@Then",
        "It is. @@\\[ a \\]\n@@Hence $$x=1.$$ @@Then $$ y $$ @@Hence so.",
        "Let\n\\[\\begin{cases} a. \\\\\nb \\end{cases}.\\]@@Then, $x = 5.$ @@So $x=\\boxed{5}.$",
        "Open \\[ x = 1\n\n@@Wait, no. @@Go on",
        "Open $$ x\ny\n\n@@Hmm... @@Good",
        "\\begin{align}\na\n\n@@Never closed. @@Good",
        "The roots are $a +\nb$ and \\(c. D\\). @@So\n@@it\n@@goes",
        "He paid $5. @@He has $7 and\n@@$8 more. @@Is $5! = 120$ and $5! > 3$? @@Yes",
        "She earns 9 * 2 = $<<9*2=18>>18 a day\n@@$18 is it.\n@@#### 18",
        "**Step 1:** Add. @@**2.** We get:\n@@**Step 3:**\nDone. @@1. **Find**: it",
        "<think>\n@@Okay. @@Wait, no.\n@@</think>\n\n@@**Answer**\n\n@@\\boxed{5}",
        "<think>@@So it is.</think>@@Done",
        "So:\n\\begin{itemize}\n@@\\item One\n@@\\item Two\n@@\\end{itemize}\n@@Then\n\\boxed{2}",
        "### Step 1. Add. Then\n\n@@| a. B | $x |\n@@|---|---|\n@@```py\n@@'A. B'\n@@```\n@@So.",
        "[asy]\nsize(200);\n\nDraw((0,0)--(1,1));\n[/asy]\n@@Then\n$a=1$\n@@$b=2$\n@@c",
    ],
    segmenters.LaTeXProofs(): [
        "Let $x. Y$ be \\(a. B\\) small. @@$G$ is a group. @@Then",
        "We have\n$$ a = b. $$\n@@Hence \\[ c = d, \\] where $c$ is. @@So",
        "So\n\\[ e \\]\n@@Then\n\\[ f \\]\nso on",
        "By\n\\begin{align*}\na &= b. \\\\\n&= c \\label{eq. A}\n\\end{align*}\n@@Thus",
        "\\begin{theorem}[By A. B. See C] It is.\n\\end{theorem}\n@@Thus",
        "One\n@@\\begin{proof}\nSo. @@Yes. \\end{proof}\n@@Two",
        "A:\n@@\\begin{enumerate}\n@@\\item One. @@Two.\n@@\\item[(a)] Three\n\\end{enumerate}\n",
        "\\section{One {two} three}\n@@Text here\n@@\\subsection*{Four}\\label{x}\nText",
        "It is. % Not so. Or\n@@Is it? @@50\\% of it\nare. % yes",
        "One\n\n@@% Alone. Here.\n\n@@Two",
        "Open $x and\nmore. Math\n\n@@It. @@Goes on",
        "\\begin{verbatim}\n@@a. B $\n@@c\n\\end{verbatim}\n@@Use \\verb|$ a. B| here. @@Good",
        "An \\index{group!Abelian. B} group. @@So",
        "See\n\\begin{tabular}{l}a. B \\\\\n\n C. D\\end{tabular} there. @@Fine",
        "By \\cite[Prop. A]{b}, it is~\\$5. @@Good",
        "a\n\n@@b\r\n\r\n@@c",
    ],
    segmenters.ArithmeticSteps(): [
        *("(1+2)*3 =@@ 3*3 =@@ 9", "1+1=@@2\n@@2*2=@@4\n"),
        *(f"a {sign} b" for sign in ("==", "<=", ">=", "!=", ":=", "===")),
    ],
    segmenters.Metamath(inner=True): [
        "t $p |- a $=\n  @@ab $( c d $) @@ax-mp @@? $.\n@@$( $= a b $)",
        "t $p |- a $= @@( a b ) @@A@@UBZ@@C\n  @@U\n V A@@? $.\n@@$c x $.",
    ],
    segmenters.Mizar(inner=True): ["A1: a = b by C\n  @@.= c :: .= d\n  @@.= e;\n@@x@@.= y;"],
}


# Others of kinds that were reported, of statements of code too.
SIBLINGS = marked_in("siblings.txt")


def named(name):
    return logical(name) if name in LANGUAGES else of_kind(name)


@pytest.mark.parametrize(
    ("segmenter", "marked"),
    [
        *((segmenter, marked) for segmenter, texts in MARKED.items() for marked in texts),
        *((named(name), marked) for name, marked in SIBLINGS),
    ],
)
def test_steps_end_where_marked(segmenter, marked):
    assert pieces(marked.replace("@@", ""), segmenter) == marked.split("@@")


def test_what_is_never_closed_is_given_up_and_counted():
    proof = "Lemma a : b.\nProof. auto. Qed.\n" * 4000
    for opening in ('(* 6" wide.\n', "(* never closed\n", "Elpi Query lp:{{ {\n"):
        with tallied() as rules:
            steps = pieces(opening + proof, segmenters.Coq())
        assert len(steps) > 8000 and max(map(len, steps)) < 33_000
        assert rules[UNCLOSED] == max(map(len, steps)) // 2**15 * 2**15
        assert cure(UNCLOSED)


def test_only_the_next_character_is_read_where_a_terminator_needs_it():
    for name, reads in (("ChainOfThought", 1), ("Coq", 1), ("Metamath", 1), ("Lean", 2)):
        assert getattr(segmenters, name)().lookahead == reads, name
    assert segmenters.Mizar().lookahead == len("proof;")
    assert segmenters.Isabelle().lookahead == len("x" * 41 + ".x")


def test_steps_form_paragraphs_and_sections():
    text = "<think>\nA. B\n\nC\n</think>\n\n## Step 1\nD. E\n\nF\n**Step 2:** G\n"
    steps = segmenters.ChainOfThought()
    assert steps.level_names[1:] == ("paragraph", "section")
    starts = ["".join(piece[0] for piece in pieces(text, steps, level=n)) for n in (1, 2)]
    assert starts == ["<C<#F*", "<<#*"]


LEVELS = {getattr(segmenters, name)(): marked for name, marked in marked_in("proofs.txt")}


@pytest.mark.parametrize("segmenter", LEVELS, ids=repr)
def test_lemmas_and_theories_begin_here(segmenter):
    text = plain(LEVELS[segmenter])
    assert with_marks(text, segmenter.levels(text)[1:]) == LEVELS[segmenter]


# Typed as `samples` says; a segment that starts a turn is one of two levels.
TEMPLATES = [
    "<|im_start|>user\n@@Is it? @@Tell me.<|im_end|>\n@#<|im_start|>assistant\n"
    "@@<think>\n@@Hmm. @@So.\n@@</think>\n@@It is\n\\[ 4. \\]\n<|im_end|>\n",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n@@Hi. @@You?<|eot_id|>"
    "@#<|start_header_id|>assistant<|end_header_id|>\n\n@@Fine. @@Yes.<|eot_id|>",
    "<s>[INST] @@Hi. @@There [/INST] @#Hello. @@You </s>@#<s>[INST] @@So? [/INST] @#Yes </s>",
    "<bos><start_of_turn>user\n@@It. @@So<end_of_turn>\n@#<start_of_turn>model\n@@Yes",
    "<|user|>\n@@Hi.<|end|>\n@#<|assistant|>\n@@Hello. @@Yes<|end|>",
    "<\uff5cbegin\u2581of\u2581sentence\uff5c>Be good@#<\uff5cUser\uff5c>@@Hi. @@Ho"
    "@#<\uff5cAssistant\uff5c>@@Yes. @@No<\uff5cend\u2581of\u2581sentence\uff5c>",
    "User: Hi. @@There.\n@#Assistant: Well:\n@@```py\n@@'A. B'\n@@```\n"
    "@#Human: ok\n\n@#### Response: so. @@Yes",
]
LOGS = [
    "Marissa: Thank you. @@Let us go.\n@#Professor Lee: Yes. @@No, so it is.",
    "[10:15] <joe> hi. @@You\n@#[10:16] <amy> Fine.\n@#10:17 * joe waves. @@Bye",
    "12/31/20, 10:15 PM - Bob: Hi. @@You\n@#12/31/20, 10:16 PM - Amy: Yes",
    "[03.01.2024, 09:10:22] +49 170 12: Hi. @@You\n@#[03.01.2024, 09:11:22] \U0001f431 Cat: Yes",
    "\u0411\u043e\u0431: \u0414\u0430. @@\u041d\u0443 \u0434\u0430.\n"
    "@#\u0410\u043d\u043d\u0430: \u041d\u0435\u0442, \u043d\u0435\u0442.",
]


@pytest.mark.parametrize("marked", TEMPLATES)
@pytest.mark.parametrize("of", [None, segmenters.ChainOfThought()], ids=repr)
def test_turns_of_templates_and_labels(marked, of):
    text = plain(typed(marked))
    assert with_marks(text, segmenters.Turns(of=of).levels(text)) == typed(marked)
    assert segmenters.route(text=text, kind="prose") == "turns"


@pytest.mark.parametrize("marked", LOGS)
def test_turns_of_transcripts_and_logs(marked):
    text = plain(typed(marked))
    assert with_marks(text, segmenters.Turns(names=True).levels(text)) == typed(marked)
    assert segmenters.route(text=(text + "\n") * 3) == "transcript"
