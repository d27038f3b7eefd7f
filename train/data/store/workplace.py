"""The workplace of a preparation, OUT/.part: built aside, installed whole, never mixed with others.

    OUT/.part/        work in progress, or of a killed run: the next one continues it

Old data in OUT stays until the new data set is complete; then it is moved out and the new one in,
the manifest last. The next run finishes an interrupted installation.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from train.data.store.folder import FILES, MANIFEST, read_top
from train.disk.files import is_name, refuse_links, remove, sync, write_whole, writing
from train.disk.lock import holder, locked
from train.disk.manifest import SPLITS
from train.errors import DataError

PART = ".part"
WHOLE = "whole"
_OLD = "old"
INSTALL = "install.json"
PLAN = "plan.json"  # of the parts in progress
RESULT = "part.json"  # of a part that is done
LOCK = "lock"


@contextmanager
def workplace(out: Path) -> Iterator[Path]:
    """Lock OUT/.part for the block; the folder then stays only if it holds finished parts."""
    part = out / PART
    ours = not out.exists() or [entry.name for entry in out.iterdir()] == [PART]
    if part.is_symlink():
        raise DataError(
            f"{part}: is a link to {part.readlink()}; remove it, or set data= elsewhere"
        )
    refuse_links(part)
    with writing(out):
        part.mkdir(parents=True, exist_ok=True)
    with locked(part / LOCK, what=str(out)):
        try:
            yield part
        finally:
            if not done_parts(part) and not (part / INSTALL).exists():
                shutil.rmtree(part, ignore_errors=True)
                if ours and not any(out.iterdir()):
                    out.rmdir()


def done_parts(part: Path) -> list[Path]:
    """Return the results of the parts that are done in a workplace."""
    return list(part.glob(f"parts/*/*/{RESULT}"))


def finished(out: Path) -> dict[str, Any] | None:
    """Return the manifest of a data set, or None; DataError if `out` holds anything else."""
    if not out.exists() or (out / PART / INSTALL).exists():
        return None  # an interrupted installation, which `recover` finishes
    if not out.is_dir():
        raise DataError(f"{out}: must be a folder, is a file")
    for entry in sorted(out.iterdir()):
        if entry.name != PART and not _is_of_data(entry):
            raise DataError(
                f"{out} contains {entry.name}, which is not part of a prepared data set. Set data= "
                "to another folder, or move it away"
            )
    return read_top(out) if (out / MANIFEST).exists() else None


def _is_of_data(entry: Path) -> bool:
    if entry.is_file():
        return entry.name in FILES
    inside = list(entry.iterdir())
    return bool(inside) and all(folder.is_dir() and folder.name in SPLITS for folder in inside)


def install(part: Path, out: Path) -> None:
    """Replace what is in `out` with PART/whole; once begun, this can only be finished."""
    new = sorted(entry.name for entry in (part / WHOLE).iterdir())
    write_whole(part / INSTALL, json.dumps(new))
    _go_on(part, out, new)


def recover(part: Path, out: Path) -> bool:
    if not (part / INSTALL).exists():
        return False
    new = json.loads((part / INSTALL).read_text(encoding="utf-8"))
    if not isinstance(new, list) or not all(map(is_name, new)):
        rule = "must be a list of file names"
        raise DataError(f"{part / INSTALL}: {rule}, was: {new!r}; remove {part}")
    _go_on(part, out, new)
    return True


def _go_on(part: Path, out: Path, new: list[str]) -> None:
    """Move old entries out and the entries `new` in, from wherever an interruption left off."""
    whole, old = part / WHOLE, part / _OLD
    with writing(out):
        old.mkdir(exist_ok=True)
        # The manifest first: until the end there is no data set.
        for entry in sorted(out.iterdir(), key=lambda entry: entry.name != MANIFEST):
            # An entry of a new name that is gone from `whole` is new itself: it was moved before.
            standing = entry.name not in new or (whole / entry.name).exists()
            if entry != part and standing:
                entry.replace(old / entry.name)
        sync(out)
        for name in sorted(new, key=lambda name: name == MANIFEST):
            if (whole / name).exists():
                (whole / name).replace(out / name)
        sync(out)
    shutil.rmtree(old, ignore_errors=True)
    clear(part)


def clear(part: Path) -> None:
    """Remove what another request or a killed run left in a workplace, except its lock.

    The plan goes first, without which the rest is no work in progress (`tidy`); the note of an
    installation goes last, since until then `recover` comes back here.
    """
    order = {PLAN: 0, INSTALL: 2}
    for entry in sorted(part.iterdir(), key=lambda entry: order.get(entry.name, 1)):
        if entry.name == LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            remove(entry)


def tidy(out: Path) -> None:
    """Remove a workplace without work in progress, which a run killed at its very end has left."""
    part = out / PART
    busy = any((part / name).exists() for name in (PLAN, INSTALL))
    holding = holder(part / LOCK)
    if part.is_dir() and not busy and not (holding and holding.alive):
        with suppress(DataError), workplace(out):  # where nothing can be written, it stays
            clear(part)
