"""Training curves, and what the training cost."""

import math
from collections.abc import Mapping, Sequence

from train.report.figures import Series, line_chart
from train.report.formats import DAGGER, DASH, amount, count, duration, fixed, percent
from train.report.markup import Markup, join, tag
from train.report.palette import Style
from train.report.records import Run
from train.report.tables import beside, name_cell, section, table


def training(runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    """Loss against tokens seen, beside steps, time and what went wrong."""
    if not runs:
        return join([])
    chart = line_chart(
        title="Training loss against tokens seen",
        series=[
            Series(label=run.label, style=looks[run.label], points=run.training.curve)
            for run in runs
        ],
        x_name="tokens seen",
        y_name="training loss, nats a token",
        x_scale="linear",
    )
    rows = [[name_cell(run.label, looks[run.label]), *_costs(run)] for run in runs]
    head = ["model", "last loss", "steps", "tokens/s", "time", "clipped", "skipped"]
    note = (
        "Last loss: of the last logged batch, so it is noisy. Clipped: share of steps whose "
        "gradient was clipped. Skipped: steps whose loss was not a number."
    )
    intro = tag("p", "The loss on training batches. Models that had not finished falling might "
                "change places with more training.")  # fmt: skip
    numbers = table(head=head, rows=rows, note=note)
    return section("training", "Training", intro, beside(chart, table=numbers))


def _costs(run: Run) -> list[str]:
    cost = run.training
    speed = cost.tokens / cost.seconds if cost.seconds > 0 else math.nan
    return [
        fixed(cost.curve[-1][1], 2) if cost.curve else DASH,
        count(cost.steps),
        amount(speed) if math.isfinite(speed) else DAGGER,
        duration(cost.seconds),
        percent(cost.clipped_share) if math.isfinite(cost.clipped_share) else DASH,
        count(cost.skipped_steps),
    ]
