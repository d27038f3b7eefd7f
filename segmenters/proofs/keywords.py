r"""Steps found by keywords: Isabelle/Isar, Metamath and Mizar.

Isabelle: a step starts at each outer-syntax command (lemma, have, show, by, apply, qed, `.`, `..`,
`{`, `}` and the others listed here), so `from a have b by c` is three steps. Words in cartouches
(`\<open> .. \<close>`) and comments, which both nest, in strings, back-quoted facts and `{* .. *}`,
and parts of a long name (`proof.x`) are not commands. A comment belongs to the step before it.
Commands that a theory defines are not known. Source: Wenzel, The Isabelle/Isar Reference Manual,
"Outer syntax" and the quick reference of its appendix.

Metamath: `$.` ends a statement (`$c $v $f $e $d $a $p`, with its label and its proof after `$=`).
`${`, `$}`, a file inclusion `$[ .. $]` and a comment `$( .. $)` between statements are steps of
their own; a comment in a statement belongs to it. Comments do not nest. Keywords need no space
around them, since only they hold `$`. Source: Megill and Wheeler, Metamath (2019), section 4.1.

Mizar: ';' ends a step, `end;` included. `proof` is a step of its own, and `now`, `hereby`, `begin`
end the step that they are in (`A1: now`). A comment, from `::` to the end of its line, belongs to
the step before it on the line, else to that below. A chain of equalities (`.=`) is one step.
Source: Grabowski, Kornilowicz and Naumowicz, Mizar in a Nutshell (2010), sections 2 and 3.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from segmenters.base import Machine, Segmenter, SpacedMachine
from segmenters.places import after_space, nested_end, past

_WORDS = """
    theory end chapter section subsection subsubsection paragraph subparagraph text
    txt text_raw context locale sublocale interpretation global_interpretation interpret class
    subclass instantiation instance experiment bundle unbundle open_bundle
    lemma theorem corollary proposition schematic_goal lemmas theorems axiomatization named_theorems
    definition abbreviation notation no_notation type_notation no_type_notation syntax no_syntax
    translations no_translations consts nonterminal typedecl type_synonym typedef record datatype
    codatatype old_datatype rep_datatype free_constructors datatype_compat primrec primcorec
    primcorecursive fun function termination corec corecursive friend_of_corec partial_function
    nominal_datatype nominal_function nominal_termination inductive inductive_set coinductive
    coinductive_set inductive_cases inductive_simps fun_cases recdef specification overloading
    quotient_type quotient_definition lift_definition setup_lifting lifting_update lifting_forget
    copy_bnf lift_bnf bnf bnf_axiomatization declare declaration syntax_declaration hide_class
    hide_type hide_const hide_fact alias type_alias default_sort simproc_setup method method_setup
    attribute_setup parse_translation print_translation parse_ast_translation print_ast_translation
    typed_print_translation oracle setup local_setup ML ML_prf ML_val ML_command ML_file ML_export
    SML_file code_printing code_reserved code_identifier code_datatype code_abort code_deps
    code_thms code_pred code_reflect export_code value values values_prolog
    including fix assume presume define obtain consider guess note let write case have show hence
    thus then
    from with using unfolding supply also finally moreover ultimately next proof qed by done apply
    apply_end apply_trace defer prefer back sorry oops subgoal nitpick nitpick_params quickcheck
    quickcheck_params quickcheck_generator refute try try0 sledgehammer sledgehammer_params
    solve_direct find_theorems find_consts find_unused_assms thm thm_deps thm_oracles term prop typ
    full_prf prf print_theorems print_state print_locale print_locales print_facts print_cases
    print_classes print_methods print_attributes print_simpset print_rules print_statement
    print_commands help welcome state lifting_params external_file bibtex_file judgment
"""
_COMMANDS = frozenset(_WORDS.split())

_COMMENT = re.compile(r"(?P<open>\(\*)|(?P<close>\*\))")
_CARTOUCHE = re.compile(r"(?P<open>\\<open>|\u2039)|(?P<close>\\<close>|\u203a)")
_TOKEN = re.compile(
    r"(?P<word>[A-Za-z_][\w']*+(?:\.[A-Za-z_][\w']*+)*+)"
    r"|(?P<comment>\(\*)|(?P<cartouche>\\<open>|\u2039)"
    r'|"(?:[^"\\]|\\.)*+"?|`(?:[^`\\]|\\.)*+`?'
    r"|\\<[\w^]*+>?|[?'][A-Za-z_][\w']*+|\{\*(?:[^*]|\*(?!\}))*+(?:\*\})?"
    r"|(?P<sign>(?<!\S)\.{1,2}(?!\S)|[{}])|\d[\w']*+",
    re.DOTALL,
)
_MODIFIERS = frozenset(("private", "qualified"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Isabelle(Segmenter):
    """Starts a segment at each command of the outer syntax."""

    version: ClassVar[int] = 2

    # A cut before a command needs all of it, and a period and a letter that make it a long name.
    lookahead = max(map(len, _COMMANDS)) + 2

    def _ends(self, text: str) -> Iterable[int]:
        return _command_starts(text)


def _command_starts(text: str) -> Iterator[int]:
    place = 0
    first = len(text) - len(text.lstrip())  # white space in front belongs to the first step
    modified = False  # "private" and "qualified" start the step of the command after them
    while match := _TOKEN.search(text, place):
        place, kind = match.end(), match.lastgroup
        if kind == "comment":
            place = nested_end(text, match.start(), _COMMENT)
        elif kind == "cartouche":
            place = nested_end(text, match.start(), _CARTOUCHE)
        elif match["word"] in _MODIFIERS:
            if match.start() > first and not modified:
                yield match.start()
            modified = True
        elif kind == "sign" or match["word"] in _COMMANDS:
            if match.start() > first and not modified:
                yield match.start()
            modified = False


_METAMATH_CLOSES = {"(": ")", "[": "]"}
_METAMATH_OPENS_OR_ENDS = frozenset("([.{}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Metamath(Segmenter):
    """Ends a segment after each statement, scope mark and comment between statements. Causal."""

    lookahead = 1

    def _ends(self, text: str) -> Iterable[int]:
        return after_space(text, _MetamathSteps().step_ends(text))

    def machine(self) -> Machine:
        return _MetamathSteps()


@dataclass(slots=True, kw_only=True)
class _MetamathSteps(SpacedMachine):
    inside: bool = False  # a statement has begun
    dollar: bool = False  # the last character is a `$` that may begin a keyword
    closing: str = ""  # what closes the current comment or file name

    def step_ends(self, text: str) -> list[int]:
        ends: list[int] = []
        place = 0
        while place < len(text):
            if self.dollar:
                self.dollar = False
                place += self._keyword(text[place], ends, place)
                continue
            found = text.find("$", place)
            self.dollar = found >= 0
            between = text[place:found] if self.dollar else text[place:]
            self.inside |= not (self.inside or self.closing or not between or between.isspace())
            place += len(between) + 1
        return ends

    def _keyword(self, sign: str, ends: list[int], place: int) -> bool:
        """Read the sign after a `$`; return whether it was part of the keyword."""
        if self.closing:
            if sign != self.closing:
                return False
            self.closing = ""
            ended = not self.inside
        elif sign not in _METAMATH_OPENS_OR_ENDS:
            self.inside = True
            return False
        else:
            self.closing = _METAMATH_CLOSES.get(sign, "")
            ended = not self.closing
            self.inside = self.inside and not ended
        if ended:
            ends.append(place + 1)
        return True


_MIZAR_TOKEN = re.compile(r"::[^\r\n]*+|(?P<end>;)|(?P<word>[A-Za-z_'][\w']*+)|[0-9][\w']*+")
_TRAILING = re.compile(r"[^\S\r\n]*+(?:::[^\r\n]*+)?")
_MIZAR_OPENS = frozenset(("proof", "now", "hereby", "begin"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Mizar(Segmenter):
    """Ends a segment after each ';' and where a block opens."""

    # A cut before "proof" needs the word and one character after it.
    lookahead = len("proof") + 1

    def _ends(self, text: str) -> Iterable[int]:
        return after_space(text, _mizar_step_ends(text))


def _mizar_step_ends(text: str) -> Iterator[int]:
    for match in _MIZAR_TOKEN.finditer(text):
        if match["end"] is None and match["word"] not in _MIZAR_OPENS:
            continue
        if match["word"] == "proof":
            yield match.start()
        yield past(_TRAILING, text, match.end())
