r"""Commands of Isabelle/Isar theories and proofs.

A step starts at each outer-syntax command (lemma, have, show, by, apply, qed, `.`, `..`, `{`, `}`
and the others listed here), so `from a have b by c` is three steps. Words inside of cartouches
(`\<open> .. \<close>`, which nest), strings, back-quoted facts, `{* .. *}` and comments, which nest
as well, are not commands, nor are parts of a long name (`proof.x`). A comment belongs to the step
before it.

Source: Wenzel, The Isabelle/Isar Reference Manual, "Outer syntax" and the quick reference of its
appendix. Commands that a theory defines for itself are not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from segmenters.base import Segmenter
from segmenters.proofs.scanning import nested_end

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
    fix assume presume define obtain consider guess note let write case have show hence thus then
    from with using unfolding supply also finally moreover ultimately next proof qed by done apply
    apply_end apply_trace defer prefer back sorry oops subgoal nitpick nitpick_params quickcheck
    quickcheck_params quickcheck_generator refute try try0 sledgehammer sledgehammer_params
    solve_direct find_theorems find_consts find_unused_assms thm thm_deps thm_oracles term prop typ
    full_prf prf print_theorems print_state print_locale print_locales print_facts print_cases
    print_classes print_methods print_attributes print_simpset print_rules print_statement
    print_commands help welcome state lifting_params external_file bibtex_file judgment
"""
COMMANDS = frozenset(_WORDS.split())
_LOOKAHEAD = max(map(len, COMMANDS)) + 2

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Isabelle(Segmenter):
    """Starts a segment at each command of the outer syntax."""

    @property
    def lookahead(self) -> int | None:
        # In front of a command, the longest one, a period, and the letter that makes a long name.
        return _LOOKAHEAD

    def _ends(self, text: str) -> Iterable[int]:
        return _command_starts(text)


def _command_starts(text: str) -> Iterator[int]:
    place = 0
    first = len(text) - len(text.lstrip())  # white space in front belongs to the first step
    while match := _TOKEN.search(text, place):
        place, kind = match.end(), match.lastgroup
        if kind == "comment":
            place = nested_end(text, match.start(), _COMMENT)
        elif kind == "cartouche":
            place = nested_end(text, match.start(), _CARTOUCHE)
        elif match.start() > first and (kind == "sign" or match["word"] in COMMANDS):
            yield match.start()
