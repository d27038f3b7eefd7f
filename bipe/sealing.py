"""Model folders that a reader can trust: sealed, and whole or absent. Without torch.

A seal over a JSON text vouches for other files: a changed byte is found in itself as well. It is
the last key: the sha256 of the text with zeros in place of the seal. It finds damage, not forgery:
anyone can seal.

Model folders have one: config.json with the size and sha256 of every other file, also in
RUN/checkpoints/model, which has no weights. Of weights, only the header is read here.

A folder is written beside its place, synced, and renamed:

    .NAME.new.HOST.PID.RANDOM/          while process PID of HOST writes NAME
    .NAME.old.HOST.PID.RANDOM/NAME      the former NAME, while the new one takes its place

What a killed process left is removed by the next one that writes NAME; a former folder whose
successor did not arrive is put back.
"""

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open

SEAL = "seal"
_ZEROS = "0" * 64
_LONGEST = 1 << 28  # bytes; the block checksums of 32 TB of data
WEIGHTS = "model.safetensors"
CONFIG = "config.json"
FORMAT = "bipe-decoder/2"
UNSEALED = "bipe-decoder/1"  # without sha256 and seal
SHARED = "bipe-checkpoints/1"  # of a folder that describes the weights of checkpoints elsewhere
UNLISTED = ("README", "LICENSE")  # beginnings of files that may be added; so may hidden ones
_DTYPES = ("F64", "F32", "F16", "BF16")
# Names and shapes of tensors.
Shapes = Mapping[str, tuple[int, ...]]


def sealed(content: Mapping[str, Any]) -> str:
    """Return the JSON text of a mapping with its seal."""
    unsealed = {key: value for key, value in content.items() if key != SEAL}
    blank = json.dumps({**unsealed, SEAL: _ZEROS}, indent=1) + "\n"
    # The digest takes the place of the last zeros.
    return hashlib.sha256(blank.encode()).hexdigest().join(blank.rsplit(_ZEROS, 1))


def is_sealed(text: str, content: Mapping[str, Any]) -> bool:
    """Return whether a text is as `sealed` wrote it. content: what the text holds."""
    seal = content.get(SEAL)
    if not isinstance(seal, str) or len(seal) != len(_ZEROS):
        return False
    blank = _ZEROS.join(text.rsplit(seal, 1))
    return hashlib.sha256(blank.encode()).hexdigest() == seal


def read_object(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a JSON file and the object in it; OSError or ValueError if it has none."""
    if path.stat().st_size > _LONGEST:
        raise ValueError(f"it must be at most {_LONGEST} bytes, was: {path.stat().st_size}")
    text = path.read_bytes().decode()  # read_text would hide a changed line end
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError(f"it must be an object, was: {type(content).__name__}")
    return text, content


class CheckpointError(ValueError):
    """A model folder that cannot be read; the message names the file and the reason."""


def read_config(folder: Path, *, format: str = FORMAT) -> dict[str, Any]:
    """Return what config.json holds; CheckpointError if it or the list of files is not as written.

    The bytes of the other files are not read.
    """
    path = folder / CONFIG
    try:
        text, content = read_object(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing; is {folder} a model folder?") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    _require_format(path, content, format=format)
    if not is_sealed(text, content):
        raise CheckpointError(f"{path}: has changed since it was written: its seal does not match")
    parts = ("decoder", "notes", "files")
    if not all(isinstance(content.get(part), dict) for part in parts):
        raise CheckpointError(f"{path}: decoder, notes and files must be objects")
    if format == FORMAT and WEIGHTS not in content["files"]:
        raise CheckpointError(f"{path}: files must list {WEIGHTS}")
    _require_files(folder, content["files"])
    return content


def _require_format(path: Path, content: Mapping[str, Any], *, format: str) -> None:
    stored, folder = content.get("format"), path.parent
    if stored == format:
        return
    if stored == UNSEALED or (stored is None and "decoder" in content):
        raise CheckpointError(
            f"{path}: format must be {format!r}, was: {stored!r}, which has no sha256. "
            f"If you trust this folder: {_sealing(folder)}"
        )
    if stored is None and "model_type" in content:
        raise CheckpointError(
            f"{folder} is a folder of Hugging Face transformers; bipe convert {folder} to=bipe "
            "out=RUN makes a run of it"
        )
    raise CheckpointError(f"{path}: format must be {format!r}, was: {stored!r}")


def write_config(
    folder: Path,
    content: Mapping[str, Any],
    *,
    beside: Sequence[str] = (),
    format: str = FORMAT,
) -> None:
    """Write config.json for the weights in a folder, and the files beside them that are named.

    content: decoder and notes. format: with SHARED, of a folder without weights.
    """
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": bytes_sha256(folder / name)}
        for name in (*((WEIGHTS,) if format == FORMAT else ()), *beside)
    }
    text = sealed({"format": format, **content, "files": files})
    fresh = folder / f".{CONFIG}"
    fresh.unlink(missing_ok=True)  # a link there would be written through
    fresh.write_text(text, encoding="utf-8", newline="\n")
    fresh.replace(folder / CONFIG)


def seal_model(folder: str | os.PathLike[str]) -> None:
    """Write the checksums of a model folder anew, trusting its current files.

    For folders of a previous format, and after a file such as README.md was changed on purpose.
    """
    folder = Path(folder)
    content = read_object(folder / CONFIG)[1]
    if not isinstance(content.get("decoder"), dict):
        raise CheckpointError(f"{folder / CONFIG}: must describe a decoder; is it a model of bipe?")
    kept: dict[str, Any] = {
        key: content[key] for key in ("decoder", "parameters", "notes") if key in content
    }
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    format = FORMAT if WEIGHTS in names else SHARED
    beside = [name for name in names if name not in (WEIGHTS, CONFIG)]
    write_config(folder, {"notes": {}, **kept}, beside=beside, format=format)


def read_shapes(weights: Path) -> Shapes:
    """Return the shapes in a safetensors file, from its header alone; ValueError for other types.

    The library has compared header and size of the file by then.
    """
    with safe_open(weights, framework="np") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        for name, tensor in slices.items():
            if tensor.get_dtype() not in _DTYPES:
                dtypes = ", ".join(_DTYPES)
                raise ValueError(f"{name} must be one of {dtypes}, was: {tensor.get_dtype()}")
        return {name: tuple(tensor.get_shape()) for name, tensor in slices.items()}


def _require_files(folder: Path, files: Mapping[str, Any]) -> None:
    """Raise CheckpointError unless a folder holds the files listed, of their sizes, and no more."""
    for name, entry in files.items():
        path = folder / name
        if Path(name).name != name or not isinstance(entry, dict):
            raise CheckpointError(f"{folder / CONFIG}: files must be in the folder, was: {name!r}")
        if not path.is_file():
            raise CheckpointError(
                f"{path} is missing; a model folder contains {', '.join((CONFIG, *files))}"
            )
        if path.stat().st_size != entry.get("bytes"):
            raise CheckpointError(
                f"{path}: must have {entry.get('bytes')} bytes, was: {path.stat().st_size}; copy "
                f"the folder again, or, if you changed it: {_sealing(folder)}"
            )
    for path in sorted(folder.iterdir()):
        if path.name not in (CONFIG, *files) and not path.name.startswith((".", *UNLISTED)):
            raise CheckpointError(
                f"{path}: does not belong to the model: {CONFIG} does not list it"
            )


def require_unchanged(folder: Path, files: Mapping[str, Any]) -> None:
    """Raise CheckpointError for a file whose bytes are not those that were listed."""
    for name, entry in files.items():
        if bytes_sha256(folder / name) != entry.get("sha256"):
            raise CheckpointError(
                f"{folder / name}: has changed since it was written: its sha256 differs from that "
                f"in {CONFIG}; copy the folder again, or, if you changed it: {_sealing(folder)}"
            )


def _sealing(folder: Path) -> str:
    """Return the command that seals a folder."""
    return f"python -c \"from bipe.sealing import seal_model as seal; seal('{folder}')\""


def bytes_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def whole_folder(
    folder: str | os.PathLike[str],
    beside: Mapping[str, str] | None = None,
    *,
    keep: bool = False,
) -> Iterator[Path]:
    """Give a new folder, which gets further files by name and the place of `folder` at the end.

    keep: one that another process has put there meanwhile stays, since its bytes are the same.
    """
    folder = Path(folder)
    above = [parent for parent in folder.parents if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_left(folder)
    fresh = _temporary(folder, "new")
    try:
        for name, text in (beside or {}).items():
            (fresh / name).write_text(text, encoding="utf-8", newline="\n")
        yield fresh
        for path in filter(Path.is_file, fresh.rglob("*")):
            path.chmod(0o644)
            with path.open("rb") as file:
                os.fsync(file.fileno())
        _replace_folder(fresh, folder, keep=keep)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        with contextlib.suppress(OSError):  # others have put something there
            for parent in above:
                parent.rmdir()
        raise


def remove_left(folder: Path) -> None:
    """Remove what killed processes of this host left of a folder; put the former one back."""
    pattern = re.compile(
        rf"\.{re.escape(folder.name)}\.(new|old)\.{re.escape(_host())}\.(\d+)\.\w+"
    )
    for path in sorted(folder.parent.glob(f".{glob.escape(folder.name)}.*")):
        match = pattern.fullmatch(path.name)
        if match is None or path.is_symlink() or is_running(int(match[2])):
            continue
        if match[1] == "old" and not folder.exists() and (path / folder.name).is_dir():
            (path / folder.name).rename(folder)
        shutil.rmtree(path, ignore_errors=True)


def _temporary(folder: Path, kind: str) -> Path:
    prefix = f".{folder.name}.{kind}.{_host()}.{os.getpid()}."
    return Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))


def _host() -> str:
    """Return the name of this host, and of its space of process numbers (a container has one)."""
    return "-".join(filter(None, (socket.gethostname(), process_space())))


def process_space() -> str:
    """Return what tells the space of process numbers of this process; "" without /proc."""
    with contextlib.suppress(OSError):
        return f"{Path('/proc/self/ns/pid').stat().st_ino:x}"
    return ""


def process_facts(pid: int) -> list[str]:
    """Return the fields from the third on of /proc/PID/stat (proc_pid_stat(5)); [] without."""
    with contextlib.suppress(OSError, ValueError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def is_running(pid: int) -> bool:
    """Return whether a process of this host runs; one that has ended may be there unasked."""
    try:
        os.kill(pid, 0)
    except PermissionError:  # of another user
        return True
    except OSError:
        return False
    return process_facts(pid)[:1] not in (["Z"], ["X"])


def _replace_folder(fresh: Path, folder: Path, *, keep: bool) -> None:
    """Move `fresh` to the place of `folder`; os.replace refuses a folder that holds files."""
    fresh.chmod(0o755)  # mkdtemp lets nobody else in
    try:
        fresh.rename(folder)  # new, or empty
        return
    except OSError:
        if not folder.exists():
            raise
    if keep:
        shutil.rmtree(fresh)
        return
    old = _temporary(folder, "old")
    folder.rename(old / folder.name)
    fresh.rename(folder)
    shutil.rmtree(old)
