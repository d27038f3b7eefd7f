"""The table of all rows, and what is made of it: arms, means over seeds, comparisons per seed.

An arm is the runs that differ only by their seed (fit/trained_run.py). Its means are geometric for
perplexities, sums for trials and problems, else arithmetic. Arms are compared seed by seed, since
runs of one seed have the same batches and initial weights.

Only numbers of one measurement (protocol, documents, scored tokens) are compared: of each measure
of a source, or of a task in whatever source, that which most lines of a figure have, and of those
the newest. The others are `apart`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from segmenters.wording import visible
from train.evals.rows import PLACE, Row, half_width
from train.fit.trained_run import TrainedRun
from train.report.labels import LabelledRun
from train.report.palette import Style, styles

COLUMNS = tuple(field.name for field in fields(Row))
_NUMBERS = {field.name for field in fields(Row) if "None" in str(field.type)}
ABOUT = ("model", "label", "family")  # of the run, in addition to the fields of a row
# The place of a mean: without what identifies a run, and what is averaged over.
_AT = tuple(name for name in PLACE if name not in ("run", "arm", "seed", "number"))
_SUMS = ("trials", "problems", "training_skipped_steps", "scrolls_predictions")
_GEOMETRIC = ("perplexity", "long_ppl", "as_averaged_by_")  # beginnings of measures
_LINE = ("arm", "variant")  # what a figure compares
_NAMED = ("perplexity", "long_ppl", "accuracy", "answer")  # whose choices are said


@dataclass(frozen=True, kw_only=True)
class Arm:
    """Runs that differ only by their seed, in the order of their seeds."""

    label: str
    runs: Sequence[TrainedRun]
    style: Style

    @property
    def several(self) -> bool:
        return len(self.runs) > 1

    @property
    def model(self) -> str:
        return self.runs[0].model_name

    @property
    def row_length(self) -> int | None:
        return self.runs[0].row_length


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Measurements of one measure, that which is compared first, each with the lines that have it.

    partial: measurements that only some seeds of an arm have, by arm: no mean is shown of them.
    """

    measure: str
    task: str
    source: str
    lines: Mapping[str, Sequence[str]]
    partial: Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Results:
    """The content of a report; sources, growth: of the data (load.py).

    table: one row per number, with the run's model, family and label; rows of the data have none.
    """

    runs: Sequence[LabelledRun]
    table: pd.DataFrame
    sources: Mapping[str, Any]
    growth: Mapping[str, Any] | None

    @cached_property
    def arms(self) -> list[Arm]:
        """Return the arms in the order of their first runs, without those of SCROLLS only."""
        groups: dict[str, list[TrainedRun]] = {}
        task = self.table.measure.str.startswith("scrolls_")
        only = set(self.table[task].arm) - set(self.table[~task & self._evaluated].arm)
        for labelled in self.runs:
            if labelled.arm not in only:
                groups.setdefault(labelled.arm, []).append(labelled.run)
        looks = styles([(name, runs[0].family, runs[0].bilevel) for name, runs in groups.items()])
        return [Arm(label=name, runs=sorted(runs, key=lambda run: run.seed or 0), style=looks[name])
                for name, runs in groups.items()]  # fmt: skip

    @property
    def _evaluated(self) -> pd.Series:
        """Return a mask of the rows that come from an evaluation."""
        costs = self.table.measure.str.startswith("training_")
        costs |= self.table.measure.isin(("parameters", "clamped_share"))
        return ~costs & self.table.step.isna()

    @cached_property
    def unmeasured(self) -> list[str]:
        """Return the own labels of the runs that were not evaluated."""
        measured = set(self.table[self._evaluated].label)
        return [
            run.label for run in self.runs if run.arm in self.looks and run.label not in measured
        ]

    @cached_property
    def looks(self) -> dict[str, Style]:
        return {arm.label: arm.style for arm in self.arms}

    @cached_property
    def means(self) -> pd.DataFrame:
        """Return one row per arm and place, the mean with its interval; also means over depths."""
        rows = self.table[self.table.number.isna() & self.table.arm.isin(self.looks)]
        evaluated = self._evaluated[rows.index]
        parts = [rows[~evaluated], rows[evaluated]]
        sizes = [dict(part.groupby("arm").label.nunique()) for part in parts]
        parts = [pd.concat([part, over_depths(part)]) for part in parts]
        means = pd.concat(map(over_seeds, parts, sizes), ignore_index=True)
        return means.assign(apart=~compared(means))

    @cached_property
    def choices(self) -> list[Choice]:
        """Return what was measured in several ways, with that which is compared first."""
        return choices_of(self.means, self.table[self.table.arm.isin(self.looks)])

    def cells(self, *measures: str, **at: Any) -> pd.DataFrame:
        """Return the means of some measures at a place; None: the field does not apply."""
        rows = self.means[self.means.measure.isin(measures)]
        return rows_at(rows, **{"variant": "", "task": "", "step": None, "apart": False} | at)

    @property
    def trained_at(self) -> int | None:
        """Return the training row length in tokens; None if models differ in it."""
        different = {arm.row_length for arm in self.arms}
        return different.pop() if len(different) == 1 else None

    def pairs(self) -> list[tuple[Arm, Arm]]:
        """Return the flat and the bilevel arm of each family that has exactly one of each."""
        groups: dict[str, dict[bool, list[Arm]]] = {}
        for arm in self.arms:
            first = arm.runs[0]
            groups.setdefault(first.family, {}).setdefault(first.bilevel, []).append(arm)
        return [(*group[False], *group[True]) for group in groups.values()  # type: ignore[misc]
                if len(group.get(False, ())) == len(group.get(True, ())) == 1]  # fmt: skip

    def ratios(self, arm: Arm, other: Arm) -> pd.DataFrame:
        """Return the perplexity of an arm over that of another, for the seeds that both have.

        Columns: source, length, value (geometric mean), low and high (95%), seeds.
        """
        rows = self.table[(self.table.measure == "perplexity") & (self.table.variant == "")]
        rows = rows[(rows.task == "") & rows.step.isna()]
        shown = self.cells("perplexity")[["source", "measurement"]].drop_duplicates()
        rows = rows.merge(shown, on=["source", "measurement"])
        first, second = (rows[rows.arm == label] for label in (arm.label, other.label))
        both = first.merge(second, on=["source", "length", "seed"], suffixes=("", "_other"))
        both = both.assign(x=_log(both.value) - _log(both.value_other))
        means = _means(both.groupby(["source", "length"], sort=False))
        return means.assign(**{name: np.exp(means[name]) for name in ("value", "low", "high")})


def in_order(rows: pd.DataFrame, column: str = "source") -> list[str]:
    """Return the values of a column in the order in which they first appear."""
    return rows[column].drop_duplicates().tolist()


def rows_at(rows: pd.DataFrame, **at: Any) -> pd.DataFrame:
    """Return the rows whose fields have these values; None: the field does not apply."""
    inside = np.ones(len(rows), bool)
    for name, value in at.items():
        inside &= (rows[name].isna() if value is None else rows[name] == value).to_numpy()
    return rows[inside]


def values_at(rows: pd.DataFrame, *columns: str) -> dict[Any, float]:
    """Return the values by what some columns hold."""
    return rows.set_index([*columns]).value.to_dict()


def as_table(rows: Iterable[Row], **about: Any) -> pd.DataFrame:
    """Return rows as a table; about: of their run, which replaces fields and adds columns."""
    records = [asdict(row) | dict.fromkeys(ABOUT, "") | about for row in rows]
    for record in records:
        record |= {name: visible(text) for name, text in record.items() if isinstance(text, str)}
    table = pd.DataFrame(records, columns=[*COLUMNS, *ABOUT])
    table = table.astype({name: "float64" if name in _NUMBERS else object for name in table})
    return table.assign(order=np.arange(len(table)))  # in the journal of a run: the newest is last


def over_depths(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each run's means over depths, or sums of trials, as rows without a depth."""
    deep = rows[rows.depth.notna() & (rows.task != "")]
    rest = ("depth", "value", "low", "high", "note", "order")
    groups = deep.groupby([name for name in deep if name not in rest], dropna=False, sort=False)
    means = groups.agg(value=("value", _mean), total=("value", "sum"), note=("note", "first"),
                       order=("order", "max")).reset_index()  # fmt: skip
    means["value"] = means.value.where(~means.measure.isin(_SUMS), means.total)
    return means.drop(columns="total")


def over_seeds(rows: pd.DataFrame, sizes: Mapping[str, int]) -> pd.DataFrame:
    """Return one row per arm and place: of a single run as it is, of several the mean.

    sizes: runs of each arm. low and high of a mean are Student's 95% interval over seeds.
    """
    alone = rows.arm.map(sizes) == 1
    several = rows[~alone]
    logs = _log(several.value).where(several.measure.str.startswith(_GEOMETRIC), several.value)
    means = _means(several.assign(x=logs).groupby(["arm", *_AT], dropna=False, sort=False))
    means = means[means.seeds == means.arm.map(sizes)]  # over fewer seeds it is not comparable
    ends = ["value", "low", "high"]
    powers = np.exp(means[ends].clip(upper=709))  # whose exponential a float still holds
    means[ends] = means[ends].where(~means.measure.str.startswith(_GEOMETRIC), powers, axis=0)
    means[ends[1:]] = means[ends[1:]].where(means.unit != "share", means[ends[1:]].clip(0.0, 1.0))
    sums = means.measure.isin(_SUMS)
    means["value"] = means.value.where(~sums, means.total)
    means[ends[1:]] = means[ends[1:]].where(~sums)
    columns = ["arm", *_AT, *ends, "note", "order", "seeds"]
    return pd.concat([rows[alone].assign(seeds=1)[columns], means[columns]], ignore_index=True)


def _ranked(means: pd.DataFrame) -> list[str]:
    """Return the measurements of a panel: those of most lines first, then the newest."""
    newest = means.groupby([*_LINE, "measurement"], sort=False).order.max()
    ages = newest.groupby([*_LINE]).rank(ascending=False)  # 1: the newest of the line
    ages = ages.groupby("measurement", sort=False).agg(["size", "max", "mean"])
    ages = ages.sort_values(["size", "max", "mean"], ascending=[False, True, True], kind="stable")
    return [str(name) for name in ages.index]


def compared(means: pd.DataFrame) -> pd.Series:
    """Return a mask of the rows that are compared: of each figure those of one measurement.

    There is a figure of plain models, one of the variants of each model, and one of steps.
    """
    shown = pd.Series(True, index=means.index)
    figures = _by_figure(means)
    figures = figures.assign(varied=means.arm.where(means.variant != "", ""),
                             live=means.step.notna())  # fmt: skip
    by = ["measure", "task", "source", "varied", "live"]
    for _, rows in figures.groupby(by, sort=False):
        if rows.measurement.nunique() > 1:
            shown[rows.index] = rows.measurement == _ranked(rows)[0]
    return shown


def _by_figure(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the source of their figure: that of a task shows it in any source."""
    return rows.assign(source=rows.source.where(rows.task == "", ""))


def choices_of(means: pd.DataFrame, table: pd.DataFrame) -> list[Choice]:
    """Return what figures hold several measurements of; table: the rows of single runs."""
    by, choices = ["measure", "task", "source"], []
    table = table[table.measure.isin(_NAMED)]
    means, table = (_by_figure(rows_at(rows, variant="", step=None)) for rows in (means, table))
    for names, runs in table.groupby(by, sort=False):
        place = dict(zip(by, names, strict=True))
        rows = rows_at(means, **place)
        lines = {way: in_order(rows[rows.measurement == way], "arm")
                 for way in (_ranked(rows) if len(rows) else ())}  # fmt: skip
        partial = {arm: [way for way in in_order(group, "measurement")
                         if arm not in lines.get(way, ())]
                   for arm, group in runs.groupby("arm", sort=False)}  # fmt: skip
        partial = {arm: ways for arm, ways in partial.items() if ways}
        if len(lines) > 1 or partial:
            choices.append(Choice(**place, lines=lines, partial=partial))
    return choices


def _means(groups: Any) -> pd.DataFrame:
    """Return the mean of x in each group with its interval; NaN if any x is not finite."""
    means = groups.agg(
        value=("x", _mean), half=("x", _half), total=("value", "sum"), seeds=("x", "size"),
        note=("note", "first"), order=("order", "mean"),
    ).reset_index()  # fmt: skip
    return means.assign(low=means.value - means.half, high=means.value + means.half)


def _mean(values: pd.Series) -> float:
    return float(values.mean(skipna=False))


def _half(values: pd.Series) -> float:
    half = half_width(values.tolist())
    return half if math.isfinite(half) else math.nan


def _log(values: pd.Series) -> pd.Series:
    return np.log(values.where(values > 0))
