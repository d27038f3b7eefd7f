"""BiPE-RoPE on a class of transformers: rotary positions count segments, embeddings get a table.

    Model = bilevel(LlamaForCausalLM)
    model = Model.from_pretrained("a plain or a bilevel folder")
    model.config.bilevel = False       # the base model, bit for bit

The class keeps the weights and names of its base and adds the table `intra.weight`, which starts at
zero. It works on classes whose base model computes its rotation once, by `self.rotary_emb(x, ids)`:
Llama, Mistral, Qwen 2 and 3, Gemma 1 to 3, OLMo, Phi 3, GPT-NeoX and others (FAMILIES). Packed rows
have no mask and no cache, as transformers requires: documents begin where position_ids restart,
or where segment_marks say so.

Layers get ordinary positions, so sliding windows and masks count tokens as before.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import torch
import transformers
from torch import Tensor, nn
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
)
from transformers.conversion_mapping import (
    get_checkpoint_conversion_mapping,
    register_checkpoint_conversion_mapping,
)

from bipe.build import build
from bipe.encodings.rope import Stretch
from bipe.hf.generation import Segmented, cached
from bipe.hf.marks import may_be
from bipe.hf.tokenizer import SegmentingTokenizer
from bipe.layouts.portable import Handed
from bipe.positions import Positions, require_at_most

# The attribute of a tensor of one call: marks on what goes into the base model, and segments on
# position_ids, for the rotation.
_CARRIED = "_bipe_carried"


class BilevelConfig:
    """The keys that a bilevel configuration has besides those of its base.

    bilevel: false for the base model. intra_length: rows of the table, the last for all tokens
    beyond. intra_std: of its random start. stretch: description of an extension (bipe.extension),
    whose lengths count segments. segmentation, segment_table: see generation.py; segmenter: the
    description of the one whose segments the model was trained on.
    """

    bilevel: bool = True
    intra_length: int = 1024
    intra_std: float = 0.0
    stretch: dict[str, Any] | None = None
    segmenter: dict[str, Any] | None = None
    segment_table: dict[str, Any] | None = None
    segmentation: str = "table"


class IntraTable(nn.Embedding):
    """The vectors of positions in a segment; positions beyond the table use its last row."""

    def __init__(self, length: int, width: int, *, std: float) -> None:
        if length < 1:
            raise ValueError(f"intra_length must be at least 1, was: {length}")
        super().__init__(length, width)
        self.std = std

    def start(self) -> None:
        """Fill the table with its first values."""
        nn.init.normal_(self.weight, std=self.std)

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids.clamp(max=self.num_embeddings - 1))


class SegmentRotary(nn.Module):
    """The rotation of the base model at segment ids, with an optional stretch."""

    inner: Any

    def __init__(self, inner: nn.Module, *, stretch: Stretch | None) -> None:
        super().__init__()
        self.inner, self.stretch = inner, stretch
        # Before hooks of others may copy what they are given.
        self.register_forward_pre_hook(_at_segments, with_kwargs=True)
        if stretch is None:
            return
        if stretch.dynamic:
            raise ValueError(
                f"stretch: {type(stretch).__name__} depends on the length of the text, which "
                "grows while keys are cached: use a fixed one, or BipeForCausalLM"
            )
        if getattr(inner, "rope_type", None) != "default":
            raise ValueError(
                "stretch needs a model with one plain RoPE: this one has several, or its own "
                "rope_type; set rope_parameters.rope_type to 'default' first"
            )

    def apply_stretch(self) -> None:
        """Give the rotation its frequencies, from those that it started with."""
        if self.stretch is None:
            return
        theta = float(self.inner.config.rope_parameters["rope_theta"])
        plain = self.inner.original_inv_freq.double()
        slowed, factor = self.stretch.frequencies(plain, theta=theta)
        self.inner.inv_freq.copy_(slowed)
        self.inner.attention_scaling = float(factor)

    def forward(self, x: Tensor, position_ids: Tensor, *rest: Any, **kwargs: Any) -> Any:
        return self.inner(x, position_ids, *rest, **kwargs)


def _carrying(values: Tensor, carried: Tensor) -> Tensor:
    """Return a tensor of this call alone with another one as its attribute."""
    view = values.view_as(values)
    setattr(view, _CARRIED, carried)
    return view


def _at_segments(rotary: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Let the rotation have the segments that position_ids carry (`Bilevel._enter`)."""
    x, places, *rest = (*args, kwargs.pop("position_ids")) if "position_ids" in kwargs else args
    segments = getattr(places, _CARRIED, None)
    if segments is None and rotary.inner.config.bilevel:
        raise RuntimeError(
            "position_ids reached the rotation without their segments: between the base model and "
            "its rotation a hook has copied them, as one that moves them to another device does"
        )
    return (x, places if segments is None else segments, *rest), kwargs


class Bilevel(Segmented):
    """See `bilevel`: the methods of the classes that it makes, before those of their base.

    Nothing of a call is kept in the model: marks and segments travel with the arguments.
    """

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        config_class = self.config_class  # type: ignore[attr-defined]
        if not isinstance(config, config_class):
            name, given = type(self).__name__, type(config).__name__
            raise TypeError(
                f"config must be {config_class.__name__}, made by {name}.config_class, was: {given}"
            )
        super().__init__(config, *args, **kwargs)  # type: ignore[call-arg]
        base: Any = self.base_model  # type: ignore[attr-defined]
        rotation = _rotation_of(self)
        stretch = None if config.stretch is None else build(config.stretch, Stretch, path="stretch")
        base.rotary_emb = SegmentRotary(rotation, stretch=stretch)
        width = self.get_input_embeddings().weight.shape[1]  # type: ignore[attr-defined]
        self.intra = IntraTable(config.intra_length, width, std=config.intra_std)
        # On the base model itself: TRL calls it past the forward of this class.
        base.register_forward_pre_hook(self._enter, with_kwargs=True)
        self.post_init()  # type: ignore[attr-defined]

    @property
    def segmented(self) -> bool:
        return self.config.bilevel  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[Any, ...]:
        return _blank, (self.config_class.stock, False), self.__dict__  # type: ignore[attr-defined]

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Start what was not loaded; the frequencies of the base are made anew by it."""
        super().initialize_weights()  # type: ignore[misc]
        if not hasattr(self, "intra"):  # the base class is being made
            return
        self.base_model.rotary_emb.apply_stretch()  # type: ignore[attr-defined]
        if not getattr(self.intra.weight, "_is_hf_initialized", False):
            self.intra.start()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
        segment_marks: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return what the base class returns; segment_marks: of all tokens so far (marks.py)."""
        if segment_marks is not None:  # not every class hands on what it does not know
            if input_ids is not None:
                input_ids = _carrying(input_ids, segment_marks)
            elif inputs_embeds is not None:
                inputs_embeds = _carrying(inputs_embeds, segment_marks)
        return super().forward(  # type: ignore[misc]
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            labels=labels,
            logits_to_keep=logits_to_keep,
            **kwargs,
        )

    def _enter(self, base: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Give the base model embeddings with places in segments, and its rotation segments."""
        ids = args[0] if args else kwargs.pop("input_ids", None)
        x = kwargs.pop("inputs_embeds", None)
        marks = kwargs.pop("segment_marks", getattr(x if ids is None else ids, _CARRIED, None))
        if not self.segmented:
            return (), {**kwargs, "input_ids": ids, "inputs_embeds": x}
        if x is None:
            x = self.get_input_embeddings()(ids)  # type: ignore[attr-defined]
        mask, places = kwargs.get("attention_mask"), kwargs.get("position_ids")
        past = cached(kwargs.get("past_key_values"))
        at = self.positions((x.shape[0], x.shape[1]), past, ids, mask, places, marks)
        several = at.packed and may_be((at.document > 0).any())
        if several:
            _require_packable(type(self), at, kwargs)
        new = at[slice(-x.shape[1], None)]
        places = _carrying(new.token if several or places is None else places, new.inter)
        kwargs |= {"position_ids": places, "inputs_embeds": x + self.intra(new.intra).to(x.dtype)}
        return (), kwargs


def _blank(stock: Any, config: bool) -> Any:
    """Return a model or a configuration without its state: pickle cannot import their classes."""
    cls: Any = bilevel_class(stock)
    cls = cls.config_class if config else cls
    return cls.__new__(cls)


def _require_packable(cls: type[Any], at: Positions, kwargs: dict[str, Any]) -> None:
    """Refuse what would let the documents of a row see each other in transformers."""
    apart = any(base.__name__ in _APART for base in cls.__mro__)
    if torch.compiler.is_compiling():
        joins = [kwargs.get(key) for key in ("attention_mask", "past_key_values", "use_cache")]
        if not apart or any(join is not None and join is not False for join in joins):
            require_at_most(
                0, at.document, "a row has several documents", cure="give each its own row"
            )
        else:
            kwargs["use_cache"] = False
        return
    if not apart:
        raise ValueError(
            "rows contain several documents (position_ids restart, or segment_marks start one), "
            f"which {cls.__name__} is not known to keep apart: give each document its own row"
        )
    if any(kwargs.get(key) is not None for key in ("attention_mask", "past_key_values")):
        raise ValueError(
            "rows contain several documents (position_ids restart, or segment_marks start one): "
            "transformers keeps them apart only without attention_mask and without a cache; leave "
            "both out, or give each document its own row"
        )
    if kwargs.get("use_cache"):
        raise ValueError("use_cache must be False for rows of several documents")
    kwargs["use_cache"] = False


# Classes of transformers (5.23) that bilevel was tested on.
FAMILIES = (
    *("Llama", "Mistral", "Ministral", "Ministral3", "Qwen2", "Qwen3", "SmolLM3", "Olmo", "Olmo2"),
    *("Olmo3", "Gemma", "Gemma2", "Gemma3", "Granite", "Phi3", "GPTNeoX", "NanoChat", "Cohere"),
    *("Cohere2", "GptOss", "Starcoder2", "StableLm", "Apertus", "Glm", "Glm4", "Exaone4", "Helium"),
    *("Arcee", "SeedOss"),
)
# Those that keep the documents of a row apart; GPT-OSS does not, with or without bipe.
_APART = tuple(f"{name}ForCausalLM" for name in FAMILIES if name != "GptOss")


@functools.cache
def bilevel_class(cls: type[Any]) -> type[Any]:
    """Return a class of transformers with BiPE-RoPE, which no Auto class knows."""
    base = cls.config_class
    namespace: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": f"{base.__name__} with the keys of BilevelConfig.",
        "__annotations__": {"model_type": ClassVar[str], **BilevelConfig.__annotations__},
        "model_type": f"bipe_{base.model_type}",
        "stock": cls,
        "__reduce__": lambda self: (_blank, (cls, True), self.__dict__),
    }
    namespace |= {key: getattr(BilevelConfig, key) for key in BilevelConfig.__annotations__}
    config = type(f"Bipe{base.__name__}", (Handed, base), namespace)
    name = f"Bipe{cls.__name__}"
    # transformers renames weights while it reads and writes files, by the name of the class.
    if renamed := get_checkpoint_conversion_mapping(cls.__name__):
        register_checkpoint_conversion_mapping(name, renamed, overwrite=True)
    model_namespace = {"__module__": __name__, "__doc__": cls.__doc__, "config_class": config}
    return type(name, (Bilevel, cls), model_namespace)


def bilevel(cls: type[Any]) -> type[Any]:
    """Return a class of transformers with BiPE-RoPE, and register it with the Auto classes.

    Its configuration has the model type bipe_... . The Auto classes go on with the stock class of
    a model type if cls is another one, such as a subclass: use its own from_pretrained.
    """
    _require_fit(cls)
    model_class = bilevel_class(cls)  # type: ignore[arg-type]
    config = model_class.config_class
    usual, kind = MODEL_FOR_CAUSAL_LM_MAPPING.get(cls.config_class, cls), config.model_type
    if usual is not cls or (kind in CONFIG_MAPPING and CONFIG_MAPPING[kind] is not config):
        return model_class
    AutoConfig.register(config.model_type, config, exist_ok=True)
    AutoModelForCausalLM.register(config, model_class, exist_ok=True)
    AutoTokenizer.register(config, SegmentingTokenizer, exist_ok=True)
    return model_class


def _require_fit(cls: Any) -> None:
    """Raise TypeError or ValueError for what bilevel cannot change."""
    if not isinstance(cls, type) or getattr(cls, "config_class", None) is None:
        said = cls.__name__ if isinstance(cls, type) else f"an object of {type(cls).__name__}"
        raise TypeError(f"cls must be a class of models, such as LlamaForCausalLM, was: {said}")
    model: Any = cls
    names = [base.__name__ for base in model.__mro__]
    if issubclass(cls, Segmented) or not any(name.endswith("ForCausalLM") for name in names):
        raise TypeError(
            "cls must be a stock class ...ForCausalLM or a subclass of one, such as "
            f"LlamaForCausalLM, was: {cls.__name__}"
        )
    tested = set(names) & {f"{name}ForCausalLM" for name in FAMILIES}
    if not tested and cls.__module__.startswith("transformers."):
        try:
            with torch.device("meta"):
                usual = model(model.config_class())
        except Exception:  # some have no usual configuration: the first model is looked at
            return
        _rotation_of(usual)


def _rotation_of(model: Any) -> nn.Module:
    """Return the rotation of a base model; ValueError if it has none."""
    rotation = getattr(model.base_model, "rotary_emb", None)
    if not isinstance(rotation, nn.Module):
        raise ValueError(
            f"{type(model).__name__} does not compute its rotation once, by "
            "base_model.rotary_emb: bilevel cannot reach it"
        )
    return rotation


def register_families() -> None:
    """Register the bilevel forms of all FAMILIES that the installed transformers has."""
    for name in FAMILIES:
        cls = getattr(transformers, f"{name}ForCausalLM", None)
        if cls is not None:
            bilevel(cls)
