"""Proofs and derivations: segmenters whose segments are steps."""
