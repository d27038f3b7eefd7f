"""Measurements of trained models, such as perplexity by length, and retrieval."""
