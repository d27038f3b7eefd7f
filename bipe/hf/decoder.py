"""The Decoder as a model of transformers, with any encoding, scheme and far method.

    BipeForCausalLM.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    BipeForCausalLM.of(decoder)

The cache is that of transformers; positions of all tokens come from `segment_marks`.
attn_implementation "sdpa" is the path "auto" (bipe/attention), "eager" the reference.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, ClassVar, no_type_check

import torch
from torch import Tensor, nn
from transformers import DynamicCache, GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast

from bipe.cache import Cache
from bipe.decoder import Decoder, DecoderConfig
from bipe.encodings import Encoding
from bipe.encodings.base import counts_length, reads_segments
from bipe.hf.generation import Segmented, cached
from bipe.layouts.official import KEYS
from bipe.layouts.portable import Handed, plain
from bipe.positions import Positions

_PATHS = {"sdpa": "auto", "eager": "eager", "flex_attention": "flex"}
_FIELDS = tuple(field.name for field in dataclasses.fields(DecoderConfig))


# A dataclass whose constructor takes any keyword: a checker of dataclasses would refuse that.
@no_type_check
class BipeConfig(Handed, PreTrainedConfig):
    """The fields of a DecoderConfig, under our names and those of transformers.

    segmenter: the description of the one whose segments the model was trained on. segmentation,
    segment_table: see generation.py. max_position_embeddings: tokens of a training row,
    times the factor of a stretch.
    """

    model_type: ClassVar[str] = "bipe"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]
    attribute_map: ClassVar[dict[str, str]] = {
        theirs: ours for ours, theirs in KEYS.items() if ours not in ("vocab_size", "norm_eps")
    }

    vocab_size: int = 256
    width: int = 64
    n_layer: int = 2
    n_head: int = 4
    mlp_width: int = 192
    encoding: dict[str, Any] | None = None
    n_kv_head: int | None = None
    tied_head: bool = False
    norm_eps: float = 1e-5
    init_std: float = 0.02
    head_width: int | None = None
    qk_norm: str | None = None
    qkv_bias: str | None = None
    max_position_embeddings: int = 1024
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    segmenter: dict[str, Any] | None = None
    segment_table: dict[str, Any] | None = None
    segmentation: str = "table"

    def __post_init__(self, **kwargs: Any) -> None:
        self.encoding = self.encoding or {"_target_": "bipe.encodings.NoPE"}
        if self.head_width is None:
            self.head_width = self.width // self.n_head
        if self.n_kv_head is None:
            self.n_kv_head = self.n_head
        super().__post_init__(**kwargs)

    @classmethod
    def of(cls, config: DecoderConfig, **others: Any) -> BipeConfig:
        """Return the configuration of a decoder; others: the remaining keys."""
        options = {name: getattr(config, name) for name in _FIELDS}
        options["encoding"] = json.loads(json.dumps(config.encoding, default=plain))
        return cls(**options, **others)

    def decoder_config(self) -> DecoderConfig:
        """Return the configuration of our decoder; ValueError if it is invalid."""
        return DecoderConfig(**{name: getattr(self, name) for name in _FIELDS})


class BipeForCausalLM(Segmented, PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """A Decoder with transformers' interface; `model` is the Decoder itself."""

    config_class = BipeConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block"]  # noqa: RUF012 (as transformers has it)
    _supports_sdpa = True
    _supports_flex_attn = True
    _skip_keys_device_placement = ["past_key_values"]  # noqa: RUF012
    _tied_weights_keys = {"model.head.weight": "model.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: BipeConfig) -> None:
        super().__init__(config)
        self._hold(Decoder(config.decoder_config()))
        self.gradient_checkpointing = False
        self.post_init()

    @classmethod
    def of(cls, decoder: Decoder, **others: Any) -> BipeForCausalLM:
        """Wrap a decoder without copying it. others: further keys of the config.

        Called by itself with ids, as TRL does, a decoder answers as its latest wrapper does.
        """
        with torch.device("meta"):
            model = cls(BipeConfig.of(decoder.config, **others))
        model._hold(decoder)
        model.config.dtype = decoder.tokens.weight.dtype
        return model.train(decoder.training)

    def _hold(self, decoder: Decoder) -> None:
        # On the decoder itself: TRL calls it past the forward of this class.
        self.model = decoder
        for former in decoder.__dict__.pop("_wrapper_hooks", ()):
            former.remove()
        decoder._wrapper_hooks = (  # type: ignore[assignment]
            decoder.register_forward_pre_hook(self._enter, with_kwargs=True),
            decoder.register_forward_hook(self._leave, with_kwargs=True),
        )

    def _enter(self, _: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Let the decoder take what this class takes, when it is called by itself."""
        if not any(isinstance(argument, Positions) for argument in (*args, *kwargs.values())):
            return (), self._inputs(*args, **kwargs)
        return args or (kwargs.pop("tokens"), kwargs.pop("at")), kwargs

    def _leave(self, _: Any, args: Any, kwargs: dict[str, Any], hidden: Tensor) -> Any:
        if args:  # `_enter` leaves some only where positions are given, as by our own code
            return hidden
        states, past = _states(kwargs, hidden), _past(kwargs)
        return BaseModelOutputWithPast(
            last_hidden_state=hidden, past_key_values=past, hidden_states=states
        )

    def _inputs(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        segment_marks: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        """Return the decoder's tokens, positions and cache, and where inputs of blocks go."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("exactly one of input_ids and inputs_embeds must be given")
        if output_attentions:
            raise ValueError("output_attentions must be False: attention weights are never stored")
        inputs = input_ids if input_ids is not None else inputs_embeds
        assert inputs is not None
        new, past = (inputs.shape[0], inputs.shape[1]), cached(past_key_values)
        at = self.positions(new, past, input_ids, attention_mask, position_ids, segment_marks)
        use_cache = self.config.use_cache and not self.training if use_cache is None else use_cache
        if past_key_values is None and use_cache and not counts_length(self.model.scheme):
            past_key_values = DynamicCache(config=self.config)
        cache = None if past_key_values is None else _Layers(past_key_values, at)
        self.model.attention = _PATHS[self.config._attn_implementation or "sdpa"]  # type: ignore[assignment]
        self.model.recompute = self.gradient_checkpointing and self.training
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        states: list[Tensor] | None = [] if output_hidden_states else None
        return {"tokens": inputs, "at": at[past:], "cache": cache, "inputs": states}

    @property
    def segmented(self) -> bool:
        return reads_segments(self.model.scheme)

    @property
    def _levels(self) -> int:  # type: ignore[override]
        return self.model.levels

    def get_input_embeddings(self) -> nn.Module:
        return self.model.tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.model.tokens = value  # type: ignore[assignment]

    def get_output_embeddings(self) -> nn.Module:
        return self.model.head

    def set_output_embeddings(self, new_embeddings: Any) -> None:
        self.model.head = new_embeddings

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Start what was not loaded as `Decoder.init_weights` does, from torch's generator."""
        fresh = {
            name: parameter
            for name, parameter in self.model.named_parameters()
            if not getattr(parameter, "_is_hf_initialized", False)
        }
        for module in self.model.modules():
            if isinstance(module, Encoding):
                # Loading makes models without values; constants are not among those it reads.
                module._apply(lambda tensor: tensor, recurse=False)
            elif isinstance(module, nn.RMSNorm) and any(module.weight is p for p in fresh.values()):
                nn.init.ones_(module.weight)
        if fresh:
            for name, values in self.model.drawn_weights(seed=int(torch.randint(2**31, ()))):
                if name in fresh:
                    fresh[name].copy_(values)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        segment_marks: Tensor | None = None,
        return_dict: bool | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return logits and the loss on labels; segment_marks: of all tokens so far (marks.py)."""
        inputs = self._inputs(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            segment_marks=segment_marks,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        hidden = self.model(**inputs)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.model.head(hidden[:, kept])
        loss = None
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs
            )
        output = CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=_past(inputs),
            hidden_states=_states(inputs, hidden),
        )
        whole = self.config.return_dict if return_dict is None else return_dict
        return output if whole else output.to_tuple()


def _past(given: dict[str, Any]) -> Any:
    """Return the cache of transformers in the inputs of a decoder."""
    return getattr(given["cache"], "layers", None)


def _states(given: dict[str, Any], hidden: Tensor) -> tuple[Tensor, ...] | None:
    """Return the inputs of all blocks and the last hidden states, if they are asked for."""
    return None if given["inputs"] is None else (*given["inputs"], hidden)


class _Layers(Cache):
    """A cache of transformers in the place of ours. at: positions of all tokens so far."""

    drops = False

    def __init__(self, layers: Any, at: Positions) -> None:
        batch, self.count = at.document.shape
        super().__init__(batch=batch, capacity=self.count)
        self.layers, self.at = layers, at

    def extend(self, at: Positions) -> Positions:
        return self.at

    def complete(self, at: Positions) -> Positions:
        raise ValueError(
            "the model has a dynamic stretch, whose frequencies depend on the length: cached keys "
            "would have those of another length; set use_cache=False, or use bipe's own Session"
        )

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self.layers.update(k, v, layer)
        # A static cache has room behind the tokens so far.
        return keys[:, :, : self.count], values[:, :, : self.count]
