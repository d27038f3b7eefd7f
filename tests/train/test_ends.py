"""However a training ends, its record says so, its checkpoint is a model, and it goes on."""

import random

import lightning
import pytest
from lightning.pytorch.utilities.exceptions import SIGTERMException

from tests.train.studies import EACH_STEP, curve, notes_of, same_weights
from train.commands.during.states import state_of
from train.errors import RunError
from train.fit import runs
from train.fit.checkpoints import find_place
from train.fit.checkpoints.reading import load_place
from train.fit.parallel.callbacks import Ends, exits_are_faults
from train.fit.record import read_sessions
from train.stop import Stopped

OWN = "allowed_targets=[tests]"
# Checkpoints of few steps, so that the one of the end is written for it.
WORDS = (*EACH_STEP, "checkpoint_every=5", OWN)
HOOKS = ("on_train_batch_start", "on_train_batch_end", "on_validation_batch_end",
         "on_validation_end", "on_before_optimizer_step", "on_train_start")  # fmt: skip


class Ender(lightning.Callback):
    """Does something in a hook once a step is done."""

    def __init__(self, *, hook: str, at: int, what: str):
        self.at, self.what = at, what
        setattr(self, hook, self.end)

    def end(self, trainer, *_):
        if trainer.global_step < self.at:
            return
        self.at = 10**9  # once
        if self.what == "should_stop":
            trainer.should_stop = True
        else:
            raise {"interrupt": KeyboardInterrupt, "fault": RuntimeError("no more"),
                   "iteration": StopIteration, "exit": SystemExit(0)}[self.what]  # fmt: skip


def ender(what, hook, at):
    given = {"_target_": "tests.train.test_ends.Ender", "hook": hook, "at": at, "what": what}
    return [f"+callbacks.ender.{key}={value}" for key, value in given.items()]


def assert_stopped(run, *, by, step=None):
    """The laws of a run that is not finished."""
    session, state = read_sessions(run)[-1], state_of(run)
    assert by in session["how"] and session["how"] != "finished"
    assert by in state.state and f"at step {session['end_step']}" in state.state
    assert "resumes from step" in state.next
    assert step is None or session["end_step"] == step
    assert not (run / runs.MODEL).exists()
    if session["end_step"] or step:
        place = find_place(f"{run}@last", key="run")
        assert place.step <= session["end_step"]
        assert load_place(place, allowed=())[1]["steps"] == place.step
    return session["end_step"]


def goes_on(bipe, run, stepwise):
    status, _, err = bipe("pretrain", *WORDS)
    assert status == 0, err
    assert state_of(run).state == "finished"
    assert read_sessions(run)[-1]["how"] == "finished" and notes_of(run)["steps"] == 12
    assert same_weights(run, stepwise)
    found = {row["step"]: row["loss"] for row in curve(run)}  # also that of the stop, validated
    assert {row["step"]: row["loss"] for row in curve(stepwise)}.items() <= found.items()


@pytest.mark.filterwarnings("ignore:You're using the WeightAveraging")
def test_a_training_of_averages_that_was_stopped_goes_on_with_its_weights(bipe, tmp_path):
    mean = "+callbacks.mean={_target_: lightning.pytorch.callbacks.EMAWeightAveraging, decay: 0.5}"
    stop = ender("should_stop", "on_train_batch_end", 3)
    for out, more in (("whole", []), ("cut", stop), ("cut", [])):
        status, _, err = bipe("pretrain", *WORDS, mean, *more, f"out={tmp_path / out}")
        assert status == 0, err
    assert same_weights(tmp_path / "whole" / "bipe_rope", tmp_path / "cut" / "bipe_rope")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_callback_that_asks_for_a_stop_is_named_and_the_same_command_goes_on(
    hook, bipe, tmp_path, stepwise
):
    at, run = random.randint(1, 8), tmp_path / "bipe_rope"  # there are validations at 4, 8 and 12
    at = 0 if hook == "on_train_start" else at
    status, _, err = bipe("pretrain", *WORDS, *ender("should_stop", hook, at))
    assert status == 0 and "Traceback" not in err
    step = assert_stopped(run, by="stopped by Ender")
    assert f"stopped by Ender at step {step} of 12, and is not finished" in err, (hook, at)
    assert (f"bipe finish {run}" in err) == (step > 0)  # from a checkpoint
    goes_on(bipe, run, stepwise)


@pytest.mark.parametrize(
    ("what", "by", "status"),
    [("interrupt", "stopped by KeyboardInterrupt in Ender", 130), ("fault", "no more", None)],
)
def test_what_a_callback_raises_is_recorded(what, by, status, bipe, tmp_path, stepwise):
    hook, at, run = random.choice(HOOKS[:5]), random.randint(6, 8), tmp_path / "bipe_rope"
    words = (*WORDS, *ender(what, hook, at))
    if status is None:
        with pytest.raises(RuntimeError, match=by):
            bipe("pretrain", *words)
    else:
        assert bipe("pretrain", *words)[0] == status
    assert_stopped(run, by=by)
    goes_on(bipe, run, stepwise)


@pytest.mark.parametrize("hook", [*HOOKS[:5], "on_validation_start"])
def test_a_stop_iteration_of_a_callback_is_no_end_of_the_rows(hook, bipe, tmp_path, stepwise):
    words = ender("iteration", hook, random.choice([4, 8]) if "validation" in hook else 6)
    status, _, err = bipe("pretrain", *WORDS, *words)
    assert status == 2 and "ended early" in err and "StopIteration" in err, (words, err)
    run = tmp_path / "bipe_rope"
    assert read_sessions(run)[-1]["how"].startswith("RunError") and not (run / "model").exists()
    goes_on(bipe, run, stepwise)


def test_a_validation_that_a_stop_iteration_takes_from_the_last_step_is_missed(bipe, caplog):
    status = bipe("pretrain", *WORDS, *ender("iteration", "on_train_batch_end", 12))[0]
    assert status == 0 and "after the last step" in caplog.text and "StopIteration" in caplog.text


@pytest.mark.parametrize("hook", ["on_train_batch_end", "on_validation_end"])
def test_an_exit_of_a_callback_is_a_fault(hook, bipe, tmp_path, stepwise):
    status, _, err = bipe("pretrain", *WORDS, *ender("exit", hook, 5))
    assert status == 2 and "SystemExit(0) in Ender ended the run" in err
    assert "SystemExit(0) in Ender" in read_sessions(tmp_path / "bipe_rope")[-1]["how"]
    goes_on(bipe, tmp_path / "bipe_rope", stepwise)


def test_the_end_of_a_process_in_a_script_is_no_fault_of_the_training(tmp_path):
    """Lightning hears SIGTERM where no command does."""
    ends = Ends()
    told = pytest.raises(Stopped, match=r"SIGTERM: the newest checkpoint .* is kept")
    with told, ends.interrupted(tmp_path), exits_are_faults():
        raise SIGTERMException


def callback(kind, given="monitor:validation/loss"):
    return f"+callbacks.x={{_target_:lightning.pytorch.callbacks.{kind},{given}}}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((callback("EarlyStopping"), "rows.validation_rows=0"),
         ("EarlyStopping", "rows.validation_rows above 0")),
        ((callback("ModelCheckpoint"), "rows.validation_rows=0"),
         ("ModelCheckpoint", "rows.validation_rows above 0")),
        ((callback("EarlyStopping", "monitor:train/loss"), "validate_every=null"),
         ("EarlyStopping", "validate_every")),
        ((callback("Timer", "duration:{_target_:datetime.timedelta}"),
          "allowed_targets=[datetime]"),
         ("callbacks.x.duration: timedelta", "a function of your own")),  # a class in C
    ],
)  # fmt: skip
def test_a_callback_that_could_not_act_is_refused(words, told, refused):
    said = refused("pretrain", *words)
    assert all(each in said for each in told)


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`")  # finish has none
def test_an_early_stop_stops_by_the_validation_loss_and_finish_ends_the_run(bipe, tmp_path):
    early = {"_target_": "lightning.pytorch.callbacks.EarlyStopping", "monitor": "validation/loss",
             "mode": "max", "patience": 1}  # fmt: skip
    words = [f"+callbacks.early.{key}={value}" for key, value in early.items()]
    assert bipe("pretrain", *WORDS, *words)[0] == 0
    run = tmp_path / "bipe_rope"
    assert assert_stopped(run, by="stopped by EarlyStopping") == 8  # the second validation
    assert bipe("finish", str(run), "cooldown=0", study=False)[0] == 0
    assert state_of(run).state == "finished" and notes_of(run)["steps"] == 8


def test_an_early_stop_of_a_misspelt_loss_is_one_line(bipe):
    status, _, err = bipe("pretrain", *WORDS, callback("EarlyStopping", "monitor:val_loss"))
    said = err[err.index("bipe: ") :]
    assert status == 2 and "`val_loss`" in said and "`validation/loss`" in said


def test_a_time_limit_stops_and_is_told_again(bipe, tmp_path, stepwise):
    run, limit = tmp_path / "bipe_rope", "+trainer.max_time={seconds: 0}"
    for again in (False, True):
        status, _, err = bipe("pretrain", *WORDS, limit)
        assert status == 0
        assert_stopped(run, by="stopped by Timer (trainer.max_time)", step=0)
        assert "again at once: remove what stops it" in err, again
        assert "bipe finish" not in err  # which would have no checkpoint
    with pytest.raises(RunError, match="no checkpoint"):
        find_place(f"{run}@last", key="run")
    goes_on(bipe, run, stepwise)


def test_a_fast_development_run_is_one_step_of_the_run(bipe, tmp_path, stepwise):
    assert bipe("pretrain", *WORDS, "+trainer.fast_dev_run=true")[0] == 0
    run = tmp_path / "bipe_rope"
    assert_stopped(run, by="stopped by trainer.fast_dev_run", step=1)
    goes_on(bipe, run, stepwise)


def test_a_model_of_an_earlier_step_does_not_make_a_run_finished(bipe, stopped, stepwise):
    """As earlier versions wrote it when a callback had stopped a run."""
    run = stopped(8)
    assert bipe("finish", f"{run}@5", "name=short", "cooldown=0", study=False)[0] == 0
    (run.parent / "short" / runs.MODEL).rename(run / runs.MODEL)
    assert state_of(run).state == "stopped at step 5, although it has a model/"
    assert bipe("pretrain", *EACH_STEP)[0] == 0
    assert same_weights(run, stepwise) and state_of(run).state == "finished"
