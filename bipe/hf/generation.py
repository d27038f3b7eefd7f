"""Generation of transformers with segments, for `bilevel` and `BipeForCausalLM`.

Each step derives the marks of all tokens so far from their ids, so that beams may be reordered and
candidates dropped without undoing anything. Marks of the prompt that are given
(`segment_marks`, as a SegmentingTokenizer makes them) stay; those of new tokens come from the id
table of the config, or exactly from a marker (`segmentation="exact"` after `model.follow(...)`).
"""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import UnbatchedClassifierFreeGuidanceLogitsProcessor
from transformers.utils import logging

from bipe.generation.session import Marker
from bipe.hf.marks import ExactMarks, IdFlags, positions_of
from bipe.positions import Positions

logger = logging.get_logger(__name__)
SEGMENTATIONS = ("table", "exact")


class Segmented:
    """A model of transformers whose `segmented` says whether its positions depend on segments."""

    # Marks change their number with each step: what a compiled static cache is made for is lost.
    _can_compile_fullgraph = False
    _source: Any = None  # a marker or a tokenizer, for the exact rule
    _flags: tuple[Any, IdFlags] | None = None
    _levels = 1  # of marks that the model reads

    @property
    def segmented(self) -> bool:
        raise NotImplementedError

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """Load a model as transformers does, and report the error rate of its id table."""
        loaded = super().from_pretrained(*args, **kwargs)  # type: ignore[misc]
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if model.segmented and model.config.segment_table is not None:
            logger.warning(str(model.id_flags()))
        return loaded

    def follow(self, marker: Any) -> None:
        """Use a marker or SegmentingTokenizer for new tokens (segmentation="exact")."""
        if isinstance(marker, Marker):
            self._source = marker
            return
        if not hasattr(marker, "marker"):
            raise TypeError(
                f"marker must be a Marker or a SegmentingTokenizer, was: {type(marker).__name__}"
            )
        if marker.levels < self._levels:
            raise ValueError(
                f"the model reads {self._levels} levels of units, but the tokenizer marks "
                f"{marker.levels}: give it segmenter=Levels(of=..., keep={self._levels})"
            )
        marker.marker()  # its error now, not in the middle of a text
        self._source = marker

    def _exact(self) -> ExactMarks:
        """Return the exact rule for one call; ids that a tokenizer got since are known."""
        if isinstance(self._source, Marker):
            return ExactMarks(self._source)
        tokenizer = self._source
        usual, segmenter = tokenizer.marker(), tokenizer.segmenter

        def of_row(ids: np.ndarray) -> Marker:
            try:
                return tokenizer.marker(tokenizer.decode(ids))
            except ValueError as reason:  # for one document, not for all
                logger.warning_once(f"a text is followed as prose: {reason}")
                return usual.copy()

        alike = segmenter.choose(text="") == segmenter
        return ExactMarks(usual, choose=None if alike else of_row)

    def id_flags(self, device: torch.device | str = "cpu") -> IdFlags:
        """Return the id table of the config, on a device; ValueError if it has none."""
        packed = self.config.segment_table  # type: ignore[attr-defined]
        if packed is None:
            raise ValueError(
                "the segments of these tokens are not known, since the model has no id table: "
                "call tokenizer.attach(model, texts) with a SegmentingTokenizer, or give "
                "segment_marks for all tokens so far"
            )
        device, (source, flags) = torch.device(device), self._flags or (None, None)
        count = self.config.vocab_size  # type: ignore[attr-defined]
        if flags is None or source is not packed or flags.flags.shape[1] < count:
            flags = IdFlags.read(packed)
            if (length := flags.flags.shape[1]) < count:
                logger.warning_once(
                    f"ids {length} to {count - 1} are newer than the id table of segments, which "
                    "takes them for special tokens, without text; for others, call "
                    "tokenizer.attach(model, texts) again"
                )
                flags = flags.with_ids(count)
        if flags.flags.device != device:
            flags = flags.to(device)
        self._flags = packed, flags  # read and copied once
        return flags

    def rule_of_marks(self, name: str | None, device: torch.device) -> IdFlags | ExactMarks:
        """Return the rule of a call: "table" or "exact"; None: the one of the config."""
        name = name or self.config.segmentation  # type: ignore[attr-defined]
        if name not in SEGMENTATIONS:
            choices = " or ".join(map(repr, SEGMENTATIONS))
            raise ValueError(f"segmentation must be {choices}, was: {name!r}")
        if name == "exact":
            if self._source is None:
                cure = "" if find_spec("bipe") else " (install bipe from a checkout)"
                raise ValueError(
                    "segmentation='exact' reads the text: call model.follow(tokenizer) with a "
                    f"SegmentingTokenizer of bipe.hf first{cure}"
                )
            return self._exact()
        if self._levels > 1:
            raise ValueError(
                "segmentation='table' has one level of segments, but the model reads "
                f"{self._levels}: set segmentation='exact' and call model.follow(tokenizer)"
            )
        return self.id_flags(device)

    def positions(
        self,
        new: tuple[int, int],
        past: int,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        position_ids: Tensor | None,
        segment_marks: Tensor | None,
    ) -> Positions:
        """Return the positions of all tokens so far; new: rows and new tokens per row."""
        batch, count = new
        total = past + count
        if attention_mask is not None and attention_mask.ndim != 2:
            raise ValueError(
                "attention_mask must be [batch, tokens so far], 0 for padding, since positions "
                f"are counted from it; it had {attention_mask.ndim} dimensions"
            )
        was: object = type(segment_marks).__name__
        if isinstance(segment_marks, Tensor):
            was = segment_marks.dtype
        if segment_marks is not None and (isinstance(was, str) or was == torch.bool):
            raise ValueError(
                "segment_marks must be a tensor of numbers: 1 where a document starts, + 2 where "
                f"a segment starts, was: {was}"
            )
        for name, value in (("attention_mask", attention_mask), ("segment_marks", segment_marks)):
            if value is not None and value.shape != (batch, total):
                raise ValueError(
                    f"{name} must be [{batch}, {total}], for all tokens so far: {past} in the "
                    f"cache and {count} new ones, was: {list(value.shape)}"
                )
        if segment_marks is None:
            segment_marks = self._marks_without(new, past, input_ids, attention_mask)
        if past or (position_ids is not None and position_ids.ndim != 2):
            position_ids = None  # of the new tokens alone, or of several axes
        return positions_of(
            segment_marks, mask=attention_mask, position_ids=position_ids, levels=self._levels
        )

    def _marks_without(
        self, new: tuple[int, int], past: int, ids: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        if not self.segmented:
            device = self.get_input_embeddings().weight.device  # type: ignore[attr-defined]
            return torch.zeros(new[0], past + new[1], dtype=torch.uint8, device=device)
        if past:
            raise ValueError(
                f"a call with {past} tokens in the cache needs segment_marks of all of them and of "
                "the new ones: the cache does not store them. generate() passes them; prefix "
                "tuning fills a cache with vectors that are not text, and is not supported with "
                "segments"
            )
        if ids is None:
            raise ValueError(
                "inputs_embeds have no ids to find segments by: give segment_marks "
                "(SegmentingTokenizer makes them)"
            )
        if self.training and not torch.compiler.is_compiling():  # type: ignore[attr-defined]
            logger.warning_once(
                "batches have no segment_marks: segments come from the id table instead of the "
                "segmenter; DataCollatorWithSegments of bipe.hf keeps them (other collators, such "
                "as DataCollatorWithFlattening and TRL's, drop them)"
            )
        return self.rule_of_marks(None, ids.device).marks(ids, mask=mask, whole=True)

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        next_sequence_length: int | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        segment_marks: Tensor | None = None,
        segmentation: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Add the marks of all tokens so far to what transformers prepares.

        segmentation: a name, or the rule that `generate` made of it for its call.
        """
        inputs = super().prepare_inputs_for_generation(  # type: ignore[misc]
            input_ids,
            next_sequence_length=next_sequence_length,
            past_key_values=past_key_values,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            **kwargs,
        )
        new = inputs["input_ids"] if inputs["input_ids"] is not None else inputs["inputs_embeds"]
        total = cached(past_key_values) + new.shape[1]
        # For a static cache the mask was made 4-D, from which padding cannot be read.
        inputs.pop("attention_mask", None)
        if attention_mask is not None:
            inputs["attention_mask"] = attention_mask[:, :total]
        if self.segmented:
            inputs["segment_marks"] = self._so_far(
                input_ids[:, :total], total, attention_mask, segment_marks, segmentation
            )
        return inputs

    def _so_far(
        self, ids: Tensor, total: int, mask: Tensor | None, given: Tensor | None, rule: Any
    ) -> Tensor:
        """Return the marks of all tokens so far: those given, then those of the rule."""
        length = 0 if given is None else given.shape[1]
        if given is not None and length >= total:
            return given[:, :total]
        if ids.shape[1] < total:
            raise ValueError(
                f"segments of {total} tokens are needed, but only {length} have segment_marks "
                f"and {ids.shape[1]} have ids: give the ids of the whole text, or all marks"
            )
        if not isinstance(rule, IdFlags | ExactMarks):
            rule = self.rule_of_marks(rule, ids.device)
        marks: Tensor = rule.marks(ids, mask=None if mask is None else mask[:, :total])
        if given is not None:
            marks[:, :length] = given
        return marks

    @torch.no_grad()
    def generate(self, inputs: Tensor | None = None, *rest: Any, **kwargs: Any) -> Any:
        """Generate as transformers does.

        segment_marks: of the prompt. segmentation: "table" or "exact", for this call.
        """
        ids = inputs if inputs is not None else kwargs.get("input_ids")
        if not self.segmented:
            kwargs.pop("segment_marks", None)
            kwargs.pop("segmentation", None)
        elif kwargs.get("inputs_embeds") is not None:
            raise ValueError(
                "generate needs input_ids, not inputs_embeds: the segments of new tokens "
                "depend on the tokens before them"
            )
        elif ids is not None:
            rule: Any = kwargs.get("segmentation") or self.config.segmentation  # type: ignore[attr-defined]
            if rule != "table" or kwargs.get("segment_marks") is None:
                rule = self.rule_of_marks(rule, ids.device)
            if kwargs.get("segment_marks") is None:
                mask = kwargs.get("attention_mask")
                kwargs["segment_marks"] = rule.marks(ids, mask=mask, whole=True)
            kwargs["segmentation"] = rule
        return super().generate(inputs, *rest, **kwargs)  # type: ignore[misc]

    def init_continuous_batching(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse it for models of ours and for those that read marks (also for generate_batch)."""
        if getattr(self.config, "bilevel", True):  # type: ignore[attr-defined]
            raise ValueError(
                "generate_batch and continuous batching have a cache of their own and pass no "
                "segment_marks: use generate(), which takes rows that are padded on the left"
            )
        return super().init_continuous_batching(*args, **kwargs)  # type: ignore[misc]

    def _get_logits_processor(self, *args: Any, **kwargs: Any) -> Any:
        """Let guidance_scale read its other text whole, with marks of its own."""
        processors = super()._get_logits_processor(*args, **kwargs)  # type: ignore[misc]
        given = (kwargs.get("model_kwargs") or {}).get("segmentation")
        for processor in processors if self.segmented else ():
            if isinstance(processor, UnbatchedClassifierFreeGuidanceLogitsProcessor):
                device = self.get_input_embeddings().weight.device  # type: ignore[attr-defined]
                names = {IdFlags: "table", ExactMarks: "exact"}  # of what generate() has resolved
                rule = self.rule_of_marks(names.get(type(given), given), device)
                processor.unconditional_context["use_cache"] = False
                processor.model = functools.partial(_guided, self, rule)
        return processors

    def _get_candidate_generator(self, *args: Any, **kwargs: Any) -> Any:
        """Keep our rule from the assistant, and marks from one that knows no segments."""
        early = kwargs["generation_config"].assistant_early_exit
        if early is not None and not hasattr(self.base_model.config, "num_hidden_layers"):  # type: ignore[attr-defined]
            raise ValueError(
                f"assistant_early_exit must be None, was: {early}: a Decoder has no exit before "
                "its last layer; pass assistant_model=, or prompt_lookup_num_tokens="
            )
        left_out = {"segmentation"}
        if not getattr(kwargs.get("assistant_model"), "segmented", False):
            left_out |= {"segment_marks"}
        given = kwargs["model_kwargs"]
        kwargs["model_kwargs"] = {k: v for k, v in given.items() if k not in left_out}
        return super()._get_candidate_generator(*args, **kwargs)  # type: ignore[misc]


def _guided(
    model: Any, rule: IdFlags | ExactMarks, ids: Tensor, *, attention_mask: Tensor, **kwargs: Any
) -> Any:
    """Call a model on the unconditional text of classifier-free guidance, with its marks."""
    marks = rule.marks(ids, mask=attention_mask)
    return model(ids, attention_mask=attention_mask, segment_marks=marks, **kwargs)


def cached(past_key_values: Any) -> int:
    """Return how many tokens a cache of transformers holds."""
    return 0 if past_key_values is None else int(past_key_values.get_seq_length())
