"""Marks beside the token files of datatrove's DocumentTokenizer, as a step of its pipelines.

    NAME.ds          ids, uint16, or uint32 for vocabularies above 65536
    NAME.ds.index    ends of documents in tokens, uint64
    NAME.ds.marks    written here: a uint8 per token, as `mark` has them

It reads files, not documents, so that shuffled and merged files are as good. Their ids must spell
the texts byte by byte (byte-level and SentencePiece vocabularies do).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from datatrove.io import DataFolderLike, get_datafolder
from datatrove.utils.tokenization import PipelineStepWithTokenizer

from segmenters.align import ByteTable, Marks, mark
from segmenters.base import Segmenter, SegmenterError

SUFFIX = ".marks"
_INDEX = ".index"


class SegmentMarks(PipelineStepWithTokenizer):  # type: ignore[misc]
    """Writes the marks of all token files of a folder; tasks share the files.

    >>> executor = LocalPipelineExecutor([SegmentMarks("tokens", "tokenizer.json", Sentences())])
    """

    name = "Segment marks"
    type = "TOKENIZER"

    def __init__(
        self, folder: DataFolderLike, tokenizer_name_or_path: str, segmenter: Segmenter
    ) -> None:
        super().__init__(tokenizer_name_or_path)
        self.folder, self.segmenter = get_datafolder(folder), segmenter

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Write the marks of this task's files; documents pass through."""
        yield from data or ()
        table = ByteTable.of_tokenizer(self.tokenizer)
        if table is None:
            raise ValueError(
                "tokenizer_name_or_path: its ids do not decode to bytes; "
                "SegmentMarks needs a byte-level or SentencePiece vocabulary"
            )
        names = sorted(self.folder.list_files(glob_pattern=f"*{_INDEX}", recursive=True))
        for name in names[rank::world_size]:
            self._write(name.removesuffix(_INDEX), table)

    @cached_property
    def _silent(self) -> list[int]:
        """The ids of special tokens, which spell nothing."""
        added = self.tokenizer.get_added_tokens_decoder()
        return [id for id, token in added.items() if token.special]

    def _write(self, name: str, table: ByteTable) -> None:
        with self.folder.open(f"{name}{_INDEX}", "rb") as file:
            ends = np.frombuffer(file.read(), dtype="<u8").astype(np.int64)
        kind, begun = np.dtype(f"<u{self.token_size}"), f"{name}{SUFFIX}.begun"
        with self.folder.open(name, "rb") as tokens, self.folder.open(begun, "wb") as marks:
            for number, count in enumerate(np.diff(ends, prepend=0).tolist()):
                with self.track_time():
                    ids = np.frombuffer(tokens.read(count * kind.itemsize), dtype=kind)
                    try:
                        if len(ids) < count:
                            raise ValueError("the file ends in the middle of it")
                        marks.write(self._marks(ids.astype(np.int64), table).tobytes())
                    except ValueError as fault:
                        raise SegmenterError(str(fault), f"{number} of {name}") from fault
                self.stat_update("tokens", value=count)
        self.folder.mv(begun, f"{name}{SUFFIX}")

    def _marks(self, ids: np.ndarray, table: ByteTable) -> Marks:
        text = self.tokenizer.decode(ids.tolist())
        spelled = np.flatnonzero(~np.isin(ids, self._silent))
        found = table.exact_anchors(text, ids[spelled])
        if found is None:
            raise ValueError(
                "its ids do not decode to text: they come from another tokenizer, or "
                "shuffle_chunk_size has split a character"
            )
        anchors = np.zeros(len(ids), dtype=np.int64)
        anchors[spelled] = found
        return mark(np.maximum.accumulate(anchors), (self.segmenter.cut(text),))
