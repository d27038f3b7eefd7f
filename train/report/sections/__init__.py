"""The sections of the page, in their order: each selects rows and draws figures of them.

Each yields its blocks: without any it is not on the page. Measures that no section knows are in
`others`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from train.report.content import Block, Section, section
from train.report.sections import account, data, exhibits, published, scrolls, summary, tasks
from train.report.table import Results

SECTIONS: dict[str, Callable[[Results], Iterable[Block]]] = {
    "summary": summary.headline,
    "perplexity": exhibits.perplexity,
    "seeds": exhibits.seeds,
    "arithmetic": tasks.arithmetic,
    "retrieval": tasks.retrieval,
    "probes": tasks.probes,
    "scrolls": scrolls.scrolls,
    "stretch": tasks.stretch,
    "others": exhibits.others,
    "positions": exhibits.positions,
    "bits": exhibits.bits,
    "training": exhibits.training,
    "live": exhibits.live,
    "segments": data.segments,
    "growth": lambda results: data.growth(results.growth, results.sources),
    "account": account.account,
    "published": published.published,
}


def section_of(results: Results, anchor: str) -> Section | None:
    """Return a section, or None if there is nothing to show in it."""
    blocks = [*SECTIONS[anchor](results)]
    return section(anchor, blocks, results=results) if blocks else None


def sections(results: Results) -> list[Section]:
    return [*filter(None, (section_of(results, anchor) for anchor in SECTIONS))]


def growth_section(counts: Mapping[str, Any]) -> Section:
    return section("growth", data.growth(counts))
