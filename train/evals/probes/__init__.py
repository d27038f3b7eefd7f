"""Retrieval and long contexts: what a model still finds, and at which distance.

kinds.py       kinds of probes that are laid among held-out text: drafts of trials
trials.py      a draft as tokens and marks among held-out text; random draws
answers.py     the most likely candidate, written text, repeated tokens, loss by position
measure.py     the measurement of a probe
"""
