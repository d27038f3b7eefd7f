"""Which language a file is in."""

from pathlib import PurePosixPath

import pytest

from segmenters.code.tables import TABLES
from segmenters.registry import LANGUAGES, language_named, language_of, language_of_script


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("setup.py", "python"),
        ("a/b.PY", "python"),
        ("x.tar.hpp", "cpp"),
        (PurePosixPath("lib/a.rs"), "rust"),
        (".bashrc", "bash"),
        ("Rakefile", "ruby"),
        ("a.d.ts", "typescript"),
        ("a.tsx", "tsx"),
        ("a.mli", "ocaml_interface"),
        ("README.md", None),
        ("py", None),
        ("", None),
    ],
)
def test_a_file_name_tells_the_language(path, language):
    assert language_of(path) == language


def test_data_sets_may_call_a_language_by_other_names():
    assert [*map(language_named, ("C++", "c#", "JavaScript", " Shell "))] == [
        *("cpp", "csharp", "javascript", "bash")
    ]


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("#!/bin/sh -e\n", "bash"),
        ("#! /usr/bin/env python3.11\nx", "python"),
        ("#!/usr/bin/env -S node --harmony", "javascript"),
        ("#!/usr/bin/ruby", "ruby"),
        ("#!/usr/bin/awk -f\n", None),
        ("# python\n", None),
        ("#!", None),
        ("", None),
    ],
)
def test_a_script_tells_its_language(line, language):
    assert language_of_script(line) == language


def test_every_language_has_a_table():
    assert set(TABLES) == set(LANGUAGES)
