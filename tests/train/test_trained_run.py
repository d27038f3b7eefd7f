"""A trained run, read without its weights, and the one rule of which runs are alike.

Encodings of each kind go the way of `make encodings`: swept, stopped, resumed, measured.
"""

import json
from pathlib import Path

import pytest

from bipe import Decoder, DecoderConfig
from bipe.checkpoint import save_model
from tests.train.studies import back_to, curve, same_weights
from train.cli import main
from train.errors import RunError
from train.fit.trained_run import group_by_arm, read_run, stem

ROPE = {"_target_": "bipe.encodings.RoPE", "head_width": 8}
LEARNED = {"_target_": "bipe.encodings.Learned", "width": 16, "length": 8}
FLAT = {"_target_": "bipe.encodings.Flat", "encoding": ROPE}
BILEVEL = {"_target_": "bipe.encodings.Bilevel", "intra": LEARNED, "inter": ROPE}


def trained(folder: Path, *, encoding=FLAT, seed=0, data="a", tied=False, **config) -> Path:
    model = Decoder(
        DecoderConfig(vocab_size=11, width=16, n_layer=1, n_head=2, mlp_width=16,
                      encoding=encoding, tied_head=tied)
    )  # fmt: skip
    model.init_weights(seed=seed)
    save_model(model, folder / "model", notes={"row_length": 64, "data": data})
    told = {"seed": seed, "steps": 5, "rows": {"global_batch": 4, "micro_batch": 2}, **config}
    lines = "\n".join(f"{key}: {value}" for key, value in told.items())
    (folder / "config.yaml").write_text(lines)
    return folder


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("encoding", [FLAT, BILEVEL])
def test_a_run_is_described_as_its_model_would(tmp_path, encoding, tied):
    run = read_run(trained(tmp_path / "mine", encoding=encoding, tied=tied))
    model = Decoder(DecoderConfig(**run.model))
    assert run.parameters == sum(p.numel() for p in model.parameters())
    assert run.bilevel == (encoding is BILEVEL)
    assert (run.name, run.seed, run.row_length) == ("mine", 0, 64)
    assert run.model_name == ("BiPE-RoPE" if run.bilevel else "RoPE")
    assert run.family == "RoPE"


def test_runs_that_differ_by_their_seed_are_an_arm(tmp_path):
    same = [read_run(trained(tmp_path / f"rope_{seed}", seed=seed)) for seed in (1, 0)]
    later = read_run(trained(tmp_path / "later", seed=2, out="elsewhere", log_every=7))
    others = [
        read_run(trained(tmp_path / "longer", steps=6)),
        read_run(trained(tmp_path / "bilevel", encoding=BILEVEL)),
        read_run(trained(tmp_path / "cut_otherwise", data="b")),
    ]
    groups = group_by_arm([*same, others[0], later, *others[1:]])
    names = [[run.name for run in group] for group in groups]
    assert names == [["rope_0", "rope_1", "later"], ["longer"], ["bilevel"], ["cut_otherwise"]]


def test_seeds_that_come_twice_are_told_apart_by_their_folders(tmp_path):
    runs = [
        read_run(trained(tmp_path / f"{name}_{seed}", seed=seed))
        for name in ("first", "second")
        for seed in (0, 1)
    ]
    names = [[run.name for run in group] for group in group_by_arm(runs)]
    assert names == [["first_0", "first_1"], ["second_0", "second_1"]]


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(RunError, match="nothing"):
        read_run(tmp_path / "nothing")
    broken = trained(tmp_path / "broken")
    (broken / "model" / "model.safetensors").write_bytes(b"\0" * 9)
    with pytest.raises(RunError, match="broken"):
        read_run(broken)


def test_a_seed_is_taken_off_the_end_of_a_name_alone():
    assert stem("rope_1", 1) == "rope" and stem("rope_seed1", 1) == "rope"
    assert stem("rope_11", 1) == "rope_11" and stem("1_rope", 1) == "1_rope"


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
