"""The folder of a run: its files, who may write into it, and the run that another starts from.

RUN/config.yaml        the whole configuration, without secrets
RUN/metrics.csv        one line every few steps
RUN/checkpoints/       to resume from
RUN/model/             the trained model (bipe.checkpoint)
RUN/evaluation.jsonl   results of `bipe evaluate`, one row per line (evals/rows.py)
RUN/environment.json   the machine of the evaluation
RUN/scrolls/           results of `bipe scrolls`: predictions, submission, scores
"""

import contextlib
import glob
import hashlib
import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from torch import Tensor

from bipe import Decoder, DecoderConfig
from bipe.checkpoint import CONFIG as MODEL_CONFIG
from bipe.checkpoint import WEIGHTS, load_model
from train.config import IfExists
from train.data.rows.sets import DataSets
from train.data.store.folder import differences
from train.disk.files import read_yaml, sha256, write_whole
from train.disk.manifest import redacted
from train.errors import DataError, RunError

CONFIG = "config.yaml"
METRICS = "metrics.csv"
CHECKPOINTS = "checkpoints"
MODEL = "model"
EVALUATION = "evaluation.jsonl"
ENVIRONMENT = "environment.json"
SCROLLS = "scrolls"
_OF_LOGGERS = ("loggers", "wandb", "tensorboard")
RESUMES = ("auto", "resume")  # values of if_exists

# Keys that may change when a run is resumed, without changing what is trained.
_FREE = {
    *("attention", "checkpoint_async", "checkpoint_every", "checkpoints", "compile"),
    *("context_parallel", "corpus", "data", "evaluate", "generate", "if_exists"),
    *("keep_checkpoints", "log_every", "logger", "name", "out", "recompute", "report"),
    *("stall_after", "statistics", "trainer"),
}
# Keys of `scrolls` that affect training; the rest concern decoding.
_DECISIVE_OF_SCROLLS = {"source", "segmenter", "on_long", "select"}
_FREE_OF_ROWS = {"if_repeated", "max_epochs", "micro_batch", "on_batch_change", "verify"}


def claim(folder: Path, *, if_exists: IfExists, config: Mapping[str, Any]) -> None:
    """Take a folder for a run and store its configuration there, or raise RunError.

    refuse: the folder must hold no run. auto, resume: it holds none, or one of the same
    configuration. overwrite: the files of an older run are removed; other files stay.
    """
    refuse_claimed(folder, if_exists=if_exists, config=config)
    path = folder / CONFIG
    if path.exists() and if_exists == "overwrite":
        _remove_run(folder)
    with withdrawn_on_failure(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, yaml.safe_dump(redacted(config), sort_keys=False, allow_unicode=True))


def refuse_claimed(folder: Path, *, if_exists: IfExists, config: Mapping[str, Any]) -> None:
    """Raise RunError if `claim` would refuse the folder; change nothing."""
    for name in (CHECKPOINTS, MODEL, SCROLLS):
        if (folder / name).is_symlink():  # files are removed there: maybe those of another run
            raise RunError(f"{folder / name} is a link; make {folder} one instead, or set out=")
    if not (folder / CONFIG).exists():
        return
    if if_exists == "refuse":
        raise RunError(
            f"{folder} holds a run already: if_exists=auto goes on with it, "
            f"if_exists=overwrite starts again, name=... takes another folder"
        )
    if if_exists in RESUMES:
        _same_or_refuse(folder, read_config(folder), config)


@contextlib.contextmanager
def withdrawn_on_failure(folder: Path) -> Iterator[None]:
    """Remove the run's files if the block fails before anything is trained."""
    try:
        yield
    except BaseException:
        lines = (folder / METRICS).read_text().count("\n") if (folder / METRICS).exists() else 0
        if lines <= 1 and not _is_trained(folder) and not any((folder / CHECKPOINTS).glob("*")):
            _remove_run(folder)
            with contextlib.suppress(OSError):  # already gone, or it holds files of others
                folder.rmdir()
        raise


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
        raise RunError(f"{folder} is no run: {error}") from error
    except ValueError as error:
        raise RunError(f"{folder / CONFIG}: {error}") from error
    if not isinstance(config, dict):
        raise RunError(f"{folder / CONFIG} holds no configuration")
    return config


def first_row_length(notes: Mapping[str, Any]) -> int | None:
    """Return the row length, in tokens, of the first training: the unit of evaluation lengths."""
    found = notes.get("first_row_length") or notes.get("row_length")
    return None if found is None else int(found)


def find_runs(places: str | list[str], *, key: str = "runs") -> list[Path]:
    """Return the runs in paths, folders of runs and glob patterns; RunError names `key`."""
    found: dict[Path, None] = {}
    for place in [places] if isinstance(places, str) else places:
        matches = [place] if Path(place).exists() else glob.glob(place)  # noqa: PTH207 (absolute)
        here: list[Path] = []
        for path in sorted(map(Path, matches)):
            inside = path.glob("*") if not _is_trained(path) else [path]
            here += sorted(filter(_is_trained, inside))
        if not here:
            raise RunError(f"{key}: {place!r} holds no trained run (a folder with {MODEL}/ in it)")
        found |= dict.fromkeys(here)
    return list(found)


def find_run(place: str, *, key: str) -> Path:
    """Return the only run of a place; RunError if there are none or several."""
    found = find_runs(place, key=key)
    if len(found) > 1:
        names = ", ".join(map(str, found))
        raise RunError(f"{key} must be one run, was: {place} with {names}")
    return found[0]


@dataclass(frozen=True, kw_only=True)
class BaseRun:
    """A trained run from which another starts, or which generates text.

    home: the folder of the run. data: as its configuration names it; None if it does not.
    """

    home: Path
    model: Decoder
    notes: Mapping[str, Any]
    data: Any
    weights_file: Path

    @property
    def name(self) -> str:
        return self.home.resolve().name

    @property
    def decoder(self) -> DecoderConfig:
        return self.model.config

    @property
    def weights(self) -> Mapping[str, Tensor]:
        return self.model.state_dict()

    @cached_property
    def sha256(self) -> str:
        return sha256(self.weights_file)

    def as_notes(self) -> dict[str, Any]:
        """Return this run's entry in the notes of the next one, with its own notes inside."""
        return {"run": str(self.home), "sha256": self.sha256, "notes": dict(self.notes)}

    def refuse_other_data(self, sets: DataSets, *, cure: str | None = None) -> None:
        """Raise DataError for data whose tokenizer or vocabulary does not fit the model's."""
        known, found = self.notes.get("tokenizer"), sets.tokenizer
        if known is not None and known != found:
            how = "; ".join(differences(known, found, key="tokenizer"))
            cure = cure or (
                "Prepare it with that one: tokenizer@corpus.tokenizer=load "
                f"corpus.tokenizer.path={self.data or 'FOLDER'}"
            )
            raise DataError(
                f"data: {sets.folder} was made with another tokenizer than {self.home} was trained "
                f"with ({how}): its ids mean different things. {cure}"
            )
        if sets.vocab_size > self.decoder.vocab_size:
            raise DataError(
                f"data: {sets.folder} has a vocabulary of {sets.vocab_size}, {self.home} one of "
                f"{self.decoder.vocab_size}: it was trained on other data"
            )


def find_base_run(place: str, *, key: str, allowed: tuple[str, ...]) -> BaseRun:
    """Read a run, the only run of a folder, or the folder of a model; RunError names `key`."""
    home, folder = base_folders(place, key=key)
    model, notes = load_model(folder, allowed=allowed)
    config = read_config(home) if (home / CONFIG).is_file() else {}
    data, weights = data_of(config, home), folder / WEIGHTS
    return BaseRun(home=home, model=model, notes=notes, data=data, weights_file=weights)


def base_folders(place: str, *, key: str) -> tuple[Path, Path]:
    """Return the folders of the run and of the model that a place names; RunError names `key`."""
    folder = Path(place)
    if not (folder / MODEL_CONFIG).is_file():
        home = find_run(place, key=key)
        return home, home / MODEL
    return (folder.parent if (folder.parent / CONFIG).is_file() else folder), folder


def data_of(config: Mapping[str, Any], home: Path) -> Any:
    """Return a run's data; if it is gone, the data folder next to the run: both were moved."""
    data, beside = config.get("data"), home.parent / "data"
    lost = data is None or (isinstance(data, str) and not Path(data).is_dir())
    return str(beside) if lost and beside.is_dir() else data


def _same_or_refuse(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    rows = new.get("rows")
    converts = isinstance(rows, Mapping) and rows.get("on_batch_change") == "convert"
    free = _FREE_OF_ROWS | ({"global_batch"} if converts else set())
    changed = list(differences(*(decisive(config, free_of_rows=free) for config in (old, new))))
    if changed:
        raise RunError(
            f"{folder} holds a run of another configuration and cannot be resumed:\n"
            + "\n".join(f"  {change}" for change in changed)
            + "\nset these back, choose name=..., or start again with if_exists=overwrite"
        )


def decisive(
    config: Mapping[str, Any], *, free_of_rows: Collection[str] = _FREE_OF_ROWS
) -> dict[str, Any]:
    """Return the part of a configuration that decides what is trained.

    A run is resumed only if this part is equal, and trained_run.py groups runs over seeds by it. It
    leaves out the data, which the loader and the model's notes check.
    """
    kept = {key: value for key, value in redacted(config).items() if key not in _FREE}
    if isinstance(rows := kept.get("rows"), dict):
        kept["rows"] = {key: value for key, value in rows.items() if key not in free_of_rows}
    if isinstance(options := kept.get("scrolls"), dict):
        kept["scrolls"] = {key: options.get(key) for key in _DECISIVE_OF_SCROLLS}
    return kept


def digest(value: Any) -> str:
    """Return a short digest of a plain value; absent, null and empty keys count as equal."""
    text = json.dumps(_without_nulls(value), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _without_nulls(held) for key, held in value.items()}
        return {key: held for key, held in kept.items() if held is not None and held != {}}
    return [_without_nulls(held) for held in value] if isinstance(value, list | tuple) else value


def _remove_run(folder: Path) -> None:
    for name in (CHECKPOINTS, MODEL, SCROLLS, *_OF_LOGGERS):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (METRICS, EVALUATION, ENVIRONMENT, CONFIG):
        (folder / name).unlink(missing_ok=True)


def _is_trained(path: Path) -> bool:
    return (path / MODEL).is_dir()
