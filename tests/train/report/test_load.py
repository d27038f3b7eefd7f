"""Loading: what is right arrives whole; what is wrong is named by file and key."""

import json
import math

import pytest

from segmenters import Newline
from train.data.preparing.prepare import prepare
from train.data.preparing.source import Corpus, Source
from train.data.reading.files import JSONL
from train.data.reading.split import Split
from train.data.tokenizing.vocabulary import TrainBPE
from train.errors import ReportError
from train.report.load import load_runs, load_statistics


def broken(content, path, value):
    """The content with one value replaced; the path is dotted."""
    *parents, last = path.split(".")
    place = content
    for name in parents:
        place = place[name]
    place[last] = value
    return content


def test_runs_keep_the_order_in_which_they_are_given(make):
    folders = make.runs()
    names = [run.label for run in load_runs(folders)]
    assert names == ["RoPE", "BiPE-RoPE", "ALiBi", "BiPE-ALiBi"]
    assert [run.label for run in load_runs(folders[::-1])] == names[::-1]


def test_null_and_nan_and_infinity_are_numbers_that_are_not_finite(make):
    content = make.evaluation()
    values = [None, math.nan, math.inf, -math.inf, 3]
    content["perplexity"]["sources"]["prose"]["perplexity"] = values
    (run,) = make.loaded(content)
    read = run.scores["prose"].perplexity
    assert [math.isfinite(value) for value in read] == [False] * 4 + [True]
    assert math.isnan(read[0]) and read[2] == math.inf


def test_runs_of_one_name_are_told_apart_by_seed_and_then_by_order(make):
    runs = make.loaded(make.evaluation(), make.evaluation(seed=1), make.evaluation(seed=1))
    labels = [run.label for run in runs]
    assert labels == ["RoPE (seed 0)", "RoPE (seed 1) (run 2)", "RoPE (seed 1) (run 3)"]


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("format", "other", "'bipe-evaluation/1'"),
        ("model.levels", "three", "'flat' or 'bilevel'"),
        ("model.name", 3, "a string"),
        ("model.parameters", -1, "a whole number of at least 0"),
        ("training.row_length", 0, "a whole number of at least 1"),
        ("training.seconds", "long", "a number or null"),
        ("training.seconds", True, "a number or null"),
        ("training.seconds", 10**400, "a float can hold"),
        ("training.curve", {}, "a list"),
        ("perplexity.sources", {}, "at least one source"),
        ("perplexity.sources.prose.lengths", [512, 512, 1024, 2048, 4096], "increasing"),
        ("perplexity.sources.prose.perplexity", [1.0], "a list of 5 values (1 given)"),
        ("perplexity.sources.prose.by_position.edges", [0], "at least two edges"),
        ("passkey.accuracy", [[0.1]], "5 rows"),
        ("passkey.depths", [], "at least one depth"),
        ("environment", [], "a mapping"),
    ],
)
def test_a_wrong_value_is_named_by_file_and_key(make, key, value, rule):
    content = make.evaluation(passkey=key != "perplexity.sources")
    (folder,) = make.runs(broken(content, key, value))
    with pytest.raises(ReportError) as caught:
        load_runs([folder])
    message = str(caught.value)
    assert str(folder / "evaluation.json") in message
    assert key in message
    assert rule in message


def test_what_nobody_noted_about_a_training_is_no_error(make):
    content = make.evaluation()
    content["training"] |= {"tokens": None, "steps": None, "seconds": None, "seed": None}
    (run,) = make.loaded(content)
    assert math.isnan(run.training.steps) and run.training.seed is None


def test_a_missing_key_is_named_with_the_keys_that_are_there(make):
    content = make.evaluation()
    del content["training"]["seed"]
    with pytest.raises(ReportError, match=r"training\.seed is missing; .*row_length, tokens"):
        make.loaded(content)


def test_a_folder_without_an_evaluation_names_the_cure(tmp_path):
    with pytest.raises(ReportError, match=r"evaluation\.json: .*no such file; `bipe evaluate`"):
        load_runs([tmp_path])


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b"[" * 100_000])
def test_a_file_that_is_no_json_mapping_is_named(tmp_path, content):
    (tmp_path / "evaluation.json").write_bytes(content)
    with pytest.raises(ReportError, match=r"evaluation\.json: (cannot be read|must hold)"):
        load_runs([tmp_path])


def test_no_run_at_all_is_an_error():
    with pytest.raises(ReportError, match="runs must name at least one"):
        load_runs([])


def test_a_sample_whose_cuts_do_not_tile_it_is_named(make):
    content = make.statistics()
    content["statistics"]["sources"]["code"]["sample"]["cuts"][-1] += 1
    with pytest.raises(ReportError, match=r"sources\.code\.sample\.cuts must be offsets"):
        make.loaded_data(content)


def test_a_data_folder_without_statistics_names_the_cure(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ReportError, match=r"statistics\.json: .*`bipe prepare`"):
        load_statistics(tmp_path)


def test_what_preparation_writes_can_be_read(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    lines = [" ".join(["word"] * number) + "\n" for number in range(1, 40)]
    rows = [{"id": f"doc{n}", "text": "".join(lines[:n])} for n in range(1, 40)]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepare(
        Corpus(
            sources={
                "tiny": Source(documents=JSONL(path=corpus, id_key="id"), segmenter=Newline())
            },
            tokenizer=TrainBPE(vocab_size=270),
            split=Split(validation=0.2, test=0.3),
        ),
        out=tmp_path / "data",
        progress=False,
    )
    statistics = load_statistics(tmp_path / "data")["tiny"]
    assert statistics.documents == 39
    assert sum(statistics.lengths.histogram) == statistics.lengths.segments
    assert sum(bucket.documents for bucket in statistics.buckets) == statistics.documents
    assert statistics.sample is not None and len(statistics.sample.cuts) > 2
