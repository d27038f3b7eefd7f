"""What the pages about segmenters and encodings show, runs; what they name, is there."""

import json
import re
from pathlib import Path

import numpy as np
from hypothesis import given

from benchmarks import compositions, retrofit
from segmenters import Segmenter
from segmenters.registry import SEGMENTERS
from tests.segmenters.texts import any_text

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "segmenters.md").read_text(encoding="utf-8")
ENCODINGS = (ROOT / "docs" / "encodings.md").read_text(encoding="utf-8")


def written() -> Segmenter:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict = {"__name__": "yours"}
    exec(compile(code, "segmenters.md", "exec", dont_inherit=True), names)
    return names["Pauses"]()


@given(text=any_text)
def test_the_segmenter_of_the_page_keeps_the_laws(text):
    segmenter = written()
    cuts = segmenter.cut(text)
    assert cuts[0] == 0 and cuts[-1] == len(text) and (np.diff(cuts) > 0).all()
    for stop in range(len(text)):
        sure = max(0, stop - segmenter.lookahead)
        short = segmenter.cut(text[:stop])
        assert short[short <= sure].tolist() == cuts[cuts <= sure].tolist()
    machine = segmenter.machine()
    found = [cut for character in text for cut in machine.push(character)] + machine.close()
    assert [cut for cut in found if 0 < cut < len(text)] == cuts[1:-1].tolist()


def test_the_page_names_what_there_is():
    table = PAGE[PAGE.index("| your documents") : PAGE.index("`auto` decides")]
    column = [row.split("|")[2] for row in table.splitlines()[2:] if row.startswith("|")]
    named = re.findall(r"`(\w+)`", " ".join(column))
    assert named and set(named) <= set(SEGMENTERS)


def test_the_tables_of_comparisons_are_those_of_the_results():
    assert "\n".join(compositions.tables()) in ENCODINGS
    page = (ROOT / "docs" / "retrofit.md").read_text()
    assert all(
        "\n".join(retrofit.table(file)) in page for file in (retrofit.RESULTS, retrofit.RATES)
    )


def test_the_table_of_27_million_weights_is_that_of_the_results():
    results = json.loads((ROOT / "benchmarks/results/scale_27m_gpu.json").read_text())["perplexity"]
    models = list(results["prose"])
    rows = re.findall(r"^\| (?:\S+|FoX, segments) (?:\| [\d.]+ ){12}\|$", ENCODINGS, re.MULTILINE)
    assert [row.split("|")[1].strip() for row in rows] == models
    for row, model in zip(rows, models, strict=True):
        lengths = (results[source][model] for source in ("prose", "latex", "proofs", "code"))
        values = [found[n][0] for found in lengths for n in ("1024", "2048", "16384")]
        shown = row.split("|")[2:-1]
        assert [f"{v:.1f}" if v >= 10 else f"{v:.2f}" for v in values] == [s.strip() for s in shown]


def test_the_tables_of_the_page_name_encodings_that_are_there_once():
    there = {path.stem for path in (ROOT / "conf" / "encoding").glob("*.yaml")}
    rows = re.findall(r"^\| `(\w+)` \|", ENCODINGS, re.MULTILINE)
    assert len(rows) == len(set(rows))
    # A new encoding takes a file and a YAML; its row here can follow.
    assert there >= {*rows} and "`encoding=bilevel " in ENCODINGS


def test_the_page_of_reports_names_tests_that_are_there():
    page = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    rows = [row for row in page.splitlines() if "](https://" in row]
    assert len(rows) > 40
    assert all((ROOT / "tests" / row.split("|")[-2].strip()).is_file() for row in rows)
