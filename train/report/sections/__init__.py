"""The sections of the page, in their order: each selects rows and draws figures of them.

Each yields its blocks: without any it is not on the page. Measures that no section knows are in
`others`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from train.report.content import Block, Section, section
from train.report.sections.data import growth, segments
from train.report.sections.exhibits import bits, live, others, perplexity, positions, seeds
from train.report.sections.published import published
from train.report.sections.scrolls import scrolls
from train.report.sections.summary import account, headline, training
from train.report.sections.tasks import arithmetic, probes, retrieval, stretch
from train.report.table import Results

SECTIONS: dict[str, Callable[[Results], Iterable[Block]]] = {
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


def section_of(results: Results, anchor: str) -> Section | None:
    """Return a section, or None if there is nothing to show in it."""
    blocks = [*SECTIONS[anchor](results)]
    return section(anchor, blocks, results=results) if blocks else None


def sections(results: Results) -> list[Section]:
    drawn = (section_of(results, anchor) for anchor in SECTIONS)
    return [section for section in drawn if section is not None]


def growth_section(counts: Mapping[str, Any]) -> Section:
    return section("growth", growth(counts))
