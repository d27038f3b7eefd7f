"""The sections of the page, in their order: each selects rows and draws figures of them.

A section without anything to show is None. `others` shows measures that no section knows.
"""

from train.report.content import Block, Section, Table, Words
from train.report.formats import percent, short
from train.report.sections.curves import Curves, bits, live, perplexity, positions, seeds
from train.report.sections.data import growth, segments
from train.report.sections.published import published
from train.report.sections.scrolls import scrolls
from train.report.sections.summary import account, headline, training
from train.report.sections.tasks import arithmetic, probes, retrieval, stretch
from train.report.table import Results

_KNOWN = {
    "parameters", "clamped_share", "left_out", "perplexity", "nll", "bits_per_byte", "documents",
    "tokens_scored", "tokens_by_position", "accuracy", "written", "first", "second",
    "distance_tokens", "distance_segments", "chance", "trials", "answer", "steps", "tokens",
    "problems", "trained_operators",
}  # fmt: skip
_KNOWN_BEGINNINGS = ("training_", "scrolls_", "trial_", "document_", "nll_by_")


def sections(results: Results) -> list[Section]:
    made = [
        headline(results), perplexity(results), seeds(results), arithmetic(results),
        retrieval(results), probes(results), scrolls(results), stretch(results), others(results),
        positions(results), bits(results), training(results), live(results), segments(results),
        growth(results.growth), account(results), published(results),
    ]  # fmt: skip
    return [section for section in made if section is not None]


def others(results: Results) -> Section | None:
    """Show measures that no section knows, as a chart against what varies, else as a table."""
    held = results.means[results.means.step.isna()]
    known = held.measure.isin(_KNOWN) | held.measure.str.startswith(_KNOWN_BEGINNINGS)
    blocks: list[Block] = []
    keys = ["variant", "task", "measure", "source"]
    for names, cells in held[~known].groupby(keys, sort=False):
        words = ", ".join(str(name).replace("_", " ") for name in names if name)
        unit = cells.unit.iloc[0]
        spreads = [name for name in ("length", "depth", "operators", "start")
                   if cells[name].nunique() > 1]  # fmt: skip
        x = spreads[0] if spreads else "length"
        if x == "length" and "depth" in spreads:
            cells = cells[cells.depth.isna()]  # the means over depths
        log = bool(cells[x].min() > 0)
        chart = Curves(
            name="_".join(("other", *filter(None, names))), y_name=f"{words}, {unit}".rstrip(", "),
            cells=cells if spreads else cells.assign(length=cells.length.fillna(0.0)), x=x,
            x_name=f"{x} (log scale)" if log else x, x_scale="lengths" if log else "linear",
            styles=results.looks, pick=None, write=percent if unit == "share" else short,
        )  # fmt: skip
        single = Table([words, unit or "value"], chart.rows())
        blocks.append(chart.figure(words) if spreads else single)
    if not blocks:
        return None
    first = Words("Measurements that no other section shows.")
    return Section("others", "Other measurements", [first, *blocks], nav="More")
