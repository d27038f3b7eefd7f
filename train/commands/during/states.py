"""The state of a run or of prepared data, read from its files while others write them.

Nothing is written, locked or verified here; what cannot be read is reported as the state. Nothing
loads torch, so that `bipe status` is instant.
"""

import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bipe.sealing import CONFIG as MODEL_CONFIG
from bipe.sealing import read_config as read_model
from bipe.sealing import require_unchanged
from train.data.store.folder import MANIFEST
from train.data.store.workplace import INSTALL, PART, PLAN, done_parts
from train.data.store.workplace import LOCK as DATA_LOCK
from train.disk.files import read_json
from train.disk.lock import Holder, holder
from train.errors import RunError
from train.fit import runs
from train.fit.checkpoints import checkpoints, manifest_of, step_of
from train.fit.record import FINISHED, STOPPED, last_metrics, read_sessions
from train.fit.runs import METRICS, SESSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A run, or prepared data, whose steps are the parts that are done.

    checkpoint: step of the newest; checkpoint_age: in seconds. next: what the command would do now.
    """

    folder: str
    kind: str
    state: str
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    validation_loss: float | None = None
    tokens_per_second: float | None = None
    checkpoint: int | None = None
    checkpoint_age: float | None = None
    holder: str | None = None
    next: str = ""


def find_states(place: Path, *, verify: bool = False) -> list[State]:
    """Return the states of the runs and of the data in a folder, or of the folder itself."""
    return [state_of(folder, verify=verify) for folder in _folders(place, depth=3)]


def state_of(folder: Path, *, verify: bool = False) -> State:
    """Return the state of a folder, however damaged; verify: compare the sha256 of models, too."""
    try:
        return _data(folder) if _is_data(folder) else _run(folder, verify=verify)
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as fault:
        return State(folder=str(folder), kind="run", state=f"cannot be read: {fault}")


def _folders(folder: Path, *, depth: int) -> Iterator[Path]:
    if _is_run(folder) or _is_data(folder):
        yield folder
    elif depth:
        with suppress(OSError):
            for path in sorted(folder.iterdir()):
                if path.is_dir() and not path.name.startswith("."):
                    yield from _folders(path, depth=depth - 1)


def _is_run(folder: Path) -> bool:
    signs = (runs.CONFIG, SESSIONS, METRICS, runs.CHECKPOINTS, runs.LOCK)
    return any((folder / name).exists() for name in (*signs, f"{runs.MODEL}/{MODEL_CONFIG}"))


def _is_data(folder: Path) -> bool:
    return (folder / MANIFEST).exists() or (folder / PART).is_dir()


def _run(folder: Path, *, verify: bool) -> State:
    fault, config = None, dict[str, Any]()
    try:
        config = runs.read_config(folder)
    except RunError as error:
        text = " ".join(str(error).replace(f"{folder / runs.CONFIG}", runs.CONFIG).split())
        fault = text if (folder / runs.CONFIG).exists() else f"there is no {runs.CONFIG}"
    metrics = last_metrics(folder)
    last = [{}, *read_sessions(folder)][-1]
    checkpoint, written = _newest(folder / runs.CHECKPOINTS)
    live = _live(folder / runs.LOCK)
    if live is None and fault is None and (folder / runs.MODEL).is_dir():
        fault = _model_fault(folder, verify=verify)
        state = FINISHED if fault is None else f"damaged: {fault}"
        if fault is None and (step := runs.short_of(_notes(folder), config)) is not None:
            state = f"stopped at step {step}, although it has a {runs.MODEL}/"
    else:
        state = _state(live, last, fault, step=metrics.get("step"))
    undecoded = _undecoded(folder, config)
    return State(
        folder=str(folder),
        kind="run",
        state=state,
        step=max(filter(None, (_int(metrics.get("step")), checkpoint)), default=None),
        steps=_int(config.get("steps", last.get("steps"))),
        loss=metrics.get("loss"),
        validation_loss=metrics.get("validation_loss"),
        tokens_per_second=metrics.get("tokens_per_second"),
        checkpoint=checkpoint,
        checkpoint_age=None if written is None else max(0.0, time.time() - written),
        holder=None if live is None else str(live),
        next=_next(state, last, checkpoint, undecoded),
    )


def _notes(run: Path) -> Mapping[str, Any]:
    notes = read_model(run / runs.MODEL).get("notes")
    return notes if isinstance(notes, dict) else {}


def _model_fault(run: Path, *, verify: bool) -> str | None:
    """Return what of the model has changed since it was written, or None."""
    try:
        files = read_model(run / runs.MODEL)["files"]
        require_unchanged(run / runs.MODEL, files if verify else {})
    except (OSError, ValueError) as fault:
        return str(fault).partition(", or, if you changed it")[0].replace(f"{run}/", "")
    return None


def _state(live: Holder | None, last: Mapping[str, Any], fault: str | None, *, step: Any) -> str:
    """Return the state of a run without a model in words, of which the first names its kind."""
    if live is not None:
        return f"running ({live})"
    if fault is not None:
        return f"damaged: {fault}"
    how = last.get("how")
    if how in ("finished", None):
        return "killed" if last or step is not None else "claimed, not begun"
    at = f" at step {last['end_step']}" if last.get("end_step") is not None else ""
    if str(how).startswith(STOPPED):
        return f"{how}{at}"
    return f"stopped by {how}{at}" if str(how).startswith("SIG") else f"failed: {how}{at}"


def _next(
    state: str, last: Mapping[str, Any], checkpoint: int | None, undecoded: str | None
) -> str:
    if state.startswith("running"):
        return "wait"
    words = last.get("words")
    command = shlex.join(map(str, words)) if isinstance(words, list) else "the same command"
    if state == FINISHED:
        return FINISHED if undecoded is None else f"{command} decodes the rest of {undecoded}"
    if runs.CONFIG in state:
        return "if_exists=overwrite, or another name="
    return f"{command} resumes from step {checkpoint or 0}"


def _undecoded(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Return the split that `bipe scrolls` has not decoded and scored, if any."""
    options = config.get("scrolls")
    split = options.get("split") if config.get("task") and isinstance(options, Mapping) else None
    if split is None or any((folder / runs.SCROLLS / str(split)).glob("*.json")):
        return None
    return str(split)


def _newest(folder: Path) -> tuple[int | None, float | None]:
    steps: dict[int, float] = {}
    for path in checkpoints(folder):
        with suppress(OSError):
            steps[step_of(path)] = manifest_of(path).stat().st_mtime
    return max(steps.items(), default=(None, None))


def _data(folder: Path) -> State:
    part = folder / PART
    plan = (read_json(part / PLAN) or {}).get("parts")
    parts = sum(map(len, plan.values())) if isinstance(plan, dict) else None
    done = len(done_parts(part)) if part.is_dir() else None
    live = _live(part / DATA_LOCK)
    state, after = "ready", FINISHED
    if live is not None:
        state, after = f"preparing ({live})", "wait"
    elif (part / INSTALL).exists():
        state, after = "stopped while it was put in place", "bipe prepare finishes that"
    elif not (folder / MANIFEST).exists():
        notes = sorted(part.glob("*/*/*.fault"))
        text = " ".join(notes[0].read_text(errors="replace").split()) if notes else ""
        state = f"failed: {text}" if text else "stopped"
        after = f"bipe prepare continues with {done or 0} of {parts or 'its'} parts done"
    elif (read_json(folder / MANIFEST) or {}).get("sources") is None:
        state, after = f"damaged: {MANIFEST} cannot be read", "remove the folder and prepare again"
    return State(
        folder=str(folder),
        kind="data",
        state=state,
        step=done or None,
        steps=parts,
        holder=None if live is None else str(live),
        next=after,
    )


def _live(lock: Path) -> Holder | None:
    held_by = holder(lock)
    return held_by if held_by is not None and held_by.alive else None


def _int(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and value == value else None
