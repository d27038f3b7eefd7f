"""A run can be ended early or planned anew at any step; what comes of it is exact."""

import random
import re
import shutil

import pytest
import yaml

from tests.train.studies import EACH_STEP, crashing, curve, pretrain, same_weights
from train.cli import main
from train.errors import RunError
from train.fit import runs
from train.fit.checkpoints import Place, find_place
from train.fit.record import read_sessions


def twin(run, tmp_path):
    """Train from the first step what a run has as its plan in the end."""
    words = ("--config-file", str(run / runs.CONFIG), f"out={tmp_path}", "name=twin", "trainer=cpu")
    assert main(["pretrain", *words]) == 0
    return tmp_path / "twin"


@pytest.mark.parametrize(("step", "cooldown"), [(None, 3), (11, 4), (1, 1), (12, 2)])
def test_a_finished_run_is_its_twin_that_was_planned_so(stopped, tmp_path, step, cooldown):
    step = step or random.randint(2, 9)
    run = stopped(step)
    assert main(["finish", str(run), f"cooldown={cooldown}"]) == 0
    other = twin(run, tmp_path)
    assert same_weights(run, other), step
    assert curve(run)[-1] == curve(other)[-1]
    assert curve(run)[-1]["step"] == step + cooldown


def test_without_a_cooldown_the_checkpoint_becomes_the_model(stopped):
    run = stopped(5)
    before = find_place(str(run), key="run")
    assert before.step == 5
    assert curve(run)[-1]["step"] > 5  # what a kill leaves behind
    assert main(["finish", str(run), "cooldown=0"]) == 0
    assert curve(run)[-1]["step"] == 4  # it logs each second step
    done = Place.of(run)
    from train.fit.checkpoints.reading import load_place

    one, two = (load_place(place, allowed=())[0].state_dict() for place in (before, done))
    assert all(one[name].equal(two[name]) for name in one)
    left = [run / runs.LOCK, run / ".sessions.jsonl.part"]  # by a kill at the end
    for path in left:
        path.write_text("")
    assert main(["finish", str(run)]) == 0
    assert not any(path.exists() for path in left)
    assert main(["finish", str(run.rename(run.parent / "me@host"))]) == 0  # names no step


@pytest.mark.slow
def test_a_checkpoint_is_ended_apart_and_its_run_stays(stepwise, stopped, tmp_path):
    run = stopped(8)
    held = sorted(run.rglob("*"))
    for step, name in ((4, "short"), (7, "long")):
        assert main(["finish", f"{run}@{step}", f"name={name}", "cooldown=2"]) == 0
        assert curve(tmp_path / name)[-1]["step"] == step + 2
        assert main(["finish", f"{run}@{step}", f"name={name}", "cooldown=2"]) == 0  # is finished
        assert main(["finish", f"{run}@{step}", f"name={name}", "cooldown=3"]) == 2
    assert sorted(run.rglob("*")) == held
    assert same_weights(tmp_path / "short", twin(tmp_path / "short", tmp_path))
    config = run / runs.CONFIG  # a variable of the environment stays the text that it is
    title = "title: ${oc.env:HOME}"
    config.write_text(re.sub("title: .*", title, config.read_text(encoding="utf-8")))
    assert main(["finish", f"{run}@3", "name=none", "cooldown=0"]) == 0
    assert title in (tmp_path / "none" / runs.CONFIG).read_text(encoding="utf-8")
    assert curve(tmp_path / "none")[-1]["step"] == 3
    assert main(["finish", f"{run}@3", "name=refused", "trainer.devices=3"]) == 2
    assert main(["finish", f"{tmp_path / 'long'}@8", "name=refused"]) == 2  # of a cooldown
    assert not (tmp_path / "refused").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_killed_cooldown_goes_on_by_the_same_command(stopped, tmp_path, capsys, monkeypatch):
    run = stopped(6)
    monkeypatch.setattr("sys.argv", ["bipe", "finish", str(run)])
    for at in (7, 9):
        with crashing(at=at):
            main(["finish", str(run), "cooldown=4"])
        assert not (run / runs.MODEL).exists()
    assert main(["finish", str(run), "cooldown=3"]) == 2  # another plan
    assert "is cooling down already, from step 6 to 10" in capsys.readouterr().err
    assert main(["finish", str(run)]) == 0
    assert same_weights(run, twin(run, tmp_path))
    assert main(["finish", str(run)]) == 0  # it says so
    words = [line["words"][:2] for line in read_sessions(run)]
    assert words[1:] == [["bipe", "finish"]] * 3
    changed = [line["changed"] for line in read_sessions(run)]
    assert "steps was 12, is 10" in changed[1] and "steps was" not in str(changed[2:])


def test_a_changed_plan_is_exact_and_on_record(stopped, data, tmp_path, capsys):
    run, words = (
        stopped(5),
        (f"data={data}", f"out={tmp_path}", "encoding=bipe_rope", *EACH_STEP[1:]),
    )
    new = ("steps=9", "schedule=linear", "validate_every=2", "rows.validation_rows=2")
    with pytest.raises(RunError, match="set if_exists=change to go on with this plan"):
        pretrain(*words, *new)
    with pytest.raises(RunError, match=r"cannot be resumed:\n  seed was 0, is 1\n"):
        pretrain(*words, *new, "seed=1", "if_exists=change")
    with pytest.raises(RunError, match="steps must be at least 5"):
        pretrain(*words, "steps=4", "if_exists=change")
    shutil.copytree(run, tmp_path / "other" / "bipe_rope")
    with crashing(at=7):
        pretrain(*words, *new, "if_exists=change")
    with crashing(at=8):
        pretrain(*words, *new)
    pretrain(*words, *new)
    told = capsys.readouterr().err
    assert "steps was 12, is 9 from step 5 on" in told and "schedule.steps was" not in told
    assert 'schedule was "cosine", is "linear" from step 5 on' in told
    other = pretrain(*words, f"out={tmp_path / 'other'}", *new, "if_exists=change")
    assert same_weights(run, other) and curve(run) == curve(other)
    told = [line["changed"] for line in read_sessions(run)]
    assert {"steps was 12, is 9", "validate_every was 4, is 2"} <= {*told[1]}
    assert not any(line.startswith(("steps", "schedule")) for line in told[2] + told[3])
    assert yaml.safe_load((run / runs.CONFIG).read_text())["steps"] == 9
    with pytest.raises(RunError, match="is finished, so its plan cannot change"):
        pretrain(*words, "steps=20", "if_exists=change")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "one RUN must be given"),
        (["nowhere"], "contains no trained run"),
        (["RUN@3", "name=a/b"], "name must be one folder name, without a path, was: 'a/b'"),
        (["RUN@3", "cooldown=-1"], "cooldown must be a number of steps, 0 or more, was: '-1'"),
        (["RUN@99"], "has no checkpoint of step 99; there are those of steps 1, 2"),
        (["RUN", "cooldown=3"], "is finished; name one of its checkpoints"),
        (["RUN@3", "coldown=3"], "coldown cannot be set here, since it may change the run; did"),
        (["RUN@3", "name=data"], "already contains something else: set name="),
    ],
)
def test_what_cannot_be_finished_is_told_in_a_line(stepwise, tmp_path, capsys, words, told):
    (tmp_path / "data").mkdir()
    words = [word.replace("RUN", str(stepwise)) for word in words] + [f"out={tmp_path}"] * bool(
        words
    )
    assert main(["finish", *words] if words else ["finish", "cooldown=3"]) == 2
    err = capsys.readouterr().err
    assert told in err and "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
