"""BiPE inside Hugging Face transformers (the extra `hf`).

import bipe.hf                                       # registers all classes with Auto classes
model = AutoModelForCausalLM.from_pretrained(folder)
Model = bilevel(Qwen3ForCausalLM)                    # BiPE-RoPE on a stock class
"""

from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from bipe.hf.collator import DataCollatorWithSegments
from bipe.hf.decoder import BipeConfig, BipeForCausalLM
from bipe.hf.mixin import FAMILIES, bilevel, register_families
from bipe.hf.tokenizer import SegmentingTokenizer

__all__ = [
    "FAMILIES",
    "BipeConfig",
    "BipeForCausalLM",
    "DataCollatorWithSegments",
    "SegmentingTokenizer",
    "bilevel",
]

AutoConfig.register(BipeConfig.model_type, BipeConfig, exist_ok=True)
AutoModelForCausalLM.register(BipeConfig, BipeForCausalLM, exist_ok=True)
AutoTokenizer.register(BipeConfig, SegmentingTokenizer, exist_ok=True)
register_families()
