"""Every checkpoint is a model: each command takes RUN@STEP, and a run that was stopped."""

import random
import shutil
from pathlib import Path

import lightning
import pytest

from tests.train.studies import EACH_STEP, curve, pretrain, same_weights
from train.cli import main
from train.commands.extend import find_base_run
from train.errors import RunError
from train.evals.rows import FILE, Journal
from train.fit import runs
from train.fit.checkpoints import Place, find_place, find_places, tokens_at
from train.fit.trained_run import read_run


@pytest.fixture
def run(stopped):
    """What a signal at a random step would have left."""
    return stopped(random.randint(1, 11))


def rows(run, measure="perplexity"):
    return [row for row in Journal(run / FILE).rows() if row.measure == measure]


def test_every_command_takes_a_run_that_was_stopped(run, data, tmp_path, capfd):
    step = find_place(str(run), key="run").step
    held = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    study = ("experiment=smoke", f"data={data}", f"out={tmp_path}")
    few = ("evaluate.lengths=[1]", "evaluate.probes=[]")
    assert main(["evaluate", *study, f"evaluate.runs={run}", *few]) == 0
    assert {row.step for row in rows(run)} == {step}
    out, err = capfd.readouterr()
    assert f"bipe_rope@{step}" in out
    assert f"{run} is not finished: its newest checkpoint is read, {run}@{step}" in err
    assert main(["report", f"out={tmp_path}", f"report.runs={run}", "report.figures=[]"]) == 0
    assert f"bipe_rope@{step}" in (tmp_path / "report.html").read_text()
    words = ("--prompt", "1 + 1", "generate.max_new=5", "generate.temperature=0")
    capfd.readouterr()
    assert main(["generate", str(run), *words]) == 0
    out = capfd.readouterr().out
    assert main(["generate", f"{run}@{step}", *words]) == 0
    assert capfd.readouterr().out == out
    assert main(["convert", f"{run}@{step}", "to=hf", f"out={tmp_path / 'hf'}"]) == 0
    assert main(["convert", str(tmp_path / "hf"), "to=bipe", f"out={tmp_path / 'again'}"]) == 0
    assert main(["extend", *study, f"checkpoint={run}", "steps=0", "stretch=yarn",
                 "row_length=128"]) == 0  # fmt: skip
    (stretched,) = tmp_path.glob(f"bipe_rope_{step}_yarn*")
    assert same_weights(tmp_path / "again", stretched)
    new = {path for path in run.rglob("*") if path.is_file()} - {*held}
    assert {path.name for path in new} == {FILE, runs.ENVIRONMENT}
    assert all(path.read_bytes() == text for path, text in held.items())


@pytest.mark.slow
def test_checkpoints_are_measured_side_by_side_and_stay(stepwise, data, tmp_path, capsys):
    run = Path(shutil.copytree(stepwise, tmp_path / "bipe_rope"))
    few = ("evaluate.lengths=[1,2]", "evaluate.probes=[]", f"evaluate.runs={run}")
    study = ("experiment=smoke", f"data={data}", f"out={tmp_path}", *few)
    assert main(["evaluate", *study]) == 0
    assert main(["evaluate", *study, "evaluate.checkpoints=[2,12]"]) == 0
    assert main(["evaluate", *study, "evaluate.checkpoints=all"]) == 0
    found = {(row.step, row.length): row.value for row in rows(run)}
    assert {step for step, _ in found} == {None, *range(1, 13)}
    assert found[12, 64] == pytest.approx(found[None, 64], rel=1e-6)  # the same weights
    assert len({found[step, 128] for step in range(1, 13)}) == 12
    capsys.readouterr()
    assert main(["evaluate", *study, "evaluate.checkpoints=all"]) == 0
    assert "measured" not in capsys.readouterr().err  # nothing is measured again
    assert main(["report", f"out={tmp_path}", "report.figures=[]"]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "Against the tokens seen" in page and "tokens seen" in page
    assert main(["evaluate", *study, "evaluate.checkpoints=all", f"evaluate.runs={run}@3"]) == 2
    assert f"evaluate.runs={run}@3 is one checkpoint" in capsys.readouterr().err
    assert main(["evaluate", *study, "evaluate.checkpoints=[3,99]"]) == 2
    assert "evaluate.checkpoints" in (err := capsys.readouterr().err) and "of step 99" in err


def test_a_place_names_one_model(run, tmp_path):
    newest = find_place(str(run), key="run")
    (run / runs.CHECKPOINTS / "step=00000012.ckpt").write_bytes(b"")  # of a kill: no manifest
    (run / runs.CHECKPOINTS / "step=00000012.json").write_text('{"bytes": 9}')  # cut short
    assert find_place(f"{run}@last", key="run") == newest == find_places(str(tmp_path))[0]
    assert find_places(str(tmp_path / "b*")) == [newest]
    assert str(newest) == f"{run}@{newest.step}" and newest.name == f"bipe_rope@{newest.step}"
    with pytest.raises(RunError, match=r"k: .*bipe_rope has no checkpoint of step 12; there are"):
        find_place(f"{run}@12", key="k")
    with pytest.raises(RunError, match="no checkpoint of step foo; there are those of steps "):
        find_place(f"{run}@foo", key="k")
    with pytest.raises(RunError, match=f"contains no trained run .*; did you mean '{run}'"):
        find_place(f"{run}s@1", key="k")
    odd = Path(shutil.copytree(run, tmp_path / "a@7"))  # a folder may have such a name
    assert find_place(str(odd), key="k").home == odd
    shutil.rmtree(odd / runs.CHECKPOINTS / runs.MODEL)
    with pytest.raises(RunError, match="of an earlier version of bipe"):
        find_place(f"{odd}@1", key="k")


def test_a_checkpoint_knows_its_step_and_the_tokens_seen(stepwise):
    at = [read_run(find_place(f"{stepwise}@{step}", key="k")) for step in (2, 6)]
    done = read_run(Place.of(stepwise))
    assert [run.notes["tokens"] for run in at] == [2 * 256, 6 * 256]
    assert [run.notes["steps"] for run in at] == [2, 6]
    assert [len(run.metrics) for run in at] == [0, 3] and len(done.metrics) == 6
    assert {run.parameters for run in at} == {done.parameters}
    assert len({run.arm for run in (*at, done)}) == 3
    with_data = find_base_run(f"{stepwise}@2", key="k", allowed=())
    assert with_data.data == done.config["data"]
    assert with_data.notes.items() >= at[0].notes.items()
    assert 500 < with_data.notes["positions"]["token"]["counted"] <= 512


def test_tokens_are_counted_between_the_lines_of_metrics():
    lines = [{"step": step, "tokens": seen} for step, seen in ((10, 100), (20, 400), (30, None))]
    found = {step: tokens_at(step, lines) for step in (0, 5, 10, 15, 20, 25)}
    assert found == {0: 0, 5: 50, 10: 100, 15: 250, 20: 400, 25: 550}
    assert tokens_at(7, lines[:1]) == 70 and tokens_at(7, []) == 0


class Faulty(lightning.Callback):
    """Fails in one of its methods, at the last step."""

    def __init__(self, method):
        def fail(trainer, *_):
            if trainer.global_step == trainer.max_steps:
                raise OSError("no space for this")

        setattr(self, method, fail)


@pytest.mark.parametrize(
    "method", ["on_train_batch_end", "on_validation_start", "on_validation_end", "on_train_end"]
)
def test_a_fault_after_the_last_step_costs_no_model(
    stepwise, data, tmp_path, caplog, monkeypatch, method
):
    monkeypatch.setattr("train.commands.pretrain.callbacks_of", lambda _: [Faulty(method)])
    run = pretrain(f"data={data}", f"out={tmp_path}", "encoding=bipe_rope", *EACH_STEP)
    assert same_weights(run, stepwise)
    assert caplog.messages[-1] == "after the last step: OSError: no space for this"
    assert curve(run)[-1]["step"] == 12
