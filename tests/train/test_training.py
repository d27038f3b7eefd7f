"""From documents to a report: the commands one after the other, as a user types them."""

import csv
import json
import shutil

import pytest
import torch

from bipe import Positions
from bipe.checkpoint import load_model
from tests.train.studies import back_to, curve, losses, pretrain, same_weights
from train.cli import main
from train.evals.rows import FILE, Journal
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


def test_evaluating_again_measures_nothing(study, capsys):
    before = (study / "rope" / FILE).read_bytes()
    words = ["experiment=smoke", f"out={study}", f"evaluate.runs={study}/rope"]
    assert main(["evaluate", *words]) == 0
    assert (study / "rope" / FILE).read_bytes() == before
    said = capsys.readouterr()
    assert "measured" not in said.err and "perplexity proofs" in said.out


def test_training_again_gives_the_same_model(study, tmp_path):
    run = pretrain(f"data={study}/data", f"out={tmp_path}", "encoding=bipe_alibi")
    assert same_weights(run, study / "bipe_alibi")
    words = (f"data={study}/data", f"out={tmp_path}/other", "encoding=bipe_alibi", "seed=1")
    assert not same_weights(pretrain(*words), study / "bipe_alibi")


def test_lengths_without_room_for_a_passkey_are_left_out_and_named(study, tmp_path, capsys):
    words = ["experiment=smoke", f"data={study}/data", f"out={tmp_path}", "row_length=16"]
    assert main(["pretrain", *words, "steps=1"]) == 0
    assert main(["evaluate", *words, "evaluate.lengths=[1]"]) == 0
    told = capsys.readouterr().err
    assert "passkey in proofs at 16 tokens, depth 0 is left out: 16 tokens have no room" in told


def test_a_sweep_again_resumes_what_was_stopped_and_leaves_what_is_done(study, tmp_path):
    again = tmp_path / "again"
    for name in NAMES:
        shutil.copytree(study / name, again / name)
    back_to(again / "rope", step=4)
    kept = (again / "bipe_alibi" / MODEL / "model.safetensors").stat().st_mtime_ns
    words = ["experiment=smoke", f"data={study}/data", f"out={again}"]
    assert main(["pretrain", "-m", *words, f"encoding={','.join(NAMES)}"]) == 0
    assert curve(again / "rope") == curve(study / "rope")
    assert same_weights(again / "rope", study / "rope")
    assert (again / "bipe_alibi" / MODEL / "model.safetensors").stat().st_mtime_ns == kept


def test_a_model_of_other_data_is_not_evaluated(study, tmp_path, capsys):
    words = ["experiment=smoke", f"out={tmp_path}", "corpus.tokenizer.vocab_size=1000"]
    words += ["corpus.sources.proofs.segmenter._target_=segmenters.Newline"]
    words += ["corpus.sources.proofs.documents.seed=5"]
    assert main(["prepare", *words]) == 0
    capsys.readouterr()
    status = main(["evaluate", *words, f"evaluate.runs={study}/rope"])
    assert status == 2
    assert "it was trained on other data" in capsys.readouterr().err


def test_a_run_names_the_corpora_that_were_read_and_no_other(study, capsys):
    run = study / "rope"
    assert read_config(run)["corpus"] is None
    assert read_run(run).notes["documents"]["proofs"]["reader"] == "ArithmeticChains"
    assert main(["prepare", "--config-file", str(run / "config.yaml")]) == 2
    assert "corpus is null, since this is the configuration of a run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("rows=concat", "rows.split_documents=continue", "encoding=nope"),
        ("rows=best_fit", "rows.split_documents=restart", "encoding=learned"),
        ("rows=long_first", "rows.split_documents=continue", "encoding=sinusoidal"),
        ("encoding=bilevel", "encoding@encoding.intra=sinusoidal", "encoding@encoding.inter=nope"),
        ("schedule=wsd", "schedule.warmup=1", "attention=eager"),
        ("schedule=linear", "schedule.warmup=1", "validate_every=null"),
        ("schedule=constant", "schedule.warmup=1", "rows.validation_rows=0"),
    ],
    ids=" ".join,
)
def test_every_choice_trains(smoke, words):
    run = pretrain(*smoke, "steps=2", *words)
    assert losses(run)[1] < losses(run)[0]
    last = curve(run)[-1]["validation_loss"]
    assert (last is None) == ("validate_every=null" not in words)
