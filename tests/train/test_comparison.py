"""Encodings of each kind go the way of `make encodings`: swept, stopped, resumed, measured."""

import json

import pytest

from tests.train.studies import back_to, curve, same_weights
from train.cli import main

# Gates, a table of buckets, content, and one by layer; the names of their runs with seed 1.
KINDS = {"fox": "fox_1", "t5": "t5_1", "shaw": "shaw_1", "rnope": "layers_rope_nope_1"}
SMALL = (
    *("model=tiny", "trainer=cpu", "row_length=64", "steps=4", "schedule.warmup=1", "log_every=1"),
    *("checkpoint_every=2", "validate_every=4", "keep_checkpoints=9", "rows.global_batch=4"),
    *("rows.micro_batch=4", "rows.validation_rows=4", "~rows.sources.prose", "~rows.sources.code"),
    *("evaluate.lengths=[1, 4]", "evaluate.documents=2", "evaluate.probing.candidates=4"),
    *("evaluate.probing.trials=1", "evaluate.probing.depths=[0.5]"),
)


@pytest.fixture
def bipe(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(command, *words, out="compare"):
        study = ("experiment=compare", f"data={data}", f"out={tmp_path / out}", *SMALL)
        assert main([command, *study, *words]) == 0
        return tmp_path / out

    return run


@pytest.mark.slow
def test_a_comparison_is_trained_resumed_measured_and_reported(bipe, capsys):
    sweep = ("-m", "seed=1", f"encoding={','.join(KINDS)}")
    out, whole = bipe("pretrain", *sweep), bipe("pretrain", *sweep, out="whole")
    assert {run.name for run in out.iterdir()} == {*KINDS.values()}
    kept = (out / "t5_1" / "model" / "model.safetensors").stat().st_mtime_ns
    for name in ("fox_1", "shaw_1"):
        back_to(out / name, step=2)
    bipe("pretrain", *sweep)
    for name in KINDS.values():
        assert curve(out / name) == curve(whole / name)
        assert same_weights(out / name, whole / name)
    assert (out / "t5_1" / "model" / "model.safetensors").stat().st_mtime_ns == kept
    bipe("evaluate")
    bipe("report")
    told = json.loads((out / "report.json").read_text())
    assert {"FoX", "T5", "Shaw", "Layers(RoPE, NoPE)"} <= named(told)
    prompt = ("generate.prompt=1+2", "generate.max_new=5", "generate.temperature=0")
    capsys.readouterr()
    for name in KINDS.values():
        bipe("generate", f"generate.run={out / name}", *prompt)
        assert "5 written" in capsys.readouterr().err


@pytest.mark.slow
def test_its_bilevel_half_takes_the_place_over_segments(bipe):
    words = ("encoding=bilevel", "encoding@encoding.intra=nope", "encoding@encoding.inter=fox,t5")
    out = bipe("pretrain", "-m", "seed=0", *words)
    assert {run.name for run in out.iterdir()} == {"bilevel_nope_fox_0", "bilevel_nope_t5_0"}


def named(value):
    """Return all texts inside a value of JSON."""
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return set().union(*map(named, inside))
    return {value} if isinstance(value, str) else set()
