"""Retrieval and long contexts: what a model still finds, and at which distance.

One file a kind of probe; `KINDS` are laid among held-out text and asked for, `COPIES` repeat
random tokens, "positions" is the loss of plain text. measure.py runs them.
"""

from train.evals.probes import copied, counted, key, niah, passages, variables
from train.evals.probes.draft import Kind

KINDS: dict[str, Kind] = {
    "passkey": key.PASSKEY,
    "niah_single": niah.SINGLE,
    "niah_multikey": niah.MULTIKEY,
    "niah_needles": niah.NEEDLES,
    "niah_multivalue": niah.MULTIVALUE,
    "niah_multiquery": niah.MULTIQUERY,
    "variables": variables.VARIABLES,
    "common_words": counted.COMMON_WORDS,
    "frequent_words": counted.FREQUENT_WORDS,
    "qa": passages.QUESTIONS,
}
COPIES = {"copy": copied.copy, "induction": copied.induction}
NAMES = (*KINDS, *COPIES, "positions")
