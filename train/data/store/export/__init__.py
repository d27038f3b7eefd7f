"""Prepared data in the formats of other programs, one file a format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from train.data.store.export.megatron import SEQUENCES, write_megatron
from train.data.store.export.parquet import write_parquet
from train.data.store.folder import TOKENIZER, read_top
from train.data.store.shards import open_dataset
from train.disk.files import Output, sync_folder, writing
from train.errors import DataError, nearest

__all__ = ["FORMATS", "SEQUENCES", "Exported", "export"]

FORMATS = ("megatron", "parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One split as it was written; no file where it has no document."""

    source: str
    split: str
    documents: int
    files: list[Path]


def export(
    folder: Path, *, out: str | Path, format: str, sequences: str = "documents"
) -> Iterator[Exported]:
    """Write every split of a prepared data set to OUT/SOURCE, and tokenizer.json to OUT.

    format: "megatron" or "parquet". sequences: what a sequence of Megatron's is, "documents" or
    "segments". Raises DataError for a format that there is not, an `out` that is not new or empty,
    or data that is damaged; nothing is left of the attempt.
    """
    out = Path(out)
    if format not in FORMATS:
        raise DataError(f"format: there is no {format!r}; {nearest(format, FORMATS)}")
    if sequences not in SEQUENCES:
        raise DataError(f"sequences: there is no {sequences!r}; {nearest(sequences, SEQUENCES)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"out={out} must be a new or empty folder")
    sources = read_top(folder)["sources"]
    with _Outputs.of(out) as outputs:
        tokenizer = outputs.create(out / TOKENIZER)
        tokenizer.write((folder / TOKENIZER).read_bytes())
        outputs.commit()
        for source, entry in sources.items():
            for split in entry["splits"]:
                data = open_dataset(folder / source / split)
                if len(data) and format == "megatron":
                    write_megatron(
                        data, stem=out / source / split, create=outputs.create, sequences=sequences
                    )
                elif len(data):
                    write_parquet(data, stem=out / source / split, create=outputs.create)
                yield Exported(
                    source=source, split=split, documents=len(data), files=outputs.commit()
                )


class _Outputs:
    """Files of an export: each whole before the next split, and none after a fault."""

    def __init__(self) -> None:
        self._open: list[Output] = []
        self._done: list[Output] = []
        self._folders: list[Path] = []

    @classmethod
    @contextmanager
    def of(cls, out: Path) -> Iterator[_Outputs]:
        """Remove everything again if the export fails."""
        outputs = cls()
        try:
            outputs._make(out)
            yield outputs
        except BaseException:
            outputs._discard()
            raise

    def create(self, path: Path) -> Output:
        """A new file, in a folder that is made where it is missing."""
        self._make(path.parent)
        output = Output(path)
        self._open.append(output)
        return output

    def commit(self) -> list[Path]:
        """Put what was created in its place."""
        committed = self._open
        for output in committed:
            output.commit()
        for folder in {output.path.parent for output in committed}:
            with writing(folder):
                sync_folder(folder)
        self._done += committed
        self._open = []
        return [output.path for output in committed]

    def _make(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            with writing(path):
                path.mkdir()
            self._folders.append(path)

    def _discard(self) -> None:
        for output in (*self._open, *self._done):
            output.discard()
        for folder in reversed(self._folders):
            with suppress(OSError):
                folder.rmdir()
