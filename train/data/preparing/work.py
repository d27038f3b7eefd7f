"""What workers do and where it goes: one object for this process, a pool, Slurm and Ray.

FOLDER/parts/SOURCE/00012/       a part that is done: a data set per split, and part.json
FOLDER/parts/SOURCE/00012.fault  why it could not be done
FOLDER/hashes/, duplicates/      of the documents, where duplicates are left out
FOLDER/progress/SOURCE.00012     how far it is
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from train.data.preparing.source import Source
from train.data.reading.documents import Part
from train.data.tokenizing.tokenizers import Tokenizer
from train.disk.files import read_json, unsynced, write_whole, writing
from train.errors import DataError

RESULT = "part.json"
Watch = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A part of a source, by its number in that source."""

    source: str
    number: int
    part: Part

    @property
    def name(self) -> str:
        return f"{self.source}.{self.number:05d}"


@dataclass(kw_only=True, eq=False, repr=False)
class Work:
    """All the tasks of a preparation; a task's place in the list is its rank.

    product: what is made of each part: its data sets, or the hashes of its documents.
    deduplicate: leave out the documents that `duplicates` lists.
    digest: names the request; what another request left behind is not taken for this one's.
    descriptions: what the manifests of a source hold beyond counts and files.
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
        return f"{len(self.tasks)} parts in {self.folder}"

    def subset(self, ranks: Sequence[int]) -> Work:
        """Return the work on some of the parts."""
        return replace(self, tasks=[self.tasks[rank] for rank in ranks])

    def hashing(self) -> Work:
        """Return the work of hashing all documents, which comes before writing them."""
        return replace(self, product="hashes")

    def place(self, rank: int) -> Path:
        """Return the folder of a part."""
        task = self.tasks[rank]
        return self.folder / self.product / task.source / f"{task.number:05d}"

    def duplicates(self, rank: int) -> Path:
        """Return the file that lists what to leave out of a part (duplicates.py)."""
        task = self.tasks[rank]
        return self.folder / "duplicates" / task.source / f"{task.number:05d}.places"

    def result(self, rank: int) -> dict[str, Any] | None:
        """Return what the worker of a part counted; None if it is not done, or is another's."""
        found = read_json(self.place(rank) / RESULT)
        return found if found and found.get("digest") == self._digest(rank) else None

    def missing(self) -> list[int]:
        """Return the ranks of the parts that are not done."""
        return [rank for rank in range(len(self.tasks)) if self.result(rank) is None]

    def put(self, rank: int, fill: Callable[[Path], dict[str, Any]]) -> None:
        """Make a part with `fill`, which writes into a folder and returns what it counted.

        Two workers may be at the same part, when one is taken for dead: the folder that is
        complete first stays.
        """
        place = self.place(rank)
        made = place.with_name(f".{place.name}.{socket.gethostname()}.{os.getpid()}")
        try:
            shutil.rmtree(made, ignore_errors=True)
            with writing(made):
                made.mkdir(parents=True)
            with unsynced():  # its checksums are looked at before it is merged
                result = {"digest": self._digest(rank), **fill(made)}
                write_whole(made / RESULT, json.dumps(result))
                self._install(made, place, rank)
        except BaseException as fault:
            shutil.rmtree(made, ignore_errors=True)
            if isinstance(fault, Exception):
                self._note(rank, f"{type(fault).__name__}: {fault}")
            raise
        finally:
            with suppress(OSError):
                self._progress(rank).unlink()
        with suppress(OSError):
            place.with_suffix(".fault").unlink()

    def remove(self, rank: int) -> None:
        """Forget a part, so that it is made again."""
        shutil.rmtree(self.place(rank), ignore_errors=True)

    def report(self, rank: int, counts: Sequence[int]) -> None:
        """Note how far a part is: documents, bytes of text, tokens, segments."""
        path = self._progress(rank)
        with suppress(OSError):  # nobody needs it
            path.parent.mkdir(exist_ok=True)
            path.write_text(" ".join(map(str, counts)))

    def reports(self) -> dict[str, list[int]]:
        """Return how far the parts at work are, by name of the task."""
        found = {}
        with suppress(OSError):
            for path in (self.folder / "progress").iterdir():
                with suppress(OSError, ValueError):
                    found[path.name] = [int(word) for word in path.read_text().split()]
        return {name: counts for name, counts in found.items() if len(counts) == 4}

    def clear_reports(self) -> None:
        """Forget the reports of workers that are gone."""
        shutil.rmtree(self.folder / "progress", ignore_errors=True)

    def faults(self) -> list[str]:
        """Return what went wrong, as workers elsewhere noted it."""
        notes = (self.place(rank).with_suffix(".fault") for rank in self.missing())
        return [note.read_text(encoding="utf-8") for note in notes if note.exists()]

    def _install(self, made: Path, place: Path, rank: int) -> None:
        with writing(place):
            if self.result(rank) is None:
                shutil.rmtree(place, ignore_errors=True)
                with suppress(FileExistsError, NotADirectoryError):
                    made.rename(place)
        shutil.rmtree(made, ignore_errors=True)
        if self.result(rank) is None:
            raise DataError(f"{place}: another program writes here; run again")

    def _note(self, rank: int, text: str) -> None:
        with suppress(OSError):
            self.place(rank).with_suffix(".fault").write_text(text, encoding="utf-8")

    def _progress(self, rank: int) -> Path:
        return self.folder / "progress" / self.tasks[rank].name

    def _digest(self, rank: int) -> str:
        return f"{self.digest}:{self.tasks[rank].part.digest()}"
