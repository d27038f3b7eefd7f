"""Which segmenter a document asks for: by what is said of it, and by its looks in any script."""

import json
import logging
import time
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Auto, Coq, Lines, Mixed, Sentences, Stride, Turns, route
from segmenters.documents.looks import looks_like
from segmenters.documents.mixed import FORMATS
from segmenters.records.records import FORMATS as RECORDS
from segmenters.registry import ROUTES
from tests.segmenters.texts import any_text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b/Nat.v", "coq"),
        ("Basic.lean", "lean"),
        ("Nat.agda", "agda"),
        ("Nat.lagda", "latex"),
        ("Nat.lagda.md", "markdown"),
        ("list.ml", "code"),
        ("Foo.thy", "isabelle"),
        ("xboole_0.miz", "mizar"),
        ("main.TEX", "latex"),
        ("README.md", "markdown"),
        ("index.html", "html"),
        ("Untitled.ipynb", "notebook"),
        ("src/lib.rs", "code"),
        ("Fastfile", "code"),
        ("a\\Makefile", "makefile"),
        ("notes.txt", "prose"),
        ("Genesis", "prose"),
        ("train:0", "prose"),
    ],
)
def test_a_file_name_decides(name, expected):
    assert route(name=name) == expected


def test_a_suffix_that_two_languages_share_is_told_by_the_text():
    assert route(name="a.v", text="module a;\nendmodule\n") == "code"
    assert route(name="a.mm", text="$c wff $.") == "metamath"
    assert route(name="a.ml", text="let f x = x;;\n") == route(name="a.p", text="begin\n") == "code"
    assert route(name="a.ml", text="let A = prove\n (`a`, B);;\n") == "hol"
    assert route(name="aScript.sml", text="Theorem a:\n  T\nProof\n  b\nQED\n") == "hol"
    assert route(name="a.p", text="fof(a,axiom,p).\n") == "tptp"
    assert route(name="a.mm", text="@implementation A") == "code"


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"meta": {"pile_set_name": "ArXiv"}}, "latex"),
        ({"pile_set_name": "Gutenberg (PG-19)"}, "prose"),
        ({"meta": {"pile_set_name": "StackExchange"}}, "markdown"),
        ({"meta": {"pile_set_name": "Github"}}, "code"),
        ({"meta": {"pile_set_name": "DM Mathematics"}}, "chain_of_thought"),
        ({"max_stars_repo_path": "theories/A.v"}, "coq"),
        ({"lang": "Python"}, "code"),
        ({"language": "en"}, "prose"),
        ({"language": "TeX", "size": 3}, "latex"),
        ({"pile_set_name": None, "path": 7}, "prose"),
    ],
)
def test_fields_of_a_data_set_decide(meta, expected):
    assert route(meta=meta) == expected


LOOKS = {
    "agda": "module A where\n\nopen import Data.Nat\n\na : b\na = refl\n",
    "hol": "Theorem a:\n  x = x\nProof\n  rw[]\nQED\n\nTheorem b:\n  T\nProof\n  simp[]\nQED\n",
    "tptp": "% A problem.\nfof(a, axiom, ! [X] : p(X)).\nfof(b, conjecture, p(c)).\n",
    "arithmetic": "1+2=3\n(4*5)-6=20-6=14\n2*2=4\n",
    "chain_of_thought": "Step 1: Add.\nStep 2: Multiply.\n",
    "code": "import os\n\n\ndef f(x):\n    return g(x)\n",
    "coq": "Require Import Arith.\nLemma a : 1 = 1.\nProof.\n",
    "html": "<!DOCTYPE html>\n<html><p>One.</p></html>",
    "isabelle": "theory A imports Main\nbegin\n",
    "diff": "--- a.c\n+++ a.c\n@@ -1 +1 @@\n-a\n+b\n",
    "email": "From: A <a@b.c>\nSubject: B\n\nYes.\n",
    "rst": "Title\n=====\n\n.. code-block:: c\n\n   x;\n",
    "latex": "\\documentclass{a}\n\\begin{document}\n",
    "lean": "import Mathlib\n\ntheorem a : 1 = 1 := by\n  rfl\n",
    "markdown": "# One\n\nText.\n\n## Two\n",
    "metamath": "$c wff |- $.\n$v ph $.\n",
    "mizar": "environ\n vocabularies A;\nbegin\n",
    "notebook": '{"cells": [], "nbformat": 4}',
    "prose": "It was dark; he said:\nimport nothing. The class of 1920 was here.\n",
}


@pytest.mark.parametrize("expected", LOOKS)
def test_a_text_is_known_by_its_looks(expected):
    assert route(text=LOOKS[expected]) == expected
    assert Auto().cut(LOOKS[expected]).tolist() == (
        Auto().choose(text="", kind=expected).cut(LOOKS[expected]).tolist()
    )


# Each holds signs of another kind, which are examples or chance.
MIXTURES = [
    ("# A\n\nRun it:\n\n```html\n<div>\n<p>One.</p>\n</div>\n```\n\n## B\n\nText.\n", "markdown"),
    ("# A\n\nCite it:\n\n```bibtex\n@article{a,\n  title={B},\n}\n```\n\nDone.\n", "markdown"),
    ("\ufeff<!DOCTYPE html>\n<html><p>INSERT INTO a VALUES (1);</p></html>", "html"),
    (
        "NAME\n----\ngit - a\n\nSee linkgit:git[1] or linkgit:git-log[1].\n\nOPTIONS\n-------\n",
        "asciidoc",
    ),
    ("One is told ::\n\n  a b\n\nTwo is told ::\n\n  c d\n\nThree is told ::\n\n  e f\n", "rst"),
    ("Contents\n########\n\n.. toctree::\n   :maxdepth: 1\n\n" + "   howto/a-b\n" * 9, "rst"),
    (
        '"""Parse.\n\n.. module:: a\n"""\n\nimport os\n\nT = (\n' + '  ("a-b", 1),\n' * 9 + ")\n",
        "code",
    ),
    (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        "Source: https://a.org\n\nFiles: *\nCopyright: 2001 A <a@b.c>\n  B <b@b.c>\nLicense: MIT\n",
        "prose",
    ),
    ("Name: a\n\nFiles: src/*.c\n src/*.h\nCopyright: 2001 A <a@b.c>\nLicense: MIT\n", "prose"),
    ("name: a\nfiles:\n  - src/a.c\n  - src/b.c\nlicense: MIT\ncopyright: A\n", "code"),
    ("This package was debianized by A <a@b.c>\n\nAuthors:\n" + "A B <a at b.c>\n" * 9, "prose"),
    ("He wrote <to-me>\nand she <to-him>\nso it went <for-us>\nand on <to-all>\n", "prose"),
]


@pytest.mark.parametrize(("text", "expected"), MIXTURES)
def test_examples_and_chance_do_not_decide(text, expected):
    assert route(text=text) == expected


SOLUTIONS = [
    "We get:\n\\[\nx = \\frac{1}{2};\n\\]\nand \\(y = 2\\).\n\nSo \\(\\boxed{5}\\).",
    "So $3 x + k$ and $ 2 a - b $.\nThe terms $- 3 a$ and $c + d $. Then $v - w$ is it.",
    "<think>\nOkay, so 2 + 2. Wait.\n</think>\n\n4",
    "She sells 48/2 = <<48/2=24>>24 clips.\n#### 24",
    "Let $BD=3$ be.\n[asy]\ndraw((0,0)--(1,1));\nlabel(A,(2,2));\nx = 2;\n[/asy]\nSo $AD=6.$",
    "We have\n\\begin{align*}\nx = {a};\\\\\ny = {b};\n\\end{align*}\nso $\\boxed{3}$ is it.",
    "### Step 1\n\nWe use $a^2$ and $b^2$:\n\n```py\nimport a\nprint(2)\n```\n\nSo $c = 5$.",
]


@pytest.mark.parametrize("text", SOLUTIONS)
@pytest.mark.parametrize("kind", [None, "prose", "proof"])
def test_solutions_are_chains_of_thought_whatever_they_hold(text, kind):
    assert route(text=text, kind=kind) == "chain_of_thought"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He paid $5 and $7.\nShe has $8.\n", "prose"),
        ("import re\nx = re.sub(r'\\(a\\)', y)\nz = f(x)\nreturn z\n" * 4, "code"),
        ("\\section{A}\nLet $x$ be. \\label{b}\nThen $y = x$, so $z$.\n" * 4, "latex"),
        ("$( One. $)\n$c |- wff $.\n$v ph $.\n", "metamath"),
    ],
)
def test_what_holds_dollars_is_not_always_a_solution(text, expected):
    assert route(text=text) == expected


def test_theorems_of_coq_are_not_those_of_hol():
    text = "Theorem a:\n  b.\nProof.\n  c.\nQed.\nDefinition d:\n  e := f.\n" * 2
    assert route(text=text) == "coq"
    short = "Lemma c : forall P Q, P /\\ Q -> Q.\nProof. intros P Q [a b]. split; auto. Qed.\n"
    assert route(text=short) == "coq"
    assert route(text="Proof. The claim follows from this. Qed.\n") != "coq"


def test_what_is_said_decides_before_what_is_seen():
    assert route(kind="coq", name="a.md", text=LOOKS["lean"]) == "coq"
    assert route(kind="prose", name="a.md", text=LOOKS["lean"]) == "markdown"
    assert route(kind="proof") == "chain_of_thought"
    assert route(kind="proof", text=LOOKS["isabelle"]) == "isabelle"
    assert route(kind="code", text="a") == "code"
    assert route(kind="code", text=LOOKS["coq"]) == "coq"
    assert route(meta={"pile_set_name": "Github"}, text=LOOKS["markdown"]) == "markdown"
    assert route(kind="speech") == "prose"


@given(
    text=any_text,
    name=st.one_of(st.none(), any_text),
    kind=st.one_of(st.none(), any_text),
    meta=st.dictionaries(st.sampled_from(["meta", "path", "lang", "source"]), any_text, max_size=3),
)
def test_every_document_has_a_route(text, name, kind, meta):
    assert route(kind=kind, name=name, meta=meta, text=text) in ROUTES
    cuts = Auto().choose(text=text, kind=kind, name=name, meta=meta).cut(text)
    assert cuts[0] == 0 and cuts[-1] == len(text)


@pytest.mark.parametrize(
    "piece", ["1", "1 ", "\n", "  \n", "<", "$a ", "(", "1=", "</p>", "[a", "\\"]
)
def test_looking_at_hostile_text_is_quick(piece):
    start = time.process_time()
    route(text=piece * 20_000)
    assert time.process_time() - start < 0.2


def test_a_choice_is_a_segmenter_and_is_logged(caplog):
    with caplog.at_level(logging.DEBUG, logger="segmenters.documents.router"):
        assert Auto().choose(text="", name="a.v") == Coq()
    assert caplog.messages == ["document a.v of kind None: coq (by name: a.v)"]
    assert Auto().choose(text="", name="a.py") == Lines(fallback=True)
    assert Auto().choose(text="", name="a.md") == Mixed(format="markdown")
    assert Auto().choose(text="") == Sentences(backend="rules")


def test_other_segmenters_choose_themselves():
    stride = Stride(length=3)
    assert stride.choose(text="abc", kind="code", name="a.py", meta={}) is stride


def test_the_fingerprint_knows_the_tables_of_all_routes():
    found = Auto().fingerprint()
    assert json.loads(json.dumps(found)) == found
    named = {key.partition(".")[0] for key in found["versions"]}
    assert named == set(ROUTES) - {"code", *FORMATS, *RECORDS} | {"mixed", "records"}
    assert Auto(granularity="logical").versions()["mixed.code.tree-sitter"]


def test_logical_lines_are_those_of_the_language_that_name_or_field_tells():
    auto, code = Auto(granularity="logical"), "f(1,\n  2)\n"
    for said in ({"name": "a.py"}, {"kind": "code", "meta": {"meta": {"lang": "Python"}}}):
        chosen = auto.choose(text=code, **said)
        assert isinstance(chosen, Lines) and chosen.language == "python"
        assert chosen.cut(code).tolist() == [0, len(code)]
    own = Lines(granularity="logical").choose(text=code, name="b/a.py")
    assert own.cut(code).tolist() == [0, len(code)]
    fenced = f"```python\n{code}```\n"
    assert auto.choose(text=fenced, name="a.md").cut(fenced).tolist() == [0, 10, 20, 24]


@pytest.mark.parametrize("kind", [Auto, Mixed])
def test_two_levels_of_code_are_refused(kind):
    with pytest.raises(ValueError, match="granularity must be one of physical, logical, was: 'b"):
        kind(granularity="block")


# Of each language some sentences, written for this test, and of some a dialogue.
SCRIPTS = json.loads(Path(__file__).with_name("scripts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("language", SCRIPTS["prose"])
def test_prose_of_any_language_is_prose(language):
    """Vowels of many scripts are marks, which are no letters to Python."""
    for form in ("NFC", "NFD"):
        text = unicodedata.normalize(form, SCRIPTS["prose"][language])
        for shown in (text, " ".join([text] * 5), "\n".join([text] * 3), "\n\n".join([text] * 9)):
            assert looks_like(shown) is None and route(text=shown) == "prose"


@pytest.mark.parametrize("language", SCRIPTS["dialogues"])
def test_names_of_any_language_begin_turns(language):
    lines = SCRIPTS["dialogues"][language] * 2
    text = "\n".join(lines)
    assert looks_like(text) == "transcript"
    turns = Turns(names=True).levels(text)[1].tolist()
    assert [text[a:b].strip() for a, b in pairwise(turns)] == lines


def test_code_whose_comments_are_of_another_script_stays_code():
    said = SCRIPTS["prose"]["hi"]
    code = f"def f(x):\n    # {said}\n    return x\n\n\n" * 4
    assert looks_like(code) == "code"
