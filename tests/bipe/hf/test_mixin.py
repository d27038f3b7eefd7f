"""bilevel: BiPE-RoPE on the classes of transformers; off it is the base, on it obeys the laws."""

import pytest
import torch
import transformers

from bipe.hf import FAMILIES, bilevel
from tests.bipe.hf.conftest import (
    ENDS,
    N_HEAD,
    PACKED_TABLE,
    VOCABULARY,
    WIDTH,
    YARN,
    filled,
    ids_of,
    llama_config,
    marked,
    marks_by_table,
    model_of,
)

# Without key and value heads, or a head width, of their own.
OWN_HEADS = ("GPTNeoX",)
# The base mixes the documents of a row (measured with transformers 5.23).
NOT_PACKED = ("GptOss",)


def family(name, **keys):
    """Return a random tiny model of a family, and its bilevel form with the same weights."""
    cls = getattr(transformers, f"{name}ForCausalLM")
    sizes = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64, **ENDS}
    sizes |= {"num_hidden_layers": 3, "num_attention_heads": N_HEAD, "max_position_embeddings": 512}
    if name not in OWN_HEADS:
        sizes |= {"num_key_value_heads": 2, "head_dim": WIDTH // N_HEAD}
    if name == "GptOss":
        sizes |= {"num_local_experts": 2, "num_experts_per_tok": 1}
    made = bilevel(cls)
    torch.manual_seed(0)
    base = filled(cls(cls.config_class(**sizes)), std=0.3)
    config = made.config_class(**sizes, **keys, intra_length=16, segment_table=PACKED_TABLE)
    model = made(config).eval()
    left_out = model.load_state_dict(base.state_dict(), strict=False)
    assert left_out == (["intra.weight"], [])
    return base, model


@pytest.fixture(scope="module", params=marked(FAMILIES, ("Qwen3", "Gemma3")))
def pair(request):
    base, model = family(request.param)
    ids = ids_of(2, 24, low=12)
    ids[:, 5::6] = 4  # ends of segments
    return request.param, base, model, ids


def test_off_is_the_base_bit_for_bit(pair):
    _, base, model, ids = pair
    model.config.bilevel = False
    marks = marks_by_table(ids)
    off = model(input_ids=ids, segment_marks=marks).logits
    generated = model.generate(ids[:1], max_new_tokens=3, do_sample=False, segment_marks=marks[:1])
    model.config.bilevel = True
    assert torch.equal(off, base(input_ids=ids).logits)
    assert torch.equal(generated, base.generate(ids[:1], max_new_tokens=3, do_sample=False))
    on = model(input_ids=ids, segment_marks=marks).logits
    assert (on - off).abs().max() > 0.01


def test_the_folder_of_a_stock_model_is_read_whole(pair, tmp_path):
    _, base, model, ids = pair
    base.save_pretrained(tmp_path)
    read = type(model).from_pretrained(tmp_path, intra_length=16)
    assert read.config.model_type == model.config.model_type  # without, transformers warns
    assert read.intra.weight.shape == (16, WIDTH) and not read.intra.weight.any()
    read.config.bilevel = False
    assert torch.equal(read(input_ids=ids).logits, base(input_ids=ids).logits)


def test_one_segment_with_a_table_of_zeros_rotates_by_zero(pair):
    _, base, model, ids = pair
    marks, zeros = torch.zeros_like(ids), torch.zeros_like(ids)
    # Positions that stand still would be packed documents without a mask.
    whole = base(input_ids=ids, position_ids=zeros, attention_mask=torch.ones_like(ids)).logits
    with torch.no_grad():
        before = model.intra.weight.clone()
        model.intra.weight.zero_()
        made = model(input_ids=ids, segment_marks=marks).logits
        model.intra.weight.copy_(before)
    torch.testing.assert_close(made, whole, atol=1e-4, rtol=1e-4)


def test_cached_is_uncached(pair):
    _, _, model, ids = pair
    torch.nn.init.normal_(model.intra.weight, std=0.3)
    given = {"max_new_tokens": 6, "do_sample": False}
    prompt = ids[:1, :13]
    expected = model.generate(prompt, use_cache=False, **given)
    assert torch.equal(model.generate(prompt, **given), expected)
    static = {"cache_implementation": "static", "disable_compile": True}
    assert torch.equal(model.generate(prompt, **static, **given), expected)


def test_packed_is_alone(pair):
    name, _, model, ids = pair
    if name in NOT_PACKED:
        with pytest.raises(ValueError, match="give each document its own row"):
            model(ids, segment_marks=torch.eye(2, 24).byte(), use_cache=False)
        return
    rows = ids[:1, :11], ids[1:, :17]
    packed, restarts = torch.cat(rows, 1), torch.cat([torch.arange(11), torch.arange(17)])[None]
    marks = torch.cat([marks_by_table(row) for row in rows], 1)
    alone = torch.cat([model(input_ids=row, use_cache=False).logits for row in rows], 1)
    # By restarts of positions, by marks, and by both.
    for given in (
        {"position_ids": restarts},
        {"segment_marks": marks},
        {"position_ids": restarts, "segment_marks": marks & 2},
    ):
        made = model(input_ids=packed, use_cache=False, **given).logits
        torch.testing.assert_close(made, alone, atol=2e-5, rtol=1e-5)


@pytest.mark.usefixtures("unchecked_types")
def test_what_cannot_be_is_refused():
    cls = bilevel(transformers.LlamaForCausalLM)
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    for keys, reason in (
        ({"stretch": YARN | {"_target_": "bipe.extension.DynamicNTK"}}, "depends on the length"),
        ({"stretch": {"_target_": "os.system"}}, "must start with"),
        ({"stretch": YARN, "rope_parameters": scaled}, "one plain RoPE"),
    ):
        with pytest.raises(ValueError, match=reason):
            cls(llama_config(cls.config_class, **keys))
    config = llama_config(transformers.LlamaConfig)
    for wrong in (config, transformers.LlamaConfig, "LlamaForCausalLM"):
        with pytest.raises(TypeError, match=r"must be a class of models, .* was: "):
            bilevel(wrong)
    with pytest.raises(TypeError, match=r"by BipeLlamaForCausalLM\.config_class, was: Llama"):
        cls(config)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llama_bipe_rope", "bipe_rope", "bipe_alibi"])
def test_the_base_model_called_by_itself_reads_segments(kind):
    """As TRL does, which computes the loss from its hidden states."""
    model = model_of(kind)
    ids = ids_of(2, 20)
    marks = (torch.arange(20) % 7 == 0).byte().expand(2, 20) * 2
    for given in ({}, {"segment_marks": marks}):
        hidden = model.base_model(input_ids=ids, **given).last_hidden_state
        head = model.get_output_embeddings()
        assert torch.equal(head(hidden), model(input_ids=ids, **given).logits)
    assert not torch.equal(model(ids).logits, model(ids, segment_marks=marks).logits)
