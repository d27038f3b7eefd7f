"""BiPE inside Hugging Face transformers (the extra `hf`).

import bipe.hf                                       # registers all classes with Auto classes
model = AutoModelForCausalLM.from_pretrained(folder)
Model = bilevel(Qwen3ForCausalLM)                    # BiPE-RoPE on a stock class
"""

from transformers import AutoConfig, AutoModelForCausalLM

from bipe.hf.decoder import BipeConfig, BipeForCausalLM
from bipe.hf.mixin import FAMILIES, bilevel, register_families

__all__ = ["FAMILIES", "BipeConfig", "BipeForCausalLM", "bilevel"]

AutoConfig.register(BipeConfig.model_type, BipeConfig, exist_ok=True)
AutoModelForCausalLM.register(BipeConfig, BipeForCausalLM, exist_ok=True)
register_families()
