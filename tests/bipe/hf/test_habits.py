"""What users of transformers do with models and tokenizers: it works, or is refused in one line."""

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from bipe.hf import BipeForCausalLM, SegmentingTokenizer, bilevel
from segmenters import Sentences
from tests.bipe.hf.conftest import (
    TEXTS,
    VOCABULARY,
    filled,
    ids_of,
    llama_config,
    marked,
    marks_by_table,
    model_of,
    tokenizer_of,
)

KINDS = ("llama_bipe_rope", "bipe_rope")
GREEDY = {"max_new_tokens": 5, "do_sample": False}
IDS = ids_of(2, 14)


@pytest.fixture(scope="module", params=marked(KINDS, KINDS))
def kind(request):
    return request.param


def attached(kind):
    tokenizer = tokenizer_of(pad_token="<eos>")
    model = model_of(kind, vocab_size=len(tokenizer))
    tokenizer.attach(model, TEXTS)
    return model, tokenizer


def test_tokens_that_are_added_are_special_until_the_tokenizer_is_attached_again(kind):
    model, tokenizer = attached(kind)
    count = len(tokenizer)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|turn|>"]})
    tokenizer.add_tokens([". Then "])
    model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=8)
    filled(model)
    text = "He left.<|turn|> She stayed. Then it rained."
    prompt = tokenizer(text, return_tensors="pt")
    assert {count, count + 1} <= {*prompt["input_ids"][0].tolist()}
    ids = prompt["input_ids"]
    flags = model.id_flags()
    assert flags.flags.shape == (9, model.config.vocab_size)
    without = ids[ids != count][None]  # a special token changes no mark of others
    assert torch.equal(flags.marks(ids)[ids != count][None], flags.marks(without))
    for rule in ("table", "exact"):
        made = model.generate(**prompt, segmentation=rule, **GREEDY)
        again = model.generate(**prompt, segmentation=rule, use_cache=False, **GREEDY)
        assert torch.equal(made, again)
    assert model(ids).logits.shape[-1] == model.config.vocab_size
    assert tokenizer.pieces()[count:] == (b"", b". Then ")
    tokenizer.attach(model, TEXTS)
    marks = model.id_flags().marks(ids)[0]
    place = ids[0].tolist().index(count + 1)
    assert marks[place + 1] & 2 and marks[place + 1] == prompt["segment_marks"][0, place + 1]


def test_a_chat_template_of_another_tokenizer(kind, tmp_path):
    trl = pytest.importorskip("trl")
    model, tokenizer = attached(kind)
    other = tokenizer_of()
    other.add_special_tokens({"additional_special_tokens": ["<|user|>", "<|end|>"]})
    other.chat_template = "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}"
    other.save_pretrained(tmp_path)
    model, tokenizer, added = trl.clone_chat_template(model, tokenizer, str(tmp_path))
    assert isinstance(tokenizer, SegmentingTokenizer) and len(added) >= 2
    messages = [{"role": "user", "content": "He left. She stayed."}]
    ids = tokenizer.apply_chat_template(messages, return_tensors="pt", return_dict=True)
    assert torch.isfinite(model(**ids).logits).all()
    assert model.generate(**ids, **GREEDY).shape[1] > ids["input_ids"].shape[1]


NOT_CAUSAL = ("LlamaForSequenceClassification", "LlamaModel", "GPT2LMHeadModel", "BertForMaskedLM")
NOT_ROTARY = ("BloomForCausalLM", "OPTForCausalLM", "GPTBigCodeForCausalLM")


@pytest.mark.oldest_transformers
@pytest.mark.parametrize("name", (*NOT_CAUSAL, *NOT_ROTARY))
def test_a_class_that_bilevel_cannot_change_is_refused_before_it_is_registered(name):
    wrong = TypeError if name in NOT_CAUSAL else ValueError
    with pytest.raises(wrong, match=name):
        bilevel(getattr(transformers, name))
    made = bilevel(LlamaForCausalLM)
    assert type(AutoModelForCausalLM.from_config(llama_config(made.config_class))) is made
    with pytest.raises(TypeError, match="BipeLlamaForCausalLM"):
        bilevel(made)


def test_a_subclass_does_not_take_the_place_of_its_stock_class():
    class Own(LlamaForCausalLM):
        pass

    made, stock = bilevel(Own), bilevel(LlamaForCausalLM)
    assert issubclass(made, Own) and made is not stock
    config = AutoConfig.for_model("bipe_llama")
    assert type(config) is stock.config_class
    small = llama_config(stock.config_class)
    assert type(AutoModelForCausalLM.from_config(small)) is stock
    assert made(llama_config(made.config_class))(IDS, segment_marks=0 * IDS).logits.shape[1] == 14


@pytest.mark.parametrize("name", ["Falcon", "MiniMax", "Nemotron"])  # (no model of its defaults)
def test_documents_that_a_class_would_mix_are_refused(name):
    cls = bilevel(getattr(transformers, f"{name}ForCausalLM"))
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    if name == "MiniMax":
        sizes |= {"num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 2}
    elif name == "Nemotron":
        sizes |= {"num_key_value_heads": 2, "intermediate_size": 32}
    config = cls.config_class(vocab_size=VOCABULARY, **sizes)
    model = cls(config).eval()
    marks = marks_by_table(IDS)
    assert torch.isfinite(model(IDS, segment_marks=marks).logits).all()
    marks[:, 6] |= 1
    with pytest.raises(ValueError, match="give each document its own row"):
        model(IDS, segment_marks=marks, use_cache=False)


def test_two_wrappers_of_one_decoder():
    decoder = model_of("bipe_rope").model
    first, second = (BipeForCausalLM.of(decoder) for _ in range(2))
    marks = marks_by_table(IDS)
    expected = first(IDS, segment_marks=marks).logits
    assert torch.equal(second(IDS, segment_marks=marks).logits, expected)
    hidden = second.base_model(IDS, segment_marks=marks).last_hidden_state
    assert torch.equal(second.get_output_embeddings()(hidden), expected)


def test_continuous_batching_is_refused_where_it_is_called(kind):
    model = model_of(kind)
    for call in (model.generate_batch, model.init_continuous_batching):
        with pytest.raises(ValueError, match=r"use generate\(\)"):
            call([[1, 2, 3]])


def test_candidates_of_an_early_layer(kind):
    model, ids = model_of(kind), IDS[:1]
    if kind == "bipe_rope":
        with pytest.raises(ValueError, match="assistant_early_exit must be None, was: 1"):
            model.generate(ids, assistant_early_exit=1, **GREEDY)
    else:
        made = model.generate(ids, assistant_early_exit=1, **GREEDY)
        assert torch.equal(made, model.generate(ids, **GREEDY))


@torch.no_grad()
@pytest.mark.parametrize("rule", ["table", "exact"])
def test_guidance_is_that_of_two_whole_passes(kind, rule):
    model, tokenizer = attached(kind)
    ids = tokenizer("He left. She", return_tensors="pt")["input_ids"]
    options = {"guidance_scale": 1.5, "segmentation": rule}
    made = model.generate(ids, **options, **GREEDY)
    whole, other = ids, ids[:, -1:]
    for _ in range(GREEDY["max_new_tokens"]):
        given, free = (
            model(each, segment_marks=model.rule_of_marks(rule, each.device).marks(each))
            .logits[:, -1]
            .log_softmax(-1)
            for each in (whole, other)
        )
        new = (free + 1.5 * (given - free)).argmax(-1, keepdim=True)
        whole, other = torch.cat([whole, new], 1), torch.cat([other, new], 1)
    assert torch.equal(made, whole[:, : made.shape[1]])


def test_models_are_pickled_saved_and_copied(kind, tmp_path):
    model, tokenizer = attached(kind)
    torch.save(model, tmp_path / "model.pt")
    copies = (
        pickle.loads(pickle.dumps(model)),
        torch.load(tmp_path / "model.pt", weights_only=False),
        copy.deepcopy(model),
    )
    prompt = tokenizer(TEXTS[0], return_tensors="pt")
    expected = model.generate(**prompt, segmentation="exact", **GREEDY)
    for made in copies:
        assert type(made) is type(model) and type(made.config) is type(model.config)
        assert made.config.to_dict() == model.config.to_dict()
        assert torch.equal(made.generate(**prompt, segmentation="exact", **GREEDY), expected)


@pytest.mark.oldest_transformers
def test_a_tokenizer_beside_no_config_keeps_its_segmenter(tmp_path):
    tokenizer = tokenizer_of()
    tokenizer.save_pretrained(tmp_path / "adapter")
    read = AutoTokenizer.from_pretrained(tmp_path / "adapter")
    assert isinstance(read, SegmentingTokenizer) and read.segmenter == tokenizer.segmenter
    written = tokenizer.save_pretrained(tmp_path / "some", filename_prefix="my")
    names = {path.name for path in (tmp_path / "some").iterdir()}
    assert {"my-segmenter.json", "my-tokenizer.json", "my-tokenizer_config.json"} <= names
    assert names <= {str(path).rpartition("/")[2] for path in written}
    model_of("llama_bipe_rope").save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    config = json.loads((tmp_path / "model/tokenizer_config.json").read_text())
    assert "tokenizer_class" not in config
    assert AutoTokenizer.from_pretrained(tmp_path / "model").segmenter == tokenizer.segmenter
    trained = tokenizer.train_new_from_iterator([TEXTS[:2]], vocab_size=300)
    assert trained.segmenter == Sentences()
    assert sum(mark >> 1 for mark in trained("He left. She stayed.")["segment_marks"]) == 2


COMPILED = """
import torch
from tests.bipe.hf.conftest import ids_of, marks_by_table, model_of

ids = ids_of(2, 14)
for kind in {kinds}:
    model = model_of(kind)
    for given in ({{"segment_marks": marks_by_table(ids)}}, {{"attention_mask": 0 * ids + 1}}):
        given |= {{"input_ids": ids, "use_cache": False}}
        with torch.no_grad():
            if "segment_marks" not in given:
                model(**given)  # makes the id table
            exported = torch.export.export(model, (), given).module()(**given).logits
            expected = model(**given).logits
            compiled = torch.compile(model, fullgraph=True, backend="eager")(**given).logits
        torch.testing.assert_close(compiled, expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(exported, expected, atol=1e-5, rtol=1e-5)
print("equal")
"""


@pytest.mark.slow
def test_a_forward_pass_is_compiled_whole_and_exported():
    """In a process without the checker of shapes, which cannot be compiled."""
    script = [sys.executable, "-c", COMPILED.format(kinds=KINDS)]
    done = subprocess.run(script, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert done.stdout == "equal\n", done.stderr
