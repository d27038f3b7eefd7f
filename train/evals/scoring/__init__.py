"""How predictions are scored: by the rules of SCROLLS, RULER and passkey retrieval."""
