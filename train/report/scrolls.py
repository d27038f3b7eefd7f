"""Scores of SCROLLS, read from RUN/scrolls/SPLIT/scores.json, and brought together by model.

`bipe scrolls` leaves one run a task and seed; here a model has tasks, and a task has seeds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from train.errors import ReportError
from train.evals.scoring.benchmark import FORMAT, SCORES, benchmark_means
from train.fit import runs
from train.report.entry import Entry, open_json
from train.report.intervals import Interval, interval
from train.tasks.scrolls.archives import TASKS

_CUT = ("prompts_cut", "prompt_tokens_cut", "outputs_cut", "output_tokens_cut")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Of texts, in one unit."""

    mean: float
    p10: float
    p50: float
    p90: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScore:
    """One run on one split of a task. score and values: percent; None without references.

    words, tokens: of the predictions. wanted: words of the references; None without.
    cut: examples and tokens that truncation left out, by the names of `_CUT`; empty if untold.
    """

    file: Path
    model: str
    split: str
    task: str
    seed: int
    metric: str
    score: float | None
    values: Mapping[str, float]
    predictions: int
    empty: float
    ended: Mapping[str, int]
    words: Lengths | None
    tokens: Lengths | None
    wanted: Lengths | None
    cut: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrollsModel:
    """One model on one split: its runs by task, in the order of the benchmark, then by seed."""

    name: str
    split: str
    tasks: Mapping[str, tuple[TaskScore, ...]]

    def scores(self, task: str) -> list[float]:
        """The scores of the seeds of a task; none where it was not scored."""
        return [one.score for one in self.tasks.get(task, ()) if one.score is not None]

    def mean(self, task: str) -> float | None:
        found = self.scores(task)
        return fmean(found) if found else None

    def deviation(self, task: str) -> float | None:
        """Of the sample of seeds."""
        found = self.scores(task)
        return stdev(found) if len(found) > 1 else None

    def interval(self, task: str) -> Interval | None:
        """The 95% interval of the mean over seeds."""
        return interval(self.scores(task))

    @property
    def means(self) -> dict[str, float | None]:
        """Over the seven tasks and over all but QuALITY; None where a task is missing."""
        official = {task: self.mean(task) for task in self.tasks if task in TASKS}
        return benchmark_means(
            {task: score for task, score in official.items() if score is not None}
        )


def load_scrolls(folders: Sequence[Path]) -> tuple[ScrollsModel, ...]:
    """The models that the run folders hold scores of; none where `bipe scrolls` scored nothing.

    Where two runs of one model share task, split and seed, the later one is told apart by its
    folder: it was trained or decoded in another way.

    Raises ReportError for a file that breaks its format, or is named twice.
    """
    found = [_score(file) for folder in folders for file in scores_of(Path(folder))]
    grouped: dict[tuple[str, str], dict[str, dict[int, TaskScore]]] = {}
    for one in found:
        for name in (one.model, f"{one.model} ({_stem(one)})"):
            seeds = grouped.setdefault((name, one.split), {}).setdefault(one.task, {})
            if one.seed not in seeds:
                seeds[one.seed] = one
                break
        else:
            raise ReportError(
                f"{one.file}: {one.task} {one.split} seed {one.seed} of {one.model} has scores in "
                f"{seeds[one.seed].file} already; report.runs names the runs to report"
            )
    return tuple(
        ScrollsModel(
            name=name,
            split=split,
            tasks={task: _by_seed(tasks[task]) for task in _ordered(tasks)},
        )
        for (name, split), tasks in grouped.items()
    )


def _stem(one: TaskScore) -> str:
    """The name of the run's folder without task and seed: zero_qmsum_seed1 -> zero."""
    return one.file.parents[2].name.removesuffix(f"_{one.task}_seed{one.seed}")


def scores_of(folder: Path) -> list[Path]:
    """The files with scores of a run folder, one a split."""
    return sorted(folder.glob(f"{runs.SCROLLS}/*/{SCORES}"))


def task_names(models: Iterable[ScrollsModel]) -> list[str]:
    """All tasks of all models, those of the benchmark first and in its order."""
    return _ordered(dict.fromkeys(task for model in models for task in model.tasks))


def _ordered(tasks: Iterable[str]) -> list[str]:
    held = list(tasks)
    return [task for task in TASKS if task in held] + [task for task in held if task not in TASKS]


def _by_seed(seeds: Mapping[int, TaskScore]) -> tuple[TaskScore, ...]:
    return tuple(seeds[seed] for seed in sorted(seeds))


def _score(file: Path) -> TaskScore:
    cure = "`bipe scrolls` writes it"
    root = open_json(file, cure=cure)
    if root["format"].text() != FORMAT:
        raise root["format"].fault(f"'{FORMAT}'", cure=cure)
    told = root["statistics"]
    made, score = told["predictions"], root.optional("score")
    references, cut = told.optional("references"), told.optional("truncated")
    return TaskScore(
        file=file,
        model=root["model"].text(),
        split=root["split"].text(),
        task=root["task"].text(),
        seed=root["seed"].count(),
        metric=root["metric"].text(),
        score=None if score is None else _percent(score),
        values={name: _percent(value) for name, value in root["values"].items()},
        predictions=made["count"].count(),
        empty=told["empty"].number(),
        ended={kind: n.count() for kind, n in root["ended"].items()},
        words=_lengths(made.optional("words")),
        tokens=_lengths(made.optional("tokens")),
        wanted=_lengths(references.optional("words") if references else None),
        cut={} if cut is None else {name: cut[name].count() for name in _CUT},
    )


def _percent(entry: Entry) -> float:
    value = entry.number()
    if not 0 <= value <= 100:
        raise entry.fault("a score in percent, from 0 to 100")
    return value


def _lengths(entry: Entry | None) -> Lengths | None:
    if entry is None:
        return None
    ranks = ("mean", "p10", "p50", "p90", "most")
    return Lengths(**{name: entry[name].number() for name in ranks})
