"""Runs that differ by their seed alone, brought together: arms, and how arms compare.

Arms are compared seed by seed, because runs of one seed have the same batches and the same weights
to start from. means.py tells what the mean of an arm is, intervals.py how sure it is.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from train.report.compare import measured
from train.report.intervals import half_width
from train.report.means import merged
from train.report.records import Run

# What may differ between the runs of an arm: what they are called, and all that is measured later.
_FREE = {
    "data", "evaluate", "generate", "if_exists", "logger", "name", "out", "report", "scrolls",
    "seed", "statistics",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Perplexity of an arm over that of another, of the seeds that both have.

    ratio: geometric mean. half: half the width of its 95% interval, as a logarithm.
    """

    ratio: float
    half: float
    seeds: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out equality."""
        return abs(math.log(self.ratio)) > self.half


def arms(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The runs, those of several seeds as one with its `members`, in the order of the first.

    Members stand in the order of their seeds. Where runs are alike in all but folder and have
    seeds in common, those of folders that differ by the seed alone belong together.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_key(run), []).append(run)
    made = [merged(part) for group in groups.values() for part in _without_repeats(group)]
    order = {id(run): place for place, run in enumerate(runs)}
    made.sort(key=lambda arm: min(order[id(run)] for run in arm.members or (arm,)))
    names = Counter(run.model.name for run in made if run.members)
    return _unique(
        replace(run, label=_label(run, alone=names[run.model.name] == 1)) if run.members else run
        for run in made
    )


def difference(arm: Run, other: Run, source: str, length: int) -> Difference | None:
    """How an arm compares with another at a length; None without two seeds that both have."""
    theirs = {run.training.seed: run for run in other.members}
    logs = []
    for run in arm.members:
        twin = theirs.get(run.training.seed)
        values = [measured(each, source, length) for each in (run, twin) if each is not None]
        if len(values) == 2 and all(v is not None and math.isfinite(v) and v > 0 for v in values):
            logs.append(math.log(values[0] / values[1]))  # type: ignore[operator]
    if len(logs) < 2:
        return None
    return Difference(ratio=math.exp(fmean(logs)), half=half_width(logs), seeds=len(logs))


def _key(run: Run) -> str:
    """All that decides what a run is, but its seed; a run that tells no seed is on its own."""
    seed = run.training.seed
    if seed is None:
        return run.label
    kept = {name: value for name, value in run.config.items() if name not in _FREE}
    if isinstance(parent := kept.get("checkpoint"), str):
        kept["checkpoint"] = stem(parent.rstrip("/"), seed)
        how = kept.get("extend")
        if isinstance(how, Mapping):  # whose weights they are is told by the seed
            kept["extend"] = {name: value for name, value in how.items() if name != "sha256"}
    else:
        kept.pop("extend", None)  # says how a checkpoint is extended
    model: dict[str, Any] = {**run.model.config, "encoding": run.model.encoding}
    if kept.get("checkpoint"):
        # Lengths stand there that the training of its parent was measured to have.
        del model["encoding"]
        kept.pop("encoding", None)
    told = [run.model.name, model, kept]
    return json.dumps(_without_nulls(told), sort_keys=True, default=str)


def _without_nulls(value: Any) -> Any:
    """The same without keys that say nothing, so that files of other versions compare alike.

    A key that is absent, null or an empty mapping is left out; 0, false and "" do say something.
    """
    if isinstance(value, Mapping):
        kept = {key: _without_nulls(held) for key, held in value.items()}
        return {key: held for key, held in kept.items() if held is not None and held != {}}
    return [_without_nulls(held) for held in value] if isinstance(value, list | tuple) else value


def _without_repeats(group: Sequence[Run]) -> Iterable[list[Run]]:
    """The group by seed; where seeds come twice, one group for each name of folders."""
    by_stem: dict[str, list[Run]] = {}
    alone = len({run.training.seed for run in group}) == len(group)
    for run in group:
        by_stem.setdefault("" if alone else stem(run.folder, run.training.seed), []).append(run)
    for held in by_stem.values():
        # Folders of one name come from several places: each run of a seed joins the next arm.
        parts: list[dict[int | None, Run]] = []
        for run in held:
            free = next((part for part in parts if run.training.seed not in part), None)
            if free is None:
                parts.append(free := {})
            free[run.training.seed] = run
        for part in parts:
            yield sorted(part.values(), key=lambda run: run.training.seed or 0)


def stem(folder: str, seed: int | None) -> str:
    """The name of a folder without the seed at its end: rope_1, rope_seed1 -> rope."""
    for end in (f"_seed{seed}", f"_{seed}"):
        if folder.endswith(end):
            return folder.removesuffix(end)
    return folder


def _label(run: Run, *, alone: bool) -> str:
    """The model's name; where other arms have it too, the folder without the seed."""
    return run.model.name if alone else stem(run.members[0].folder, run.members[0].training.seed)


def _unique(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Where a label comes again, its number behind it."""
    seen: Counter[str] = Counter()
    made = []
    for run in runs:
        seen[run.label] += 1
        again = seen[run.label] > 1
        made.append(replace(run, label=f"{run.label} ({seen[run.label]})") if again else run)
    return tuple(made)
