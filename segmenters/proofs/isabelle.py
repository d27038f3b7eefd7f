r"""Steps of Isabelle/Isar, by the commands of its outer syntax.

A step starts at each command (lemma, have, show, by, apply, qed, `.`, `..`, `{`, `}` and the others
listed here), so `from a have b by c` is three steps. Commands that the header of the theory
declares (`keywords "foo" :: thy_decl`) count in it; those of other theories are not known. Words in
cartouches (`\<open> .. \<close>`) and comments, which both nest, in strings, back-quoted facts and
`{* .. *}`, and parts of a long name (`proof.x`) are not commands. A comment belongs to the step
before it. Source: Wenzel, The Isabelle/Isar Reference Manual, "Outer syntax" and the quick
reference of its appendix.
"""

import re
from dataclasses import dataclass, field
from typing import ClassVar, Final

from segmenters.base import Machine
from segmenters.proofs.items import Stepwise
from segmenters.proofs.scanning import Hidden, Rules, Scanner

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
_LONGEST = 40  # characters of a command
_MODIFIERS = frozenset(("private", "qualified"))
_KNOWN = _COMMANDS | _MODIFIERS | frozenset((".", "..", "{", "}"))
# Kinds of keywords that are no commands.
_PARTS: Final = frozenset(("quasi_command", "before_command"))

_WORD = (
    rf"(?P<word>(?<![\w'?])(?<![\w']\.)[A-Za-z_][\w']{{0,{_LONGEST}}}+)(?!\.[A-Za-z_])"
    r"|\\<(?!open>)\^?\w{1,40}+>"
)
_HIDDEN = (
    Hidden(r"\(\*", r"\*\)", nests=True),
    Hidden(r"\\<open>|\u2039", r"\\<close>|\u203a", nests=True),
    Hidden('"', '"', r"\\."),
    Hidden("`", "`", r"\\."),
    Hidden(r"\{\*", r"\*\}"),
)
_REACH = _LONGEST + 3


def _rules(strings: str) -> Rules:
    """Return the rules of a theory in which strings are read by these patterns."""
    tokens = rf"{_WORD}|{strings}|(?P<sign>(?<!\S)\.{{1,2}}(?!\S)|\{{(?!\*)|\}})"
    return Rules.of(tokens, signs=r"A-Za-z_\\\"`({}.\u2039:", hidden=_HIDDEN, reach=_REACH)


_BODY = _rules(r'"[^"\\]*+"')
_HEADER = _rules(rf'"(?P<name>[^"\\]{{1,{_LONGEST}}})"|(?P<colons>::)')


@dataclass(slots=True, kw_only=True)
class _Commands(Scanner):
    modified: bool = False  # "private" and "qualified" start the step of the command after them
    header: bool = False  # behind "theory", before "begin"
    # In the list of keywords of the header: those that wait for their kind; None: not in it.
    waiting: tuple[str, ...] | None = None
    declared: bool = False  # the next word is a kind
    own: frozenset[str] = field(default_factory=frozenset)

    rules: ClassVar[Rules] = _BODY

    def pattern(self) -> re.Pattern[str]:
        if self.hidden >= 0:
            return _BODY.inside[self.hidden]
        return _HEADER.outside if self.header else _BODY.outside

    def token(self, kind: str, match: re.Match[str], place: int) -> int:
        after, word = place + len(match[0]), match[kind]
        if self.header and self._is_of_header(kind, word):
            return after
        if word in _KNOWN or word in self.own:
            if not self.modified:
                self.cut(place)
            self.modified = word in _MODIFIERS
            self.header = word == "theory" or (self.modified and self.header)
        return after

    def _is_of_header(self, kind: str, word: str) -> bool:
        """Follow the header of a theory; return whether a token belongs to it."""
        if kind == "name":
            self.waiting = None if self.waiting is None else (*self.waiting, word)
        elif kind == "colons":
            self.declared = True
        elif word in ("begin", "abbrevs"):
            self.waiting, self.header = None, word != "begin"
        elif word == "keywords" or (self.waiting is not None and word == "and"):
            self.waiting, self.declared = (), False
        elif self.waiting is None:
            return False
        elif self.declared and self.waiting:
            self.own |= frozenset(self.waiting if word not in _PARTS else ())
            self.waiting = ()
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Isabelle(Stepwise):
    """Starts a segment at each command of the outer syntax."""

    version: ClassVar[int] = 4
    dialect: ClassVar[str] = "isabelle"

    # A cut before a command needs all of it, and a period and a letter that make it a long name.
    lookahead = _REACH
    reader: ClassVar[type[Machine]] = _Commands
