"""Guess what kind of text a document is from its first characters.

Each kind has signs that its texts rarely lack and other texts rarely hold, tried from the most to
the least specific. Where no sign is found, the text is prose.
"""

import re

# How many characters are read.
_HEAD = 20_000
_LINES = re.MULTILINE

_EMAIL = (
    r"(?i)\A\s*(?:From \S[^\n]*\n)?"
    r"(?:[A-Za-z][A-Za-z0-9-]*:(?:[ \t][^\n]*)?\n(?:[ \t]+\S[^\n]*\n)*)*?"
    r"(?:Message-ID|Received|Subject|From|Metadata-Version|MIME-Version):[ \t][^\n]*\n"
    r"(?:[ \t]+\S[^\n]*\n)*[A-Za-z][A-Za-z0-9-]*:"
)
_JSON_OR_XML = (
    r"(?i)\A\s*+(?:\{\s*+\"[^\"\n]{1,200}\"\s*+:|\[\s*+(?:[\[{]|\"[^\"\n]{0,200}\"\s*+[],])"
    r"|<\?xml(?![^>]*>\s*<(?:!doctype )?html)|<[A-Za-z][\w:.-]*\s+xmlns)"
)
# After a line end or another statement: "the sum $a + b $." in a solution is none.
_METAMATH = (
    r"(?:^|\$[.}{)])[ \t]*+\s?[ \t]*+(?:[\w.-]{1,60}[ \t]+\$[aefp]|\$[cvd])\s"
    r"[^$]{1,400}?\s\$[.=](?!\S)"
)
_COQ = r"^[ \t]*+(?:(?:From [\w.]+ )?Require (?:Import|Export)\b[^\n]*\.|Qed\.|Proof\.)[ \t\r]*$"
# A kind, how often its sign must occur at least, and the sign; "^" and "$" match at lines.
_SIGNS = [
    (kind, times, re.compile(sign, _LINES))
    for kind, times, sign in (
        ("notebook", 1, r'\A\s*\{\s*"(?:cells|nbformat|metadata)"\s*:'),
        ("diff", 1, r"\A(?:.*\n){0,60}?(?:diff --git a|Index: \S+\n===|--- \S.*\n\+\+\+ \S)"),
        ("diff", 1, r"\A\*\*\* \S[^\n]*\n--- \S"),
        ("email", 1, _EMAIL),
        ("code", 1, _JSON_OR_XML),
        ("lines", 3, r"^msg(?:id|str) \""),
        ("html", 1, r"(?i)\A\s*+(?:<\?xml[^<>]*+>\s*+)?<(?:!doctype html|html\b)"),
        ("latex", 1, r"^[ \t]*+\\document(?:class|style)|^[ \t]*+\\begin\{document\}"),
        ("isabelle", 1, r"^theory\s+[\w\"']+\s+imports\b|\\<(?:open|Rightarrow)>"),
        ("metamath", 1, r"\A\s*+\$\(\s(?:[^$]|\$(?!\)))*+\$\)\s"),
        ("metamath", 2, _METAMATH),
        ("mizar", 1, r"^[ \t]*+environ[ \t\r]*$"),
        ("lean", 1, r"^import (?:Mathlib|Lean|Std|Batteries|Aesop)\b|:= by[ \t]*$"),
        ("coq", 1, _COQ),
        ("coq", 2, r"^[ \t]*+(?:Definition|Inductive|Fixpoint|Notation|Ltac)\b.*:="),
        ("isabelle", 2, r"^[ \t]*+(?:proof \(|by \(|qed[ \t\r]*$|lemma \w+: \")"),
        ("latex", 2, r"\\(?:begin|end)\{(?:proof|theorem|lemma|equation|align|section)\*?\}"),
        ("markdown", 2, r"^ {0,3}(?:```|~~~)"),
        ("latex", 8, r"(?<![\\\w])\\[A-Za-z]{3,20}\*?\{[^{}\\\n]{1,80}\}"),
        ("html", 6, r"(?i)</(?:p|div|li|td|tr|span|a|h[1-6])>"),
        ("arithmetic", 3, r"^(?=[^\n]{0,40}\d)[\d()+*/. -]++=[\d()+*/=. -]++$"),
        ("chain_of_thought", 2, r"^[*# \t]*+Step \d+"),
    )
]
# Solutions of problems in mathematics: what only they hold, formulas, and what only papers hold.
_SOLUTION = re.compile(
    r"\\boxed\b|\[asy\]|^</?think>"
    r"|<<[\d .,*/+()%-]{1,80}=[^<>\n]{1,40}>>|^#{4} \$?-?[\d,.]+%?[ \t]*\Z"
    r"|^(?:\*\*)?Final Answer\b",
    _LINES,
)
_FORMULA = re.compile(
    r"(?:^|[\s(*:])\\[\[(](?=[\s\w\\({|<>+-])|(?:^|\s)\$\$(?!\$)"
    r"|\\(?:d?frac|sqrt|cdot|times|leq?|geq?|text|sum|angle|pi)(?![A-Za-z])"
    r"|(?<![^\s(\[*:-])\$(?![\d,.]+[\s$]|\{)[^$\n]{1,120}\$(?![\w$(/{])",
    _LINES,
)
_DISPLAY = re.compile(
    r"\\\[(?:[^\\]|\\(?!\])){0,3000}+\\\]|\$\$[^$]{1,3000}+\$\$|\[asy\][^\[]{0,5000}+\[/asy\]"
    r"|^\\begin\{(align|gather|equation|cases|array)(\*?)\}[^$]{0,3000}?\\end\{\1\2\}"
    r"|^```[^`]{0,5000}+```",
    _LINES,
)
_PAPER = re.compile(
    r"\\(?:(?:sub)*section|chapter|cite[a-z]?|label|(?:eq)?ref|usepackage|newcommand|maketitle|input"
    r"|begin\{(?:theorem|lemma|proof|proposition|definition|abstract|document|corollary|remark))\b"
)
# Kinds whose signs also occur in the strings and comments of code.
_UNLIKE_CODE = frozenset(("chain_of_thought", "markdown", "html"))
# Lines that prose does not have, and lines that it rarely has (verse ends with semicolons).
_CODE = re.compile(
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
_LIKE_CODE = re.compile(r"[;{}][ \t\r]*$", _LINES)
# A heading has a blank line or the start of the text above it, and no other "#" below.
_HEADING = re.compile(
    r"(?:\A|(?<=\n)[ \t]*\r?\n)#{1,6} \S[^\n]*\n(?!#(?!#))|^\[[^\]\n]{1,80}\]: "
    r"|^[^\n]{0,200}(?:\[[^\]\n]{1,80}\]\(|!\[)",
    _LINES,
)
_RST = tuple(
    re.compile(sign, _LINES)
    for sign in (
        r"^[ \t]*+\.\. (?:[\w:-]{1,40}::|_[^\n:]{1,80}:|\[[\w#*]{1,20}\]|\|[^|\n]{1,40}\|)",
        r"(?<!`)``[^`\n]{1,80}``(?!`)",
        r"::[ \t]*\r?\n[ \t]*\r?\n[ \t]",
        r":[a-z:]{2,20}:`[^`\n]{1,80}`|`[^`\n]{1,120}>`_",
        r"^[^\s][^\n]{1,80}\n([=~^\"*+#.'-])\1{3,80}[ \t]*$",
    )
)
_YAML = re.compile(
    r"^[ \t]*+(?:- )?[\w.\"'/@-]{1,60}:(?:[ \t]+\S{0,80}[^\n]{0,60}[^.\n])?[ \t\r]*$"
    r"|^[ \t]*+- \S+$",
    _LINES,
)
_SETTING = re.compile(r"^[ \t]*+(?:\[[\w. \"-]{1,60}\]|[\w.-]{1,40}[ \t]*=[^\n]*)[ \t\r]*$", _LINES)
_COMMENT = re.compile(r"^[ \t]*+[#;]", _LINES)
_NOT_BLANK = re.compile(r"^[ \t]*+[^\s]", _LINES)
_LATEX = re.compile(
    r"\\(?:documentclass|documentstyle|section\*?\{|maketitle|begin\{(?:abstract|document|figure|"
    r"equation|theorem|itemize|table)\*?\})"
)
_PANDOC = re.compile(
    r"\A\s*---\n(?:abstract|address|author|bibliography|title):|\{#|reference-type=|\[@"
    r"|^#{1,6} \w|^[=-]{4,}[ \t]*$",
    _LINES,
)
# Kinds whose repeated signs are asked for before solutions, which hold those of others.
_BEFORE_SOLUTIONS = frozenset(("lines", "metamath"))
_LEAST_FORMULAS, _SHARE_OF_FORMULAS, _SHARE_OF_BRACES, _SHARE_OF_SEMICOLONS = 2, 0.3, 0.3, 0.012
_LONGEST_LINE = 1500  # on average
_LEAST_CODE, _SHARE_OF_CODE, _SHARE_LIKE_CODE = 3, 0.06, 0.4
# With so many lines of code a text is code, whatever its comments and strings hold.
_LEAST_DENSE, _SHARE_OF_DENSE = 5, 0.15
_LEAST_SIGNED, _SHARE_OF_SIGNS = 1000, 0.025
_LEAST_LINES, _SHARE_OF_SETTINGS = 3, 0.7
_LEAST_ROWS, _LOOKED_AT_ROWS = 4, 12


def looks_like(text: str) -> str | None:
    """Return the kind that the text looks like, or None."""
    head = text[:_HEAD]
    lines = _count(_NOT_BLANK, head)
    code = _count(_CODE, head)
    headed = _count(_HEADING, head) > 0
    solution = _is_solution(head)
    for kind, times, sign in _SIGNS:
        if kind in _UNLIKE_CODE and times > 1 and _dense(code, lines) and not headed:
            return "code"
        if solution and (times > 1 or kind == "coq") and kind not in _BEFORE_SOLUTIONS:
            return "chain_of_thought"
        found = sign.finditer(head)
        if all(next(found, None) is not None for _ in range(times)):
            return kind
    if sum(1 for sign in _RST if sign.search(head)) > 1 and not _dense(code, lines):
        return "rst"
    if head.startswith(("#!", "/*", "//")) or _is_code(head, code, lines):
        return "code"
    if _is_table(head):
        return "lines"
    return "markdown" if _count(_HEADING, head) > 1 else None


def kind_of_paper(text: str) -> str:
    """Return "markdown" for a paper that went through pandoc, else "latex"."""
    head = text[:_HEAD]
    return "markdown" if _count(_PANDOC, head) > _count(_LATEX, head) else "latex"


def _is_solution(head: str) -> bool:
    """Return whether the text is a solution of a problem in mathematics."""
    said = _DISPLAY.sub("", head)  # displays and pictures look like code
    lines = _count(_NOT_BLANK, said)
    known = _SOLUTION.search(head) is not None
    return (
        (known or _count(_FORMULA, head) >= max(_LEAST_FORMULAS, _SHARE_OF_FORMULAS * lines))
        and _count(_PAPER, head) <= 1
        and len(said) <= _LONGEST_LINE * max(lines, 1)
        and not _dense(_count(_CODE, said), lines)
        and said.count(";") <= _SHARE_OF_SEMICOLONS * len(said)
        and _count(_LIKE_CODE, said) < max(_LEAST_CODE, _SHARE_OF_BRACES * lines)
    )


def _dense(code: int, lines: int) -> bool:
    return code >= max(_LEAST_DENSE, _SHARE_OF_DENSE * lines)


def _is_code(head: str, code: int, lines: int) -> bool:
    if code >= max(_LEAST_CODE, _SHARE_OF_CODE * lines):
        return True
    if sum(map(head.count, ";{}")) >= _SHARE_OF_SIGNS * max(len(head), _LEAST_SIGNED):
        return True  # packed into few lines
    if lines <= _LEAST_LINES:
        return False
    if _count(_LIKE_CODE, head) >= _SHARE_LIKE_CODE * lines:
        return True
    said = lines - _count(_COMMENT, head)
    settings = max(_count(_YAML, head), _count(_SETTING, head))
    return said > 1 and settings >= _SHARE_OF_SETTINGS * said


def _is_table(head: str) -> bool:
    """Return whether the first lines have equally many tabs, semicolons or commas."""
    rows = [row for row in head.split("\n")[:-1] if row.strip() and row[0] != "#"]
    rows = rows[:_LOOKED_AT_ROWS]
    if len(rows) < _LEAST_ROWS:
        return False
    return any(
        len({row.count(sign) for row in rows}) == 1 and rows[0].count(sign) >= least
        for sign, least in (("\t", 1), (";", 1), (",", 2))
    )


def _count(pattern: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))
