"""What a data set calls the language of a document -> its route; None where that says nothing.

The names are those of GitHub's linguist, by which data sets of code name their rows, in lower case.
Codes of natural languages ("en") say nothing, and where a code is also the name of a programming
language ("cs", "pl"), a document counts as code only if its kind says so.
"""

from __future__ import annotations

from typing import Final

from segmenters.code.languages import language_named

_ROUTES: Final = {
    "coq": "coq rocq",
    "diff": "diff patch",
    "html": "html html+erb html+php",
    "isabelle": "isabelle isabelle/isar",
    "latex": "latex tex",
    "lean": "lean lean4 lean-4",
    "lines": "csv tsv srt subrip-text text-lines irc-log",
    "markdown": "markdown rmarkdown mdx quarto gcc-machine-description-md",
    "metamath": "metamath",
    "mizar": "mizar",
    "notebook": "jupyter-notebook notebook ipynb",
    "rst": "restructuredtext rst",
    "code": "abap actionscript ada agda alloy antlr apacheconf apex apl apple-script applescript"
    " arduino asp aspectj assembly augeas autohotkey autoit awk ballerina basic batchfile bicep"
    " bison blitzbasic bluespec boo brainfuck c++ c-sharp c2hs-haskell chapel clojure cmake cobol"
    " coffeescript coldfusion common-lisp component-pascal crystal cuda cython d dart darcs-patch"
    " delphi dhall dm dockerfile eiffel elixir elm emacs-lisp erlang f# factor fish forth fortran"
    " freemarker gap gdscript gherkin glsl gnuplot gradle graphql graphviz-(dot) groovy hack"
    " handlebars haxe hcl hlsl hy idl idris igor-pro ini inform io j jasmin jflex jsonnet jsoniq"
    " jsx kotlin lasso less lex limbo liquid literate-agda literate-coffeescript literate-haskell"
    " livescript llvm logos lsl lua m4 makefile maple mathematica matlab maxima mercury meson"
    " mirah modula-2 modula-3 monkey moonscript mupad nesc netlogo nginx nim nix nsis nu"
    " objective-c objective-c++ objective-j opencl openscad org pascal pawn perl perl6 pike"
    " plpgsql plsql pov-ray postscript powerbuilder powershell processing prolog protobuf"
    " protocol-buffer puppet pure-data purescript q qml racket ragel raku raml rebol red rescript"
    " restructured-code robotframework sas sass scheme scilab scss shen slim smali smalltalk smarty"
    " sml solidity sparql sql sqf squirrel stan standard-ml stata stylus supercollider svelte swift"
    " systemverilog tcl tcsh terra thrift toml twig uno unrealscript urweb vala vb vba verilog vhdl"
    " viml vim-script visual-basic visual-basic-.net volt vue webassembly wgsl wisp x10 xbase xc"
    " xml xojo xpages xproc xquery xs xslt xtend yacc yaml zephir zig zimpl",
    "prose": "text plain-text txt",
}
_BY_NAME: Final = {name: route for route, names in _ROUTES.items() for name in names.split()}
# Codes of natural languages by ISO 639, or names of both kinds.
_BOTH: Final = frozenset(("cs", "pl", "sh", "sl", "ml", "mk", "kt", "hs", "ts", "tr", "ro", "io"))


def route_of_language(name: str, *, is_code: bool) -> str | None:
    """The route that the name of a programming language asks for, as a data set spells it."""
    known = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    if not known or (known in _BOTH and not is_code and name.islower()):
        return None
    if found := _BY_NAME.get(known):
        return found
    try:
        language_named(name)
    except ValueError:
        return None
    return "code"
