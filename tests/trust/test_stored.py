"""A stored configuration, a checkpoint or a name from a stranger runs and writes nothing."""

import json
import shutil
import sys

import pytest
import torch
import yaml

from bipe.sealing import sealed
from tests.trust.conftest import Runs
from train.disk.files import checksum, read_yaml

RUN = {"_target_": "os.system", "command": "{shell}"}
# Keys of a run's config.yaml, their values, and what the message must name.
EXPLOITS = [
    ("encoding", RUN, "encoding._target_"),
    ("encoding", {"_target_": "evil.Encoding"}, "allowed_targets=[evil]"),
    ("encoding", {"_target_": "train.cli.main", "argv": []}, "encoding._target_"),
    ("encoding", {"_target_": "evil.Encoding", "_partial_": True}, "encoding._partial_"),
    ("optimizer", RUN, "optimizer._target_"),
    ("optimizer", {"_target_": "torch.hub.load", "_partial_": True}, "optimizer._target_"),
    ("optimizer", {"_target_": "torch.optim.swa_utils.update_bn"}, "optimizer._target_"),
    ("schedule", {"_target_": "builtins.exec", "source": "{ran}"}, "schedule._target_"),
    ("schedule", {"_target_": "train.fit.runs.shutil.rmtree", "path": "{folder}"}, "schedule."),
    ("positions", RUN, "positions._target_"),
    ("model", {"_target_": "bipe.sealing.seal_model", "folder": "{folder}"}, "model._target_"),
    ("corpus", RUN, "corpus._target_"),
    ("corpus.tokenizer", {"_target_": "evil.Encoding"}, "corpus.tokenizer._target_"),
    ("corpus.sources.proofs.segmenter", {"_target_": "evil.Cuts"}, "allowed_targets=[evil]"),
    ("corpus.sources.proofs.documents", RUN, "corpus.sources.proofs.documents._target_"),
    ("corpus.sources.proofs.filters", [RUN], "corpus.sources.proofs.filters[0]._target_"),
    ("evaluate.measurements", {"x": RUN}, "evaluate.measurements.x._target_"),
    ("evaluate.measurements", {"x": {"_target_": "evil.Encoding"}}, "evaluate.measurements.x"),
    ("name", "../../victim/papers", "name must be one folder name"),
    ("name", "{folder}", "name must be one folder name"),
    ("out", "${oc.env:HOME}", "must contain plain values only"),
    ("name", "${oc.decode:${oc.env:HOME}}", "must contain plain values only"),
    ("data", "${{oc}.env:HOME}", "must contain plain values only"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "told"), EXPLOITS, ids=str)
def test_nothing_that_a_stored_configuration_names_is_run(key, value, told, stored, bipe, trap):
    changes = {key: trap.fill(value), "allowed_targets": ["evil", "os", "torch", "builtins"]}
    command = "prepare" if key.startswith("corpus") else "pretrain"
    path = stored(changes, command=command)
    status, printed = bipe(command, "--config-file", path, "out=own")
    assert status == 2 and told in printed and "Traceback" not in printed
    assert trap.untouched()


# What runs, connects or writes comes from the user's own words and conf/.
NOT_OF_FILES = [
    ("launch", {"_target_": "train.launch.slurm.Slurm", "setup": ["{shell}"]}),
    ("logger.theirs", {"_target_": "lightning.pytorch.loggers.CSVLogger", "save_dir": "{folder}"}),
    ("logger", {"x": {"_target_": "evil.Encoding", "_partial_": True}}),
    ("callbacks.theirs", {"_target_": "lightning.pytorch.callbacks.ModelCheckpoint",
                          "dirpath": "{folder}"}),
    ("trainer", RUN),
    ("trainer.strategy", {"_target_": "evil.Encoding"}),
    ("trainer.plugins", [RUN]),
    ("trainer.profiler", "simple"),
    ("engine.workers", 77),
    ("out", "{folder}"),
    ("if_exists", "overwrite"),
    ("dry_run", True),
    ("report.out", "{folder}"),
    ("statistics.out", "{folder}/a.pdf"),
    ("scrolls.examples", "{folder}"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), NOT_OF_FILES, ids=str)
def test_a_file_does_not_decide_what_runs_connects_or_writes(key, value, stored, bipe, trap):
    words = ("pretrain", "--cfg", "job", "--config-file")
    _, before = bipe(*words, stored())
    status, printed = bipe(*words, stored({key: trap.fill(value)}))
    shown, _, warned = printed.partition("bipe: warning: --config-file")
    assert status == 0 and key.partition(".")[0] in warned
    assert shown and shown == before.partition("bipe: warning")[0]
    assert trap.untouched()


YAML = [
    ("\nevil: !!python/object/apply:os.system ['{shell}']\n", "not YAML"),
    ("\nevil: !!python/name:evil.Encoding\n", "not YAML"),
    ("\nevil: !!python/module:evil\n", "not YAML"),
    ("\nevil: " + "[" * 50_000 + "]" * 50_000, "nested too deeply"),
    (
        "\na0: &a0 [x, x]\n"
        + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)),
        "at most 100000 values",
    ),
    ("\nx: " + "y" * (1 << 22), "at most 4194304 bytes"),
    ("\nseed: 1\n", "seed"),
    ("\n\x00", "not YAML"),
]


@pytest.mark.parametrize(("text", "told"), YAML, ids=[str(n) for n in range(len(YAML))])
def test_yaml_is_plain_and_of_a_bounded_size(text, told, stored, bipe, trap):
    status, printed = bipe("pretrain", "--config-file", stored(text=trap.fill(text)))
    assert status == 2 and told in printed and "Traceback" not in printed
    assert trap.untouched()


@pytest.mark.parametrize("command", ["prepare", "report"])
def test_what_a_command_does_not_read_is_not_imported(command, stored, bipe, trap):
    changes = {"encoding": {"_target_": "evil.Encoding"}, "allowed_targets": ["evil"]}
    bipe(command, "--config-file", stored(changes), "if_exists=overwrite")
    assert trap.untouched()


@pytest.mark.parametrize("command", ["prepare", "pretrain", "evaluate", "generate"])
def test_a_package_counts_only_on_the_command_line(
    command, stored, bipe, trap, trained, data, tmp_path
):
    section = "corpus" if command == "prepare" else "encoding"
    path = stored({section: {"_target_": "evil.Encoding"}, "allowed_targets": ["evil"]})
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "theirs.yaml").write_text(
        f"# @package _global_\nallowed_targets: [evil]\n{section}: {{_target_: evil.Cuts}}\n"
    )
    places = (
        f"data={data}",
        f"evaluate.runs={trained}",
        f"generate.run={trained}",
        "generate.prompt=x",
    )
    for words in (
        ("--config-file", path, "if_exists=overwrite"),
        ("--config-dir", tmp_path, "experiment=theirs"),
    ):
        status, printed = bipe(command, *words, *places)
        if command in ("prepare", "pretrain"):  # the others read no such section
            assert status == 2 and "add allowed_targets=[evil] to the command line" in printed
        assert trap.untouched()


def test_a_package_stays_let_in_for_its_run_where_both_lie(
    stored, bipe, trap, tmp_path, monkeypatch
):
    path = stored({"encoding": {"_target_": "evil.Encoding"}, "steps": 1, "name": "own"})
    words = ("--config-file", path, "allowed_targets=[evil]", f"out={tmp_path / 'out'}")
    status, printed = bipe("pretrain", *words)
    assert status == 0, printed
    assert trap.ran.exists()
    words = ("--prompt", "x", "generate.max_new=1")
    status, printed = bipe("generate", tmp_path / "out" / "own", *words)
    assert status == 0, printed
    shutil.copytree(tmp_path / "out" / "own", tmp_path / "copy")  # it may be from anyone
    status, printed = bipe("generate", tmp_path / "copy", *words)
    assert status == 2 and "add allowed_targets=[evil] to the command line" in printed
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "evil.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path / "other")
    monkeypatch.delitem(sys.modules, "evil")
    status, printed = bipe("generate", tmp_path / "out" / "own", *words)
    assert status == 2 and "add allowed_targets=[evil] to the command line" in printed


@pytest.fixture
def theirs(trained, tmp_path):
    """A run of a stranger without a model folder; changes of its configuration."""
    run = tmp_path / "study" / "run"
    shutil.copytree(trained, run)
    shutil.rmtree(run / "model")

    def change(**keys):
        config = read_yaml(run / "config.yaml")
        config |= {"out": str(run.parent), "schedule": config["schedule"] | {"steps": 3}, **keys}
        (run / "config.yaml").write_text(yaml.safe_dump(config))
        return run

    return change


@pytest.mark.parametrize("command", ["generate", "pretrain"])
def test_a_pickle_in_a_checkpoint_is_not_run(command, theirs, data, bipe, trap):
    run = theirs(steps=3)
    path = run / "checkpoints" / "step=00000002.ckpt"
    torch.save({"state_dict": Runs(trap), "x": Runs(trap)}, path)
    path.with_suffix(".json").write_text(json.dumps(checksum(path)))
    words = ["--config-file", run / "config.yaml", f"out={run.parent}"]
    if command == "generate":
        words = [f"generate.run={run}", f"data={data}", "generate.prompt=x"]
    status, printed = bipe(command, *words)
    assert status == 2 and f"{path}: is not a checkpoint of tensors and plain data" in printed
    assert trap.untouched()


def test_the_configuration_of_a_strangers_run_lets_no_package_in(theirs, bipe, trap):
    run = theirs(encoding={"_target_": "evil.Encoding"}, allowed_targets=["evil"])
    path = run / "checkpoints" / "model" / "config.json"
    about = json.loads(path.read_text())
    about["decoder"]["encoding"] = {"_target_": "evil.Encoding"}
    path.write_text(sealed(about))
    status, printed = bipe("generate", f"generate.run={run}", "generate.prompt=x")
    assert status == 2 and "add allowed_targets=[evil] to the command line" in printed
    assert trap.untouched()
