"""Attention over several passes under one softmax, for methods that change distances."""

from bipe.attention.passes.dispatch import pass_attention, seen_later

__all__ = ["pass_attention", "seen_later"]
