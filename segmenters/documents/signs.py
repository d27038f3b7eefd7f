"""Signs by which kinds of text are known: the tables of `looks`.

Add a row for a new kind. The patterns read the first characters of a document; "^" and "$" match at
lines. Each is linear: bounded or possessive repeats, nothing nested.
"""

import re
from typing import Final

from segmenters.places import MARKS, UNSPACED, WORD

_LINES = re.MULTILINE


def table(*rows: str) -> tuple[tuple[str, int, re.Pattern[str]], ...]:
    """Read rows of a kind, a number and a pattern."""
    split = (row.split(" ", 2) for row in rows)
    return tuple((kind, int(number), re.compile(sign, _LINES)) for kind, number, sign in split)


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

# A kind, how often its sign must occur at least, and the sign; tried from the first on.
SIGNS: Final = table(
    # Templates of conversations, or labels of both sides of one.
    r"turns 1 \A\s*+(?:<\|(?:im_start|start_header_id|begin_of_text|system|user|assistant)\|>"
    r"|(?:<s> ?)?\[INST\]|(?:<bos>)?<start_of_turn>"
    r"|<\uff5c(?:begin\u2581of\u2581sentence|User)\uff5c>"
    r"|(?:\*\*)?(?:User|USER|Human)(?:\*\*)?:[ \t\n]"
    r"(?=(?:[^\n]*+\n)*?\**(?:Assistant|ASSISTANT|AI|Bot)\b))",
    # Debian's machine-readable copyright format 1.0, and what older packages begin with.
    r"prose 1 \A\s*+(?:Format(?:-Specification)?:[^\n]{0,200}"
    r"(?:copyright-format|/dep5?\b|CopyrightFormat)"
    r"|This (?:package was (?:originally )?(?:debianized|put together)|is (?:the )?Debian\b))"
    r"|^Files:[^\n]*+\n(?:[ \t]++\S[^\n]*+\n){0,99}+Copyright:",
    r'notebook 1 \A\s*\{\s*"(?:cells|nbformat|metadata)"\s*:',
    r"diff 1 \A(?:.*\n){0,60}?(?:diff --git a|Index: \S+\n===|--- \S.*\n\+\+\+ \S)",
    r"diff 1 \A\*\*\* \S[^\n]*\n--- \S",
    r"email 1 (?i)\A\s*(?:From \S[^\n]*\n)?"
    r"(?:[A-Za-z][A-Za-z0-9-]*:(?:[ \t][^\n]*)?\n(?:[ \t]+\S[^\n]*\n)*)*?"
    r"(?:Message-ID|Received|Subject|From|Metadata-Version|MIME-Version):[ \t][^\n]*\n"
    r"(?:[ \t]+\S[^\n]*\n)*[A-Za-z][A-Za-z0-9-]*:",
    r"code 1 (?i)\A\s*+(?:\{\s*+\"[^\"\n]{1,200}\"\s*+:|\[\s*+(?:[\[{]|\"[^\"\n]{0,200}\"\s*+[],])"
    r"|<\?xml(?![^>]*>\s*<(?:!doctype )?html)|<(?!html)[A-Za-z][\w:.-]*\s+xmlns"
    r"|<(?:project|svg|configuration|plist)\b)",
    r"html 1 (?i)\A\s*+(?:<\?xml[^<>]*+>\s*+)?(?:<!--[^>]*+>\s*+)?<(?:!doctype html|html\b)",
    rf"srt 1 \A\ufeff?\s*+\d+[ \t]*\r?\n{_TIME}",
    r"vtt 1 \A\ufeff?WEBVTT\b",
    r"ass 1 \A\ufeff?\[Script Info\]",
    r"po 3 ^(?:#~ )?msg(?:id|str) \"",
    rf"bibtex 1 (?i)\A(?:[ \t]*+(?:%[^\n]*+)?\r?\n){{0,40}}+@(?:{_ENTRY}|string|comment)\s*\{{",
    rf"bibtex 2 (?i)^@(?:{_ENTRY}|(?:phd|master)sthesis|techreport)\s*\{{[^\s,]+,[ \t\r]*$",
    r"ics 1 \A\s*+BEGIN:VCALENDAR\b",
    r"vcard 1 \A\s*+BEGIN:VCARD\b",
    r"ldif 1 \A(?:(?:#[^\n]*+|version: 1)?\r?\n){0,40}+dn::? \S",
    r"gitlog 1 \Acommit [0-9a-f]{40}\b[^\n]*\n(?:Merge:|Author:|tree )",
    f"dockerfile 1 {_DOCKER}",
    r"gherkin 1 \A(?:[ \t\r]*+(?:[#@][^\n]*+)?\n){0,40}+[ \t]*Feature:[ \t]",
    r"genbank 1 \ALOCUS {2,}\S",
    r"fasta 1 \A>\S[^\n]*\n[A-Za-z*-]{20,}\r?\n[A-Za-z*>-]",
    rf"sql 2 (?i)^(?:{_STATEMENT})",
    r"latex 1 ^[ \t]*+\\document(?:class|style)|^[ \t]*+\\begin\{document\}",
    f"tptp 1 {TPTP.pattern}",
    r"agda 1 ^open import [A-Z]|^\{-# OPTIONS --",
    r"isabelle 1 ^theory\s+[\w\"']+\s+imports\b|\\<(?:open|Rightarrow)>",
    r"metamath 1 \A\s*+\$\(\s(?:[^$]|\$(?!\)))*+\$\)\s",
    # After a line end or another statement: "the sum $a + b $." in a solution is none.
    r"metamath 2 (?:^|\$[.}{)])[ \t]*+\s?[ \t]*+(?:[\w.-]{1,60}[ \t]+\$[aefp]|\$[cvd])\s"
    r"[^$]{1,400}?\s\$[.=](?!\S)",
    f"hol 2 {HOL.pattern}",
    r"mizar 1 ^[ \t]*+environ[ \t\r]*$",
    r"lean 1 ^/-!\s|^(?:public )?(?:meta )?import (?:Mathlib|Lean|Std|Batteries|Aesop)\b"
    r"|:= by[ \t]*$",
    r"coq 1 ^[ \t]*+(?:(?:From [\w.]+ )?Require (?:Import|Export)\b[^\n]*\.|Qed\."
    r"|Proof\.(?: [a-z][^\n]{0,200}\. (?:Qed|Defined)\.)?)[ \t\r]*$",
    r"coq 2 ^[ \t]*+(?:Definition|Inductive|Fixpoint|Notation|Ltac)\b.*:=",
    r"man 3 ^[.'](?:TH|SH|SS|PP|LP|TP|IP|RS|RE|B|I|BR|IR|RB|nf|fi|br|sp|de|Dd|Dt|Os|Sh|Ss|Nm|Nd|Pp"
    r"|It|Bl|El|Bd|Ed|Fl|Ar|Op|Xr|so|\\\")(?:[ \t\r]|$)",
    r"isabelle 2 ^[ \t]*+(?:proof \(|by \(|qed[ \t\r]*$|lemma \w+: \")",
    r"latex 2 \\(?:begin|end)\{(?:proof|theorem|lemma|equation|align|section)\*?\}",
    r"markdown 2 ^ {0,3}(?:```|~~~)",
    r"latex 8 (?<![\\\w])\\[A-Za-z]{3,20}\*?\{[^{}\\\n]{1,80}\}",
    r"html 4 (?i)</(?:p|div|li|td|tr|span|a|h[1-6])>",
    r"arithmetic 3 ^(?=[^\n]{0,40}\d)[\d()+*/. -]++=[\d()+*/=. -]++$",
    r"chain_of_thought 2 ^[*# \t]*+Step \d+",
)
# Kinds whose signs also occur in the strings and comments of code.
UNLIKE_CODE: Final = frozenset(("chain_of_thought", "markdown", "html"))
# "ANN: Then we ...", "[10:15] <ann> then": a name, and words in small letters. Behind a time, names
# may also be numbers of telephones and begin with emoji; small letters of ASCII are levels of logs.
SAID: Final = re.compile(
    rf"^(?:(?P<name>[^\W\d_a-z][{WORD}.'-]{{0,20}}(?: [^\W\d_a-z][{WORD}.'-]{{0,20}}){{0,3}})"
    rf"(?::[ \t]|\uff1a)"
    rf"(?=[^\n]*[^\W\d_A-Z](?:[^\W\d_A-Z]|[{MARKS}])[^\n]* |[^\n]*[{UNSPACED}]{{2}})"
    r"|\[?(?:\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4},?[ T])?\d{1,2}:\d\d(?::\d\d)?(?: ?[AP]M)?\]?(?: -)?"
    r"[ \t]{1,4}(?P<nick><[^>\n]{1,30}>|\*|(?:[A-Z]|\+\d|[^\0-\x7f])[^\n:<>=\[\]{}]{0,30}:))",
    _LINES,
)
# Kinds whose repeated signs are asked for before solutions, which hold those of others.
BEFORE_SOLUTIONS: Final = frozenset(("bibtex", "po", "sql", "metamath"))
# Solutions of problems in mathematics: what only they hold, formulas, and what only papers hold.
SOLUTION: Final = re.compile(
    r"\\boxed\b|\[asy\]|^</?think>"
    r"|<<[\d .,*/+()%-]{1,80}=[^<>\n]{1,40}>>|^#{4} \$?-?[\d,.]+%?[ \t]*\Z"
    r"|^(?:\*\*)?Final Answer\b",
    _LINES,
)
FORMULA: Final = re.compile(
    r"(?:^|[\s(*:])\\[\[(](?=[\s\w\\({|<>+-])|(?:^|\s)\$\$(?!\$)"
    r"|\\(?:d?frac|sqrt|cdot|times|leq?|geq?|text|sum|angle|pi)(?![A-Za-z])"
    r"|(?<![^\s(\[*:-])\$(?![\d,.]+[\s$]|\{)[^$\n]{1,120}\$(?![\w$(/{])",
    _LINES,
)
DISPLAY: Final = re.compile(
    r"\\\[(?:[^\\]|\\(?!\])){0,3000}+\\\]|\$\$[^$]{1,3000}+\$\$|\[asy\][^\[]{0,5000}+\[/asy\]"
    r"|^\\begin\{(align|gather|equation|cases|array)(\*?)\}[^$]{0,3000}?\\end\{\1\2\}"
    r"|^```[^`]{0,5000}+```",
    _LINES,
)
PAPER: Final = re.compile(
    r"\\(?:(?:sub)*section|chapter|cite[a-z]?|label|(?:eq)?ref|usepackage|newcommand|maketitle|input"
    r"|begin\{(?:theorem|lemma|proof|proposition|definition|abstract|document|corollary|remark))\b"
)

# Signs of the formats of running text; each counts up to three times its weight.
FORMATS: Final = table(
    r"markdown 2 (?:\A|(?<=\n)[ \t]*\r?\n)#{1,6} \S[^\n]*\n(?!#(?!#))",
    r"markdown 2 ^\[[^\]\n]{1,80}\]: \S",
    r"markdown 2 \[[^\]\n]{1,80}\]\([^)\s]|!\[",
    r"markdown 2 ^ {0,3}(?:```|~~~)",
    r"markdown 1 (?<![\w*])\*\*[^\s*][^*\n]{0,80}\*\*(?![\w*])|(?<!`)`[^`\n]{1,60}`(?![`_])",
    r"markdown 4 \A---[ \t]*\n(?=[\w-]{1,40}:)|^\|?[ \t]*:?-{3,}:?[ \t]*\|[-:| \t]*$",
    r"markdown 1 ^[^\s=-][^\n]{1,80}\n(?:={3,80}|-{3,80})[ \t\r]*$|^#{1,6} \w",
    r"rst 3 ^[ \t]*+\.\. (?:[\w:-]{1,40}::|_[^\n:]{1,80}:|\[[\w#*]{1,20}\]|\|[^|\n]{1,40}\|)",
    r"rst 2 (?<!`)``(?:[^`'\n]|'(?!')){1,80}+``(?!`)",
    r"rst 1 ::[ \t]*\r?\n[ \t]*\r?\n[ \t]",
    r"rst 3 :[a-z:]{2,20}:`[^`\n]{1,80}`|`[^`\n]{1,120}>`_",
    r"rst 1 ^[^\s][^\n]{1,80}\n([=~^\"*+#.'-])\1{3,80}[ \t]*$",
    r"asciidoc 2 (?:\A|(?<=\n)\r?\n)={1,6} \S[^\n=]*[^\s=]\s*$",
    r"asciidoc 3 ^:[a-z][\w-]{2,30}:(?:[ \t][^`\n]*)?$|^\[(?:source|NOTE|TIP|quote|verse|\[)",
    r"asciidoc 3 ^\|===|^(?:include|image|toc)::|<<[\w-]{2,40}(?:,[^>\n]{0,80})?>>|\blink:\S+\[",
    r"asciidoc 3 https?://[^\s\[\]]{1,200}\[[^\]\n]{1,80}\](?!\()|^(?:NOTE|TIP|WARNING): "
    # Else a block of reStructuredText, which has a blank line below it.
    r"|^[^\s#>|*:/][^\n:]{0,60}::+[ \t]*\r?\n[ \t]*[^\s:]",
    r"asciidoc 2 ^\+[ \t]*\r?$|(?<![\w/.])[a-z]{3,12}:[\w.-]{1,40}\[[^\]\n]{0,40}\](?![(\[])",
    r"asciidoc 1 ^[^\s][^\n]{1,60}\n[~^-]{4,80}\r?$|^(?:----|\.\.\.\.|====)\r?$",
    r"mediawiki 2 ^={2,6}[^=\n]{1,80}={2,6}[ \t]*\r?$",
    r"mediawiki 2 (?<!^)\[\[(?! )[^\]\n|]{1,80}(?:\|[^\]\n]{1,80})?\]\]|(?<!\{)\{\{[^{}\n]{1,200}"
    r"|</ref>|<ref name ?=",
    r"mediawiki 2 '''[^'\n]{1,80}'''|^\{\||^#REDIRECT|<(?:nowiki|pre|source|syntaxhighlight)\b",
    r"org 2 ^\*{2,6} \S",
    r"org 4 ^[ \t]*+#\+[A-Za-z_]{3,20}(?::|[ \t\r]|$)|^[ \t]*+:(?:PROPERTIES|END):",
    r"org 2 \[\[[^\]\n]{1,200}\]\[",
    r"typst 4 ^[ \t]*+#(?:let \w[\w-]{0,30} ?[(=]|set \w+\(|show[: ]|figure\("
    r"|import \"[^\"\n]{1,80}\"[:;])|(?<=[)$\]]) <[\w:-]{2,30}>\s*$",
    r"typst 1 ^={1,4} \S[^\n]*[^=\s]\s*$",
)

# What begins a block of reStructuredText at the left edge; docstrings of code have it too.
DIRECTIVE: Final = re.compile(r"(?:\A|(?<=\n)[ \t]*\r?\n)\.\. [a-z][\w:-]{1,40}::(?=[ \t\r\n]|\Z)")

# Letters with their marks, which are no letters to Python: Hindi has vowels of that kind. Left out
# are white space, digits, ASCII and Latin-1 punctuation, symbols, private characters, emoji.
_LETTER = (
    r"[^\s\d_\x00-\x1f!-/:-@\[-`{-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf\u00d7\u00f7"
    r"\u2000-\u200b\u200e-\u2bff\u2e00-\u2e7f\u3000-\u3004\u3007-\u3020\u3030\u303d-\u303f"
    r"\ud800-\uf8ff\ufe10-\ufe1f\ufe30-\ufe6f\uff00-\uff20\ufff0-\uffff\U0001f000-\U0001faff]"
)
# Words with at most some punctuation around them, four in a row: what people write, code rarely.
_WORD = (
    rf"[\"'(\u201c\u2018*_`]{{0,2}}{_LETTER}{{1,40}}(?:['\u2019-]{_LETTER}{{1,40}}){{0,4}}+"
    r"[,;:.!?)\"'\u201d\u2019*_`]{0,9}(?!\S)"
)
RUNNING: Final = re.compile(
    rf"(?<!\S){_WORD}(?:[ \t]++{_WORD}){{3,}}+"
    # Scripts without spaces between words.
    r"|[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff\uff00-\uff9f]{6,}+"
)
# A block of any language in Markdown.
FENCED: Final = re.compile(
    r"^ {0,3}(?:```[^`\n]*+\n(?:(?! {0,3}```)[^\n]*+\n){0,2000}+ {0,3}```"
    r"|~~~[^\n]*+\n(?:(?! {0,3}~~~)[^\n]*+\n){0,2000}+ {0,3}~~~)[`~]*+[ \t\r]*$",
    _LINES,
)
# What these begin is no text of the document if it is code, and a heading or an item if it is not.
COMMENT: Final = re.compile(
    r"^[ \t]*+(?:#(?!\+|(?:let|set|show|import|figure)\b)|//|/\*|\*|;|--|%"
    r"|'|!|\"|<!--|\(\*|\{-|(?i:@?rem\b|dnl\b|::))[^\n]*+",
    _LINES,
)
# What is written between words.
INSERTED: Final = re.compile(r"\$[^$\n]{1,200}\$|https?://\S++|\S{1,80}@\S++")
# Lines that prose does not have, and lines that it rarely has (verse ends with semicolons).
CODE: Final = re.compile(
    r"^[ \t]*+(?:#!|#include\b|#define\b|#if(?:n?def)?\b|import [\w.]+(?: as \w+)?;?[ \t\r]*$"
    r"|from [\w.]+ import\b|(?:package|using) [\w.:]+;|(?:async )?def \w+\("
    r"|class \w+[^\n]*[:{][ \t\r]*$"
    r"|func \w+\(|(?:pub )?fn \w+|function\b[^\n]*\{[ \t\r]*$|(?:public|private|static) [^\n]*[;{]"
    r"|return\b[^\n]*[;)\]][ \t\r]*$|elif\b|(?:if|for|while|switch) ?\([^\n]*\{[ \t\r]*$"
    r"|(?:var|let|const) \w+ =|@\w+(?:\.\w+)*(?:\([^\n]*\))?[ \t\r]*$|raise \w+|self\."
    r"|\w+(?:\.\w+)* = [^\n]*[\w)\]}'\"][ \t\r]*$|__\w+__|//|\*/|/\*|(?:my|our) [$@%]\w+|sub \w+"
    r"|(?:typedef|struct|enum|namespace|template|extern|const|inline)\b[^\n]*[{;<>,)][ \t\r]*$"
    r"|[\w.]+\([^\n]*\);[ \t\r]*$|[^\n]*<<'\w+';|(?:end|fi|done|esac|then|else)[ \t\r]*$)",
    _LINES,
)
LIKE_CODE: Final = re.compile(r"[;{}][ \t\r]*$", _LINES)
YAML: Final = re.compile(
    r"^[ \t]*+(?:- )?[\w.\"'/@-]{1,60}:(?:[ \t]+\S{0,80}[^\n]{0,60}[^.\n])?[ \t\r]*$"
    r"|^[ \t]*+- \S+$",
    _LINES,
)
SETTING: Final = re.compile(
    r"^[ \t]*+(?:\[[\w. \"-]{1,60}\]|[\w.-]{1,40}[ \t]*=[^\n]*)[ \t\r]*$", _LINES
)
NOT_BLANK: Final = re.compile(r"^[ \t]*+[^\s]", _LINES)
LATEX: Final = re.compile(
    r"\\(?:documentclass|documentstyle|section\*?\{|maketitle|begin\{(?:abstract|document|figure|"
    r"equation|theorem|itemize|table)\*?\})"
)
PANDOC: Final = re.compile(
    r"\A\s*---\n(?:abstract|address|author|bibliography|title):|\{#|reference-type=|\[@"
    r"|^#{1,6} \w|^[=-]{4,}[ \t]*$",
    _LINES,
)
