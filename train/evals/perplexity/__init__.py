"""Perplexity: what is read, what is scored, and how losses become one number.

protocols.py  which windows are read and which tokens scored
measure.py    the model over them, in memory linear in length, rows of its losses, and LongPPL
"""
