"""The folder of a run: its files, and who may write into it (checkpoints/__init__.py finds runs).

RUN/config.yaml        the whole configuration, without secrets, as the run began or was replanned
RUN/sessions.jsonl     one line each time that it was started (record.py)
RUN/metrics.csv        one line every few steps
RUN/checkpoints/       to resume from, and models as well (checkpoints/__init__.py)
RUN/model/             the trained model, tokenizer, segmenter and card (bipe.checkpoint)
RUN/evaluation.jsonl   results of `bipe evaluate`, one row per line (evals/rows.py)
RUN/environment.json   the machine of the evaluation
RUN/scrolls/           results of `bipe scrolls`: predictions, submission, scores
RUN/lightning/         checkpoints of Lightning's own callback, if it was asked for
RUN/.lock              while a process trains or decodes into it

Nothing here loads torch, so that `bipe status` is instant.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from bipe.build import reach
from train.data.store.folder import MANIFEST, differences
from train.disk.files import read_yaml, refuse_links, user_state, write_whole
from train.disk.lock import locked
from train.disk.manifest import redacted
from train.errors import DataError, RunError
from train.fit.checkpoints import CHECKPOINTS as CHECKPOINTS
from train.fit.checkpoints import CONFIG as CONFIG
from train.fit.checkpoints import METRICS as METRICS
from train.fit.checkpoints import MODEL as MODEL

if TYPE_CHECKING:
    from train.config import IfExists

Data = str | list[str] | dict[str, str]
SESSIONS = "sessions.jsonl"
EVALUATION = "evaluation.jsonl"
ENVIRONMENT = "environment.json"
SCROLLS = "scrolls"
LIGHTNING = "lightning"  # checkpoints of Lightning's own callback
_OF_LOGGERS = (LIGHTNING, "loggers.json", "wandb", "tensorboard", "csv")
LOCK = ".lock"
_OF_RUN = (CHECKPOINTS, MODEL, SCROLLS, METRICS, EVALUATION, ENVIRONMENT, SESSIONS)
RESUMES = ("auto", "resume", "change")  # values of if_exists

# Keys that may change when a run is resumed, without changing what is trained.
FREE = {
    *("allowed_targets", "attention", "callbacks", "checkpoint_async", "checkpoint_every"),
    "checkpoints",
    *("compile", "context_parallel", "corpus", "data", "dry_run", "engine", "evaluate"),
    *("generate", "if_exists", "keep_checkpoints", "launch", "log_every", "logger", "name"),
    *("out", "rank_timeout", "recompute", "report", "stall_after", "statistics", "trainer"),
    *("rows.if_repeated", "rows.max_epochs", "rows.micro_batch", "rows.on_batch_change"),
    "rows.verify",
}
# The plan of a run, which if_exists=change may change: what is trained stays the same.
PLAN = ("steps", "epochs", "schedule", "validate_every", "rows.validation_rows")
# Keys of `scrolls` that affect training; the rest concern decoding.
_DECISIVE_OF_SCROLLS = {"source", "segmenter", "on_long", "select"}


@contextlib.contextmanager
def in_use(folder: Path, *, command: str) -> Iterator[None]:
    """Hold a run's folder for the block, then remove it if empty; DataError names who holds it.

    Also raises DataError for a link in it, through which files could be written or removed.
    """
    refuse_links(folder)
    try:
        with locked(folder / LOCK, what=str(folder), command=f"bipe {command}"):
            yield
    finally:
        with contextlib.suppress(OSError):  # it holds files
            folder.rmdir()


def claim(folder: Path, *, if_exists: IfExists, config: Mapping[str, Any]) -> None:
    """Take a folder for a run and store its configuration there, or raise RunError.

    refuse: it must hold no run. auto, resume: none, or one of the same configuration, which stays
    as it is. change: none, or one with another plan (`replan`). overwrite: the files of an older
    run are removed; other files stay.
    """
    refuse_claimed(folder, if_exists=if_exists, config=config)
    path = folder / CONFIG
    remember_allowed(folder, config.get("allowed_targets") or ())
    if if_exists == "overwrite":
        _remove_run(folder)
    elif path.exists():
        return
    with withdrawn_on_failure(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, as_yaml(config))


def refuse_claimed(folder: Path, *, if_exists: IfExists, config: Mapping[str, Any]) -> None:
    """Raise RunError if `claim` would refuse the folder; change nothing."""
    for name in (CHECKPOINTS, MODEL, SCROLLS):
        if (folder / name).is_symlink():  # files are removed there: maybe those of another run
            raise RunError(f"{folder / name} is a link; make {folder} a link instead, or set out=")
    if (folder / MANIFEST).exists():
        raise RunError(f"{folder} contains prepared data: set name= to use another folder")
    if if_exists == "overwrite":
        return
    if not (folder / CONFIG).exists():
        if names := [name for name in (MODEL, CHECKPOINTS, METRICS) if (folder / name).exists()]:
            raise RunError(
                f"{folder} contains {names[0]} but no {CONFIG}, so its run is unknown: set name= "
                "to use another folder, or if_exists=overwrite to start again"
            )
        return
    if if_exists == "refuse":
        raise RunError(
            f"{folder} already contains a run: set if_exists=auto to resume it, "
            f"if_exists=overwrite to start again, or name= to use another folder"
        )
    _require_same(folder, read_config(folder), config)


def remember_allowed(folder: Path, packages: Collection[str]) -> None:
    """Note where the packages lie that the user let in for a run, so that they are let in again."""
    names = {name.rstrip(".").partition(".")[0] for name in packages}
    homes = {name: _home_of(name) for name in sorted(names)}
    # No home, or a full one: the words are needed again.
    with contextlib.suppress(OSError, RuntimeError, RunError, DataError):
        note = _note(folder)
        if homes:
            note.parent.mkdir(parents=True, exist_ok=True)
            write_whole(note, json.dumps({"run": str(folder.resolve()), "packages": homes}))
        else:
            note.unlink(missing_ok=True)


def allowed_of(folder: Path) -> list[str]:
    """Return the packages that this user let in for a run, those that lie where they did."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        packages = json.loads(_note(folder).read_text())["packages"]
        for name, home in packages.items():
            if home is not None:
                reach(name, home)
        return [name for name, home in packages.items() if home and _home_of(name) == home]
    return []


def _note(folder: Path) -> Path:
    """Return the user's own note, outside of the run's folder, which others can write."""
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:32]
    return user_state() / "runs" / f"{name}.json"


def _home_of(package: str) -> str | None:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin)
    return str(path.parents[1] if path.name == "__init__.py" else path.parent)


@contextlib.contextmanager
def withdrawn_on_failure(folder: Path) -> Iterator[None]:
    """Remove the run's files if the block fails before anything is trained."""
    try:
        yield
    except BaseException:
        if not has_trained(folder):
            _remove_run(folder)
            with contextlib.suppress(OSError):  # already gone, or it holds files of others
                folder.rmdir()
        raise


def has_trained(folder: Path) -> bool:
    """Return whether a run has a model, a checkpoint or a line of metrics."""
    lines = (folder / METRICS).read_text().count("\n") if (folder / METRICS).exists() else 0
    # The first line is the head of the table.
    return lines > 1 or (folder / MODEL).exists() or any((folder / CHECKPOINTS).glob("*.ckpt"))


def remove_partial(folder: Path) -> None:
    """Remove what a killed process was writing outside of the checkpoints."""
    for path in folder.glob(".*.part"):
        path.unlink(missing_ok=True)
    for path in folder.glob(f".{MODEL}.*"):
        shutil.rmtree(path, ignore_errors=True)


def read_config(folder: Path) -> dict[str, Any]:
    """Return the configuration that a run was started with; RunError if it cannot be read."""
    try:
        config = read_yaml(folder / CONFIG)
    except OSError as error:
        raise RunError(f"{folder} is not a run: {error}") from error
    except ValueError as error:
        raise RunError(f"{folder / CONFIG}: {error}") from error
    if isinstance(config, dict):
        return config
    raise RunError(f"{folder / CONFIG} contains no configuration")


def as_yaml(config: Mapping[str, Any]) -> str:
    return yaml.safe_dump(redacted(config), sort_keys=False, allow_unicode=True)


def replan(folder: Path, config: Mapping[str, Any]) -> None:
    """Write the plan of a configuration into that of the run; its sessions keep the old values."""
    stored = read_config(folder)
    plan = {key: config.get(key) for key in PLAN if not key.startswith("rows.")}
    rows = {**stored["rows"], "validation_rows": config["rows"]["validation_rows"]}
    write_whole(folder / CONFIG, as_yaml({**stored, **plan, "rows": rows}))


def decisive(config: Mapping[str, Any], *, free: Collection[str] = FREE) -> dict[str, Any]:
    """Return what decides what is trained; the data is checked by the loader and the notes."""
    kept = {key: value for key, value in redacted(config).items() if key not in free}
    if isinstance(rows := kept.get("rows"), dict):
        kept["rows"] = {key: value for key, value in rows.items() if f"rows.{key}" not in free}
    if isinstance(options := kept.get("scrolls"), dict):
        kept["scrolls"] = {key: options.get(key) for key in _DECISIVE_OF_SCROLLS}
    return kept


def digest(value: Any) -> str:
    """Return a short digest of a plain value; absent, null and empty keys count as equal."""
    text = json.dumps(_without_nulls(value), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def short_of(notes: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
    """Return the step of a model that was written before the last step of its run, else None.

    notes: of the model. config: of its run.
    """
    done, planned = notes.get("steps"), config.get("steps")
    if isinstance(done, int) and isinstance(planned, int) and done < planned:
        return done
    return None


def first_row_length(notes: Mapping[str, Any]) -> int | None:
    """Return the row length, in tokens, of the first training: the unit of evaluation lengths."""
    length = notes.get("first_row_length") or notes.get("row_length")
    return None if length is None else int(length)


def data_of(config: Mapping[str, Any], home: Path) -> Any:
    """Return a run's data; if it is gone, the data folder next to the run: both were moved."""
    data, beside = config.get("data"), home.parent / "data"
    lost = data is None or (isinstance(data, str) and not Path(data).is_dir())
    return str(beside) if lost and beside.is_dir() else data


def other_tokenizer(notes: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return how the tokenizer of data differs from that of a model with these notes."""
    expected = notes.get("tokenizer")
    if expected is not None and "origin" in notes:  # nobody here knows if it read a beginning
        expected, found = {**expected, "bos_id": None}, {**found, "bos_id": None}
    return [] if expected is None else list(differences(expected, dict(found), key="tokenizer"))


def refuse_other_tokenizer(
    folder: Any, found: Mapping[str, Any], notes: Mapping[str, Any], *, home: Any, cure: str = ""
) -> None:
    """Raise DataError for data of another tokenizer than that of the model with these notes."""
    if differing := other_tokenizer(notes, found):
        raise DataError(
            f"data: {folder} was made with a different tokenizer than {home} was trained with "
            f"({'; '.join(differing)}). {cure or 'Set data= to the data of the run'}"
        )


def _require_same(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    rows = new.get("rows")
    converts = isinstance(rows, Mapping) and rows.get("on_batch_change") == "convert"
    free = FREE | ({"rows.global_batch"} if converts else set())
    other = _differences(old, new, free | {*PLAN})
    changed = other if new.get("if_exists") == "change" else _differences(old, new, free)
    if not changed:
        return
    cure = "set these back, choose name=..., or start again with if_exists=overwrite"
    if not other and not (folder / MODEL).is_dir():
        cure = f"set if_exists=change to go on with this plan, or {cure}"
    elif not other:
        words = f"checkpoint={folder} row_length={old.get('row_length')} steps=..."
        cure += f"; a finished run is trained further by bipe extend {words}"
    message = f"{folder} contains a run with another configuration and cannot be resumed:"
    raise RunError("\n".join([message, *(f"  {change}" for change in changed), cure]))


def _differences(
    old: Mapping[str, Any], new: Mapping[str, Any], free: Collection[str]
) -> list[str]:
    return changes_of(*(decisive(config, free=free) for config in (old, new)))


def changes_of(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return how keys differ, without those that repeat another, as schedule.steps does steps."""
    found = list(differences(old, new))
    # "schedule.steps was 1, is 2" ends in "steps was 1, is 2", which is another change.
    return [change for change in found if change.partition(".")[2] not in found]


def _remove_run(folder: Path) -> None:
    for name in (*_OF_RUN, *_OF_LOGGERS, CONFIG):  # it is a run until the end
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _without_nulls(part) for key, part in value.items()}
        return {key: part for key, part in kept.items() if part is not None and part != {}}
    return [_without_nulls(part) for part in value] if isinstance(value, list | tuple) else value
