"""`bipe scrolls validate=FILE` and `bipe scrolls submit=CSV`: what is handed in.

    bipe scrolls validate=predictions.json task=qmsum path=qmsum.zip
    bipe scrolls submit=scrolls.csv out=runs/scrolls

They take keys but no configuration, and need no torch. validate checks the format of a file of
predictions; with `task` and `path` also its ids. submit writes the predictions of all seven tasks,
from the runs in `out`. Exit status 1: faults found, 2: cannot be done.
"""

import json
from pathlib import Path

from train.errors import EXIT_FAILED_CHECK, DataError
from train.evals.scoring import find_scores
from train.fit import runs
from train.tasks.scrolls.archives import TASKS, find_task
from train.tasks.scrolls.examples import SPLITS
from train.tasks.scrolls.submission import check_submission, write_submission
from train.words import Words


def check_or_submit(words: Words) -> int:
    """Check predictions, or write those to submit; return the exit status."""
    keys = words.keys
    return _validate(keys) if "validate" in keys else _submit(keys)


def _validate(given: dict[str, str]) -> int:
    path, task = Path(given["validate"]), given.get("task")
    folder = path.resolve().parent.name
    split = given.get("split", folder if folder in SPLITS else "test")
    ids = None
    if task is not None and "path" in given:
        examples = find_task(task, path=given["path"]).examples(split)
        ids = {task: [example.id for example in examples]}
    predictions, faults = check_submission(path, ids=ids, task=task)
    for fault in faults:
        print(f"{path}: {fault}")
    counts = ", ".join(f"{name} {len(answers):,}" for name, answers in predictions.items())
    empty = sum(
        not str(text).strip() for answers in predictions.values() for text in answers.values()
    )
    result = f"faults: {len(faults)}" if faults else "no fault"
    read = "not compared with the examples (set task= and path=)"
    if ids:
        read = f"{task} compared with split={split}"
    print(f"{path}: {counts or 'no predictions'}, {empty} of them empty: {result}; {read}")
    return EXIT_FAILED_CHECK if faults else 0


def _submit(given: dict[str, str]) -> int:
    if "out" not in given:
        raise DataError("submit=FILE.csv needs out=STUDY, the folder of the runs")
    out, split = Path(given["out"]), given.get("split", "test")
    seed = given.get("seed", "0")
    scores = [
        score for score in find_scores(out) if (score.split, str(score.seed)) == (split, seed)
    ]
    models = sorted({score.model for score in scores})
    model = given.get("model") or (models[0] if len(models) == 1 else None)
    if not models:
        raise DataError(f"out={out}: holds no run with outputs of split={split}, seed={seed}")
    if model not in models:
        raise DataError(
            f"model must be one of those in {out}, was: {model}; there are: {', '.join(models)}"
        )
    wanted = [score for score in scores if score.model == model and score.task in TASKS]
    if parts := [str(score.folder) for score in wanted if score.is_part]:
        raise DataError(
            f"{', '.join(parts)}: not all examples of split={split} are decoded; repeat the "
            "command of each with scrolls.rows=null"
        )
    predictions = {}
    for score in wanted:
        path = score.folder / runs.SCROLLS / split / f"{score.task}.json"
        predictions[score.task] = json.loads(path.read_text(encoding="utf-8"))
    write_submission(Path(given["submit"]), predictions)
    print(f"{given['submit']}: {sum(map(len, predictions.values())):,} predictions of {model}")
    return 0
