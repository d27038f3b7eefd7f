"""The sections of the page, in their order: each selects rows and draws figures of them.

A section without anything to show is None. Measures that no section knows are in `others`.
"""

from collections.abc import Callable

from train.report.content import Section
from train.report.sections.data import growth, segments
from train.report.sections.exhibits import bits, live, others, perplexity, positions, seeds
from train.report.sections.published import published
from train.report.sections.scrolls import scrolls
from train.report.sections.summary import account, headline, training
from train.report.sections.tasks import arithmetic, probes, retrieval, stretch
from train.report.table import Results

SECTIONS: dict[str, Callable[[Results], Section | None]] = {
    "summary": headline,
    "perplexity": perplexity,
    "seeds": seeds,
    "arithmetic": arithmetic,
    "retrieval": retrieval,
    "probes": probes,
    "scrolls": scrolls,
    "stretch": stretch,
    "others": others,
    "positions": positions,
    "bits": bits,
    "training": training,
    "live": live,
    "segments": segments,
    "growth": lambda results: growth(results.growth),
    "account": account,
    "published": published,
}


def sections(results: Results) -> list[Section]:
    drawn = (draw(results) for draw in SECTIONS.values())
    return [section for section in drawn if section is not None]
