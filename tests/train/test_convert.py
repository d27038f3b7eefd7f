"""`bipe convert`: a run as a folder of transformers and back, bit for bit, or one clear line."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from bipe import Decoder, DecoderConfig
from bipe.checkpoint import load_model, save_model
from bipe.layouts.folders import read_folder
from segmenters import ArithmeticSteps
from tests.train.studies import flip
from train.cli import main
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.errors import DataError
from train.fit.checkpoints.reading import BaseRun
from train.fit.handover import _opening

OWN = """
from segmenters import Newline

class Semicolons(Newline):
    pass
"""
SIZES = {"vocab_size": 20, "width": 8, "n_layer": 1, "n_head": 2, "mlp_width": 8}
PROMPT = "1+2+3 = 3+3 = 6\n4+"


@pytest.fixture(scope="module")
def run(finished, data, tmp_path_factory):
    """A run whose data is gone."""
    run = Path(shutil.copytree(finished("bipe_rope"), tmp_path_factory.mktemp("c") / "bipe_rope"))
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace(str(data), str(run.parent / "gone")))
    return run


@pytest.fixture
def convert(capfd, monkeypatch, tmp_path):
    """Run the command in an empty folder; status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def command(*words):
        status = main(["convert", *map(str, words)])
        return status, *capfd.readouterr()

    return command


@pytest.fixture
def refused(convert, tmp_path):
    """Run a command that must be refused: its message, after nothing was written."""

    def command(*words):
        before = sorted(tmp_path.rglob("*"))
        status, out, err = convert(*words)
        assert (status, out) == (2, "")
        assert sorted(tmp_path.rglob("*")) == before
        assert len(err.splitlines()) == 1
        return err.removeprefix("bipe: ").strip()

    return command


def test_a_run_is_whole(run, data):
    model = run / "model"
    assert json.loads((model / "segmenter.json").read_text()) == ArithmeticSteps().fingerprint()
    own, prepared = (LoadTokenizer(path=place).build() for place in (model, data))
    assert own.fingerprint() == prepared.fingerprint()
    card = (model / "README.md").read_text()
    head = yaml.safe_load(card.split("---\n")[1])
    assert head["tags"] == ["bipe", "bipe-rope"]
    notes = load_model(model)[1]
    for fact in (
        f"{notes['tokens']:,} tokens",
        f"at most {notes['positions']['segment']['maximum'] + 1} segments per document",
        "| proofs | generated, free of rights | generated | ArithmeticChains | 14 |",
        "optimizer: adamw(lr=0.002",
    ):
        assert fact in card


def test_there_and_back_is_the_same_run(run, convert, capfd):
    status, out, err = convert(run, "to=hf", "out=hf")
    assert (status, err) == (0, "")
    assert out.startswith("hf: model type bipe, float32, ")
    assert convert("hf", "to=bipe", "out=runs/back")[0] == 0
    (model, notes), (again, told) = load_model(run / "model"), load_model("runs/back/model")
    assert replace(model.config, n_kv_head=model.config.kv_heads) == again.config
    assert all(map(torch.equal, model.state_dict().values(), again.state_dict().values()))
    assert notes == told
    # A run without its data, whose tokenizer and segmenter are beside the weights.
    assert main(["generate", "runs/back", "--prompt", PROMPT, "generate.max_new=12"]) == 0
    assert capfd.readouterr().out


def test_the_id_table_is_measured_on_the_data_and_the_dtype_is_as_asked(
    run, convert, tmp_path, data
):
    assert (
        convert(run, "to=hf", "out=hf", f"data={data}", "dtype=bfloat16", "shard_gb=5e-5")[0] == 0
    )
    assert len([*tmp_path.glob("hf/*.safetensors")]) > 1
    assert read_folder(tmp_path / "hf")[0].tokens.weight.dtype == torch.bfloat16
    table = json.loads((tmp_path / "hf" / "config.json").read_text())["segment_table"]["about"]
    assert table["disagreement"] == 0
    assert table["tokens"] > 1000


@pytest.mark.parametrize("name", ["manifest.json", "proofs/test/proofs.00000.bin"])
def test_damaged_data_are_not_measured_on_in_silence(name, run, convert, data, tmp_path):
    home, spoilt = (tmp_path / each for each in ("run", "data"))
    shutil.copytree(run, home)
    flip(Path(shutil.copytree(data, spoilt)) / name)
    config = (home / "config.yaml").read_text()
    (home / "config.yaml").write_text(config.replace(str(run.parent / "gone"), str(spoilt)))
    status, _, err = convert(home, "to=hf", "out=hf")
    assert status == 0 and len(err.splitlines()) == 1 and str(spoilt / name) in err
    table = json.loads((tmp_path / "hf" / "config.json").read_text())["segment_table"]["about"]
    assert table["disagreement"] is None


def test_a_segmenter_of_ones_own_needs_the_words(run, convert, tmp_path, monkeypatch):
    (tmp_path / "lent_rule.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    model, notes = load_model(run / "model")
    own = {"segmenter": "lent_rule.Semicolons", "parameters": {}, "version": 1}
    beside = {path.name: path.read_text() for path in (run / "model").glob("tokenizer*")}
    beside |= {"segmenter.json": json.dumps(own)}
    save_model(model, tmp_path / "run/model", notes=notes, beside=beside)
    status, _, err = convert("run", "to=hf", "out=hf")
    assert status == 2
    assert "add allowed_targets=[lent_rule] to the command line" in err
    assert "set segmenter to one that works during generation" in err
    assert convert("run", "to=hf", "out=hf", "allowed_targets=[lent_rule]")[0] == 0
    written = json.loads((tmp_path / "hf/segmenter.json").read_text())
    assert written["segmenter"] == "lent_rule.Semicolons"


def test_an_encoding_of_ones_own_stays_here(refused, tmp_path, monkeypatch):
    (tmp_path / "lent_code.py").write_text(
        "from bipe.encodings import Encoding\n\n\nclass Own(Encoding):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = DecoderConfig(**SIZES, encoding={"_target_": "lent_code.Own"})
    save_model(Decoder(config, allowed=("lent_code.",)), tmp_path / "own" / "model", notes={})
    told = refused("own", "to=hf", "out=hf", "allowed_targets=[lent_code]")
    assert told.startswith("own has an encoding of your own, which bipe.hf does not build")


def test_a_model_from_elsewhere_may_read_beginnings_or_not():
    run = BaseRun(
        home=Path("run"),
        folder=Path("run/model"),
        model=Decoder(DecoderConfig(**SIZES, encoding={"_target_": "bipe.encodings.NoPE"})),
        notes={"origin": {}, "tokenizer": {"sha256": "a", "bos_id": None}},
        data=None,
    )
    sets = SimpleNamespace(folder="data", vocab_size=20, tokenizer={"sha256": "a", "bos_id": 1})
    run.refuse_other_data(sets)
    with pytest.raises(DataError, match="tokenizer"):
        replace(run, notes={"tokenizer": run.notes["tokenizer"]}).refuse_other_data(sets)
    sets.tokenizer["sha256"] = "b"
    with pytest.raises(DataError, match="tokenizer"):
        run.refuse_other_data(sets)


def test_what_was_measured_is_in_the_card(run, convert, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    row = {"cell": "x", "place": 0, "of": 1, "measure": "perplexity", "source": "proofs"}
    row |= {"length": 64, "value": 3.25}
    (tmp_path / "run" / "evaluation.jsonl").write_text(json.dumps(row) + "\n")
    assert convert("run", "to=hf", "out=hf")[0] == 0
    card = (tmp_path / "hf" / "README.md").read_text()
    assert "| tokens | 64 |\n|---|---:|\n| perplexity proofs | 3.25 |" in card


def test_a_stretched_model_names_its_stretched_length(run, convert, tmp_path):
    words = ["name=far", "stretch=yarn", "stretch.factor=4.0", "steps=0"]
    assert main(["extend", f"checkpoint={run}", f"out={tmp_path}", *words]) == 0
    assert convert("far", "to=hf", "out=hf")[0] == 0
    assert json.loads((tmp_path / "hf/config.json").read_text())["max_position_embeddings"] == 256
    # No text is too long for segments, whatever the rows of training held.
    assert "model_max_length" not in json.loads((tmp_path / "hf/tokenizer_config.json").read_text())


WORDS = [
    ("RUN to=hf", "out= must be set"),
    ("RUN to=gguf out=x", "to must be hf or bipe, was: 'gguf'"),
    ("RUN to=hf out=x dtype=int8", "dtype must be float32 or "),
    ("RUN to=hf out=x shard_gb=0", "shard_gb must be above 0"),
    ("RUN to=bipe out=x", "is already a model of bipe; use to=hf"),
    ("RUN to=hf out=RUN", "already exists: name a new folder"),
    ("RUN to=hf out=x data=nowhere", "contains no prepared data"),
    ("nowhere to=hf out=x", "'nowhere' contains no trained run"),
    ("nowhere to=bipe out=x", "nowhere/config.json cannot be read"),
    ("RUN to=hf out=x tokenizer=nowhere", "there is no such tokenizer file"),
    ("RUN to=hf out=x data=DATA source=prose", "source: 'prose' is not a source"),
]


@pytest.mark.parametrize(("words", "message"), WORDS)
def test_words_that_make_no_sense(words, message, run, refused, data):
    assert message in refused(*words.replace("RUN", str(run)).replace("DATA", str(data)).split())


@pytest.fixture
def folder(run, convert, tmp_path):
    assert convert(run, "to=hf", "out=hf")[0] == 0
    return tmp_path / "hf"


def edited(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


DAMAGE = [  # of weights and config.json: tests/bipe/hf/test_folders.py
    (lambda f: (f / "config.json").unlink(), "hf/config.json cannot be read"),
    (lambda f: edited(f / "config.json", n_layer="two"), "hf/config.json: n_layer must be"),
    (lambda f: (f / "tokenizer.json").unlink(), "tokenizer=PATH to use another"),
    (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer.json: not a fast tokenizer"),
    (lambda f: (f / "tokenizer_config.json").write_text("["), "must be a JSON object"),
    (lambda f: edited(f / "bipe.json", notes=[1]), "hf/bipe.json: must be an object"),
    (lambda f: edited(f / "bipe.json", notes={"row_length": "x"}), "notes.row_length must be of"),
    (lambda f: edited(f / "bipe.json", notes={"stretch": 5}), "notes.stretch must be of type list"),
    (lambda f: (f / "bipe.json").write_text("{"), "hf/bipe.json: must be an object"),
]


def test_what_a_pretrained_model_reads_before_texts_is_read_here(folder, convert, capfd):
    (folder / "bipe.json").unlink()  # a model from elsewhere
    read = []
    for name, before in (("plain", None), ("opened", _opening("<|endoftext|>", 0))):
        edited(folder / "tokenizer.json", post_processor=before)
        assert convert(folder, "to=bipe", f"out={name}")[0] == 0
        notes = load_model(f"{name}/model")[1]["tokenizer"]
        assert notes.get("bos_id") == (0 if before else None)
        assert main(["generate", name, "--prompt", PROMPT, "generate.max_new=1"]) == 0
        read.append(int(capfd.readouterr().err.split()[1]))  # NAME: 16 tokens read, ...
    assert read[1] == read[0] + 1


def test_a_folder_that_is_damaged(folder, refused):
    for at, (spoil, message) in enumerate(DAMAGE):
        shutil.copytree(folder, folder.parent / str(at) / "hf")
        spoil(folder.parent / str(at) / "hf")
        assert message in refused(f"{at}/hf", "to=bipe", "out=back")


def test_weights_that_are_no_numbers_are_told(folder, convert, caplog):
    weights = load_file(folder / "model.safetensors")
    name = min(weights)
    save_file(weights | {name: weights[name] * float("nan")}, folder / "model.safetensors")
    assert convert(folder, "to=bipe", "out=back")[0] == 0
    assert f"{folder}: " in caplog.text and "holds NaN or infinity, one of 1 such" in caplog.text


def test_a_tokenizer_of_another_model(run, folder, refused, tmp_path):
    edited(tmp_path / "hf" / "tokenizer.json", added_tokens=[
        {"id": at, "content": f"<{at}>", "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True} for at in range(277, 280)
    ])  # fmt: skip
    expected = "the tokenizer of hf has ids up to 279, but vocab_size of the model is 277: set"
    assert expected in refused("hf", "to=bipe", "out=back")
    words = (str(run), "to=hf", "out=x", "tokenizer=hf/tokenizer.json")
    assert "ids up to 279" in refused(*words)


def test_a_run_without_tokenizer_and_a_full_disk_leave_nothing(run, refused, tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device", "x")

    model, notes = load_model(run / "model")
    save_model(model, tmp_path / "old" / "model", notes=notes)
    told = refused("old", "to=hf", "out=x")
    assert "model/tokenizer.json is missing; set tokenizer=FILE" in told
    monkeypatch.setattr("bipe.layouts.folders.save_file", full)
    assert "no room is left to write it" in refused(run, "to=hf", "out=x")
