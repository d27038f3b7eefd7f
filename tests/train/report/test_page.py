"""The files: a well-formed page that loads nothing, escaped, equal each time; whole or absent."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters.wording import visible
from train.evals.rows import Row
from train.report.content import Section, Words, terminal_tables, texts
from train.report.formats import DAGGER
from train.report.page import all_rows, as_csv, as_json, page, statistics_page, write_report
from train.report.sections import SECTIONS, section_of, sections

HOSTILE = (
    "</title></style><script>alert('x')</script><img src=x onerror=\"y\"> & {{ 7 * 7 }} $x_1$ "
    "\x00\x07\u202e\ud800"
)
# Lone surrogates too: st.text() leaves them out unless they are asked for.
ANY_TEXT = st.text(st.characters() | st.characters(categories=["Cs"]))


def parsed(text):
    """The page as XML, which loads nothing."""
    root = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    loads = {"src", "srcset", "data", "action"}
    tags = {each.tag for each in root.iter()}
    assert not tags & {"script", "iframe", "object", "embed", "link", "img", "image"}
    for name, value in (pair for each in root.iter() for pair in each.attrib.items()):
        assert name not in loads and not name.startswith("on")
        assert name != "href" or value.startswith("#") or value.startswith("https://arxiv.org/abs/")
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    assert len(set(ids)) == len(ids)
    assert not re.search(r"url\((?!#)|@import|xlink:href", text)
    return root


def words(root):
    return "".join(root.itertext())


def whole(results, title="Title"):
    return page(sections(results), title=title, stamp="bipe", command="bipe report")


def test_the_page_is_well_formed_and_loads_nothing(make):
    text = whole(make.results(*make.four(), data=make.data()))
    root = parsed(text)
    anchors = {a.get("href", "")[1:] for a in root.iter("a") if a.get("href").startswith("#")}
    assert anchors == {section.get("id") for section in root.iter("section")}
    assert len(list(root.iter("svg"))) > 12
    assert len(root.findall(".//main/section")) == len(anchors)
    wide = [each for each in root.iter("div") if "table" in each.get("class", "").split()]
    assert wide and all(each.get("tabindex") == "0" for each in wide)  # keys scroll them
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    intro = words(root.find(".//p[@class='intro']"))
    for told in ("segment", "passkey", "bipe report"):
        assert told in intro
    for table in root.iter("table"):
        held = [words(cell) for cell in table.iter("span") if cell.get("class") == "model"]
        names = ["RoPE", "BiPE-RoPE", "ALiBi", "BiPE-ALiBi"]
        assert held == names * (len(held) // 4)


@given(ANY_TEXT)
def test_any_text_is_shown_as_it_is_and_can_be_encoded(text):
    made = page([Section("a", "b", [Words(text)])], title="t")
    shown = ElementTree.fromstring(made.removeprefix("<!DOCTYPE html>\n")).find(".//section/p").text
    made.encode("utf-8")
    assert (shown or "") == visible(text)


def hostile(make):
    one = make.run(name="[red]a", sources=("prose", HOSTILE))
    one.rows += [replace(row, task=HOSTILE, note=HOSTILE, source="", depth=row.depth)
                 for row in one.rows if row.measure == "accuracy"]  # fmt: skip
    one.rows += [Row(measure=HOSTILE, unit=HOSTILE, length=n, value=1.0) for n in (1, 2)]
    one.rows += [Row(measure="perplexity", source="prose", length=n, value=2.0, variant=HOSTILE)
                 for n in (1, 2)]  # fmt: skip
    one.rows.append(Row(measure="left_out", value=None, note=HOSTILE))
    one.environment = dict.fromkeys(one.environment, HOSTILE)
    one.config |= {HOSTILE: {HOSTILE: HOSTILE}}
    one.notes["sources"] = {HOSTILE: 1.0}
    return one


def test_hostile_text_is_shown_and_never_markup(make, tmp_path):
    content = make.statistics(sources=(HOSTILE,))
    stated, held = (content[name]["sources"][HOSTILE] for name in ("manifest", "statistics"))
    stated |= {"licence": HOSTILE, "provenance": HOSTILE, "segmenter": {"segmenter": HOSTILE}}
    held["sample"] = {"document": HOSTILE, "split": "test", "text": HOSTILE,
                      "cuts": [0, 7, len(HOSTILE)]}  # fmt: skip
    results = make.results(hostile(make), make.run(name="b"), data=make.data(content))
    files, shown = write_report(results, out=tmp_path, title=HOSTILE, command=HOSTILE,
                                coming=["alibi", HOSTILE])  # fmt: skip
    text = files.html.read_text(encoding="utf-8")
    root = parsed(text)
    assert words(root).count("<script>alert('x')</script>") > 20 and "49" not in words(root)[:90]
    assert json.loads(files.json.read_text(encoding="utf-8"))["title"] == visible(HOSTILE)
    assert f"Still to come: alibi, {visible(HOSTILE)}. Until then" in words(root)
    names = [str(cell) for cell in terminal_tables(shown)[0].columns[0].cells]
    assert names[0] == "prose" and "[red]a" in names


def test_a_passage_comes_back_whole_from_its_coloured_segments(make):
    results = make.results(make.run(), data=make.data(make.statistics(sources=("code",))))
    passage = results.sources["code"]["sample"]
    root = parsed(page([section_of(results, "segments")], title="t"))
    spans = [s for s in root.iter("span") if s.get("class", "").startswith("segment ")]
    assert len(spans) == len(passage["cuts"]) - 1
    drawn = ""
    for span in spans:
        span.find("sup").text = ""
        drawn += words(span)
    for mark, blank in (("\u21b5\n", "\n"), ("\u2192\t", "\t"), ("\u00b7", " ")):
        drawn = drawn.replace(mark, blank)
    assert drawn == passage["text"]
    empty = {"sources": {}, "segment_edges": [1]}
    assert "Not counted" in words(parsed(statistics_page(empty)))


def bare(make):
    return [make.Made(name="bare", seed=None, notes={}, losses=(), rows=[])]


def names_alike(make):
    return [make.run(sources=("prose", "Prose", "prose 2"))]


def long_names(make):
    made = [make.run(name=f"{seed} long name " * 9, sources=("prose",)) for seed in range(5)]
    for width, one in enumerate(made):
        one.rows = [row for row in one.rows if row.length in (None, 512)]
        one.config["width"], one.notes["row_length"] = width, 300
    return made


def many_magnitudes(make):
    one = make.run()
    for length, value in ((512, 4.0), (1024, 1e80), (8192, 1e300)):
        one.change("perplexity", value, length=length)
    return [one.change("nll_by_position", -1e300), make.run("ALiBi").change("perplexity", 0.0)]


@pytest.mark.parametrize("runs", [bare, names_alike, long_names, many_magnitudes])
def test_unusual_runs_are_a_page(make, runs):
    text = whole(make.results(*runs(make)))
    assert not re.search(r"\b(nan|None|inf)\b", words(parsed(text)))
    assert "Still to come" not in text


@pytest.mark.parametrize("value", [None, math.inf])
def test_a_value_that_is_not_finite_is_a_dagger_that_is_explained(make, value):
    one = make.run(bilevel=True, sources=("prose",))
    for measure in ("perplexity", "bits_per_byte", "nll", "nll_by_position", "accuracy"):
        one.change(measure, value)
    results = make.results(one)
    text = whole(results)
    seen = words(parsed(text))
    assert seen.count(DAGGER) > 12 and f"{DAGGER} no finite value" in seen
    assert not re.search(r"\b(nan|inf)\b", text)
    told = as_json(all_rows(results), title="t")
    assert "NaN" not in told and "Infinity" not in told


def test_the_csv_and_the_json_hold_every_number(make):
    one = make.run()
    results = make.results(one, data=make.data())
    table = all_rows(results)
    lines = list(csv.DictReader(io.StringIO(as_csv(table))))
    rows = json.loads(as_json(table, title="t"))["rows"]
    assert len(lines) == len(rows) > 150
    for line, row in zip(lines, rows, strict=True):
        for key, value in row.items():
            if isinstance(value, str):
                assert line[key] == value
            else:
                assert (float(line[key]) if line[key] else None) == value
    held = {(row["measure"], row.get("source"), row.get("length"), row["value"]) for row in rows}
    assert all((row.measure, row.source or None, row.length, row.value) in held for row in one.rows)
    assert ("documents", "prose", 256, 20) in held and ("tokens", "code", None, 1_600_000) in held


def test_the_report_is_files_of_one_name_and_the_same_bytes_each_time(make, tmp_path):
    one = make.run()
    one.rows = [row for row in one.rows if row.measure == "perplexity" and row.source == "prose"]
    results, pairs = make.results(one), []
    for formats in (["pdf", "png"], []):
        out = tmp_path / f"{len(formats)}" / "deep" / "page.html"
        written, _ = write_report(results, out=out, title="T", formats=formats)
        assert written.html == out and written.figures.exists() == bool(formats)
        files = {path.name: path.read_bytes() for path in out.parent.iterdir() if path.is_file()}
        assert set(files) == {"page.csv", "page.html", "page.json"}
        report = json.loads(files.pop("page.json"))
        figures = {path.name for path in written.figures.glob("*")}
        assert set(report.pop("figures")) == figures
        assert figures >= {f"perplexity_prose.{suffix}" for suffix in formats}
        pairs.append((files, report))
    assert pairs[0] == pairs[1]
    assert files["page.csv"].startswith(b"run,arm,seed,variant,source,task,measure,unit")


def test_a_report_removes_only_the_figures_that_it_wrote(make, tmp_path):
    two, one = make.results(make.run()), make.results(make.run(name="b", sources=("prose",)))
    files, _ = write_report(two, out=tmp_path, title="T", formats=["png"])
    other = (files.figures / "holiday.png", files.figures / "notes.txt", tmp_path / "a.png")
    for path in other:
        path.write_text("mine")
    assert (files.figures / "perplexity_code.png").exists()
    write_report(one, out=tmp_path, title="T")  # no figures asked for: none removed
    assert (files.figures / "perplexity_code.png").exists()
    write_report(one, out=tmp_path, title="T", formats=["png"])
    assert not (files.figures / "perplexity_code.png").exists()
    assert (files.figures / "perplexity_prose.png").exists()
    report = json.loads(files.json.read_text(encoding="utf-8"))
    report["figures"] += ["../a.png", "notes.txt", "/etc/passwd", 3, None]
    files.json.write_text(json.dumps(report))
    write_report(two, out=tmp_path, title="T", formats=["pdf"])
    assert all(path.read_text() == "mine" for path in other)
    assert not (files.figures / "perplexity_prose.png").exists()


def test_each_section_has_its_words_and_each_word_its_section():
    assert set(SECTIONS) == set(texts())
