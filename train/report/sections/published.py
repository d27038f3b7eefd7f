"""What is published: every number of the papers that the report knows, and where it was read."""

from collections.abc import Sequence

from train.report.formats import count, percent, tick
from train.report.markup import Markup, tag
from train.report.tables import section, table
from train.report.targets import Target, experiments

_PROVENANCE = {
    "paper": "quoted from the paper or an article on it",
    "later": "run again by a later paper",
    "unread": "known to be published, not seen: left blank",
}


def published() -> Markup:
    """One table of all targets, whether or not a run of this report can be compared with them."""
    rows: list[list[str]] = []
    for experiment, held in experiments().items():
        rows.append([experiment])
        rows += _rows(held)
    told = "; ".join(f"{name}: {meaning}" for name, meaning in _PROVENANCE.items())
    head = ["measure", "model", "data", "trained at", "published", "source, provenance"]
    return section(
        "published",
        "What is published",
        tag("p", "These were measured on other models, trained on other amounts of text. "
            "Perplexities stand beside ours above where the source of the text, the training "
            "length and the context length are the same."),
        tag("div", table(head=head, rows=rows, note=f"Provenance: {told}."), class_="words"),
    )  # fmt: skip


def _rows(held: Sequence[Target]) -> list[list[str]]:
    """One row for all the lengths of one model on one source."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for target in held:
        width = "" if target.width is None else f" (width {target.width})"
        key = (
            f"{target.measure}{width}",
            target.model or ("every other encoding" if target.below is not None else ""),
            target.data,
            "" if target.trained_at is None else count(target.trained_at),
            tag("span", f"{target.source} ({target.provenance})", class_="kept"),
        )
        length = "" if target.length is None else f" at {count(target.length)}"
        rows.setdefault(key, []).append(f"{stated(target)}{length}")
    return [[*told, ", ".join(values), source] for (*told, source), values in rows.items()]


def stated(target: Target) -> str:
    """What is published, as it stands there; nothing where it is unread."""
    write = percent if target.unit == "share" else tick
    if target.value is not None:
        return write(target.value)
    return f"below {write(target.below)}" if target.below is not None else target.said
