"""What kind of text a document looks like, by its first characters.

Each kind has signs that its texts can hardly do without and others rarely hold, tried from the
most to the least telling. It is a guess, made when nobody says what a document is; prose is the
answer where no sign is found.
"""

from __future__ import annotations

import re

# Only so many characters are looked at.
HEAD = 20_000
_LINES = re.MULTILINE

# A kind is found if its sign is there as often as the number says.
_SIGNS: tuple[tuple[str, int, re.Pattern[str]], ...] = (
    ("notebook", 1, re.compile(r'\A\s*\{\s*"(?:cells|nbformat|metadata)"\s*:')),
    (
        "diff",
        1,
        re.compile(
            r"\A(?:[^\n]*\n){0,60}?(?:diff --git a|Index: \S+\n===|--- \S[^\n]*\n\+\+\+ \S)"
            r"|\A\*\*\* \S[^\n]*\n--- \S"
        ),
    ),
    (
        "email",
        1,
        re.compile(
            r"\A\s*(?:From \S[^\n]*\n)?"
            r"(?:[A-Za-z][A-Za-z0-9-]*:(?:[ \t][^\n]*)?\n(?:[ \t]+\S[^\n]*\n)*)*?"
            r"(?:Message-ID|Received|Subject|From|Metadata-Version|MIME-Version):[ \t][^\n]*\n"
            r"(?:[ \t]+\S[^\n]*\n)*[A-Za-z][A-Za-z0-9-]*:",
            re.I,
        ),
    ),
    ("html", 1, re.compile(r"\A\s*+(?:<\?xml[^<>]*+>\s*+)?<(?:!doctype html|html\b)", re.I)),
    ("latex", 1, re.compile(r"^[ \t]*\\(?:documentclass|documentstyle|begin\{document\})", _LINES)),
    ("isabelle", 1, re.compile(r"^theory\s+[\w\"']+\s+imports\b|\\<(?:open|Rightarrow)>", _LINES)),
    ("metamath", 2, re.compile(r"(?:^|\s)\$[acdefpv]\s[^$]{1,400}?\$[.=]")),
    ("mizar", 1, re.compile(r"^[ \t]*environ[ \t\r]*$", _LINES)),
    ("lean", 1, re.compile(r"^import (?:Mathlib|Lean|Std|Batteries|Aesop)\b|:= by[ \t]*$", _LINES)),
    (
        "coq",
        1,
        re.compile(
            r"^[ \t]*(?:(?:From [\w.]+ )?Require (?:Import|Export)\b[^\n]*\.|Qed\.|Proof\.)"
            r"[ \t\r]*$",
            _LINES,
        ),
    ),
    ("coq", 2, re.compile(r"^[ \t]*(?:Definition|Inductive|Fixpoint|Notation|Ltac)\b.*:=", _LINES)),
    (
        "isabelle",
        2,
        re.compile(r"^[ \t]*(?:proof \(|by \(|qed[ \t\r]*$|lemma \w+: \")", _LINES),
    ),
    (
        "latex",
        2,
        re.compile(r"\\(?:begin|end)\{(?:proof|theorem|lemma|equation|align|section)\*?\}"),
    ),
    ("markdown", 2, re.compile(r"^ {0,3}(?:```|~~~)", _LINES)),
    (
        "rst",
        1,
        re.compile(
            r"^[ \t]*\.\. (?:code-block|toctree|automodule|autoclass|autofunction|contents|note"
            r"|warning|image|figure|seealso|versionadded|currentmodule|module|function|sourcecode"
            r"|py:\w+)::|^\.\. _[^\n:]{1,80}:",
            _LINES,
        ),
    ),
    ("html", 6, re.compile(r"</(?:p|div|li|td|tr|span|a|h[1-6])>", re.I)),
    ("arithmetic", 3, re.compile(r"^(?=[^\n]{0,40}\d)[\d()+*/. -]++=[\d()+*/=. -]++$", _LINES)),
    ("chain_of_thought", 2, re.compile(r"^[*# \t]*+Step \d+", _LINES)),
)
# Lines that prose does not hold, and lines that it rarely does (verse ends with semicolons).
_CODE = re.compile(
    r"^[ \t]*(?:#!|#include\b|#define\b|#if(?:n?def)?\b|import [\w.]+(?: as \w+)?;?[ \t\r]*$"
    r"|from [\w.]+ import\b|(?:package|using) [\w.:]+;|(?:async )?def \w+\("
    r"|class \w+[^\n]*[:{][ \t\r]*$"
    r"|func \w+\(|(?:pub )?fn \w+|function\b[^\n]*\{[ \t\r]*$|(?:public|private|static) [^\n]*[;{]"
    r"|return\b[^\n]*[;)\]][ \t\r]*$|elif\b|(?:if|for|while|switch) ?\([^\n]*\{[ \t\r]*$"
    r"|(?:var|let|const) \w+ =|@\w+(?:\.\w+)*(?:\([^\n]*\))?[ \t\r]*$|raise \w+|self\."
    r"|\w+(?:\.\w+)* = [^\n]*[\w)\]}'\"][ \t\r]*$|__\w+__)",
    _LINES,
)
_LIKE_CODE = re.compile(r"[;{}][ \t\r]*$", _LINES)
_HEADING = re.compile(r"^(?:#{1,6} \S|\[[^\]\n]{1,80}\]: |[-*] \[[^\]\n]{1,80}\]\()", _LINES)
_NOT_BLANK = re.compile(r"^[ \t]*[^\s]", _LINES)
_LEAST_CODE, _SHARE_OF_CODE, _SHARE_LIKE_CODE = 3, 0.06, 0.4


def sniff(text: str) -> str | None:
    """The kind that the text looks like, None if no sign is found."""
    head = text[:HEAD]
    for kind, times, sign in _SIGNS:
        found = sign.finditer(head)
        if all(next(found, None) is not None for _ in range(times)):
            return kind
    if head.startswith(("#!", "/*", "//")) or _is_code(head):
        return "code"
    return "markdown" if _count(_HEADING, head) > 1 else None


def _is_code(head: str) -> bool:
    lines, code = _count(_NOT_BLANK, head), _count(_CODE, head)
    if code >= max(_LEAST_CODE, _SHARE_OF_CODE * lines):
        return True
    return lines > _LEAST_CODE and _count(_LIKE_CODE, head) >= _SHARE_LIKE_CODE * lines


def _count(pattern: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))
