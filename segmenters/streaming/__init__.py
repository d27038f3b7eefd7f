"""Marks while text is written: exact ones from texts of tokens, or a table of ids alone."""
