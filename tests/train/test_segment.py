"""The command that shows segments: what it prints, what it refuses, what it loads."""

import dataclasses
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given

from segmenters import Auto, Lines, Sentences, Stride
from segmenters.show import CutText, page, shown, statistics
from segmenters.show.measures import summary
from segmenters.wording import escaped, visible
from tests.segmenters.texts import any_text
from train.cli import main
from train.commands.segment import Choice, colours_of
from train.data.rows.named_segmenter import named_segmenter

ROOT = Path(__file__).parents[2]
TEXT = "Dr. Brown came. He left!\n\nOne\n"  # of the fixture `file`
CODES = re.compile(r"\x1b\[[0-9;]*m")


def words_tokenizer(folder, vocabulary):
    """A tokenizer of words, written to a folder."""
    fast = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="a"))
    fast.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast.save(str(folder / "tokenizer.json"))


def cut_of(text, segmenter=None):
    return CutText.by(segmenter or Sentences(backend="rules"), text, name="a", note="prose")


def test_without_a_terminal_bars_stand_between_the_segments(file, segment):
    shown = segment(file)
    assert shown.out == "Dr. Brown came. \u2502He left!\n\n\u2551One\n"
    assert shown.err == f"{file}: prose, by default; 3 segments\n"


@given(text=any_text)
def test_what_is_shown_is_the_text(text):
    cut = cut_of(text)
    assert cut.above[1][0] == 0 and set(cut.above[1]) <= set(cut.cuts)
    seen = visible(text)
    for colours in (16, 256):
        found = CODES.sub("", "".join(shown(cut, colours)))
        assert found.replace("\u21b5", "").rstrip("\n") == seen.replace("\u21b5", "").rstrip("\n")
    bars = str.maketrans("", "", "\u2502\u2551\u2503")
    assert "".join(shown(cut)).translate(bars).rstrip("\n") == seen.translate(bars).rstrip("\n")


def test_neighbours_and_paragraphs_have_colours_of_their_own():
    found = "".join(shown(cut_of("One. Two.\n\nThree. Four."), 256))
    assert len(set(CODES.findall(found))) == 5  # four grounds and their end
    assert "\x1b[0m\n" in found and not re.search(r"m\n", CODES.sub("", found))


@pytest.mark.parametrize(
    ("environment", "wish", "colours"),
    [
        ("TERM=xterm-256color", "auto", 256),
        ("TERM=xterm", "auto", 16),
        ("TERM=xterm COLORTERM=truecolor", "auto", 256),
        ("TERM=dumb", "auto", 0),
        ("TERM=xterm-256color NO_COLOR=1", "auto", 0),
        ("TERM=xterm-256color NO_COLOR=1", "always", 256),
        ("TERM=xterm-256color", "never", 0),
    ],
)
def test_colours_are_for_terminals_that_want_them(environment, wish, colours, monkeypatch):
    for name in ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for each in environment.split():
        monkeypatch.setenv(*each.split("="))
    assert colours_of(wish, is_terminal=True) == colours
    assert colours_of(wish, is_terminal=False) == (colours if wish == "always" else 0)


def test_json_holds_the_cuts_and_the_statistics(file, facts):
    (facts,) = facts(file)
    assert facts["cuts"] == [0, 16, 26, 30] and facts["outer"] == [0, 26, 30]
    assert facts["segments"] == 3 and facts["characters"]["total"] == len(TEXT)
    assert facts["fingerprint"]["parameters"]["backend"] == "rules"
    assert (facts["segmenter"], facts["why"]) == ("prose", "by default")


def test_statistics_count_lengths_and_separators():
    facts = statistics(cut_of("One two. Three\n\nFour.\n\nx", Auto()))
    assert facts["segments"] == 4 and facts["paragraphs"] == 3
    assert facts["words"]["mean"] == 1.25 and facts["words"]["longest"] == 2
    assert facts["share_of_one_character"] == 0.25 and facts["share_of_one_word"] == 0.75
    assert statistics(cut_of("a\n\n\n\nb c\n\nd\n", Lines()))["share_of_one_word"] == 0.2857
    assert facts["separators"] == {".": 0.5, "blank line": 0.25, "none": 0.25}
    assert facts["rates"] == {".": 1.0, "blank line": 0.5, "none": None}
    assert sum(facts["histogram_of_words"].values()) == 4
    assert list(facts["histogram_of_words"])[:4] == ["0-1", "2", "3-4", "5-8"]
    windows = statistics(cut_of("a\r\n\r\nb\rc\r", Lines()))
    assert windows["rates"] == {"line end": 0.75, "blank line": 1}
    assert statistics(cut_of(""))["segments"] == 0


def test_tokens_are_counted_by_a_tokenizer(file, tmp_path, segment, facts):
    words_tokenizer(tmp_path, {"a": 0})
    words = (file, "--tokenizer", tmp_path)
    (found,) = facts(*words)
    assert found["tokens_of_segments"] == [5, 3, 1] and found["share_of_one_token"] == 0.3333
    told = segment(file, "--longest", "2 tokens", status=2).err
    assert "--longest 2 tokens: needs --tokenizer PATH" in told
    (found,) = facts(*words, "--longest", "2 tokens")
    assert max(found["tokens_of_segments"]) == 2
    told = segment(*words, "--stats").out
    assert re.search("tokens per segment +9", told) and "\u2588" in told
    assert "3 segments in 2 paragraphs; prose, by default" in told
    assert re.search(r"'\.' +33\.3% +50\.0%", told)


def test_the_page_needs_no_other_file_and_holds_the_text(file, tmp_path, segment):
    file.write_text('a < b & "c". Then.', encoding="utf-8")
    told = segment(file, "--html", tmp_path / "o.html").err
    made = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert "a &lt; b &amp; &quot;c&quot;. </i>" in made and "<script" not in made
    assert not re.search(r"(src|href)=", made) and "<hr" in made
    assert made.count("<div class=t") == made.count("<div class=t tabindex=0>") == 2
    assert made.index("<main>") < made.index("<h1>") and made.endswith("</main></body></html>\n")
    said = "segment 1, paragraph 0: 5 characters, 1 word; starts sentence after &#x27;.&#x27;"
    assert f'<i title="{said}">Then.</i>' in made
    assert "1 document\n" in told
    assert "&lt;/title&gt;" in page([cut_of("")], title="</title>")


def test_a_token_on_the_page_has_its_ids(file, tmp_path, segment):
    words_tokenizer(tmp_path, {"a": 0, "<": 1})
    file.write_text("It left. He < a\n", encoding="utf-8")
    segment(file, "--tokenizer", tmp_path, "--html", tmp_path / "o.html")
    made = (tmp_path / "o.html").read_text(encoding="utf-8")
    found = re.findall(r'<b title="token (\d+) (.*?), id (\d): inter (\d), intra (\d)">', made)
    assert [(int(inter), int(intra)) for *_, inter, intra in found] == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2),
    ]  # fmt: skip
    assert found[4][1:3] == ("&#x27;&lt;&#x27;", "1")
    drawn = re.sub(r"<[^>]*>", "", made[made.index("<pre>") : made.index("</pre>")])
    assert drawn == "It left. He &lt; a\n"


def test_two_segmenters_stand_side_by_side(file, tmp_path, segment):
    words = (file, "--beside", "lines")
    segment(*words, "--html", tmp_path / "o.html")
    made = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert made.count("<pre>") == 2 and "1 cut by both; 1 only by prose, by default; " in made
    assert re.findall(r'<i class="(\w+)"[^>]*>([^<]*)', made) == [("x", "He left!\n\n")]
    assert "--beside lines: needs --html OUT" in segment(*words, status=2).err


def test_statements_without_a_grammar_are_refused_or_called_lines(monkeypatch, segment, tmp_path):
    monkeypatch.setattr("segmenters.code.advice.find_spec", lambda name: None)
    (file := tmp_path / "m.rs").write_text("fn main() {\n  f(1,\n 2);\n}\n")
    told = segment(file, "--segmenter", "logical", status=2).err
    assert "pip install tree-sitter tree-sitter-rust" in told
    told = segment(file).err
    assert "; 100% physical lines: no grammar of rust; 4 segments" in told
    assert "26 characters: physical lines: no grammar of rust; pip install tree-sitter" in told


def test_listings_of_a_document_are_not_called_code_to_be_named(segment, tmp_path):
    (file := tmp_path / "a.md").write_text("A plan. Then:\n\n```cmake\nset(A)\nset(B)\n```\n")
    assert segment(file).err == f"{file}: markdown, by name: a.md; 6 segments\n"


def test_what_is_asked_for_wins():
    label, why, segmenter = Choice(segmenter="lines").of("", "a.py")
    assert (label, why, segmenter) == ("lines", "as asked", Lines())
    assert Choice(kind="coq").of("", "a.py")[:2] == ("coq", "by kind: coq")
    labels = {"README": "prose", "a.py": "code (python)", "A.V": "coq", "b.tex": "latex"}
    assert {name: Choice().of("", name)[0] for name in labels} == labels
    label, _, segmenter = Choice(language="Python").of("", "a.txt")
    assert label == "code (python)" and segmenter.granularity == "logical"
    assert named_segmenter("stride:length=7") == Stride(length=7)
    assert named_segmenter("lines:granularity=logical,fallback=true").fallback is True
    called = named_segmenter(
        'segmenters.Called:function=a:b,options={x: 1, y: {z: [t, u]}},names=["s","p"]'
    )
    assert called.options == {"x": 1, "y": {"z": ["t", "u"]}} and called.names == ("s", "p")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.txt", "--segmenter", "sentense"], "did you mean 'sentences'"),
        (["a.txt", "--segmenter", "stride:length=0"], "length must be"),
        (["a.txt", "--segmenter", "stride:7"], "KEY=VALUE"),
        (["a.txt", "--segmenter", "pattern"], "--segmenter pattern: "),
        (["a.txt", "--kind", "cod"], "did you mean 'code'"),
        (["a.txt", "--tokenizer", "none"], "there is no none"),
        (["a.txt", "--tokenizer", "a.txt"], "not a fast tokenizer"),
        (["a.txt", "--html", "no/o.html"], "--html no/o.html: there is no folder"),
        (["a.txt", "--html", "."], ".: cannot be written (it is no file)"),
        (["a.txt", "--longest", "0"], "at least 1, or a text such as"),
        (["binary"], "binary: a binary file (1 zero or control byte)"),
        ([], "one FILE must be given"),
        (["a.txt", "--jsn"], "there is no option --jsn; did you mean '--json'?"),
    ],
)
def test_faults_are_one_line(words, message, file, segment, monkeypatch):
    monkeypatch.chdir(file.parent)
    Path("binary").write_bytes(b"a\0b")
    fault = segment(*words, status=2).err
    assert message in fault and len(fault.splitlines()) == 1


def test_a_fault_does_not_keep_other_files_from_being_shown(file, segment):
    (file.parent / "empty" / "in").mkdir(parents=True)
    (file.parent / "empty" / ".hidden").touch()
    shown = segment("nowhere.txt", file.parent / "empty", file, status=2)
    assert "nowhere.txt: No such file" in shown.err and "He left!" in shown.out
    assert "empty: a folder without files" in shown.err


def test_an_empty_file_has_no_segments(file, segment):
    file.write_text("")
    for option in (["--stats"], ["--json"], ["--html", file.parent / "o.html"]):
        segment(file, *option)
    assert "empty, no segments" in segment(file).err


def test_broken_text_is_shown_with_a_warning(file, segment):
    file.write_bytes(b"Yes. \xff\xfe No. It is \xef\xbf\xbd.")
    shown = segment(file, "--json")
    assert "not UTF-8, the first at byte 5" in shown.err and "shown as U+FFFD: 2" in shown.err
    assert json.loads(shown.out)["characters"]["total"] == 20


def test_folders_are_tables(file, segment, facts):
    (file.parent / "b").mkdir()
    (file.parent / "b" / "c.py").write_text("x = 1\n")
    (file.parent / "b" / "d.bin").write_bytes(b"\0")
    (file.parent / ".hidden").write_text("no")
    shown = segment(file.parent)
    rows = [line.split() for line in shown.out.splitlines()]
    assert rows[0] == ["document", "segments", "words/segment", "by"]
    assert [row[-1] for row in rows[1:3]] == ["default", "c.py"]
    assert ["all", "2", "4", "2.2"] in rows and "hidden" not in shown.out
    assert "1 file is not text" in shown.err
    assert [each["segmenter"] for each in facts(file.parent)] == ["prose", "code (python)"]


def test_the_standard_input_is_a_file_too(segment, monkeypatch):
    typed = io.BytesIO(b"#!/usr/bin/env python3\nx = 1\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(typed))
    shown = segment("-")
    assert "code (python), by first line" in shown.err
    assert shown.out.split("\u2502")[-1] == "x = 1\n"


def test_whoever_reads_may_stop_reading(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("One is here. " * 100_000)
    command = f"{sys.executable} -m train.cli segment {path} | head -c 10"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, timeout=60)
    assert b"Traceback" not in done.stderr and len(done.stdout) == 10
    closed = f"{command.partition('|')[0]} --stats <&- >&-"
    assert subprocess.run(closed, shell=True, cwd=ROOT, timeout=60).returncode == 0


def test_the_locale_does_not_matter(file, monkeypatch):
    file.write_text("\u4e2d\u6587\u3002 Yes.", encoding="utf-8")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert main(["segment", str(file)]) == 0
    assert "\u4e2d\u6587\u3002" in written.getvalue().decode()


def test_what_would_steer_a_screen_or_tangle_a_line_is_made_visible():
    assert visible("\x1b[2J\0\x7f\x9b\r\n\tx\ud800") == "\u241b[2J\u2400\u2421\ufffd\n\tx\ufffd"
    assert visible("a\u200eb\u202ec\u2066d\uffff\r") == "a\ufffdb\ufffdc\ufffdd\ufffd\u240d"


@given(any_text)
def test_a_name_is_one_line_without_signs_that_steer_a_terminal(text):
    shown = escaped(text)
    assert shown.isprintable() and (shown == text) == text.isprintable()
    shown.encode("utf-8")
    assert escaped("a\x1b[2J\x07\r\n\u202e\ud800") == "a\\x1b[2J\\x07\\r\\n\\u202e\\ud800"


def test_names_of_files_are_shown_as_escapes(tmp_path, segment):
    path = tmp_path / "a\x1b]0;b\x07\rc\nd.txt"
    path.write_text("One. Two.\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b\x1b.txt").write_bytes(b"\0\xff\xfe")
    for words in ((path,), (path, "--stats"), (path, path), (path, "--why"), (path, tmp_path),
                  (path, "--html", tmp_path / "o\x1b.html")):  # fmt: skip
        said = segment(*words)
        assert not set("\x1b\x07\r") & set(said.out + said.err)
        assert "\\x1b" in said.out + said.err
    (tmp_path / "x\x1b.json").write_bytes(b"\0\xff\xfe")
    assert "\\x1b" in segment(tmp_path / "x\x1b.json", status=2).err


def test_why_names_the_rule_at_each_place(file, tmp_path, segment, facts):
    rulings = Sentences(backend="rules").why(TEXT)
    assert [ruling.place for ruling in rulings if ruling.ends] == [16, 26, 30]
    lines = segment(file, "--why").out.splitlines()
    assert lines[0] == f"{file}: prose, by default" and len(lines) == 2 + len(rulings)
    for line, ruling in zip(lines[2:], rulings, strict=True):
        place, how = line.split(maxsplit=1)
        assert int(place) == ruling.place and ruling.rule in how
        assert how.startswith("ends" if ruling.ends else "goes on")
    (found,) = facts(file, "--why")
    assert found["rulings"] == [dataclasses.asdict(ruling) for ruling in rulings]
    assert "rulings" not in facts(file)[0]
    segment(file, "--why", "--html", tmp_path / "o.html")
    page = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert all(page.count(f"<td>{ruling.place}</td>") for ruling in rulings)
    assert f"after &#x27;.&#x27;, by {rulings[0].rule}" in page or len(rulings) > 3


def test_the_command_loads_nothing_heavy(file):
    program = (
        f"from train.cli import main; main(['segment', {str(file)!r}]); import sys;"
        "print(sorted({'torch', 'hydra', 'spacy', 'lightning', 'tree_sitter', 'rich', 'tokenizers'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_levels_are_kept_counted_and_bounded(file, segment, facts):
    file.write_text("One, two; three. Four.\n")
    name = Sentences().level_names[0]
    asked = (file, "--segmenter", "clauses", "--levels", f"clause,{name}")
    assert facts(*asked)[0]["levels"] == {"clause": [0, 5, 10, 17, 23], name: [0, 17, 23]}
    assert f"levels: clause 4, {name} 2" in segment(*asked).err
    lines = (file, "--segmenter", "newline")
    assert facts(*lines, "--longest", "12")[0]["cuts"] == [0, 10, 17, 23]
    told = segment(*lines, "--levels", "page", status=2).err
    assert "levels to keep must be a number or among segment" in told


@pytest.mark.parametrize(
    ("segmenter", "text", "told"),
    [(Lines(granularity="logical", language="python"), "import a\n\ndef f():\n    b()\n",
      "4 segments in 2 parts (level method)"),
     (Sentences(), "One. Two.\n\nThree.\n", "3 segments in 2 paragraphs"),
     (Stride(length=5), "Ann: Yes.\n", "2 segments")],
)  # fmt: skip
def test_parts_of_a_level_are_not_counted_as_what_names_it(segmenter, text, told):
    assert summary(CutText.by(segmenter, text, name="a")) == told
