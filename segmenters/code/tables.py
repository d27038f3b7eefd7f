"""Which nodes of each language's grammar are statements and definitions.

Besides what a table names, statements (types that end with "_statement") that are no block begin a
segment in the place of a body.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Names of node types that are special to a language; those of `_COMMON` are in each."""

    wheel: str = ""  # holds the grammar, if not that of the language's name
    opens: str = ""  # blocks, whose children are segments
    begins: str = ""  # clauses, which begin a segment wherever they are
    labels: str = ""  # "node:token": its children after the token are segments
    braced: str = ""  # only braces or comments, in "/", can hold the start of a segment in these
    tags: bool = False  # whether elements nest by tags
    defines: str = ""  # top-level definitions
    contains: str = ""  # nodes searched for definitions
    comments: str = ""  # belong to the definition below
    methods: str = ""  # functions
    words: str = ""  # the first words of definitions and functions, if their kind does not tell
    joins: str = ""  # what never begins a segment: the text of a here-document
    reads: int = 1  # how many times the usual reads the grammar may take
    steps: float = 0.014  # of the parser per byte, as only one in a hundred real files takes
    # What is put behind a text that does not end with it, without which the grammar hangs.
    tail: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """A table in the node numbers of an installed grammar."""

    opens: frozenset[int]
    begins: frozenset[int]
    bodies: frozenset[int]
    heads: frozenset[int]  # in these only the last child is a body
    labels: frozenset[int]
    colons: frozenset[int]
    firsts: frozenset[int]  # blocks whose first token begins a segment too
    loose: frozenset[int]  # every line is a segment
    braced: frozenset[int]
    defines: frozenset[int]
    contains: frozenset[int]
    comments: frozenset[int]
    compound: frozenset[int]
    methods: frozenset[int]
    joins: frozenset[int]
    first_words: frozenset[bytes]  # `Table.words`
    leaves: frozenset[int]  # no statement is inside
    marks: frozenset[int]  # what may begin a segment in a node that is no block


# Names that mean the same in all grammars that have them.
_COMMON = {
    "opens": "case_statement class_body class_body_type class_static_block compilation_unit "
    "compound_statement declaration_list do_block document enum_body enum_class_body "
    "enumerator_list field_declaration_list interface_body jsx_element lambda_literal "
    "object_expression preproc_elif preproc_elifdef preproc_else preproc_if preproc_ifdef program "
    "source_file statement_block statement_list structure switch_block switch_default "
    "translation_unit variant_declaration",
    "heads": "for_statement for_in_statement for_range_loop foreach_statement "
    "enhanced_for_statement",
    "firsts": "variant_declaration",
    "loose": "text raw_text jsx_text",
    "defines": "abstract_class_declaration ambient_declaration class_declaration class_definition "
    "class_statement class_type_definition enum_specifier exception_definition "
    "generator_function_declaration interface_declaration internal_module module_definition "
    "module_type_definition struct_specifier type_alias_declaration union_specifier "
    "value_definition",
    "contains": "linkage_specification namespace_definition preproc_ifdef",
    "comments": "comment line_comment block_comment documentation_comment multiline_comment "
    "haddock pod pragma attribute_item",
    # A comment between the parts of a statement with bodies is a segment.
    "compound": "if_statement for_statement for_in_statement foreach_statement for_range_loop "
    "while_statement do_statement switch_statement try_statement with_statement match_statement "
    "enhanced_for_statement try_with_resources_statement decorated_definition",
    "methods": "function_definition function_declaration generator_function_declaration "
    "function_item function_statement method singleton_method method_definition "
    "method_declaration constructor_declaration compact_constructor_declaration "
    "secondary_constructor anonymous_initializer init_declaration deinit_declaration "
    "destructor_declaration operator_declaration subscript_declaration "
    "local_function_statement local_function_declaration subroutine_declaration_statement "
    "method_declaration_statement class_method_definition macro_definition test_declaration",
}
# What may hold a function with its decorators.
WRAPPERS = frozenset(("decorated_definition", "export_statement", "template_declaration"))
_C: dict[str, Any] = {
    "begins": "else_clause case_statement while",
    "braced": "initializer_list expression_statement declaration return_statement argument_list "
    "parameter_list function_declarator binary_expression comma_expression call_expression "
    "init_declarator",
    "defines": "function_definition type_definition",
    "contains": "preproc_if declaration_list",
}
_JAVASCRIPT: dict[str, Any] = {
    "opens": "switch_body switch_case",
    "begins": "else_clause catch_clause finally_clause while switch_case switch_default",
    "defines": "function_declaration export_statement",
    "comments": "decorator",
}
_TYPESCRIPT: dict[str, Any] = _JAVASCRIPT | {
    "opens": _JAVASCRIPT["opens"] + " object_type",
    "defines": _JAVASCRIPT["defines"] + " enum_declaration module",
}
_JSX = " jsx_element jsx_self_closing_element"
_OCAML: dict[str, Any] = {
    "steps": 0.02,
    "opens": "signature sequence_expression match_expression try_expression function_expression "
    "record_declaration",
    "labels": "let_expression:in",
    "begins": "let_expression sequence_expression match_expression try_expression if_expression "
    "then_clause else_clause value_definition for_expression while_expression do_clause "
    "and end",
    "defines": "type_definition external",
}

TABLES = {
    "bash": Table(
        opens="if_statement elif_clause else_clause do_group case_item subshell "
        "command_substitution",
        defines="function_definition",
    ),
    "c": Table(**_C),
    "cpp": Table(
        **_C
        | {
            "begins": _C["begins"] + " catch_clause",
            "defines": _C["defines"] + " class_specifier template_declaration concept_definition "
            "alias_declaration",
        },
    ),
    "csharp": Table(
        wheel="c_sharp",
        opens="block enum_member_declaration_list switch_body switch_section accessor_list",
        begins="catch_clause finally_clause else while",
        defines="struct_declaration enum_declaration record_declaration delegate_declaration "
        "local_function_statement global_statement",
        contains="namespace_declaration declaration_list file_scoped_namespace_declaration",
    ),
    "css": Table(
        opens="stylesheet block keyframe_block_list",
        defines="rule_set media_statement keyframes_statement supports_statement at_rule",
    ),
    "dart": Table(
        steps=0.022,
        opens="extension_body block switch_statement_case switch_statement_default",
        begins="catch_clause finally_clause else while on",
        labels="switch_expression:{",
        defines="mixin_declaration enum_declaration extension_declaration "
        "extension_type_declaration type_alias function_signature getter_signature "
        "setter_signature",
        comments="annotation",
        methods="method_signature",
    ),
    "elixir": Table(
        opens="source else_block rescue_block catch_block after_block anonymous_function body",
        begins="else_block rescue_block catch_block after_block",
        defines="call",
        comments="unary_operator",
        methods="call",
        words="def defp defmacro defmacrop defmodule defprotocol defimpl test",
    ),
    "go": Table(
        opens="block interface_type expression_switch_statement type_switch_statement "
        "select_statement import_spec_list var_spec_list const_declaration type_declaration "
        "var_declaration",
        labels="expression_case:: type_case:: default_case:: communication_case:: "
        "labeled_statement::",
        defines="function_declaration method_declaration type_declaration",
    ),
    "haskell": Table(
        opens="haskell imports declarations do alternatives local_binds class_declarations "
        "instance_declarations",
        begins="where",
        contains="declarations imports",
        defines="function data_type newtype class instance type_synonym signature bind "
        "type_family",
    ),
    "html": Table(
        opens="element script_element style_element",
        tags=True,
        defines="element script_element style_element",
    ),
    "java": Table(
        opens="block enum_body_declarations annotation_type_body constructor_body "
        "switch_block_statement_group module_body",
        begins="catch_clause finally_clause else while",
        braced="expression_statement local_variable_declaration field_declaration return_statement "
        "throw_statement argument_list formal_parameters method_invocation binary_expression",
        defines="enum_declaration record_declaration annotation_type_declaration "
        "method_declaration",
    ),
    "javascript": Table(**_JAVASCRIPT | {"begins": _JAVASCRIPT["begins"] + _JSX}),
    "json": Table(opens="object array", defines="object array"),
    "julia": Table(
        opens="module_definition function_definition macro_definition struct_definition "
        "if_statement elseif_clause else_clause for_statement while_statement try_statement "
        "catch_clause finally_clause let_statement quote_statement do_clause",
        defines="function_definition macro_definition struct_definition abstract_definition",
    ),
    "kotlin": Table(
        opens="block",
        labels="when_expression:{ if_expression:) for_statement:) while_statement:)",
        begins="catch_block finally_block getter setter else while",
        defines="object_declaration function_declaration type_alias",
    ),
    "lua": Table(
        opens="chunk block do_statement",
        labels="if_statement:then elseif_statement:then for_statement:do while_statement:do "
        "function_declaration:parameters function_definition:parameters",
        begins="until",
        defines="function_declaration",
    ),
    "ocaml": Table(wheel="ocaml:ocaml", **_OCAML),
    "ocaml_interface": Table(
        wheel="ocaml:ocaml_interface",
        **_OCAML | {"defines": _OCAML["defines"] + " value_specification"},
    ),
    "perl": Table(
        steps=0.033,
        opens="block",
        begins="elsif else continue",
        defines="subroutine_declaration_statement package_statement role_statement",
        joins="heredoc_content",
        reads=4,
        tail=b"\n",
    ),
    "php": Table(
        wheel="php:php",
        opens="enum_declaration_list default_statement colon_block property_hook_list",
        begins="else_clause else_if_clause catch_clause finally_clause while case_statement "
        "default_statement",
        defines="function_definition trait_declaration enum_declaration",
    ),
    "powershell": Table(
        opens="script_block script_block_body named_block_list script_block_expression "
        "switch_clauses",
        labels="function_statement:{ class_statement:{ enum_statement:{ switch_body:{ "
        "class_method_definition:{",
        begins="elseif_clause else_clause catch_clause finally_clause while until",
        defines="function_statement enum_statement",
        contains="statement_list",
    ),
    "python": Table(
        opens="module block",
        begins="elif_clause else_clause except_clause finally_clause case_clause decorator "
        "function_definition class_definition",
        defines="function_definition decorated_definition",
    ),
    "ruby": Table(
        opens="body_statement class module method singleton_class singleton_method begin then "
        "else elsif ensure rescue do block_body block if unless while until case case_match when "
        "in_clause for",
        defines="class module method singleton_method singleton_class",
    ),
    "rust": Table(
        opens="block enum_variant_list match_block",
        defines="function_item struct_item enum_item union_item trait_item impl_item mod_item "
        "macro_definition type_item foreign_mod_item",
    ),
    "scala": Table(
        opens="block indented_block template_body with_template_body case_block indented_cases",
        labels="case_clause:=>",
        begins="catch_clause finally_clause else yield",
        defines="object_definition trait_definition enum_definition function_definition "
        "given_definition extension_definition package_object",
        comments="annotation",
    ),
    "swift": Table(
        steps=0.012,
        opens="statements function_body protocol_body computed_property willset_didset_block",
        labels="if_statement:{ guard_statement:{ for_statement:{ while_statement:{ "
        "repeat_while_statement:{ do_statement:{ switch_statement:{ catch_block:{ "
        "computed_getter:{ computed_setter:{ computed_modify:{ willset_clause:{ didset_clause:{ "
        "switch_entry::",
        begins="catch_block else",
        defines="protocol_declaration function_declaration",
    ),
    "tsx": Table(
        wheel="typescript:tsx",
        **_TYPESCRIPT | {"begins": _TYPESCRIPT["begins"] + _JSX},
        steps=0.0105,
    ),
    "typescript": Table(wheel="typescript:typescript", **_TYPESCRIPT),
    "zig": Table(
        opens="block struct_declaration enum_declaration union_declaration opaque_declaration "
        "error_set_declaration",
        labels="switch_expression:{",
        begins="else_clause",
        defines="function_declaration variable_declaration test_declaration comptime_declaration",
    ),
}  # fmt: skip


def grammar_of(language: str) -> tuple[str, str]:
    """Return the module that holds the grammar of a language, and its function."""
    base, _, dialect = (TABLES[language].wheel or language).partition(":")
    return f"tree_sitter_{base}", f"language_{dialect}" if dialect else "language"


# The kinds that a table or `_COMMON` names.
_NAMED = (
    *("opens", "begins", "heads", "firsts", "loose", "braced", "defines", "contains", "comments"),
    *("methods", "joins"),
)


def kinds_of(table: Table, language: Any) -> Kinds:
    """Return the table in the numbers of a loaded grammar, of type `tree_sitter.Language`."""
    numbers: dict[str, set[int]] = {}
    for number in range(language.node_kind_count):
        numbers.setdefault(language.node_kind_for_id(number), set()).add(number)

    def of(names: str) -> frozenset[int]:
        return frozenset(number for name in names.split() for number in numbers.get(name, ()))

    named = {name: of(f"{_COMMON.get(name, '')} {getattr(table, name, '')}") for name in _NAMED}
    labels = [label.partition(":") for label in table.labels.split()]
    bodies = of(" ".join(name for name in numbers if name and name.endswith("_statement")))
    bodies -= of("compound_statement")
    colons = of(" ".join(token for _, _, token in labels))
    return Kinds(
        **named,
        bodies=bodies,
        labels=of(" ".join(name for name, _, _ in labels)),
        colons=colons,
        compound=of(_COMMON["compound"]) | named["begins"] | named["defines"],
        first_words=frozenset(table.words.encode().split()),
        leaves=of(" ".join(name for name in numbers if name and "comment" in name)),
        marks=bodies | colons | named["begins"] | named["comments"] | named["opens"],
    )
