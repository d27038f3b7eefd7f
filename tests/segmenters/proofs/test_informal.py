"""Steps of proofs that people read. In a marked text, '@@' stands where a step ends."""

from itertools import pairwise

import pytest

from segmenters import ArithmeticSteps, ChainOfThought, LaTeXProofs


def check(segmenter, marked):
    pieces = marked.split("@@")
    text = "".join(pieces)
    cuts = segmenter.cut(text).tolist()
    assert [text[start:end] for start, end in pairwise(cuts)] == pieces


@pytest.mark.parametrize(
    "marked",
    [
        "Step 1: Add two and three. @@We get five.\n@@Step 2: Done. @@Step 3. Check it.",
        "1. Assume it. @@Then go on.\n@@2. Stop.\n\n\n@@(c) Fine. @@IV. Finer.",
        "**Step 4:** Multiply. @@Case (b). None.\n@@Therefore x is big! @@So?",
        "x = 2\n@@y = x + 1\r\n@@z\u2028@@end",
        "Dr. Smith proved it, e.g. here, and 2.5 is it. @@Qed",
        "- first\n@@- second\n    @@indented",
        "\n\nProof. Let us see. @@This is proof. @@That too.",
    ],
)
def test_lines_then_sentences_and_labels_stay(marked):
    check(ChainOfThought(), marked)


@pytest.mark.parametrize(
    "marked",
    [
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
)
def test_displays_stay_whole_and_with_their_sentence(marked):
    check(ChainOfThought(), marked)


def test_steps_form_paragraphs_and_sections():
    text = "<think>\nA. B\n\nC\n</think>\n\n## Step 1\nD. E\n\nF\n**Step 2:** G\n"
    names = ChainOfThought().level_names
    levels = dict(zip(names, ChainOfThought().levels(text), strict=True))
    starts = {name: [text[cut : cut + 1] for cut in levels[name][:-1]] for name in names}
    assert starts["section"] == ["<", "<", "#", "*"]
    assert starts["paragraph"] == ["<", "C", "<", "#", "F", "*"]


@pytest.mark.parametrize(
    "marked",
    [
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
)
def test_latex_sentences_items_and_displays(marked):
    check(LaTeXProofs(), marked)


def test_chains_of_thought_read_one_character_ahead():
    assert ChainOfThought().lookahead == 1


@pytest.mark.parametrize(
    "marked",
    ["(1+2)*3 =@@ 3*3 =@@ 9", "1+1=@@2\n@@2*2=@@4\n"]
    + [f"a {sign} b" for sign in ("==", "<=", ">=", "!=", ":=", "===")],
)
def test_an_equality_or_a_line_ends_an_arithmetic_step(marked):
    check(ArithmeticSteps(), marked)
