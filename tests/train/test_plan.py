"""`bipe pretrain --plan`: what a run needs, told before it runs, against what it then takes."""

import functools
import json
import shutil
import time

import pytest
import torch
from torch import nn

from tests.test_conf import EXPERIMENTS
from tests.train.studies import curve, weights
from train.cli import main
from train.commands.explain.counter import counter
from train.fit import training
from train.fit.module import LMModule
from train.fit.optim import adamw, muon, optimizer_of, state_bytes


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
    assert found["total_parameters"] > 0 and found["total_flops"] > 0
    assert found["memory"]["total"] == 16 * found["total_parameters"]
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
    assert found["tokens"] == 6 * 4 * 64
    assert found["disk"]["number"] == 3 and found["disk"]["kept"] == 2


def test_a_plan_reads_like_one(bipe):
    status, out, _ = bipe("pretrain", "--plan")
    assert status == 0
    assert "6 steps of 4 rows of 64 tokens (4 rows at once): 256 tokens per step" in out
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
    assert status == 0 and found["row_length"] == 128
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
        (("trainer.precision=bf16-mixed",), "this machine emulates bfloat16"),
        (("rows.validation_rows=0",), "the run never validates: set rows.validation_rows above 0"),
        (("steps=100000",), "proofs is read "),
        (("rows.micro_batch=3",), "the run would be refused: rows.global_batch must be a multiple"),
        (("model.width=65536", "model.mlp_width=65536"), "that a device (cpu) here has"),
        (("model.width=65536", "model.mlp_width=65536"), " are free: set out to another disk"),
    ],
)
def test_what_is_likely_a_mistake_is_warned_of(bipe, words, told, monkeypatch):
    monkeypatch.setattr(training, "native_bfloat16", lambda: False)
    status, out, _ = bipe("pretrain", "--plan", "--json", *words)
    assert status == 0
    assert any(told in warning for warning in json.loads(out)["warnings"])


def test_sharding_divides_what_a_device_holds(plan, refused):
    words = ("experiment=pile_151m_rope", "trainer.devices=8")
    alone, ddp, fsdp = (
        plan("pretrain", *words, f"trainer={name}")["memory"] for name in ("auto", "ddp", "fsdp2")
    )
    assert ddp == alone and all(8 * fsdp[part] == alone[part] for part in alone)
    error = refused("pretrain", "--plan", "context_parallel=3", "trainer.devices=4")
    assert "context_parallel must divide the number of devices (4), was: 3" in error


def test_the_plan_of_a_run_is_what_the_run_takes(bipe, tmp_path, monkeypatch):
    """Parameters, bytes on disk, and operations by torch's counter, at the second step."""
    found = json.loads(bipe("pretrain", "--plan", "--json", "steps=2")[1])
    operations, step = [], LMModule.training_step

    def counted(module, batch, batch_idx):
        with counter() as counts:
            step(module, batch, batch_idx)
        operations.append(counts.get_total_flops())

    monkeypatch.setattr(LMModule, "training_step", counted)
    assert bipe("pretrain", "steps=2")[0] == 0
    run = tmp_path / "bipe_rope"
    assert sum(weight.size for weight in weights(run).values()) == found["total_parameters"]
    assert curve(run)[-1]["tokens"] == found["tokens"]
    # Short rows of several documents are computed whole, under a mask.
    assert found["total_flops"] <= sum(operations) <= 1.2 * found["total_flops"]
    (checkpoint,) = run.glob("checkpoints/*.ckpt")
    assert checkpoint.stat().st_size == pytest.approx(found["disk"]["checkpoint"], abs=1 << 20)


FACTORIES = {
    "adamw": (functools.partial(adamw, lr=0.1), 8),
    "muon": (functools.partial(muon, lr=0.1), 4),
    "sgd": (functools.partial(torch.optim.SGD, lr=0.1), 0),
    "momentum": (functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9), 4),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_the_state_of_an_optimizer_is_known_before_there_is_any(name):
    factory, per_weight = FACTORIES[name]
    named = [(f"blocks.{i}", nn.Parameter(torch.ones(shape))) for i, shape in enumerate(
        [(6, 8), (4, 2)] + [(5,)] * (name != "muon"))]  # fmt: skip
    numbers = sum(parameter.numel() for _, parameter in named)
    assert state_bytes(factory, named) == per_weight * numbers
    for _, parameter in named:
        parameter.grad = torch.ones_like(parameter)
    optimizer = optimizer_of(factory, named)
    optimizer.step()
    state = [value for of in optimizer.state.values() for value in of.values()]
    sizes = [value.nbytes for value in state if torch.is_tensor(value) and value.numel() > 1]
    assert sum(sizes) == per_weight * numbers
