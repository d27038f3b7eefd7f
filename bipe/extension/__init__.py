"""Strategies for texts beyond the length of training, and functions that apply one to a model.

frequencies.py changes the frequencies of a rotation (`RoPE(stretch=...)`), distances.py
changes distances or leaves out far keys (`Flat(far=...)`, `Bilevel(far=...)`).
"""

from bipe.extension.distances import (
    Blockwise,
    Clip,
    DualChunk,
    LeakyReRoPE,
    LogN,
    ReRoPE,
    SelfExtend,
    Separators,
    Window,
)
from bipe.extension.extend import Extension, OriginalLength, Report, extend_config, original_length
from bipe.extension.frequencies import (
    DroPE,
    DynamicNTK,
    DynamicYaRN,
    Linear,
    Llama3,
    LongRoPE,
    NTKAware,
    NTKByParts,
    NTKMixed,
    YaRN,
)

__all__ = [
    "Blockwise",
    "Clip",
    "DroPE",
    "DualChunk",
    "DynamicNTK",
    "DynamicYaRN",
    "Extension",
    "LeakyReRoPE",
    "Linear",
    "Llama3",
    "LogN",
    "LongRoPE",
    "NTKAware",
    "NTKByParts",
    "NTKMixed",
    "OriginalLength",
    "ReRoPE",
    "Report",
    "SelfExtend",
    "Separators",
    "Window",
    "YaRN",
    "extend_config",
    "original_length",
]
