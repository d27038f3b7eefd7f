"""The command that shows segments: what it prints, what it refuses, what it loads."""

import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from segmenters import Lines
from segmenters.show import coloured, page, printable, segments_of, statistics
from train.cli import main
from train.stages.segment import NAMES, choose

TEXT = "Dr. Brown came. He left!\n\nOne\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_without_a_terminal_bars_stand_between_the_segments(file, capfdbinary):
    assert main(["segment", str(file)]) == 0
    shown = capfdbinary.readouterr().out.decode()
    assert shown.split() == ["Dr.", "Brown", "came.", "|He", "left!", "|One"]


def test_a_terminal_shows_neighbours_in_two_colours():
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(coloured(["One. ", "Two."]), soft_wrap=True)
    shown = console.file.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == "One. Two.\n"
    assert len(set(re.findall(r"\x1b\[[0-9;]*m", shown))) == 3  # two colours and their end


def test_json_holds_the_cuts_and_the_statistics(file, capsys):
    assert main(["segment", str(file), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["cuts"] == [0, 16, 26, 30]
    assert facts["segments"] == 3 and facts["characters"]["total"] == len(TEXT)
    assert facts["fingerprint"]["parameters"]["backend"] == "rules"


def test_statistics_count_lengths_and_separators():
    facts = statistics(["One two. ", "Three\n", "Four\n\n", "x"])
    assert facts["words"]["mean"] == 1.25 and facts["words"]["longest"] == 2
    assert facts["share_of_one_character"] == 0.25 and facts["share_of_one_word"] == 0.75
    assert facts["separators"] == {".": 0.25, "line end": 0.25, "blank line": 0.25, "none": 0.25}
    assert sum(facts["histogram_of_words"].values()) == 4
    assert list(facts["histogram_of_words"])[:4] == ["0-1", "2", "3-4", "5-8"]
    assert statistics([])["segments"] == 0


def test_statistics_are_printed_for_reading(file, capsys):
    assert main(["segment", str(file), "--stats"]) == 0
    shown = capsys.readouterr().out
    assert "3 segments by sentences" in shown and "'blank line'" not in shown
    assert "ends with: '.' 33.3%  '!' 33.3%  'line end' 33.3%" in shown


def test_the_page_needs_no_other_file_and_holds_the_text(file, tmp_path, capsys):
    file.write_text('a < b & "c". Then.', encoding="utf-8")
    assert main(["segment", str(file), "--html", str(tmp_path / "o.html")]) == 0
    made = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert "a &lt; b &amp; &quot;c&quot;. </i>" in made and "<script" not in made
    assert not re.search(r"(src|href)=", made)
    assert "2 segments" in capsys.readouterr().err
    assert "&lt;/title&gt;" in page([], title="</title>", summary="")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.txt", "sentences"),
        ("README", "sentences"),
        ("a.py", "logical (python)"),
        ("A.V", "coq"),
        ("b.tex", "latex"),
        ("c.lean", "lean"),
    ],
)
def test_the_kind_is_guessed_by_the_name(name, expected):
    assert choose(name, None)[0] == expected


def test_a_named_segmenter_wins():
    name, segmenter = choose("a.py", "lines")
    assert name == "lines (python)" and segmenter == Lines(language="python")


@pytest.mark.parametrize("name", NAMES)
def test_every_segmenter_shows_any_text(name, file, capsys):
    assert main(["segment", str(file), "--segmenter", name, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["cuts"][-1] == len(TEXT)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.txt"], "No such file"),
        (["."], "directory"),
        (["a.txt", "--segmenter", "sentense"], "did you mean 'sentences'"),
        (["a.txt", "--html", "no/such/folder/o.html"], "No such file"),
        ([], "required: FILE"),
        (["a.txt", "--jsn"], "unrecognized arguments: --jsn"),
    ],
)
def test_faults_are_one_line(words, message, file, capsys, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert main(["segment", *words]) == 2
    fault = capsys.readouterr().err
    assert message in fault and len(fault.splitlines()) == 1


def test_broken_text_is_shown_with_a_warning(file, capsys):
    file.write_bytes(b"Yes. \xff\xfe No.")
    assert main(["segment", str(file), "--json"]) == 0
    shown = capsys.readouterr()
    assert "not UTF-8 at byte 5" in shown.err
    assert json.loads(shown.out)["characters"]["total"] == 11


def test_control_characters_do_not_reach_the_terminal():
    assert printable("\x1b[2J\0\x7f\x9b\r\n\tx\ud800") == "\u241b[2J\u2400\u2421\ufffd\n\tx\ufffd"


def test_segments_join_to_the_text():
    text = " a. B\n\nc"
    assert "".join(segments_of(text, NAMES["sentences"]().cut(text))) == text


def test_the_command_is_quick_and_loads_nothing_heavy(file):
    program = (
        f"from train.cli import main; main(['segment', {str(file)!r}]); import sys;"
        "print(sorted({'torch', 'hydra', 'spacy', 'lightning', 'tree_sitter'} & set(sys.modules)))"
    )
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        )
        seconds.append(time.perf_counter() - begin)
    assert done.stdout.splitlines()[-1] == "[]"
    assert min(seconds) < 1.5  # a third of a second on an idle machine
