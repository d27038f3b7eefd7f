"""From documents to a report: the commands one after the other, as a user types them."""

import csv
import json
import re

import pytest
import torch

from bipe import Positions
from bipe.checkpoint import load_model
from tests.train.studies import curve, losses, pretrain, same_weights, weights
from train.cli import main
from train.fit.runs import CONFIG, EVALUATION, METRICS, MODEL, read_config

ENCODINGS = ("rope", "bipe_rope", "alibi", "bipe_alibi")
NAMES = {"rope": "RoPE", "bipe_rope": "BiPE-RoPE", "alibi": "ALiBi", "bipe_alibi": "BiPE-ALiBi"}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A whole study: prepared, four models trained in a sweep, evaluated, reported."""
    out = tmp_path_factory.mktemp("study")
    words = ["experiment=smoke", f"out={out}"]
    assert main(["prepare", *words]) == 0
    sweep = ",".join(ENCODINGS)
    assert main(["pretrain", "-m", *words, f"encoding={sweep}"]) == 0
    assert main(["evaluate", *words]) == 0
    assert main(["report", *words, "report.title='<b>Smoke</b> & mirrors'"]) == 0
    return out


def evaluation(study, name):
    return json.loads((study / name / EVALUATION).read_text())


def test_the_folder_holds_what_was_promised(study):
    runs = {path.name for path in study.iterdir() if path.is_dir()}
    assert runs == {"data", *ENCODINGS}
    files = {path.name for path in study.iterdir() if path.is_file()}
    assert {"report.html", "report.csv", "report.json"} <= files
    for name in ENCODINGS:
        inside = {path.name for path in (study / name).iterdir()}
        assert inside == {CONFIG, METRICS, "checkpoints", MODEL, EVALUATION}
        assert len(list((study / name / "checkpoints").glob("*.ckpt"))) == 2


def test_nothing_temporary_is_left(study):
    assert [path for path in study.rglob("*") if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_model_learns_from_the_same_rows(study, name):
    assert losses(study / name)[-1] < losses(study / name)[0] - 0.2
    assert [row["step"] for row in curve(study / name)] == [1, 2, 3, 4, 5, 6]
    assert [row["tokens"] for row in curve(study / name)] == [256 * step for step in range(1, 7)]


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_trained_model_serves_without_the_commands(study, name):
    model, notes = load_model(study / name / MODEL)
    assert notes["row_length"] == 64
    assert notes["steps"] == 6
    assert notes["tokens"] == 6 * 256
    assert notes["tokenizer"]["vocab_size"] == model.config.vocab_size
    marks = torch.zeros(1, 10, dtype=torch.uint8)
    assert model.logits(marks.long(), Positions.from_marks(marks)).isfinite().all()


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_evaluation_has_its_numbers_and_their_protocol(study, name):
    found = evaluation(study, name)
    assert found["model"]["name"] == NAMES[name]
    assert found["model"]["levels"] == ("bilevel" if name.startswith("bipe") else "flat")
    source = found["perplexity"]["sources"]["proofs"]
    assert source["lengths"] == [64, 128, 256]
    assert all(100 < value < 300 for value in source["perplexity"])
    assert len(set(source["tokens_scored"])) == 1
    assert "scored are all tokens but those at multiples of 64" in found["perplexity"]["protocol"]
    assert found["passkey"]["chance"] == 0.25
    assert found["training"]["steps"] == 6
    assert torch.__version__.startswith(found["environment"]["torch"].partition("+")[0])
    assert found["config"] == read_config(study / name)
    count = sum(value.size for value in weights(study / name).values())
    assert found["model"]["parameters"] == count


def test_the_report_is_one_page_that_needs_nothing_else(study):
    page = (study / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>") or page.startswith("<!doctype html>")
    assert re.findall(r'(?:src|href)\s*=\s*"(?!#|data:)[^"]*"', page) == []
    assert "<script" not in page
    assert "&lt;b&gt;Smoke&lt;/b&gt; &amp; mirrors" in page
    for name in NAMES.values():
        assert name in page
    assert "<svg" in page


def test_the_numbers_of_the_report_are_those_of_the_evaluations(study):
    with (study / "report.csv").open() as file:
        table = list(csv.DictReader(file))
    listed = json.loads((study / "report.json").read_text())["rows"]
    for name in ENCODINGS:
        source = evaluation(study, name)["perplexity"]["sources"]["proofs"]
        for measure in ("perplexity", "bits_per_byte"):
            expected = dict(zip(source["lengths"], source[measure], strict=True))
            of_this = (NAMES[name], measure)
            for rows in (table, listed):
                assert {
                    int(row["length"]): float(row["value"])
                    for row in rows
                    if (row.get("model"), row["measure"]) == of_this
                } == expected


def test_evaluating_again_gives_the_same_numbers(study, tmp_path):
    before = evaluation(study, "rope")
    words = ["experiment=smoke", f"out={study}", f"evaluate.runs={study}/rope"]
    assert main(["evaluate", *words]) == 0
    after = evaluation(study, "rope")
    for part in ("perplexity", "passkey", "model", "training", "config"):
        assert before[part] == after[part], part


def test_training_again_gives_the_same_model(study, tmp_path):
    run = pretrain(f"data={study}/data", f"out={tmp_path}", "encoding=bipe_alibi")
    assert same_weights(run, study / "bipe_alibi")
    other = pretrain(f"data={study}/data", f"out={tmp_path}/other", "encoding=alibi", "seed=1")
    assert not same_weights(other, study / "alibi")


def test_lengths_without_room_for_a_passkey_are_reported_without_one(study, tmp_path, capsys):
    words = ["experiment=smoke", f"data={study}/data", f"out={tmp_path}", "row_length=16"]
    assert main(["pretrain", *words, "steps=1"]) == 0
    assert main(["evaluate", *words, "evaluate.lengths=[1]"]) == 0
    assert "passkey is left out: no length has room" in capsys.readouterr().err
    assert main(["report", *words]) == 0
    assert (tmp_path / "report.html").exists()


def test_a_model_of_other_data_is_not_evaluated(study, tmp_path, capsys):
    words = ["experiment=smoke", f"out={tmp_path}", "corpus.tokenizer.vocab_size=1000"]
    words += ["corpus.sources.proofs.segmenter._target_=segmenters.Newline"]
    words += ["corpus.sources.proofs.documents.seed=5"]
    assert main(["prepare", *words]) == 0
    capsys.readouterr()
    status = main(["evaluate", *words, f"evaluate.runs={study}/rope"])
    assert status == 2
    assert "it was trained on other data" in capsys.readouterr().err


@pytest.mark.parametrize("packing", ["concat", "best_fit", "long_first"])
@pytest.mark.parametrize("split", ["restart", "continue"])
def test_every_packing_trains(smoke, packing, split):
    words = (f"rows={packing}", f"rows.split_documents={split}", "steps=2")
    run = pretrain(*smoke, *words)
    assert losses(run)[1] < losses(run)[0]


@pytest.mark.parametrize(
    "words",
    [
        ("encoding=nope",),
        ("encoding=learned",),
        ("encoding=sinusoidal",),
        ("encoding=bilevel", "encoding@encoding.intra=sinusoidal"),
        ("encoding=bilevel", "encoding@encoding.inter=nope"),
        ("schedule=wsd", "schedule.warmup=1"),
        ("schedule=linear", "schedule.warmup=1"),
        ("schedule=constant", "schedule.warmup=1"),
        ("attention=eager",),
        ("validate_every=null",),
        ("rows.validation_rows=0",),
    ],
    ids=" ".join,
)
def test_every_choice_trains(smoke, words):
    run = pretrain(*smoke, "steps=2", *words)
    assert losses(run)[1] < losses(run)[0]
    last = curve(run)[-1]["validation_loss"]
    assert (last is None) == ("validate_every=null" not in words)
