"""SCROLLS: scores by task with their spread over seeds, lengths of outputs, what was cut."""

from collections.abc import Sequence

from train.report.compare import highest
from train.report.formats import DASH, count, fixed, percent, short
from train.report.markup import Markup, join, tag
from train.report.scrolls import ScrollsModel, TaskScore, task_names
from train.report.sections.published import stated
from train.report.tables import emphasised, section, table, with_detail
from train.report.targets import sources_of, target_of, targets
from train.tasks.scrolls.archives import TASKS

_TITLE = "SCROLLS"
_MEANS = {"mean": "mean", "mean_without_quality": "mean without QuALITY"}


def scrolls(models: Sequence[ScrollsModel]) -> Markup:
    """One part a split; nothing where no run was scored."""
    splits = list(dict.fromkeys(model.split for model in models))
    if not splits:
        return join([])
    return section(
        "scrolls",
        _TITLE,
        tag("p", "Models that went on from trained runs on tasks of long documents, by the "
            "official scores: the geometric mean of ROUGE for summaries, F1 or exact match for "
            "answers, all in percent. QuALITY moves around chance at small sizes and the mean "
            "with it; hence the mean without."),
        *(_split(split, [m for m in models if m.split == split]) for split in splits),
    )  # fmt: skip


def _split(split: str, models: Sequence[ScrollsModel]) -> Markup:
    scores = [_scores(models)]
    if any(len(found) > 1 for model in models for found in model.tasks.values()):
        scores.append(_seeds(models))
    title = tag("h3", f"{split} split")
    return join([title, tag("div", *scores, class_="side"), _outputs(models)])


def _scores(models: Sequence[ScrollsModel]) -> Markup:
    """One row a task, one column a model: a model has up to seven tasks."""
    metrics = {task: found[0].metric for model in models for task, found in model.tasks.items()}
    rows: list[Sequence[str]] = []
    for task in task_names(models):
        best = highest((model.mean(task) for model in models), _write)
        cells = [_task(model, task, best) for model in models]
        rows.append([with_detail(task, metrics[task].replace("_", " ")), *cells])
    for kind, name in _MEANS.items():
        best = highest((model.means[kind] for model in models), _write)
        rows.append([name, *(_mean(model, kind, best) for model in models)])
    published = [_published(model) for model in models]
    if any(published):
        rows.append(["mean, published", *published])
    note = (
        "Small: the sample deviation over seeds and their number, then the 95% interval of the "
        "mean by Student's t. Bold: the highest. A mean is told where all its tasks were scored. "
        f"Published: {sources_of(targets('scrolls'))}; scores of single tasks and the split are "
        "unread."
    )
    return table(head=["task", *(model.name for model in models)], rows=rows, note=note)


def _write(score: float) -> str:
    return fixed(score, 2)


def _task(model: ScrollsModel, task: str, best: str | None) -> str:
    mean = model.mean(task)
    if mean is None:
        return "unscored" if task in model.tasks else DASH
    shown = emphasised(_write(mean), best)
    seeds, deviation, ends = model.scores(task), model.deviation(task), model.interval(task)
    if deviation is None or ends is None:
        return with_detail(shown, f"n={len(seeds)}")
    spread = with_detail(shown, f"\N{PLUS-MINUS SIGN}{_write(deviation)}, n={len(seeds)}")
    return with_detail(spread, f"{_write(ends[0])}{DASH}{_write(ends[1])}")


def _mean(model: ScrollsModel, kind: str, best: str | None) -> str:
    value = model.means[kind]
    return DASH if value is None else emphasised(_write(value), best)


def _published(model: ScrollsModel) -> str:
    """The published mean of a model by the name of its run: bipe_rope is BiPE-RoPE."""
    if not any(task in TASKS for task in model.tasks):
        return ""
    plain = model.name.lower().replace("_", "-")
    named = {target.model.lower(): target.model for target in targets("scrolls") if target.model}
    target = target_of("scrolls", named[plain]) if plain in named else None
    return "" if target is None else with_detail(stated(target), target.provenance)


def _seeds(models: Sequence[ScrollsModel]) -> Markup:
    seeds = sorted(
        {one.seed for model in models for found in model.tasks.values() for one in found}
    )
    rows: list[Sequence[str]] = []
    for model in models:
        rows.append([model.name])
        for task, found in model.tasks.items():
            by_seed = {one.seed: one.score for one in found}
            cells = [by_seed.get(seed) for seed in seeds]
            rows.append([task, *(DASH if score is None else _write(score) for score in cells)])
    return table(head=["seed", *map(str, seeds)], rows=rows, note="The score of each seed.")


def _outputs(models: Sequence[ScrollsModel]) -> Markup:
    rows: list[Sequence[str]] = []
    for model in models:
        rows.append([model.name])
        rows += [_output(task, found) for task, found in model.tasks.items()]
    head = ["outputs", "number", "words", "words of references", "tokens", "empty",
            "ended by length", "prompts cut", "tokens cut", "outputs cut"]  # fmt: skip
    note = (
        "Over all seeds. Words and tokens: the median, and the range of the 10% and 90% "
        "percentiles under it, of the first seed. Ended by length: the share that did not come "
        "to an end by itself. Cut: to fit row_length; a prompt loses its middle."
    )
    return table(head=head, rows=rows, note=note)


def _output(task: str, found: Sequence[TaskScore]) -> list[str]:
    first = found[0]
    made = sum(one.predictions for one in found)
    long = sum(one.ended.get("length", 0) for one in found)
    empty = sum(one.empty * one.predictions for one in found)
    cut = [sum(one.cut[name] for one in found) if all(one.cut for one in found) else None
           for name in ("prompts_cut", "prompt_tokens_cut", "outputs_cut")]  # fmt: skip
    return [
        task,
        count(made),
        *(_range(lengths) for lengths in (first.words, first.wanted, first.tokens)),
        percent(empty / made) if made else DASH,
        percent(long / made) if made else DASH,
        *(DASH if number is None else count(number) for number in cut),
    ]


def _range(lengths) -> str:
    if lengths is None:
        return DASH
    return with_detail(short(lengths.p50), f"{short(lengths.p10)}{DASH}{short(lengths.p90)}")
