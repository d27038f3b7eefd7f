"""Texts that a grammar writes: containers in containers, half of them broken.

Lists, quotations, fences, tables, HTML, mathematics, front matter, messages, changes and listings
of all formats, with any line ends and indents. The same seed gives the same texts.
"""

import random

# Lines of all formats, some of which give a meaning to the line above or below; "^" is between two.
_FIRST = r"""One. Two ^ It is so, e.g. here. ^ A word ^ x = f(1, ^   2) ^ }"""
_OTHERS = r"""# A ^ ## B. C ^ === ^ --- ^ *** ^ | a | b | ^ a | b ^ --|-- ^ |--| ^ | c ^ `a. b`
[a]: http://b.c ^ $a. B$ c ^ $$ ^ $ ^ <br> ^ <p>One. Two ^ </p> ^ <b>x</b> ^ <hr/>
<td>a<td>b ^ <!-- a. B --> ^ <!-- ^ --> ^ &nbsp;&lt; ^ < ^ <a href=' ^ "> ^ % ^ // ^ :a: b
.. a:: ^ .. _b: c ^    :d: ^ a:: ^ >>> f() ^ ... ^ +--+--+ ^ :param a: b. ^ Title ^ =====
~~~~~ ^ From: a ^ Subject: b. C ^ From x 1 1999 ^ --  ^ diff --git a b ^ --- a ^ +++ b
@@ -1,2 +1 @@ ^ -a ^ +b ^  c ^ Index: a ^ *** a ^ \section{A} B ^ \item a. B ^ \[ a. \]
\begin{a} ^ \end{a} ^ % a ^ \documentclass{a} ^ \verb|a ^ == A == ^ = A ^ === B ^ * a
** b ^ # c ^ ; d ^ : e ^ :toc: ^ [source,c] ^ .A. B ^ {{a|b}} ^ [[a|b. C]] ^ '''a''' ^ {|
|- ^ ! a ^ |} ^ #REDIRECT [[a]] ^ image::a[] ^ * TODO a ^ #+TITLE: a ^ #+begin_src c
#+end_src ^ :PROPERTIES: ^ :END: ^ - a :: b ^ #let a = 1 ^ #set b( ^ ) ^ = A <a> ^ / a: b
+ c ^ #figure[a. B] ^ $ a. B $ ^ */ ^ .TH a 1 ^ .SH A ^ .PP ^ .B a ^ .IP a 2 ^ .nf ^ .fi
.TP ^ .\" a ^ .Sh A ^ .It ^ ' ^ {"cells": [ ^ {"source": ["a\n", ^ "b"]} ^ ]}"""
_LAST = r"""$x, $y. ^ @x ^ Step 1: a ^ Lemma a : b. ^ Proof. ^ Qed. ^ theorem a ^ $( a $) ^ proof
end; ^ 1+2=3"""


def _several(lines: str) -> list[str]:
    return [each for line in lines.split("\n") for each in line.split(" ^ ")]


LEAVES = (
    *("", "", "", *_several(_FIRST), "\\", "\t", *_several(_OTHERS)),
    *("\ufeff", "\0", "\ud800", "\u2028", "\x0c", *_several(_LAST)),
)
# What stands before the first line inside, and before the others.
CONTAINERS = (
    *((">", ">"), ("> ", "> "), ("> ", ""), ("- ", "  "), ("- ", ""), ("* ", "  ")),
    *(("1. ", "   "), ("10) ", "    "), ("    ", "    "), ("\t", "\t"), ("  ", "  "), (" ", "")),
    *(("| ", "| "), ("1. \n    ", "    "), ("-\n", "\t"), (".. note::\n   ", "   "), ("+ ", "+ ")),
    *(("- ", "- "), (": ", "  "), ("   ", "   "), (":a: ", "  "), ("*", "*"), ("#", "")),
    *(("% ", "% "), ("// ", "// ")),
)
# What opens a block, and what closes it.
BLOCKS = (
    *(("```", "```"), ("```c", "```"), ("~~~", "~~~~"), ("````", "```"), ("---", "---")),
    *(("+++", "+++"), ("$$", "$$"), ("\\[", "\\]"), ("<!--", "-->"), ("<pre>", "</pre>")),
    *(("<div>", "</div>"), ("<p>", "</p>"), ("<script>", "</script>"), ("<ul><li>", "</ul>")),
    *(("<table><tr><td>", "</table>"), ("<style>", "</STYLE >")),
    *(('<pre class="language-c">', "</pre>"), ("\\begin{equation}", "\\end{equation}")),
    *(("\\begin{verbatim}", "\\end{verbatim}"), ("\\begin{proof}", "\\end{proof}"), ("::\n", "")),
    *((".. code:: c\n", ""), ("\\begin{document}", ""), ("----", "----"), ("====", "====")),
    *(("|===", "|==="), ("....", "...."), ("{|", "|}"), ("/*", "*/")),
    *(("#+begin_src c", "#+end_src"), ("#+BEGIN_QUOTE", "#+END_QUOTE"), (":a:", ":end:")),
    *((".nf", ".fi"), ("<nowiki>", "</nowiki>")),
    *(("<syntaxhighlight lang=c>", "</syntaxhighlight>"), ("(*", "*)"), ("print <<A;", "A")),
    *((".Bd", ".Ed"), (".EX", ".EE"), ("#[", "]"), ("{{", "}}"), ("/-", "-/"), ("{", "}")),
    *(('"""', '"""'),),
)
_ENDS = ("\n", "\n", "\n", "\r\n", "\r")
_DEEPEST = 4


def document(seed: int | str) -> str:
    """Return the text of a seed, mostly of fewer than 300 characters."""
    draw = random.Random(seed)
    few = draw.random() < 0.5  # leaves that come back meet each other more often
    leaves = draw.sample(LEAVES, 4) if few else LEAVES
    lines = [line for _ in range(draw.randint(1, 4)) for line in _block(draw, leaves, 0)]
    end = draw.choice(_ENDS)
    mixed = draw.random() < 0.1
    text = "".join(line + (draw.choice(_ENDS) if mixed else end) for line in lines)
    if draw.random() < 0.3:  # breaks off, or lacks something
        start, stop = sorted(draw.randrange(len(text) + 1) for _ in range(2))
        text = text[:start] + text[stop:] if draw.random() < 0.5 else text[: max(start, 1)]
    return text


def _block(draw: random.Random, leaves: tuple[str, ...] | list[str], depth: int) -> list[str]:
    kind = draw.random()
    if kind < 0.4 or depth == _DEEPEST:
        return [draw.choice(leaves) for _ in range(draw.randint(1, 3))]
    inner = [line for _ in range(draw.randint(1, 2)) for line in _block(draw, leaves, depth + 1)]
    if kind < 0.75:
        first, further = draw.choice(CONTAINERS)
        if draw.random() < 0.2:
            further = draw.choice(("", " ", "    ", further[:-1]))
        return [(further if place else first) + line for place, line in enumerate(inner)]
    opening, closing = draw.choice(BLOCKS)
    return [opening, *inner, *([closing] if draw.random() < 0.8 else [])]
