"""The rows of SCROLLS: each seed with its lengths and cuts, then means over seeds and tasks."""

from collections.abc import Iterator
from dataclasses import replace

from train.report.markup import visible
from train.report.row import Row
from train.report.scrolls import ScrollsModel, TaskScore


def of_scrolls(model: ScrollsModel) -> Iterator[Row]:
    """The rows of a model; `source` is the split, `task` the task."""
    for task, found in model.tasks.items():
        for one in found:
            for row in _of_task(one):
                yield replace(_named(row, model, task), seed=one.seed)
        yield from (_named(row, model, task) for row in _over_seeds(model, task))
    for kind, value in model.means.items():
        if value is not None:
            yield _named(Row(measure=f"scrolls_{kind}", unit="percent", value=value), model, "")


def _named(row: Row, model: ScrollsModel, task: str) -> Row:
    return replace(row, model=visible(model.name), source=visible(model.split), task=visible(task))


def _of_task(one: TaskScore) -> Iterator[Row]:
    if one.score is not None:
        yield Row(measure="scrolls_score", unit="percent", value=one.score,
                  note=visible(one.metric))  # fmt: skip
    for name, value in one.values.items():
        yield Row(measure=f"scrolls_{visible(name)}", unit="percent", value=value)
    yield Row(measure="scrolls_predictions", unit="predictions", value=one.predictions)
    yield Row(measure="scrolls_empty", unit="share", value=one.empty)
    for kind, number in one.ended.items():
        yield Row(measure=f"scrolls_ended_by_{visible(kind)}", unit="predictions", value=number)
    for whose, unit, lengths in (
        ("prediction", "words", one.words),
        ("prediction", "tokens", one.tokens),
        ("reference", "words", one.wanted),
    ):
        for rank in ("mean", "p10", "p50", "p90", "most") if lengths else ():
            yield Row(measure=f"scrolls_{whose}_{unit}_{rank}", unit=unit,
                      value=getattr(lengths, rank))  # fmt: skip
    for name, number in one.cut.items():
        unit = "tokens" if "tokens" in name else "examples"
        yield Row(measure=f"scrolls_{name}", unit=unit, value=number)


def _over_seeds(model: ScrollsModel, task: str) -> Iterator[Row]:
    ends, deviation = model.interval(task), model.deviation(task)
    if ends is None or deviation is None:
        return
    told = f"mean over {len(model.scores(task))} seeds"
    yield Row(measure="scrolls_score_mean", unit="percent", low=ends[0], high=ends[1],
              value=model.mean(task), note=told)  # fmt: skip
    yield Row(measure="scrolls_score_deviation", unit="percent", value=deviation, note=told)
