"""Our models in lm-evaluation-harness (the extra `lm-eval`), as its model type `bipe`.

    bipe lm-eval FOLDER --tasks hellaswag --batch_size 8

Contexts and continuations are joined and marked as one text, by the segmenter of the tokenizer; by
the id table of the config if that segmenter must read further than to the next token.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval.__main__ import cli_evaluate
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM

from bipe.hf.tokenizer import FILE, SegmentingTokenizer, read_segmenter

logger = logging.getLogger(__name__)
_TOO_LONG = "sequence-length-is-longer-than-the-specified-maximum"


@register_model("bipe")
class BipeLM(HFLM):
    """lm-eval's model of transformers, with the segments that our tokenizer finds.

    Other models, and tokenizers without a segmenter, are as under `hf`.
    """

    add_bos_token: bool | None

    def __init__(self, pretrained: Any, *, allowed: Sequence[str] = (), **kwargs: Any) -> None:
        """Load a folder; allowed: prefixes of the user's own segmenters, as of `bipe.build`."""
        if allowed:
            own = read_segmenter(Path(pretrained) / FILE, allowed=tuple(allowed))
            kwargs["tokenizer"] = SegmentingTokenizer.from_pretrained(pretrained, segmenter=own)
        super().__init__(pretrained, **kwargs)
        self.tokenizer.deprecation_warnings[_TOO_LONG] = True  # longer texts are what is measured
        tokenizer, model = self.tokenizer, self.model
        known = isinstance(tokenizer, SegmentingTokenizer) and tokenizer.segmenter is not None
        if not known or not getattr(model, "segmented", False):
            return
        try:
            model.follow(tokenizer)
        except ValueError as reason:
            logger.warning("segments come from the id table, not from the segmenter: %s", reason)
        else:
            model.config.segmentation = "exact"

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any:
        # lm-eval begins each text with the BOS token itself, also where the tokenizer does.
        wish, self.add_bos_token = self.add_bos_token, False
        try:
            return super().loglikelihood_rolling(requests, disable_tqdm)
        finally:
            self.add_bos_token = wish


def run(words: Sequence[str]) -> None:
    """Run lm-eval's command line on its words; our classes and the model type are registered."""
    before, sys.argv = sys.argv, ["bipe lm-eval", *words]
    try:
        cli_evaluate()
    finally:
        sys.argv = before
