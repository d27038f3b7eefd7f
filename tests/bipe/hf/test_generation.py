"""Generation in every mode of transformers gives, token by token, what uncached passes give."""

import pytest
import torch
from transformers import DynamicCache, LlamaForCausalLM

from tests.bipe.hf.conftest import (
    NEW,
    filled,
    llama_config,
    marks_by_table,
    model_of,
)

GREEDY = {"max_new_tokens": NEW, "do_sample": False}
MODES = {
    "dynamic cache": {},
    "no cache": {"use_cache": False},
    "static cache": {"cache_implementation": "static", "disable_compile": True},
    "chunked prefill": {"prefill_chunk_size": 4},
    "prompt lookup": {"prompt_lookup_num_tokens": 3},
}


def require_equal(case, generate):
    for prompt, expected in zip(case.prompts, case.expected, strict=True):
        assert torch.equal(generate(prompt), expected)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_the_uncached_generation(case, mode):
    require_equal(case, lambda ids: case.model.generate(ids, **MODES[mode], **GREEDY))


@pytest.mark.parametrize("mode", ["dynamic cache", "static cache", "chunked prefill"])
def test_left_padding_changes_nothing(case, mode):
    made = case.model.generate(**case.batch, **MODES[mode], **GREEDY)
    for row, expected in zip(made, case.expected, strict=True):
        assert torch.equal(row[-NEW:], expected[0, -NEW:])


def assistants():
    return model_of("bipe_alibi", layers=1), filled(LlamaForCausalLM(llama_config()))


@pytest.mark.parametrize("mode", ["dynamic cache", "chunked prefill", "prompt lookup", "assisted"])
def test_marks_of_the_prompt_are_kept(case, mode):
    """An assistant without segments gets no marks."""
    how = MODES[mode] if mode in MODES else {"assistant_model": assistants()[1]}
    for prompt, marks, expected in zip(
        case.prompts, case.marks, case.expected_with_marks, strict=True
    ):
        made = case.model.generate(prompt, segment_marks=marks, **how, **GREEDY)
        assert torch.equal(made, expected)


def test_an_assistant_changes_nothing(case):
    for ids, expected, assistant in zip(case.prompts, case.expected, assistants(), strict=False):
        made = case.model.generate(ids, assistant_model=assistant, **GREEDY)
        assert torch.equal(made, expected)


def test_a_cache_is_continued(case):
    def halves(ids):
        cache = DynamicCache(config=case.model.config)
        for count in (4, NEW - 4):
            given = {"attention_mask": torch.ones_like(ids), "past_key_values": cache}
            ids = case.model.generate(ids, **given, max_new_tokens=count, do_sample=False)
        return ids

    require_equal(case, halves)


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


def test_packed_equals_alone(case):
    first, second = case.prompts[:2]
    packed = torch.cat([first, second], 1)
    restarts = torch.cat([torch.arange(x.shape[1]) for x in (first, second)])[None]
    marks = torch.cat([marks_by_table(x) for x in (first, second)], 1)
    alone = torch.cat([case.model(x, use_cache=False).logits for x in (first, second)], 1)
    # By restarts of positions, by marks, and by both.
    for given in (
        {"position_ids": restarts, "segment_marks": marks & 2},
        {"segment_marks": marks},
        {"position_ids": restarts, "segment_marks": marks},
    ):
        made = case.model(packed, use_cache=False, **given).logits
        torch.testing.assert_close(made, alone, atol=1e-5, rtol=1e-5)


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
