"""Scores of predictions, by the rules of SCROLLS, RULER and passkey retrieval."""
