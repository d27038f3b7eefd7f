"""A run that is stopped and resumed is the run that was never stopped, bit for bit."""

import numpy as np
import pytest

from tests.train.studies import crashing, curve, losses, pretrain, same_weights
from train.fit.checkpoints import checkpoints
from train.fit.runs import CHECKPOINTS, METRICS


@pytest.fixture(scope="module")
def unstopped(data, tmp_path_factory):
    """The run that nothing stops."""
    out = tmp_path_factory.mktemp("unstopped")
    return pretrain(f"data={data}", f"out={out}", "encoding=bipe_rope")


def test_a_run_stopped_again_and_again_is_the_run_that_was_never_stopped(
    smoke, unstopped, tmp_path
):
    for at in (3, 3, 5):
        with crashing(at=at):
            pretrain(*smoke)
        left = [path.name for path in checkpoints(tmp_path / "bipe_rope" / CHECKPOINTS)]
        assert left[-1] == f"step={at // 2 * 2:08d}.ckpt"
    run = pretrain(*smoke)
    assert curve(run) == curve(unstopped)
    assert same_weights(run, unstopped)
    before = (run / METRICS).read_text()
    pretrain(*smoke)  # it is finished
    assert (run / METRICS).read_text() == before


@pytest.mark.parametrize(("before", "after", "at"), [(4, 1, 3), (1, 4, 3)])
def test_the_micro_batch_may_change_between_the_parts(before, after, at, smoke, unstopped):
    with crashing(at=at):
        pretrain(*smoke, f"rows.micro_batch={before}", "checkpoint_every=1")
    words = ("checkpoint_every=1", f"rows.micro_batch={after}")
    run = pretrain(*smoke, *words)
    steps = [(row["step"], row["tokens"], row["lr"]) for row in curve(run)]
    assert steps == [(row["step"], row["tokens"], row["lr"]) for row in curve(unstopped)]
    assert np.allclose(losses(run), losses(unstopped), atol=1e-5)
    validations = [row["validation_loss"] for row in curve(run)]
    assert [loss is not None for loss in validations] == [False, False, True] * 2


def test_overwriting_begins_again(smoke, unstopped):
    with crashing(at=3):
        pretrain(*smoke, "seed=7")
    with pytest.raises(ValueError, match=r"seed was 7, is 0"):
        pretrain(*smoke)
    run = pretrain(*smoke, "if_exists=overwrite")
    assert curve(run) == curve(unstopped)
    assert same_weights(run, unstopped)


def test_what_fails_before_the_first_step_leaves_nothing(smoke, tmp_path):
    with crashing(at=0):
        pretrain(*smoke)
    assert list(tmp_path.iterdir()) == []
