"""The page of the report: its sections in their order (document.py is what is around them)."""

from collections.abc import Mapping, Sequence
from typing import Any

from train.report import sections
from train.report.document import document
from train.report.markup import Markup, tag
from train.report.palette import styles
from train.report.records import Run, SourceStatistics

_CONTENTS = (
    ("summary", "What is seen"),
    ("perplexity", "Perplexity"),
    ("seeds", "Seeds"),
    ("arithmetic", "Arithmetic"),
    ("retrieval", "Retrieval"),
    ("probes", "Probes"),
    ("stretch", "Stretched"),
    ("positions", "Loss by position"),
    ("bits", "Bits per byte"),
    ("training", "Training"),
    ("segments", "Segments"),
    ("growth", "Segments against length"),
    ("account", "Protocol, configuration, limits"),
)


def page(
    *,
    runs: Sequence[Run],
    statistics: Mapping[str, SourceStatistics],
    title: str,
    growth: Mapping[str, Any] | None = None,
) -> str:
    """The whole HTML document; the same arguments give the same text.

    growth: what `bipe evaluate statistics` wrote.
    """
    looks = styles(runs)
    return document(
        title,
        _header(runs, title),
        sections.headline(runs, looks),
        sections.perplexity(runs, looks),
        sections.seeds(runs, looks),
        sections.arithmetic(runs, looks),
        sections.retrieval(runs, looks),
        sections.probes(runs, looks),
        sections.stretch(runs),
        sections.positions(runs, looks),
        sections.bits(runs, looks),
        sections.training(runs, looks),
        sections.segments(statistics),
        sections.growth(growth),
        sections.account(runs),
    )


def _header(runs: Sequence[Run], title: str) -> Markup:
    absent = {
        "seeds": not any(run.members for run in runs),
        "arithmetic": not any(run.arithmetic for run in runs),
        "probes": not any(run.probes for run in runs),
    }
    links = [
        tag("a", words, href=f"#{anchor}") for anchor, words in _CONTENTS if not absent.get(anchor)
    ]
    return tag(
        "header",
        tag("h1", title),
        tag("p", _stamp(runs), class_="stamp"),
        tag("nav", *links),
    )


def _stamp(runs: Sequence[Run]) -> str:
    created = sorted(str(run.environment.get("created", "")) for run in runs)
    versions = {str(run.environment.get("bipe", "")) for run in runs} - {""}
    parts = [f"bipe {', '.join(sorted(versions))}" if versions else "bipe"]
    if created[-1]:
        parts.append(f"evaluated {created[-1]}")
    parts.append("the same numbers stand beside this page as CSV and JSON")
    return " \N{MIDDLE DOT} ".join(parts)
