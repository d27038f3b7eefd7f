"""The tasks by name: each is a file of conf/task, which says what can be set of it."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import yaml

from bipe.build import build
from train.errors import DataError, nearest
from train.tasks.scrolls.example import Task


def tasks() -> list[str]:
    """The names of all tasks, official and generated."""
    return sorted(_descriptions())


def find_task(name: str, **settings: Any) -> Task:
    """The task of a name, with some of the keys of its file set otherwise.

    find_task("qmsum", path="qmsum.zip"). A setting of None leaves the file's value.
    Raises DataError for a name or a key that is not there.
    """
    known = _descriptions()
    if name not in known:
        raise DataError(f"task: there is no {name}; {nearest(name, known)}")
    description = known[name]
    for key in settings:
        if key not in description and settings[key] is not None:
            raise DataError(f"task {name} has no key {key}; {nearest(key, description)}")
    given = {key: value for key, value in settings.items() if value is not None}
    return build({**description, **given})


@cache
def _descriptions() -> dict[str, dict[str, Any]]:
    folder = resources.files("conf") / "task"
    return {
        file.name.removesuffix(".yaml"): yaml.safe_load(file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
    }
