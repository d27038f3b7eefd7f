"""Segmenters of prose: sentences by causal rules, or by spaCy, which only one file imports."""
