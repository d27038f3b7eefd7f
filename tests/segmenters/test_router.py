"""Which segmenter a document asks for: by what is said of it, and by its looks in any script."""

import json
import logging
import re
import unicodedata
from itertools import pairwise
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Auto, Coq, Lines, Mixed, Sentences, Stride, Turns, route
from segmenters.code.tables import TABLES
from segmenters.documents import detection
from segmenters.documents.detection import RULES, detect, looks_like
from segmenters.documents.detection_table import (
    ALL,
    AT_START,
    CONCLUDING,
    OF_ANSWERS,
    POINTS,
    READ_FIRST,
)
from segmenters.documents.mixed import FORMATS
from segmenters.documents.router import decide
from segmenters.documents.signs import Head
from segmenters.registry import (
    LANGUAGES,
    ROUTES,
    language_named,
    language_of,
    language_of_script,
)
from tests.segmenters.samples import marked_in
from tests.segmenters.texts import any_text


@pytest.mark.parametrize(
    ("expected", "names"),
    [
        ("coq", "a/b/Nat.v"),
        ("lean", "Basic.lean"),
        ("agda", "Nat.agda"),
        ("latex", "Nat.lagda main.TEX"),
        ("markdown", "Nat.lagda.md README.md"),
        ("code", "list.ml src/lib.rs Fastfile a.json"),
        ("isabelle", "Foo.thy"),
        ("mizar", "xboole_0.miz"),
        ("html", "index.html"),
        ("notebook", "Untitled.ipynb"),
        (
            "lines",
            "a\\Makefile dir/Makefile a.sql out.log x.yml setup.cfg de.po a.srt requirements.txt",
        ),
        ("lines", "Dockerfile main.tf a.toml setup.cfg a.csv a.patch requirements.txt"),
        ("markup", "a.adoc page.wiki notes.org a.typ ls.1 box.mbox PKG-INFO"),
        ("prose", "notes.txt Genesis train:0"),
    ],
)
def test_a_file_name_decides(expected, names):
    assert {route(name=name) for name in names.split()} == {expected}


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
        ({"language": "hy"}, "prose"),
        ({"language": "TeX", "size": 3}, "latex"),
        ({"pile_set_name": None, "path": 7}, "prose"),
    ],
)
def test_fields_of_a_data_set_decide(meta, expected):
    assert route(meta=meta) == expected


@pytest.mark.parametrize("segmenter", [Sentences(), Auto()], ids=repr)
def test_the_language_field_decides_abbreviations_at_once(segmenter):
    text = "Wtedy gen. Nowak poszed\u0142. Potem wr\u00f3ci\u0142."
    fields = {"language": "pol_Latn"}, {"meta": {"lang": "Polish"}}, {"language": "xyz"}, {}
    chosen = [segmenter.choose(text=text, meta=meta) for meta in fields]
    assert [each.language for each in chosen] == ["pl", "pl", "xx", "xx"]
    assert [len(each.cut(text)) for each in chosen] == [3, 3, 4, 4]


# Texts of each kind; some hold signs of others, which are examples or chance.
LOOKS = marked_in("detection.txt")
# Their words and signs, in any order.
SIGNS_OF_TEXTS = sorted({sign for _, text in LOOKS for sign in re.findall(r"\w+|[^\w\s]+", text)})
LEAN, MARKDOWN, ISABELLE, COQ = map(dict(LOOKS[::-1]).get, ("lean", "markdown", "isabelle", "coq"))


@pytest.mark.parametrize(("expected", "text"), LOOKS)
def test_a_text_is_known_by_its_looks(expected, text):
    assert route(text=text) == expected
    chosen = Auto().choose(text="", kind=expected)
    assert Auto().cut(text).tolist() == chosen.cut(text).tolist()
    if expected == "chain_of_thought":
        assert route(text=text, kind="proof") == route(text=text, kind="prose") == expected
    assert route(text="Proof. The claim follows from this. Qed.\n") != "coq"


def test_each_rule_decides_a_text_and_is_named():
    decided = {found.rule: found for _, text in LOOKS if (found := detect(text))}
    assert {rule.name for rule in RULES} == {*decided}
    assert str(decided["HOL"]) == "HOL: QED, line 5"
    assert str(decide(text="# A\n\nSo.\n\n## B\n\n")) == (
        "markdown (by looks: points of Markdown: # A, line 1)"
    )


def missed(text):
    """The signs that a text has without what they say they need, one by one or together."""
    head, names = Head(text), []
    for group in (ALL, POINTS):
        passed = not group.may_match(Head(text))
        for sign in group:
            match = sign.pattern.search(text)
            if match and (passed or sign.search(head) != match.group()):
                names.append(sign.name)
    return names


@given(text=st.lists(st.sampled_from([*SIGNS_OF_TEXTS, "\n", " "]), max_size=30).map("".join))
def test_a_sign_that_is_found_is_never_passed_over(text):
    assert missed(text) == []


@given(
    words=st.lists(
        st.sampled_from(
            sorted(
                {*READ_FIRST, *OF_ANSWERS, *AT_START, *CONCLUDING, *SIGNS_OF_TEXTS, "said", "12"}
            )
        ),
        min_size=1,
    ),
    change=st.sampled_from([str, str.lower, str.capitalize]),
    between=st.sampled_from([" ", " said ", "\n", ". Then "]),
    ends=st.lists(st.sampled_from([*" ,.;!?'\"-", "is ", ". ", ", so "])).map("".join),
)
def test_the_short_looks_tell_what_all_rules_tell(words, change, between, ends):
    text = between.join(map(change, words)) + ends
    quick = detect(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detection, "_is_line_without_signs", lambda evidence: False)
        patch.setattr(detection, "_one_look_tells", lambda first: False)
        assert detect(text) == quick


def test_a_table_below_its_first_line_is_markdown():
    assert str(detect("a | b\n|---|---|\nc | d\n")) == "points of Markdown: |---|---|, line 2"


def test_no_sign_of_a_sample_is_passed_over():
    assert [missed(text) for _, text in [*LOOKS, *marked_in("documents.txt")] if missed(text)] == []


def test_what_is_said_decides_before_what_is_seen():
    assert route(kind="coq", name="a.md", text=LEAN) == "coq"
    assert route(kind="prose", name="a.md", text=LEAN) == "markdown"
    assert route(kind="proof") == "chain_of_thought"
    assert route(kind="proof", text=ISABELLE) == "isabelle"
    assert route(kind="code", text="a") == "code"
    assert route(kind="code", text=COQ) == "coq"
    assert route(meta={"pile_set_name": "Github"}, text=MARKDOWN) == "markdown"
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
    assert named == set(ROUTES) - {"code", *FORMATS} | {"mixed"}
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


def test_names_tell_the_language():
    """Of files and first lines of scripts, and what data sets call it."""
    files = {"setup.py": "python", "a/b.PY": "python", "x.tar.hpp": "cpp", ".bashrc": "bash"}
    files |= {PurePosixPath("lib/a.rs"): "rust", "Rakefile": "ruby", "a.d.ts": "typescript"}
    files |= {"a.tsx": "tsx", "a.mli": "ocaml_interface", "README.md": None, "py": None, "": None}
    assert {path: language_of(path) for path in files} == files
    scripts = {"#!/bin/sh -e\n": "bash", "#! /usr/bin/env python3.11\nx": "python", "#!": None}
    scripts |= {"#!/usr/bin/env -S node --harmony": "javascript", "#!/usr/bin/ruby": "ruby"}
    scripts |= {"#!/usr/bin/awk -f\n": None, "# python\n": None, "": None}
    assert {line: language_of_script(line) for line in scripts} == scripts
    named = {"C++": "cpp", "c#": "csharp", "JavaScript": "javascript", " Shell ": "bash"}
    assert {name: language_named(name) for name in named} == named
    assert set(TABLES) == set(LANGUAGES)
