"""The command line: what a wrong word gets is one clear message, and nothing is left behind."""

import contextlib
import errno
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from safetensors import SafetensorError

from bipe.__main__ import ROOMS
from tests.train.studies import typed
from train.cli import main
from train.errors import ConfigError
from train.launch import composition, reader
from train.launch.sweeps.sweep import Sweep

ROOT = Path(__file__).parents[2]


def test_help_and_version_are_told(capsys, monkeypatch):
    assert main([]) == 2 and main(["--help"]) == 0
    usage, again = capsys.readouterr().out.split("bipe: ")[1:]
    assert usage == again and "  bipe prepare " in usage
    assert main(["help", "prepare"]) == main(["prepare", "--help"]) == 0
    page, again = capsys.readouterr().out.split("bipe prepare: ")[1:]
    assert page == again
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.2.3")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "bipe 1.2.3\n"


@pytest.mark.parametrize("room", ROOMS)
def test_a_module_of_the_users_in_the_way_is_named(room, tmp_path):
    (tmp_path / f"{room}.py").write_text("1 / 0")
    words = [sys.executable, "-P", ROOT / "bipe" / "__main__.py", "--version"]
    path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(words, env=path, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == (
        f"bipe: {tmp_path / room}.py hides bipe's own package {room}: rename it, or remove its "
        "folder from PYTHONPATH\n"
    )


OF_STUDY = [
    ("pretrain encoding=learned encoding.length=10",
     "row_length must be at most encoding.length of a flat learned table (10), was: 64"),
    ("pretrain model.width=abc", "model.width must be int, was: 'abc'"),
    ("pretrain model.n_head=0", "model.n_head must be at least 1, was: 0"),
    ("pretrain trainer.barebones=true", "trainer.barebones cannot be set; set log_every instead"),
    ("pretrain row_length=10000000",
     "row_length must be at most the training tokens of each source (proofs: "),
    ("evaluate evaluate.lengths=[0]", "evaluate.lengths must be numbers from 1 up"),
    ("report report.runs=/nowhere", "report.runs: '/nowhere' contains no trained run"),
    ("evaluate statistics.out=x.html", "statistics.out must be a file, but no .html"),
    ("report report.runs=[]", "report.runs must be at least one run, was: []"),
]  # fmt: skip
ALONE = [
    ("pretrian", "there is no command 'pretrian'; did you mean 'pretrain'?"),
    ("prepare corpus=smoke data=[a,b]", "data must be one folder to prepare"),
    ("scrolls submit=x.csv out=. seed=abc", "holds no run with outputs of split=test, seed=abc"),
    ("prepare corpus=text out=new", "text: there is no such file or folder"),
    ("prepare corpus=text corpus.sources.text.documents._target_=train.data.TextFile",
     "did you mean 'train.data.TextFiles'?"),
    ("pretrain attention=egaer", "did you mean 'eager'?"),
    ("generate bipe_rop --prompt x", "did you mean 'bipe_rope'?"),
    ("pretrain --config-file", "--config-file needs FILE"),
    ("pretrain --config-file /nowhere.yaml", "--config-file /nowhere.yaml: there is no such file"),
    (f"pretrain --config-file {ROOT}/conf/launch/local.yaml", "contains no configuration"),
    ("pretrain seed=9999999999999999999", "seed must be below 2^63, was: 9999999999999999999"),
    ("prepare corpus=jsonl corpus.sources.text.documents.meta_keys=lang",
     "documents.meta_keys must be Sequence[str] or null, was: 'lang'"),
    ("prepare corpus=csv +corpus.sources.text.documents.limit=-1",
     "documents.limit must be at least 0 or null, was: -1"),
    ("prepare corpus=csv corpus.sources.text.documents.delimiter=ab",
     "documents.delimiter must be one character or null, was: 'ab'"),
    ("lm-eval mine", "bipe lm-eval mine: set --tasks"),
    ("pretrain steps = 3", "pretrain expects KEY=VALUE without spaces, was: 'steps'; bipe"),
    ("pretrain -m encoding=rope, alibi", "expects KEY=VALUE without spaces, was: 'alibi'"),
    ("pretrain --plan=3", "--plan takes no value, was: --plan=3"),
    ("pretrain --optimizer.lr 3e-4",
     "pretrain: --optimizer.lr is a key, not an option: write optimizer.lr=VALUE, in one word"),
    ("pretrain --steps 3", "--steps is a key, not an option: write steps=VALUE"),
        ("pretrain --pln", "pretrain: there is no option --pln; did you mean '--plan'?"),
    ("pretrain lr=1", "there is no key 'lr'; did you mean 'optimizer.lr'?"),
    ("pretrain evaluate.trials=3", "did you mean evaluate.probing.trials?"),
    ("pretrain encoding=rop", "there is no encoding=rop; did you mean 'rope'?\nyour own: "),
    ("pretrain --info", "no option --info: --cfg job"),
    ("pretrain --cfg jobs", "--cfg must be one of job, hydra, all, was: jobs"),
    ("extend steps=1 runs/mine", "did you mean checkpoint=runs/mine?"),
    ("explain rope", "did you mean encoding=rope?"),
    ("doctor pretrain a/x", "did you mean out=a/x?"),
    ("prepare bipe_rope", "did you mean corpus=text corpus.sources.text.documents.path=bipe_rope?"),
    ("evaluate statistic", "did you mean bipe evaluate statistics?"),
    ("pretrain encoding=rope encoding@encoding.inter=cope", "GROUP@PATH=NAME needs the path"),
    ("pretrain optimizer.lr=0.1,1", "one list is 'optimizer.lr=[0.1,1]'"),
    ("completion tcsh", "there is no shell 'tcsh'; "),
    ("completion bash x", "one SHELL must be given, was: bash x"),
    ("pretrain --help encodin", "there is no such key or group; did you mean 'encoding'?"),
    ("doctor scrols", "there is no command 'scrols'; did you mean 'scrolls'?"),
    ("doctor steps=3", "doctor: there is no command 'steps=3'; there are: "),
    ("doctor --config-dir=.", "--config-dir is of a study; name its command: bipe doctor pretrain"),
    ("doctor --ranks 4", "doctor: there is no option --ranks"),
    ("prepare corpus=mine", "your own files: corpus=text corpus.sources.text.documents.path=PATH"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told", "study"), [(*each, study) for study in (True, False)
                                 for each in (OF_STUDY if study else ALONE)]
)  # fmt: skip
def test_what_is_wrong_is_met_with_the_cure(words, told, study, refused, tmp_path):
    (tmp_path / "here" / "bipe_rope").mkdir()
    assert told in refused(*words.split(), study=study)


def test_the_composed_configuration_is_shown(bipe):
    words = ("experiment=yarn_demo", "stretch=null", "limit=null", "steps=7", "--cfg", "job")
    status, out, _ = bipe("extend", *words, study=False)
    shown = yaml.safe_load(out)
    assert (status, shown["stretch"], shown["limit"], shown["steps"]) == (0, None, None, 7)
    assert shown["encoding"]["_target_"] == "bipe.encodings.Bilevel"


@pytest.mark.parametrize("after", [0, 8])
def test_a_full_disk_is_told(bipe, monkeypatch, tmp_path, after):
    """Before the first step nothing is left; later, what was whole before."""
    calls = iter(range(100))
    sync = os.fsync

    def full(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and next(calls) >= after:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr("train.disk.files.os.fsync", full)
    status, _, err = bipe("pretrain")
    assert status == 2
    assert "no room is left to write it (No space left on device). Free space, or set data=" in err
    run = tmp_path / "bipe_rope"
    assert run.exists() == bool(after)
    assert [path for path in tmp_path.rglob("*") if path.name.startswith(".")] == []
    assert all(path.with_suffix(".json").exists() for path in run.rglob("*.ckpt"))


def test_a_model_that_finds_no_room_is_told(bipe, monkeypatch, tmp_path):
    def full(*_):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr("bipe.checkpoint.save_file", full)
        status, _, err = bipe("pretrain")
    assert status == 2
    assert "model cannot be written (I/O error: No space left on device" in err
    left = {path.name for path in (tmp_path / "bipe_rope").iterdir()}
    assert left == {"checkpoints", "config.yaml", "metrics.csv", "sessions.jsonl"}
    assert bipe("pretrain")[0] == 0
    assert (tmp_path / "bipe_rope" / "model").is_dir()


@pytest.mark.parametrize("text", ["a: [", "steps: 3\n  x: 4\n"])
def test_a_yaml_that_cannot_be_read_is_one_line_with_its_place(refused, tmp_path, text):
    file = tmp_path / "here" / "encoding" / "mine.yaml"
    file.parent.mkdir()
    file.write_text(text)
    told = refused("pretrain", "--config-dir", ".", "encoding=mine")
    assert re.fullmatch(rf"{re.escape(str(file))}: line \d+: not YAML: [^\n]+", told)
    (file.parent / "other.yaml").write_bytes(b"a: caf\xe9\n")
    told = refused("pretrain", "--config-dir", ".", "encoding=other")
    assert told == f"{file.parent}/other.yaml: not UTF-8: invalid continuation byte (byte 6)"
    (file.parent / "other.yaml").write_text(f"a: {'9' * 5000}\n")
    told = refused("pretrain", "--config-dir", ".", "encoding=other")
    long = "a whole number must have at most 4300 digits"
    assert told == f"{file.parent}/other.yaml: {long}"
    assert refused("pretrain", f"steps={'9' * 5000}") == f"steps: {long}"
    told = refused("pretrain", "--config-file", str(file), study=False)
    assert re.fullmatch(rf"--config-file {re.escape(str(file))}: line \d+: not [^\n]+", told)


def opened(word, *options):
    """An override as Hydra gets it."""
    words = typed("pretrain", *options, word)
    (made,) = composition.as_overrides(words.overrides, many=words.many, texts=words.texts)
    return made


@pytest.mark.parametrize(
    "name", ["a b.txt", "l'\xe9t\xe9, 1.txt", "x=y (2).txt", "[1] #&;~.txt", "$.txt"]
)
def test_a_path_is_read_as_it_is_typed(tmp_path, monkeypatch, name):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / name).touch()
    parser = OverridesParser.create()
    for path in (f"{tmp_path}/{name}", f"~/{name}"):
        parsed = parser.parse_override(opened(f"evaluate.runs={path}"))
        assert OmegaConf.create({"x": parsed.value()}).x == f"{tmp_path}/{name}"


@pytest.mark.parametrize(
    "word",
    ["x.y=[a,b]", "x.y={a: 1}", "x.y=choice(a,b)", "x.y='a b'", "x=a,b", "x.y=null,[{a: 1, b: 2}]"],
)
def test_what_hydra_reads_is_left_to_it(word, monkeypatch):
    assert opened(word, "-m").lstrip("+") == word
    several = OverridesParser.create().parse_override(word).is_sweep_override()
    with pytest.raises(ConfigError, match=r"are several values: bipe COMMAND -m") if several \
            else contextlib.nullcontext():  # fmt: skip
        opened(word)


def test_one_list_is_offered_where_it_can_be_meant():
    for word, is_list in (("seed=1,2", True), ("seed=range(0,3)", False), ("encoding=a,b", False)):
        with pytest.raises(ConfigError, match="are several values: bipe COMMAND -m") as told:
            opened(word)
        assert ("one list is" in str(told.value)) == is_list


@pytest.mark.parametrize("text", ["2026_11_28", "1e3", "1_2", "1.50", "true", "/a b=c,d", "it's"])
@pytest.mark.parametrize("key", ["name", "out", "report.title", "generate.file"])
def test_a_key_of_type_text_takes_what_is_typed(text, key):
    if key == "name" and "/" in text:
        return
    study = composition.composed(typed("pretrain", "encoding=rope", f"{key}={text}"))
    assert study.value(key) == text


def test_an_argument_of_type_text_takes_what_is_swept():
    words = typed("prepare", "-m", "corpus=text", "corpus.sources.text.documents.path=1_2,1_3")
    with composition.opened(words) as overrides:
        made = Sweep.of(words, overrides)
        trials = made.trials([*made.combinations()])
    sources = [trial.config.corpus.settled["sources"]["text"] for trial in trials]
    assert [source["documents"]["path"] for source in sources] == ["1_2", "1_3"]


def test_an_argument_of_type_text_takes_what_is_typed():
    words = typed("scrolls", "task=qmsum", "path=2024_01", "checkpoint=1_2")
    study = composition.composed(words)
    study.check("task")
    assert (study.task["path"], study.checkpoint) == ("2024_01", "1_2")
    assert study.as_plain()["task"]["path"] == "2024_01"


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("--steps=7 --optimizer.lr=0.5", {"steps": 7, "optimizer.lr": 0.5}),
        ("--optimizer={'lr':0.5,'weight_decay':None}",
         {"optimizer.lr": 0.5, "optimizer.weight_decay": None}),
        ("rows.curriculum=[{'length':32,'steps':3}]",
         {"rows.curriculum": [{"length": 32, "steps": 3}]}),
    ],
)  # fmt: skip
def test_agents_of_sweeps_may_call(words, read):
    study = composition.composed(typed("pretrain", *words.split()))
    assert {key: study.value(key) for key in read} == read


@given(value=st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet="ab'\\\"${}, =\n[]"),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.from_regex("[a-z]{1,5}", fullmatch=True), inner, max_size=3),
    max_leaves=6,
))  # fmt: skip
def test_hydra_reads_back_what_is_written(value):
    parsed = OverridesParser.create().parse_override(f"x={reader.written(value)}")
    read = OmegaConf.to_container(OmegaConf.create({"x": parsed.value()}), resolve=True)["x"]
    assert read == value
