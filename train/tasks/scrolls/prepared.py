"""A task's examples as a prepared data set: one document per example, its output a part of it.

    OUT/TASK-DIGEST/manifest.json  tokenizer.json
    OUT/TASK-DIGEST/TASK/{train,validation}/

Level 0 of the marks is the segments; level 1 has two starts per document: the prompt and the
output. The digest covers all that decides the bytes; a folder exists whole or not at all.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bipe.sealing import whole_folder
from segmenters.align import SEGMENT
from train.data.store import folder as top
from train.data.store.writer import ShardWriter
from train.disk.files import write_whole, writing
from train.disk.manifest import plain
from train.errors import DataError
from train.tasks.scrolls.encoding import Counts, Encoder, counts_of
from train.tasks.scrolls.examples import Example, Task

SPLITS = ("train", "validation")
LEVELS = 2
OUTPUT_LEVEL = 1
_TURN = np.uint8(SEGMENT << OUTPUT_LEVEL)
_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The folder of a task's examples, and what truncation left out of each split."""

    folder: Path
    truncation: Mapping[str, Counts]


def prepare_examples(
    task: Task, *, encoder: Encoder, out: Path, limit: int | None = None
) -> Prepared:
    """Return the data set of a task's examples under `out`; build it if it is missing.

    limit: maximum per split. Raises DataError for an empty split or an unusable example.
    """
    examples = {split: task.examples(split)[:limit] for split in SPLITS}
    for split, of_split in examples.items():
        if not of_split:
            raise DataError(f"task {task.name}: split {split} has no examples")
    request = {
        "task": task.name,
        "version": top.VERSION,
        "levels": LEVELS,
        "examples": {split: _digest(of_split) for split, of_split in examples.items()},
        **encoder.fingerprint(),
    }
    name = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:_DIGITS]
    folder = out / f"{task.name}-{name}"
    if not (folder / top.MANIFEST).exists():
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
        _build(task.name, examples, encoder=encoder, folder=folder, request=request)
    cut = top.read_top(folder)["truncation"]
    counts = {split: Counts(**numbers) for split, numbers in cut.items()}
    return Prepared(folder=folder, truncation=counts)


def _build(
    name: str,
    examples: Mapping[str, Sequence[Example]],
    *,
    encoder: Encoder,
    folder: Path,
    request: Mapping[str, Any],
) -> None:
    vouched = plain({"tokenizer": encoder.tokenizer.fingerprint()})
    description = plain({"segmenter": encoder.segmenter.fingerprint()})
    counts, left_out = {}, {}
    with whole_folder(folder, keep=True) as part:
        for split, of_split in examples.items():
            writer = ShardWriter(
                folder=part / name / split,
                name=name,
                vocab_size=encoder.tokenizer.vocab_size,
                levels=LEVELS,
                description={"split": split, **vouched, **description},
            )
            with writer:
                left_out[split] = asdict(_write(writer, of_split, encoder))
            counts[split] = writer.counts
        write_whole(part / top.TOKENIZER, encoder.tokenizer.json)
        source = {**description, "levels": LEVELS, "splits": counts}
        top.write_top(
            part,
            {
                "format": top.FORMAT,
                "version": top.VERSION,
                "request": request,
                "truncation": left_out,
                **vouched,
                "sources": {name: source},
            },
        )


def _write(writer: ShardWriter, examples: Sequence[Example], encoder: Encoder) -> Counts:
    kept = []
    for example, encoded in zip(examples, encoder.examples(examples), strict=True):
        kept.append(encoded.kept)
        tokens = np.concatenate((encoded.prompt, encoded.output))
        marks = np.concatenate((encoded.prompt_marks, encoded.output_marks))
        marks[[0, len(encoded.prompt)]] |= _TURN
        size = len(example.prompt.encode()) + len(example.references[0].encode())
        writer.add(tokens, marks, id=encoded.id, size=size)
    return counts_of(kept)


def _digest(examples: Sequence[Example]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        parts = [[part.kind, part.text] for part in example.parts]
        line = json.dumps([example.id, parts, list(example.references[:1])])
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()
