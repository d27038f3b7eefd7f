"""Where a trained model lies: a run, one of its checkpoints, or the folder of a model.

    RUN         RUN/model/; of a run that is not finished, its newest checkpoint
    RUN@STEP    RUN/checkpoints/step=00000200.ckpt, the weights after that optimizer step
    RUN@last    the newest checkpoint

RUN/checkpoints/model/ holds what all checkpoints of a run share: config.json with the decoder and
the notes, tokenizer and segmenter, sealed like RUN/model. Nothing here loads torch, so that
`bipe status` is instant.
"""

from __future__ import annotations

import bisect
import glob
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from bipe.sealing import CONFIG as MODEL_CONFIG
from bipe.sealing import SHARED, WEIGHTS, CheckpointError, read_config, require_unchanged
from train.disk.files import read_json, read_numbers, sha256
from train.errors import ConfigError, RunError, near
from train.ranks import rank

MODEL, CHECKPOINTS, CONFIG, METRICS = "model", "checkpoints", "config.yaml", "metrics.csv"
MANIFEST = "manifest.json"  # of a checkpoint in shards, which is a folder
_NAME = re.compile(r"step=(\d+)\.ckpt")
_AT = re.compile(r"(.+)@([^/@]*)$")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A trained model. home: the run's folder. folder: of config.json, tokenizer and segmenter.

    checkpoint: the file or folder of the weights, or None if they are in `folder`.
    """

    home: Path
    folder: Path
    checkpoint: Path | None = None

    @classmethod
    def of(cls, run: Path) -> Place:
        """Return the trained model of a run."""
        return cls(home=run, folder=run / MODEL)

    @property
    def step(self) -> int | None:
        """The optimizer step of a checkpoint; None for the trained model."""
        return None if self.checkpoint is None else step_of(self.checkpoint)

    @property
    def name(self) -> str:
        at = "" if self.step is None else f"@{self.step}"
        return f"{self.home.resolve().name}{at}"

    def __str__(self) -> str:
        return str(self.home) if self.step is None else f"{self.home}@{self.step}"

    @cached_property
    def sha256(self) -> str:
        """Return the sha256 of the weights; that of the manifest for a checkpoint in shards."""
        if self.checkpoint is None:
            return sha256(self.folder / WEIGHTS)
        manifest = manifest_of(self.checkpoint)
        stored = None if self.checkpoint.is_dir() else (read_json(manifest) or {}).get("sha256")
        return str(stored or sha256(manifest))


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.stem.rpartition("=")[2])


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, the newest last; also those not written whole."""
    return sorted(path for path in folder.glob("step=*.ckpt") if _NAME.fullmatch(path.name))


def whole_checkpoints(run: Path) -> list[Path]:
    """Return those that were written to their end; the bytes are compared when one is read."""
    return [path for path in checkpoints(run / CHECKPOINTS) if _is_whole(path)]


def _is_whole(checkpoint: Path) -> bool:
    manifest = manifest_of(checkpoint)
    if checkpoint.is_dir():
        return manifest.is_file()
    return (read_json(manifest) or {}).get("bytes") == checkpoint.stat().st_size


def manifest_of(checkpoint: Path) -> Path:
    """Return the file that a checkpoint has once it was written to its end."""
    is_folder = checkpoint.is_dir()
    return checkpoint / MANIFEST if is_folder else checkpoint.with_suffix(".json")


def at_step(run: Path, step: int | str, *, key: str) -> Place:
    """Return a checkpoint of a run, by its step or "last"; RunError names those that are there."""
    checkpoints = {step_of(path): path for path in whole_checkpoints(run)}
    wanted = max(checkpoints, default=None) if step == "last" else step
    if not isinstance(wanted, int) or wanted not in checkpoints:
        steps = ", ".join(map(str, checkpoints))
        cure = f"there are those of steps {steps}" if steps else "it has none"
        raise RunError(f"{key}: {run} has no checkpoint of step {step}; {cure}")
    shared = run / CHECKPOINTS / MODEL
    if not (shared / MODEL_CONFIG).is_file():
        raise RunError(
            f"{key}: {shared / MODEL_CONFIG} is missing: the run is of an earlier version of bipe; "
            "its own command, run again, writes it"
        )
    return Place(home=run, folder=shared, checkpoint=checkpoints[wanted])


def describe(place: Place) -> dict[str, Any]:
    """Return decoder, notes and number of parameters of a checkpoint.

    Raises RunError if they, tokenizer or segmenter beside them are not as they were written.
    """
    try:
        shared = read_config(place.folder, format=SHARED)
        require_unchanged(place.folder, shared["files"])
    except CheckpointError as fault:
        raise RunError(f"{fault}; the run's own command, run again, writes it, too") from None
    tokens = tokens_at(place.step or 0, read_numbers(place.home / METRICS))
    return {**shared, "notes": {**shared["notes"], "steps": place.step, "tokens": tokens}}


def tokens_at(step: int, metrics: Sequence[Mapping[str, Any]]) -> int:
    """Return the tokens that a training has read up to a step. metrics: lines of metrics.csv.

    Between two lines, or behind the last, tokens are taken to grow evenly.
    """
    pairs = [(row.get("step"), row.get("tokens")) for row in metrics]
    whole: Any = [line for line in pairs if None not in line]
    read: dict[int, int] = {0: 0, **dict(whole)}
    if len(read) == 1:
        return 0
    lines = sorted(read.items())
    place = min(max(1, bisect.bisect_left(lines, (step,))), len(lines) - 1)
    (begin, before), (end, after) = lines[place - 1 : place + 1]
    return round(before + (step - begin) * (after - before) / (end - begin))


def find_places(places: str | Sequence[str], *, key: str = "runs") -> list[Place]:
    """Return the models in runs, RUN@STEP, folders of runs and glob patterns; RunError names `key`.

    Of a run without a trained model it is the newest checkpoint, as a line on standard error says.
    """
    models: dict[str, Place] = {}
    for place in [places] if isinstance(places, str) else places:
        here = list(_places(place, key=key))
        if not here:
            there = Path(place).exists() or glob.glob(place)  # noqa: PTH207 (absolute)
            cure = "" if there else near(_AT.sub(r"\1", place))
            raise RunError(
                f"{key}: {place!r} contains no trained run (a folder with {MODEL}/ in it, or a "
                f"checkpoint){cure}"
            )
        models |= {str(place): place for place in here}
    return list(models.values())


def named_step(place: str) -> tuple[Path, int | str] | None:
    """Return run and step of RUN@STEP and of the path of a checkpoint; None for other places."""
    path = Path(place)
    if _NAME.fullmatch(path.name) and path.parent.name == CHECKPOINTS:
        return path.parent.parent, step_of(path)
    match = None if path.exists() else _AT.fullmatch(place)
    if match is None or not Path(match[1]).is_dir():
        return None
    return Path(match[1]), int(match[2]) if match[2].isdecimal() else match[2]


def _places(place: str, *, key: str) -> Iterator[Place]:
    if (named := named_step(place)) is not None:
        yield at_step(*named, key=key)
        return
    matches = [place] if Path(place).exists() else glob.glob(place)  # noqa: PTH207 (absolute)
    for folder in sorted(map(Path, matches)):
        inside = [folder] if _is_run(folder) else sorted(folder.glob("*"))
        for run in inside:
            if (run / MODEL).is_dir():
                yield Place.of(run)
            elif _has_checkpoint(run):
                newest = at_step(run, "last", key=key)
                _say(f"{run} is not finished: its newest checkpoint is read, {newest}")
                yield newest


def _has_checkpoint(run: Path) -> bool:
    shared = run / CHECKPOINTS / MODEL / MODEL_CONFIG
    return shared.is_file() and bool(whole_checkpoints(run))


@cache
def _say(text: str) -> None:
    if not rank():
        print(text, file=sys.stderr, flush=True)


def _is_run(folder: Path) -> bool:
    return (folder / MODEL).is_dir() or (folder / CHECKPOINTS).is_dir()


def find_place(place: str, *, key: str) -> Place:
    """Return the one model that a place names: of a run, a checkpoint, or a model folder."""
    folder = Path(place)
    if (folder / MODEL_CONFIG).is_file() and not _is_run(folder):
        home = folder.parent if (folder.parent / CONFIG).is_file() else folder
        return Place(home=home, folder=folder)
    first, *others = find_places(place, key=key)
    if others:
        names = ", ".join(map(str, (first, *others)))
        raise ConfigError(f"{key} must be one run, was: {place} with {names}")
    return first
