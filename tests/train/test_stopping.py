"""A signal stops each command where it may stop; the same command goes on, bit for bit."""

import errno
import re
import shutil
import time

import pytest

from tests.train.data.corpora import content
from tests.train.studies import curve, pretrain, same_weights
from tests.train.test_stop import STATUS, send
from train.cli import main
from train.data.preparing import parts
from train.data.preparing.progress import Watch
from train.evals.rows import FILE, Journal
from train.fit import handover
from train.fit.checkpoints import checkpoints
from train.fit.checkpoints.writing import SaveBest, SaveCheckpoints
from train.fit.module import LMModule
from train.fit.runs import CHECKPOINTS, MODEL
from train.tasks.scrolls.decoding import PredictionJournal

TASK = ("log_every=4", "steps=6", "checkpoint_every=4", "validate_every=3", "rows.micro_batch=2")


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
def unstopped(trained):
    """The run that nothing stops."""
    return trained(*TASK, "encoding=bipe_rope")


MOMENTS = {
    "in the second half of a step": (LMModule, "loss", 4, 2),
    "before a validation": (LMModule, "training_step", 3, 3),
    "in a validation": (LMModule, "validation_step", 1, 3),
    "in a checkpoint": (SaveCheckpoints, "save", 1, 4),
    "in the last validation": (LMModule, "validation_step", 3, 6),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_whenever_it_is_stopped_it_goes_on_the_same(moment, bipe, at, tmp_path, unstopped):
    owner, method, call, step = MOMENTS[moment]
    name = "SIGINT" if call == 4 else "SIGTERM"
    words = (*TASK, "checkpoint_async=true") if moment == "before a validation" else TASK
    undo = at(owner, method, call=call, name=name)
    status, _, err = bipe("pretrain", *words)
    assert status == STATUS[name]
    assert f"bipe: stopped by {name}: step {step} is done and its checkpoint is written" in err
    assert "Traceback" not in err
    run = tmp_path / "bipe_rope"
    assert checkpoints(run / CHECKPOINTS)[-1].name == f"step={step:08d}.ckpt"
    assert not (run / MODEL).exists()
    undo()
    assert bipe("pretrain", *words)[0] == 0
    assert curve(run) == curve(unstopped)
    assert same_weights(run, unstopped)


def test_a_validation_that_was_due_leaves_the_later_ones_whole(bipe, at, tmp_path, data):
    words = (*TASK, "validate_every=2")
    unstopped = pretrain(*words, f"data={data}", f"out={tmp_path / 'unstopped'}")
    first = (SaveCheckpoints, "on_validation_end", 1)
    for owner, method, call, step in ((LMModule, "training_step", 2, 2), (*first, 4)):
        undo = at(owner, method, call=call)
        status, _, err = bipe("pretrain", *words)
        assert (status, f"step {step} is done" in err) == (143, True)
        undo()
    assert bipe("pretrain", *words)[0] == 0
    assert curve(tmp_path / unstopped.name) == curve(unstopped)
    assert same_weights(tmp_path / unstopped.name, unstopped)


def test_a_stop_while_the_model_is_written_is_too_late(bipe, at, tmp_path, unstopped):
    at(handover, "save_model", call=1)
    status, _, err = bipe("pretrain", *TASK)
    told = f"bipe: SIGTERM came after the last step: {tmp_path / 'bipe_rope'} is finished\n"
    assert status == 0 and err.endswith(told)
    assert same_weights(tmp_path / "bipe_rope", unstopped)


def test_a_stop_before_the_first_step_leaves_nothing(bipe, at, tmp_path):
    at(SaveCheckpoints, "on_train_start", call=1)
    status, _, err = bipe("pretrain", *TASK)
    assert status == 143
    assert "bipe: stopped by SIGTERM: no step was trained" in err
    assert not (tmp_path / "bipe_rope").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_prepare_keeps_the_parts_that_are_done(workers, at, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("train.data.reading.files.part_size", lambda total: total // 4)
    for name in "abcd":
        rows = "".join(f'{{"text": "{name} number {n}. And more."}}\n' for n in range(50))
        (tmp_path / f"{name}.jsonl").write_text(rows)
    words = (
        *("prepare", "corpus=jsonl", f"corpus.sources.text.documents.path={tmp_path}"),
        *("corpus.sources.text.documents.pattern=*.jsonl", "corpus.tokenizer.vocab_size=270"),
        *("segmenter@corpus.sources.text.segmenter=newline", f"engine.workers={workers}"),
    )
    where = (parts, "make_part", 3) if workers == 1 else (Watch, "_collect", 2)
    undo = at(*where[:2], call=where[2])
    assert main([*words, f"data={tmp_path / 'data'}"]) == 143
    told = capsys.readouterr().err.splitlines()[-1]
    undo()
    work = list((tmp_path / "data/.part/parts/text").glob("0000?"))
    found = re.fullmatch(
        "bipe: stopped by SIGTERM: ([0-4]) of 4 parts done and kept; run the same command again to "
        "resume",
        told,
    )
    # A second worker may end its part after that was counted.
    assert found and int(found[1]) in range(len(work) - workers + 1, len(work) + 1)
    assert len(work) == 2 or workers == 2
    assert main([*words, f"data={tmp_path / 'data'}"]) == 0
    assert main([*words, f"data={tmp_path / 'other'}"]) == 0
    assert content(tmp_path / "data") == content(tmp_path / "other")


def test_evaluate_keeps_what_is_measured(bipe, at, tmp_path, unstopped):
    shutil.copytree(unstopped, tmp_path / "bipe_rope")
    undo = at(Journal, "append", call=3)
    status, _, err = bipe("evaluate", "evaluate.probes=[passkey]")
    file = tmp_path / "bipe_rope" / FILE
    assert status == 143
    assert "bipe: stopped by SIGTERM: 2 of " in err and " measurements are kept; run" in err
    before = file.read_text()
    undo()
    assert bipe("evaluate", "evaluate.probes=[passkey]")[0] == 0
    assert file.read_text().startswith(before)


SCROLLS = (
    *("task=fact_lookup", "task.facts=1", "task.keys=50", "task.values=8", "task.train=16"),
    *("task.validation=6", "task.test=2", "steps=3", "scrolls.source=proofs", "trainer=cpu"),
    *("scrolls.max_new=2", "scrolls.batch=2", "row_length=64", "rows.global_batch=4"),
    *("rows.micro_batch=2", "validate_every=1", "optimizer.lr=0.1", "schedule.warmup=1"),
)


@pytest.mark.slow
def test_scrolls_keeps_the_best_weights_and_its_outputs(bipe, at, monkeypatch, tmp_path, unstopped):
    words = (*SCROLLS, f"checkpoint={unstopped}")
    assert bipe("scrolls", *words, f"out={tmp_path}/whole", study=False)[0] == 0
    for owner, method, call, told in (
        (LMModule, "validation_step", 4, "step 2 is done and its checkpoint is written"),
        (PredictionJournal, "add", 2, "outputs kept: 2 of 6; run the same command"),
    ):
        undo = at(owner, method, call=call)
        status, _, err = bipe("scrolls", *words, f"out={tmp_path}/broken", study=False)
        undo()
        assert (status, f"bipe: stopped by SIGTERM: {told}" in err) == (143, True)
    assert bipe("scrolls", *words, f"out={tmp_path}/broken", study=False)[0] == 0
    real = SaveBest.on_validation_epoch_end

    def without_space(best, trainer, module):
        if trainer.global_step == trainer.max_steps:
            raise OSError(errno.ENOSPC, "no space left", str(best.path))
        real(best, trainer, module)

    with monkeypatch.context() as patch:
        patch.setattr(SaveBest, "on_validation_epoch_end", without_space)
        status, _, err = bipe("scrolls", *words, f"out={tmp_path}/full", study=False)
    assert status != 0 and "no space left" in err
    assert bipe("scrolls", *words, f"out={tmp_path}/full", study=False)[0] == 0
    outs = ("whole", "broken", "full")
    whole, *others = (next((tmp_path / out).glob("*seed0")) for out in outs)
    for other in others:
        assert curve(other) == curve(whole)
        assert same_weights(other, whole)


def test_a_measurement_while_training_is_no_step_that_does_not_end(bipe, monkeypatch):
    words = ("callbacks=evaluation", "callbacks.evaluation.every=2", "stall_after=1")
    monkeypatch.setattr("train.evals.live.LiveEvaluation._measure",
                        lambda *_: time.sleep(3))  # fmt: skip
    status, _, err = bipe("pretrain", *TASK, *words, "steps=4")
    assert status == 0 and "has finished for" not in err


def test_a_step_that_does_not_end_is_told_once_with_its_stack(bipe, monkeypatch, tmp_path):
    real = LMModule.training_step

    def slow_step(module, batch, batch_idx):
        if batch.step == 2:
            time.sleep(4)
        return real(module, batch, batch_idx)

    monkeypatch.setattr(LMModule, "training_step", slow_step)
    with (tmp_path / "stacks").open("w") as stacks:
        monkeypatch.setattr("train.fit.watching.stalls._STDERR", stacks)
        status, _, err = bipe("pretrain", *TASK, "stall_after=1")
    assert status == 0
    assert err.count("has finished for 1 s after step 2 on rank 0") == 1
    assert "in slow_step" in (tmp_path / "stacks").read_text()
