"""Records: what one is in each format, the laws of their machines, and broken files."""

import pytest

from segmenters import Records, route
from segmenters.records.reading import LONGEST
from segmenters.records.records import FORMATS
from segmenters.registry import ROUTES
from tests.segmenters.record_samples import SAMPLES, text_of, with_marks
from tests.segmenters.texts import pieces


def segments(text, format):
    return pieces(text, Records(format=format))


def test_each_format_has_a_sample_and_a_route():
    assert sorted(SAMPLES) == sorted(FORMATS)
    assert set(FORMATS) <= set(ROUTES)


@pytest.mark.parametrize("format", SAMPLES)
def test_segments_are_the_records_that_readers_of_the_format_expect(format):
    text = text_of(format)
    assert with_marks(text, Records(format=format).levels(text)) == SAMPLES[format][1:]


@pytest.mark.parametrize(
    ("format", "opening", "record"),
    [
        ("csv", '"never closed,', "1,2,3\n"),
        ("tsv", '"never closed\t', "1\t2\n"),
        ("toml", "a = [1,\n", "[table]\nb = 1\n"),
        ("toml", 'a = """\n', "b = 1\n"),
        ("hcl", "a = [\n", 'resource "a" "b" {\n}\n'),
        ("yaml", 'a: "never closed\n', "b: 1\n"),
        ("yaml", "a: [1,\n", "b: 1\n"),
        ("bibtex", "@a{k, t = {x\n", "@book{b,\n t = 1}\n"),
        ("makefile", "define A\n", "a: b\n"),
        ("sql", "SELECT 'never closed;\n", "SELECT 1;\n"),
        ("sql", "SELECT $a$ never closed;\n", "SELECT 1;\n"),
        ("sql", "/* never closed;\n", "SELECT 1;\n"),
        ("sql", "CREATE PROCEDURE p AS BEGIN\n", "SELECT 1;\n"),
        ("dockerfile", "RUN cat <<EOF\n", "RUN x\n"),
        ("gherkin", 'Scenario: a\n"""\n', "Scenario: b\n Given c\n"),
        ("json", '{"a": [1,\n', '{"b": 1}\n'),
        ("json", "[\n[[\n", '{"b": [1]},\n'),
    ],
)
def test_what_is_never_closed_does_not_swallow_the_rest(format, opening, record):
    # A block of SQL may be longer than what else is never closed.
    text = opening + record * ((150_000 if "BEGIN" in opening else 45_000) // len(record))
    assert max(map(len, segments(text, format))) <= 5 * LONGEST
    assert len(segments(text, format)) > 500


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-02T03:04:05.678Z INFO a",
        "2026-01-02 03:04:05,678 - root - INFO - a",
        "[2026-01-02 03:04:05] a",
        "2026/01/02 03:04:05 [error] 1#1: a",
        "Jan  2 03:04:05 host a[1]: b",
        "<34>1 2026-01-02T03:04:05Z host a - - b",
        "[Fri Sep 09 10:42:29.902022 2011] [core:error] a",
        '10.0.0.1 - bob [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1',
        "E0102 03:04:05.678901   1 main.go:3] a",
        "01-02 03:04:05.678  1  2 D Tag: a",
        "081109 203518 143 INFO dfs.DataNode: a",
        "- 1117838570 2005.06.03 R02-M1 a",
        "03:04:05.678 [main] DEBUG a",
        "[   12.345678] usb 1-1: a",
        "02.01.2026 03:04:05 *INFO* a",
        "time=2026-01-02T03:04:05Z level=info msg=a",
        '{"ts": 1, "msg": "a"}',
        "INFO  [main] 2026-01-02 03:04:05 a",
    ],
)
def test_log_records_start_with_times_of_many_kinds(line):
    record = f"{line}\nTraceback (most recent call last):\n  File b\nValueError: c\nfree text\n"
    assert segments(record * 3, "log") == [record] * 3

    # Without times each line that is not indented is a record.
    for record in ("plain line\n", "WARNING:root:text\n  more\n", "a\n\tat b\n"):
        assert segments(record * 3, "log") == [record] * 3


def test_the_format_is_decided_by_name_or_looks():
    names = {"a.srt": "srt", "Dockerfile": "dockerfile", "dir/Makefile": "makefile"}
    names |= {"x.yml": "yaml", "pyproject.toml": "toml", "setup.cfg": "ini", "de.po": "po"}
    names |= {"q.sql": "sql", "main.tf": "hcl", "out.log": "log"}
    names |= {"requirements.txt": "requirements"}
    for name, format in names.items():
        assert route(name=name) == format
        assert Records().choose(text="", name=name) == Records(format=format)
    texts = {format: text_of(format) for format in ("srt", "vtt", "po", "ics", "log", "sql")}
    texts |= {"dockerfile": text_of("dockerfile"), "csv": "a,b,c\n1,2,3\n4,5,6\n7,8,9\n"}
    texts |= {"bibtex": "@article{a,\n  year = 1\n}\n"}
    texts |= {"gitlog": f"commit {'0a' * 20}\nAuthor: A\n"}
    assert {format: route(text=text) for format, text in texts.items()} == {f: f for f in texts}


def test_json_is_code_unless_records_are_asked_for():
    assert route(name="a.json", text="[1]") == "code"
    assert Records().choose(text="[1]", name="a.json") == Records(format="json")
    assert Records().choose(text="x", name="a.py") == Records()
