"""What a study needs of its machine: packages, programs, grammars and files, each with its cure.

`bipe doctor` prints it; the commands ask for it before they work, and not where it is first used,
which may be after days.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from bipe.arguments import nodes
from bipe.build import TARGET
from train.config import Config, encoding_name, slug
from train.data.store.folder import MANIFEST, folders_of, read_top
from train.disk.files import read_json
from train.errors import ConfigError, DataError, MissingPackage, UserError, install_command
from train.fit import runs
from train.fit.checkpoints import find_place, find_places
from train.fit.trained_run import data_of_run, data_of_runs, read_run

log = logging.getLogger("bipe")

Status = Literal["ok", "warn", "fail"]
# What a class needs beyond the requirements of bipe: module, extra.
_BY_CLASS = {
    "KingJamesBible": ("bible", "demo"),
    "MultipleChoice": ("bible", "demo"),
    "VerseRetrieval": ("bible", "demo"),
    "Ray": ("ray", "ray"),
    "TensorBoardLogger": ("tensorboard", "tensorboard"),
    "Trackio": ("trackio", "trackio"),
}
_TRAINS = ("pretrain", "extend", "retrofit", "scrolls")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check. cure: a command or a setting, empty if there is nothing to do."""

    name: str
    status: Status
    text: str
    cure: str = ""


def warned(name: str, text: str, cure: str) -> Finding:
    """Return a finding that is in order if it has no cure."""
    return Finding(name, "warn" if cure else "ok", text, cure)


def require(config: Config, *, command: str) -> None:
    """Raise what a command would be refused for, before torch is loaded.

    MissingPackage names all packages, programs and compilers that it will lack; what only makes its
    results poorer is logged. RunError or DataError is for folders without runs or data.
    """
    findings = dict.fromkeys(_needs(config, command))
    for finding in findings:
        if finding.status == "warn":
            log.warning("%s: %s", finding.text, finding.cure)
    missing = [
        f"{finding.text}: {finding.cure}" for finding in findings if finding.status == "fail"
    ]
    if missing:
        raise MissingPackage("\n".join(missing))
    if command in ("evaluate", "report"):
        _refuse_foreign(getattr(config, command).runs, key=f"{command}.runs")
    if command == "evaluate":
        if (long_ppl := config.evaluate.long_ppl) is not None and long_ppl.evaluator is not None:
            _refuse_foreign(long_ppl.evaluator, key="evaluate.long_ppl.evaluator")
        for place in find_places(config.evaluate.runs, key="evaluate.runs"):
            data_of_run(read_run(place), asked=config.data, out=config.out)
    if command == "generate":
        require_run(config.generate.run, key="generate.run")
    if command == "pretrain":
        run = Path(config.out, config.name or slug(encoding_name(config.encoding)))
        for folder in folders_of(config.data).values():
            if (run / runs.CONFIG).is_file() and not folder.exists():
                done = f"; {run} is finished" * (run / runs.MODEL).is_dir()
                raise DataError(f"{folder} is gone; if it was moved, set data=FOLDER{done}")
            if not (folder / MANIFEST).is_file():
                read_top(folder)  # which says what is there


def require_run(place: Any, *, key: str) -> None:
    """Raise ConfigError or RunError unless a place is one trained run or a model folder."""
    if not isinstance(place, str):
        raise ConfigError(f"{key}=RUN must be set to the trained run to start from")
    _refuse_foreign(place, key=key)
    find_place(place, key=key)


def _refuse_foreign(places: str | list[str], *, key: str) -> None:
    """Raise ConfigError for a folder of Hugging Face transformers, here or on their Hub."""
    for place in [places] if isinstance(places, str) else places:
        file = Path(place) / "config.json"
        if place.startswith("hf://") or "model_type" in (read_json(file) or {}):
            raise ConfigError(
                f"{key}: {place} is a model of Hugging Face transformers; bipe convert "
                f"{shlex.quote(place)} to=bipe out=RUN makes a run of it: then set {key}=RUN"
            )


def data_of_study(places: str | list[str], config: Config) -> runs.Data:
    """Return the data that all runs in these places share, or else what is set."""
    with suppress(UserError, OSError):
        several = [read_run(place) for place in find_places(places)]
        taken = data_of_runs(several, asked=config.data, out=config.out)
        if taken and all(digest == taken[0] for digest in taken):
            return taken[0]
    return config.data


def needs(config: Config, *, command: str) -> list[Finding]:
    """Return what a command needs with this configuration, there or not."""
    return list(dict.fromkeys([*_needs(config, command), *_files(config, command)]))


def _needs(config: Config, command: str) -> Iterator[Finding]:
    trains = command in _TRAINS
    if trains and config.logger:
        yield from _of_classes(config.logger)
    if command == "scrolls" and config.task:
        yield from _of_classes(config.task)
        yield from _scoring(config)
    if command == "prepare":
        yield from _of_classes([config.corpus, config.engine])
        yield from _of_preparing(config)
    if trains and config.compile:
        yield compiler(required="compile=true")


def _of_classes(section: Any) -> Iterator[Finding]:
    """Yield the packages that the classes of a section need."""
    for _, node in nodes(section, ""):
        name = str(node.get(TARGET)).rpartition(".")[2]
        packages = node.get("packages") if name == "PackageCode" else None
        wanted = {
            package: f"pip install {package}" for package in packages or () if package != "stdlib"
        }
        if name in _BY_CLASS:
            module, extra = _BY_CLASS[name]
            wanted[module] = install_command(extra)
        for module, cure in wanted.items():
            yield _package(module, needed_by=name, cure=cure)


def _package(module: str, *, needed_by: str, cure: str) -> Finding:
    if find_spec(module) is not None:
        return Finding(module, "ok", f"{needed_by} needs {module}: installed")
    return Finding(module, "fail", f"{needed_by} needs {module}, which is not installed", cure)


def _scoring(config: Config) -> Iterator[Finding]:
    """Yield the package that a task's outputs are scored with, if any."""
    task = config.task
    if task is None:
        return
    split, kind = config.scrolls.split, str(task.get(TARGET))
    hidden = split is None or (split == "test" and kind.endswith(".ScrollsTask"))  # no references
    if not hidden and task.built.metric == "rouge":
        by = "the task's metric (ROUGE)"
        yield _package("rouge_score", needed_by=by, cure=install_command("scrolls"))


def _of_preparing(config: Config) -> Iterator[Finding]:
    """Yield the grammars of the languages to be cut by statements, and the programs of Slurm."""
    for _, node in nodes(config.corpus, ""):
        if node.get("granularity") == "logical":
            yield grammars(needed_by="granularity=logical", language=node.get("language"))
            break
    engine = config.engine
    if not config.dry_run and str(engine.get(TARGET)).endswith(".Slurm"):
        for name in ("sbatch", "squeue", "srun")[: 3 if engine.get("srun", True) else 2]:
            yield program(name, needed_by="engine=slurm")


def program(name: str, *, needed_by: str) -> Finding:
    """Return whether a program is on the PATH that something needs."""
    path = shutil.which(name)
    if path is not None:
        return Finding(name, "ok", f"{needed_by} needs {name}: {path}")
    cure = "run it on a login node of the cluster, or load its Slurm module (module load slurm)"
    return Finding(name, "fail", f"{needed_by} needs {name}, which is not on the PATH", cure)


def compiler(*, required: str | None = None) -> Finding:
    """Return whether torch.compile finds a C++ compiler and the headers of Python."""
    name = os.environ.get("CXX") or "g++"
    path, header = shutil.which(name), Path(sysconfig.get_path("include"), "Python.h")
    if path is not None and header.is_file():
        return Finding("compiler", "ok", f"{path}, with the headers of Python")
    lacks = f"a C++ compiler ({name})" if path is None else f"the headers of Python ({header})"
    cure = f"apt-get install {'g++' if path is None else 'python3-dev'}"
    cure += ", or set compile=false" * (required is not None)
    text = f"{required or 'compile=true'} needs {lacks}, which is not there"
    return Finding("compiler", "warn" if required is None else "fail", text, cure)


def grammars(*, needed_by: str, language: str | None = None) -> Finding:
    """Return which grammars of tree-sitter are missing; without one, physical lines are cut."""
    from segmenters.code import advice
    from segmenters.code.tables import TABLES

    languages = [language] if language in TABLES else sorted(TABLES)
    missing = [name for name in languages if advice.missing(name)]
    if not missing:
        return Finding(
            "grammars", "ok", f"{needed_by}: all {len(languages)} grammars are installed"
        )
    text = (
        f"{needed_by}: files in {', '.join(missing)} are cut at physical lines, since their "
        "grammars are not installed, or of a version that tree-sitter cannot read"
    )
    return warned("grammars", text, install_command("code"))


def _files(config: Config, command: str) -> Iterator[Finding]:
    """Yield the files that have to be there."""
    wanted: list[tuple[str, str, str]] = []
    if command in ("pretrain", "evaluate"):  # the others take that of the checkpoint
        measured = command == "evaluate"
        data = data_of_study(config.evaluate.runs, config) if measured else config.data
        listed = folders_of(data).values()
        cure = "bipe prepare, with the same experiment, corpus, out and data"
        wanted += [("data", f"{folder}/manifest.json", cure) for folder in listed]
    if command in ("extend", "retrofit", "scrolls"):
        cure = "set checkpoint=RUN, a trained run"
        wanted.append(("checkpoint", str(config.checkpoint), cure))
    path = config.task and config.task.get("path")
    if command == "scrolls" and isinstance(path, str) and "://" not in path:
        wanted.append(("task.path", path, "set path=ZIP, the task's archive"))
    for name, place, cure in wanted:
        if Path(place).exists():
            yield Finding(name, "ok", place)
        else:
            yield Finding(name, "fail", f"{place} is not there", cure)
