"""Read and write weights in other layouts: LLaMA and Qwen (Hugging Face), and the released BiPE.

All use the same names; BiPE adds the intra-segment table `model.embeds.0.weight`. Buffers of slopes
and frequencies are derived data and are ignored. Qwen 2 has qkv_bias="qkv", Qwen 3 qk_norm="both";
other choices of these, and both together, have no counterpart.

    rpe_type     encoding
    rope         RoPE                            alibi         ALiBi
    bipe_rope    Bilevel(Learned, RoPE)          bipe_alibi    Bilevel(Learned, ALiBi x 96)
"""

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from bipe.build import TARGET
from bipe.checkpoint import CheckpointError, load_weights
from bipe.decoder import Decoder, DecoderConfig
from bipe.extension.hugging_face import ORIGINAL, read_stretch, read_theta, write_stretch

ALIBI_MULTIPLIER = 96.0  # of the released BiPE-ALiBi
_ROPE, _LEARNED = "bipe.encodings.RoPE", "bipe.encodings.Learned"
_BILEVEL, _FLAT = "bipe.encodings.Bilevel", "bipe.encodings.Flat"
# Our names of sizes and options, and those of transformers.
KEYS = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_kv_head": "num_key_value_heads",
    "head_width": "head_dim",
    "mlp_width": "intermediate_size",
    "norm_eps": "rms_norm_eps",
    "init_std": "initializer_range",
    "tied_head": "tie_word_embeddings",
}
_DEFAULTS = {"norm_eps": 1e-6, "init_std": 0.02, "tied_head": False}
_SIZES = [KEYS[name] for name in ("vocab_size", "width", "mlp_width", "n_head", "n_layer")]
_RPE_TYPES = ("rope", "alibi", "bipe_rope", "bipe_alibi")
_WHOLE = [0.0, 1.0]  # of RoPE's part and pairs
_LOG_N = "bipe.extension.LogN"
INTRA_TABLE = "model.embeds.0.weight"
_OUTSIDE = {
    "scheme.intra.table.weight": INTRA_TABLE,
    "tokens.weight": "model.embed_tokens.weight",
    "norm.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
_IN_BLOCK = {
    "attention_norm": "input_layernorm",
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "attention.query_norm": "self_attn.q_norm",
    "attention.key_norm": "self_attn.k_norm",
    "mlp_norm": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj",
    "mlp.up": "mlp.up_proj",
    "mlp.down": "mlp.down_proj",
}
# Options of the decoder in the kinds of transformers; the first that fits is written.
_KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "qwen2": {"qkv_bias": "qkv"},
    "qwen3": {"qk_norm": "both"},
}
# Keys of models that compute otherwise, whatever they call themselves, and values that change
# nothing; None never does.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu", "swish"),
    "hidden_activation": ("silu", "swish"),
    "mlp_bias": (False,),
    "partial_rotary_factor": (1,),
    "logit_scale": (1,),
    "logits_scaling": (1,),
    "attention_multiplier": (),
    "embedding_multiplier": (1,),
    "residual_multiplier": (1,),
    "final_logit_softcapping": (),
    "attn_logit_softcapping": (),
    "query_pre_attn_scalar": (),
    "clip_qkv": (),
    "no_rope_layers": ([],),
    "num_local_experts": (0, 1),
    "num_experts": (0, 1),
    "quantization_config": (),
}
_BUFFER = re.compile(r"model\.layers\.\d+\.self_attn\.(alibi|rotary_emb\.inv_freq)")


def config_from_official(config: Mapping[str, Any], *, intra_length: int = 1024) -> DecoderConfig:
    """Read a released BiPE config.json, or a plain LLaMA one (without `rpe_type`: rope).

    `rope_scaling` or `rope_parameters` become the stretch of RoPE, unless `stretch` describes one
    of ours; under bipe_rope its lengths count segments. `log_scale` becomes LogN without a floor,
    of original length `train_scale`.
    intra_length: rows of the intra-segment table. Raises CheckpointError for values that our
    decoder lacks.
    """
    options = _options(config)
    head_width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    sizes = {ours: config.get(key, _DEFAULTS.get(ours)) for ours, key in KEYS.items()}
    encoding = _with_log_scale(_encoding(config, head_width, intra_length), config)
    return DecoderConfig(**sizes | options | {"head_width": head_width, "encoding": encoding})


def from_official(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Decoder:
    """Build a decoder from an official config and its weights, in their dtype."""
    rows = {"intra_length": len(state[INTRA_TABLE])} if INTRA_TABLE in state else {}
    model = Decoder(config_from_official(config, **rows))
    names = {theirs: ours for ours, theirs in _names(model).items()}
    unknown = sorted(k for k in state if k not in names and not _BUFFER.fullmatch(k))
    if unknown:
        raise CheckpointError(f"weights of an unknown layout: {unknown[:5]}")
    _require_weights(model, state)
    model.to(state["model.embed_tokens.weight"].dtype)
    load_weights(model, {names[k]: tensor for k, tensor in state.items() if k in names})
    return model


def to_official(model: Decoder) -> dict[str, Tensor]:
    """Return the weights of a model under their official names."""
    state = model.state_dict()
    return {theirs: state[ours] for ours, theirs in _names(model).items()}


def config_to_official(config: DecoderConfig, *, max_length: int) -> dict[str, Any]:
    """Return config.json of a model with RoPE or BiPE-RoPE, for transformers or the release.

    max_length: longest supported text, in tokens, unless a stretch of RoPE says it. Raises
    CheckpointError for a model without a counterpart.
    """
    encoding = dict(config.encoding)
    log_scale = _log_scale(encoding.get("far"))
    kind = "bipe_rope" if encoding.get(TARGET) == _BILEVEL else "rope"
    intra, rope = encoding.get("intra", {}), encoding.get("inter", encoding.get("encoding"))
    rope = dict(encoding if rope is None else rope)
    released = {TARGET: _LEARNED, "width": config.width, "length": intra.get("length")}
    odd = encoding.get(TARGET) not in (_ROPE, _FLAT, _BILEVEL) or rope.get("interleaved")
    odd = odd or any(list(rope.get(key) or _WHOLE) != _WHOLE for key in ("part", "pairs"))
    if rope.get(TARGET) != _ROPE or odd or (intra and dict(intra) != released):
        raise CheckpointError(f"the official layout has no name for this encoding: {encoding}")
    try:
        rotary = write_stretch(
            rope.get("stretch"), theta=rope.get("theta", 10000.0), head_width=config.head_width
        )
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    model_type = _model_type(config)
    longest = _supported(rotary, max_length) if kind == "rope" else max_length
    return {
        "architectures": [f"{model_type.capitalize()}ForCausalLM"],
        "model_type": model_type,
        "hidden_act": "silu",
        **{key: getattr(config, ours) for ours, key in KEYS.items()},
        "num_key_value_heads": config.kv_heads,
        "max_position_embeddings": longest,
        "rpe_type": kind,
        "rope_theta": rotary["rope_theta"],
        "rope_scaling": None if rotary["rope_type"] == "default" else rotary,
        "rope_parameters": rotary,
    } | log_scale


def _supported(rotary: dict[str, Any], max_length: int) -> int:
    """Return max_position_embeddings: the original length times the factor, or else `max_length`.

    For "dynamic", transformers takes it for the original length, and knows no other key for that.
    """
    if rotary["rope_type"] == "dynamic":
        return int(rotary.pop(ORIGINAL))
    return round(rotary[ORIGINAL] * rotary["factor"]) if ORIGINAL in rotary else max_length


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the decoder's options for the kind of a model; CheckpointError for another block."""
    kind = config.get("model_type")
    if kind is not None and kind not in _KINDS:
        raise CheckpointError(
            f"model_type must be one of {', '.join(_KINDS)}, was: {kind!r}, whose "
            "computation differs; bipe.hf.bilevel adds segments to any model of transformers"
        )
    missing = [key for key in _SIZES if not isinstance(config.get(key), int)]
    if missing:
        raise CheckpointError(f"{missing[0]} must be a whole number, was: {config.get(missing[0])}")
    for key, neutral in _NEUTRAL.items():
        if config.get(key) is not None and config[key] not in neutral:
            said = " or ".join(map(repr, neutral)) or "absent"
            raise CheckpointError(f"{key} must be {said} for this decoder, was: {config[key]!r}")
    windowed = config.get("use_sliding_window", kind not in ("qwen2", "qwen3"))
    others = sorted({*(config.get("layer_types") or ())} - {"full_attention"})
    if (config.get("sliding_window") and windowed) or others:
        seen = others[0] if others else f"sliding_window={config['sliding_window']}"
        raise CheckpointError(
            f"all layers must attend to all tokens, was: {seen}; if no text is longer than the "
            "window, set sliding_window to null and remove layer_types in config.json"
        )
    if config.get("attention_bias") and kind != "qwen2":
        raise CheckpointError(
            "attention_bias must be false, since the decoder has no bias of o_proj"
        )
    return _KINDS.get(str(kind), {})


def _require_weights(model: Decoder, state: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError unless a state has every weight of a model, in its shape."""
    weights = model.state_dict()
    for ours, theirs in _names(model).items():
        if theirs not in state and not (ours == "head.weight" and model.config.tied_head):
            raise CheckpointError(f"{theirs} is missing: are these all shards of the model?")
        expected = tuple(weights[ours].shape)
        if theirs in state and tuple(state[theirs].shape) != expected:
            raise CheckpointError(
                f"{theirs} must be {expected} according to the config, was: "
                f"{tuple(state[theirs].shape)}"
            )


def _model_type(config: DecoderConfig) -> str:
    """Return the kind of transformers that has the options of a decoder."""
    given = {"qkv_bias": config.qkv_bias, "qk_norm": config.qk_norm}
    options = {name: value for name, value in given.items() if value is not None}
    for name, kind_options in _KINDS.items():
        if kind_options == options:
            return name
    said = " and ".join(f"{name}={value}" for name, value in options.items())
    raise CheckpointError(f"the official layout does not support {said}")


def _names(model: Decoder) -> dict[str, str]:
    """Map our name of each weight to the official one."""
    names = {}
    for ours in model.state_dict():
        block = re.fullmatch(r"blocks\.(\d+)\.(.+)\.(weight|bias)", ours)
        if block and block[2] in _IN_BLOCK:
            names[ours] = f"model.layers.{block[1]}.{_IN_BLOCK[block[2]]}.{block[3]}"
        elif ours in _OUTSIDE:
            names[ours] = _OUTSIDE[ours]
        else:
            raise CheckpointError(f"the official layout has no weight for {ours!r}")
    return names


def _with_log_scale(encoding: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    if not config.get("log_scale"):
        return encoding
    length = config.get("train_scale")
    if not isinstance(length, int) or length < 2:
        raise CheckpointError(
            "train_scale, the tokens of a training row, must be at least 2 for log_scale, was: "
            f"{length}"
        )
    if encoding[TARGET] != _BILEVEL:
        encoding = {TARGET: _FLAT, "encoding": encoding}
    return encoding | {"far": {TARGET: _LOG_N, "original_length": length, "clip": False}}


def _log_scale(far: Mapping[str, Any] | None) -> dict[str, Any]:
    if far is None:
        return {}
    usual = {TARGET: _LOG_N, "clip": False, "unit": None}
    length = far.get("original_length")
    if {**usual, **far} != usual | {"original_length": length}:
        raise CheckpointError(f"the official layout has no name for a far method: {dict(far)}")
    return {"log_scale": True, "train_scale": length}


def _encoding(config: Mapping[str, Any], head_width: int, intra_length: int) -> dict[str, Any]:
    """Return the description of the encoding that a configuration names."""
    kind = config.get("rpe_type") or "rope"
    if kind not in _RPE_TYPES:
        raise CheckpointError(f"rpe_type must be one of {', '.join(_RPE_TYPES)}, was: {kind!r}")
    try:
        stretch = config.get("stretch") or read_stretch(config)
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    bilevel, alibi = kind.startswith("bipe"), kind.endswith("alibi")
    if stretch is not None and alibi:
        raise CheckpointError(f"{kind} has no rotary frequencies: remove rope_scaling")
    if alibi:
        node = {TARGET: "bipe.encodings.ALiBi", "n_head": config["num_attention_heads"]}
        node |= {"multiplier": ALIBI_MULTIPLIER} if bilevel else {}
    else:
        node = {TARGET: _ROPE, "head_width": head_width, "theta": read_theta(config)}
        node |= {} if stretch is None else {"stretch": stretch}
    if not bilevel:
        return node
    intra = {TARGET: _LEARNED, "width": config["hidden_size"], "length": intra_length}
    return {TARGET: _BILEVEL, "intra": intra, "inter": node}
