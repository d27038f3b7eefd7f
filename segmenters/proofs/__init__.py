"""Proofs and derivations: one file a dialect, each a Segmenter whose segments are steps."""

from segmenters.proofs.arithmetic import ArithmeticSteps
from segmenters.proofs.chain_of_thought import ChainOfThought
from segmenters.proofs.coq import Coq
from segmenters.proofs.isabelle import Isabelle
from segmenters.proofs.latex import LaTeXProofs
from segmenters.proofs.lean import Lean
from segmenters.proofs.metamath import Metamath
from segmenters.proofs.mizar import Mizar

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
