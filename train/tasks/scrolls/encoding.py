"""Examples as tokens and marks, cut to a training row: the prompt part by part, then the output.

    parts     Who won? \\n | He ran. She won.     output  She did.  <end>
    marks     3   0   0     2  0  0  2   0  0             2   0  0  0

The tokenizer reads the prompt as one text, the segmenter reads each part on its own; the output is
a separate text for both, as when it is generated.

    row_length = first + last tokens of the prompt + output + 1 (the end of the text)

BiPE's recipe at 8192 tokens: summaries keep 7184 first and 7 last prompt tokens and at most 1000
output tokens; questions and inference keep 7991 first, and at most 200 output tokens.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmenters import Segmenter, SegmenterError
from segmenters.align import SEGMENT, mark
from segmenters.wording import counted
from train.data.reading.documents import grouped
from train.data.tokenizing.tokenizers import Tokenizer
from train.disk.manifest import plain
from train.errors import ConfigError, DataError
from train.tasks.scrolls.examples import Example

OnLong = Literal["cut", "error"]
_END = 1
_Tokens = tuple[np.ndarray, np.ndarray]  # ids and anchors


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The tokens of one example that are kept, and the numbers left out.

    prompt: indices of the kept tokens, in order. joint: where in `prompt` the last tokens begin, if
    tokens before them were left out; a segment begins there.
    """

    prompt: np.ndarray
    joint: int | None
    output: int
    prompt_cut: int
    output_cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What truncation left out: numbers of examples, and of tokens."""

    examples: int = 0
    prompts_cut: int = 0
    prompt_tokens_cut: int = 0
    outputs_cut: int = 0
    output_tokens_cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """The room of a row, in tokens.

    last: prompt tokens kept at the end. output: maximum. on_long: "cut" long examples, or "error".
    """

    row_length: int
    output: int
    last: int = 0
    on_long: OnLong = "cut"

    def __post_init__(self) -> None:
        if self.output < 1 or self.last < 0:
            raise ConfigError(
                "task.output_tokens must be at least 1 and task.last_tokens at least 0, were: "
                f"{self.output} and {self.last}"
            )
        if self.first < 1:
            raise ConfigError(
                f"row_length must have room for {self.last} last tokens of the prompt, "
                f"{self.output} of the output, its end, and some of the document, was: "
                f"{self.row_length}; set row_length to more than {self.row_length - self.first}, "
                "or task.output_tokens to fewer"
            )

    @property
    def first(self) -> int:
        """Number of prompt tokens kept at the start."""
        return self.row_length - self.last - self.output - _END

    @property
    def prompt(self) -> int:
        """Number of prompt tokens kept."""
        return self.first + self.last

    def refuse_large_output(self) -> None:
        """Raise ConfigError if outputs have more than half of a row, which prompts need."""
        if self.output > (half := self.row_length // 2):
            raise ConfigError(
                f"task.output_tokens must be at most half of row_length ({half}), since the prompt "
                f"is in the same row, was: {self.output}; set row_length={2 * self.output} or "
                f"more, or task.output_tokens={max(1, half // 2)}"
            )

    def keep(self, *, prompt: int, output: int = 0, where: str = "") -> Kept:
        """Return what is kept of an example with so many tokens; output=0 for one to be decoded.

        Raises DataError naming `where` (the example) if it is too long and `on_long` is "error".
        """
        room = self.prompt
        prompt_cut, output_cut = max(0, prompt - room), max(0, output - self.output)
        if self.on_long == "error" and (prompt_cut or output_cut):
            raise DataError(
                f"{where}: the prompt must have at most {room} tokens and the output {self.output} "
                f"in a row of {self.row_length}, had: {prompt} and {output}. Set row_length to "
                "more, or scrolls.on_long=cut"
            )
        kept = np.arange(prompt - prompt_cut)
        kept[self.first :] += prompt_cut
        return Kept(
            prompt=kept,
            joint=self.first if prompt_cut and self.last else None,
            output=output - output_cut,
            prompt_cut=prompt_cut,
            output_cut=output_cut,
        )

    def report(self, counts: Counts) -> str:
        """Return a line on what rows have no room for."""
        return (
            f"{counted(counts.examples, 'example')}; in rows of {self.row_length}, prompts cut to "
            f"{self.prompt} tokens: {counts.prompts_cut} ({counts.prompt_tokens_cut:,} tokens left "
            f"out), outputs cut to task.output_tokens={self.output}: {counts.outputs_cut}"
        )

    def lost(self, counts: Counts) -> float:
        """Return the share of the tokens of cut prompts that is left out; 0 if few are cut."""
        if 2 * counts.prompts_cut <= counts.examples:
            return 0.0
        kept = counts.prompts_cut * self.prompt
        return counts.prompt_tokens_cut / (counts.prompt_tokens_cut + kept)


def counts_of(kept: Iterable[Kept]) -> Counts:
    cut = [(example.prompt_cut, example.output_cut) for example in kept]
    return Counts(
        examples=len(cut),
        prompts_cut=sum(prompt > 0 for prompt, _ in cut),
        prompt_tokens_cut=sum(prompt for prompt, _ in cut),
        outputs_cut=sum(output > 0 for _, output in cut),
        output_tokens_cut=sum(output for _, output in cut),
    )


_BATCH_CHARACTERS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """One example, truncated to a row.

    prompt, output: int32 ids; the output ends with the end of the text, and is empty for an example
    to be decoded. prompt_marks, output_marks: uint8, one per token.
    """

    id: str
    prompt: npt.NDArray[np.int32]
    prompt_marks: npt.NDArray[np.uint8]
    output: npt.NDArray[np.int32]
    output_marks: npt.NDArray[np.uint8]
    segmenter: Segmenter
    kept: Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """Turns examples into tokens and marks, with the tokenizer and the segmenter of a model."""

    tokenizer: Tokenizer
    segmenter: Segmenter
    truncation: Truncation

    def prompts(self, examples: Sequence[Example]) -> Iterator[Encoded]:
        """Yield the examples for decoding, without outputs."""
        for batch in _batches(examples):
            encoded = self.tokenizer.encode_documents([example.prompt for example in batch])
            yield from map(self._made, batch, encoded, itertools.repeat(None))

    def examples(self, examples: Sequence[Example]) -> Iterator[Encoded]:
        """Yield the examples with their first references; DataError for a missing or empty one."""
        for batch in _batches(examples):
            for example in batch:
                if not example.references or not example.references[0].strip():
                    state = "is empty" if example.references else "is missing"
                    raise DataError(
                        f"example {example.id}: its reference {state}: there is nothing to learn; "
                        "remove the row"
                    )
            prompts = self.tokenizer.encode_documents([example.prompt for example in batch])
            outputs = self.tokenizer.encode_batch([example.references[0] for example in batch])
            yield from map(self._made, batch, prompts, outputs)

    def fingerprint(self) -> dict[str, object]:
        """Return everything that decides how an example is encoded."""
        room = self.truncation
        return plain(
            {
                "tokenizer": self.tokenizer.fingerprint(),
                "segmenter": self.segmenter.fingerprint(),
                "truncation": [room.row_length, room.output, room.last, room.on_long],
            }
        )

    def _made(self, example: Example, prompt: _Tokens, output: _Tokens | None) -> Encoded:
        ids, anchors = prompt
        if not len(ids):
            raise DataError(f"example {example.id}: its prompt has no tokens; remove the row")
        segmenter = self.segmenter.choose(text=example.prompt)
        try:
            marks = mark(anchors, [_cuts(example, segmenter)])
            written, written_marks = self._written(example, output, segmenter)
        except SegmenterError as fault:
            raise fault.in_document(example.id) from fault
        kept = self.truncation.keep(
            prompt=len(ids), output=max(0, len(written) - 1), where=f"example {example.id}"
        )
        marks = marks[kept.prompt]
        if kept.joint is not None:
            marks[kept.joint] |= SEGMENT
        if kept.output_cut:
            written = np.append(written[: kept.output], written[-1:])
            written_marks = np.append(written_marks[: kept.output], written_marks[-1:])
        return Encoded(
            id=example.id,
            prompt=ids[kept.prompt],
            prompt_marks=marks,
            output=written,
            output_marks=written_marks,
            segmenter=segmenter,
            kept=kept,
        )

    def _written(
        self, example: Example, output: _Tokens | None, segmenter: Segmenter
    ) -> tuple[np.ndarray, np.ndarray]:
        if output is None:
            return np.empty(0, np.int32), np.empty(0, np.uint8)
        ids, anchors = output
        if not len(ids):
            raise DataError(f"example {example.id}: its reference has no tokens; remove the row")
        marks = mark(anchors, segmenter.levels_of_tokens(example.references[0], anchors)[:1])
        marks[0] = SEGMENT  # not DOCUMENT: it continues its prompt
        end = np.int32(self.tokenizer.eos_id)
        return np.append(ids, end), np.append(marks, np.uint8(0))


def _cuts(example: Example, segmenter: Segmenter) -> npt.NDArray[np.int64]:
    """Return the cuts of a prompt, in characters; each part is cut on its own."""
    starts = np.cumsum([0, *(len(part.text) for part in example.parts)])
    cuts = [
        segmenter.cut(part.text)[:-1] + start
        for part, start in zip(example.parts, starts[:-1].tolist(), strict=True)
    ]
    return np.concatenate([*cuts, starts[-1:]])


def _batches(examples: Sequence[Example]) -> Iterator[list[Example]]:
    sized = ((example, sum(len(part.text) for part in example.parts)) for example in examples)
    return (batch for batch, _ in grouped(sized, size=_BATCH_CHARACTERS))
