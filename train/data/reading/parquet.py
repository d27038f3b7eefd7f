"""The reader of Parquet: row groups as pieces, few rows at once, and only the needed columns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from segmenters.fields import KNOWN_FIELDS, NESTING_FIELDS
from train.data.reading.documents import Bad, Document, grouped
from train.data.reading.fields import Rows, dig
from train.data.reading.files import Files
from train.data.reading.storage import ALWAYS, MOST_GROWTH, File, raw
from train.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Parquet(Rows, Files):
    """One document per row, read in batches and only the needed columns."""

    pattern: str = "**/*.parquet"
    batch_rows: ClassVar[int] = 256
    batch_bytes: ClassVar[int] = 16_000_000  # unpacked: a row may hold a book
    most_bytes: ClassVar[int] = 1 << 28  # of a batch whose rows repeat one value

    def pieces(self, file: File, *, size: int) -> list[tuple[dict[str, Any], int]]:
        try:
            with self.table(file) as table:
                metadata = table.metadata
                groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        except (OSError, Bad):  # reported by the worker that reads the file
            return []
        # Stored bytes of each row group, as if all rows were of one size.
        weights = [file.size * rows // max(1, sum(groups)) for rows in groups]
        first = 0
        pieces = []
        for numbers, bytes_ in grouped(enumerate(weights), size=size):
            pieces.append(({"groups": numbers, "first": first}, bytes_))
            first += sum(groups[number] for number in numbers)
        return pieces

    def read_file(
        self, file: File, *, groups: list[int] | None = None, first: int = 0
    ) -> Iterator[Document | Bad]:
        number, shown = first, str(file)
        with self.table(file) as table:
            names = table.schema_arrow.names
            keys = self.read_keys
            self.require_one(names, where=shown)
            columns = [key if key in names else key.split(".")[0] for key in keys]
            if columns[0] not in names:
                try:
                    dig(dict.fromkeys(names), self.text_key, parameter="text_key")
                except DataError as fault:
                    raise Bad(where=shown, rule="no text", detail=str(fault)) from None
            columns += columns_of(table.schema_arrow, self.meta_keys)
            self.require_bounded(table.metadata, columns, groups, where=shown)
            rows = self.rows_at_once(table.metadata)
            for batch in table.iter_batches(batch_size=rows, columns=columns, row_groups=groups):
                for row in rows_of(batch):
                    where = f"{shown}, row {number}"
                    item = self.row(row, where=where, id=f"{file.name}:{number}")
                    if item is not None:
                        yield item
                    number += 1

    def rows_at_once(self, metadata: Any) -> int:
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        mean = max((g.total_byte_size // max(1, g.num_rows) for g in groups), default=0)
        # Any row may repeat the largest value of a dictionary.
        chunks = (group.column(at) for group in groups for at in range(group.num_columns))
        repeating = (chunk for chunk in chunks if chunk.has_dictionary_page)
        largest = max((chunk.total_uncompressed_size for chunk in repeating), default=0)
        most = min(self.batch_bytes // max(1, mean), self.most_bytes // max(1, largest))
        return max(1, min(self.batch_rows, most))

    def require_bounded(
        self, metadata: Any, columns: list[str], groups: list[int] | None, *, where: str
    ) -> None:
        """Raise Bad for a file whose wanted columns unpack to far more than is stored of them."""
        for number in range(metadata.num_row_groups) if groups is None else groups:
            group = metadata.row_group(number)
            chunks = [group.column(at) for at in range(group.num_columns)]
            tops = {column.split(".")[0] for column in columns}
            chunks = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in tops]
            packed = sum(chunk.total_compressed_size for chunk in chunks)
            unpacked = sum(chunk.total_uncompressed_size for chunk in chunks)
            if unpacked > max(ALWAYS, MOST_GROWTH * packed):
                raise Bad(
                    where=f"{where}, row group {number}",
                    rule="grows too much",
                    detail=f"{unpacked:,} bytes from {packed:,} packed ones",
                    cure="Write it without compression if you trust it, or leave it out by pattern",
                )

    @contextmanager
    def table(self, file: File) -> Iterator[Any]:
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        with raw(file) as stored:
            try:
                with parquet.ParquetFile(stored, page_checksum_verification=True) as table:
                    yield table
            except arrow.ArrowException as fault:
                detail = f"not a Parquet file: {fault}".rstrip(".")
                raise Bad(where=str(file), rule="not Parquet", detail=detail) from None


def columns_of(schema: Any, keys: Sequence[str] | None = None) -> list[str]:
    """Return the columns of an Arrow schema that hold the named fields, dotted if nested."""
    from pyarrow import types

    wanted = frozenset(KNOWN_FIELDS if keys is None else keys)
    nested = [key for key in wanted if "." in key and key.partition(".")[0] in schema.names]
    columns = [key for key in nested if key not in schema.names]
    for column in schema:
        nests = column.name in NESTING_FIELDS and column.name not in wanted
        if nests and types.is_struct(column.type):
            names = [child.name for child in column.type]
            columns += [f"{column.name}.{name}" for name in names if name in wanted]
        elif nests or column.name in wanted:  # what nests may be a JSON string
            columns.append(column.name)
    return columns


def rows_of(batch: Any) -> list[Any]:
    """Return the rows of an Arrow batch, with a UnicodeDecodeError for each that is not UTF-8."""
    try:
        return batch.to_pylist()
    except UnicodeDecodeError as fault:
        if len(batch) == 1:
            return [fault]
        return [row for start in range(len(batch)) for row in rows_of(batch.slice(start, 1))]
