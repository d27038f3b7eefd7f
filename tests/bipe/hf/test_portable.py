"""modeling_bipe.py: people without bipe get the same model; with bipe it is never run."""

import json
import os
import subprocess
import sys

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaForCausalLM

from bipe.encodings.rope import Stretch
from bipe.extension import frequencies
from bipe.hf import BipeForCausalLM, SegmentingTokenizer, bilevel
from bipe.layouts.portable import FILE, of_decoder, of_stock
from tests.bipe.conftest import SCHEMES, small_decoder
from tests.bipe.hf import elsewhere
from tests.bipe.hf.conftest import (
    ENDS,
    PACKED_TABLE,
    VOCABULARY,
    YARN,
    llama_config,
    model_of,
    run_at,
)
from tests.bipe.hf.test_mixin import family
from train.commands.after.converting import to_hf

PARTS = {"_target_": "bipe.extension.NTKByParts", "factor": 4.0, "original_length": 8}
STRETCHES = {"yarn": YARN, "parts": PARTS, "drope": {"_target_": "bipe.extension.DroPE"}}
OURS = ("bipe_alibi", "bilevel_learned_rope_yarn", "chain_of_kinds")
RUN = "a run"  # that bipe convert wrote, with a tokenizer
NAMES = ("Llama yarn", "Qwen3 parts", "Gemma3", "GPTNeoX drope", *OURS, RUN)


def saved(name, folder):
    if name == RUN:
        to_hf(str(run_at(folder.parent)), folder)
    elif name in OURS:
        decoder = small_decoder(name, vocab_size=VOCABULARY).eval()
        model = BipeForCausalLM.of(decoder, segment_table=PACKED_TABLE, **ENDS)
        model.save_pretrained(folder)
    else:
        base, _, stretch = name.partition(" ")
        _, model = family(base, stretch=STRETCHES.get(stretch))
        torch.nn.init.normal_(model.intra.weight, std=0.3)
        model.save_pretrained(folder)


@pytest.fixture(scope="module")
def elsewhere_folders(tmp_path_factory):
    """Folders of models, what a process without bipe answered (.pt) and saved, and what it said."""
    home = tmp_path_factory.mktemp("portable")
    for name in NAMES:
        saved(name, home / name)
    script = [sys.executable, elsewhere.__file__, str(torch.get_num_threads())]
    done = subprocess.run(
        [*script, *(str(home / name) for name in NAMES)],
        env=os.environ | {"HF_HOME": str(home / "cache")},
        capture_output=True,
        text=True,
        cwd=home,
    )
    assert done.returncode == 0, done.stderr
    return home, done


@pytest.mark.oldest_transformers
@pytest.mark.parametrize("name", NAMES)
def test_a_model_answers_the_same_without_bipe(elsewhere_folders, name):
    home = elsewhere_folders[0]
    model = AutoModelForCausalLM.from_pretrained(home / name).eval()
    assert type(model).__module__.startswith("bipe.hf.")
    expected, made = elsewhere.answers(model), torch.load(f"{home / name}.pt")
    if name == RUN:
        tokenizer = SegmentingTokenizer.from_pretrained(home / name)
        assert made.pop("ids").tolist() == tokenizer(elsewhere.TEXT)["input_ids"]
        assert made.pop("written").startswith(elsewhere.TEXT)
    assert made.keys() == expected.keys()
    assert made["wrong in threads"] == 0
    assert [key for key in made if not torch.equal(made[key], expected[key])] == []
    again = AutoModelForCausalLM.from_pretrained(f"{home / name}-again")
    assert type(again) is type(model)
    assert all(map(torch.equal, again.state_dict().values(), model.state_dict().values()))
    assert (home / f"{name}-again" / FILE).read_text() == (home / name / FILE).read_text()


def test_people_without_bipe_are_told_what_to_do(elsewhere_folders):
    _, done = elsewhere_folders
    assert "argument `trust_remote_code=True` to allow custom code" in done.stdout
    assert "a SegmentingTokenizer of bipe.hf first (install bipe from a checkout)" in done.stdout
    assert (
        "texts without segment_marks: a table of 64 ids for separators, not measured" in done.stderr
    )


@pytest.mark.oldest_transformers
@pytest.mark.parametrize("kind", ["llama_bipe_rope", "bipe_alibi"])
def test_with_bipe_the_file_is_never_run(kind, tmp_path):
    model = model_of(kind)
    model.save_pretrained(tmp_path)
    (tmp_path / FILE).write_text("raise SystemExit")
    for trusted in (None, False, True):
        read = AutoModelForCausalLM.from_pretrained(tmp_path, trust_remote_code=trusted)
        config = AutoConfig.from_pretrained(tmp_path, trust_remote_code=trusted)
        assert (type(read), type(config)) == (type(model), type(model.config))


def test_no_name_is_left_out_of_any_scheme():
    pytest.importorskip("ruff")  # of the extra dev
    text = of_decoder(SCHEMES)  # a file of all encodings together
    assert text == of_decoder(SCHEMES)
    kinds = {name: kind for name, kind in vars(frequencies).items() if isinstance(kind, type)}
    stretch = {
        name: {"_target_": f"bipe.extension.frequencies.{name}"}
        for name, kind in kinds.items()
        if issubclass(kind, Stretch)
    }
    unknown = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "-"]
    for file in (text, of_stock("LlamaForCausalLM", "LlamaConfig", stretch=stretch)):
        done = subprocess.run(unknown, input=file, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_classes_of_somebody_else_get_no_file(tmp_path):
    class Own(LlamaForCausalLM):
        pass

    model = bilevel(Own)(llama_config(bilevel(Own).config_class))
    model.config.auto_map = {"AutoConfig": "somebody/else--modeling_bipe.BipeLlamaConfig"}
    model.save_pretrained(tmp_path)
    assert not (tmp_path / FILE).exists()
    assert "auto_map" not in json.loads((tmp_path / "config.json").read_text())
    assert (
        of_decoder({"_target_": "bipe.encodings.Flat", "encoding": {"_target_": "my.Own"}}) is None
    )
