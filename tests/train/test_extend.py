"""`bipe extend`: what comes of a checkpoint is trained exactly, and used."""

import json
import shutil

import numpy as np
import pytest
import torch

from bipe import Positions
from bipe.checkpoint import load_model, save_model
from tests.train.studies import crashing, curve, losses, notes_of, same_weights
from train.cli import main
from train.fit.checkpoints import Place
from train.fit.runs import read_config
from train.fit.trained_run import read_run

YARN = ("stretch=yarn", "stretch.factor=4.0")
SHORT = ("row_length=128", "steps=4")


@pytest.fixture(scope="module")
def parents(finished):
    """The folder of a few trained models of the smoke experiment."""
    runs = [finished(name) for name in ("bipe_rope", "rope", "alibi", "learned")]
    return runs[0].parent


@pytest.fixture
def bipe(parents, tmp_path, capsys):
    """Run the command; status and what it told. The encoding names the checkpoint."""

    def run(encoding, *words, command="extend"):
        own = (f"checkpoint={parents / encoding}", f"out={tmp_path}")
        status = main([command, "experiment=smoke", *own, *words])
        return status, capsys.readouterr().err

    return run


@pytest.fixture
def extended_run(bipe, tmp_path):
    """Run the command, which must succeed; the run's folder."""

    def run(encoding, *words, name="longer", short=SHORT, command="extend"):
        status, told = bipe(encoding, *short, *words, f"name={name}", command=command)
        assert status == 0, told
        return tmp_path / name

    return run


def encoding_of(run):
    return json.loads((run / "model" / "config.json").read_text())["decoder"]["encoding"]


def test_an_extended_run_says_what_was_done_to_its_parent(extended_run, parents, data):
    run = extended_run("bipe_rope", *YARN)
    was, now = notes_of(parents / "bipe_rope"), notes_of(run)
    stretch = encoding_of(run)["inter"]["stretch"]
    assert stretch["_target_"] == "bipe.extension.YaRN"
    assert stretch["original_length"] == was["positions"]["segment"]["p99.9"] + 1
    assert now["base_run"]["notes"] == was
    assert now["base_run"]["run"] == str(parents / "bipe_rope")
    assert now["stretch"][0]["original"]["unit"] == "segments"
    assert (now["first_row_length"], now["row_length"], now["steps"]) == (64, 128, 4)
    assert now["positions"]["token"]["maximum"] > was["positions"]["token"]["maximum"]
    assert 0 < now["long_documents"] <= 1
    assert now["long_documents"] == pytest.approx(
        sum(each["read"] * each["long_documents"] for each in now["rows"])
        / sum(each["read"] for each in now["rows"])
    )
    assert read_run(Place.of(run)).row_length == 64  # of which lengths of evaluations are multiples
    assert not same_weights(run, parents / "bipe_rope")
    config = read_config(run)
    assert config["encoding"] == encoding_of(run)
    assert config["model"]["width"] == 32 and config["data"] == str(data)
    assert config["rows"]["packing"] == "long_first"


@pytest.mark.parametrize(
    ("encoding", "unit", "length"),
    [("bipe_rope", "tokens", 64), ("rope", "tokens", 64), ("bipe_rope", "9", 9)],
)
def test_the_unit_can_be_asked_for(bipe, tmp_path, encoding, unit, length):
    status, told = bipe(encoding, *YARN, "steps=0", f"extend.unit={unit}")
    assert status == 0
    assert f"original length    {length} " in told
    assert "kept" in told and "interpolated" in told
    assert bipe(encoding, "row_length=96", "steps=0", "seed=2")[0] == 0
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {f"{encoding}_yarn4_{unit}", f"{encoding}_96_seed2"}
    made = encoding_of(tmp_path / f"{encoding}_yarn4_{unit}")
    rope = made["inter"] if encoding == "bipe_rope" else made.get("encoding", made)
    assert rope["stretch"]["original_length"] == length


def test_without_steps_the_weights_are_those_of_the_checkpoint(bipe, parents, tmp_path):
    """Another model computes with them, but for a factor of 1: that one is the same, bit for bit"""
    for factor in (1, 4):
        words = ("stretch=yarn", f"stretch.factor={factor}.0", "steps=0", f"name=x{factor}")
        assert bipe("rope", *words)[0] == 0
        assert same_weights(tmp_path / f"x{factor}", parents / "rope")
    tokens = torch.arange(60)[None] % 50
    at = Positions.from_marks(torch.zeros(1, 60, dtype=torch.uint8))
    before, one, four = (
        load_model(run / "model")[0].logits(tokens, at)
        for run in (parents / "rope", tmp_path / "x1", tmp_path / "x4")
    )
    assert torch.equal(before, one)
    assert not torch.allclose(before, four)
    assert notes_of(tmp_path / "x4")["positions"] == notes_of(parents / "rope")["positions"]


def test_a_run_goes_on_with_longer_rows_and_is_stretched_once(
    bipe, extended_run, parents, tmp_path
):
    run = extended_run("alibi")
    assert encoding_of(run) == encoding_of(parents / "alibi")
    assert "stretch" not in notes_of(run) and np.isfinite(losses(run)).all()
    assert bipe("rope", *YARN, "steps=0")[0] == 0
    again = f"checkpoint={tmp_path / 'rope_yarn4'}"
    status, told = bipe("rope", again, *YARN, "steps=0")
    assert status == 2 and "already has a stretch" in told
    assert bipe("rope", again, *SHORT, "name=on")[0] == 0
    found = notes_of(tmp_path / "on")
    assert found["stretch"] == notes_of(tmp_path / "rope_yarn4")["stretch"]
    assert found["base_run"]["notes"]["base_run"]["run"].endswith("rope")
    assert found["first_row_length"] == 64


@pytest.mark.parametrize("words", [YARN, ("rows.curriculum=[{length: 64, steps: 2}]",)])
def test_an_extension_that_is_stopped_goes_on_exactly(bipe, extended_run, tmp_path, words):
    whole = extended_run("bipe_rope", *words, name="whole")
    with crashing(at=3):
        bipe("bipe_rope", *SHORT, *words, "name=stopped")
    resumed = extended_run("bipe_rope", *words, name="stopped")
    assert curve(resumed) == curve(whole)
    assert same_weights(resumed, whole)
    assert notes_of(resumed) == notes_of(whole)
    curriculum = "rows.curriculum" in words[0]
    assert [row["tokens"] for row in curve(whole)] == [512, 1024, 1536, 2048]
    assert (notes_of(whole)["positions"]["token"]["maximum"] > 64) or not curriculum


def test_a_run_resumes_from_the_weights_that_it_began_with(bipe, parents, tmp_path):
    moved = tmp_path / "parent"
    shutil.copytree(parents / "rope", moved)
    assert bipe("rope", f"checkpoint={moved}", *YARN, "steps=0", "name=x")[0] == 0
    model, notes = load_model(moved / "model")
    model.init_weights(seed=5)
    save_model(model, moved / "model", notes=notes)
    words = (*YARN, "steps=0", "name=x")
    status, told = bipe("rope", f"checkpoint={moved}", *words)
    assert status == 2 and "extend.sha256 was" in told
    status, told = bipe("rope", f"checkpoint={moved}", *words, "extend.sha256=abc")
    assert status == 2 and "extend.sha256 is abc, but that of" in told


@pytest.mark.parametrize(
    ("encoding", "words", "told"),
    [
        ("alibi", YARN, "ALiBi cannot be stretched: it has no rotation"),
        ("rope", (*YARN, "extend.unit=segments"), "a flat encoding has no segments"),
        ("rope", (*YARN, "extend.unit=pages"), "extend.unit must be one of segments, tokens"),
        ("rope", ("extend.unit=tokens",), "extend.unit needs a stretch"),
        ("rope", ("stretch=gated", "extend.unit=tokens"), "for a stretch, not a retrofit"),
        ("rope", ("stretch.factor=2.0",), "stretch.factor needs a stretch"),
        ("rope", (*YARN, "stretch.original_length=9", "extend.unit=8"), "both set the original"),
        ("rope", ("encoding=alibi",), "remove encoding=alibi; the checkpoint sets it"),
        ("rope", ("checkpoint=/nowhere",), "checkpoint: '/nowhere' contains no trained run"),
        ("rope", ("checkpoint=null",), "checkpoint=RUN must be set"),
        ("learned", SHORT, "at most encoding.length of a flat learned table (64)"),
        (".", YARN, "checkpoint must be one run, was: "),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(bipe, tmp_path, encoding, words, told):
    status, found = bipe(encoding, *words)
    assert status == 2
    assert told in found
    assert "Traceback" not in found
    assert list(tmp_path.iterdir()) == []


def test_the_checkpoint_itself_is_never_written_over(bipe, parents):
    told = bipe("rope", "if_exists=overwrite", f"out={parents}", "name=rope", "steps=0")
    assert told[0] == 2 and "is the checkpoint itself" in told[1]
    assert (parents / "rope/model/model.safetensors").exists()


def test_rows_that_no_document_reaches_are_told(bipe, caplog):
    rows = ("rows.global_batch=1", "rows.micro_batch=1", "rows.validation_rows=0")
    status, told = bipe("rope", "row_length=8192", "steps=1", *rows)
    assert status == 0, told
    assert "model=tiny of the experiment is ignored: the checkpoint sets it" in told
    assert "encoding=" not in told
    assert "0.0% of tokens come from documents of at least row_length (8192;" in told
    assert "no document has row_length=8192 tokens (the longest: " in caplog.text
