"""Perplexity: what is read, what is scored, and how losses become one number.

protocols.py  which windows are read and which tokens scored
measure.py    the model over them, in memory linear in length, and rows of its losses
key_tokens.py the tokens that a long context helps, and their perplexity
"""
