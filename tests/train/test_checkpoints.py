"""Checkpoints are there whole or not at all, and the newest whole one is found."""

import errno
import json
import logging
import os
from types import SimpleNamespace

import pytest
import torch

from tests.train.data.faulty import FaultyDisk
from tests.train.studies import flip
from tests.train.watching.test_metrics import Run
from train.errors import DataError
from train.fit.checkpoints import checkpoints
from train.fit.checkpoints.reading import latest_checkpoint
from train.fit.checkpoints.writing import AtomicCheckpointIO, SaveCheckpoints

IO = AtomicCheckpointIO()


def write(folder, *steps):
    for step in steps:
        IO.save_checkpoint({"step": step, "x": torch.full((100,), step)}, path(folder, step))


def path(folder, step):
    return folder / f"step={step:08d}.ckpt"


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_what_is_saved_is_loaded_with_a_manifest_and_removed_with_it(tmp_path):
    folder = tmp_path / "new" / "folder"
    write(folder, 2)
    found = IO.load_checkpoint(path(folder, 2))
    assert found["step"] == 2 and torch.equal(found["x"], torch.full((100,), 2))
    assert names(folder) == ["step=00000002.ckpt", "step=00000002.json"]
    manifest = json.loads((folder / "step=00000002.json").read_text())
    assert manifest["bytes"] == path(folder, 2).stat().st_size
    IO.remove_checkpoint(path(folder, 2))
    assert names(folder) == []


def test_the_newest_is_found_and_other_files_are_none(tmp_path):
    assert latest_checkpoint(tmp_path / "none") is None
    write(tmp_path, 8, 10, 9)
    for name in ("step=99.ckpt.part", "step=last.ckpt", "notes.txt"):
        (tmp_path / name).write_text("")
    assert latest_checkpoint(tmp_path) == path(tmp_path, 10)
    assert checkpoints(tmp_path) == [path(tmp_path, step) for step in (8, 9, 10)]


SPOILED = [lambda path: os.truncate(path, 100), flip]
SPOILED += [lambda path: path.with_suffix(".json").unlink()]
SPOILED += [lambda path, x=x: path.with_suffix(".json").write_text(x) for x in ("", "[]", "{}")]


@pytest.mark.parametrize("spoil", SPOILED)
def test_a_spoiled_one_is_named_and_passed_over(spoil, tmp_path, caplog):
    write(tmp_path, 2, 4)
    last = path(tmp_path, 4)
    spoil(last)
    with caplog.at_level(logging.WARNING):
        assert latest_checkpoint(tmp_path) == path(tmp_path, 2)
    assert str(last) in caplog.text
    assert spoil not in SPOILED[:2] or f"{last} is skipped: its checksum" in caplog.text
    path(tmp_path, 2).write_bytes(b"")
    assert latest_checkpoint(tmp_path) is None


@pytest.mark.parametrize("fail_at", [0, 3])
def test_a_full_disk_is_told_and_leaves_what_was_there(fail_at, tmp_path, monkeypatch):
    write(tmp_path, 2)
    before = names(tmp_path)
    FaultyDisk(monkeypatch, fail_at=fail_at, error=errno.ENOSPC, stays=True)
    with pytest.raises(DataError, match=r"step=00000004.ckpt: no room is left .*out="):
        write(tmp_path, 4)
    monkeypatch.undo()
    assert names(tmp_path) == before
    assert latest_checkpoint(tmp_path) == path(tmp_path, 2)


class Saving(Run):
    """A trainer that notes what is saved and validated."""

    fit_loop, num_val_batches = SimpleNamespace(), [3]

    def save_checkpoint(self, path):
        self.happened.append("saved")
        IO.save_checkpoint({"step": self.global_step}, path)

    def call(self, hook, *rest):
        self.happened += ["validated"] * (hook == "on_validation_end")
        super().call(hook, *rest)


def happened(callback, *, validate_every=None):
    """What happens in a run of seven steps."""
    run = Saving(callback, max_steps=7)
    run.happened, run.val_check_batch = [], validate_every
    run.train(7, validate_every=validate_every).call("on_train_end")
    return run.happened


@pytest.mark.parametrize(
    ("keep", "steps"), [(1, [7]), (2, [6, 7]), (3, [4, 6, 7]), (9, [2, 4, 6, 7])]
)
def test_the_newest_few_are_kept_and_the_last_step_is_saved(keep, steps, tmp_path):
    happened(SaveCheckpoints(folder=tmp_path, every=2, keep=keep))
    assert checkpoints(tmp_path) == [path(tmp_path, step) for step in steps]
    assert len(names(tmp_path)) == 2 * len(steps)


@pytest.mark.parametrize(
    ("every", "validate_every", "seen"),
    [
        (1, None, ["saved"] * 7),
        (1, 2, ["saved", "validated", "saved"] * 3 + ["saved"]),
        (2, 4, ["saved", "validated", "saved", "saved", "saved"]),
    ],
)
def test_each_step_is_saved_once_after_its_validation(every, validate_every, seen, tmp_path):
    callback = SaveCheckpoints(folder=tmp_path, every=every)
    assert happened(callback, validate_every=validate_every) == seen
