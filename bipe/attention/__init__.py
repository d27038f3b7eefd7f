"""Attention paths: the eager reference, the fused ones, and the function that chooses.

Their names stand here, where configurations find them without torch.
"""

from typing import Literal, get_args

Path = Literal[
    "auto", "eager", "masked", "causal", "banded", "exact_banded", "bias_row", "augmented",
    "tables", "chunked", "flex",
]  # fmt: skip
PATHS = get_args(Path)
