"""A model folder from a stranger: whatever its config.json names, loading runs none of it."""

import pickle
import shutil

import pytest

from bipe.checkpoint import CheckpointError, load_model, write_config
from bipe.sealing import read_object
from tests.trust.conftest import Runs, rewritten

ROPE = {"_target_": "bipe.encodings.RoPE", "head_width": 8}


def rope(**changes):
    return ROPE | changes


def flat(encoding, **more):
    return {"_target_": "bipe.encodings.Flat", "encoding": encoding, **more}


EXPLOITS = [
    # Functions and methods of Python, by their own names and through modules that import them.
    {"_target_": "os.system", "command": "{shell}"},
    {"_target_": "builtins.exec", "source": "open('{ran}', 'w')"},
    {"_target_": "subprocess.run", "args": "{shell}", "shell": True},
    {"_target_": "pathlib.Path.unlink", "self": "{kept}"},
    {"_target_": "shutil.rmtree", "path": "{folder}"},
    {"_target_": "bipe.checkpoint.shutil.rmtree", "path": "{folder}"},
    {"_target_": "bipe.checkpoint.os.system", "command": "{shell}"},
    {"_target_": "train.fit.runs.shutil.rmtree", "path": "{folder}"},
    {"_target_": "torch.load", "f": "{kept}"},
    {"_target_": "torch.hub.load", "repo_or_dir": "{folder}", "model": "x", "source": "local"},
    {"_target_": "bipe.build.import_module", "name": "evil"},
    {"_target_": "bipe.build.functools.partial", "func": "os.system"},
    {"_target_": "importlib.import_module", "name": "evil"},
    # Functions and methods of ours.
    {"_target_": "train.cli.main", "argv": ["prepare", "allowed_targets=[os]"]},
    {"_target_": "train.disk.files.write_whole", "path": "{kept}", "text": "gone"},
    {"_target_": "train.data.store.export.write_parquet", "stem": "{kept}"},
    {"_target_": "bipe.checkpoint.save_model", "folder": "{folder}"},
    {"_target_": "bipe.sealing.seal_model", "folder": "{folder}"},
    {"_target_": "segmenters.code.grammars.load", "module": "evil", "function": "Encoding"},
    {"_target_": "bipe.encodings.rope.RoPE.__init__", "head_width": 8},
    {"_target_": "bipe.encodings.rope.RoPE.rotation.__globals__"},
    {"_target_": "bipe.encodings.base.Fed"},
    # Classes of ours, of other kinds and other rooms.
    {"_target_": "train.disk.files.Output", "path": "{kept}"},
    {"_target_": "train.evals.rows.Journal", "path": "{kept}"},
    {"_target_": "train.data.Slurm", "partition": "x", "env_command": "{shell}"},
    {"_target_": "segmenters.Sentences", "backend": "{folder}"},
    {"_target_": "bipe.decoder.Decoder", "config": {"_target_": "bipe.decoder.DecoderConfig"}},
    {"_target_": "bipe.random_positions.PoSE", "reach": 8},
    {"_target_": "bipe.encodings.Scheme"},
    {"_target_": "bipe.decoder.Flat", "encoding": ROPE},  # imported there, not defined
    # A package of theirs, named where an encoding is, or let in by the folder itself.
    {"_target_": "evil.Encoding"},
    {"_target_": "bipe.evil.Encoding"},
    {"_target_": "evil.Encoding", "allowed": ["evil."], "allowed_targets": ["evil"]},
    # Deeper down.
    flat({"_target_": "os.system", "command": "{shell}"}),
    flat({"_target_": "evil.Encoding"}),
    flat(ROPE, far={"_target_": "evil.Encoding"}),
    flat(ROPE, far=rope()),
    rope(theta={"_target_": "os.system", "command": "{shell}"}),
    rope(stretch={"_target_": "train.cli.main", "argv": []}),
    rope(stretch={"_target_": "bipe.random_positions.PoSE", "reach": 8}),
    rope(interleaved={"a": [{"_target_": "evil.Encoding"}]}),
    {"_target_": "bipe.encodings.Chain", "links": [{"_target_": "evil.Encoding"}]},
    {"_target_": "bipe.encodings.Chain", "links": {"_target_": "builtins.exec"}},
    # What Hydra and OmegaConf would act on.
    rope(_partial_=True),
    rope(_args_=[{"_target_": "evil.Encoding"}]),
    rope(_recursive_=False, _convert_="all"),
    rope(theta="${oc.env:HOME}"),
    {"_target_": "hydra.utils.instantiate", "config": {"_target_": "os.system"}},
    # Names that are none.
    {"_target_": ["bipe.encodings.RoPE"]},
    {"_target_": {"_target_": "os.system"}},
    {"_target_": None},
    {"_target_": ""},
    {"_target_": "bipe."},
    {"_target_": "..os.system"},
    {"_target_": "bipe.encodings.RoPE\x00"},
    {"_target_": "bipe.encodings.rope:os.system"},
    {"_target_": "/{folder}/evil.Encoding"},
]


def shown(value):
    return str(value)[:70]


@pytest.mark.parametrize("encoding", EXPLOITS, ids=shown)
def test_nothing_that_a_model_names_is_run(encoding, model, trap):
    with rewritten(model) as held:
        held["decoder"]["encoding"] = trap.fill(encoding)
        held["allowed_targets"] = ["evil"]
    with pytest.raises(CheckpointError) as error:
        load_model(model)
    assert str(error.value).startswith(str(model / "config.json"))
    assert trap.untouched()


@pytest.mark.parametrize("size", ["vocab_size", "n_kv_head", "norm_eps", "tied_head"])
def test_a_size_takes_no_description(size, model):
    with rewritten(model) as held:
        held["decoder"][size] = {"_target_": "os.system"}
    with pytest.raises(CheckpointError, match=f"{size} must be"):
        load_model(model)


def nested(value, depth):
    for _ in range(depth):
        value = {"_target_": "bipe.encodings.Chain", "links": [value]}
    return value


HUGE = 10**12
SIZES = [
    {"n_layer": HUGE}, {"width": HUGE}, {"vocab_size": HUGE}, {"mlp_width": HUGE},
    {"n_head": HUGE}, {"n_head": 48, "n_kv_head": 1}, {"n_kv_head": 0}, {"n_kv_head": -6},
    {"width": 96}, {"n_layer": 3}, {"n_layer": 1}, {"tied_head": True}, {"vocab_size": 60},
    {"n_layer": 10**30}, {"norm_eps": float("inf")}, {"norm_eps": -1.0}, {"init_std": float("nan")},
    {"n_layer": 2.0}, {"n_layer": "2"}, {"n_layer": None}, {"n_layer": True}, {"tied_head": 1},
    {"encoding": []}, {"encoding": None}, {"encoding": {}}, {"encoding": "bipe.encodings.RoPE"},
    {"encoding": rope(head_width=HUGE)}, {"encoding": rope(head_width=7)},
    {"encoding": rope(head_width=0)}, {"encoding": rope(theta="x")}, {"encoding": rope(wide=1)},
    {"encoding": {"_target_": "bipe.encodings.RoPE"}},
    {"encoding": {"_target_": "bipe.encodings.ALiBi", "n_head": HUGE}},
    {"encoding": {"_target_": "bipe.encodings.Sinusoidal", "width": HUGE}},
    {"encoding": {"_target_": "bipe.encodings.Learned", "width": 48, "length": HUGE}},
    {"encoding": {"_target_": "bipe.encodings.Learned", "width": HUGE, "length": 8}},
    {"encoding": nested(ROPE, 100)}, {"unknown": 1},
]  # fmt: skip


@pytest.mark.parametrize("changes", SIZES, ids=shown)
def test_a_model_whose_weights_are_not_those_of_its_config_is_refused_at_once(
    changes, model, monkeypatch
):
    with rewritten(model) as held:
        held["decoder"] |= changes
    monkeypatch.setattr("bipe.sealing.bytes_sha256", None)  # not even the weights are read
    with pytest.raises(CheckpointError, match=r"config\.json|model\.safetensors"):
        load_model(model)


@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_a_description_that_is_nested_without_end_is_refused(depth, model):
    text = '{"_target_": "bipe.encodings.Chain", "links": [' * depth + "]}" * depth
    with rewritten(model) as held:
        held["decoder"]["encoding"] = "HERE"
    config = (model / "config.json").read_text().replace('"HERE"', text)
    (model / "config.json").write_text(config)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_model(model)


def test_notes_are_plain_values_whatever_they_say(model, trap):
    notes = {"x": {"_target_": "os.system", "command": trap.shell}, "_partial_": True}
    with rewritten(model) as held:
        held["notes"] = notes
    assert load_model(model)[1] == notes
    assert trap.untouched()


@pytest.mark.parametrize("name", ["../weights", "/etc/passwd", "a/b", "..", "", "model"])
def test_files_of_a_model_are_in_its_folder(name, model, trap):
    shutil.copy(model / "model.safetensors", model.parent / "weights")
    with rewritten(model) as held:
        held["files"][name] = held["files"]["model.safetensors"]
    with pytest.raises(CheckpointError, match=r"files must (list|be)|is missing"):
        load_model(model)


def test_a_pickle_in_place_of_weights_is_not_read(model, trap):
    (model / "pytorch_model.bin").write_bytes(pickle.dumps(Runs(trap)))
    with pytest.raises(CheckpointError, match=r"pytorch_model.bin: does not belong to the model"):
        load_model(model)
    (model / "pytorch_model.bin").replace(model / "model.safetensors")
    write_config(model, read_object(model / "config.json")[1])
    with pytest.raises(CheckpointError, match=r"model.safetensors: does not match"):
        load_model(model)
    assert trap.untouched()
