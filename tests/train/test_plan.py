"""`bipe pretrain --plan`: what a run needs, told before it runs, against what it then takes."""

import json
import shutil
import time

import pytest
import torch

from benchmarks.live_bytes import LiveBytes
from bipe import Decoder, DecoderConfig, Positions
from bipe.loss import summed_cross_entropy
from tests.test_conf import EXPERIMENTS
from train.cli import main
from train.fit.memory import Step, count_weights, memory_of
from train.fit.optim import adamw

ROPE = {"_target_": "bipe.encodings.RoPE", "head_width": 16, "theta": 10000.0}
BIPE_ALIBI = {
    "_target_": "bipe.encodings.Bilevel",
    "intra": {"_target_": "bipe.encodings.Learned", "width": 64, "length": 32},
    "inter": {"_target_": "bipe.encodings.ALiBi", "n_head": 4},
}
SIZES = {"vocab_size": 500, "width": 64, "n_layer": 3, "n_head": 4, "mlp_width": 160}


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    """The plan of a command as JSON."""
    monkeypatch.chdir(tmp_path)

    def run(command, *words):
        assert main([command, "--plan", "--json", *words]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def command_of(experiment):
    kinds = (("scrolls", "scrolls"), ("yarn", "extend"))
    return next((command for start, command in kinds if experiment.startswith(start)), "pretrain")


@pytest.mark.parametrize("experiment", [*EXPERIMENTS][::3])
def test_every_experiment_has_a_plan_before_there_is_data(experiment, plan, tmp_path):
    begin = time.perf_counter()
    found = plan(command_of(experiment), f"experiment={experiment}")
    assert time.perf_counter() - begin < 60
    assert found["weights"]["total"] > 0 and found["total_flops"] > 0
    assert all(each["peak"] > 12 * found["weights"]["total"] for each in found["on"])
    assert any("checkpoint" in note or "data" in note for note in found["notes"])
    assert list(tmp_path.iterdir()) == []


def test_data_that_is_there_is_counted(bipe, smoke):
    status, out, _ = bipe("pretrain", "--plan", "--json")
    found = json.loads(out)
    (source,) = found["data"]["sources"]
    assert status == 0 and found["notes"] == found["warnings"] == []
    assert source["tokens"] > 0 and source["read"] == 6 * 4
    assert 1 < found["data"]["document"] <= 64
    assert found["validations"] == 2 and found["data"]["validation_rows"] == 4
    assert found["schedule"]["tokens"] == 6 * 4 * 64
    assert found["checkpoints"]["number"] == 3 and found["checkpoints"]["kept"] == 2


def test_a_plan_reads_like_one(bipe):
    status, out, _ = bipe("pretrain", "--plan")
    assert status == 0
    assert "6 steps of 4 rows (4 rows) of 64 tokens: 256 tokens per step" in out
    assert "attention on cpu: masked (for short rows of several documents: one kernel)" in out
    for part in ("pretrain: BiPE-RoPE, ", "memory per device", "3 checkpoints of ", " are free"):
        assert part in out
    assert "time (" not in out  # a CPU whose speed no run has measured


def test_a_plan_goes_on_from_a_run_whose_speed_is_that_of_this_machine(bipe, tmp_path, finished):
    shutil.copytree(finished("bipe_rope"), tmp_path / "bipe_rope")
    found = json.loads(bipe("pretrain", "--plan", "--json", "name=other")[1])
    (pace,) = found["paces"]
    assert pace["device"] == "this machine" and pace["days"] > 0
    assert pace["assumed"].endswith("bipe_rope")
    words = ("experiment=smoke", f"checkpoint={tmp_path}/bipe_rope", f"out={tmp_path}")
    words += ("stretch=yarn", "stretch.factor=2.0", "row_length=128")
    status, out, _ = bipe("extend", "--plan", "--json", *words, study=False)
    found = json.loads(out)
    assert status == 0 and found["schedule"]["row_length"] == 128
    assert found["notes"] == []
    assert len(found["data"]["sources"]) == 1
    shown = bipe("extend", "--plan", *words, study=False)[1]
    assert shown.startswith("extend: BiPE-RoPE + YaRN, ")


def test_a_plan_counts_what_a_retrofit_adds(bipe, tmp_path, finished):
    words = ("experiment=smoke", f"checkpoint={finished('rope')}", f"out={tmp_path}")
    words += ("stretch=homotopy", "stretch.length=64")
    plan = bipe("retrofit", "--plan", *words, study=False)[1]
    assert plan.startswith("retrofit: AnnealedBiPE, ") and "\nencoding " in plan


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("schedule.warmup=6",), "schedule.warmup=6 is not below steps=6"),
        (("validate_every=7",), "validate_every=7 is above steps=6"),
        (("rows.validation_rows=0",), "the run never validates: set rows.validation_rows above 0"),
        (("steps=100000",), "proofs is read "),
        (("rows.micro_batch=3",), "the run would be refused: rows.global_batch must be a multiple"),
        (("rows.global_batch=4000000", "rows.micro_batch=4000000"), "that a device (cpu) here has"),
        (("model.width=65536", "model.mlp_width=65536"), " are free: set out to another disk"),
    ],
)
def test_what_is_likely_a_mistake_is_warned_of(bipe, words, told):
    status, out, _ = bipe("pretrain", "--plan", "--json", *words)
    assert status == 0
    assert any(told in warning for warning in json.loads(out)["warnings"])


def test_sharding_and_data_parallelism_change_what_a_device_holds(plan):
    kinds = (["trainer=auto"], ["trainer=ddp"], ["trainer=fsdp2"])
    alone, ddp, fsdp = (
        plan("pretrain", "experiment=pile_151m_rope", *words)["on"][-1]["memory"]
        for words in (kinds[0], *([*each, "trainer.devices=8"] for each in kinds[1:]))
    )
    assert ddp["weights"] == alone["weights"] and ddp["gathered"] == alone["weights"]
    assert fsdp["moments"] == pytest.approx(alone["moments"] / 8, rel=0.01)
    assert 0 < fsdp["gathered"] < alone["weights"]


def test_devices_that_share_rows_hold_less_of_them(plan, refused):
    words = ("experiment=pile_151m_rope", "trainer.devices=8", "rows.micro_batch=16")
    alone, shared = (plan("pretrain", *words, *own) for own in ((), ("context_parallel=4",)))
    assert alone["accumulation"] == 2 and shared["accumulation"] == 8
    memory = [each["on"][-1]["memory"]["activations"] for each in (alone, shared)]
    assert 0.25 * memory[0] < memory[1] < 0.6 * memory[0]
    told = refused("pretrain", "--plan", "context_parallel=3", "trainer.devices=4")
    assert "context_parallel must divide the number of devices (4), was: 3" in told


def step(config, *, rows, time, recompute=False, half=False, packed=False):
    """The most live bytes of the second step of a training."""
    with LiveBytes() as live:
        model = Decoder(config, recompute=recompute)
        model.init_weights(seed=0)
        optimizer = adamw(model.parameters(), lr=1e-3)
        for _ in range(2):
            live.begin()
            tokens = torch.zeros(rows, time, dtype=torch.int64)
            marks = torch.zeros(rows, time, dtype=torch.uint8)
            marks[:, [0, time // 3] if packed else [0]] = 3
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                hidden = model(tokens, Positions.from_marks(marks, packed=packed))
                loss = summed_cross_entropy(
                    hidden.flatten(0, 1), model.head.weight, tokens.flatten()
                )
            del hidden
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return live.peak, count_weights(model)


@pytest.mark.parametrize(("half", "recompute"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(("encoding", "packed"), [(ROPE, True), (BIPE_ALIBI, False)])
def test_memory_is_what_a_step_takes(encoding, recompute, half, packed):
    config = DecoderConfig(encoding=encoding, **SIZES)
    measured, weights = step(
        config, rows=3, time=256, recompute=recompute, half=half, packed=packed
    )
    held = {"decoder": config, "weights": weights, "rows": 3, "time": 256, "device": "cpu"}
    held |= {"packed": packed, "half": half, "recompute": recompute, "rotated": encoding is ROPE}
    path = "causal" if encoding is ROPE else "banded"
    planned = memory_of(Step(**held, path=path, dense_bias=encoding is BIPE_ALIBI))
    assert planned.peak - planned.counts == pytest.approx(measured, rel=0.05)
