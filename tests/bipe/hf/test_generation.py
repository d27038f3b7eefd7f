"""Generation in every mode of transformers gives, token by token, what uncached passes give."""

import pytest
import torch
from transformers import DynamicCache, LlamaForCausalLM

from tests.bipe.hf.conftest import (
    NEW,
    VOCABULARY,
    filled,
    llama_config,
    marks_by_table,
    model_of,
    uncached,
)

GREEDY = {"max_new_tokens": NEW, "do_sample": False}
STATIC = {"cache_implementation": "static", "disable_compile": True}
MODES = {
    "dynamic cache": {},
    "no cache": {"use_cache": False},
    "static cache": STATIC,
    "chunked prefill": {"prefill_chunk_size": 4},
    "prompt lookup": {"prompt_lookup_num_tokens": 3},
}


def all_ones(ids):
    return torch.ones_like(ids)


def require_equal(case, generate):
    for prompt, expected in zip(case.prompts, case.expected, strict=True):
        assert torch.equal(generate(prompt), expected)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_the_uncached_generation(case, mode):
    require_equal(
        case,
        lambda ids: case.model.generate(ids, attention_mask=all_ones(ids), **MODES[mode], **GREEDY),
    )


def test_no_mask_is_needed(case):
    require_equal(case, lambda ids: case.model.generate(ids, **GREEDY))


def test_an_assistant_changes_nothing(case):
    plain = filled(LlamaForCausalLM(llama_config()))
    assistants = (model_of("bipe_rope", layers=1, seed=5), plain)
    for ids, expected, assistant in zip(case.prompts, case.expected, assistants, strict=False):
        made = case.model.generate(ids, assistant_model=assistant, **GREEDY)
        assert torch.equal(made, expected)


def test_a_cache_is_continued(case):
    def halves(ids):
        cache = DynamicCache(config=case.model.config)
        for count in (4, NEW - 4):
            given = {"attention_mask": all_ones(ids), "past_key_values": cache}
            ids = case.model.generate(ids, **given, max_new_tokens=count, do_sample=False)
        return ids

    require_equal(case, halves)


@pytest.mark.parametrize("mode", ["dynamic cache", "static cache", "chunked prefill"])
def test_left_padding_changes_nothing(case, mode):
    ids, mask = case.batch()
    made = case.model.generate(ids, attention_mask=mask, **MODES[mode], **GREEDY)
    for row, expected in zip(made, case.expected, strict=True):
        assert torch.equal(row[-NEW:], expected[0, -NEW:])


def test_beams_do_not_depend_on_the_cache(case):
    ids, mask = case.batch()
    beams = {"num_beams": 3, "attention_mask": mask, **GREEDY}
    assert torch.equal(
        case.model.generate(ids, **beams), case.model.generate(ids, use_cache=False, **beams)
    )


def test_samples_do_not_depend_on_the_cache(case):
    ids, mask = case.batch()
    made = []
    for cached in (True, False):
        torch.manual_seed(3)
        made.append(
            case.model.generate(
                ids,
                attention_mask=mask,
                use_cache=cached,
                do_sample=True,
                num_return_sequences=2,
                max_new_tokens=NEW,
            )
        )
    assert torch.equal(*made)


@pytest.mark.parametrize("mode", ["dynamic cache", "chunked prefill", "prompt lookup"])
def test_marks_of_the_prompt_are_kept(case, mode):
    for prompt, marks, expected in zip(
        case.prompts, case.marks, case.expected_with_marks, strict=True
    ):
        made = case.model.generate(prompt, segment_marks=marks, **MODES[mode], **GREEDY)
        assert torch.equal(made, expected)


def test_beams_keep_the_marks_of_the_prompt(case):
    given = {"segment_marks": case.marks[1], "num_beams": 2, **GREEDY}
    assert torch.equal(
        case.model.generate(case.prompts[1], **given),
        case.model.generate(case.prompts[1], use_cache=False, **given),
    )


def test_an_assistant_without_segments_gets_no_marks(case):
    plain = filled(LlamaForCausalLM(llama_config()))
    made = case.model.generate(
        case.prompts[0], segment_marks=case.marks[0], assistant_model=plain, **GREEDY
    )
    assert torch.equal(made, case.expected_with_marks[0])


def test_the_last_token_sees_the_first(case):
    ids = case.prompts[1]
    other = ids.clone()
    other[0, 0] = ids[0, 0] % (VOCABULARY - 1) + 1
    marks = marks_by_table(ids)
    a, b = (case.model(x, segment_marks=marks, use_cache=False).logits[0, -1] for x in (ids, other))
    # Under x 96 slopes a token of an earlier segment counts for nothing.
    assert case.name == "bipe_alibi" or (a - b).abs().max() > 1e-6


def test_packed_equals_alone(case):
    first, second = case.prompts[:2]
    packed = torch.cat([first, second], 1)
    restarts = torch.cat([torch.arange(x.shape[1]) for x in (first, second)])[None]
    marks = torch.cat([marks_by_table(x) for x in (first, second)], 1)
    alone = torch.cat([case.model(x, use_cache=False).logits for x in (first, second)], 1)
    # By restarts of positions, by marks, and by both.
    quiet = marks.clone() & 2
    for given in (
        {"position_ids": restarts, "segment_marks": quiet},
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


def test_a_folder_gives_the_same_model(case, tmp_path):
    case.model.save_pretrained(tmp_path)
    read = type(case.model).from_pretrained(
        tmp_path, attn_implementation=case.model.config._attn_implementation
    )
    for ids in case.prompts:
        assert torch.equal(read(ids).logits, case.model(ids).logits)


def test_uncached_passes_see_marks():
    model, ids = model_of("bipe_rope"), torch.arange(1, 15)[None]
    assert not torch.equal(uncached(model, ids), uncached(model, ids, torch.zeros_like(ids).byte()))
