"""The top of the page: what was trained, what is seen, and the numbers behind it."""

from collections.abc import Mapping, Sequence

from train.report.compare import (
    asked_at,
    found,
    highest,
    lengths,
    lowest,
    measured,
    passkey_lengths,
    retrievals,
    right,
    sources,
    to_trained,
    trained_length,
)
from train.report.formats import DASH, TIMES, amount, count, percent, short, times
from train.report.markup import Markup, join, tag
from train.report.palette import Style
from train.report.records import Run
from train.report.sentences import observations, trained_on
from train.report.tables import emphasised, name_cell, section, table, with_detail


def headline(runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    """The summary: one sentence on the training, the observations, one table."""
    if not runs:
        return join([])
    return section(
        "summary",
        "What is seen",
        tag("p", trained_on(runs), class_="lead"),
        tag(
            "dl",
            *(
                join([tag("dt", seen.subject), tag("dd", seen.sentence)])
                for seen in observations(runs)
            ),
            class_="seen",
        ),
        _summary(runs, looks),
    )


def _summary(runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    columns: list[list[str]] = []
    head, groups = ["model", "parameters"], [("", 2)]
    for source in sources(runs):
        ends = _ends(runs, source)
        groups.append((f"perplexity, {source}", len(ends)))
        head += [count(length) for length in ends]
        columns += [_perplexities(runs, source, length) for length in ends]
    at = passkey_lengths(runs)
    ends = list(dict.fromkeys((at[0], at[-1]))) if at else []
    if ends:
        groups.append(("passkey found", len(ends)))
        head += [count(length) for length in ends]
        columns += [_found(runs, length) for length in ends]
    asked = asked_at(runs)
    if asked:
        groups.append(("right answers, operators", len(asked)))
        head += map(count, asked)
        columns += [_answered(runs, operators) for operators in asked]
    rows = [
        [name_cell(run.label, looks[run.label]), amount(run.model.parameters)]
        + [column[index] for column in columns]
        for index, run in enumerate(runs)
    ]
    ratio = f"Numbers over the columns are lengths in tokens; {TIMES} is the ratio to the model's "
    ratio += "own training length. "
    best = "Bold: the best of its column." if columns else ""
    note = f"{ratio if sources(runs) else ''}{best}"
    return table(head=head, groups=groups, rows=rows, note=note)


def _ends(runs: Sequence[Run], source: str) -> list[int]:
    at = lengths(runs, source)
    trained = trained_length(runs)
    near = trained if trained in at else at[0]
    return [near] if at[-1] == near else [near, at[-1]]


def _perplexities(runs: Sequence[Run], source: str, length: int) -> list[str]:
    values = [measured(run, source, length) for run in runs]
    best = lowest(values, short)
    cells: list[str] = []
    for run, value in zip(runs, values, strict=True):
        ratio = to_trained(run, source, length)
        shown = DASH if value is None else emphasised(short(value), best)
        cells.append(shown if ratio is None else with_detail(shown, times(ratio)))
    return cells


def _found(runs: Sequence[Run], length: int) -> list[str]:
    shares = {label: found(held).get(length) for label, held in retrievals(runs).items()}
    best = highest(shares.values(), percent)
    values = [shares.get(run.label) for run in runs]
    return [DASH if v is None else emphasised(percent(v), best) for v in values]


def _answered(runs: Sequence[Run], operators: int) -> list[str]:
    shares = [right(run.arithmetic, "answer", operators) if run.arithmetic else None
              for run in runs]  # fmt: skip
    best = highest(shares, percent)
    return [DASH if share is None else emphasised(percent(share), best) for share in shares]
