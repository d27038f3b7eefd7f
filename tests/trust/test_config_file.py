"""--config-file of a stranger: it decides what is trained, never what runs, connects or writes."""

import pytest
import yaml

from tests.train.studies import typed
from train.errors import ConfigError
from train.launch import composition
from train.launch.help_pages import keys, top_keys

# Sections whose classes are models, data or schedules: they compute, and read what they name.
COMPUTE = {"model", "encoding", "optimizer", "schedule", "corpus"}
HOSTILE = {"_target_": "evil.Class", "setup": ["touch /"]}


@pytest.fixture(scope="module")
def ours():
    return composition.composed(typed("prepare", "out=mine"))


def read(plain, *words, folder, command="prepare"):
    file = folder / "theirs.yaml"
    file.write_text(yaml.safe_dump(plain))
    return composition.composed(typed(command, "--config-file", str(file), *words))


def changed(plain, key, value):
    """A copy with another value for a dotted key."""
    *parents, last = key.split(".")
    copy = yaml.safe_load(yaml.safe_dump(plain))
    node = copy
    for parent in parents:
        node = node[parent]
    node[last] = value
    return copy


@pytest.mark.parametrize("key", composition.OWN)
def test_what_runs_connects_or_writes_comes_from_words_and_conf(key, ours, tmp_path):
    value = HOSTILE if isinstance(ours.value(key), dict) or "_target_" in (
        ours.value(key) if hasattr(ours.value(key), "keys") else ()
    ) else "/theirs"  # fmt: skip
    study = read(changed(ours.as_plain(), key, value), "out=mine", folder=tmp_path)
    assert study.value(key) == ours.value(key)


def test_hydra_is_that_of_the_words(ours, tmp_path, capsys):
    theirs = {
        "searchpath": ["file:///theirs"],
        "run": {"dir": "/theirs"},
        "runtime": {"choices": {}},
    }
    study = read(ours.as_plain() | {"hydra": theirs}, "out=mine", folder=tmp_path)
    assert study.as_plain() == ours.as_plain()
    assert "not used: hydra, since" in capsys.readouterr().err


def test_each_key_is_on_the_list_or_only_computes(ours):
    """A new section that names classes, and a new key of an output, must be put on the list."""
    plain = ours.as_plain()
    for key in top_keys():
        if isinstance(plain[key], dict) and "_target_" in plain[key]:
            assert (key in composition.OWN) != (key in COMPUTE), key
    for key in keys():
        if key.rpartition(".")[2] in ("out", "logs", "folder", "save_dir", "examples"):
            assert f"{key}.".startswith(tuple(f"{own}." for own in composition.OWN)), key


@pytest.mark.parametrize(("key", "value"), [("seed", 7), ("steps", 9), ("optimizer.lr", 0.5),
                                            ("model.width", 48), ("rows.level", 1)])  # fmt: skip
def test_what_is_trained_comes_from_the_file(key, value, ours, tmp_path):
    study = read(changed(ours.as_plain(), key, value), folder=tmp_path)
    assert study.value(key) == value
    other = read(changed(ours.as_plain(), key, value), "seed=3", "encoding=rope", "trainer=cpu",
                 folder=tmp_path)  # fmt: skip
    assert other.seed == 3 and other.encoding["_target_"] == "bipe.encodings.RoPE"
    assert other.trainer["accelerator"] == "cpu"


def test_a_group_in_a_place_of_its_own_is_a_word_as_well(tmp_path):
    ours = composition.composed(typed("pretrain", "out=mine"))
    words = ("encoding=bilevel", "encoding@encoding.inter=kerple")
    study = read(ours.as_plain(), *words, folder=tmp_path, command="pretrain")
    inter = composition.composed(typed("pretrain", *words)).as_plain()["encoding"]["inter"]
    assert study.as_plain()["encoding"]["inter"] == inter


def test_an_escaped_variable_of_the_environment_is_a_text(ours, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "s3cret")
    study = read(changed(ours.as_plain(), "report.title", r"\${oc.env:SECRET}"), folder=tmp_path)
    assert study.report.title == study.on({"seed": 5}).report.title == "${oc.env:SECRET}"
    with pytest.raises(ConfigError, match="plain values only"):
        read(changed(ours.as_plain(), "report.title", r"\\${oc.env:SECRET}"), folder=tmp_path)


def test_a_variable_of_the_environment_is_stored_as_it_was_written(monkeypatch):
    monkeypatch.setenv("SECRET", "s3cret")
    words = ("report.title='${oc.env:SECRET}'", "generate.prompt='a ${report.title} b'",
             "evaluate.runs='${out}/${oc.env:SECRET}'")  # fmt: skip
    study = composition.composed(typed("pretrain", "encoding=rope", "out=o", *words))
    assert (study.report.title, study.generate.prompt) == ("s3cret", "a s3cret b")
    assert "s3cret" not in yaml.safe_dump(study.as_plain())
    assert study.as_plain()["report"]["title"] == "${oc.env:SECRET}"
    assert "s3cret" not in yaml.safe_dump(study.on({"seed": 5}).as_plain())
