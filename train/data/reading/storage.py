"""Where files are and how they are opened: on disks, at addresses of fsspec, in zip archives.

An address contains "://"; chains such as zip://a.jsonl::s3://bucket/a.zip are addresses, too. Files
are unpacked by their suffix; one that ends too early is a fault, never a short file.
"""

import bz2
import gzip
import io
import lzma
import re
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from glob import glob, has_magic
from pathlib import Path
from typing import IO, Any

from segmenters.wording import counted
from train.data.reading.documents import Bad
from train.disk.manifest import redacted
from train.errors import DataError, near

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_UNPACKERS: dict[str, Any] = {
    ".gz": (gzip.open, "gzip"),
    ".bz2": (bz2.open, "bzip2"),
    ".xz": (lzma.open, "xz"),
    ".zst": (zstd.open, "zstandard"),
}
_CHANGED = ("ETag", "etag", "sha256", "mtime", "LastModified", "last_modified", "updated", "CRC")
_WILDCARD = re.compile(r"[*?[]")
_BLOCK = 1 << 22  # bytes
# How many times its packed size a file may have unpacked, and what every file may have (bytes):
# text packs to a third or a tenth, and a bomb to a thousandth or less.
MOST_GROWTH, ALWAYS = 100, 1 << 26


@dataclass(frozen=True, slots=True)
class File:
    """A file of a corpus.

    path: as opened. name: relative to the corpus folder; ids are made of it. size: bytes as stored.
    changed: differs after a change of the content (a time or an ETag), if known.
    """

    path: str
    name: str
    size: int
    changed: str = ""

    def __str__(self) -> str:
        return redacted(self.path)

    @property
    def packed(self) -> bool:
        return suffix(self.path) in _UNPACKERS


# What `save_to_disk` of `datasets` writes beside its .arrow files, for a data set or for splits.
_SAVED = ({"state.json", "dataset_info.json"}, {"dataset_dict.json"})


def is_saved(folder: Path) -> bool:
    """Return whether `datasets` wrote a folder with save_to_disk."""
    return any(all((folder / name).is_file() for name in names) for names in _SAVED)


def listed(path: str, *, pattern: str, keys: str = "") -> list[File]:
    """Return the files of a path. keys: what is typed before `path` and `pattern`."""
    if "://" in path:
        return _remote(path, pattern=pattern, keys=keys)
    place = Path(path)
    if is_saved(place):
        raise DataError(
            f"{keys}path={path} was written by save_to_disk of datasets; set corpus=datasets to "
            "read it"
        )
    if place.is_file():
        return (
            _in_archive(path, pattern, keys)
            if suffix(path) == ".zip"
            else [_local(place, place.name)]
        )
    folder = place.is_dir()
    if not folder and not has_magic(path):
        raise DataError(f"{keys}path={path}: there is no such file or folder{near(path)}")
    if folder:
        _require_glob(pattern, keys)
    matched = place.glob(pattern) if folder else map(Path, glob(path, recursive=True))  # noqa: PTH207
    # A broken link is kept, so that its document is missed when it is read.
    files = sorted(f for f in matched if f.is_file() or (f.is_symlink() and not f.exists()))
    if not files:
        rule = "matches this glob"
        if folder:
            others = other_endings(place, than=(), keys=keys)
            rule = f"in it matches pattern={pattern}{others}"
        raise DataError(f"{keys}path={path}: no file {rule}")
    # Of a glob, ids are relative to the last folder without a wildcard.
    root = place if folder else next(each for each in place.parents if not has_magic(str(each)))
    return [_local(file, file.relative_to(root).as_posix()) for file in files]


def _require_glob(pattern: str, keys: str) -> None:
    parts = pattern.split("/")
    if not parts[0] or any("**" in part and part != "**" for part in parts):
        raise DataError(
            f'{keys}pattern must be a glob of paths in the folder, such as "**/*.txt" (any folder) '
            f"or *.txt, was: {pattern!r}"
        )


def _local(path: Path, name: str) -> File:
    stat = path.stat(follow_symlinks=path.exists())
    return File(str(path), name, stat.st_size, str(stat.st_mtime_ns))


def other_endings(
    names: Iterable[str] | Path, *, than: Collection[str], more: int = 0, keys: str = ""
) -> str:
    """Name the extensions of the other files, if there are more than `more`; hidden ones aside."""
    if isinstance(names, Path):  # of a folder
        inside = (file for file in names.rglob("*") if file.is_file())
        names = [file.relative_to(names).as_posix() for file in inside]
    endings = (Path(name).suffix for name in names if "/." not in f"/{name}")
    others = Counter(ending or "other" for ending in endings if ending not in than)
    if others.total() <= more:
        return ""
    listed = ", ".join(counted(count, f"{ending} file") for ending, count in others.most_common(5))
    first = next((ending for ending, _ in others.most_common() if ending[0] == "."), "")
    return f"; it also contains {listed}. To read them, set '{keys}pattern=\"**/*{first}\"'"


def _remote(path: str, *, pattern: str, keys: str) -> list[File]:
    from fsspec.core import url_to_fs

    where = redacted(path)
    try:
        system, root = url_to_fs(path)
        if suffix(path) == ".zip" and "::" not in path and system.isfile(root):
            return _in_archive(path, pattern, keys)
        magic = has_magic(root)
        entries = system.glob(root, detail=True) if magic else system.find(root, detail=True)
    except (ImportError, ValueError) as fault:
        raise DataError(f"path={where}: fsspec cannot open this address: {fault}") from None
    except OSError as fault:
        raise DataError(f"path={where}: cannot be read: {redacted(str(fault))}") from None
    entries = {name: entry for name, entry in sorted(entries.items()) if entry["type"] == "file"}
    if not entries:
        raise DataError(f"path={where}: there is no such file or folder")
    files = [_stored(_address(system, path, name), name, entry) for name, entry in entries.items()]
    if magic or set(entries) == {root}:
        plain = _WILDCARD.split(root)[0].rpartition("/")[0]  # the folder without a wildcard
        return [replace(file, name=file.name.removeprefix(plain).lstrip("/")) for file in files]
    return _matching(files, path, root=root, pattern=pattern, keys=keys)


def _address(system: Any, path: str, name: str) -> str:
    first, chained, rest = path.partition("::")
    if chained:
        return f"{first.partition('://')[0]}://{name}{chained}{rest}"
    if first.partition("?")[0].endswith(name):
        return path
    return system.unstrip_protocol(name)


def _in_archive(path: str, pattern: str, keys: str) -> list[File]:
    try:
        entries = _archive(path, _state(path)).find("", detail=True)
    except Exception as fault:  # zipfile and the protocols of fsspec have errors of their own
        reason = f"not a zip archive: {redacted(str(fault))}"
        raise DataError(f"path={redacted(path)}: {reason}") from None
    files = [
        _stored(f"zip://{name}::{path}", name, entry)
        for name, entry in sorted(entries.items())
        if entry["type"] == "file"
    ]
    return _matching(files, path, root="", pattern=pattern, keys=keys)


@lru_cache(maxsize=4)
def _archive(path: str, state: tuple[int, int]) -> Any:
    """Open an archive; cached, so that its table of contents is read only once."""
    from fsspec.implementations.zip import ZipFileSystem

    return ZipFileSystem(fo=path)


def _state(path: str) -> tuple[int, int]:
    """Return time and size of an archive on disk, so that a changed one is opened again."""
    try:
        stat = Path(path.removeprefix("file://")).stat()
    except OSError:
        return (0, 0)
    return stat.st_mtime_ns, stat.st_size


def _stored(path: str, name: str, entry: dict[str, Any]) -> File:
    changed = next((str(entry[key]) for key in _CHANGED if entry.get(key)), "")
    return File(path, name, int(entry.get("size") or 0), changed)


def _matching(files: list[File], path: str, *, root: str, pattern: str, keys: str) -> list[File]:
    from fsspec.utils import glob_translate

    _require_glob(pattern, keys)
    inside = [replace(file, name=file.name.removeprefix(root).lstrip("/")) for file in files]
    matches = re.compile(glob_translate(pattern)).match
    matching = [file for file in inside if matches(file.name)]
    if not matching:
        cure = other_endings((file.name for file in inside), than=(), keys=keys)
        rule = f"no file in it matches pattern={pattern}{cure}"
        raise DataError(f"{keys}path={redacted(path)}: {rule}")
    return matching


@contextmanager
def opened(file: File) -> Iterator[IO[bytes]]:
    """Open and unpack a file; OSError if it cannot be read, Bad if it is cut short."""
    with raw(file) as packed:
        if not file.packed:
            yield packed
            return
        try:
            with _UNPACKERS[suffix(file.path)][0](packed) as unpacked:
                yield bounded(unpacked, packed=file.size, where=str(file))
        except (EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError, OSError) as fault:
            if isinstance(fault, OSError) and fault.errno is not None:
                raise  # an error of the disk; gzip and bz2 set no errno for bad data
            detail = f"not a complete {_UNPACKERS[suffix(file.path)][1]} file: {fault}"
            raise Bad(where=str(file), rule="cut short", detail=detail) from None


@contextmanager
def raw(file: File) -> Iterator[IO[bytes]]:
    if "://" not in file.path:
        with Path(file.path).open("rb") as stored:
            yield stored
        return
    from fsspec.core import url_to_fs

    first, chained, outer = file.path.partition("::")
    if not (chained and first.startswith("zip://")):
        system, inside = url_to_fs(file.path)
        with system.open(inside, "rb") as stored:
            yield stored
        return
    system, inside = _archive(outer, _state(outer)), first.removeprefix("zip://")
    packed = int(system.info(inside).get("compress_size") or 0)
    try:
        with system.open(inside, "rb") as stored:
            yield bounded(stored, packed=packed, where=str(file))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as fault:  # also: encrypted
        detail = f"cannot be unpacked: {fault}"
        raise Bad(where=str(file), rule="cut short", detail=detail) from None


def bounded(unpacked: Any, *, packed: int, where: str) -> IO[bytes]:
    """Return a file that raises Bad once it has grown too much. packed: bytes; 0 if unknown."""
    if not packed:
        return unpacked  # type: ignore[no-any-return]
    most = max(ALWAYS, MOST_GROWTH * packed)
    return io.BufferedReader(_Bounded(unpacked, most=most, packed=packed, where=where), _BLOCK)


class _Bounded(io.RawIOBase):
    def __init__(self, unpacked: Any, *, most: int, packed: int, where: str) -> None:
        self._unpacked, self._most, self._packed, self._where = unpacked, most, packed, where

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._unpacked.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._unpacked.seek(offset, whence))

    def tell(self) -> int:
        return int(self._unpacked.tell())

    def readinto(self, buffer: Any) -> int:
        block = self._unpacked.read(len(buffer))
        buffer[: len(block)] = block
        if self._unpacked.tell() > self._most:
            raise Bad(
                where=self._where,
                rule="grows too much",
                detail=f"more than {self._most:,} bytes from {self._packed:,} packed ones",
                cure="Unpack it yourself if you trust it, or set {keys}on_bad=skip to leave it out",
            )
        return len(block)


def suffix(path: str) -> str:
    """Return the last suffix of a path or an address in lower case, without its query."""
    if "://" in path:  # a local name may contain :: and ?
        path = path.partition("::")[0].rpartition("/")[2].partition("?")[0]
    name = path.rpartition("/")[2]
    return "." + name.rpartition(".")[2].lower() if "." in name else ""
