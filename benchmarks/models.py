"""Language models of one size, ours and those of peers, for the benchmarks to run.

Each builder returns a module's forward pass to a loss, ``loss(tokens)``, and its parameters. Peers
are imported where they are built and are no dependencies: `pip install transformers litgpt
x-transformers`; the released BiPE code is found by the path of a checkout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from torch import Tensor, nn

from bipe import Decoder, DecoderConfig, Positions
from bipe.loss import summed_cross_entropy
from train.config import register_resolvers

SEGMENT = 25  # tokens
BIPE = ("BiPE-RoPE", "BiPE-ALiBi")
Loss = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Size:
    """The shape of a model and of its rows."""

    vocab: int = 32_000
    width: int = 256
    layers: int = 6
    heads: int = 4
    mlp: int = 1024
    time: int = 1024
    batch: int = 4

    @property
    def matrix_parameters(self) -> int:
        """Parameters that multiply every token: blocks and head."""
        block = 4 * self.width**2 + 3 * self.width * self.mlp
        return self.layers * block + self.vocab * self.width

    @property
    def flops(self) -> float:
        """Of a training step: 6 a parameter and token, and causal attention (2204.02311, B)."""
        tokens = self.batch * self.time
        return tokens * (6 * self.matrix_parameters + 6 * self.layers * self.width * self.time)


def described(name: str, row_length: int, **sizes: int) -> dict[str, Any]:
    """Return the description of an encoding of conf/encoding in a model of these sizes."""
    register_resolvers()
    words = [f"+encoding={name}", f"+row_length={row_length}"]
    words += [f"+model.{key}={value}" for key, value in sizes.items()]
    with initialize_config_module("conf", version_base=None):
        made: Any = OmegaConf.to_container(compose(overrides=words), resolve=True)
    return made["encoding"]


def encodings(size: Size) -> dict[str, Any]:
    """Descriptions of our encodings."""
    rope = {"_target_": "bipe.encodings.RoPE", "head_width": size.width // size.heads}
    alibi = {"_target_": "bipe.encodings.ALiBi", "n_head": size.heads}
    learned = {"_target_": "bipe.encodings.Learned", "width": size.width, "length": size.time}
    bilevel = {"_target_": "bipe.encodings.Bilevel", "intra": learned}
    return {
        "RoPE": rope,
        "ALiBi": alibi,
        "BiPE-RoPE": {**bilevel, "inter": rope},
        "BiPE-ALiBi": {**bilevel, "inter": {**alibi, "multiplier": 96.0}},
    }


def marks_of(tokens: Tensor) -> Tensor:
    """Segments of SEGMENT tokens on average, at random but for the same tokens the same."""
    return ((tokens % SEGMENT == 0).to(torch.uint8) << 1).to(tokens.device)


def decoder(size: Size, encoding: str) -> Decoder:
    config = DecoderConfig(
        vocab_size=size.vocab,
        width=size.width,
        n_layer=size.layers,
        n_head=size.heads,
        mlp_width=size.mlp,
        encoding=encodings(size)[encoding],
    )
    model = Decoder(config)
    model.init_weights(seed=0)
    return model


def ours(size: Size, encoding: str, *, compiled: bool, device: str) -> tuple[Loss, nn.Module]:
    model = decoder(size, encoding).to(device)
    if compiled:
        for block in model.blocks:
            block.compile()

    def loss(tokens: Tensor) -> Tensor:
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        at = Positions.from_marks(marks_of(inputs), packed=False)
        hidden = model(inputs, at)
        total = summed_cross_entropy(hidden.flatten(0, 1), model.head.weight, targets.flatten())
        return total / targets.numel()

    return loss, model


def litgpt(size: Size, *, compiled: bool, device: str) -> tuple[Loss, nn.Module]:
    from litgpt import GPT, Config

    config = Config(
        block_size=size.time,
        padded_vocab_size=size.vocab,
        vocab_size=size.vocab,
        n_layer=size.layers,
        n_head=size.heads,
        n_embd=size.width,
        intermediate_size=size.mlp,
        rotary_percentage=1.0,
        parallel_residual=False,
        bias=False,
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMLP",
    )
    model = GPT(config).to(device)
    run = torch.compile(model) if compiled else model
    return _logits_loss(run), model


def llama(size: Size, length: int, **others: Any) -> Any:
    """Return Llama of transformers for texts of a length. others: keys of its configuration."""
    import transformers

    of_llama: Any = transformers.LlamaConfig  # with keys of every configuration
    config = of_llama(
        vocab_size=size.vocab,
        hidden_size=size.width,
        intermediate_size=size.mlp,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        max_position_embeddings=length,
        attn_implementation="sdpa",
        **others,
    )
    return transformers.LlamaForCausalLM(config)


def hugging_face(size: Size, *, compiled: bool, device: str) -> tuple[Loss, nn.Module]:
    model = llama(size, size.time).to(device)
    run = torch.compile(model) if compiled else model
    return _logits_loss(lambda tokens: run(tokens, use_cache=False).logits), model


def x_transformers(size: Size, *, compiled: bool, device: str) -> tuple[Loss, nn.Module]:
    from x_transformers import Decoder as Stack
    from x_transformers import TransformerWrapper

    stack = Stack(
        dim=size.width,
        depth=size.layers,
        heads=size.heads,
        attn_dim_head=size.width // size.heads,
        attn_flash=True,
        rotary_pos_emb=True,
        use_rmsnorm=True,
        ff_glu=True,
        ff_swish=True,
        ff_no_bias=True,
        ff_mult=size.mlp / size.width,
    )
    model = TransformerWrapper(
        num_tokens=size.vocab, max_seq_len=size.time, attn_layers=stack, use_abs_pos_emb=False
    ).to(device)
    return _logits_loss(torch.compile(model) if compiled else model), model


def released(size: Size, kind: str, path: Path, *, device: str) -> tuple[Loss, nn.Module]:
    """Return the released BiPE code; it needs the transformers of its time (4.31 to 4.40)."""
    sys.path.insert(0, str(path))
    from importlib import import_module

    room = import_module(f"my_modeling_llama_{kind}")
    config = import_module("config_llama").MyLlamaConfig(
        vocab_size=size.vocab,
        hidden_size=size.width,
        intermediate_size=size.mlp,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        max_position_embeddings=size.time,
        rms_norm_eps=1e-5,
        rope_scaling=None,
        use_cache=False,
        pad_token_id=0,
    )
    config.rpe_type, config.train_scale, config.log_scale = kind, size.time, False
    model = room.MyLlamaForCausalLM(config).to(device)

    def loss(tokens: Tensor) -> Tensor:
        return model(tokens[:, :-1], labels=tokens[:, :-1]).loss

    return loss, model


def _logits_loss(logits_of: Callable[[Tensor], Tensor]) -> Loss:
    def loss(tokens: Tensor) -> Tensor:
        logits = logits_of(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    return loss
