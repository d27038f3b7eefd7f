"""Attention of several passes under one softmax: what methods that change distances need."""

from bipe.attention.passes.dispatch import pass_attention

__all__ = ["pass_attention"]
