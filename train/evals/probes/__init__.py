"""Retrieval and long contexts: what a model still finds, and at which distance.

kinds.py       kinds of probes that are laid among held-out text: drafts of trials
trials.py      a draft as tokens and marks; haystack.py held-out text, draws.py random draws
answers.py     the most likely candidate, or written text; copies.py repeated tokens, positions
measure.py     the measurement of a probe
"""

from train.evals.probes.haystack import Haystack, Texts
from train.evals.probes.measure import NAMES, Plan, Probe

__all__ = ["NAMES", "Haystack", "Plan", "Probe", "Texts"]
