"""Several callers of one model and one tokenizer: each gets what it would get alone."""

import asyncio
import copy
import itertools
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from transformers import DataCollatorWithPadding, LogitsProcessor, pipeline

from segmenters import Sentences, TokenMarker
from tests.bipe.hf.conftest import (
    TEXTS,
    VOCABULARY,
    ids_of,
    marked,
    model_of,
    tokenizer_of,
)
from tests.bipe.hf.elsewhere import in_threads

KINDS = ("llama_bipe_rope", "bipe_rope")
PIECES = [bytes([32 + id]) for id in range(VOCABULARY)]


@pytest.fixture(autouse=True)
def often():
    """Let threads take turns much more often than Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module", params=marked(KINDS, KINDS))
def model(request):
    made = model_of(request.param)
    made.follow(TokenMarker(segmenter=Sentences(), pieces=PIECES))
    return made


def forwards(model):
    """Return calls of many shapes, with marks, without, padded, packed, cached, of the base."""
    calls = []
    for seed, (rows, length) in enumerate(itertools.product((1, 3), (5, 9, 17))):
        ids = ids_of(rows, length, seed=seed)
        marks = (ids % (2 + seed % 3) == 0).byte() * 2
        mask = torch.ones_like(ids)
        mask[0, : seed % 4] = 0
        restarts = torch.cat([torch.arange(4), torch.arange(length - 4)])[None].expand(rows, -1)
        for given in (
            {"segment_marks": marks},
            {"output_hidden_states": True},
            {"attention_mask": mask},
            {"position_ids": restarts, "use_cache": False},
        ):
            calls.append(lambda given=given, ids=ids: states(model(input_ids=ids, **given)))
        calls.append(lambda ids=ids: states(model.base_model(input_ids=ids)))
    return calls


@torch.no_grad()
def states(made):
    hidden = getattr(made, "hidden_states", None) or ()
    return [getattr(made, "logits", made[0]).detach(), *(each.detach() for each in hidden)]


def generations(model):
    """Return calls of generate with other rules, marks, lengths and strategies each."""
    given = ({}, {"segmentation": "exact"}, {"num_beams": 2}, {"prompt_lookup_num_tokens": 2})
    given = (*given, {"assistant_model": copy.deepcopy(model), "segmentation": "exact"})
    calls = []
    for seed in range(4):
        ids = ids_of(1, 6 + seed, seed=seed)
        for options in (*given, {"segment_marks": (ids % 3 == 0).byte() * 2}):
            options = {"max_new_tokens": 5 + seed, "do_sample": False, **options}
            calls.append(lambda ids=ids, options=options: [model.generate(ids, **options)])
    return calls


@pytest.mark.parametrize("calls_of", [forwards, generations], ids=lambda calls: calls.__name__)
@pytest.mark.slow
def test_calls_of_eight_threads_are_those_of_one(model, calls_of):
    calls = calls_of(model)
    rounds = {forwards: 28, generations: 2}[calls_of]  # 840 forwards, 48 generations
    assert in_threads(calls, rounds=rounds) == 0


def test_gradients_of_threads_are_those_of_one(model):
    """With activations computed again in the backward pass, which has threads of its own."""
    model = copy.deepcopy(model).train()
    name = "activation" if hasattr(model, "activation_checkpointing_enable") else "gradient"
    getattr(model, f"{name}_checkpointing_enable")()
    weights = [weight for weight in model.parameters() if weight.requires_grad]

    def call(seed):
        ids = ids_of(2, 6 + 3 * seed, seed=seed)
        loss = model(ids, labels=ids, use_cache=False).loss
        return [*torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)]

    assert in_threads([lambda seed=seed: call(seed) for seed in range(8)], rounds=4) == 0


def test_a_call_inside_of_a_call_changes_neither(model):
    ids, other = ids_of(2, 12, seed=1), ids_of(1, 7, seed=2)
    expected = states(model(ids)), states(model(other)), model.generate(ids, max_new_tokens=4)
    inner, depth = [], []

    def enter(*_):
        if not depth:
            depth.append(1)
            inner.append(states(model(other)))
            depth.pop()

    class Nested(LogitsProcessor):
        def __call__(self, ids, scores):
            model.generate(other, max_new_tokens=2, do_sample=False, segmentation="exact")
            return scores

    name = "layers" if hasattr(model.base_model, "layers") else "blocks"
    hook = getattr(model.base_model, name)[0].register_forward_pre_hook(enter)
    outer = states(model(ids))
    hook.remove()
    assert all(map(torch.equal, outer, expected[0]))
    assert all(map(torch.equal, inner[0], expected[1]))
    written = model.generate(ids, max_new_tokens=4, logits_processor=[Nested()])
    assert torch.equal(written, expected[2])


def test_calls_of_asyncio_are_those_of_one(model):
    calls = [*forwards(model)[::3], *generations(model)[::5]]
    expected = [call() for call in calls]

    async def all_of_them():
        return await asyncio.gather(*(asyncio.to_thread(call) for call in calls * 2))

    made = asyncio.run(all_of_them())
    for each, alone in zip(made, expected * 2, strict=True):
        assert all(map(torch.equal, each, alone))


@pytest.mark.oldest_transformers
@pytest.mark.parametrize("kind", ["llama_bipe_rope", "bipe_rope"])
def test_a_pipeline_and_a_tokenizer_of_several_threads(kind):
    tokenizer = tokenizer_of(pad_token="<eos>")
    model = model_of(kind, vocab_size=len(tokenizer))
    tokenizer.attach(model, TEXTS)
    write = pipeline("text-generation", model=model, tokenizer=tokenizer)
    options = {"max_new_tokens": 5, "do_sample": False, "return_full_text": False}

    def call(text, segmentation):
        return write(text, segmentation=segmentation, **options)[0]["generated_text"]

    pairs = [*itertools.product(TEXTS[:3], ("table", "exact"))] * 2
    expected = [call(*pair) for pair in pairs]
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(lambda pair: call(*pair), pairs)] == expected


def test_settings_of_a_tokenizer_are_those_of_the_call():
    """Each thread pads and truncates in its own way, as stock tokenizers confuse."""
    tokenizer = tokenizer_of()
    collate = DataCollatorWithPadding(tokenizer)

    def call(at):
        rows = TEXTS[at % 3 :]
        how = ({}, {"padding": True}, {"truncation": True, "max_length": 5 + at % 7})[at % 3]
        side = {"padding_side": ("left", "right")[at % 2]} if "padding" in how else {}
        made = tokenizer(rows, **how, **side)
        padded = collate([{"input_ids": row} for row in made["input_ids"]])
        return {**made, "padded": padded["input_ids"].tolist()}

    expected = [call(at) for at in range(24)]
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(call, [*range(24)] * 9)] == expected * 9
