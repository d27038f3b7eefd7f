"""Proofs and derivations: each dialect a Segmenter whose segments are steps."""

from segmenters.proofs.coq import Coq
from segmenters.proofs.informal import ArithmeticSteps, ChainOfThought
from segmenters.proofs.keywords import Isabelle, Metamath, Mizar
from segmenters.proofs.latex import LaTeXProofs
from segmenters.proofs.lean import Lean

__all__ = [
    "ArithmeticSteps",
    "ChainOfThought",
    "Coq",
    "Isabelle",
    "LaTeXProofs",
    "Lean",
    "Metamath",
    "Mizar",
]
