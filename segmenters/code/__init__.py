"""Segmenters of code: lines, statements and top-level definitions."""
