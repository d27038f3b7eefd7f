"""From documents to a report: the commands one after the other, as a user types them."""

import csv
import json

import pytest
import torch

from bipe import Positions
from bipe.checkpoint import load_model
from tests.train.studies import curve, losses, pretrain
from train.cli import main
from train.evals.rows import FILE, Journal
from train.fit.checkpoints import Place
from train.fit.runs import CONFIG, ENVIRONMENT, METRICS, MODEL, SESSIONS, read_config
from train.fit.trained_run import read_run

NAMES = {"rope": "RoPE", "bipe_alibi": "BiPE-ALiBi"}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A whole study: prepared, two models trained in a sweep, evaluated."""
    out = tmp_path_factory.mktemp("study")
    words = ["experiment=smoke", f"out={out}"]
    assert main(["prepare", *words]) == 0
    sweep = ",".join(NAMES)
    assert main(["pretrain", "-m", *words, f"encoding={sweep}"]) == 0
    assert main(["evaluate", *words]) == 0
    return out


@pytest.fixture(scope="module")
def reported(study):
    words = ["experiment=smoke", f"out={study}", "report.title='<b>Smoke</b> & mirrors'"]
    assert main(["report", *words, "report.figures=[pdf]"]) == 0
    assert list((study / "report_figures").glob("perplexity_*.pdf"))
    assert all((study / f"report.{suffix}").is_file() for suffix in ("html", "csv", "json"))
    return study


def measured(study, name, measure):
    """The rows of a measure in the journal of a run."""
    rows = Journal(study / name / FILE).rows()
    return [row for row in rows if row.measure == measure]


def test_the_folder_holds_what_was_promised(study):
    runs = {path.name for path in study.iterdir() if path.is_dir()}
    assert runs == {"data", *NAMES}
    for name in NAMES:
        inside = {path.name for path in (study / name).iterdir()}
        assert inside == {CONFIG, METRICS, SESSIONS, "checkpoints", MODEL, FILE, ENVIRONMENT}
        assert len(list((study / name / "checkpoints").glob("*.ckpt"))) == 2
    assert [path for path in study.rglob("*") if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_model_learns_from_the_same_rows_and_serves_without_the_commands(study, name):
    assert losses(study / name)[-1] < losses(study / name)[0] - 0.2
    steps = [(row["step"], row["tokens"]) for row in curve(study / name)]
    assert steps == [(step, 256 * step) for step in range(1, 7)]
    model, notes = load_model(study / name / MODEL)
    assert (notes["row_length"], notes["steps"], notes["tokens"]) == (64, 6, 6 * 256)
    assert notes["tokenizer"]["vocab_size"] == model.config.vocab_size
    marks = torch.zeros(1, 10, dtype=torch.uint8)
    assert model.logits(marks.long(), Positions.from_marks(marks)).isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_an_evaluation_has_its_numbers_and_their_protocol(study, name):
    perplexities = measured(study, name, "perplexity")
    assert [(row.source, row.length) for row in perplexities] == [
        ("proofs", length) for length in (256, 128, 64)
    ]
    assert all(100 < row.value < 300 for row in perplexities)
    assert len({row.value for row in measured(study, name, "tokens_scored")}) == 1
    assert "all tokens are scored except those at multiples of 64" in perplexities[0].note
    assert {row.value for row in measured(study, name, "chance")} == {0.25}
    assert {row.task for row in measured(study, name, "accuracy")} == {"passkey"}
    environment = json.loads((study / name / ENVIRONMENT).read_text())
    assert torch.__version__.startswith(environment["torch"].partition("+")[0])


def test_the_numbers_of_the_report_are_those_of_the_evaluations(reported):
    study = reported
    with (study / "report.csv").open() as file:
        table = list(csv.DictReader(file))
    listed = json.loads((study / "report.json").read_text())["rows"]
    for name in NAMES:
        for measure in ("perplexity", "bits_per_byte"):
            expected = {row.length: row.value for row in measured(study, name, measure)}
            for rows in (table, listed):
                assert {
                    int(row["length"]): float(row["value"])
                    for row in rows
                    if (row.get("run"), row["measure"]) == (name, measure)
                } == expected


def test_a_run_names_the_corpora_that_were_read_and_no_other(study, capsys):
    run = study / "rope"
    assert read_config(run)["corpus"] is None
    assert read_run(Place.of(run)).notes["documents"]["proofs"]["reader"] == "ArithmeticChains"
    assert main(["prepare", "--config-file", str(run / "config.yaml")]) == 2
    assert "corpus is null, since this is the configuration of a run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    ["rows=concat rows.split_documents=continue encoding=nope rows.validation_rows=0",
     "rows=best_fit rows.split_documents=restart encoding=learned validate_every=null",
     "encoding=bilevel encoding@encoding.intra=sinusoidal encoding@encoding.inter=nope",
     "schedule=wsd schedule.warmup=1 attention=eager"],
)  # fmt: skip
def test_every_choice_trains(smoke, words):
    run = pretrain(*smoke, "steps=2", *words.split())
    assert losses(run)[1] < losses(run)[0]
    last = curve(run)[-1]["validation_loss"]
    assert (last is None) == ("validate_every=null" not in words)
