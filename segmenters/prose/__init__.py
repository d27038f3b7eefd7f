"""Prose -> sentences, by causal rules, or by spaCy, which one file imports."""
