"""Training-free ways to read beyond the training length: one file a method (base.py: what one is).

Here distances between tokens or segments are changed, or far keys left out; bipe/stretch changes
the frequencies of a rotation.
"""

from bipe.far.base import Far, Pass
from bipe.far.clip import Clip
from bipe.far.dual_chunk import DualChunk
from bipe.far.leaky_rerope import LeakyReRoPE
from bipe.far.log_n import LogN
from bipe.far.rerope import ReRoPE
from bipe.far.self_extend import SelfExtend
from bipe.far.window import Window

__all__ = [
    "Clip",
    "DualChunk",
    "Far",
    "LeakyReRoPE",
    "LogN",
    "Pass",
    "ReRoPE",
    "SelfExtend",
    "Window",
]
