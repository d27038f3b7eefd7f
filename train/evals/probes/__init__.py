"""Retrieval and long contexts: what a model still finds, and at which distance.

kinds.py       probes that are laid among held-out text and asked for: drafts of trials
trials.py      a draft as tokens and marks; haystack.py held-out text, draws.py what is drawn
answers.py     the likeliest candidate, or what is written; copies.py repeated tokens, positions
measure.py     the measurement of a probe
"""

from train.evals.probes.haystack import Haystack, Texts
from train.evals.probes.measure import NAMES, Plan, Probe

__all__ = ["NAMES", "Haystack", "Plan", "Probe", "Texts"]
