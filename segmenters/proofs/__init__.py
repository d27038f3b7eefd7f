"""Proofs and derivations: one file a dialect, each a Segmenter whose segments are steps."""

from segmenters.proofs.arithmetic import ArithmeticSteps

__all__ = ["ArithmeticSteps"]
