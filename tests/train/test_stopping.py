"""A signal stops a training after the step, and the same command goes on bit for bit."""

import os
import signal

import pytest

from tests.train.studies import curve, pretrain, same_weights
from train.fit.checkpoints import SaveCheckpoints, checkpoints
from train.fit.module import LMModule
from train.fit.runs import CHECKPOINTS, MODEL

STATUS = {"SIGTERM": 143, "SIGUSR1": 138, "SIGINT": 130, "SIGHUP": 129}
TASK = ("log_every=4", "steps=6", "checkpoint_every=4", "validate_every=3", "rows.micro_batch=2")


def send(name="SIGTERM"):
    os.kill(os.getpid(), signal.Signals[name])


@pytest.fixture
def at(monkeypatch):
    """Send a signal when a method is called for the n-th time."""

    def arrange(owner, method, *, call, name="SIGTERM"):
        real, calls = getattr(owner, method), []

        def counted(*args, **kwargs):
            calls.append(1)
            if len(calls) == call:
                send(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, method, counted)
        return monkeypatch.undo

    return arrange


@pytest.fixture(scope="module")
def unstopped(data, tmp_path_factory):
    """The run that nothing stops."""
    out = tmp_path_factory.mktemp("unstopped")
    return pretrain(*TASK, f"data={data}", f"out={out}", "encoding=bipe_rope")


@pytest.mark.parametrize("name", STATUS)
def test_the_status_says_why_and_the_step_is_kept(name, bipe, at, tmp_path, unstopped):
    undo = at(LMModule, "training_step", call=4, name=name)  # the second half of step 2
    status, _, err = bipe("pretrain", *TASK)
    assert status == STATUS[name]
    assert f"bipe: stopped by {name}: step 2 is done and its checkpoint is written" in err
    assert "Traceback" not in err
    run = tmp_path / "bipe_rope"
    assert [path.name for path in checkpoints(run / CHECKPOINTS)] == ["step=00000002.ckpt"]
    undo()
    assert bipe("pretrain", *TASK)[0] == 0
    assert curve(run) == curve(unstopped)
    assert same_weights(run, unstopped)


MOMENTS = {
    "accumulating": (LMModule, "training_step", 7, 4),
    "before a validation": (LMModule, "optimizer_step", 3, 3),
    "in a validation": (LMModule, "validation_step", 1, 3),
    "at the end of a validation": (LMModule, "validation_step", 2, 3),
    "in a checkpoint": (SaveCheckpoints, "save", 1, 4),
    "in the last step": (LMModule, "optimizer_step", 6, 6),
    "in the last validation": (LMModule, "validation_step", 3, 6),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_whenever_it_is_stopped_it_goes_on_the_same(moment, bipe, at, tmp_path, unstopped):
    owner, method, call, step = MOMENTS[moment]
    undo = at(owner, method, call=call)
    status, _, err = bipe("pretrain", *TASK)
    assert (status, f"step {step} is done" in err) == (143, True)
    run = tmp_path / "bipe_rope"
    assert checkpoints(run / CHECKPOINTS)[-1].name == f"step={step:08d}.ckpt"
    assert not (run / MODEL).exists()
    undo()
    assert bipe("pretrain", *TASK)[0] == 0
    assert curve(run) == curve(unstopped)
    assert same_weights(run, unstopped)


def test_a_stop_while_the_model_is_written_is_too_late(bipe, at, tmp_path, unstopped):
    at(__import__("train.fit.training").fit.training, "save_model", call=1)
    assert bipe("pretrain", *TASK)[0] == 0
    assert same_weights(tmp_path / "bipe_rope", unstopped)


def test_a_stop_before_the_first_step_leaves_nothing(bipe, at, tmp_path):
    at(SaveCheckpoints, "on_train_start", call=1)
    status, _, err = bipe("pretrain", *TASK)
    assert status == 143
    assert "bipe: stopped by SIGTERM: no step was trained" in err
    assert not (tmp_path / "bipe_rope").exists()
