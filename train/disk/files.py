"""Files on disk: written whole or not at all, their checksums, and what others may have written.

A file is written under a temporary name in its own folder, synced and renamed, so that no reader
sees a partial file; one error names a disk that fails. Manifests hold one sha256 per file, and one
CRC-32 per block to find where a file differs: eight hexadecimal digits per block, 8 MB per
terabyte. Files, names and links that others made are read without trust in them.
"""

import csv
import errno
import hashlib
import io
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from train.errors import DataError

BLOCK = 1 << 20  # bytes
_DIGITS = 8  # of a CRC-32 in hexadecimal
_LONGEST_YAML, _MOST_VALUES = 1 << 22, 100_000  # bytes; a few aliases make billions of values
_TEXT = 1000  # characters of a text that count as one more value
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_synced = ContextVar("synced", default=True)
# Folders whose own programs make links: W&B to its cache, Lightning to the newest checkpoint.
_LINKING, _LINKING_INSIDE = "wandb", "lightning"


class Output:
    """A file that is hashed, and written under a temporary name until `commit`."""

    closed = False  # pyarrow asks

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checksum = Checksum()
        with writing(path):
            if path.exists() and not path.is_file():  # a device would be replaced
                raise OSError("it is no file")
            self._part = path.with_name(f".{path.name}.part")
            # A link there, in a folder of somebody else's, would be written through.
            self._part.unlink(missing_ok=True)
            self._file = self._part.open("wb")

    @property
    def size(self) -> int:
        return self._checksum.size

    def write(self, data: bytes | memoryview) -> None:
        with writing(self.path):
            self._file.write(data)
        self._checksum.update(data)

    def flush(self) -> None:
        """Do nothing: torch.save asks for it, and `commit` flushes and syncs."""

    def commit(self) -> dict[str, Any]:
        """Move the file into place; return its size (bytes) and checksums."""
        with writing(self.path):
            self._file.flush()
            if _synced.get():
                os.fsync(self._file.fileno())
            self._file.close()
            self._part.replace(self.path)
        return self._checksum.digest()

    def discard(self, *, committed: bool = True) -> None:
        """Remove what was written; `committed`: also the file that is already in place."""
        with suppress(OSError):  # closing flushes, which a full disk refuses once more
            self._file.close()
        remove(self._part)
        if committed:
            remove(self.path)


def write_whole(path: Path, text: str) -> None:
    """Write a text file that is whole or absent; an old file stays until it is replaced."""
    with whole(path) as output:
        output.write(text.encode())


@contextmanager
def whole(path: Path) -> Iterator[Output]:
    """Yield a file to write in the block, for which the rule of `write_whole` holds."""
    output = Output(path)
    try:
        yield output
        output.commit()
    except BaseException:
        output.discard(committed=False)
        raise
    with writing(path):
        sync(path.parent)


def write_changed(path: Path, text: str) -> None:
    """Write a text file as `write_whole` does, unless it holds that text."""
    if not path.is_file() or path.read_bytes() != text.encode():
        write_whole(path, text)


def append(path: Path, lines: str) -> None:
    """Append lines to a text file and sync it; a partial last line becomes a line of its own.

    DataError for a link, which may lead out of a stranger's folder; other files are replaced whole.
    """
    if path.is_symlink():
        raise DataError(f"{path}: is a link to {path.readlink()}; remove it, or copy the file here")
    with writing(path), path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            file.write(b"" if file.read() == b"\n" else b"\n")
        file.write(lines.encode())
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def writing(path: Path, *, only_full: bool = False) -> Iterator[None]:
    """Raise DataError naming `path` if it cannot be written; only_full: for a full disk only."""
    try:
        yield
    except OSError as fault:
        full = fault.errno in _FULL
        if only_full and not full:
            raise
        rule, cure = "cannot be written", "Check the disk and the permissions"
        if full:
            rule, cure = "no room is left to write it", "Free space"
        raise DataError(
            f"{path}: {rule} ({fault.strerror or fault}). {cure}, or set data= or out= to a "
            "folder on another disk, then run again; unfinished files have been removed"
        ) from fault


full_disk = partial(writing, only_full=True)


def sync(path: Path) -> None:
    """Make a file, or the renames in a folder, survive a power failure, on systems that can."""
    if os.name != "posix" or not _synced.get():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def unsynced() -> Iterator[None]:
    """Do not sync files written in the block: for files that are checked before they are used.

    They are still whole or absent after a kill, but not after a power failure. A sync takes 8 ms
    per file, more than a small file takes to make.
    """
    before = _synced.set(False)
    try:
        yield
    finally:
        _synced.reset(before)


def remove(path: Path) -> None:
    """Remove a file if possible; never raise, since that would hide the original fault."""
    with suppress(OSError):
        path.unlink()


def user_state() -> Path:
    """Return the folder of what this user's programs remember of the machine and of runs.

    Raises RuntimeError for a user without a home.
    """
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "bipe"


class Checksum:
    """Size, sha256 and block CRCs of bytes that arrive in pieces."""

    def __init__(self) -> None:
        self.size = 0
        self._sha256 = hashlib.sha256()
        self._whole = ""  # CRCs of the complete blocks
        self._open = 0  # CRC of the incomplete block

    def update(self, data: bytes | memoryview) -> None:
        self._sha256.update(data)
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):
            piece = view[at : at + BLOCK - self.size % BLOCK]
            self._open = zlib.crc32(piece, self._open)
            at, self.size = at + len(piece), self.size + len(piece)
            if self.size % BLOCK == 0:
                self._whole += f"{self._open:0{_DIGITS}x}"
                self._open = 0

    def digest(self) -> dict[str, Any]:
        """Return the size in bytes, sha256 and CRCs of the blocks, as manifests hold them."""
        last = f"{self._open:0{_DIGITS}x}" if self.size % BLOCK else ""
        sha256 = self._sha256.hexdigest()
        return {"bytes": self.size, "sha256": sha256, "crc32": self._whole + last}


def checksum(path: Path) -> dict[str, Any]:
    total = Checksum()
    for block in _blocks(path):
        total.update(block)
    return total.digest()


def sha256(path: Path, *, advance: Callable[[int], object] = lambda _: None) -> str:
    """Return the sha256 of a file; `advance` gets the size in bytes of each piece read."""
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
        advance(len(block))
    return digest.hexdigest()


def differing(found: dict[str, Any], expected: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges in which two digests differ; adjacent blocks are joined."""
    size = max(found["bytes"], expected["bytes"])
    blocks = range(-(-size // BLOCK))
    differ = [block for block in blocks if _crc(found, block) != _crc(expected, block)]
    for _, run in groupby(enumerate(differ), key=lambda pair: pair[1] - pair[0]):
        joined = [block for _, block in run]
        yield joined[0] * BLOCK, min((joined[-1] + 1) * BLOCK, size)


def _crc(digest: dict[str, Any], block: int) -> str:
    return digest["crc32"][block * _DIGITS : (block + 1) * _DIGITS]


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block


def is_name(text: object) -> bool:
    """Return whether a text that others wrote names a file in a folder, and no other place."""
    plain = isinstance(text, str) and not set(text) & {"/", "\\", "\0"}
    return plain and text not in ("", ".", "..")


def refuse_links(folder: Path) -> None:
    """Raise DataError for a link in a folder in which files are written, replaced or removed.

    The folder itself may be one: the user named it. What is in it may be a stranger's, and a link
    would lead out of it.
    """
    for place, folders, files in os.walk(folder):  # follows none
        for path in (Path(place, name) for name in sorted((*folders, *files))):
            if not path.is_symlink():
                continue
            top = folder / path.relative_to(folder).parts[0]
            inside = path.resolve().is_relative_to(top.resolve())
            if path != top and (top.name == _LINKING or (top.name == _LINKING_INSIDE and inside)):
                continue
            raise DataError(
                f"{path}: is a link to {path.readlink()}, and nothing is written or removed where "
                f"a link in {folder} leads; remove it, or copy there what it leads to"
            )


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file; None if it holds no object or cannot be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects in the lines of a file, without lines that cannot be read."""
    lines = []
    with suppress(OSError):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError, RecursionError):
                lines.append(json.loads(line))
    return [value for value in lines if isinstance(value, dict)]


def read_numbers(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a CSV file of numbers or None, without an unfinished last line.

    Raises DataError for a file that holds anything else.
    """
    if not path.exists():
        return []
    try:
        whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
        return [
            {name: _number(value) for name, value in row.items()}
            for row in csv.DictReader(io.StringIO(whole))
        ]
    except (ValueError, TypeError, AttributeError, csv.Error) as fault:
        raise DataError(f"{path}: has changed since it was written: {fault}") from None


def _number(text: str) -> float | None:
    return int(text) if text.isdigit() else float(text) if text else None


def read_yaml(path: Path) -> Any:
    """Return the plain value in a YAML file, which anyone may have written.

    OSError or ValueError if it has none, is too long, or repeats itself by aliases without end.
    """
    import yaml

    if path.stat().st_size > _LONGEST_YAML:
        raise ValueError(f"it must be at most {_LONGEST_YAML} bytes, was: {path.stat().st_size}")
    try:
        loader = yaml.SafeLoader(path.read_bytes().decode())
        root = loader.get_single_node()
        if root is None:
            return None
        _require_few(root)
        return loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(yaml_fault(error)) from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _require_few(root: Any) -> None:
    """Raise ValueError for a document that aliases or merges (<<) make too large, before that."""
    sizes: dict[int, int] = {}  # values that a node has, with those behind its aliases

    def size(node: Any) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = _MOST_VALUES  # what an alias of itself has
            inner = node.value if isinstance(node.value, list) else ()
            pairs = (part if isinstance(part, tuple) else (part,) for part in inner)
            below = sum(map(size, chain.from_iterable(pairs)))
            sizes[id(node)] = 1 + len(node.value) // _TEXT + below
        return sizes[id(node)]

    if size(root) > _MOST_VALUES:
        raise ValueError(f"it must have at most {_MOST_VALUES} values, including aliases")


def yaml_fault(error: Exception) -> str:
    """Return what an error of PyYAML says, as one line: "line 3: not YAML: ..."."""
    if isinstance(error, ValueError):  # of Python, or already in our words
        most = f"a whole number must have at most {sys.get_int_max_str_digits()} digits"
        return most if "digits" in str(error) else str(error)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "context", None) or str(error)
    place = f"line {mark.line + 1}: " if mark else ""
    return f"{place}not YAML: {' '.join(said.split())}"
