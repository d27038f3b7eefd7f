"""Hydra as its users know it: each key of its section acts, or says what does it here."""

import logging
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.singleton import Singleton
from omegaconf import OmegaConf

from tests.train.studies import typed
from train.cli import main
from train.launch import composition, hydra_keys
from train.launch.sweeps import search
from train.launch.sweeps.sweep import Sweep


def section():
    """Hydra's own section as --cfg hydra shows it."""
    words = typed("pretrain", "encoding=rope")
    with composition.opened(words) as overrides:
        return OmegaConf.to_container(composition.whole(overrides).hydra, resolve=False)


def leaves(value, path=""):
    for key, part in value.items():
        if isinstance(part, dict) and part:
            yield from leaves(part, f"{path}{key}.")
        else:
            yield f"{path}{key}"


# docs/runs.md says what they do; the tests below and those of sweeps see it.
ACTS = {
    "mode", "searchpath", "launcher", "sweeper", "callbacks", "job_logging", "hydra_logging",
    "verbose", "job.env_set", "job.name", "job.config.override_dirname",
}  # fmt: skip


VALUES = {"job.chdir": "true", "job.num": "3", "job.env_copy": "[HOME]", "overrides": "{task: [a]}"}


def test_each_key_acts_or_is_refused_with_what_does_it(refused):
    for key in leaves(section()):
        acts, no = ([name for name in names if f"{key}.".startswith(f"{name}.")]
                    for names in (ACTS, hydra_keys.REFUSED))  # fmt: skip
        assert len(acts) + len(no) == 1, key
    for key, (_, cure) in hydra_keys.REFUSED.items():
        value = VALUES.get(key, "x")
        key += ".template" * key.endswith("help") + ".choices" * (key == "runtime")
        value = "{a: b}" if key.endswith("choices") else value
        said = refused("pretrain", f"++hydra.{key}={value}")
        assert f"hydra.{key} has no effect in bipe: {cure}" in said, key


@pytest.mark.parametrize("key", ["foo", "job.foo", "launch", "sweeps.dir"])
def test_a_key_that_hydra_has_not_is_refused(key, refused):
    assert f"hydra.{key.removesuffix('.dir')} has no effect" in refused(
        "pretrain", f"++hydra.{key}=1"
    )


@pytest.mark.parametrize("text", ["run: {dir: x}", "output_subdir: .hydra", "job: {chdir: true}"])
def test_a_yaml_is_refused_as_words_are(refused, tmp_path, text):
    (tmp_path / "here" / "experiment").mkdir()
    file = tmp_path / "here" / "experiment" / "own.yaml"
    file.write_text(f"# @package _global_\nhydra: {{{text}}}\n")
    assert "has no effect in bipe" in refused("report", "--config-dir", ".", "experiment=own",
                                              study=False)  # fmt: skip


CALLBACK = """
import os
class Callback:
    def __getattr__(self, name):
        if not name.startswith("on_"):
            raise AttributeError(name)
        def call(**given):
            with open("calls", "a") as file:
                file.write(f"{name} {os.environ.get('MINE')}\\n")
        return call
"""


def test_callbacks_act_and_variables_are_set(bipe, tmp_path):
    here = tmp_path / "here"
    (here / "seen.py").write_text(CALLBACK)
    words = ("+hydra.callbacks.x._target_=seen.Callback", "+hydra.job.env_set.MINE=1")
    assert bipe("pretrain", *words, "steps=1", "seed=x")[0] == 2  # refused before it starts
    assert not (here / "calls").exists()
    assert bipe("pretrain", *words, "steps=1")[0] == 0
    calls = ["on_run_start None", "on_job_start 1", "on_job_end None", "on_run_end None"]
    assert (here / "calls").read_text().split("\n")[:-1] == calls
    (here / "calls").unlink()
    assert bipe("pretrain", "-m", *words, "steps=1", "name=other")[0] == 0
    calls = ["on_multirun_start None", *calls[1:3], "on_multirun_end None"]
    assert (here / "calls").read_text().split("\n")[:-1] == calls
    assert "MINE" not in os.environ


def test_a_callback_that_does_not_exist_is_refused(refused):
    assert "nowhere.Callback" in refused("pretrain", "+hydra.callbacks.x._target_=nowhere.Callback")


@pytest.mark.parametrize("value", ["=3", ".a=3", "._target_=3"])
def test_a_callback_without_a_class_is_refused(value, refused):
    said = refused("pretrain", f"+hydra.callbacks.x{value}")
    assert "hydra.callbacks.x" in said and "3" in said and "_target_=" in said


@pytest.mark.parametrize(
    ("word", "cure"),
    [
        ("hydra.mode=FOO", "MULTIRUN"),
        ("~hydra.run", "deletion"),
        ("rows.sources=[proofs]", "~KEY +KEY=[...]"),
        ("hydra.searchpath=[pkg://nope]", "nope, which is not there"),
        ("name={a:1}", "must be str"),
        ("name=${hydra:job.override_dirname}", "made of: remove it"),
        ("trainer.precision=fp16 trainer.devices=2 rows.micro_batch=2", "32-true or bf16-mixed"),
        ("trainer.strategy=ddp_spawn trainer.devices=2 rows.micro_batch=2", "must be ddp"),
    ],
)
def test_a_word_that_hydra_cannot_merge_is_refused_with_the_reason(word, cure, refused):
    said = refused("pretrain", *word.split())
    assert re.split(r"[=:{]", word)[0] in said and cure in said


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("encoding=[alibi]", "alibi"),
        ("encoding={_target_: bipe.encodings.ALiBi, n_head: 4}", "alibi"),
        ("optimizer={lr: 0.1}", "bipe_rope"),
    ],
)
def test_a_description_takes_the_place_of_a_name(word, name, capsys):
    assert main(["pretrain", word, "--cfg", "job"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["name"] == name and shown["optimizer"]["lr"] == (0.1 if "lr" in word else 0.002)


def test_a_sweep_is_shown_with_the_names_that_its_runs_get(capsys):
    words = ["encoding=rope", "seed=0,1", "clip=1,2", "--cfg", "job", "--package", "name"]
    assert main(["pretrain", "-m", *words]) == 0
    shown = re.findall(r"^(?!---)(.*)$", capsys.readouterr().out.strip(), re.MULTILINE)
    assert shown == [f"rope_clip={clip}_seed{seed}" for seed in (0, 1) for clip in (1, 2)]
    assert main(["pretrain", "-m", "name=it's ${seed}", *words[1:2], *words[3:]]) == 0
    assert "it's 1" in capsys.readouterr().out


def test_descriptions_are_swept(capsys):
    kinds = (f"{{_target_: bipe.encodings.{kind}}}" for kind in ("ALiBi,n_head: 4", "NoPE"))
    assert main(["pretrain", "-m", f"encoding={','.join(kinds)}", "--cfg", "job"]) == 0
    shown = [*yaml.safe_load_all(capsys.readouterr().out)]
    assert [each["name"] for each in shown] == ["alibi", "nope"]


def test_an_interpolation_that_fails_is_one_line(refused):
    said = refused("pretrain", "name=${oc.env:NOWHERE}")
    assert said.startswith("name: ") and "'NOWHERE' not found" in said and "\n" not in said


def test_the_package_of_all_keys_is_all_keys(capsys):
    shown = [main(["pretrain", "--cfg", "job", *more]) or capsys.readouterr().out
             for more in ((), ("-p", "_global_"))]  # fmt: skip
    assert shown[0] == shown[1]


@pytest.mark.parametrize("option", ["--package=steps", "--resolve"])
def test_an_option_of_cfg_alone_is_refused(option, refused):
    said = refused("pretrain", option)
    assert option.partition("=")[0] in said and "--cfg job" in said


def test_verbose_and_logging_act(bipe):
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        bipe("report", "hydra.verbose=true", study=False)
        assert root.level == logging.DEBUG
        bipe("report", "hydra/job_logging=stdout", study=False)
        assert any(type(handler) is logging.StreamHandler for handler in root.handlers)
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


@pytest.mark.parametrize(
    "how",
    [
        ["hydra.mode=MULTIRUN", "seed=4,5"],
        ["experiment=many"],
        ["-m", "hydra.sweeper.params.seed='4,5'"],
        ["-m", "+hydra.sweeper.params.seed=4,5"],
        ["-m", "+hydra.sweeper.params={seed: '4,5'}"],
        ["-m", "hydra/sweeper=optuna", "hydra.sweeper.params.seed=range(4,6)"],
    ],
    ids=str,
)
def test_the_mode_and_the_params_of_a_yaml_are_a_sweep(how, capsys, tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "many.yaml").write_text(
        "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {params: {seed: '4,5'}}}\n"
    )
    words = ["--config-dir", str(tmp_path), "encoding=rope", "--cfg", "job", "--package", "seed"]
    assert main(["pretrain", *how, *words]) == 0
    shown = capsys.readouterr().out
    assert [yaml.safe_load(part) for part in shown.split("---")[1:]] == [4, 5]


@pytest.mark.parametrize("sweeper", ["basic", "optuna"])
@pytest.mark.parametrize(("word", "rates"), [
    ("optimizer.lr=3e-3", ["3e-3"]), ("optimizer.lr=3e-3,4e-3", ["3e-3", "4e-3"]),
    ("clip=2", ["1e-3", "2e-3"]),
])  # fmt: skip
def test_what_is_typed_takes_the_place_of_params_of_a_yaml(tmp_path, word, rates, sweeper):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "many.yaml").write_text(
        "# @package _global_\n"
        "hydra: {sweeper: {params: {optimizer.lr: '1e-3,2e-3', name: '010,1_0'}}}\n"
    )
    words = typed("pretrain", "-m", "--config-dir", str(tmp_path), "experiment=many",
                  f"hydra/sweeper={sweeper}", word)  # fmt: skip
    with composition.opened(words) as overrides:
        made = Sweep.of(words, overrides)
        if sweeper == "optuna" and len(rates) > 1:
            _, space = search._parsed(made)
            assert [float(rate) for rate in space["++optimizer.lr"].choices] == [*map(float, rates)]
        elif sweeper == "basic":
            trials = [*made.combinations()]
            told = [(t.changes.get("optimizer.lr", "3e-3"), t.changes["name"]) for t in trials]
            assert told == [(rate, name) for rate in rates for name in ("'010'", "'1_0'")]
            names = {made.composed(trial).config.name for trial in trials}
            assert names == {"010", "1_0"}


def test_a_folder_and_a_typed_search_path_both_count(capsys, tmp_path):
    for folder, name in (("one", "first"), ("two", "3")):
        (tmp_path / folder / "experiment").mkdir(parents=True)
        path = tmp_path / folder / "experiment" / f"{name}.yaml"
        path.write_text(f"# @package _global_\nseed: {len(name)}\n")
    words = ["--config-dir", str(tmp_path / "one"), f"hydra.searchpath=[file://{tmp_path / 'two'}]"]
    for name, seed in (("first", 5), ("3", 1)):  # a name that looks like a number
        shown = ["--cfg", "job", "-p", "seed", f"experiment={name}"]
        assert main(["pretrain", *words, *shown]) == 0
        assert yaml.safe_load(capsys.readouterr().out) == seed
    (tmp_path / "one" / "experiment" / "bare.yaml").write_text("seed: 7\n")
    assert main(["pretrain", *words, "experiment=bare"]) == 2
    assert "# @package _global_" in capsys.readouterr().err


@pytest.mark.parametrize(("word", "told"), [
    ("hydra.sweeper.max_batch_size=2", "hydra.sweeper.max_batch_size has no effect in bipe"),
    ("--config-name=foo", "no option --config-name: experiment=NAME"),
    ("hydra.sweeper.sampler.seed=1", "hydra.sweeper.sampler has no effect in bipe; there are: "),
    ("hydra.launcher.n_jobs=2", "hydra.launcher.n_jobs has no effect in bipe; add its launcher"),
    ("out=", "out must be the name of a folder, was: ''"),
    ("resume=true", "there is no key 'resume'; set nothing: the same command resumes"),
    ("dropout=0.1", "there is no key 'dropout'; set optimizer.weight_decay (models here have no"),
    ("seed=interval(0,3)", "seed: an interval is searched: add hydra/sweeper=optuna"),
    ("encoding=1,2", "there is no encoding=1"),
    ("hydra.sweeper._target_=a.Sweeper", "hydra/sweeper must be basic or optuna in bipe"),
    ("hydra.verbose={a: b}", "hydra.verbose must be true, or names of loggers"),
    ("hydra.launcher._target_=os.system", "hydra.launcher: Invalid plugin 'os.system'"),
    ("callbacks=[{_target_:a.B}]", "callbacks takes names, and its keys are set by '+callbacks"),
])  # fmt: skip
def test_what_a_sweep_cannot_do_is_said(word, told, refused):
    assert told in refused("pretrain", "-m", word)


def test_names_of_a_group_are_swept_by_a_pattern():
    words = typed("pretrain", "-m", "encoding=glob(bipe_*)")
    with composition.opened(words) as overrides:
        trials = [*Sweep.of(words, overrides).combinations()]
    assert {"bipe_rope", "bipe_alibi"} <= {trial.changes["encoding"] for trial in trials}


def test_a_group_is_swept_with_none_of_it():
    words = typed("pretrain", "-m", "positions=null,pose", "encoding=rope")
    with composition.opened(words) as overrides:
        made = Sweep.of(words, overrides)
        trials = [made.composed(trial) for trial in made.combinations()]
    assert [trial.changes for trial in trials] == [{"positions": "null"}, {"positions": "pose"}]
    assert [trial.config.positions is None for trial in trials] == [True, False]


def test_a_sweeper_that_a_yaml_chooses_is_there_without_m(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /hydra/sweeper: optuna\n"
        "hydra: {mode: MULTIRUN, sweeper: {n_trials: 2}}\n"
    )
    words = typed("pretrain", "experiment=mine", "--config-dir", str(tmp_path))
    with composition.opened(words) as overrides:
        made = composition.whole(overrides).hydra
    assert made.mode.name == "MULTIRUN" and made.sweeper.n_trials == 2


def test_a_key_that_is_deleted_is_missed_and_not_what_computes_it(refused):
    said = refused("pretrain", "encoding=rope", "~encoding.head_width")
    assert "Unsupported interpolation" not in said


def test_files_of_any_name_and_in_a_circle(refused, tmp_path):
    for group, name, text in (
        ("experiment", "a", "defaults: [b]"),
        ("experiment", "b", "defaults: [a]"),
        ("encoding", "gr\u00f6\u00dfe", "_target_: bipe.encodings.NoPE"),
    ):
        (tmp_path / group).mkdir(exist_ok=True)
        (tmp_path / group / f"{name}.yaml").write_text(f"{text}\n", encoding="utf-8")
    words = ("--config-dir", str(tmp_path))
    assert "name each other in a circle" in refused("pretrain", *words, "experiment=a")
    assert composition.composed(typed("pretrain", *words, f"encoding={name}")).name == name


def test_threads_compose_in_turn():
    words = [typed("pretrain", "encoding=bipe_rope", f"seed={seed}") for seed in range(8)]
    with ThreadPoolExecutor(4) as threads:
        assert [made.seed for made in threads.map(composition.composed, words)] == [*range(8)]


def test_the_cure_of_a_number_of_the_environment_works_as_typed(capsys, monkeypatch):
    monkeypatch.setenv("X", "3")
    word = "steps=${oc.decode:${oc.env:X}}"
    assert main(["pretrain", word, "--cfg", "job", "--package", "steps"]) == 0
    assert capsys.readouterr().out == "3\n"


def test_a_number_of_the_environment_is_stored_and_a_text_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("RATE", "0.25")
    words = ["optimizer.lr='${oc.decode:${oc.env:RATE}}'", "report.title='${oc.env:RATE}'"]
    plain = composition.composed(typed("pretrain", *words)).as_plain()
    assert plain["optimizer"]["lr"] == 0.25 and plain["report"]["title"] == "${oc.env:RATE}"


def test_a_package_beside_the_yaml_is_there_in_a_sweep_too(tmp_path, monkeypatch):
    (tmp_path / "encoding").mkdir()
    (tmp_path / "encoding" / "mine.yaml").write_text("_target_: beside_sweep.Mine\n")
    (tmp_path / "beside_sweep.py").write_text(
        "from bipe.encodings import NoPE\nclass Mine(NoPE): pass\n"
    )
    words = typed("pretrain", "-m", "--config-dir", str(tmp_path), "allowed_targets=[beside_sweep]",
                  "encoding=mine", "seed=0,1")  # fmt: skip
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    with composition.opened(words) as overrides:
        made = Sweep.of(words, overrides)
        for trial in made.combinations():
            study = made.composed(trial).config
            study.check("encoding")
            assert (study.name, study.seed) == ("mine", int(trial.changes["seed"]))


def test_hydra_is_left_as_it_was():
    from hydra import compose, initialize_config_module
    from hydra.core.hydra_config import HydraConfig

    with initialize_config_module("conf", version_base="1.3"):
        outer = compose("config", overrides=["seed=9"], return_hydra_config=True)
        HydraConfig.instance().set_config(outer)
        assert composition.composed(typed("pretrain", "encoding=rope", "seed=3")).seed == 3
        assert HydraConfig.get().job.config_name == "config"
        assert compose("config", overrides=["seed=8"]).seed == 8


def test_what_an_application_stored_is_neither_used_nor_lost(monkeypatch):
    """Nor is its package conf, which is found before ours."""
    monkeypatch.setitem(sys.modules, "conf", None)
    store, state = ConfigStore.instance(), Singleton.get_state()
    repository = dict(store.repo)
    store.store(name="config", node={"steps": 77})
    store.store(group="optimizer", name="adamw", node={"lr": 3.0})
    store.store(group="optimizer", name="mine", node={"_target_": "torch.optim.SGD"})
    try:
        config = composition.composed(typed("pretrain", "encoding=rope", "steps=3"))
        assert config.steps == 3 and config.optimizer["lr"] != 3.0
        mine = composition.composed(typed("pretrain", "encoding=rope", "optimizer=mine"))
        assert mine.optimizer["_target_"] == "torch.optim.SGD"
        assert ConfigStore.instance() is store and store.load("config.yaml").node.steps == 77
        assert "adamw.yaml" in store.repo["optimizer"]
    finally:
        store.repo = repository
        Singleton.set_state(state)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("--cfg hydra -p hydra.job.env_set +hydra.job.env_set.A=1", {"A": "1"}),
        ("--cfg all -p steps steps=7", 7),
        ("--cfg all --resolve -p hydra.sweep.dir out=a", "a"),
        ("--cfg job -p optimizer.lr optimizer.lr=1e-3", 0.001),
    ],
)
def test_a_part_of_either_section_is_shown(words, shown, capsys):
    assert main(["pretrain", *words.split()]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == shown
    assert main(["pretrain", *words.replace(" -p ", " -p nowhere.").split()]) == 2


def test_a_text_is_shown_as_it_was_typed(capsys):
    key = "corpus.sources.text.documents.path"
    assert main(["prepare", "corpus=text", f"{key}=2024_01", "--cfg", "job", "-p", key]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == "2024_01"
