"""The table of all rows, and what is made of it: arms, means over seeds, comparisons per seed.

An arm is the runs that differ only by their seed (fit/trained_run.py). Its means are geometric for
perplexities, sums for trials and problems, else arithmetic. Arms are compared seed by seed, since
runs of one seed have the same batches and initial weights.

Only numbers of one measurement (protocol, documents, scored tokens) are compared: of each measure
of a source and task, that which most lines of a figure have, and of those the newest. The others
are `apart`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from segmenters.wording import visible
from train.evals.rows import PLACE, Row, half_width
from train.fit.trained_run import TrainedRun, group_by_arm, stem
from train.report.palette import Style, styles

COLUMNS = tuple(field.name for field in fields(Row))
_NUMBERS = {field.name for field in fields(Row) if "None" in str(field.type)}
_ABOUT = ("label", "model", "family", "bilevel")  # in addition to the fields of a row
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

    labels: of each run, the arm's and its own. table: one row per number, with these in `arm` and
    `label`, and model, family and bilevel; rows of the data have no run.
    """

    runs: Sequence[TrainedRun]
    labels: Sequence[tuple[str, str]]
    table: pd.DataFrame
    environments: Sequence[Mapping[str, Any]]
    sources: Mapping[str, Any]
    growth: Mapping[str, Any] | None

    @cached_property
    def arms(self) -> list[Arm]:
        """Return the arms in the order of their first runs, without those of SCROLLS only."""
        groups: dict[str, list[TrainedRun]] = {}
        for run, (label, _) in zip(self.runs, self.labels, strict=True):
            groups.setdefault(label, []).append(run)
        task = self.table.measure.str.startswith("scrolls_")
        only = set(self.table[task].arm) - set(self.table[~task & self._evaluated].arm)
        groups = {label: sorted(runs, key=lambda run: run.seed or 0)
                  for label, runs in groups.items() if label not in only}  # fmt: skip
        looks = styles([(name, runs[0].family, runs[0].bilevel) for name, runs in groups.items()])
        return [Arm(label=name, runs=runs, style=looks[name]) for name, runs in groups.items()]

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
        return [name for arm, name in self.labels if arm in self.looks and name not in measured]

    @cached_property
    def looks(self) -> dict[str, Style]:
        return {arm.label: arm.style for arm in self.arms}

    @cached_property
    def means(self) -> pd.DataFrame:
        """Return one row per arm and place, the mean with its interval; also means over depths."""
        rows = self.table[self.table.number.isna() & self.table.arm.isin(self.looks)]
        evaluated = self._evaluated[rows.index]
        trained, rows = rows[~evaluated], rows[evaluated]
        sizes = [dict(part.groupby("arm").label.nunique()) for part in (trained, rows)]
        parts = (trained, pd.concat([rows, over_depths(rows)]))
        means = pd.concat(map(over_seeds, parts, sizes), ignore_index=True)
        return means.assign(apart=~compared(means))

    @cached_property
    def choices(self) -> list[Choice]:
        """Return what was measured in several ways, with that which is compared first."""
        return choices_of(self.means, self.table[self.table.arm.isin(self.looks)])

    def cells(self, *measures: str, **at: Any) -> pd.DataFrame:
        """Return the means of some measures at a place; None: the field does not apply."""
        rows = pd.concat([self._by_measure.get(name, self.means[:0]) for name in measures])
        return rows_at(rows, **{"variant": "", "task": "", "step": None, "apart": False} | at)

    @cached_property
    def _by_measure(self) -> dict[str, pd.DataFrame]:
        return {str(name): rows for name, rows in self.means.groupby("measure", sort=False)}

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


def as_table(rows: Iterable[Row], **about: Any) -> pd.DataFrame:
    """Return rows as a table; about: of their run, which replaces fields and adds columns."""
    blank = {"label": "", "model": "", "family": "", "bilevel": None}
    records = [asdict(row) | blank | about for row in rows]
    for record in records:
        record |= {name: visible(text) for name, text in record.items() if isinstance(text, str)}
    table = pd.DataFrame(records, columns=[*COLUMNS, *_ABOUT])
    table = table.astype({name: "float64" if name in _NUMBERS else object for name in table})
    return table.assign(order=np.arange(len(table)))  # in the journal of a run: the newest is last


def about_run(run: TrainedRun, labels: tuple[str, str]) -> dict[str, Any]:
    """Return the fields of a run's rows that say whose they are."""
    return {"run": run.name, "arm": labels[0], "label": labels[1], "model": run.model_name,
            "seed": run.seed if isinstance(run.seed, int) else None,
            "family": run.family, "bilevel": run.bilevel}  # fmt: skip


def run_labels(runs: Sequence[TrainedRun]) -> list[tuple[str, str]]:
    """Return (arm, own label) of each run; the latter is its folder if the arm has several runs."""
    groups = group_by_arm(runs)
    named = zip(_arm_labels(groups), groups, strict=True)
    arms = {id(run): (label, len(group)) for label, group in named for run in group}
    pairs = [arms[id(run)] for run in runs]
    names = labelled([(label if size == 1 else run.label, run.folder)
                      for run, (label, size) in zip(runs, pairs, strict=True)])  # fmt: skip
    return [(label, name) for (label, _), name in zip(pairs, names, strict=True)]


def _arm_labels(groups: Sequence[Sequence[TrainedRun]]) -> list[str]:
    """Return the label of each arm: the model, or the folder if fine-tuned or a checkpoint."""
    folders = [first.folder.resolve() for first, *_ in groups]
    stems = [folder.with_name(stem(first.name, first.seed)) if more else folder
             for folder, (first, *more) in zip(folders, groups, strict=True)]  # fmt: skip
    alike = Counter(stems)
    folders = [short if alike[short] == 1 else folder
               for short, folder in zip(stems, folders, strict=True)]  # fmt: skip
    return labelled([
        (first.at(folder.name) if first.step is not None or first.config.get("task")
         else first.model_name, folder)
        for folder, (first, *_) in zip(folders, groups, strict=True)
    ])  # fmt: skip


def labelled(named: Sequence[tuple[str, Path]]) -> list[str]:
    """Return the names; equal ones are replaced by as much of their folders as differs."""
    labels = [visible(name) for name, _ in named]
    parts = [[*map(visible, path.resolve().parts)] for _, path in named]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        again = Counter(labels)
        labels = ["/".join(folders[-depth:]) if again[label] > 1 else label
                  for label, folders in zip(labels, parts, strict=True)]  # fmt: skip
    turns = [labels[: place + 1].count(label) for place, label in enumerate(labels)]
    return [f"{label} ({number})" if number > 1 else label
            for label, number in zip(labels, turns, strict=True)]  # fmt: skip


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


def _panels(means: pd.DataFrame) -> pd.Series:
    """Return which figure each row is for: of plain models, of variants of a model, of steps."""
    variants = means.arm.where(means.variant != "", "")
    parts = (means.measure, means.task, means.source, variants, means.step.notna().astype(str))
    return pd.Series(list(zip(*parts, strict=True)), index=means.index, dtype=object)


def _ranked(means: pd.DataFrame) -> list[str]:
    """Return the measurements of a panel: those of most lines first, then the newest."""
    newest = means.groupby([*_LINE, "measurement"], sort=False).order.max()
    ages = newest.groupby([*_LINE]).rank(ascending=False)  # 1: the newest of the line
    ages = ages.groupby("measurement", sort=False).agg(["size", "max", "mean"])
    ages = ages.sort_values(["size", "max", "mean"], ascending=[False, True, True], kind="stable")
    return [str(name) for name in ages.index]


def compared(means: pd.DataFrame) -> pd.Series:
    """Return a mask of the rows that are compared: of each figure those of one measurement."""
    panels, shown = _panels(means), pd.Series(True, index=means.index)
    for _, rows in means.groupby(panels, sort=False):
        if rows.measurement.nunique() > 1:
            shown[rows.index] = rows.measurement == _ranked(rows)[0]
    return shown


def choices_of(means: pd.DataFrame, table: pd.DataFrame) -> list[Choice]:
    """Return what figures hold several measurements of; table: the rows of single runs."""
    plain, choices = means[(means.variant == "") & means.step.isna()], []
    table = table[(table.variant == "") & table.step.isna() & table.measure.isin(_NAMED)]
    for names, runs in table.groupby(["measure", "task", "source"], sort=False):
        rows = rows_at(plain, **dict(zip(("measure", "task", "source"), names, strict=True)))
        lines = {by: rows[rows.measurement == by].arm.drop_duplicates().tolist()
                 for by in (_ranked(rows) if len(rows) else ())}  # fmt: skip
        partial = {arm: [by for by in group.measurement.unique() if arm not in lines.get(by, ())]
                   for arm, group in runs.groupby("arm", sort=False)}  # fmt: skip
        partial = {arm: rest for arm, rest in partial.items() if rest}
        if len(lines) > 1 or partial:
            choices.append(Choice(**dict(zip(("measure", "task", "source"), names, strict=True)),
                                  lines=lines, partial=partial))  # fmt: skip
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
