"""Strategies for texts longer than in training, and functions that apply one to a model.

frequencies.py changes the frequencies of a rotation (`RoPE(stretch=...)`), distances.py changes
distances or leaves out far keys (`Flat(far=...)`, `Bilevel(far=...)`), retrofit.py makes flat RoPE
an encoding of segments.
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
from bipe.extension.extend import (
    STRATEGY,
    Extension,
    OriginalLength,
    Report,
    Unrecorded,
    extend_config,
    original_length,
)
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
from bipe.extension.retrofit import Gated, Homotopy, Retrofit, Split, Swap

__all__ = [
    "STRATEGY",
    "Blockwise",
    "Clip",
    "DroPE",
    "DualChunk",
    "DynamicNTK",
    "DynamicYaRN",
    "Extension",
    "Gated",
    "Homotopy",
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
    "Retrofit",
    "SelfExtend",
    "Separators",
    "Split",
    "Swap",
    "Unrecorded",
    "Window",
    "YaRN",
    "extend_config",
    "original_length",
]
