"""The sections of the page, one file a subject: `name(runs, looks) -> Markup`.

`looks` holds each run's style by label. A section that has nothing to show is empty,
or says so in a sentence where it would be missed.
"""

from train.report.sections.account import account
from train.report.sections.arithmetic import arithmetic
from train.report.sections.growth import growth
from train.report.sections.headline import headline
from train.report.sections.perplexity import bits, perplexity, positions
from train.report.sections.probes import probes
from train.report.sections.published import published
from train.report.sections.retrieval import retrieval
from train.report.sections.scrolls import scrolls
from train.report.sections.seeds import seeds
from train.report.sections.segments import segments
from train.report.sections.stretch import stretch
from train.report.sections.training import training

__all__ = [
    "account",
    "arithmetic",
    "bits",
    "growth",
    "headline",
    "perplexity",
    "positions",
    "probes",
    "published",
    "retrieval",
    "scrolls",
    "seeds",
    "segments",
    "stretch",
    "training",
]
