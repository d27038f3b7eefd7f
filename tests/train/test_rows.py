"""What a configuration may say about rows, trained with: epochs, curricula, several folders."""

import threading

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.train.studies import composed, crashing, curve, losses, notes_of, pretrain, same_weights
from train.cli import main
from train.data.rows.datamodule import LMDataModule
from train.evals.rows import FILE, Journal
from train.fit.runs import MODEL
from train.launch.run import run_command

CURRICULUM = "rows.curriculum=[{length: 16, steps: 2}, {length: 32, steps: 2}]"


def test_epochs_set_the_steps_of_the_run_and_of_its_schedule(smoke, data):
    words = ("epochs=0.5", "rows.global_batch=32", "log_every=1")
    module = LMDataModule(folder=str(data), row_length=64, global_batch=4, micro_batch=4)
    wanted = round(len(module.order()) / 2)
    steps = -(-wanted // 32)
    assert wanted % 32
    assert composed(*smoke, *words, "rows.drop_last=true")["schedule"]["steps"] == wanted // 32
    assert composed(*smoke, *words)["schedule"]["steps"] == steps
    run = pretrain(*smoke, *words)
    assert curve(run)[-1]["step"] == steps
    assert curve(run)[-1]["tokens"] == 64 * wanted
    assert np.isfinite(losses(run)).all()


@pytest.mark.parametrize(("encoding", "split"), [("bipe_rope", "continue"), ("alibi", "restart")])
def test_rows_and_parts_that_are_all_padding_spoil_nothing(data, tmp_path, encoding, split):
    """One document of a few tokens a row, read in parts, most of which hold nothing."""
    words = ("rows=single", "row_length=512", f"rows.split_documents={split}", "steps=3")
    words = (f"data={data}", f"out={tmp_path}", f"encoding={encoding}", *words)
    staged = "rows.curriculum=[{length: 8, steps: 2}]"
    run = pretrain(*words, staged, "rows.global_batch=2", "rows.micro_batch=2")
    assert np.isfinite(losses(run)).all()
    assert losses(run)[-1] < losses(run)[0]
    weights = load_file(run / MODEL / "model.safetensors")
    assert all(np.isfinite(value).all() for value in weights.values())


def test_a_curriculum_is_resumed_bit_for_bit(smoke, tmp_path):
    words = (*smoke, CURRICULUM, "rows.budget=rows", "checkpoint_every=1")
    whole = pretrain(*words, f"out={tmp_path}/whole")
    each = [64, 64, 128, 128, 256, 256]
    assert [row["tokens"] for row in curve(whole)] == np.cumsum(each).tolist()
    with crashing(at=3):
        pretrain(*words)
    with pytest.raises(ValueError, match=r"rows\.curriculum was \[.*is null"):
        pretrain(*smoke, "rows.budget=rows", "checkpoint_every=1")
    run = pretrain(*words)
    assert curve(run) == curve(whole)
    assert same_weights(run, whole)


def test_another_global_batch_goes_on_where_it_is_asked_for(smoke):
    with crashing(at=4):
        pretrain(*smoke)
    assert "bipe-rows" not in [thread.name for thread in threading.enumerate()]
    words = (*smoke, "rows.global_batch=8")
    with pytest.raises(ValueError, match=r"rows\.global_batch was 4, is 8"):
        pretrain(*words)
    run = pretrain(*words, "rows.on_batch_change=convert")
    assert [row["step"] for row in curve(run)] == [1, 2, 3, 4, 5, 6]
    tokens = [64 * rows for rows in (4, 8, 12, 16, 24, 32)]
    assert [row["tokens"] for row in curve(run)] == tokens
    assert notes_of(run)["tokens"] == tokens[-1]


def test_several_folders_are_trained_on_and_evaluated(data, tmp_path, capsys):
    second = tmp_path / "second"
    load = "train.data.tokenizing.vocabulary.LoadTokenizer"
    config = composed(f"data={second}", "corpus.sources.proofs.documents.seed=9")
    config["corpus"]["tokenizer"] = {"_target_": load, "path": str(data)}
    run_command("prepare", config)
    words = ["experiment=smoke", f"data={{a: {data}, b: {second}}}", f"out={tmp_path}", "steps=2"]
    words += ["~rows.sources.proofs", "rows.sources={a: 0.75, b: 0.25}", "name=both"]
    capsys.readouterr()
    assert main(["pretrain", *words]) == 0
    told = capsys.readouterr().err
    assert "a/proofs" in told and "b/proofs" in told and "padding" in told
    assert notes_of(tmp_path / "both")["sources"] == {"a/proofs": 0.75, "b/proofs": 0.25}
    assert [each["read"] for each in notes_of(tmp_path / "both")["rows"]] == [6, 2]
    assert main(["evaluate", *words, "evaluate.probes=[]"]) == 0
    found = Journal(tmp_path / "both" / FILE).rows()
    assert {row.source for row in found} == {"a/proofs", "b/proofs"}
    assert main(["prepare", *words]) == 2
    assert "data must be one folder to prepare" in capsys.readouterr().err
