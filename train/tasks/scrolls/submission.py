"""Predictions in the official formats of SCROLLS, and a check that a file will be accepted.

One task is a JSON object from id to text. The whole benchmark is a CSV with the columns Task, ID,
Prediction and the rows of all seven tasks. Both are written whole or not at all.
"""

import csv
import io
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from train.disk.files import write_changed, write_whole
from train.errors import DataError, refuse
from train.tasks.scrolls.archives import TASKS, parsed_once

COLUMNS = ("Task", "ID", "Prediction")
FILE = "scrolls_predictions.csv"  # as the official script names it
_SHOWN = 3
_NOT_UNICODE = re.compile("[\ud800-\udfff]")
_NOT_IN_TABLES = re.compile("[\0\ud800-\udfff]")


# What a file holds, by task and id; and why it would be refused.
Held = dict[str, dict[str, Any]]
Checked = tuple[Held, list[str]]


def write_predictions(path: Path, predictions: Mapping[str, str]) -> None:
    """Write the predictions of one task as JSON; DataError if one is not text."""
    faults = _content_faults(predictions, ids=None, table=False)
    refuse(faults, DataError, where=f"{path}: ")
    write_changed(path, json.dumps(dict(predictions), ensure_ascii=False, indent=1) + "\n")


def write_submission(path: Path, predictions: Mapping[str, Mapping[str, str]]) -> None:
    """Write the predictions of all seven tasks as CSV; DataError if one is missing or not text."""
    faults = list(_task_faults(predictions))
    for task, tasks in predictions.items():
        faults += [
            f"task {task}: {fault}" for fault in _content_faults(tasks, ids=None, table=True)
        ]
    refuse(faults, DataError, where=f"{path}: ")
    text = io.StringIO()
    # Quote all: a carriage return inside an answer would otherwise end the row.
    table = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows((task, id, tasks) for task in TASKS for id, tasks in predictions[task].items())
    write_whole(path, text.getvalue())


def check_submission(
    path: Path, *, ids: Mapping[str, Collection[str]] | None = None, task: str | None = None
) -> Checked:
    """Check a file of predictions: encoding, form, types, and ids against those expected.

    path: JSON of one task, or CSV of all. ids: per task; None: only the form is checked; a JSON
    file must be of one of these tasks. task: of a JSON file; default: the name of the file.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror}") from None
    except UnicodeDecodeError as fault:
        return {}, [f"byte {fault.start} is not UTF-8 ({fault.reason})"]
    whole = path.suffix.lower() == ".csv"
    contents, faults = _table(text) if whole else _object(text, task=task or path.stem)
    if whole and not faults:
        faults = list(_task_faults(contents))
    if not whole and ids is not None:
        faults += [
            f"task {name}: no ids to compare with, only of {', '.join(ids)}; set task"
            for name in contents
            if name not in ids
        ]
    for name, predictions in contents.items():
        expected = (ids or {}).get(name)
        faults += [
            f"task {name}: {fault}"
            for fault in _content_faults(predictions, ids=expected, table=whole)
        ]
    return contents, faults


def _object(text: str, *, task: str) -> Checked:
    try:
        loaded, twice = parsed_once(text)
    except (ValueError, RecursionError) as fault:
        return {}, [f"must be JSON: {fault}"]
    if not isinstance(loaded, dict):
        return {}, [f"must be a JSON object from id to prediction, was: {type(loaded).__name__}"]
    return {task: loaded}, [f"task {task}: {_ids_that(twice)} more than once"] if twice else []


def _table(text: str) -> Checked:
    """Return the predictions of a CSV file by task, and the faults of its form."""
    predictions: Held = {}
    faults: list[str] = []
    limit = csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    try:
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        header = next(rows, [])
        if sorted(header) != sorted(COLUMNS):
            return {}, [f"row 1: must name the columns {', '.join(COLUMNS)}, was: {header}"]
        at = [header.index(name) for name in COLUMNS]
        for number, row in enumerate(rows, 2):
            if len(row) != len(COLUMNS):
                faults.append(f"row {number}: must have {len(COLUMNS)} cells, had: {len(row)}")
                continue
            task, id, prediction = (row[i] for i in at)
            if id in predictions.setdefault(task, {}):
                faults.append(f"row {number}: task {task}: {_ids_that([id])} more than once")
            predictions[task][id] = prediction
    except csv.Error as fault:
        faults.append(f"must be CSV: {fault}")
    finally:
        csv.field_size_limit(limit)
    return predictions, faults


def _task_faults(held: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults in the set of tasks of a submission."""
    if missing := [task for task in TASKS if task not in held]:
        yield (
            f"no predictions of the test split for {', '.join(missing)} (scrolls.split=test); a "
            f"submission has all of {', '.join(TASKS)}"
        )
    if strange := [task for task in held if task not in TASKS]:
        yield f"there is no task {', '.join(map(repr, strange))}; there are: {', '.join(TASKS)}"


def _content_faults(
    predictions: Mapping[str, Any], *, ids: Collection[str] | None, table: bool
) -> list[str]:
    """Return the faults in the ids and texts of a task; table: they are in a CSV file."""
    unfit = _NOT_IN_TABLES if table else _NOT_UNICODE
    wrong = {
        "an id that is not text": [id for id in predictions if not isinstance(id, str)],
        "a prediction that is not text": [
            id for id, text in predictions.items() if not isinstance(text, str)
        ],
        "characters that cannot be written (lone surrogates, or NUL in CSV)": [
            id for id, text in predictions.items() if unfit.search(f"{id}{text}")
        ],
    }
    if ids is not None:
        expected, present = {*ids}, {*predictions}
        wrong["no prediction"] = [id for id in dict.fromkeys(ids) if id not in present]
        wrong["a prediction but no example"] = [id for id in predictions if id not in expected]
    faults = [f"{_ids_that(faulty)} {rule}" for rule, faulty in wrong.items() if faulty]
    return faults or ([] if predictions else ["there is no prediction"])


def _ids_that(ids: Sequence[Any]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    shown = ", ".join(map(repr, ids[:_SHOWN]))
    return f"{shown}{more} {'has' if len(ids) == 1 else 'have'}"
