"""Tiny random models with transformers' interface, and the uncached generation they are held to."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pytest
import torch
import transformers
from torch import Tensor
from transformers import LlamaForCausalLM

from bipe.hf import BipeConfig, BipeForCausalLM, bilevel
from segmenters import IdTable

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

VOCABULARY, WIDTH, N_HEAD = 64, 32, 4
NEW = 8
SEPARATORS = range(3, 12)
TABLE = IdTable.of_separators(VOCABULARY, SEPARATORS)
PACKED_TABLE = TABLE.packed(size=VOCABULARY)
LENGTHS = (5, 12, 9)
YARN = {"_target_": "bipe.extension.YaRN", "factor": 4.0, "original_length": 8}
ENDS = {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}


def _described(name: str, **arguments):
    return {"_target_": f"bipe.encodings.{name}", **arguments}


ROPE = _described("RoPE", head_width=WIDTH // N_HEAD)
LEARNED = _described("Learned", width=WIDTH, length=16)
ENCODINGS = {
    "rope": ROPE,
    "bipe_rope": _described("Bilevel", intra=LEARNED, inter=ROPE),
    "alibi": _described("ALiBi", n_head=N_HEAD),
    "bipe_alibi": _described(
        "Bilevel", intra=LEARNED, inter=_described("ALiBi", n_head=N_HEAD, multiplier=96.0)
    ),
    "bipe_rope_yarn": _described("Bilevel", intra=LEARNED, inter={**ROPE, "stretch": YARN}),
}
# Our decoder with every scheme, and BiPE-RoPE on a stock class.
KINDS = (*ENCODINGS, "llama_bipe_rope", "llama_bipe_rope_yarn")
OLDEST = (("bipe_rope", "eager"), ("llama_bipe_rope", "sdpa"))  # run with the oldest, too


def filled(model, *, std: float = 0.35):
    """Give every matrix random values large enough for greedy choices to differ."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, std)
    return model.eval()


def llama_config(cls=transformers.LlamaConfig, **others):
    sizes = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": N_HEAD, "num_key_value_heads": 2}
    return cls(**sizes, max_position_embeddings=512, **ENDS, **others)


def model_of(
    kind: str,
    *,
    attention: str = "sdpa",
    layers: int = 2,
    seed: int = 0,
    vocab_size: int = VOCABULARY,
):
    torch.manual_seed(seed)
    table = {"segment_table": PACKED_TABLE}
    if kind.startswith("llama"):
        cls = bilevel(LlamaForCausalLM)
        stretch = YARN if kind.endswith("yarn") else None
        config = llama_config(cls.config_class, intra_length=16, stretch=stretch, **table)
        config.vocab_size = vocab_size
    else:
        cls = BipeForCausalLM
        sizes = {"vocab_size": vocab_size, "width": WIDTH, "n_head": N_HEAD, "n_kv_head": 2}
        sizes |= {"n_layer": 2, "mlp_width": 64, "encoding": ENCODINGS[kind]}
        config = BipeConfig(**sizes, **ENDS, **table)
    config.num_hidden_layers = layers
    config._attn_implementation = attention
    return filled(cls(config))


def marks_by_table(ids: Tensor, given: Tensor | None = None) -> Tensor:
    marks = torch.from_numpy(TABLE.marks(ids.numpy()))
    if given is not None:
        marks[:, : given.shape[1]] = given
    return marks


@torch.no_grad()
def uncached(model, prompt: Tensor, given: Tensor | None = None) -> Tensor:
    """Return the prompt and NEW tokens, each chosen after a full pass with the marks of all."""
    ids = prompt
    for _ in range(NEW):
        marks = marks_by_table(ids, given)
        logits = model(input_ids=ids, segment_marks=marks, use_cache=False).logits[:, -1]
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
    return ids


def marked(params: Iterable, chosen: Collection) -> list:
    """Return parameters of a test, those chosen marked to run with the oldest transformers."""
    mark = pytest.mark.oldest_transformers
    return [pytest.param(each, marks=mark if each in chosen else ()) for each in params]


@dataclass
class Case:
    """A model, prompts, and what uncached generation makes of them."""

    name: str
    model: transformers.PreTrainedModel
    prompts: list[Tensor]
    expected: list[Tensor]
    marks: list[Tensor]
    expected_with_marks: list[Tensor]

    def batch(self) -> tuple[Tensor, Tensor]:
        """Return all prompts padded on the left, and their mask."""
        width = max(LENGTHS)
        ids = torch.zeros(len(self.prompts), width, dtype=torch.long)
        for row, prompt in zip(ids, self.prompts, strict=True):
            row[width - prompt.shape[1] :] = prompt
        return ids, (ids > 0).long()


@pytest.fixture(
    scope="module",
    params=marked([(kind, attention) for kind in KINDS for attention in ("sdpa", "eager")], OLDEST),
    ids=lambda param: "-".join(param),
)
def case(request) -> Case:
    kind, attention = request.param
    model = model_of(kind, attention=attention)
    generator = torch.Generator().manual_seed(1)

    def drawn(high, length):
        return torch.randint(1, high, (1, length), generator=generator)

    prompts = [drawn(VOCABULARY, length) for length in LENGTHS]
    marks = [(drawn(3, length) - 1).byte() * 2 for length in LENGTHS]
    pairs = zip(prompts, marks, strict=True)
    return Case(
        name=kind,
        model=model,
        prompts=prompts,
        expected=[uncached(model, prompt) for prompt in prompts],
        marks=marks,
        expected_with_marks=[uncached(model, prompt, given) for prompt, given in pairs],
    )
