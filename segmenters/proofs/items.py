r"""Levels of formal proofs: steps, lemmas, theories. One row of a table for each dialect.

A lemma is an item of a theory (theorem, definition, instance ...): its segment starts there, or
where the comments, attributes and hypotheses directly above it do, and ends with its proof. What
follows is a segment up to the next item (imports, options). A theory is what a module, section,
namespace or heading begins, and what follows its end.

The word behind the comments of a step decides; a step of no kind belongs to a proof. The word is
among the first characters of a step, so a machine follows all levels; it waits for these, and for
the end of the comments above an item.
"""

from __future__ import annotations

import dataclasses
import re
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Final, Self

from segmenters.base import Machine, Ruling, Segmenter, in_pieces
from segmenters.places import nested_end
from segmenters.proofs.scanning import Scanner, told

# Characters that are read of a step to find its word, and of the white space before it.
_LONGEST, _GAP = 8192, 60
_BLANK = re.compile(r"(?:\r\n?+|\n)[^\S\r\n]{0,40}+(?:\r\n?|\n)\s*\Z")


# Returns what the step text[start:end] begins, and how far the text was read for it. "lemma" and
# "theory" begin one; "other" ends a lemma; "above" is a comment, which an item directly below
# joins; "tag" the same, over blank lines; "closes" ends a part of a theory.
Kinds = Callable[[str, int, int], tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Kinds by the word behind white space, attributes and comments."""

    words: re.Pattern[str]  # of the kinds, each a group
    heads: re.Pattern[str]  # comments that are headings of theories
    skips: re.Pattern[str]  # what is before the word
    nests: re.Pattern[str]  # comments, by the groups `open` and `close`
    head: int  # the most characters that these read
    opening: str  # what begins one of `skips` that is longer, and how long that may be
    longest: int

    @classmethod
    def of(
        cls,
        *,
        heads: str = "(?!)",
        skips: str = "(?!)",
        nests: str = "(?!)",
        head: int = 48,
        opening: str = "",
        longest: int = 0,
        **kinds: str,
    ) -> Words:
        """Compile a row of the table; `kinds`: a pattern each, tried in their order."""
        kinds["theory"] += f"|{heads}"
        words = "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in kinds.items())
        return cls(
            words=re.compile(words),
            heads=re.compile(heads),
            skips=re.compile(rf"\s++|{skips}"),
            nests=re.compile(nests),
            head=head,
            opening=opening,
            longest=longest,
        )

    def __call__(self, text: str, start: int, end: int) -> tuple[str, int]:
        place, end = start, min(end, start + _LONGEST)
        while place < end and not self.heads.match(text, place, end):
            found = self.skips.match(text, place, end)
            after = found.end() if found else place
            opens = self.nests.match(text, after, end)
            if opens and opens["open"]:
                after = nested_end(text, after, opens.re, end)
            if after == place:
                break
            place = after
        found = self.words.match(text, place, min(end, place + self.head))
        # What is skipped may not be known to its end.
        is_long = bool(self.opening) and text.startswith(self.opening, place, end)
        read = self.longest if is_long else self.head
        return (found.lastgroup or "") if found else "", place + read


_M = r"(?<![^\r\n])"  # at the margin
_W = r"(?![\w'])"  # behind a word
_ROWS: Final[dict[str, dict[str, Any]]] = {
    "coq": {
        "theory": rf"(?:Module|Section|Chapter){_W}",
        "closes": rf"End{_W}",
        "lemma": r"(?:Theorem|Lemma|Fact|Remark|Corollary|Proposition|Property|Definition|Example"
        r"|(?:Co)?Fixpoint|(?:Co)?Inductive|Variant|Record|Structure|(?:Existing\s)?Class|Instance"
        r"|Let|Function|Axioms?|Primitive|Equations|Parameters?|Conjecture|Goal|Ltac2?|Derive|Scheme|Combined"
        r"|Canonical|(?:Next\s)?Obligation|Add\s(?:Parametric\s)?(?:Morphism|Relation|Setoid|Ring"
        rf"|Field)|HB\.\w+|Elpi|Tactic\sNotation|Coercion|SubClass){_W}",
        "proof": r"(?:Proof|Qed|Defined|Admitted|Save|Abort|Unshelve|Focus|Unfocus|Show|Undo|Grab"
        r"|Restart|Existential|Opaque|Transparent|Solve|Final|Check|Print|Search\w*|About|Eval"
        rf"|Compute|Locate){_W}",
        "other": "[A-Z]",
        "skips": r"#\[[^\]]{0,200}+\]|(?:Local|Global|Polymorphic|Monomorphic|Program|Private"
        r"|(?:Non)?Cumulative|Time|Timeout\s\d{1,9}|Fail|Succeed|Export)\s",
        "nests": r"(?P<open>\(\*)|(?P<close>\*\))",
        "opening": "#[",
        "longest": 204,
    },
    "lean": {
        "theory": rf"{_M}(?:namespace|section){_W}",
        "heads": r"/-!\s{1,9}+#",
        "closes": rf"{_M}end{_W}",
        "above": r"\Z",
        "lemma": r"(?:theorem|lemma|def|abbrev|instance|structure|class|(?:co)?inductive|example"
        r"|axiom|opaque|constant|mutual|macro(?:_rules)?|syntax|elab(?:_rules)?|notation3?|infix[lr]?"
        r"|(?:pre|post)fix|initialize|irreducible_def|alias|simproc|(?:register|declare)_\w+)"
        r"(?![\w'.])",
        "other": rf"{_M}(?:#\w|(?:import|open|variables?|universes?|export|attribute|set_option"
        rf"|omit|include|deriving|suppress_compilation|unseal|run_cmd|add_decl_doc){_W})",
        "skips": r"--[^\r\n]*+|@\[[^\]]{0,180}+\]|(?:private|protected|noncomputable|unsafe"
        r"|partial|nonrec|scoped|local|public|meta)\s"
        r"|(?:open|set_option|variable|omit|include|attribute)\s[^\r\n]{1,150}?\sin\s",
        "nests": r"(?P<open>/-)|(?P<close>-/)",
        "head": 200,
    },
    "isabelle": {
        "theory": r"(?:theory|chapter|(?:sub){0,2}section|(?:sub)?paragraph|locale|class|context"
        rf"|instantiation|overloading|(?:open_)?bundle|experiment|notepad){_W}",
        "closes": rf"end{_W}",
        "above": rf"(?:text|txt|text_raw){_W}|\Z",
        "proof": r"(?:including|fix|assume|presume|define|obtain|consider|guess|note|let|write|case"
        r"|have|show|hence|thus|then|from|with|using|unfolding|supply|also|finally|moreover"
        r"|ultimately|next|proof|qed|by|done|apply\w*|defer|prefer|back|sorry|oops|subgoal|nitpick"
        r"|refute|try0?|sledgehammer|quickcheck|solve_direct|ML_prf|\.|\{|\}"
        rf"|(?:thm|term|prop|typ|value|find_\w+|print_\w+)){_W}|[.{{}}]",
        "other": r"(?:declare|declaration|hide_\w+|ML|ML_\w+|SML_\w+|setup|local_setup|no_\w+"
        r"|syntax|translations|unbundle|bibtex_file|external_file"
        rf"|(?:print|parse)_(?:ast_)?translation){_W}",
        "lemma": r"(?:lemmas?|theorems?|corollary|proposition|schematic_goal|definition|fun"
        r"|function|primrec|inductive|abbreviation|datatype|instance|interpretation|sublocale|subclass"
        rf"|termination|lift_definition|type_synonym|typedef|record){_W}|{_M}\w",
        "skips": r"(?:private|qualified)\s",
        "nests": r"(?P<open>\(\*)|(?P<close>\*\))",
    },
    "mizar": {
        "theory": rf"(?:environ|begin){_W}",
        "lemma": rf"(?:theorem|definition|registration|notation|scheme){_W}"
        rf"|{_M}[A-Za-z]{{2}}\w{{0,30}}+:",
        "other": rf"(?:reserve|canceled){_W}",
        "above": r"\Z",
        "skips": r"::[^\r\n]*+",
    },
    "agda": {
        "theory": rf"module{_W}",
        "lemma": r"(?:data|record|postulate|primitive|syntax|pattern|unquote\w+)(?![^\s])"
        r"|(?!private|abstract|field|open)(?:(?!:\s)[^\s.;{}()@\"]{1,40}+[ \t]{1,9}+){1,3}+:(?=\s)",
        "heads": "-{20}",
        "other": rf"{_M}(?:open|import|variable|infix[lr]?|private|instance|abstract|\{{-#){_W}",
        "above": r"\Z",
        "skips": r"--[^\r\n]*+",
        "nests": r"(?P<open>\{-(?!#))|(?P<close>-\})",
        "head": 160,
    },
    "tptp": {
        "theory": r"include\(",
        "heads": "%-{60}",
        "lemma": r"[a-z]{3,8}\(\s{0,9}+(?:'[^'\\]{0,80}+'|\w{1,80}+)\s{0,9}+,\s{0,9}+"
        r"(?!plain|negated_conjecture)\w",
        "above": r"\Z",
        "skips": r"%[^\r\n]*+",
        "nests": r"(?P<open>/\*)|(?P<close>\*/)",
        "head": 220,
    },
    "hol": {
        "theory": rf"(?:structure|signature|Theory){_W}",
        "heads": r"\(\* ?[=*]{20}",
        "other": rf"{_M}(?:val _|open|infix|needs|load|loads|loadt|Overload|Type|#)",
        "lemma": r"(?:Theorem|Triviality|(?:Co)?Inductive|Definition|Datatype|Quotient|val|fun|let"
        rf"|datatype|exception){_W}",
        "nests": r"(?P<open>\(\*)|(?P<close>\*\))",
        "above": r"\Z",
    },
    "metamath": {
        "theory": r"\$\(\s{1,9}+(?:#\*#\*|=-=-|-\.-\.|\+\+\+|#\.#\.)",
        "above": r"\$\(",
        "tag": r"\$\{|(?:[\w.-]{1,80}\s{1,9}+)?\$[efd]",
        "lemma": r"[\w.-]{1,80}+\s{1,9}+\$[ap]",
        "other": r"\$[cv\[]",
        "head": 96,
    },
}


@lru_cache(maxsize=64)
def kinds_of(dialect: str) -> Kinds:
    """Return the row of a dialect, compiled."""
    return Words.of(**_ROWS[dialect])


def _no_cuts() -> tuple[array[int], array[int]]:
    return array("q"), array("q")


@dataclass(slots=True)
class _Fold:
    """Reads the kinds of steps in order; keeps the cuts of the two coarser levels."""

    item: bool = False  # in a lemma
    closed: bool = False  # the step before ended a part of a theory
    above: int = -1  # where the comments and tags above the next step begin
    tagged: bool = False  # one of them is a tag
    last: int = 0  # the last cut
    # The cuts of lemmas, and those of theories, which are among them.
    found: tuple[array[int], array[int]] = field(default_factory=_no_cuts)

    def read(self, place: int, kind: str, *, blank: bool) -> None:
        """Follow the step at a place, behind a blank line or not."""
        if self.closed:
            self.cut(place, 2)
            self.closed = self.item = False
        if self.above >= 0 and blank and not self.tagged:
            self.other(self.above)
            self.above = -1
        if kind in ("above", "tag"):
            self.above = place if self.above < 0 else self.above
            self.tagged = self.tagged or kind == "tag"
            return
        start = place if self.above < 0 else self.above
        self.above, self.tagged = -1, False
        if kind in ("lemma", "theory"):
            self.cut(start, 1 + (kind == "theory"))
            self.item = kind == "lemma"
        elif kind == "other":
            self.other(start)
        self.closed = kind == "closes"

    def other(self, place: int) -> None:
        """End the lemma before a place, if there is one."""
        if self.item:
            self.cut(place, 1)
            self.item = False

    def cut(self, place: int, rank: int) -> None:
        """Cut at a place on the levels up to a rank; the first cut of a place counts."""
        if place > self.last:
            self.last = place
            for cuts in self.found[:rank]:
                cuts.append(place)


def coarser(text: str, steps: Iterable[int], kinds: Kinds) -> tuple[array[int], array[int]]:
    """Return the ends of lemmas and of theories, from the cuts of steps."""
    fold = _Fold()
    for start, end in pairwise(steps):
        kind, _ = kinds(text, start, end)
        fold.read(start, kind, blank=_blank(text, start))
    return fold.found


def _blank(text: str, place: int) -> bool:
    """Return whether a blank line is before a place."""
    return _BLANK.search(text, max(0, place - _GAP), place) is not None


@dataclass(slots=True, kw_only=True)
class ItemMachine(Machine):
    """Machine of a coarser level, by its rank, over a machine of the steps."""

    steps: Machine
    kinds: Kinds
    rank: int
    text: str = ""  # what is kept: from some characters before the first step that waits
    starts: list[int] = field(default_factory=lambda: [0])  # of steps of unknown kind
    fold: _Fold = field(default_factory=_Fold)

    @property
    def decided(self) -> int:
        waits = [*self.starts[:1], *([self.fold.above] if self.fold.above >= 0 else [])]
        return min([self.steps.decided, *(place - 1 for place in waits)])

    def copy(self) -> Self:
        fold = dataclasses.replace(self.fold, found=_no_cuts())
        return dataclasses.replace(self, steps=self.steps.copy(), starts=[*self.starts], fold=fold)

    def close(self) -> list[int]:
        return self._judged(self.steps.close(), self.size, final=True)

    def _read(self, text: str) -> list[int]:
        cuts = self.steps.push(text)
        self.text += text
        return self._judged(cuts, self.size + len(text), final=False)

    def _judged(self, cuts: list[int], size: int, *, final: bool) -> list[int]:
        """Return the cuts of the steps whose kind is known, now that so much text is."""
        self.starts += [cut for cut in cuts if cut < size or not final]
        base = size - len(self.text)
        known = size if final else min(size, self.steps.decided + 1)
        judged, ends = 0, [*self.starts[1:], -1]
        for place, after in zip(self.starts, ends, strict=False):
            if place >= known:
                break
            end = known if after < 0 else after
            kind, read = self.kinds(self.text, place - base, end - base)
            if after < 0 and not final and min(read + base, place + _LONGEST) > known:
                break
            self.fold.read(place, kind, blank=_blank(self.text, place - base))
            judged += 1
        del self.starts[:judged]
        kept = min([size, *self.starts[:1]]) - _GAP - base
        self.text = self.text[max(0, kept) :]
        cuts, self.fold.found = self.fold.found[self.rank - 1].tolist(), _no_cuts()
        return cuts


def _sign_before(text: str, place: int) -> str:
    """Return the sign that ends a step, with the one that is in front of it in Metamath."""
    shown = text[max(0, place - _GAP) : place].rstrip()
    return f"behind {shown[-2:] if shown[-2:-1] == '$' else shown[-1:]!r}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stepwise(Segmenter):
    """Base of the segmenters that read a text step by step, on three levels."""

    version: ClassVar[int] = 2
    reader: ClassVar[type[Machine]]  # of the steps
    dialect: ClassVar[str] = ""  # a row of the table
    level_names = ("step", "lemma", "theory")

    @property
    def kinds(self) -> Kinds:
        """Return what tells the steps that begin a lemma or theory, or the like, from others."""
        return kinds_of(self.dialect)

    def machine(self) -> Machine:
        return self.reader()

    def _ends(self, text: str) -> Iterable[int]:
        return in_pieces(self.machine(), text)

    def _why(self, text: str) -> list[Ruling]:
        """Return the sign or word that ends or begins each step."""
        reader = type(self.machine())
        if issubclass(reader, Scanner):
            return told(reader, self.machine(), text)
        return [
            Ruling(place, True, _sign_before(text, place)) for place in self.cut(text)[1:].tolist()
        ]

    def _levels(self, text: str) -> tuple[Iterable[int], ...]:
        steps = self.cut(text)
        return (steps, *coarser(text, steps.data, self.kinds))

    def level_machine(self, level: int) -> Machine:
        steps = self.machine()
        return ItemMachine(steps=steps, kinds=self.kinds, rank=level) if level else steps
