"""Arithmetic modulo a prime as chains of reductions (Feng et al., arXiv 2305.15408)."""
