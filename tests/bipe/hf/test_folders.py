"""Model folders between our decoder and transformers: both ways, bit for bit, or one clear line."""

import json
import logging

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import processors
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from bipe import Positions
from bipe.checkpoint import CheckpointError, load_model
from bipe.hf import BipeForCausalLM, SegmentingTokenizer
from bipe.layouts import config_to_official, from_official, to_official
from bipe.layouts.folders import read_folder, write_folder
from segmenters import Sentences
from tests.bipe.conftest import BARE, SCHEMES, small_decoder, stretch, target
from tests.bipe.hf.conftest import (
    TEXTS,
    VOCABULARY,
    filled,
    ids_of,
    llama_config,
    model_of,
    trained,
)
from train.commands.after.converting import to_bipe, to_hf
from train.errors import UserError

LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0}
LLAMA3 |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 16}
READ = {
    "Llama": {},
    "Llama_tied": {"tie_word_embeddings": True},
    "Llama_llama3": {"rope_parameters": LLAMA3},
    "Mistral": {"sliding_window": None},
    "Qwen2": {},
    "Qwen3": {},
}
WINDOWS = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}
OTHERWISE = {
    "Gemma": ({}, "model_type must be one of llama, .*was: 'gemma', whose"),
    "Gemma3": ({}, "was: 'gemma3_text'"),
    "Granite": ({}, "was: 'granite'"),
    "Mistral": ({"sliding_window": 16}, "attend to all tokens, was: sliding_window=16"),
    "Llama": ({"hidden_act": "gelu"}, "hidden_act must be 'silu' or 'swish' .*was: 'gelu'"),
    "Llama_biased": ({"mlp_bias": True}, "mlp_bias must be False"),
    "Llama_biases": ({"attention_bias": True}, "attention_bias must be false"),
    "Llama_scaled": ({"logits_scaling": 8.0}, "logits_scaling must be 1"),
    "Llama_capped": ({"final_logit_softcapping": 30.0}, "final_logit_softcapping must be absent"),
    "Qwen2": (WINDOWS, "all layers must attend to all tokens, was: sliding_attention"),
}


def stranger(name, *, vocab_size=VOCABULARY, **keys):
    cls = getattr(transformers, f"{name.partition('_')[0]}ForCausalLM")
    torch.manual_seed(0)
    config = llama_config(cls.config_class, head_dim=8, **keys)
    config.vocab_size = vocab_size
    return filled(cls(config))


def same(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@torch.no_grad()
@pytest.mark.parametrize("name", READ)
def test_a_strangers_model_is_read_and_becomes_one_of_transformers_again(name, tmp_path):
    theirs = stranger(name, **READ[name])
    theirs.save_pretrained(tmp_path / "theirs")
    ours, _ = read_folder(tmp_path / "theirs")
    same(to_official(ours), theirs.state_dict())
    ids = ids_of(2, 40)
    at = Positions.from_marks(torch.zeros_like(ids).byte(), packed=False)
    expected = theirs(ids).logits
    torch.testing.assert_close(ours.logits(ids, at), expected, atol=2e-5, rtol=1e-4)
    write_folder(ours, tmp_path / "ours", max_length=512)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    assert type(again) is type(theirs) or name == "Mistral"  # which is a LLaMA without windows
    assert torch.equal(again(ids).logits, expected)


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_model_that_computes_otherwise_is_refused(name):
    keys, reason = OTHERWISE[name]
    theirs = stranger(name, **keys)
    with pytest.raises(CheckpointError, match=reason):
        from_official(theirs.config.to_dict(), theirs.state_dict())


def test_missing_weights_and_other_shapes_are_named():
    theirs = stranger("Llama").bfloat16()
    config, state = theirs.config.to_dict(), dict(theirs.state_dict())
    assert from_official(config, state).tokens.weight.dtype == torch.bfloat16
    name = "model.layers.1.mlp.up_proj.weight"
    without = {key: each for key, each in state.items() if key != name}
    for keys, weights, reason in (
        ({}, {**state, name: torch.zeros(65, 32)}, rf"{name} must be \(64, 32\) according to the"),
        ({}, {**state, "x": torch.zeros(1)}, r"unknown layout: \['x'\]"),
        ({}, without, f"{name} is missing"),
        ({"hidden_size": None}, state, "hidden_size must be a whole number, was: None"),
        ({"rpe_type": "fire"}, state, "rpe_type must be one of rope, alibi, .*was: 'fire'"),
        *(
            ({"log_scale": True, "train_scale": length}, state, f"for log_scale, was: {length}")
            for length in (None, 1, "64")
        ),
    ):
        with pytest.raises(CheckpointError, match=reason):
            from_official({**config, **keys}, weights)
    # Buffers of the release are ignored.
    buffers = {"model.layers.0.self_attn.alibi": torch.zeros(1, 4, 1, 64)}
    from_official({**config, "rpe_type": "alibi"}, {**state, **buffers})


WIDE = target("RoPE", head_width=12)
LAYOUTS = {
    "llama": ("flat_rope", {}, "llama"),
    "llama_tied": ("flat_rope", {"tied_head": True, "n_kv_head": 2}, "llama"),
    "qwen2_bf16": ("flat_rope", {"qkv_bias": "qkv"}, "qwen2"),
    "qwen3": ("flat_rope", {"qk_norm": "both"}, "qwen3"),
    "wide_heads": ("flat_rope", {"head_width": 12, "encoding": WIDE, "n_kv_head": 2}, "llama"),
    "yarn": ("flat_rope_yarn", {}, "llama"),
    "interleaved": ("flat_rope_interleaved", {}, "bipe"),
    "annealed": ("annealed", {}, "bipe"),
    "bipe_rope_bf16": ("bilevel_learned_rope", {}, "bipe"),
    "bipe_alibi": ("bilevel_learned_alibi_x96", {"tied_head": True}, "bipe"),
}
TOKENS = torch.randint(0, 61, (2, 20), generator=torch.Generator().manual_seed(0))
MARKS = (torch.arange(20) % 6 == 0).byte().expand(2, 20) * 2
AT = Positions.from_marks(MARKS, packed=False)


@torch.no_grad()
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_model_goes_and_comes_back(name, tmp_path):
    scheme, options, kind = LAYOUTS[name]
    dtype = torch.bfloat16 if name.endswith("bf16") else torch.float32
    model = small_decoder(scheme, **options).to(dtype).eval()
    write_folder(model, tmp_path / "out", max_length=64, keys={"eos_token_id": 3})
    files = ["config.json", "model.safetensors", *(["modeling_bipe.py"] if kind == "bipe" else [])]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == files
    read, config = read_folder(tmp_path / "out")
    assert (config["model_type"], config["eos_token_id"]) == (kind, 3)
    same(read.state_dict(), model.state_dict())
    assert torch.equal(read.logits(TOKENS, AT), model.logits(TOKENS, AT))
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    assert theirs.dtype == dtype
    if kind == "bipe":
        made = theirs(TOKENS, segment_marks=MARKS).logits
        assert torch.equal(made, model.logits(TOKENS, AT))
    elif dtype == torch.float32:
        made = theirs(TOKENS).logits
        torch.testing.assert_close(made, model.logits(TOKENS, AT), atol=2e-5, rtol=1e-4)
    # What transformers saves is read again, in shards too.
    theirs.save_pretrained(tmp_path / "again", max_shard_size="20KB")
    assert (tmp_path / "again" / "model.safetensors.index.json").is_file()
    same(read_folder(tmp_path / "again")[0].state_dict(), model.state_dict())


STRETCHES = {
    "YaRN": {},
    "Llama3": {},
    "LongRoPE": {"short_factor": [1.0, 1.0, 1.5, 2.0], "long_factor": [1.0, 2.0, 3.0, 4.0]},
    "DynamicNTK": {},
}


@torch.no_grad()
@pytest.mark.parametrize("name", STRETCHES)
def test_a_stretched_model_is_loaded_without_a_warning_and_computes_alike(name, tmp_path):
    """max_length is that of the training rows, which has nothing to do with the stretch."""
    how = stretch(name, original_length=8, **STRETCHES[name])
    model = small_decoder("flat_rope", encoding=BARE["rope"] | {"stretch": how}).eval()
    config = write_folder(model, tmp_path / "out", max_length=24)
    assert config["max_position_embeddings"] == (8 if name == "DynamicNTK" else 32)
    told, root = [], logging.getLogger("transformers")
    watch = logging.Handler(logging.WARNING)
    watch.emit = lambda record: told.append(record.getMessage())
    root.addHandler(watch)
    transformers.logging.set_verbosity_warning()
    try:
        theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    finally:
        transformers.logging.set_verbosity_error()
        root.removeHandler(watch)
    assert told == []
    at = Positions.from_marks(torch.zeros_like(TOKENS).byte(), packed=False)
    ours = model.logits(TOKENS, at)
    assert torch.equal(read_folder(tmp_path / "out")[0].logits(TOKENS, at), ours)
    torch.testing.assert_close(theirs(TOKENS).logits, ours, atol=2e-5, rtol=1e-4)


def test_the_released_layout_is_read(tmp_path):
    model = small_decoder("bilevel_learned_rope")
    config = config_to_official(model.config, max_length=64)
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(to_official(model), tmp_path / "model.safetensors")
    same(read_folder(tmp_path)[0].state_dict(), model.state_dict())


def state(change):
    def spoil(folder):
        held = load_file(folder / WEIGHTS)
        change(held)
        save_file(held, folder / WEIGHTS)

    return spoil


def config(**changes):
    def spoil(folder):
        held = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(held | changes))

    return spoil


def text(name, said):
    return lambda folder: (folder / name).write_text(said)


WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
DAMAGE = [
    (lambda f: (f / "config.json").unlink(), r"config.json cannot be read .*a model folder\?"),
    (text("config.json", "{"), "config.json is not JSON"),
    (lambda f: (f / WEIGHTS).unlink(), "model.safetensors is missing; copy the whole folder"),
    (lambda f: (f / WEIGHTS).rename(f / "a.bin"), "missing; a.bin is a pickle"),
    (text(WEIGHTS, "x"), "model.safetensors cannot be read"),
    (text(INDEX, '{"weight_map": {"a": "../other.safetensors"}}'), "safetensors files of its fol"),
    (text(INDEX, '{"weight_map": {"a": "pytorch_model.bin"}}'), "safetensors files of its folder"),
    (text(INDEX, '{"weight_map": {}}'), "weights must be floats, was: none"),
    (text(INDEX, "{}"), "has no weight_map of files"),
    (state(lambda s: s.pop("model.norm.weight")), "norm.weight must be .*was: None"),
    (state(lambda s: s.update(x=torch.zeros(1))), "must start with 'model.', was: x"),
    (state(lambda s: s.update(x=torch.zeros(1).int())), "weights must be floats, was: torch.int32"),
    (config(width=52), "tokens.weight must be"),
    (config(n_layer="2"), "n_layer must be"),
    (config(encoding={"_target_": "os.system", "command": "x"}), "encoding._target_"),
    (config(model_type="bipe_llama"), "model.embed_tokens|hidden_size must be|intra.weight is mis"),
]


@pytest.mark.parametrize(("spoil", "message"), DAMAGE)
def test_a_folder_that_makes_no_sense_is_one_clear_line(spoil, message, tmp_path):
    folder = tmp_path / "model"
    write_folder(small_decoder("bilevel_learned_rope"), folder)
    spoil(folder)
    with pytest.raises(CheckpointError, match=message) as found:
        read_folder(folder)
    assert str(folder) in str(found.value)
    assert "\n" not in str(found.value)


def test_bipe_hf_has_the_same_keys_and_no_folder_is_overwritten(tmp_path):
    model = small_decoder("bilevel_learned_rope")
    assert SCHEMES["bilevel_learned_rope"] == model.config.encoding
    write_folder(model, tmp_path / "ours")
    BipeForCausalLM.of(model).save_pretrained(tmp_path / "theirs")
    ours, theirs = (
        json.loads((tmp_path / name / "config.json").read_text()) for name in ("ours", "theirs")
    )
    assert {key: theirs[key] for key in ours} == ours
    assert transformers.AutoConfig.from_pretrained(tmp_path / "ours").model_type == "bipe"
    with pytest.raises(CheckpointError, match="already exists"):
        write_folder(model, tmp_path)


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "bilevel"), [("llama_bipe_rope", False), ("llama_bipe_rope_yarn", True)]
)
def test_a_bilevel_class_of_transformers_is_read(kind, bilevel, tmp_path):
    theirs = model_of(kind)
    theirs.config.bilevel = bilevel
    theirs.save_pretrained(tmp_path)
    ours, held = read_folder(tmp_path)
    assert held["model_type"] == "bipe_llama"
    at = Positions.from_marks(MARKS, packed=False)
    expected = theirs(TOKENS, segment_marks=MARKS).logits
    torch.testing.assert_close(ours.logits(TOKENS, at), expected, atol=2e-5, rtol=1e-4)
    if bilevel:
        state(lambda held: held.pop("intra.weight"))(tmp_path)
        with pytest.raises(CheckpointError, match=r"intra\.weight is missing"):
            read_folder(tmp_path)


def test_weights_are_written_in_shards_and_another_dtype(tmp_path):
    model = small_decoder("bilevel_learned_rope").to(torch.bfloat16)
    write_folder(model, tmp_path / "out", dtype=torch.float32, shard_bytes=20_000)
    shards = sorted(tmp_path.glob("out/*.safetensors"))
    assert len(shards) > 1
    assert all(path.stat().st_size < 50_000 for path in shards)
    same(read_folder(tmp_path / "out")[0].state_dict(), model.float().state_dict())
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    same(theirs.model.state_dict(), model.state_dict())
    with torch.no_grad():
        model.tokens.weight[0, 0] = 1e6
    with pytest.raises(
        CheckpointError, match=r"tokens.weight has values outside the range of float16"
    ):
        write_folder(model, tmp_path / "half", dtype=torch.float16)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


# `bipe convert`.
SIZE = {"bytes": 323, "metaspace": 124}


@torch.no_grad()
@pytest.mark.oldest_transformers
def test_transformers_reads_a_run(run, tmp_path):
    to_hf(str(run), tmp_path / "hf")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "hf")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert (type(model), type(tokenizer)) == (BipeForCausalLM, SegmentingTokenizer)
    assert tokenizer.segmenter == Sentences()
    assert model.config.segment_table == tokenizer.segment_table(size=model.config.vocab_size)
    made = tokenizer(TEXTS[0], return_tensors="pt")
    ours, _ = load_model(run / "model")
    at = Positions.from_marks(made["segment_marks"].byte())
    assert torch.equal(model(**made).logits, ours.logits(made["input_ids"], at))
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == 1
    plain = PreTrainedTokenizerFast.from_pretrained(tmp_path / "hf")
    assert plain(TEXTS[0])["input_ids"] == made["input_ids"][0].tolist()
    assert "SegmentingTokenizer" not in (tmp_path / "hf" / "tokenizer_config.json").read_text()


def spoken(folder, kind):
    """Give a stranger's folder a tokenizer; that of `metaspace` begins each text with a token."""
    fast = trained(kind)
    if kind == "metaspace":
        begin = ("<unk>", fast.token_to_id("<unk>"))
        how = {"single": "<unk> $A", "special_tokens": [begin]}
        fast.post_processor = processors.TemplateProcessing(**how)
    made = PreTrainedTokenizerFast(tokenizer_object=fast, eos_token="<eos>", unk_token="<unk>")
    made.save_pretrained(folder)
    return made


@pytest.mark.parametrize(("name", "kind"), [("Llama", "metaspace"), ("Qwen3", "bytes")])
def test_a_stranger_comes_and_goes(name, kind, tmp_path):
    theirs = stranger(name, vocab_size=SIZE[kind] + 5)
    theirs.save_pretrained(tmp_path / "theirs")
    own = spoken(tmp_path / "theirs", kind)
    (tmp_path / "theirs" / "README.md").write_text("their card")
    to_bipe(str(tmp_path / "theirs"), tmp_path / "run")
    assert (tmp_path / "run" / "model" / "README.md").read_text() == "their card"
    assert load_model(tmp_path / "run" / "model")[1]["row_length"] == 512
    to_hf(str(tmp_path / "run"), tmp_path / "back")
    back = AutoModelForCausalLM.from_pretrained(tmp_path / "back")
    assert type(back) is type(theirs)
    pairs = zip(back.state_dict().values(), theirs.state_dict().values(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    again = AutoTokenizer.from_pretrained(tmp_path / "back")
    assert again(TEXTS)["input_ids"] == own(TEXTS)["input_ids"]
    assert again.eos_token == own.eos_token


def test_a_plain_tokenizer_file_fits_or_is_refused(tmp_path):
    stranger("Llama", vocab_size=SIZE["bytes"]).save_pretrained(tmp_path / "theirs")
    trained("bytes").save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match="contains none of tokenizer"):
        to_bipe(str(tmp_path / "theirs"), tmp_path / "run")
    to_bipe(str(tmp_path / "theirs"), tmp_path / "run", tokenizer=str(tmp_path / "tokenizer.json"))
    about = json.loads((tmp_path / "run" / "model" / "tokenizer_config.json").read_text())
    assert about["eos_token"] == "<eos>"
