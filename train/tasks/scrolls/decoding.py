"""Decoding of examples with the cache, and a journal of their predictions.

A journal has one line per prediction and survives a killed run: a half-written line is made again.
Its first line is the request (model, way of decoding); another request starts it anew, and a prompt
that has changed is answered anew.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bipe import Decoder
from bipe.encodings.base import reads_segments
from bipe.generation import Beams, Marker, beam_search, generate
from segmenters import Segmenter, TokenMarker
from train import stop
from train.data.tokenizing.tokenizers import Tokenizer
from train.disk.files import append, read_lines, write_changed, writing
from train.tasks.scrolls.encoding import Encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The output for one example. tokens: their number. ended: "stop" or "length".

    prompt: a digest of the tokens and marks that were read.
    """

    id: str
    text: str
    tokens: int
    ended: str
    prompt: str


class PredictionJournal:
    """The predictions of one request so far, by id, kept on disk."""

    def __init__(self, path: Path, *, request: Mapping[str, Any]) -> None:
        self.path = path
        request_line = json.loads(json.dumps(dict(request), sort_keys=True))
        first, *lines = read_lines(path) or [request_line]
        self.made: dict[str, Prediction] = {}
        with suppress(TypeError):  # what follows a line of another form is decoded again
            for line in lines if first == request_line else ():
                prediction = Prediction(**line)
                self.made[prediction.id] = prediction
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        # Drop a half-written line: the next one would be appended to it.
        whole = [request_line, *map(asdict, self.made.values())]
        write_changed(path, "".join(f"{json.dumps(line)}\n" for line in whole))

    def add(self, predictions: Sequence[Prediction]) -> None:
        """Append predictions to the file and wait for the disk."""
        append(
            self.path, "".join(f"{json.dumps(asdict(prediction))}\n" for prediction in predictions)
        )
        self.made.update({prediction.id: prediction for prediction in predictions})


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How outputs are generated. max_new: tokens. batch: prompts at once, without beams."""

    max_new: int
    search: Beams
    batch: int = 1


def decode(
    model: Decoder,
    prompts: Sequence[Encoded],
    *,
    tokenizer: Tokenizer,
    how: Decoding,
    journal: PredictionJournal,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Prediction]:
    """Return the predictions of all prompts by id, in order; those in the journal are reused.

    tell: receives the progress as text. Raises ValueError for a segmenter that reads ahead.
    """
    made = {id: prediction.prompt for id, prediction in journal.made.items()}
    left = [prompt for prompt in prompts if made.get(prompt.id) != _digest(prompt)]
    pieces = tokenizer.pieces()
    for batch in _batches(left, size=how.batch if how.search.beams == 1 else 1):
        marker = None
        if reads_segments(model.scheme):
            marker = output_marker(batch[0].segmenter, tokenizer=tokenizer, pieces=pieces)
        journal.add(_written(model, batch, tokenizer=tokenizer, how=how, marker=marker))
        tell(f"{len(journal.made)} of {len(prompts)} outputs")
        stop.check()
    return {prompt.id: journal.made[prompt.id] for prompt in prompts}


def output_marker(
    segmenter: Segmenter, *, tokenizer: Tokenizer, pieces: Sequence[bytes]
) -> TokenMarker:
    """Return the marker of an output's tokens; ValueError for a segmenter that reads ahead."""
    skip = tokenizer.spelling.prefix("a") if tokenizer.spelling else 0
    return TokenMarker(segmenter=segmenter, pieces=pieces, skip=skip)


def _batches(prompts: Sequence[Encoded], *, size: int) -> Iterator[list[Encoded]]:
    """Yield prompts of one segmenter and similar length, the longest (most memory) first."""
    groups: dict[Segmenter, list[Encoded]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.segmenter, []).append(prompt)
    for group in groups.values():
        group.sort(key=lambda prompt: -len(prompt.prompt))
        for at in range(0, len(group), size):
            yield group[at : at + size]


def _written(
    model: Decoder,
    batch: Sequence[Encoded],
    *,
    tokenizer: Tokenizer,
    how: Decoding,
    marker: Marker | None,
) -> list[Prediction]:
    prompts = [encoded.prompt.tolist() for encoded in batch]
    marks = [encoded.prompt_marks.tolist() for encoded in batch]
    stop_ids = [tokenizer.eos_id]
    same: dict[str, Any] = {"max_new": how.max_new, "marker": marker, "stop_ids": stop_ids}
    if how.search.beams > 1:
        best = beam_search(model, prompts[0], search=how.search, marks=marks[0], **same)[0]
        outputs = [(best.tokens, best.ended)]
    else:
        written = generate(model, prompts, marks=marks, **same)
        outputs = [(output.tokens, output.ended) for output in written]
    # Submissions are stripped, and CSV cannot hold NUL.
    texts = [tokenizer.decode(tokens).replace("\0", "").strip() for tokens, _ in outputs]
    return [
        Prediction(
            id=encoded.id, text=text, tokens=len(tokens), ended=ended, prompt=_digest(encoded)
        )
        for encoded, text, (tokens, ended) in zip(batch, texts, outputs, strict=True)
    ]


def _digest(prompt: Encoded) -> str:
    read = prompt.prompt.tobytes() + prompt.prompt_marks.tobytes()
    return hashlib.sha256(read).hexdigest()[:16]
