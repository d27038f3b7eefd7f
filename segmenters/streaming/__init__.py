"""Marks of text as it is written: exact ones, or those of a table of token ids."""
