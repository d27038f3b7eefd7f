"""The names of segmenters, and of the languages, files and data sets of documents.

Classes are looked up by name when a segmenter is made, so this file is below all of them. Routes
(the kinds of documents that `Auto` knows) and programming languages are rows of one table each:
suffixes, file names, names of the language in data sets of code (those of GitHub's linguist), and
data sets of only that kind (of the Pile, RedPajama, SlimPajama, Dolma, proof-pile-2 and Common
Pile). All names are in lower case.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import PurePath
from typing import Any, Final

from segmenters.base import Segmenter

# Class and parameters of each name: the names of conf/segmenter and some more.
SEGMENTERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "agda": ("Agda", {}),
    "arithmetic": ("ArithmeticSteps", {}),
    "auto": ("Auto", {"granularity": "logical"}),
    "chain_of_thought": ("ChainOfThought", {}),
    "clauses": ("Clauses", {"of": "sentences"}),
    "coq": ("Coq", {}),
    "hol": ("Hol", {}),
    "isabelle": ("Isabelle", {}),
    "latex": ("LaTeXProofs", {}),
    "lean": ("Lean", {}),
    "lines": ("Lines", {}),
    "logical": ("Lines", {"granularity": "logical"}),
    "matched": ("Matched", {"of": "sentences", "kind": "shuffled"}),
    "metamath": ("Metamath", {}),
    "mixed": ("Mixed", {}),
    "mizar": ("Mizar", {}),
    "newline": ("Newline", {}),
    "next_word": ("Sentences", {"next_word": True}),
    "official": ("Official", {}),
    "pattern": ("Pattern", {}),
    "random": ("RandomCuts", {"mean": 100, "seed": 0}),
    "records": ("Records", {}),
    "repository": ("Repository", {"of": "auto"}),
    "sentences": ("Sentences", {}),
    "spacy": ("Sentences", {"backend": "spacy"}),
    "stride": ("Stride", {"length": 100}),
    "tptp": ("Tptp", {}),
    "transcript": ("Turns", {"names": True}),
    "turns": ("Turns", {}),
}
# Kinds of text whose segmenter has another name: routes, parts of documents, fenced code.
_KINDS: Final = {"prose": "sentences", "tex": "latex", "lean4": "lean", "rocq": "coq"}
# Languages of code whose segments are steps of proofs, cut by segmenters of their own.
PROOFS: Final = (
    *("agda", "coq", "hol", "isabelle", "lean", "lean4", "metamath", "mizar", "rocq", "tptp"),
)


def segmenter_class(name: str) -> type[Segmenter]:
    """Return the class that SEGMENTERS names."""
    kind: type[Segmenter] = getattr(import_module("segmenters"), SEGMENTERS[name][0])
    return kind


def make(name: str, **parameters: Any) -> Segmenter:
    """Return the segmenter that SEGMENTERS names; `parameters` override those in it."""
    given = {**SEGMENTERS[name][1], **parameters}
    if isinstance(given.get("of"), str):
        given["of"] = make(given["of"])
    return segmenter_class(name)(**given)


@lru_cache(maxsize=64)
def of_kind(kind: str) -> Segmenter:
    """Return the segmenter for a route or for the kind of a document's part."""
    return make(_KINDS.get(kind, kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Words that mean a route or a language, separated by white space."""

    suffixes: str = ""
    files: str = ""
    names: str = ""
    sets: str = ""


_LANGUAGES: Final = {
    "bash": _Row(
        suffixes=".sh .bash .zsh .ksh .bats .ebuild",
        files=".bashrc .bash_profile .profile .zshrc pkgbuild",
        names="sh shell zsh",
    ),
    "c": _Row(suffixes=".c .h"),
    "cpp": _Row(
        suffixes=".cc .cpp .cxx .c++ .hh .hpp .hxx .h++ .ipp .inl .tpp .cu .cuh .ino", names="c++"
    ),
    "csharp": _Row(suffixes=".cs .csx", names="c# c_sharp"),
    "css": _Row(suffixes=".css"),
    "dart": _Row(suffixes=".dart"),
    "elixir": _Row(suffixes=".ex .exs"),
    "go": _Row(suffixes=".go", names="golang"),
    "haskell": _Row(suffixes=".hs"),
    "html": _Row(suffixes=".html .htm .xhtml"),
    "java": _Row(suffixes=".java"),
    "javascript": _Row(suffixes=".js .mjs .cjs .jsx", names="js jsx node"),
    "json": _Row(suffixes=".json .jsonc .geojson .webmanifest"),
    "julia": _Row(suffixes=".jl"),
    "kotlin": _Row(suffixes=".kt .kts", names="kt"),
    "lua": _Row(suffixes=".lua", names="luajit"),
    "ocaml": _Row(suffixes=".ml"),
    "ocaml_interface": _Row(suffixes=".mli"),
    "perl": _Row(suffixes=".pl .pm", names="perl5"),
    "php": _Row(suffixes=".php .phtml .php5 .inc"),
    "powershell": _Row(suffixes=".ps1 .psm1 .psd1", names="pwsh posh"),
    "python": _Row(suffixes=".py .pyi .pyw", files="sconstruct sconscript", names="py python3"),
    "ruby": _Row(
        suffixes=".rb .rake .gemspec .podspec .ru",
        files="gemfile rakefile vagrantfile podfile fastfile",
        names="rb",
    ),
    "rust": _Row(suffixes=".rs", names="rs"),
    "scala": _Row(suffixes=".scala .sc .sbt"),
    "swift": _Row(suffixes=".swift"),
    "tsx": _Row(suffixes=".tsx"),
    "typescript": _Row(suffixes=".ts .mts .cts", names="ts"),
    "zig": _Row(suffixes=".zig .zon"),
}
LANGUAGES: Final = tuple(sorted(_LANGUAGES))

# Not routes: the text decides. Repositories hold all kinds; papers of the Pile went through pandoc
# and are Markdown with formulas, others are LaTeX.
LOOKED_INTO, PAPERS = "looked into", "papers"
_ROUTES: Final = {
    "arithmetic": _Row(),
    "chain_of_thought": _Row(sets="dm-mathematics gsm8k metamathqa amps openmathinstruct"),
    # Besides the languages above.
    "code": _Row(
        suffixes=".svg .csproj .lock"
        " .ada .adb .ads .asm .awk .bas .bat .clj .cljs .cls .cmake .cmd .cob"
        " .coffee .conf .cr .d .dart .dtd .el .elm .erl .ex .exs .f .f90 .f95 .for .fs .fsi .fsx"
        " .gd .glsl .gradle .groovy .hlsl .hrl .hx .idr .in .jinja .j2 .kt .kts .less .lhs"
        " .lisp .lua .m .m4 .map .nim .nix .pas .pl .pm .pp .ps1 .pro .proto .purs"
        " .pxd .pyx .qml .r .rkt .s .sass .scm .scss .sed .sol .sparql .spec .ss .sty .sv .svh"
        " .swift .tcl .thrift .vala .vb .vba .vert .vhd .vhdl .vim .vue .wat .xml .xsd"
        " .xsl .xslt .zig .pc .ac .am .plist .gitignore"
        " .gitattributes .npmrc .opam .nimble",
        files="cmakelists.txt procfile jenkinsfile"
        " brewfile justfile build build.bazel workspace configure meson.build "
        " .gitignore .gitattributes .dockerignore "
        " .npmrc .npmignore .eslintrc .babelrc .vimrc .prettierrc _coqproject go.mod"
        " go.sum",
        names="abap actionscript ada alloy antlr apacheconf apex apl apple-script applescript"
        " arduino asp aspectj assembly augeas autohotkey autoit awk ballerina basic batchfile"
        " bicep bison blitzbasic bluespec boo brainfuck c-sharp c2hs-haskell chapel clojure cmake"
        " cobol coffeescript coldfusion common-lisp component-pascal crystal cuda cython d dart"
        " darcs-patch delphi dhall dm eiffel elixir elm emacs-lisp erlang f# factor"
        " fish forth fortran freemarker gap gdscript glsl gnuplot gradle graphql"
        " graphviz-(dot) groovy hack handlebars haxe hlsl hy idl idris igor-pro inform io"
        " j jasmin jflex jsonnet jsoniq kotlin lasso less lex limbo liquid"
        " literate-coffeescript literate-haskell livescript llvm logos lsl lua m4 maple"
        " mathematica matlab maxima mercury meson mirah modula-2 modula-3 monkey moonscript mupad"
        " nesc netlogo nginx nim nix nsis nu objective-c objective-c++ objective-j opencl openscad"
        " pascal pawn perl perl6 pike pov-ray postscript powerbuilder powershell"
        " processing prolog protobuf protocol-buffer puppet pure-data purescript q qml racket"
        " ragel raku raml rebol red rescript restructured-code robotframework sas sass scheme"
        " scilab scss shen slim smali smalltalk smarty sml solidity sparql sqf squirrel stan"
        " standard-ml stata stylus supercollider svelte swift systemverilog tcl tcsh terra thrift"
        " twig uno unrealscript urweb vala vb vba verilog vhdl viml vim-script visual-basic"
        " visual-basic-.net volt vue webassembly wgsl wisp x10 xbase xc xml xojo xpages xproc"
        " xquery xs xslt xtend yacc zephir zig zimpl",
    ),
    "agda": _Row(suffixes=".agda", names="agda"),
    "asciidoc": _Row(suffixes=".adoc .asciidoc .asc", names="asciidoc"),
    "coq": _Row(suffixes=".v", names="coq rocq"),
    "diff": _Row(suffixes=".diff .patch", names="diff patch"),
    "email": _Row(suffixes=".eml .mbox .mbx", files="metadata pkg-info wheel", sets="enron-emails"),
    "html": _Row(suffixes=".html .htm .xhtml .shtml", names="html html+erb html+php"),
    "hol": _Row(suffixes=".sml .ml .hl", names="hol hol-light"),
    "isabelle": _Row(suffixes=".thy", names="isabelle isabelle/isar"),
    "latex": _Row(suffixes=".tex .ltx .latex .lagda", names="latex tex literate-agda"),
    "lean": _Row(suffixes=".lean", names="lean lean4 lean-4"),
    "lines": _Row(
        suffixes=".jsonl .ndjson .typed",
        files="record sources.txt top_level.txt installed-files.txt installer py.typed",
        names="text-lines",
        sets="opensubtitles-lines",
    ),
    "man": _Row(
        suffixes=".1 .2 .3 .4 .5 .6 .7 .8 .9 .man .mdoc .roff .3pm .1m .3x",
        names="roff groff troff nroff man roff-manpage",
    ),
    "mediawiki": _Row(suffixes=".mediawiki .wiki .wikitext", names="mediawiki wikitext"),
    "markdown": _Row(
        suffixes=".md .markdown .mdown .mkd .mdx .qmd .rmd",
        names="markdown rmarkdown mdx quarto gcc-machine-description-md",
        sets="pubmed-central stack-exchange redpajama-stack-exchange open-web-math github-issues"
        " github-archive",
    ),
    "metamath": _Row(suffixes=".mm", names="metamath"),
    "mizar": _Row(suffixes=".miz .abs", names="mizar"),
    "notebook": _Row(suffixes=".ipynb", names="jupyter-notebook notebook ipynb"),
    "org": _Row(suffixes=".org", names="org org-mode"),
    "prose": _Row(
        files="license licence license.txt licence.txt copying copying.txt copyright notice"
        " notice.txt unlicense authors thanks contributors maintainers credits",
        names="text plain-text txt",
        sets="gutenberg-pg-19 pg-19 gutenberg project-gutenberg books3 books book book-corpus"
        " book-corpus-2 wikipedia-en wikipedia wiki wikibooks wikisource openwebtext2 openwebtext"
        " pile-cc freelaw pubmed-abstracts pubmed opensubtitles europarl hacker-news nih-exporter"
        " philpapers youtubesubtitles uspto-backgrounds uspto c4 cc common-crawl redpajama-c4"
        " redpajama-common-crawl redpajama-cc redpajama-wikipedia redpajama-book cc-news refinedweb"
        " falcon-refinedweb dclm fineweb reddit pes2o s2 s2orc megawika caselaw"
        " caselaw-access-project usgpo",
    ),
    "rst": _Row(suffixes=".rst .rest", names="restructuredtext rst"),
    "typst": _Row(suffixes=".typ", names="typst"),
    "tptp": _Row(suffixes=".p .ax .tptp .thf .fof .tff", names="tptp"),
    "transcript": _Row(names="irc-log", sets="ubuntu-irc irc qmsum"),
    "turns": _Row(sets="ultrachat sharegpt oasst openassistant wildchat lmsys-chat-1m"),
    # Formats of records.
    "ass": _Row(suffixes=".ass .ssa"),
    "bibtex": _Row(suffixes=".bib", names="bibtex"),
    "csv": _Row(suffixes=".csv", names="csv"),
    "dockerfile": _Row(
        suffixes=".dockerfile .containerfile", files="dockerfile containerfile", names="dockerfile"
    ),
    "fasta": _Row(suffixes=".fasta .fa .fna .faa .ffn", names="fasta"),
    "genbank": _Row(suffixes=".gb .gbk .genbank"),
    "gherkin": _Row(suffixes=".feature", names="gherkin cucumber"),
    "gitlog": _Row(),
    "hcl": _Row(suffixes=".tf .hcl .tfvars .nomad", names="hcl terraform"),
    "ics": _Row(suffixes=".ics .ical", names="icalendar"),
    "ini": _Row(
        suffixes=".ini .cfg .editorconfig .desktop .service .timer .socket .mount .flake8",
        files=".gitconfig .editorconfig .flake8 .pylintrc .coveragerc entry_points.txt",
        names="ini",
    ),
    "json": _Row(),
    "ldif": _Row(suffixes=".ldif"),
    "log": _Row(suffixes=".log", files="syslog messages dmesg", names="log"),
    "makefile": _Row(
        suffixes=".mk .mak .make", files="makefile gnumakefile makefile.am", names="makefile"
    ),
    "po": _Row(suffixes=".po .pot", names="po gettext-catalog"),
    "properties": _Row(suffixes=".properties", names="java-properties properties"),
    "requirements": _Row(files="requirements.txt constraints.txt", names="pip-requirements"),
    "sql": _Row(
        suffixes=".sql .ddl .dml .pgsql .psql .mysql .plsql .pks .pkb .tsql",
        names="sql plpgsql plsql tsql",
    ),
    "srt": _Row(suffixes=".srt", names="srt subrip-text"),
    "toml": _Row(suffixes=".toml", files="pipfile poetry.lock cargo.lock uv.lock", names="toml"),
    "tsv": _Row(suffixes=".tsv .tab", names="tsv"),
    "vcard": _Row(suffixes=".vcf .vcard"),
    "vtt": _Row(suffixes=".vtt", names="webvtt"),
    "yaml": _Row(
        suffixes=".yaml .yml .clang-format",
        files=".clang-format .clang-tidy pnpm-lock.yaml yarn.lock",
        names="yaml yml",
    ),
    LOOKED_INTO: _Row(
        sets="github the-stack stack stack-v2 stack-dedup starcoder starcoder-data code"
        " algebraic-stack stack-edu stack-v2-code"
    ),
    PAPERS: _Row(sets="arxiv redpajama-arxiv arxiv-papers"),
}
ROUTES: Final = tuple(route for route in _ROUTES if route not in (LOOKED_INTO, PAPERS))


def _by(table: Mapping[str, _Row], field: str) -> dict[str, str]:
    return {word: name for name, row in table.items() for word in getattr(row, field).split()}


_NOT_A_NAME = re.compile(r"[^a-z0-9]+")
_LANGUAGE_BY_SUFFIX, _LANGUAGE_BY_FILE = _by(_LANGUAGES, "suffixes"), _by(_LANGUAGES, "files")
_ALIASES: Final = _by(_LANGUAGES, "names")
_BY_SUFFIX, _BY_FILE, _BY_NAME = (_by(_ROUTES, field) for field in ("suffixes", "files", "names"))
_BY_SET: Final = {_NOT_A_NAME.sub("", name): route for name, route in _by(_ROUTES, "sets").items()}
_SEPARATOR = re.compile(r"[/:]|_(?=head|middle|tail|en_|all\b)")
# ISO 639 codes of natural languages that are also names of programming languages.
_BOTH: Final = frozenset(("cs", "pl", "sh", "sl", "ml", "mk", "kt", "hs", "ts", "tr", "ro", "io"))
_SCRIPT = re.compile(r"#![ \t]*(?:\S*/env[ \t]+(?:-\S+[ \t]+)*)?(?:\S*/)?([a-z]+)")


def language_of(path: str | PurePath) -> str | None:
    """Return the language that a file name shows, or None."""
    name = PurePath(path).name.lower()
    return _LANGUAGE_BY_FILE.get(name) or _LANGUAGE_BY_SUFFIX.get(PurePath(name).suffix)


def known_language(name: str) -> str | None:
    """Return the language of a name or alias in any case, or None."""
    known = name.strip().lower()
    known = _ALIASES.get(known, known)
    return known if known in LANGUAGES else None


def language_named(name: str) -> str:
    """Return the language of a name; raise ValueError, with the nearest name, if it is unknown."""
    if found := known_language(name):
        return found
    near = difflib.get_close_matches(name.strip().lower(), (*LANGUAGES, *_ALIASES), n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(
        f"language must be 'auto' or one of {', '.join(LANGUAGES)}, was: {name!r}{hint}"
    )


def language_of_script(text: str) -> str | None:
    """Return the language that the first line of a script names ("#!/usr/bin/env python3")."""
    match = _SCRIPT.match(text)
    return known_language(match[1]) if match else None


def route_of_file(path: PurePath) -> str | None:
    """Return the route of a file name in lower case, by the whole name or by its suffix."""
    found = _BY_FILE.get(path.name) or _BY_SUFFIX.get(path.suffix)
    return found or ("code" if language_of(path.name) else None)


def route_of_language(name: str, *, is_code: bool) -> str | None:
    """Return the route of a programming language by its name in a data set.

    Codes of natural languages ("en") have none; those that name both ("cs") count only in code.
    """
    known = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    if not known or (known in _BOTH and not is_code and name.islower()):
        return None
    return _BY_NAME.get(known) or ("code" if known_language(name) else None)


def route_of_set(name: str) -> str | None:
    """Return the route of a data set, `LOOKED_INTO` or `PAPERS`; only letters and digits count."""
    known = name.lower()
    plain = (_NOT_A_NAME.sub("", word) for word in (known, _SEPARATOR.split(known)[0]))
    return next((route for word in plain if (route := _BY_SET.get(word))), None)
