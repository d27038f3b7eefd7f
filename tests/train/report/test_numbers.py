"""CSV and JSON: the same numbers, whole, and equal to the inputs."""

import csv
import io
import json
import math

import pytest

from train.report.numbers import as_csv, as_json, rows
from train.report.terminal import summary_table


def numbers_in(value):
    """Every number of a nested value."""
    if isinstance(value, dict):
        return [n for inner in value.values() for n in numbers_in(inner)]
    if isinstance(value, list):
        return [n for inner in value for n in numbers_in(inner)]
    return [] if isinstance(value, (str, bool)) or value is None else [value]


@pytest.fixture
def table(make):
    content = make.four()
    content[0]["perplexity"]["sources"]["prose"]["perplexity"][3:] = [None, math.inf]
    return rows(make.loaded(*content), make.loaded_data())


def test_every_number_of_the_json_is_in_the_same_line_of_the_csv(table):
    lines = list(csv.DictReader(io.StringIO(as_csv(table))))
    told = json.loads(as_json(table, title="t"))["rows"]
    assert len(lines) == len(told) > 1000
    for line, row in zip(lines, told, strict=True):
        for key, value in row.items():
            if isinstance(value, str):
                assert line[key] == value
            else:
                assert (float(line[key]) if line[key] else None) == value


def test_every_measured_number_of_the_inputs_is_in_the_rows(make):
    content = make.evaluation()
    (run,) = make.loaded(content)
    held = {v for row in rows([run], {}) for v in (row.value, row.low, row.high, row.depth,
            row.length, row.seed)}  # fmt: skip
    for part in ("training", "perplexity", "passkey"):
        assert set(numbers_in(content[part])) <= held


def test_statistics_are_in_the_rows(make):
    content = make.statistics()
    held = {v for row in rows([], make.loaded_data(content)) for v in (row.value, row.document_low,
            row.document_high)}  # fmt: skip
    for source in content["statistics"]["sources"].values():
        assert set(numbers_in(source["tokens_per_segment"])) <= held
        assert set(numbers_in(source["by_document_length"])) <= held


def test_values_that_are_not_finite_are_null_with_a_note(table):
    noted = [row for row in table if row.note]
    assert [(row.value, row.note, row.length) for row in noted] == [
        (None, "not finite: nan", 4096),
        (None, "not finite: inf", 8192),
    ]
    assert "NaN" not in as_json(table, title="t")


def test_runs_keep_their_order(table):
    seen = list(dict.fromkeys(row.model for row in table if row.model))
    assert seen == ["RoPE", "BiPE-RoPE", "ALiBi", "BiPE-ALiBi"]


def test_the_terminal_table_has_a_line_a_model_and_source_and_reads_no_markup(make):
    content = make.four()
    content[0]["model"]["name"] = "[red]RoPE[/red]"
    runs = make.loaded(*content)
    table = summary_table(runs)
    first = [str(cell) for cell in table.columns[0].cells]
    assert first.count("[red]RoPE[/red]") == 4
    assert len(first) == 4 + 4 * 4
    assert table.columns[0].header == "model"


def test_the_terminal_table_does_without_retrieval(make):
    table = summary_table(make.loaded(make.evaluation(passkey=False)))
    assert "passkey found" not in [str(cell) for cell in table.columns[0].cells]
