"""What runs and their arms are called: by model or folder, and no two of them alike."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segmenters.wording import visible
from train.fit.trained_run import TrainedRun, group_by_arm, stem


@dataclass(frozen=True, kw_only=True)
class LabelledRun:
    """A run of the report. arm: what the runs that differ only by their seed are called.

    label: what it is called itself. machine: that it was measured on, empty if it was not.
    """

    run: TrainedRun
    arm: str
    label: str
    machine: Mapping[str, Any]

    @property
    def columns(self) -> dict[str, Any]:
        """Return the fields of its rows that say whose they are."""
        run, seed = self.run, self.run.seed if isinstance(self.run.seed, int) else None
        return {"run": run.name, "arm": self.arm, "label": self.label, "seed": seed,
                "model": run.model_name, "family": run.family}  # fmt: skip


def run_labels(runs: Sequence[TrainedRun]) -> list[tuple[str, str]]:
    """Return (arm, label) of each run; the latter is its folder if the arm has several runs."""
    groups = group_by_arm(runs)
    labels = labelled(_arm_names(groups))
    arms = {id(run): (label, run.label if more else label)
            for label, (first, *more) in zip(labels, groups, strict=True)
            for run in (first, *more)}  # fmt: skip
    names = labelled([(arms[id(run)][1], run.folder) for run in runs])
    return [(arms[id(run)][0], name) for run, name in zip(runs, names, strict=True)]


def _arm_names(groups: Sequence[Sequence[TrainedRun]]) -> list[tuple[str, Path]]:
    """Return name and folder of arms: of the model, or the folder if fine-tuned or a checkpoint."""
    folders = [first.folder.resolve() for first, *_ in groups]
    stems = [folder.with_name(stem(first.name, first.seed)) if more else folder
             for folder, (first, *more) in zip(folders, groups, strict=True)]  # fmt: skip
    folders = [short if stems.count(short) == 1 else folder
               for short, folder in zip(stems, folders, strict=True)]  # fmt: skip
    return [
        (first.at(folder.name) if first.step is not None or first.config.get("task")
         else first.model_name, folder)
        for folder, (first, *_) in zip(folders, groups, strict=True)
    ]  # fmt: skip


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
