"""The page: one HTML file without scripts, pictures or anything from elsewhere.

Its content security policy forbids all of them, so that a text which slipped through as markup
could still load and run nothing.
"""

from collections.abc import Mapping, Sequence

from train.report import sections
from train.report.markup import Markup, tag
from train.report.palette import styles
from train.report.records import Run, SourceStatistics
from train.report.stylesheet import stylesheet

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_CONTENTS = (
    ("summary", "What is seen"),
    ("perplexity", "Perplexity"),
    ("seeds", "Seeds"),
    ("arithmetic", "Arithmetic"),
    ("retrieval", "Retrieval"),
    ("positions", "Loss by position"),
    ("bits", "Bits per byte"),
    ("training", "Training"),
    ("segments", "Segments"),
    ("account", "Protocol, configuration, limits"),
)


def page(*, runs: Sequence[Run], statistics: Mapping[str, SourceStatistics], title: str) -> str:
    """The whole HTML document; the same arguments give the same text."""
    looks = styles(runs)
    body = tag(
        "body",
        _header(runs, title),
        sections.headline(runs, looks),
        sections.perplexity(runs, looks),
        sections.seeds(runs, looks),
        sections.arithmetic(runs, looks),
        sections.retrieval(runs, looks),
        sections.positions(runs, looks),
        sections.bits(runs, looks),
        sections.training(runs, looks),
        sections.segments(statistics),
        sections.account(runs),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(stylesheet())),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _header(runs: Sequence[Run], title: str) -> Markup:
    absent = {
        "seeds": not any(run.members for run in runs),
        "arithmetic": not any(run.arithmetic for run in runs),
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
