"""Tiny random models with transformers' interface, and the uncached generation they are held to."""

import functools
from collections.abc import Collection, Iterable
from types import SimpleNamespace

import pytest
import tokenizers
import torch
import transformers
from torch import Tensor
from transformers import LlamaForCausalLM

from bipe.checkpoint import save_model
from bipe.hf import BipeConfig, BipeForCausalLM, SegmentingTokenizer, bilevel
from segmenters import IdTable, Sentences
from tests.bipe.conftest import bilevel as described
from tests.bipe.conftest import target
from tests.segmenters import texts

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


ROPE = target("RoPE", head_width=WIDTH // N_HEAD)
ALIBI, LEARNED = target("ALiBi", n_head=N_HEAD), target("Learned", width=WIDTH, length=16)
ENCODINGS = {
    "rope": ROPE,
    "bipe_rope": described(LEARNED, ROPE),
    "alibi": ALIBI,
    "bipe_alibi": described(LEARNED, {**ALIBI, "multiplier": 96.0}),
    "bipe_rope_yarn": described(LEARNED, {**ROPE, "stretch": YARN}),
}
# Our decoder with several schemes, and BiPE-RoPE on a stock class, by one path or the other.
CASES = (
    ("rope", "eager"),
    ("bipe_rope", "eager"),
    ("bipe_alibi", "sdpa"),
    ("llama_bipe_rope", "sdpa"),
)
OLDEST = (CASES[1], CASES[3])  # run with the oldest transformers, too


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


def model_of(kind: str, *, attention: str = "sdpa", layers: int = 2, vocab_size=VOCABULARY):
    torch.manual_seed(0)
    table = {"segment_table": PACKED_TABLE}
    if kind.startswith("llama"):
        cls = bilevel(LlamaForCausalLM)
        stretch = YARN if kind.endswith("yarn") else None
        config = llama_config(cls.config_class, intra_length=16, stretch=stretch, **table)
    else:
        cls = BipeForCausalLM
        sizes = {"width": WIDTH, "n_head": N_HEAD, "n_kv_head": 2, "mlp_width": 64}
        config = BipeConfig(**sizes, encoding=ENCODINGS[kind], **ENDS, **table)
    config.num_hidden_layers, config.vocab_size = layers, vocab_size
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


def ids_of(rows: int, length: int, *, seed: int = 0, low: int = 1) -> Tensor:
    return torch.randint(
        low, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed)
    )


TEXTS = [
    "He left. She (Mr. Smith's aunt) stayed! Why?\n\nNobody knew.  Then it rained.",
    "def f(x):\n    return x\n\nclass A:\n    pass\n",
    "Eins. \U0001f600 Zwei! \u4e2d\u6587\u3002\u4e0b\u4e00\u53e5\u3002",
    "",
]
SENTENCES = Sentences()


@functools.cache
def _trained(kind):
    corpus = [text for text in TEXTS if text.isascii()] * 4
    size = {"bytes": 323, "metaspace": 579}[kind]
    return texts.trained(kind, corpus, size=size, special=("<pad>", "<eos>", "<unk>")).to_str()


def trained(kind):
    return tokenizers.Tokenizer.from_str(_trained(kind))


def tokenizer_of(fast=None, segmenter=SENTENCES, **tokens):
    """A tokenizer with segments, of bytes unless another one is given."""
    tokens = {"pad_token": "<pad>", "eos_token": "<eos>"} | tokens
    fast = trained("bytes") if fast is None else fast
    return SegmentingTokenizer(tokenizer_object=fast, segmenter=segmenter, **tokens)


def run_at(folder):
    """Write a model with BiPE-RoPE that knows its tokenizer and segmenter; return its run."""
    tokenizer = tokenizer_of(pad_token="<eos>")
    decoder = filled(model_of("bipe_rope", vocab_size=len(tokenizer)).model)
    tokenizer.save_pretrained(folder / "saved")
    beside = {path.name: path.read_text() for path in (folder / "saved").iterdir()}
    save_model(decoder, folder / "run" / "model", notes={"row_length": 64}, beside=beside)
    return folder / "run"


@pytest.fixture
def run(tmp_path):
    return run_at(tmp_path)


@pytest.fixture(scope="module", params=marked(CASES, OLDEST), ids="-".join)
def case(request) -> SimpleNamespace:
    """A model, prompts with and without marks, and what uncached generation makes of them."""
    kind, attention = request.param
    model = model_of(kind, attention=attention)
    prompts = [ids_of(1, length, seed=length) for length in LENGTHS]
    marks = [(prompt % 3 == 0).byte() * 2 for prompt in prompts]
    padded = torch.zeros(len(prompts), max(LENGTHS), dtype=torch.long)  # on the left
    for row, prompt in zip(padded, prompts, strict=True):
        row[-prompt.shape[1] :] = prompt
    return SimpleNamespace(
        name=kind,
        model=model,
        prompts=prompts,
        expected=[uncached(model, prompt) for prompt in prompts],
        marks=marks,
        expected_with_marks=[uncached(model, *pair) for pair in zip(prompts, marks, strict=True)],
        batch={"inputs": padded, "attention_mask": (padded > 0).long()},
    )
