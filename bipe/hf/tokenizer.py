"""A tokenizer that marks segments: `tokenizer(texts)` has segment_marks beside input_ids.

    tokenizer = SegmentingTokenizer.from_pretrained(folder, segmenter=Sentences())
    tokenizer.attach(model, texts)          # gives the model an id table, and the exact rule
    tokenizer.save_pretrained(folder)       # tokenizer.json for any library; segmenter.json

segmenter.json contains the fingerprint of the segmenter, from which it is rebuilt. Marks equal
those of prepared data: a token belongs to the segment of its first visible character
(segmenters/align.py), special tokens of a template to the segment before them; padding has none.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from transformers import BatchEncoding, PreTrainedTokenizerFast
from transformers.utils import logging

from bipe.arguments import nodes, require
from bipe.build import ALLOWED, TARGET, build
from segmenters import ByteTable, IdTable, Levels, Segmenter, TokenMarker, mark
from segmenters.align import anchors_of_encoding

logger = logging.get_logger(__name__)
FILE = "segmenter.json"
_CONFIG = "tokenizer_config.json"


def _renew_lock() -> None:
    """Make the lock of this process; a fork may copy one that a thread holds."""
    global _LOCK
    _LOCK = threading.RLock()


# A fast tokenizer stores how a call pads and truncates before it reads the texts.
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class _WithSegmenter(PreTrainedTokenizerFast):
    """The constructor alone: transformers rebuilds tokenizers of classes that define one."""

    def __init__(self, *args: Any, segmenter: Segmenter | None = None, **kwargs: Any) -> None:
        file = kwargs.pop("segmenter_file", None)
        super().__init__(*args, **kwargs)
        if segmenter is None and file is not None:
            segmenter = read_segmenter(Path(file))
        self.segmenter = segmenter


class SegmentingTokenizer(_WithSegmenter):
    """A fast tokenizer of transformers with a `segmenter`; without one it makes no marks."""

    vocab_files_names = {"tokenizer_file": "tokenizer.json", "segmenter_file": FILE}  # noqa: RUF012
    model_input_names = ["input_ids", "attention_mask", "segment_marks"]  # noqa: RUF012
    _spelt: tuple[Any, tuple[bytes, ...]] | None = None  # pieces, and the vocabulary that had them

    def _save_pretrained(
        self, save_directory: Any, file_names: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Write the files of the tokenizer, and the segmenter next to them."""
        path = next(Path(name) for name in file_names if str(name).endswith(_CONFIG))
        if path.with_name("config.json").exists():
            # It names this class by its model type; who has no bipe must not look for it.
            config = json.loads(path.read_text(encoding="utf-8"))
            config.pop("tokenizer_class", None)
            path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        written = super()._save_pretrained(save_directory, file_names, *args, **kwargs)
        if self.segmenter is None:
            return written
        path = path.with_name(path.name.removesuffix(_CONFIG) + FILE)
        text = json.dumps(self.segmenter.fingerprint(), indent=1)
        path.write_text(text + "\n", encoding="utf-8")
        return (*written, str(path))

    def train_new_from_iterator(self, *args: Any, **kwargs: Any) -> Any:
        """Train a tokenizer like this one, with the same segmenter."""
        trained = super().train_new_from_iterator(*args, **kwargs)
        trained.segmenter = self.segmenter
        return trained

    def _add_tokens(self, *args: Any, **kwargs: Any) -> int:
        """Add tokens, whose texts are read anew."""
        self.__dict__.pop("_table", None)
        self._spelt = None
        return super()._add_tokens(*args, **kwargs)

    def _encode_plus(  # type: ignore[override]
        self, text: Any, text_pair: Any = None, **kwargs: Any
    ) -> BatchEncoding:
        if self.segmenter is None:
            with _LOCK:
                return super()._encode_plus(text, text_pair, **kwargs)
        if text_pair is not None or kwargs.get("is_split_into_words"):
            raise ValueError("segments need one text: join pairs of texts and lists of words first")
        tensors = kwargs.pop("return_tensors", None)
        rows = [text] if isinstance(text, str) else list(text)
        with _LOCK:
            encoded = super()._encode_plus(rows, **kwargs)
        origin = encoded.get("overflow_to_sample_mapping", range(len(rows)))
        several = self.levels > 1
        cuts = [
            self.segmenter.levels(row) if several else (self.segmenter.cut(row),) for row in rows
        ]
        encodings: Any = encoded.encodings
        pairs = zip(encodings, origin, strict=True)
        marks = [self._marks(encoding, rows[at], cuts[at]) for encoding, at in pairs]
        encoded["segment_marks"] = [row.tolist() for row in marks]
        if tensors is not None:
            return encoded.convert_to_tensors(tensors)
        if isinstance(text, str) and not kwargs.get("return_overflowing_tokens"):
            single = {key: value[0] for key, value in encoded.items()}
            return BatchEncoding(single, encoded.encodings)
        return encoded

    def _marks(self, encoding: Any, text: str, cuts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the marks of an encoding, zero for padding."""
        real = np.array(encoding.attention_mask, dtype=bool)
        marks = np.zeros(len(real), dtype=np.uint8)
        marks[real] = mark(anchors_of_encoding(text, encoding, self._table), cuts)
        return marks

    def _pad(self, encoded_inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Pad as the base does, and marks with zeros."""
        before = len(encoded_inputs["input_ids"])
        side = kwargs.get("padding_side") or self.padding_side
        padded = super()._pad(encoded_inputs, *args, **kwargs)
        zeros = [0] * (len(padded["input_ids"]) - before)
        if zeros and "segment_marks" in padded:
            marks = [*padded["segment_marks"]]
            padded["segment_marks"] = marks + zeros if side == "right" else zeros + marks
        return padded

    @cached_property
    def _table(self) -> ByteTable | None:
        """The bytes of each id, for vocabularies that spell texts byte by byte."""
        return ByteTable.of_tokenizer(self.backend_tokenizer)

    def pieces(self) -> tuple[bytes, ...]:
        """Return the bytes of text of each id, or what it adds after a word; empty if special."""
        state = len(self), frozenset(self.all_special_ids)
        if self._spelt is None or self._spelt[0] != state:
            self._spelt = state, self._pieces(*state)
        return self._spelt[1]

    def _pieces(self, count: int, special: frozenset[int]) -> tuple[bytes, ...]:
        ids = range(count)
        if self._table is not None:
            spellings = self._table.pieces
            return tuple(spellings[id] if id < len(spellings) else b"" for id in ids)

        def text(*some: int) -> str:
            return str(self.decode([*some]))

        # Behind a word: decoders leave out the space of the first id.
        word = next(id for id in ids if id not in special and text(id).isalpha())
        size = len(text(word))
        return tuple(b"" if id in special else text(word, id)[size:].encode() for id in ids)

    def _require_segmenter(self) -> Segmenter:
        if self.segmenter is None:
            raise ValueError("the tokenizer has no segmenter: set tokenizer.segmenter")
        return self.segmenter

    def marker(self, text: str = "") -> TokenMarker:
        """Return a marker for generation; ValueError for a segmenter that needs the whole text.

        text: the prompt, for a segmenter that is chosen for each document.
        """
        segmenter = self._require_segmenter().choose(text=text)
        return TokenMarker(segmenter=segmenter, pieces=self.pieces(), levels=self.levels)

    @property
    def levels(self) -> int:
        """Return how many levels marks hold: those that a `Levels` keeps, else the finest."""
        return len(self.segmenter.level_names) if isinstance(self.segmenter, Levels) else 1

    def marks_of_ids(self, ids: Sequence[int]) -> list[int]:
        """Return the marks of a text of which only the ids are known."""
        marker = self.marker(str(self.decode([*ids])))
        return [of_id for id in ids for of_id in marker.push(int(id))] + marker.provisional()

    def segment_table(self, texts: Iterable[str] = (), *, size: int) -> dict[str, Any]:
        """Return the id table of this segmenter for a config of `size` ids (`IdTable.packed`).

        texts: to measure its error on, and to choose by, as `IdTable.compile` does.
        """
        require(not isinstance(texts, str), "a list of texts", texts=str)
        segmenter, texts = self._require_segmenter(), list(texts)
        table = IdTable.compile(self.pieces(), segmenter, texts=texts or [""])
        if texts:
            table = table.measured(texts, lambda text: self(text)["input_ids"], by=segmenter)
        return table.packed(size=size)

    def attach(self, model: Any, texts: Iterable[str] = ()) -> None:
        """Give a model the segmenter, its id table (measured on texts), and the exact rule."""
        model.config.segmenter = json.loads(json.dumps(self._require_segmenter().fingerprint()))
        model.config.segment_table = self.segment_table(texts, size=model.config.vocab_size)
        model.follow(self)


def read_segmenter(path: Path, *, allowed: tuple[str, ...] = ALLOWED) -> Segmenter:
    """Return the segmenter of a file; ValueError names the file and what is wrong with it."""
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        description = {TARGET: written["segmenter"], **written["parameters"]}
        _refuse_back_ends(description)
        segmenter: Segmenter = build(description, Segmenter, allowed=allowed)
    except (KeyError, TypeError, ValueError) as fault:
        shape = isinstance(fault, KeyError | TypeError)
        said = "it must be an object with segmenter and parameters" if shape else str(fault)
        said = said.partition(", or allowed=")[0]  # a cure for callers of `build`
        raise ValueError(
            f"{path}: its segmenter cannot be built: {said}; in Python load the tokenizer "
            "by SegmentingTokenizer.from_pretrained(FOLDER, segmenter=...)"
        ) from None
    if json.loads(json.dumps(segmenter.fingerprint())) != written:
        logger.warning(
            f"{path}: was written with older rules or tables of {type(segmenter).__name__}; "
            "the current ones are used"
        )
    return segmenter


def _refuse_back_ends(description: Any) -> None:
    """Raise ValueError for a back end that is named: spaCy imports its models, which are code."""
    for _, node in nodes(description, ""):
        backend = node.get("backend", "rules")
        if backend != "rules":
            raise ValueError(f"backend must be 'rules' in a file, was: {backend!r}")
