"""Code -> lines of statements and top-level definitions."""
