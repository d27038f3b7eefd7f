"""Attention paths: the eager reference, the fused ones, and the function that chooses."""

from bipe.attention.dispatch import PATHS, Path, choose_attention
from bipe.attention.eager import allowed_pairs, eager_attention

__all__ = ["PATHS", "Path", "allowed_pairs", "choose_attention", "eager_attention"]
