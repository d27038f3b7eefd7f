"""The table of all rows, and what is made of it: arms, means over seeds, comparisons per seed.

An arm is the runs that differ only by their seed (fit/trained_run.py). Its means are geometric for
perplexities, sums for trials and problems, else arithmetic. Arms are compared seed by seed, since
runs of one seed have the same batches and initial weights.
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
_ABOUT = ("label", "model", "family", "bilevel")  # in addition to the fields of a row
# The place of a mean: without what identifies a run, and what is averaged over.
_AT = tuple(name for name in PLACE if name not in ("run", "arm", "seed", "number"))
_SUMS = ("trials", "problems", "training_skipped_steps", "scrolls_predictions")
_GEOMETRIC = ("perplexity",)


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
class Results:
    """The content of a report; sources, growth: of the data (load.py).

    table: one row per number, with the arm's label in `arm`, the run's own in `label`, and model,
    family and bilevel; rows of the data have no run.
    """

    runs: Sequence[TrainedRun]
    table: pd.DataFrame
    environments: Sequence[Mapping[str, Any]]
    sources: Mapping[str, Any]
    growth: Mapping[str, Any] | None

    @cached_property
    def arms(self) -> list[Arm]:
        """Return the arms in the order of their first runs, without those of SCROLLS only."""
        groups = dict(zip(arm_labels(self.runs), group_by_arm(self.runs), strict=True))
        task = self.table.measure.str.startswith("scrolls_")
        only = set(self.table[task].arm) - set(self.table[~task & self._evaluated].arm)
        kept = {label: runs for label, runs in groups.items() if label not in only}
        looks = styles([(label, runs[0].family, runs[0].bilevel) for label, runs in kept.items()])
        return [Arm(label=label, runs=runs, style=looks[label]) for label, runs in kept.items()]

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
        return [own for arm, own in run_labels(self.runs)
                if arm in self.looks and own not in measured]  # fmt: skip

    @property
    def labels(self) -> list[str]:
        return [label for _, label in run_labels(self.runs)]

    @cached_property
    def looks(self) -> dict[str, Style]:
        return {arm.label: arm.style for arm in self.arms}

    @cached_property
    def means(self) -> pd.DataFrame:
        """Return one row per arm and place, the mean with its interval; also means over depths."""
        rows = self.table[self.table.number.isna() & self.table.arm.isin(self.looks)]
        evaluated = self._evaluated[rows.index]
        trained, rows = rows[~evaluated], rows[evaluated]
        sizes = [dict(held.groupby("arm").label.nunique()) for held in (trained, rows)]
        parts = (trained, pd.concat([rows, over_depths(rows)]))
        return pd.concat(map(over_seeds, parts, sizes), ignore_index=True)

    def cells(self, *measures: str, **at: Any) -> pd.DataFrame:
        """Return the means of some measures at a place; None: the field does not apply."""
        held = [self._by_measure[name] for name in measures if name in self._by_measure]
        found = pd.concat(held) if len(held) > 1 else held[0] if held else self.means[:0]
        kept = np.ones(len(found), bool)
        for name, value in ({"variant": "", "task": "", "step": None} | at).items():
            kept &= (found[name].isna() if value is None else found[name] == value).to_numpy()
        return found[kept]

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
        one, two = (rows[rows.arm == each.label] for each in (arm, other))
        both = one.merge(two, on=["source", "length", "seed"], suffixes=("", "_other"))
        both = both.assign(x=_log(both.value) - _log(both.value_other))
        made = _means(both.groupby(["source", "length"], sort=False))
        return made.assign(**{name: np.exp(made[name]) for name in ("value", "low", "high")})


def as_table(
    runs: Sequence[TrainedRun], rows: Sequence[Iterable[Row]], others: Iterable[Row]
) -> pd.DataFrame:
    """Return the rows of each run, and those of no run, as one table."""
    about = [
        {"run": run.name, "arm": arm, "label": label, "model": run.model_name,
         "seed": run.seed if isinstance(run.seed, int) else None,
         "family": run.family, "bilevel": run.bilevel}
        for run, (arm, label) in zip(runs, run_labels(runs), strict=True)
    ]  # fmt: skip
    records = [asdict(row) | own for own, held in zip(about, rows, strict=True) for row in held]
    blank = {"label": "", "model": "", "family": "", "bilevel": None}
    records += [asdict(row) | blank for row in others]
    for record in records:
        record |= {k: visible(held) for k, held in record.items() if isinstance(held, str)}
    table = pd.DataFrame(records, columns=[*COLUMNS, *_ABOUT])
    numbers = {field.name for field in fields(Row) if "None" in str(field.type)}
    return table.astype({name: "float64" if name in numbers else object for name in table})


def run_labels(runs: Sequence[TrainedRun]) -> list[tuple[str, str]]:
    """Return (arm, own label) of each run; the latter is its folder if the arm has several runs."""
    groups = zip(arm_labels(runs), group_by_arm(runs), strict=True)
    held = {id(run): (label, len(group)) for label, group in groups for run in group}
    arms = [held[id(run)] for run in runs]
    own = labelled([(label if size == 1 else run.label, run.folder)
                    for run, (label, size) in zip(runs, arms, strict=True)])  # fmt: skip
    return [(label, name) for (label, _), name in zip(arms, own, strict=True)]


def arm_labels(runs: Sequence[TrainedRun]) -> list[str]:
    """Return the label of each arm of `group_by_arm`: the model, or the folder if fine-tuned."""
    groups = group_by_arm(runs)
    folders = [first.folder.resolve() for first, *_ in groups]
    stems = [folder.with_name(stem(first.name, first.seed)) if more else folder
             for folder, (first, *more) in zip(folders, groups, strict=True)]  # fmt: skip
    taken = Counter(stems)
    folders = [short if taken[short] == 1 else folder
               for short, folder in zip(stems, folders, strict=True)]  # fmt: skip
    return labelled([
        (first.at(folder.name) if _is_named(first) else first.model_name, folder)
        for folder, (first, *_) in zip(folders, groups, strict=True)
    ])  # fmt: skip


def _is_named(run: TrainedRun) -> bool:
    """Return whether a run is labelled by its folder: fine-tuned, or not the trained model."""
    return run.step is not None or bool(run.config.get("task"))


def labelled(named: Sequence[tuple[str, Path]]) -> list[str]:
    """Return the names; equal ones are replaced by as much of their folders as differs."""
    labels = [visible(name) for name, _ in named]
    parts = [[*map(visible, path.resolve().parts)] for _, path in named]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        again = Counter(labels)
        labels = ["/".join(own[-depth:]) if again[label] > 1 else label
                  for label, own in zip(labels, parts, strict=True)]  # fmt: skip
    turns = [labels[: place + 1].count(label) for place, label in enumerate(labels)]
    return [f"{label} ({number})" if number > 1 else label
            for label, number in zip(labels, turns, strict=True)]  # fmt: skip


def over_depths(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each run's means over depths, or sums of trials, as rows without a depth."""
    deep = rows[rows.depth.notna() & (rows.task != "")]
    keys = [name for name in deep.columns if name not in ("depth", "value", "low", "high", "note")]
    groups = deep.groupby(keys, dropna=False, sort=False)
    made = groups.agg(value=("value", _mean), total=("value", "sum"), note=("note", "first"))
    made = made.reset_index()
    made["value"] = made.value.where(~made.measure.isin(_SUMS), made.total)
    return made.drop(columns="total")


def over_seeds(rows: pd.DataFrame, sizes: Mapping[str, int]) -> pd.DataFrame:
    """Return one row per arm and place: of a single run as it is, of several the mean.

    sizes: runs of each arm. low and high of a mean are Student's 95% interval over seeds.
    """
    alone = rows.arm.map(sizes) == 1
    several = rows[~alone]
    geometric = several.measure.isin(_GEOMETRIC)
    several = several.assign(x=_log(several.value).where(geometric, several.value))
    made = _means(several.groupby(["arm", *_AT], dropna=False, sort=False))
    made = made[made.seeds == made.arm.map(sizes)]  # a mean over fewer seeds is not comparable
    ends = ["value", "low", "high"]
    geometric = made.measure.isin(_GEOMETRIC)
    logs = made[ends].clip(upper=709)  # whose exponential a float still holds
    made[ends] = made[ends].where(~geometric, np.exp(logs), axis=0)
    made[ends[1:]] = made[ends[1:]].where(made.unit != "share", made[ends[1:]].clip(0.0, 1.0))
    sums = made.measure.isin(_SUMS)
    made["value"] = made.value.where(~sums, made.total)
    made[ends[1:]] = made[ends[1:]].where(~sums)
    kept = ["arm", *_AT, *ends, "note", "seeds"]
    return pd.concat([rows[alone].assign(seeds=1)[kept], made[kept]], ignore_index=True)


def _means(groups: Any) -> pd.DataFrame:
    """Return the mean of x in each group with its interval; NaN if any x is not finite."""
    made = groups.agg(value=("x", _mean), half=("x", _half), total=("value", "sum"),
                      seeds=("x", "size"), note=("note", "first")).reset_index()  # fmt: skip
    return made.assign(low=made.value - made.half, high=made.value + made.half)


def _mean(values: pd.Series) -> float:
    return float(values.mean(skipna=False))


def _half(values: pd.Series) -> float:
    half = half_width(values.tolist())
    return half if math.isfinite(half) else math.nan


def _log(values: pd.Series) -> pd.Series:
    return np.log(values.where(values > 0))
