"""Batches with segments, for the Trainer of transformers, TRL, or a loop of one's own.

    DataCollatorWithSegments(tokenizer)               rows padded to one length, with a mask
    DataCollatorWithSegments(tokenizer, packed=True)  one row of all, without padding or mask

    packed     tokens        a  b  c  | d  e
               position_ids  0  1  2  | 0  1      a restart is a new document
               labels       -100 b  c | -100 e    no document is predicted from the one before
               marks         3  0  2  | 3  0

Marks of an example are its own `segment_marks`, or those of its `text`, or those of its ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bipe.hf.tokenizer import SegmentingTokenizer
from bipe.loss import IGNORE
from bipe.positions import DOCUMENT_BIT

_PER_TOKEN = ("input_ids", "attention_mask", "labels", "position_ids", "segment_marks")


@dataclass(kw_only=True)
class DataCollatorWithSegments:
    """Makes a batch of examples with input_ids or text; labels are the ids unless given.

    packed: all examples in one row, each a document. pad_to_multiple_of: tokens. flash: also
    cu_seq_lens_q, cu_seq_lens_k, max_length_q, max_length_k of a packed row.
    """

    tokenizer: SegmentingTokenizer
    packed: bool = False
    pad_to_multiple_of: int | None = None
    flash: bool = False

    def __post_init__(self) -> None:
        if self.flash and not self.packed:
            raise ValueError("flash describes the documents of a packed row: set packed=True")
        if self.pad_to_multiple_of is not None and self.packed:
            raise ValueError("a packed row has no padding: remove pad_to_multiple_of")

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the batch: int64 tensors, segment_marks uint8."""
        if not examples:
            raise ValueError("a batch must have at least one example, was: empty")
        rows = [self._row(example) for example in examples]
        return self._packed(rows) if self.packed else self._padded(rows)

    def _row(self, example: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return ids, labels, marks and position_ids of an example, without padding."""
        given = {key: example[key] for key in _PER_TOKEN if example.get(key) is not None}
        if "input_ids" not in given:
            if example.get("text") is None:
                raise ValueError(
                    f"an example needs input_ids or text, had: {', '.join(example) or 'nothing'}; "
                    "the Trainer removes text: set remove_unused_columns=False"
                )
            given = dict(self.tokenizer(example["text"])) | given
            if "segment_marks" not in given:
                raise ValueError(
                    "tokenizer must be a SegmentingTokenizer with a segmenter (tokenizer.segmenter)"
                )
        elif "segment_marks" not in given:
            ids = _whole("input_ids", given["input_ids"]).tolist()
            given["segment_marks"] = self.tokenizer.marks_of_ids(ids)
        row = {key: _whole(key, given[key]) for key in _PER_TOKEN if key in given}
        count = len(row["input_ids"])
        odd = {key: len(values) for key, values in row.items() if len(values) != count}
        if odd:
            raise ValueError(f"{odd} must be as many as the {count} input_ids of an example")
        real = row.pop("attention_mask", torch.ones(count)).bool()
        row = {key: values[real] for key, values in row.items()}
        row.setdefault("labels", row["input_ids"])
        return self._with_documents(row)

    def _with_documents(self, row: dict[str, Tensor]) -> dict[str, Tensor]:
        """Start documents in marks, positions and labels alike, wherever one of them does."""
        marks = row["segment_marks"].byte()
        opens = (marks & (1 << DOCUMENT_BIT)).bool()
        if "position_ids" in row:
            opens[1:] |= row["position_ids"].diff() != 1
        opens[:1] = True
        at = torch.arange(len(marks))
        row["position_ids"] = at - torch.where(opens, at, 0).cummax(-1).values
        row["segment_marks"] = marks | opens.byte() << DOCUMENT_BIT
        row["labels"] = row["labels"].masked_fill(opens, IGNORE)
        return row

    def _packed(self, rows: Sequence[dict[str, Tensor]]) -> dict[str, Any]:
        batch: dict[str, Any] = {
            key: torch.cat([row[key] for row in rows])[None] for key in rows[0]
        }
        if self.flash:
            starts = (batch["position_ids"][0] == 0).nonzero()[:, 0]
            if not len(starts):
                raise ValueError("a packed row must have at least one token, had: none")
            bounds = torch.cat([starts, starts.new_tensor([batch["input_ids"].shape[1]])]).int()
            longest = int(bounds.diff().max())
            batch |= {f"cu_seq_lens_{name}": bounds for name in "qk"}
            batch |= {f"max_length_{name}": longest for name in "qk"}
        return batch

    def _padded(self, rows: Sequence[dict[str, Tensor]]) -> dict[str, Any]:
        if any(bool((row["position_ids"][1:] == 0).any()) for row in rows):
            raise ValueError("an example contains several documents: use packed=True")
        fill = self.tokenizer.pad_token_id
        values = {"input_ids": 0 if fill is None else fill, "labels": IGNORE, "segment_marks": 0}
        step = self.pad_to_multiple_of or 1
        width = -(-max(len(row["input_ids"]) for row in rows) // step) * step
        left = self.tokenizer.padding_side == "left"

        def filled(each: Tensor, value: int) -> Tensor:
            extra = each.new_full((width - len(each),), value)
            return torch.cat([extra, each] if left else [each, extra])

        batch = {  # without position_ids, which a model counts from the mask
            key: torch.stack([filled(row[key], value) for row in rows])
            for key, value in values.items()
        }
        ones = [torch.ones_like(row["input_ids"]) for row in rows]
        return batch | {"attention_mask": torch.stack([filled(part, 0) for part in ones])}


def _whole(key: str, given: Any) -> Tensor:
    """Return what an example gives for each of its tokens as int64."""
    values = torch.as_tensor(given)
    if values.ndim != 1 or (len(values) and values.is_floating_point()):  # an empty list is float
        was = f"{str(values.dtype).removeprefix('torch.')} of shape {[*values.shape]}"
        raise ValueError(f"{key} must be a list of whole numbers, one per token, was: {was}")
    return values.long()
