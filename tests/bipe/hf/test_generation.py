"""BipeForCausalLM is our Decoder to the bit, generates in every mode what uncached passes give,
and refuses what it cannot do.
"""

import pytest
import torch
from transformers import DynamicCache, LlamaForCausalLM

from bipe import Decoder, Positions
from bipe.hf import BipeConfig, BipeForCausalLM
from tests.bipe.conftest import ONE_EACH, small_decoder
from tests.bipe.hf.conftest import (
    ENCODINGS,
    NEW,
    PACKED_TABLE,
    VOCABULARY,
    filled,
    ids_of,
    llama_config,
    marks_by_table,
    model_of,
)

IDS = ids_of(2, 24)


@pytest.mark.parametrize("name", ENCODINGS)
def test_logits_are_the_decoders_bit_for_bit(name):
    model = model_of(name).double()
    decoder = Decoder(model.config.decoder_config()).double()
    decoder.load_state_dict(model.model.state_dict())
    marks = marks_by_table(IDS)
    whole = decoder.logits(IDS, Positions.from_marks(marks, packed=False))
    assert torch.equal(model(IDS, segment_marks=marks).logits, whole)
    padding = torch.arange(24) < torch.tensor([[3], [0]])
    padded = decoder.logits(IDS, Positions.from_marks(marks, padding=padding))
    made = model(IDS, attention_mask=(~padding).long(), segment_marks=marks).logits
    assert torch.equal(made, padded)


@pytest.mark.parametrize("name", ONE_EACH)
def test_every_scheme_goes_on_from_a_cache(name):
    decoder = small_decoder(name).eval()
    model = BipeForCausalLM.of(decoder)
    ids = IDS[:, :14] % decoder.config.vocab_size
    marks = marks_by_table(IDS[:, :14])
    marks |= ((marks >> 1 & 1) * (ids % 3 == 0)).byte() << 2
    whole = model(ids, segment_marks=marks, use_cache=False).logits
    cache, parts = DynamicCache(config=model.config), []
    for start, stop in ((0, 6), (6, 13), (13, 14)):
        given = {"segment_marks": marks[:, :stop], "past_key_values": cache}
        parts.append(model(ids[:, start:stop], **given).logits)
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=2e-5, rtol=1e-4)


def test_a_flat_model_whose_far_method_reads_segments_gets_marks():
    far = {"_target_": "bipe.extension.Separators", "window": 2, "sinks": 1}
    encoding = {"_target_": "bipe.encodings.Flat", "encoding": ENCODINGS["rope"], "far": far}
    config = BipeConfig(vocab_size=VOCABULARY, width=32, encoding=encoding)
    with pytest.raises(ValueError, match="segments of these tokens are not known"):
        BipeForCausalLM(config)(IDS)
    config.segment_table = PACKED_TABLE
    model, marks = BipeForCausalLM(config).eval(), marks_by_table(IDS)
    found = model(IDS).logits
    assert torch.equal(found, model(IDS, segment_marks=marks).logits)
    one_segment = torch.zeros_like(marks)
    assert not torch.allclose(found, model(IDS, segment_marks=one_segment).logits)


def test_a_new_model_is_drawn_as_our_decoders_are_and_a_tied_head_stays_one_tensor(tmp_path):
    rope = ENCODINGS["rope"] | {"head_width": 16}
    model = BipeForCausalLM(BipeConfig(vocab_size=VOCABULARY, tied_head=True, encoding=rope)).eval()
    assert model.model.blocks[0].mlp.up.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert torch.equal(model.model.norm.weight, torch.ones(64))
    model.save_pretrained(tmp_path)
    read = BipeForCausalLM.from_pretrained(tmp_path)
    assert read.model.head.weight is read.model.tokens.weight
    assert torch.equal(read(IDS).logits, model(IDS).logits)


def test_vectors_hidden_states_and_kept_logits():
    model, marks = model_of("bipe_rope"), marks_by_table(IDS)
    vectors = model.get_input_embeddings()(IDS)
    made = model(
        inputs_embeds=vectors, segment_marks=marks, output_hidden_states=True, logits_to_keep=2
    )
    torch.testing.assert_close(made.logits, model(IDS, segment_marks=marks).logits[:, -2:])
    assert len(made.hidden_states) == 3
    scaled = model.model.scheme.intra.table.weight  # added to vectors before the first block
    assert torch.equal(made.hidden_states[0][:, 0], vectors[:, 0] + scaled[0])
    torch.testing.assert_close(model.model.head(made.hidden_states[-1])[:, -2:], made.logits)
    assert model(IDS, return_dict=False)[0].shape == (2, 24, VOCABULARY)
    model.config.output_hidden_states, model.config.return_dict = True, False
    for called in (model, model.model):  # as they are configured
        states = called(IDS, use_cache=False)[1]
        torch.testing.assert_close(states[-1][:, -2:], made.hidden_states[-1][:, -2:])
    for wrong, reason in (
        ({}, "exactly one of input_ids and inputs_embeds"),
        ({"input_ids": IDS, "output_attentions": True}, "attention weights are never stored"),
    ):
        with pytest.raises(ValueError, match=reason):
            model(**wrong)


GREEDY = {"max_new_tokens": NEW, "do_sample": False}
MODES = {
    "dynamic cache": {},
    "no cache": {"use_cache": False},
    "static cache": {"cache_implementation": "static", "disable_compile": True},
    "chunked prefill": {"prefill_chunk_size": 4},
    "prompt lookup": {"prompt_lookup_num_tokens": 3},
    "an assistant": {"assistant_model": lambda: model_of("bipe_alibi", layers=1)},
    "an assistant without segments": {
        "assistant_model": lambda: filled(LlamaForCausalLM(llama_config()))
    },
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_the_uncached_generation(case, mode):
    """With marks of the prompt, without, and padded on the left."""
    how = {key: value() if callable(value) else value for key, value in MODES[mode].items()}
    for ids, expected in zip(case.prompts, case.expected, strict=True):
        assert torch.equal(case.model.generate(ids, **how, **GREEDY), expected)
    for ids, marks, expected in zip(
        case.prompts, case.marks, case.expected_with_marks, strict=True
    ):
        made = case.model.generate(ids, segment_marks=marks, **how, **GREEDY)
        assert torch.equal(made, expected)
    if mode in ("dynamic cache", "static cache", "chunked prefill"):
        made = case.model.generate(**case.batch, **how, **GREEDY)
        for row, expected in zip(made, case.expected, strict=True):
            assert torch.equal(row[-NEW:], expected[0, -NEW:])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_generates_on_from_a_cache():
    expected = model_of("bipe_rope").generate(IDS, **GREEDY)
    flexible = model_of("bipe_rope", attention="flex_attention")
    assert torch.equal(flexible.generate(IDS, **GREEDY), expected)


@pytest.mark.parametrize("kind", ["alibi", "llama_bipe_rope"])
def test_vectors_are_continued_where_segments_do_not_count(kind):
    model = model_of(kind)
    model.config.bilevel = False
    vectors, padding = model.get_input_embeddings()(IDS), torch.ones_like(IDS)
    padding[0, :5] = 0
    made = model.generate(inputs_embeds=vectors, attention_mask=padding, **GREEDY)
    expected = model.generate(IDS, attention_mask=padding, **GREEDY)
    assert torch.equal(made, expected[:, 24:])


def test_a_cache_is_continued(case):
    for ids, expected in zip(case.prompts, case.expected, strict=True):
        cache = DynamicCache(config=case.model.config)
        for count in (4, NEW - 4):
            given = {"attention_mask": torch.ones_like(ids), "past_key_values": cache}
            ids = case.model.generate(ids, **given, max_new_tokens=count, do_sample=False)
        assert torch.equal(ids, expected)


def test_beams_and_samples_do_not_depend_on_the_cache(case):
    one = {"inputs": case.prompts[1], "segment_marks": case.marks[1]}
    for given in (
        {**case.batch, **GREEDY, "num_beams": 3},
        {**one, **GREEDY, "num_beams": 2},
        {**case.batch, "do_sample": True, "num_return_sequences": 2, "max_new_tokens": NEW},
    ):
        made = []
        for cached in (True, False):
            torch.manual_seed(3)
            made.append(case.model.generate(use_cache=cached, **given))
        assert torch.equal(*made)


def test_activation_checkpointing_keeps_the_gradients(case):
    ids, grads = case.prompts[1], []
    # transformers 5.20 has one name, 5.23 the other.
    name = "activation" if hasattr(case.model, "activation_checkpointing_enable") else "gradient"
    for again in (False, True):
        case.model.train()
        case.model.zero_grad()
        if again:
            getattr(case.model, f"{name}_checkpointing_enable")()
        case.model(ids, labels=ids, use_cache=False).loss.backward()
        grads.append([p.grad.clone() for p in case.model.parameters() if p.grad is not None])
    getattr(case.model, f"{name}_checkpointing_disable")()
    case.model.eval()
    assert len(grads[0]) == sum(1 for _ in case.model.parameters())
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
