"""`bipe scrolls validate=FILE` and `submit=FILE.csv`: predictions that were written, checked.

    bipe scrolls validate=RUN/scrolls/test/qmsum.json [task=qmsum path=qmsum.zip split=test]
    bipe scrolls submit=scrolls_predictions.csv out=STUDY [split=test model=NAME seed=0]

validate: the form of a file of predictions; with `task` and `path`, its ids as well. submit: the
predictions of all seven tasks, of the runs in a folder, as the one CSV that is submitted. Takes
keys and no configuration. Exit status: 0 all is well, 1 there are faults, 2 it cannot be done.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from train.errors import DataError, nearest
from train.evals.scoring.benchmark import SCORES, find_scores
from train.fit import runs
from train.tasks.scrolls.archives import TASKS, find_task
from train.tasks.scrolls.examples import SPLITS
from train.tasks.scrolls.submission import check_submission, write_submission

_KEYS = ("validate", "submit", "task", "path", "split", "out", "model", "seed")
EXIT_FAULTS = 1
EXIT_FAULT = 2


def main(words: list[str]) -> int:
    """Run the command on its arguments; returns the exit status."""
    try:
        given = _parsed(words)
        return _validate(given) if "validate" in given else _submit(given)
    except (DataError, OSError) as fault:
        print(f"bipe: scrolls: {fault}", file=sys.stderr)
        return EXIT_FAULT


def _parsed(words: list[str]) -> dict[str, str]:
    given = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise DataError(f"{word}: must be KEY=VALUE, one of {', '.join(_KEYS)}")
        if key not in _KEYS:
            raise DataError(f"there is no key {key!r}; {nearest(key, _KEYS)}")
        given[key] = value
    if given.get("split", "test") not in SPLITS:
        raise DataError(f"split must be one of {', '.join(SPLITS)}, was: {given['split']}")
    return given


def _validate(given: dict[str, str]) -> int:
    path, task = Path(given["validate"]), given.get("task")
    ids = None
    if task is not None and "path" in given:
        examples = find_task(task, path=given["path"]).examples(given.get("split", "test"))
        ids = {task: [example.id for example in examples]}
    found = check_submission(path, ids=ids, task=task)
    for fault in found.faults:
        print(f"{path}: {fault}")
    counts = ", ".join(f"{name} {count:,}" for name, count in found.predictions.items())
    empty = sum(len(blank) for blank in found.empty.values())
    told = f"{len(found.faults)} faults" if found.faults else "no fault"
    print(f"{path}: {counts or 'no predictions'}, {empty} of them empty: {told}")
    return EXIT_FAULTS if found.faults else 0


def _submit(given: dict[str, str]) -> int:
    if "out" not in given:
        raise DataError("submit=FILE.csv needs out=STUDY, the folder of the runs")
    out, split = Path(given["out"]), given.get("split", "test")
    seed = int(given.get("seed", "0"))
    scores = [one for one in find_scores(out) if one["split"] == split and one["seed"] == seed]
    models = sorted({str(one["model"]) for one in scores})
    model = given.get("model") or (models[0] if len(models) == 1 else None)
    if model not in models:
        told = f"{', '.join(models)}" if models else f"no run with split={split}, seed={seed}"
        raise DataError(f"model must be one of those in {out}, was: {model}; there is: {told}")
    predictions = {}
    for task in TASKS:
        for path in sorted(out.glob(f"*/{runs.SCROLLS}/{split}/{task}.json")):
            told = json.loads((path.parent / SCORES).read_text(encoding="utf-8"))
            if (told["model"], told["seed"]) == (model, seed):
                predictions[task] = json.loads(path.read_text(encoding="utf-8"))
    write_submission(Path(given["submit"]), predictions)
    print(f"{given['submit']}: {sum(map(len, predictions.values())):,} predictions of {model}")
    return 0
