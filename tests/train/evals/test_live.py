"""Evaluation while training: the numbers of `bipe evaluate`, and a training that is left alone."""

from pathlib import Path

import lightning
import pytest

from tests.train.studies import back_to, curve, pretrain, same_weights
from train.evals.rows import FILE, Journal

EVERY_2 = ("callbacks=evaluation", "callbacks.evaluation.every=2", "evaluate.probes=[]")


class Seen(lightning.Callback):
    """Somebody's own callback."""

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        with Path(trainer.default_root_dir, "seen").open("a") as file:
            file.write(str(trainer.global_step))


def live(run):
    rows = [row for row in Journal(run / FILE).rows() if row.measure == "perplexity"]
    return {(row.step, row.length): row.value for row in rows if row.step is not None}


def test_the_training_is_the_same_and_a_resumed_run_measures_nothing_twice(smoke):
    watched = pretrain(*smoke, *EVERY_2, "name=watched")
    plain = pretrain(*smoke, "name=plain")
    assert same_weights(watched, plain)
    assert curve(watched) == curve(plain)
    found = live(watched)
    assert found.keys() == {(step, length) for step in (2, 4, 6) for length in (64, 128)}
    lines = (watched / FILE).read_text()
    back_to(watched, step=4)
    pretrain(*smoke, *EVERY_2, "name=watched", "if_exists=resume")
    assert (watched / FILE).read_text() == lines


@pytest.mark.slow
def test_the_last_step_has_the_numbers_of_bipe_evaluate(bipe, smoke, tmp_path):
    run = pretrain(*smoke, *EVERY_2)
    words = ("evaluate.split=validation", "evaluate.probes=[]", "evaluate.lengths=[1,2]")
    status, _, err = bipe("evaluate", *words)
    assert status == 0, err
    rows = [row for row in Journal(run / FILE).rows() if row.measure == "perplexity"]
    final = {row.length: row.value for row in rows if row.step is None}
    assert final == {length: value for (step, length), value in live(run).items() if step == 6}
    status, _, err = bipe("report")
    assert status == 0, err
    page = (tmp_path / "report.html").read_text()
    assert "While training" in page and 'id="live"' in page


def test_a_callback_of_ones_own_is_called(smoke):
    own = "+callbacks.mine._target_=tests.train.evals.test_live.Seen"
    run = pretrain(*smoke, own, "allowed_targets=[tests]", "steps=3")
    assert (run / "seen").read_text() == "123"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["+callbacks.mine._target_=train.fit.module.LMModule"],
            "must name a subclass of Callback",
        ),
        (["+callbacks.mine.every=3"], "callbacks.mine must name a class with _target_"),
        (["callbacks=evaluation", "callbacks.evaluation.every=0"], "every must be at least 1"),
        (["callbacks=evaluation", "+callbacks.evaluation.x=0"], "has no such key"),
    ],
)
def test_what_is_no_callback_is_refused_before_the_run(refused, words, message):
    assert message in refused("pretrain", *words)
