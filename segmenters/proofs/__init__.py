"""Segmenters of proofs and derivations, whose segments are steps."""
