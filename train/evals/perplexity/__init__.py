"""Perplexity: what is read, which tokens of it are scored, and how losses become one number.

texts.py      the documents; reading.py runs the model over them, in memory linear in length
protocol.py   what a protocol says, and the scoring that all share; one file a protocol
choice.py     a protocol by its name; averages.py means and confidence intervals
by_length.py  one protocol at several lengths of context
"""

from train.evals.perplexity.by_length import perplexity_by_length
from train.evals.perplexity.choice import PROTOCOLS, Measure
from train.evals.perplexity.texts import Stream, Texts, long_documents

__all__ = ["PROTOCOLS", "Measure", "Stream", "Texts", "long_documents", "perplexity_by_length"]
