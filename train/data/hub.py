"""Reader of Hugging Face data sets, streamed or downloaded; local files through it as well.

`datasets` serves as a reader only and is imported when a document is asked for. Data sets that
are a script do not load since datasets 4; the error says how to name their files instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from train.data.documents import DataError, Document, Reader, dig, text_of
from train.data.fields import fields_of

_SCRIPT_CURE = (
    "a data set that is a loading script is not supported by datasets >= 4. Name its files "
    "instead: path=json (or parquet), data_files={train: hf://datasets/OWNER/NAME/FILE}, or look "
    "for a copy in Parquet on the hub"
)


@dataclass(frozen=True, kw_only=True)
class HuggingFace(Reader):
    """One document a row of ``datasets.load_dataset(path, name, data_dir=, data_files=, split=)``.

    text_key, id_key: fields of a row, dotted for nested ones; without id_key a document is named
    by split and row.
    meta_keys: fields that documents keep for segmenters that choose by them; by default those
    that `Auto` knows.
    filter: keep rows whose field has one of the values, as in
    ``{"meta.pile_set_name": ["ArXiv", "Github"]}``.
    """

    path: str
    name: str | None = None
    data_dir: str | None = None
    data_files: Any = None
    split: str = "train"
    text_key: str = "text"
    id_key: str | None = None
    meta_keys: Sequence[str] | None = None
    streaming: bool = True
    filter: Mapping[str, Sequence[Any]] | None = None
    provenance: ClassVar[str] = "Hugging Face datasets"

    def label(self) -> str:
        return f"HuggingFace path={self.path}"

    def check(self) -> None:
        """Refuse a script before anything is built; what is on the hub is seen at the first row."""
        if self.path.endswith(".py"):
            raise DataError(f"path={self.path}: {_SCRIPT_CURE}")
        for field, values in (self.filter or {}).items():
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise DataError(f"filter.{field} must be a list of allowed values, was: {values!r}")

    def read(self) -> Iterator[Document]:
        self.check()
        for number, row in enumerate(self.rows()):
            where = f"{self.label()}, row {number}"
            if not self.keeps(row, where=where):
                continue
            id = f"{self.split}:{number}"
            if self.id_key is not None:
                id = str(dig(row, self.id_key, where=where, parameter="id_key"))
            text = text_of(row, self.text_key, where=where)
            yield self.document(text, id=id, meta=fields_of(row, self.text_key, self.meta_keys))

    def keeps(self, row: Mapping[str, Any], *, where: str) -> bool:
        """Whether every filtered field of a row has an allowed value."""
        return all(
            dig(row, field, where=where, parameter="filter") in values
            for field, values in (self.filter or {}).items()
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows as `datasets` gives them; DataError names the path when it cannot."""
        import datasets

        try:
            yield from datasets.load_dataset(
                self.path,
                self.name,
                data_dir=self.data_dir,
                data_files=_plain_files(self.data_files),
                split=self.split,
                streaming=self.streaming,
            )
        except RuntimeError as fault:
            if "scripts are no longer supported" not in str(fault):
                raise
            raise DataError(f"path={self.path}: {_SCRIPT_CURE}") from fault
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as fault:
            raise DataError(
                f"{self.label()}, split={self.split}: {type(fault).__name__}: {fault}. Check path, "
                "name, split and the network (HF_HUB_OFFLINE), or read local files instead"
            ) from fault


def _plain_files(files: Any) -> Any:
    """`datasets` tests for dict and list, which a mapping of a configuration is not."""
    if isinstance(files, Mapping):
        return {str(key): _plain_files(value) for key, value in files.items()}
    if isinstance(files, Sequence) and not isinstance(files, str):
        return [_plain_files(file) for file in files]
    return files
