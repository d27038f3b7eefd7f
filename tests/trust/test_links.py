"""No command writes, replaces or removes through a link inside of a run or of prepared data."""

import shutil

import pytest

from tests.trust.conftest import tree
from train.data.store import workplace as top
from train.disk.files import refuse_links
from train.errors import DataError
from train.fit import runs

OF_RUN = [
    "checkpoints", "model", "scrolls", "metrics.csv", "evaluation.jsonl", "environment.json",
    "sessions.jsonl", "config.yaml", ".lock", "tensorboard", "loggers.json", "wandb", "csv",
    "lightning", "examples", "checkpoints/model", "checkpoints/step=00000009.ckpt",
    "checkpoints/model/config.json", "model/README.md", "tensorboard/version_0",
    "lightning/last.ckpt", "scrolls/test", ".model.new.here.1.x",
]  # fmt: skip
OF_DATA = ["", "parts", "parts/text", "parts/text/0", "whole", "old", "plan.json", "lock", "other"]


def linked(path, trap, *, file):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(trap.kept if file else trap.folder)


@pytest.mark.parametrize("file", [False, True])
@pytest.mark.parametrize("name", OF_RUN)
def test_a_link_anywhere_in_a_run_is_named_before_anything_is_written(name, file, trap, tmp_path):
    run = tmp_path / "run"
    linked(run / name, trap, file=file)
    before = tree(tmp_path)
    with pytest.raises(DataError, match="is a link to") as error, runs.in_use(run, command="x"):
        raise AssertionError("in use")
    assert str(run / name) in str(error.value) and "remove it" in str(error.value)
    assert tree(tmp_path) == before and trap.untouched()


@pytest.mark.parametrize("file", [False, True])
@pytest.mark.parametrize("name", OF_DATA)
def test_a_link_in_the_workplace_of_data_is_named_and_nothing_removed(
    name, file, trap, data, tmp_path
):
    out = tmp_path / "out"
    shutil.copytree(data, out)
    (out / top.PART).mkdir()
    linked(out / top.PART / name if name else out / top.PART, trap, file=file)
    before = tree(tmp_path)
    with pytest.raises(DataError, match="is a link to"), top.workplace(out):
        raise AssertionError("in use")
    top.tidy(out)
    assert tree(tmp_path) == before and trap.untouched()


def test_old_data_with_links_is_moved_out_without_what_they_lead_to(trap, data, tmp_path):
    out = tmp_path / "out"
    for name in (trap.folder, trap.kept):
        shutil.copytree(data, out)
        source = next(path for path in out.iterdir() if path.is_dir())
        shutil.rmtree(source)
        source.symlink_to(name)
        with top.workplace(out) as part:
            shutil.copytree(data, part / top.WHOLE)
            top.install(part, out)
        assert tree(out) == tree(data) and trap.untouched()
        shutil.rmtree(out)


def test_links_of_programs_and_the_folder_itself_may_stay(tmp_path):
    run = tmp_path / "run"
    for name in ("wandb/run-1/logs", "lightning"):
        (run / name).mkdir(parents=True)
    (run / "wandb" / "latest-run").symlink_to("run-1")
    (run / "wandb" / "run-1" / "logs" / "debug-core.log").symlink_to(tmp_path / "cache.log")
    (run / "lightning" / "a.ckpt").write_text("")
    (run / "lightning" / "last.ckpt").symlink_to("a.ckpt")
    refuse_links(run)
    (tmp_path / "link").symlink_to(run)
    refuse_links(tmp_path / "link")
