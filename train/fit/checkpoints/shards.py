"""Checkpoints in shards: a folder to which each rank writes its part, for any devices to resume.

    step=00000200.ckpt/
        __0_0.distcp ...   the tensors of a rank; what several ranks hold is written once
        rest.pt            what is no tensor of the model or the optimizer: loops, loader, schedule
        manifest.json      where each tensor lies, and the sha256 of every file; written last

torch.distributed.checkpoint plans who writes and reads what, so that the ranks of another run, or
one process, read only what they need. Its own table of contents is a pickle, which can run code
when it is read: the manifest takes its place. The folder has a temporary name until it is whole.

Checkpoints of both kinds may be written in the background (`Background`).
"""

import shutil
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed.checkpoint as dcp
from torch import Size, Tensor
from torch.distributed import ProcessGroup
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystem
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.tensor import DTensor
from torch.futures import Future

from train.disk import manifest
from train.disk.files import Output, sha256, sync
from train.errors import DataError, RunError

MANIFEST = "manifest.json"
_REST = "rest.pt"
_FORMAT = {"format": "bipe-shards", "version": 1}
_STATE, _OPTIMIZERS = "state_dict", "optimizer_states"  # of Lightning's checkpoints
Checkpoint = dict[str, Any]


def save(checkpoint: Checkpoint, path: Path, *, group: ProcessGroup | None = None) -> None:
    """Write a checkpoint to a folder; every rank has to call it, with its part of each tensor."""
    tensors, rest = split(checkpoint)
    part = path.with_name(f".{path.name}.part")
    try:
        with _named_rank("write", path):
            writer = _Writer(part, rest=rest, path=path)
            dcp.save(tensors, storage_writer=writer, process_group=group)
    except RunError:
        shutil.rmtree(part, ignore_errors=True)
        raise


def load(path: Path, live: Checkpoint) -> Checkpoint:
    """Read a checkpoint into the tensors of `live`, each rank its part; return the rest of it."""
    tensors, _ = split(live)
    _read(path, tensors)
    return _rest(path)


def load_whole(path: Path, *, weights_only: bool = False) -> Checkpoint:
    """Return a checkpoint with its tensors, on the host, whatever wrote it.

    weights_only: without those of the optimizer.
    """
    tensors = {
        name: torch.empty(entry["shape"], dtype=getattr(torch, entry["dtype"]))
        for name, entry in contents(path)["tensors"].items()
        if not weights_only or name.startswith(f"{_STATE}/")
    }
    _read(path, tensors, alone=True)
    state = _rest(path)
    for name, tensor in tensors.items():
        *place, last = name.split("/")
        node: Any = state
        for key in place:
            node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
        node[last] = tensor
    return state


def split(checkpoint: Checkpoint) -> tuple[dict[str, Tensor], Checkpoint]:
    """Return the tensors of a checkpoint by their paths, and a copy of the checkpoint without."""
    tensors = {f"{_STATE}/{name}": value for name, value in checkpoint[_STATE].items()}
    rest = {**checkpoint, _STATE: {}, _OPTIMIZERS: []}
    for number, optimizer in enumerate(checkpoint.get(_OPTIMIZERS, ())):
        scalars: dict[str, dict[str, Any]] = {}
        for name, state in optimizer["state"].items():
            scalars[name] = {}
            for key, value in state.items():
                if isinstance(value, Tensor) and (value.ndim or isinstance(value, DTensor)):
                    tensors[f"{_OPTIMIZERS}/{number}/state/{name}/{key}"] = value
                else:
                    scalars[name][key] = value
        rest[_OPTIMIZERS].append({**optimizer, "state": scalars})
    return tensors, rest


def contents(path: Path) -> dict[str, Any]:
    """Return the manifest of a folder; DataError if it is none or was changed."""
    listed = manifest.load(path / MANIFEST, **_FORMAT, what="checkpoint")  # type: ignore[arg-type]
    files = {chunk["file"] for entry in listed["tensors"].values() for chunk in entry["chunks"]}
    if any(Path(name).name != name for name in listed["files"]) or not files <= {*listed["files"]}:
        raise DataError(f"{path / MANIFEST}: names files outside its folder")
    return listed


def fault_of(path: Path) -> str | None:
    if not (path / MANIFEST).is_file():
        return "it has no manifest (the run was stopped while it was written)"
    try:
        files = contents(path)["files"]
    except (DataError, LookupError, TypeError, AttributeError) as fault:
        return f"its manifest is damaged ({fault})"
    for name, entry in files.items():
        if not (path / name).is_file():
            return f"{name} is missing"
        if sha256(path / name) != entry["sha256"]:
            return f"the checksum of {name} is not the one in its manifest"
    return None


def _rest(path: Path) -> Checkpoint:
    state: Checkpoint = torch.load(path / _REST, map_location="cpu", weights_only=True)
    return state


def _read(path: Path, tensors: dict[str, Tensor], *, alone: bool = False) -> None:
    with _named_rank("read", path), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*assuming the intent is to load.*")
        dcp.load(tensors, storage_reader=_Reader(path), no_dist=alone)


@contextmanager
def _named_rank(verb: str, path: Path) -> Iterator[None]:
    try:
        yield
    except CheckpointException as fault:
        rank, (error, _) = next(iter(fault.failures.items()))
        raise RunError(f"rank {rank} cannot {verb} its part of {path}: {error}") from error


@contextmanager
def discarded_on_failure(output: Output) -> Iterator[None]:
    """Discard what torch writes in the block if that fails, and raise what failed first."""
    # After a failed write torch still ends its archive, which fails with another error.
    try:
        yield
    except BaseException as error:
        output.discard()
        if isinstance(error.__context__, DataError):
            raise error.__context__ from None
        raise


class _Stream(Output):
    """A file of shards as torch.distributed.checkpoint writes it; `commit` closes it."""

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        """Do nothing, see `commit`."""


class _Files(FileSystem):
    """Files that are hashed while they are written. written: sha256 and size, by name."""

    def __init__(self) -> None:
        self.written: dict[str, dict[str, Any]] = {}

    @contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[Any]:
        if mode != "wb":
            with super().create_stream(path, mode) as stream:
                yield stream
            return
        output = _Stream(Path(path))
        with discarded_on_failure(output):
            yield output
            digest = output.commit()
        self.written[Path(path).name] = {key: digest[key] for key in ("bytes", "sha256")}


class _Writer(dcp.FileSystemWriter):
    """Writes shards to a folder; rank 0 adds the rest and the manifest, and gives it its name."""

    def __init__(self, part: Path, *, rest: Checkpoint, path: Path) -> None:
        super().__init__(part, sync_files=False)  # our files sync themselves
        self.fs: _Files = _Files()
        self.final, self.rest = path, rest

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[Any]]:
        written = super().write_data(plan, planner).wait() if plan.items else []
        future: Future[list[Any]] = Future()
        # Rank 0, which gets these results, learns the checksums with them.
        sums = [self.fs.written[item.storage_data.relative_path] for item in written]
        future.set_result(
            [
                replace(item, storage_data=(item.storage_data, chunk))
                for item, chunk in zip(written, sums, strict=True)
            ]
        )
        return future

    def finish(self, metadata: Metadata, results: list[list[Any]]) -> None:
        part = Path(self.path)
        with self.fs.create_stream(part / _REST, "wb") as stream:
            torch.save(self.rest, stream)
        files, chunks = dict(self.fs.written), {}
        for one in (result for of_rank in results for result in of_rank):
            info, files[one.storage_data[0].relative_path] = one.storage_data
            chunks[one.index.fqn, tuple(one.index.offset)] = info
        tensors = {}
        for name, entry in metadata.state_dict_metadata.items():
            assert isinstance(entry, TensorStorageMetadata)  # `split` leaves nothing else
            places = [_chunk(chunk, chunks[name, tuple(chunk.offsets)]) for chunk in entry.chunks]
            dtype = str(entry.properties.dtype).removeprefix("torch.")
            tensors[name] = {"dtype": dtype, "shape": list(entry.size), "chunks": places}
        manifest.store(part / MANIFEST, {**_FORMAT, "files": files, "tensors": tensors})
        if self.final.exists():  # of the same step, and damaged: the run went on from an older one
            shutil.rmtree(self.final)
        part.rename(self.final)  # with the manifest in it, so it is whole at once
        sync(self.final.parent)


@dataclass(frozen=True, slots=True)
class _Stored:
    """Where a tensor lies, with the names that torch's reader asks for."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None


def _chunk(chunk: ChunkStorageMetadata, info: Any) -> dict[str, Any]:
    return {
        "offsets": list(chunk.offsets),
        "sizes": list(chunk.sizes),
        "file": info.relative_path,
        "at": info.offset,
        "bytes": info.length,
    }


class _Reader(dcp.FileSystemReader):
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        tensors, places = {}, {}
        for name, entry in contents(Path(self.path))["tensors"].items():
            chunks = []
            for part in entry["chunks"]:
                offsets, info = Size(part["offsets"]), (part["file"], part["at"], part["bytes"])
                chunks.append(ChunkStorageMetadata(offsets, Size(part["sizes"])))
                places[MetadataIndex(name, offsets)] = _Stored(*info)
            properties = TensorProperties(dtype=getattr(torch, entry["dtype"]))
            tensors[name] = TensorStorageMetadata(properties, Size(entry["shape"]), chunks)
        return Metadata(state_dict_metadata=cast(Any, tensors), storage_data=places)


class Background:
    """One write at a time, of a copy, in a thread that dies with the process.

    The copy is made before, into memory that each save uses again (page-locked if there is a GPU).
    """

    def __init__(self) -> None:
        pinned = torch.cuda.is_available()
        self._stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=pinned,
                use_shared_memory=False,
                use_async_staging=False,
                use_non_blocking_copy=pinned,
            )
        )
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def write(self, state: dict[str, Any], write: Callable[[dict[str, Any]], None]) -> None:
        """Copy a state, and call `write` with the copy in the background."""
        self.wait()
        copy = self._stager.stage(state)
        assert isinstance(copy, dict)

        def run() -> None:
            try:
                write(copy)
            except BaseException as failure:
                self._failure = failure

        self._thread = threading.Thread(target=run, name="bipe-checkpoint", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise the failure of the last write, if it has failed."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def wait(self) -> None:
        """Wait for the last write, and raise its failure."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()
