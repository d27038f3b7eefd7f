"""Checkpoints in shards: whole or ignored, readable by any devices, and safe to read."""

import json
import logging
import os
import pickle
import shutil

import numpy as np
import pytest
import torch

from tests.processes import together
from tests.train.studies import flip, losses, pretrain, same_weights
from tests.train.test_distributed import go_back
from train.disk import manifest
from train.disk.files import Output
from train.errors import DataError, RunError
from train.fit.checkpoints import checkpoints, shards
from train.fit.checkpoints.reading import latest_checkpoint, remove_unfinished, weights_of
from train.fit.runs import CHECKPOINTS

ONE = ("trainer=fsdp2", "trainer.accelerator=cpu", "trainer.devices=1", "trainer.precision=32-true")
KEEP = "keep_checkpoints=9"


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """The same run in files and in shards, at once and in the background."""
    out = tmp_path_factory.mktemp("shards")
    words = (f"data={data}", f"out={out}", "encoding=bipe_rope", KEEP)
    before = dict(os.environ)
    runs = {
        "files": pretrain(*words, "name=files"),
        "shards": pretrain(*words, "name=shards", *ONE),
        "background": pretrain(*words, "name=background", "checkpoint_async=true", *ONE),
    }
    # What Lightning sets for ranks would make the user's own Trainer wait for others.
    assert dict(os.environ) | {"PYTEST_CURRENT_TEST": ""} == before | {"PYTEST_CURRENT_TEST": ""}
    return runs


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the run in shards."""
    return shutil.copytree(trained["shards"], tmp_path / "shards")


def newest(run):
    return checkpoints(run / CHECKPOINTS)[-1]


def test_all_ways_of_saving_save_the_same(trained):
    expected = torch.load(newest(trained["files"]), weights_only=True)
    for run in trained.values():
        assert [path.name for path in checkpoints(run / CHECKPOINTS)] == [
            f"step={step:08d}.ckpt" for step in (2, 4, 6)
        ]
        for path in checkpoints(run / CHECKPOINTS):
            other = trained["files"] / CHECKPOINTS / path.name
            assert all(torch.equal(weights_of(other)[k], v) for k, v in weights_of(path).items())
        assert same_weights(run, trained["files"])
        assert sorted(p.name for p in (run / CHECKPOINTS).glob(".*")) == []
    found = shards.load_whole(newest(trained["shards"]))
    assert found.keys() == expected.keys()
    (state,), (other) = found["optimizer_states"], expected["optimizer_states"][0]
    for name, values in other["state"].items():
        assert all(torch.equal(state["state"][name][key], value) for key, value in values.items())


@pytest.mark.parametrize(
    ("was", "now", "in_shards"),
    [("shards", (), False), ("files", ONE, True), ("shards", (*ONE, "checkpoints=whole"), False)],
)
def test_a_run_goes_on_from_the_other_kind(was, now, in_shards, trained, data, tmp_path):
    run = shutil.copytree(trained[was], tmp_path / was)
    go_back(run, step=4)
    words = (f"data={data}", f"out={tmp_path}", f"name={was}", KEEP)
    pretrain(*words, "encoding=bipe_rope", "if_exists=resume", *now)
    assert np.array_equal(losses(run), losses(trained["files"]))
    assert same_weights(run, trained["files"])
    assert newest(run).is_dir() == in_shards


DAMAGES = {
    "no manifest": lambda path: (path / shards.MANIFEST).unlink(),
    "is missing": lambda path: next(path.glob("*.distcp")).unlink(),
    "checksum of __0_0.distcp": lambda path: flip(path / "__0_0.distcp"),
    "checksum of rest.pt": lambda path: flip(path / "rest.pt"),
    "manifest is damaged": lambda path: flip(path / shards.MANIFEST),
}


@pytest.mark.parametrize("words", DAMAGES)
def test_a_damaged_one_is_named_and_passed_over(words, run, caplog):
    DAMAGES[words](newest(run))
    with caplog.at_level(logging.WARNING):
        assert latest_checkpoint(run / CHECKPOINTS).name == "step=00000004.ckpt"
    assert str(newest(run)) in caplog.text
    assert words in caplog.text


def test_what_a_kill_leaves_is_removed(run):
    folder = run / CHECKPOINTS
    DAMAGES["no manifest"](newest(run))
    (folder / ".step=00000008.ckpt.part").mkdir()
    (folder / ".step=00000008.ckpt.part" / "__0_0.distcp").write_text("half")
    (folder / ".step=00000009.ckpt.part").write_text("half")
    (folder / "step=00000010.ckpt").write_text("without a manifest")
    remove_unfinished(folder)
    assert [path.name for path in sorted(folder.iterdir())] == [
        "model",
        "step=00000002.ckpt",
        "step=00000004.ckpt",
    ]


def test_nothing_in_a_checkpoint_runs_code_or_reads_elsewhere(run, tmp_path):
    """The manifest of another's checkpoint may be sealed, and its sums may be right."""
    path = newest(run)

    class Evil:
        def __reduce__(self):
            return open, (str(tmp_path / "ran"), "w")

    (path / ".metadata").write_bytes(pickle.dumps(Evil()))
    shards.load_whole(path)
    stored = json.loads((path / shards.MANIFEST).read_text())
    for name in ("__0_0.distcp", "rest.pt"):
        kept = (path / name).read_bytes()
        torch.save(Evil(), path / name)
        with pytest.raises((RunError, pickle.UnpicklingError)):
            shards.load_whole(path)
        (path / name).write_bytes(kept)
    for chunk in stored["tensors"]["state_dict/model.norm.weight"]["chunks"]:
        chunk["file"] = "../../../outside"
    manifest.store(path / shards.MANIFEST, stored)
    assert "outside its folder" in str(shards.fault_of(path))
    with pytest.raises((DataError, RunError), match="outside its folder"):
        shards.load_whole(path)
    assert not (tmp_path / "ran").exists()


def fails_on_rank_1(folder):
    """Save with a full disk on one rank; what each rank is told."""

    def full(self, data):
        raise DataError(f"{self.path}: no room is left to write it")

    state = {"state_dict": {f"w{n}": torch.full((9, 9), float(n)) for n in range(4)}, "step": 1}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(RunError) as told:
        if torch.distributed.get_rank() == 1:
            patch.setattr(Output, "write", full)
        shards.save(state, folder / "step=00000001.ckpt")
    found = [None, None]
    torch.distributed.all_gather_object(found, str(told.value))
    return found, list(folder.iterdir())


@pytest.mark.slow
def test_a_full_disk_of_one_rank_is_told_by_all_and_leaves_nothing(tmp_path):
    told, left = together(fails_on_rank_1, tmp_path)
    assert told[0] == told[1]
    assert "rank 1 cannot write its part of" in told[0]
    assert "no room is left" in told[0]
    assert left == []
