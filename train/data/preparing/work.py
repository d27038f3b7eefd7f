"""What workers do and where results go: one object for this process, a pool, Slurm and Ray.

FOLDER/parts/SOURCE/00012/       a finished part: a data set per split, and part.json
FOLDER/parts/SOURCE/00012.fault  why it failed; 00012.progress: how far it is
FOLDER/hashes/, duplicates/      of the documents, if duplicates are left out
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from segmenters.wording import counted
from train.data.preparing.source import Source
from train.data.reading.documents import Part
from train.data.store.workplace import RESULT
from train.data.store.writer import ShardWriter
from train.data.tokenizing.tokenizers import Tokenizer
from train.disk.files import read_json, remove, unsynced, write_whole, writing

_VERSION = 3  # of results: those of another are ignored


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A part of a source, by its number in that source."""

    source: str
    number: int
    part: Part

    def __str__(self) -> str:
        return f"{self.source}/{self.number:05d}"


@dataclass(kw_only=True, eq=False, repr=False)
class Work:
    """All tasks of a preparation; the rank of a task is its index.

    product: what to make of each part: data sets, or the hashes of its documents. deduplicate:
    leave out what `duplicates` lists. digest: of the request; results of others are ignored.
    descriptions: what the manifests of a source hold besides counts and files.
    """

    folder: Path
    sources: Mapping[str, Source]
    tasks: Sequence[Task]
    digest: str
    tokenizer: Tokenizer
    descriptions: Mapping[str, Mapping[str, Any]]
    product: Literal["parts", "hashes"] = "parts"
    deduplicate: bool = False

    def __post_init__(self) -> None:
        self.folder = self.folder.absolute()  # workers may run in another folder

    def __repr__(self) -> str:
        return f"{counted(len(self.tasks), 'part')} in {self.folder}"

    def subset(self, ranks: Sequence[int]) -> Work:
        return replace(self, tasks=[self.tasks[rank] for rank in ranks])

    def hashing(self) -> Work:
        return replace(self, product="hashes", deduplicate=False)

    def place(self, rank: int) -> Path:
        return self.folder / self.product / str(self.tasks[rank])

    def duplicates(self, rank: int) -> Path:
        return self.folder / "duplicates" / f"{self.tasks[rank]}.places"

    def result(self, rank: int) -> dict[str, Any] | None:
        """Return the counts of a part; None if it is not done, or was made for another request."""
        result = read_json(self.place(rank) / RESULT)
        return result if result and result.get("digest") == self._digest(rank) else None

    def missing(self) -> list[int]:
        return [rank for rank in range(len(self.tasks)) if self.result(rank) is None]

    def writer(
        self, name: str, split: str, folder: Path, levels: int, shard_tokens: int
    ) -> ShardWriter:
        return ShardWriter(
            folder=folder / split,
            name=name,
            vocab_size=self.tokenizer.vocab_size,
            levels=levels,
            description={"split": split, **self.descriptions[name]},
            shard_tokens=shard_tokens,
        )

    def put(self, rank: int, fill: Callable[[Path], dict[str, Any]]) -> None:
        """Make a part with `fill`, which returns its counts; of two workers, the first wins."""
        place = self.place(rank)
        part = place.with_name(f".{place.name}.{socket.gethostname()}.{os.getpid()}")
        note = place.with_suffix(".fault")
        try:
            shutil.rmtree(part, ignore_errors=True)
            with writing(part):
                part.mkdir(parents=True)
            with unsynced():  # its checksums are checked before it is merged
                result = {"digest": self._digest(rank), **fill(part)}
                write_whole(part / RESULT, json.dumps(result))
                self._install(part, place, rank)
        except Exception as fault:
            with suppress(OSError):
                note.write_text(f"{type(fault).__name__}: {fault}", encoding="utf-8")
            raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
            remove(place.with_suffix(".progress"))
        remove(note)

    def report(self, rank: int, counts: Sequence[int]) -> None:
        """Write the progress of a part: documents, bytes of text, tokens, segments."""
        with suppress(OSError):  # the work goes on without it
            self.place(rank).with_suffix(".progress").write_text(json.dumps({"counts": counts}))

    def reports(self) -> dict[int, list[int]]:
        paths = {self.place(rank).with_suffix(".progress"): rank for rank in range(len(self.tasks))}
        there = (path for path in self._reported() if path in paths)
        return {paths[path]: found["counts"] for path in there if (found := read_json(path))}

    def clear_reports(self) -> None:
        for path in self._reported():
            remove(path)

    def faults(self) -> list[str]:
        notes = (self.place(rank).with_suffix(".fault") for rank in self.missing())
        return [note.read_text(encoding="utf-8") for note in notes if note.exists()]

    def _install(self, made: Path, place: Path, rank: int) -> None:
        if self.result(rank) is not None:
            return
        with writing(place):
            shutil.rmtree(place, ignore_errors=True)
            try:
                made.rename(place)
            except OSError:
                if self.result(rank) is None:
                    raise

    def _reported(self) -> Iterator[Path]:
        return (self.folder / self.product).glob("*/*.progress")

    def _digest(self, rank: int) -> str:
        return f"{_VERSION}:{self.digest}:{self.tasks[rank].part.digest()}"
