"""Context extension of rotary frequencies: one strategy a file, base.py says what one is."""

from bipe.stretch.base import Stretch
from bipe.stretch.drope import DroPE
from bipe.stretch.dynamic_ntk import DynamicNTK
from bipe.stretch.dynamic_yarn import DynamicYaRN
from bipe.stretch.linear import Linear
from bipe.stretch.llama3 import Llama3
from bipe.stretch.longrope import LongRoPE
from bipe.stretch.ntk_aware import NTKAware
from bipe.stretch.ntk_by_parts import NTKByParts
from bipe.stretch.ntk_mixed import NTKMixed
from bipe.stretch.yarn import YaRN

__all__ = [
    "DroPE",
    "DynamicNTK",
    "DynamicYaRN",
    "Linear",
    "Llama3",
    "LongRoPE",
    "NTKAware",
    "NTKByParts",
    "NTKMixed",
    "Stretch",
    "YaRN",
]
