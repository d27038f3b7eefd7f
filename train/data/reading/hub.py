"""Reader of Hugging Face data sets, streamed or downloaded, and of local files through `datasets`.

Since version 4 it loads no scripts; the error explains how to name their files instead.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from train.data.reading.documents import Bad, Document, Part, part_size, ranges
from train.data.reading.fields import Rows
from train.data.reading.storage import is_saved
from train.errors import DataError

_SCRIPT_CURE = (
    "datasets >= 4 does not support loading scripts. Name the files instead: path=json (or "
    "parquet), data_files={train: hf://datasets/OWNER/NAME/FILE}, or find a Parquet copy on the "
    "Hugging Face Hub"
)


@dataclass(frozen=True, kw_only=True)
class HuggingFace(Rows):
    """One document per row of ``datasets.load_dataset``; without id_key, named by its place.

    path: also a folder of ``save_to_disk``, whose `split` is read if it holds several.
    """

    path: str
    name: str | None = None
    data_dir: str | None = None
    data_files: Any = None
    split: str = "train"
    streaming: bool = True
    provenance: ClassVar[str] = "Hugging Face datasets"

    def label(self) -> str:
        return f"HuggingFace path={self.path}"

    def check(self) -> None:
        """Raise DataError for a local script; one on the hub is found at its first row."""
        if self.path.endswith(".py"):
            raise DataError(f"path={self.path}: {_SCRIPT_CURE}")
        super().check()

    def parts(self) -> list[Part]:
        opened = self.open()
        if self.streaming and not is_saved(Path(self.path)):
            files = opened.num_shards
            return [Part(where={"file": number, "files": files}) for number in range(files)]
        rows = len(opened)
        size = int(opened.data.nbytes)
        each = max(1, rows * part_size(size) // max(1, size))
        return [
            Part(where={"first": first, "last": last}, size=size * (last - first) // rows)
            for first, last in ranges(rows, each=each)
        ]

    def read_part(self, part: Part) -> Iterator[Document | Bad]:
        where, opened, named = part.where, self.open(), self.split
        if where.get("files", 1) > 1:
            opened = opened.shard(num_shards=where["files"], index=where["file"])
            named = f"{self.split}:{where['file']}"
        elif "first" in where:
            opened = opened.select(range(where["first"], where["last"]))
        with self.explained():
            for number, row in enumerate(opened, start=where.get("first", 0)):
                id = f"{named}:{number}"
                document = self.row(row, where=f"{self.label()}, row {id}", id=id)
                if document is not None:
                    yield document

    def open(self) -> Any:
        import datasets

        self.check()
        where = {"data_dir": self.data_dir, "data_files": self.data_files, "split": self.split}
        with self.explained():
            if is_saved(Path(self.path)):
                saved = datasets.load_from_disk(self.path)
                return saved if isinstance(saved, datasets.Dataset) else saved[self.split]
            return datasets.load_dataset(self.path, self.name, streaming=self.streaming, **where)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors of `datasets` in the block into DataError with the path and the fix."""
        try:
            yield
        except DataError:
            raise
        except Exception as fault:  # the clients of the network have errors of their own
            if "scripts are no longer supported" in str(fault):
                raise DataError(f"path={self.path}: {_SCRIPT_CURE}") from fault
            raise DataError(
                f"{self.label()}, split={self.split}: {type(fault).__name__}: {fault}. Check path, "
                "name, split and the network (HF_HUB_OFFLINE), or read local files instead"
            ) from fault
