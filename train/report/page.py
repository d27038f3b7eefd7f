"""The page of the report: its sections in their order (document.py is what is around them)."""

from collections.abc import Mapping, Sequence
from typing import Any

from train.report import sections
from train.report.document import document
from train.report.markup import tag
from train.report.palette import styles
from train.report.records import Run, SourceStatistics
from train.report.scrolls import ScrollsModel


def page(
    *,
    runs: Sequence[Run],
    statistics: Mapping[str, SourceStatistics],
    title: str,
    growth: Mapping[str, Any] | None = None,
    scrolls: Sequence[ScrollsModel] = (),
) -> str:
    """The whole HTML document; the same arguments give the same text.

    growth: what `bipe evaluate statistics` wrote. A section without content is left out.
    """
    looks = styles(runs)
    parts = (
        ("summary", "What is seen", sections.headline(runs, looks)),
        ("perplexity", "Perplexity", sections.perplexity(runs, looks)),
        ("seeds", "Seeds", sections.seeds(runs, looks)),
        ("arithmetic", "Arithmetic", sections.arithmetic(runs, looks)),
        ("retrieval", "Retrieval", sections.retrieval(runs, looks)),
        ("probes", "Probes", sections.probes(runs, looks)),
        ("scrolls", "SCROLLS", sections.scrolls(scrolls)),
        ("stretch", "Stretched", sections.stretch(runs)),
        ("positions", "Loss by position", sections.positions(runs, looks)),
        ("bits", "Bits per byte", sections.bits(runs, looks)),
        ("training", "Training", sections.training(runs, looks)),
        ("segments", "Segments", sections.segments(statistics)),
        ("growth", "Segments against length", sections.growth(growth)),
        ("account", "Protocol, configuration, limits", sections.account(runs)),
        ("published", "What is published", sections.published()),
    )
    links = [tag("a", words, href=f"#{anchor}") for anchor, words, part in parts if part]
    header = tag("header", tag("h1", title), tag("p", _stamp(runs), class_="stamp"))
    return document(title, header, tag("nav", *links), *(part for *_, part in parts))


def _stamp(runs: Sequence[Run]) -> str:
    created = sorted(str(run.environment.get("created", "")) for run in runs)
    versions = {str(run.environment.get("bipe", "")) for run in runs} - {""}
    parts = [f"bipe {', '.join(sorted(versions))}" if versions else "bipe"]
    if created and created[-1]:
        parts.append(f"evaluated {created[-1]}")
    parts.append("the same numbers stand beside this page as CSV and JSON")
    return " \N{MIDDLE DOT} ".join(parts)
