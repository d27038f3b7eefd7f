"""Signs by which kinds of text are known: the patterns that detection.py puts in order.

Add a row for a new kind. The patterns read the first characters of a document; "^" and "$" match at
lines. Each is linear: bounded or possessive repeats, nothing nested.
"""

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

from segmenters.documents.signs import (
    Sign,
    Signs,
    either,
    first_words,
    first_words_in_any_case,
    has,
    holds,
    line_begins,
    sign,
)
from segmenters.places import MARKS, UNSPACED, WORD

_LINES = re.MULTILINE
_ENTRY = r"article|book|booklet|conference|inbook|incollection|inproceedings|manual|misc|online"
_TIME = r"\d{1,3}:\d\d:\d\d[,.]\d{3}[ \t]*-->"
_TABLES = (
    r"(?:OR REPLACE )?(?:TEMP(?:ORARY)? |UNIQUE )?(?:TABLE|VIEW|INDEX|FUNCTION|PROCEDURE|TYPE)"
)
_STATEMENT = (
    rf"CREATE {_TABLES}\b|ALTER TABLE \S|DROP TABLE\b|INSERT INTO \S|DELETE FROM \S"
    r"|SELECT\s[^\n]{1,200}\sFROM\s|UPDATE \S+ SET "
)
_DOCKER = (
    r"\A(?:[ \t]*+(?:#[^\n]*+|ARG [^\n]*+)?\n){0,40}+FROM[ \t]+[\w./:$@{}-]+"
    r"(?:[ \t]+(?i:AS)[ \t]+[\w.-]+)?[ \t]*\r?$"
)
# Theories in ML, and formulas of TPTP, whose suffixes others share.
HOL: Final = re.compile(
    r"^(?:QED|Ancestors|Datatype:)[ \t\r]*$"
    r"|^val _ = (?:new_theory|export_theory)\b|\bstore_thm\s{0,3}\("
    r"|^let [\w']{1,60} = (?:time )?(?:prove\w{0,20}|new_definition|new_axiom|define)\s{0,9}[(`]"
    r"|^(?:needs|loadt) \"[\w/.-]{1,80}\";;",
    _LINES,
)
TPTP: Final = re.compile(
    r"^[ \t]*+(?:(?:fof|cnf|tff|thf|tcf|qmf)\(\s{0,9}[^,()\n]{1,90},\s{0,9}(?:axiom|hypothesis"
    r"|definition|assumption|lemma|theorem|corollary|conjecture|negated_conjecture|plain|type"
    r"|logic|unknown)\b|include\('[^'\n]{1,200}'[^()\n]{0,80}\)\.)",
    _LINES,
)

# Tried from the first on: those that are certain, then, unless it is a solution of a problem, those
# that a solution may hold.
# fmt: off
CERTAIN: Final = (
    sign("template of a conversation", "turns", 1,
        r"\A\s*+(?:<\|(?:im_start|start_header_id|begin_of_text|system|user|assistant)\|>"
        r"|(?:<s> ?)?\[INST\]|(?:<bos>)?<start_of_turn>"
        r"|<\uff5c(?:begin\u2581of\u2581sentence|User)\uff5c>"
        r"|(?:\*\*)?(?:User|USER|Human)(?:\*\*)?:[ \t\n]"
        r"(?=(?:[^\n]*+\n)*?\**(?:Assistant|ASSISTANT|AI|Bot)\b))"),
    # Debian's machine-readable copyright format 1.0, and what older packages begin with.
    sign("Debian copyright file", "prose", 1,
        r"\A\s*+(?:Format(?:-Specification)?:[^\n]{0,200}"
        r"(?:copyright-format|/dep5?\b|CopyrightFormat)"
        r"|This (?:package was (?:originally )?(?:debianized|put together)|is (?:the )?Debian\b))"),
    sign("copyright of files", "prose", 1,
        r"^Files:[^\n]*+\n(?:[ \t]++\S[^\n]*+\n){0,99}+Copyright:",
        first_words("Files")),
    sign("notebook", "notebook", 1, r'\A\s*\{\s*"(?:cells|nbformat|metadata)"\s*:'),
    sign("diff", "lines", 1,
        r"\A(?:.*\n){0,60}?(?:diff --git a|Index: \S+\n===|--- \S.*\n\+\+\+ \S)",
        first_words("diff Index ---")),
    sign("context diff", "lines", 1, r"\A\*\*\* \S[^\n]*\n--- \S"),
    sign("headers of a message", "markup", 1,
        r"(?i)\A\s*(?:From \S[^\n]*\n)?"
        r"(?:[A-Za-z][A-Za-z0-9-]*:(?:[ \t][^\n]*)?\n(?:[ \t]+\S[^\n]*\n)*)*?"
        r"(?:Message-ID|Received|Subject|From|Metadata-Version|MIME-Version):[ \t][^\n]*\n"
        r"(?:[ \t]+\S[^\n]*\n)*[A-Za-z][A-Za-z0-9-]*:"),
    sign("JSON or XML", "code", 1,
        r"(?i)\A\s*+(?:\{\s*+\"[^\"\n]{1,200}\"\s*+:|\[\s*+(?:[\[{]|\"[^\"\n]{0,200}\"\s*+[],])"
        r"|<\?xml(?![^>]*>\s*<(?:!doctype )?html)|<(?!html)[A-Za-z][\w:.-]*\s+xmlns"
        r"|<(?:project|svg|configuration|plist)\b)"),
    sign("HTML document", "html", 1,
        r"(?i)\A\s*+(?:<\?xml[^<>]*+>\s*+)?(?:<!--[^>]*+>\s*+)?<(?:!doctype html|html\b)"),
    sign("SubRip", "lines", 1, rf"\A\ufeff?\s*+\d+[ \t]*\r?\n{_TIME}"),
    sign("WebVTT", "lines", 1, r"\A\ufeff?WEBVTT\b"),
    sign("Advanced SubStation", "lines", 1, r"\A\ufeff?\[Script Info\]"),
    sign("gettext catalogue", "lines", 3,
        r"^(?:#~ )?msg(?:id|str) \"",
        first_words("msgid msgstr #~")),
    sign("BibTeX file", "lines", 1,
        rf"(?i)\A(?:[ \t]*+(?:%[^\n]*+)?\r?\n){{0,40}}+@(?:{_ENTRY}|string|comment)\s*\{{"),
    sign("BibTeX entries", "lines", 2,
        rf"(?i)^@(?:{_ENTRY}|(?:phd|master)sthesis|techreport)\s*\{{[^\s,]+,[ \t\r]*$",
        has("@")),
    sign("iCalendar", "lines", 1, r"\A\s*+BEGIN:VCALENDAR\b"),
    sign("vCard", "lines", 1, r"\A\s*+BEGIN:VCARD\b"),
    sign("LDIF", "lines", 1, r"\A(?:(?:#[^\n]*+|version: 1)?\r?\n){0,40}+dn::? \S"),
    sign("git log", "lines", 1, r"\Acommit [0-9a-f]{40}\b[^\n]*\n(?:Merge:|Author:|tree )"),
    sign("Dockerfile", "lines", 1, _DOCKER),
    sign("Gherkin", "lines", 1, r"\A(?:[ \t\r]*+(?:[#@][^\n]*+)?\n){0,40}+[ \t]*Feature:[ \t]"),
    sign("GenBank", "lines", 1, r"\ALOCUS {2,}\S"),
    sign("FASTA", "lines", 1, r"\A>\S[^\n]*\n[A-Za-z*-]{20,}\r?\n[A-Za-z*>-]"),
    sign("SQL", "lines", 2,
        rf"(?i)^(?:{_STATEMENT})",
        first_words_in_any_case("CREATE ALTER DROP INSERT DELETE SELECT UPDATE")),
    sign("LaTeX document", "latex", 1,
        r"^[ \t]*+\\document(?:class|style)|^[ \t]*+\\begin\{document\}",
        has("\\")),
    sign("TPTP", "tptp", 1, TPTP.pattern, first_words("fof cnf tff thf tcf qmf include")),
    sign("Agda", "agda", 1, r"^open import [A-Z]|^\{-# OPTIONS --", first_words("open {-#")),
    sign("Isabelle theory", "isabelle", 1,
        r"^theory\s+[\w\"']+\s+imports\b|\\<(?:open|Rightarrow)>",
        either(first_words("theory"), holds("\\<"))),
    sign("Metamath comment", "metamath", 1, r"\A\s*+\$\(\s(?:[^$]|\$(?!\)))*+\$\)\s"),
    # After a line end or another statement: "the sum $a + b $." in a solution is none.
    sign("Metamath", "metamath", 2,
        r"(?:^|\$[.}{)])[ \t]*+\s?[ \t]*+(?:[\w.-]{1,60}[ \t]+\$[aefp]|\$[cvd])\s"
        r"[^$]{1,400}?\s\$[.=](?!\S)",
        has("$")),
)
PROOFS: Final = (
    sign("HOL", "hol", 2,
        HOL.pattern,
        either(first_words("QED Ancestors Datatype val let needs loadt"), holds("store_thm"))),
    sign("Mizar", "mizar", 1, r"^[ \t]*+environ[ \t\r]*$", first_words("environ")),
    sign("Lean", "lean", 1,
        r"^/-!\s|^(?:public )?(?:meta )?import (?:Mathlib|Lean|Std|Batteries|Aesop)\b"
        r"|:= by[ \t]*$",
        either(first_words("/-! import public meta"), holds(":= by"))),
    sign("Coq", "coq", 1,
        r"^[ \t]*+(?:(?:From [\w.]+ )?Require (?:Import|Export)\b[^\n]*\.|Qed\."
        r"|Proof\.(?: [a-z][^\n]{0,200}\. (?:Qed|Defined)\.)?)[ \t\r]*$",
        first_words("From Require Qed Proof")),
    sign("Coq definitions", "coq", 2,
        r"^[ \t]*+(?:Definition|Inductive|Fixpoint|Notation|Ltac)\b.*:=",
        first_words("Definition Inductive Fixpoint Notation Ltac")),
    sign("manual page", "markup", 3,
        r"^[.'](?:TH|SH|SS|PP|LP|TP|IP|RS|RE|B|I|BR|IR|RB|nf|fi|br|sp|de|Dd|Dt|Os|Sh|Ss|Nm|Nd"
        r"|Pp|It|Bl|El|Bd|Ed|Fl|Ar|Op|Xr|so|\\\")(?:[ \t\r]|$)",
        line_begins(".'")),
    sign("Isabelle", "isabelle", 2,
        r"^[ \t]*+(?:proof \(|by \(|qed[ \t\r]*$|lemma \w+: \")",
        first_words("proof by qed lemma")),
    sign("LaTeX", "latex", 2,
        r"\\(?:begin|end)\{(?:proof|theorem|lemma|equation|align|section)\*?\}",
        has("\\")),
)
# Signs that also occur in the strings and comments of code.
FENCES: Final = sign("fences", "markdown", 2, r"^ {0,3}(?:```|~~~)", has("`~"))
COMMANDS: Final = sign(
    "LaTeX commands", "latex", 8, r"\\(?<![\\\w]\\)[A-Za-z]{3,20}\*?\{[^{}\\\n]{1,80}\}", has("\\")
)
TAGS: Final = sign("tags", "html", 4, r"(?i)</(?:p|div|li|td|tr|span|a|h[1-6])>", holds("</"))
# What begins a fragment of HTML, such as a post, and ends it.
BLOCK_TAG: Final = re.compile(
    r"(?i)\s*+<(?:p|div|[uod]l|table|section|article|blockquote|h[1-6])(?:\s[^<>]{0,400})?>"
)
CLOSING_TAG: Final = re.compile(r"</[a-z]\w{0,20}>\s*\Z")
CHAINS: Final = (
    sign("chain of equations", "arithmetic", 3,
        r"^(?=[^\n]{0,40}\d)[\d()+*/. -]++=[\d()+*/=. -]++$",
        has("=")),
    sign("numbered steps", "chain_of_thought", 2, r"^[*# \t]*+Step \d+", holds("Step ")),
)
# fmt: on
ALL: Final = Signs(*CERTAIN, *PROOFS, FENCES, COMMANDS, TAGS, *CHAINS)
# "ANN: Then we ...", "[10:15] <ann> then": a name, and words in small letters. Behind a time, names
# may also be numbers of telephones and begin with emoji; small letters of ASCII are levels of logs.
SAID: Final = re.compile(
    rf"^(?:(?P<name>[^\W\d_a-z][{WORD}.'-]{{0,20}}(?: [^\W\d_a-z][{WORD}.'-]{{0,20}}){{0,3}})"
    rf"(?::[ \t]|\uff1a)"
    # Behind the first such letters: what no space follows there, none follows later.
    rf"(?=(?>[^\n]*?[^\W\d_A-Z](?:[^\W\d_A-Z]|[{MARKS}]))[^\n]* |[^\n]*[{UNSPACED}]{{2}})"
    r"|\[?(?:\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4},?[ T])?\d{1,2}:\d\d(?::\d\d)?(?: ?[AP]M)?\]?(?: -)?"
    r"[ \t]{1,4}(?P<nick><[^>\n]{1,30}>|\*|(?:[A-Z]|\+\d|[^\0-\x7f])[^\n:<>=\[\]{}]{0,30}:))",
    _LINES,
)
# Solutions of problems in mathematics: what only they hold, formulas, and what only papers hold.
SOLUTION: Final = re.compile(
    r"\\boxed\b|\[asy\]|^</?think>"
    r"|<<[\d .,*/+()%-]{1,80}=[^<>\n]{1,40}>>|^#{4} \$?-?[\d,.]+%?[ \t]*\Z"
    r"|^(?:\*\*)?Final Answer\b",
    _LINES,
)
# Without one of these and of "\\" and "$", no text is a solution.
OF_SOLUTIONS: Final = ("[asy]", "think>", "<<", "####", "Final Answer")

# A text that reasons ends with its answer, or at least concludes; its lines and sentences before
# that begin as steps do, compute, or tell what changes. Their words are in chains.txt.


def _words() -> dict[str, tuple[str, ...]]:
    """Return the words of each section."""
    words: defaultdict[str, list[str]] = defaultdict(list)
    section = ""
    for line in Path(__file__).with_name("chains.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and line[0] != "#":
            words[section] += (word.replace("_", " ") for word in line.split()[1:])
    return {section: tuple(dict.fromkeys(found)) for section, found in words.items()}


_WORDS = _words()
_ANSWER, _BEING, _CONCLUSION, _STEP, _JOINED_CONCLUSION, _JOINED_STEP = (
    "|".join(_WORDS[section])
    for section in (
        *("answer", "being", "conclusion", "step"),
        *("unspaced_conclusion", "unspaced_step"),
    )
)
# One of these is in each answer, and begins each conclusion, in small letters.
OF_ANSWERS: Final = (*_WORDS["answer"], "a:", "\u7b54", "\ub2f5")
CONCLUDING: Final = (*_WORDS["conclusion"], *_WORDS["unspaced_conclusion"])
# The same for lines of ASCII, which are most: no word that holds another, and first words.
OF_ASCII_ANSWERS: Final = tuple(
    word
    for word in OF_ANSWERS
    if word.isascii() and not any(other in word and other != word for other in OF_ANSWERS)
)
FIRST_OF_CONCLUSIONS: Final = frozenset(words.split()[0] for words in CONCLUDING)
LONGEST_ANSWER: Final = 300
ANSWER: Final = re.compile(
    rf"(?i)(?:\b(?:{_ANSWER})\b[^.\n]{{0,60}}?(?:\b(?:{_BEING})\b|[=:\u2014]|(?= \d))"
    r"|\u7b54(?:\u6848|\u3048)[^\n\u3002]{0,20}?[\u662f\u4e3a\u306f:\uff1a]|\ub2f5\uc740"
    r"|^A(?:nswer)?:)[^\n]{1,80}\s*\Z",
    _LINES,
)
CONCLUSION: Final = re.compile(
    rf"(?i)^[ \t]*+(?:(?:{_CONCLUSION})[, ]|{_JOINED_CONCLUSION})[^\n]{{1,160}}\s*\Z", _LINES
)
STEP: Final = re.compile(
    r"(?:^[ \t]*+(?:[-*>][ \t]+|\(?\d{1,2}[.):][ \t]+)?|[.!?:][ \t]+|(?<=\u3002))"
    rf"(?:(?i:{_STEP}|let \w be)\b|{_JOINED_STEP}|{_JOINED_CONCLUSION}"
    r"|[(\[]*+[-\w.,^]{1,20}(?:\([\w, ]{1,20}\))?[)\]]*+[ \t]*"
    r"(?:[-+*/\u00d7\u00f7x][ \t]*[(\[]*\w|=)|=[ \t]*\S)"
    r"|^[ \t]*+[\w ]{1,20}[:=] ?[\w ]{1,20}, [\w ]{1,20}[:=]"
    r"|\b(?:now|swaps?|swapped|trades?|exchange[ds]?|moves|gives|takes|puts|becomes|we get|we have"
    r"|which (?:is|gives|makes|equals))\b",
    _LINES,
)
# What is computed within a line is a step, too.
COMPUTED: Final = re.compile(
    r"\d[)%]?[ \t]*[-+*/\u00d7\u00f7x][ \t]*[($]*\d[\d.,]*[)%]?[ \t]*=[ \t]*[($]*-?\d"
)
SENTENCE_END: Final = re.compile(r"[.!?](?= +\S)")
FORMULA: Final = re.compile(
    r"(?:^|[\s(*:])\\[\[(](?=[\s\w\\({|<>+-])|(?:^|\s)\$\$(?!\$)"
    r"|\\(?:d?frac|sqrt|cdot|times|leq?|geq?|text|sum|angle|pi)(?![A-Za-z])"
    r"|(?<![^\s(\[*:-])\$(?![\d,.]+[\s$]|\{)[^$\n]{1,120}\$(?![\w$(/{])",
    _LINES,
)
OF_DISPLAYS: Final = ("\\[", "$$", "[asy]", "\\begin{", "```")  # one of them is in each
# None holds the start of another of its kind, so that no text is read again from each start.
DISPLAY: Final = re.compile(
    r"\\\[(?<!\\\\\[)(?:[^\\]|\\\\(?!\])|\\(?![\[\]])){0,3000}+\\\]"
    r"|\$\$[^$]{1,3000}+\$\$|\[asy\][^\[]{0,5000}+\[/asy\]"
    r"|^\\begin\{(align|gather|equation|cases|array)(\*?)\}"
    r"(?:[^$\\]|\\(?!(?:begin|end)\{\1\2\})){0,3000}+\\end\{\1\2\}"
    r"|^```[^`]{0,5000}+```",
    _LINES,
)
PAPER: Final = re.compile(
    r"\\(?:(?:sub)*section|chapter|cite[a-z]?|label|(?:eq)?ref|usepackage|newcommand|maketitle|input"
    r"|begin\{(?:theorem|lemma|proof|proposition|definition|abstract|document|corollary|remark))\b"
)

# Points of the formats of running text, and their signs; each counts up to three times.
# fmt: off
FORMATS: Final[dict[str, tuple[tuple[int, Sign], ...]]] = {
    "markdown": (
        (2, sign("markdown", "markdown", 1,
                r"(?:\A|(?<=\n)[ \t]*\r?\n)#{1,6} \S[^\n]*\n(?!#(?!#))",
                has("#"))),
        (2, sign("markdown", "markdown", 1, r"^\[[^\]\n]{1,80}\]: \S", holds("]:"))),
        (2, sign("markdown", "markdown", 1, r"\[[^\]\n]{1,80}\]\([^)\s]|!\[", holds("](", "!["))),
        (2, sign("markdown", "markdown", 1, r"^ {0,3}(?:```|~~~)", has("`~"))),
        (1, sign("markdown", "markdown", 1,
                r"\*\*(?<![\w*]\*\*)[^\s*][^*\n]{0,80}\*\*(?![\w*])|`(?<!``)[^`\n]{1,60}`(?![`_])",
                either(holds("**"), has("`")))),
        (4, sign("markdown", "markdown", 1,
                r"^\|?[ \t]*:?-{3,}:?[ \t]*\|[-:| \t]*$|\A---[ \t]*\n(?=[\w-]{1,40}:)",
                either(has("|"), first_words("---")))),
        (1, sign("markdown", "markdown", 1,
                r"^[^\s=-][^\n]{1,80}\n(?:={3,80}|-{3,80})[ \t\r]*$|^#{1,6} \w",
                either(has("#"), first_words("=== ==== --- ----")),
            ),
        )),
    "rst": (
        (3, sign("rst", "rst", 1,
                r"^[ \t]*+\.\. (?:[\w:-]{1,40}::|_[^\n:]{1,80}:|\[[\w#*]{1,20}\]|\|[^|\n]{1,40}\|)",
                first_words(".."))),
        (2, sign("rst", "rst", 1, r"``(?<!```)(?:[^`'\n]|'(?!')){1,80}+``(?!`)", holds("``"))),
        (1, sign("rst", "rst", 1, r"::[ \t]*\r?\n[ \t]*\r?\n[ \t]", holds("::"))),
        (3, sign("rst", "rst", 1,
                r":[a-z:]{2,20}:`[^`\n]{1,80}`|`[^`\n]{1,120}>`_",
                holds(":`", ">`_"))),
        (1, sign("rst", "rst", 1,
                r"^[^\s][^\n]{1,80}\n([=~^\"*+#.'-])\1{3,80}[ \t]*$",
                first_words("==== ~~~~ ^^^^ \"\"\"\" **** ++++ #### .... '''' ----"),
            ),
        )),
}

# fmt: on
POINTS: Final = Signs(*(row for rows in FORMATS.values() for _, row in rows))
# What begins a block of reStructuredText at the left edge; docstrings of code have it too.
DIRECTIVE: Final = re.compile(r"(?:\A|(?<=\n)[ \t]*\r?\n)\.\. [a-z][\w:-]{1,40}::(?=[ \t\r\n]|\Z)")

# A text without what signs, points and solutions are searched for, unless they read first words.
# The last of the characters are taken for letters of ASCII in any case.
_PLAIN = r"[^\\$=@`~#|<>{}*S:\[\]!_\u0130\u0131\u017f]*+"
WITHOUT_SIGNS: Final = re.compile(
    rf"{_PLAIN}(?:(?:S(?!tep )|:(?!:)|\](?![:(])|!(?!\[)|\[(?!asy)|_(?!thm)){_PLAIN})*+"
)
FIRST_OF_LINE: Final = re.compile(r"[ \t]*+(?![./'])([A-Za-z]++|[^\sA-Za-z]{1,4}+)?+(?![^\n]*\n)")
# In capitals: words of signs, and of signs at the start of a text.
READ_FIRST: Final = frozenset(
    word.upper() for needs in (ALL.needs, POINTS.needs) for word in (*needs.words, *needs.capitals)
)
AT_START: Final = frozenset(
    ("USER", "HUMAN", "FORMAT", "THIS", "WEBVTT", "BEGIN", "DN", "FROM", "FEATURE", "LOCUS")
)
_MONTHS = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_DAYS = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_CLOCK = r"\d{1,2}:\d{2}:\d{2}"
_DATE = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
    rf"|\d{{1,2}}[-/ ]{_MONTHS}[-/ ]\d{{2,4}}|{_MONTHS}[ ]{{1,2}}\d{{1,2}},?(?:[ ]\d{{4}})?)"
)
_STAMPS = "|".join(
    (
        rf"{_DATE}(?:T|[ ]{{1,2}}|[:,\-][ ]?|[ ]at[ ]){_CLOCK}",
        rf"{_DAYS}[ ,]{{1,2}}{_MONTHS}[ ]{{1,2}}\d{{1,2}}[ ](?:\d{{4}}[ ])?{_CLOCK}",
        rf"{_DAYS},[ ]\d{{1,2}}[ ]{_MONTHS}[ ]\d{{4}}[ ]{_CLOCK}",
        r"\d{8}[-T ]\d{2}:?\d{2}:?\d{2}(?!\d)",
        rf"\d{{2}}[-.]\d{{2}}[ ]{_CLOCK}",
        rf"{_CLOCK}(?:[.,:]\d{{1,9}})?(?=[\s\]|)>,-])",
        r"[IWEF]\d{4}[ ]\d{2}:\d{2}",
        r"\[[ ]{0,9}\d{1,9}\.\d{3,9}\]",
        r"1\d{9}(?:\.\d{1,9}|\d{3})?(?=[\s\]|,])",
        r"\d{6}[ ]\d{6}[ ]\d{1,9}[ ]",
    )
)
# An address, a host, a level, a priority, a thread: what may be in front of a time.
_FRONT = r"(?:[\[(<\"']{0,2}+[\w.:/@%#*+-]{1,60}+[\])>\"',;|]{0,2}+[ \t|]{1,3}+)"
# A line of a log: it begins with a time, behind a few words at most.
STAMPED: Final = re.compile(
    rf"[\[(<\"'|]{{0,2}}(?:{_STAMPS})|{_FRONT}{{1,5}}?[\[(\"]?(?:{_STAMPS})"
)
LATEX: Final = re.compile(
    r"\\(?:documentclass|documentstyle|section\*?\{|maketitle|begin\{(?:abstract|document|figure|"
    r"equation|theorem|itemize|table)\*?\})"
)
PANDOC: Final = re.compile(
    r"\A\s*---\n(?:abstract|address|author|bibliography|title):|\{#|reference-type=|\[@"
    r"|^#{1,6} \w|^[=-]{4,}[ \t]*$",
    _LINES,
)
