"""What was evaluated while training (callbacks=evaluation), against the steps."""

from train.report.content import Section, Words
from train.report.formats import percent, short
from train.report.sections.curves import Curves
from train.report.table import Results

_SHOWN = ("perplexity", "accuracy")


def live(results: Results) -> Section | None:
    """Show a chart for each measure, source, task and length that was followed over steps."""
    means = results.means
    held = means[means.step.notna() & means.measure.isin(_SHOWN) & means.depth.isna()]
    figures = []
    for (measure, source, task, length), cells in held.groupby(
        ["measure", "source", "task", "length"], sort=False
    ):
        name = ", ".join(map(str, filter(None, (measure, task, source, f"{length:.0f} tokens"))))
        shares = measure == "accuracy"
        chart = Curves(
            name="_".join(map(str, filter(None, ("live", measure, task, source, int(length))))),
            y_name=name, cells=cells, x="step", x_name="step", x_scale="linear",
            styles=results.looks, pick=max if shares else min, write=percent if shares else short,
        )  # fmt: skip
        figures.append(chart.figure(name))
    words = (
        "The measurements of bipe evaluate on the weights of some steps, on held-out text of the "
        "split that callbacks.evaluation.split names."
    )
    title = "While training"
    return Section("live", title, [Words(words), *figures]) if figures else None
