"""Which segmenter is followed by which machine while text is generated.

`machine_of(segmenter)` gives a machine at the start of a text. A segmenter of one's own joins by
`@machine_of.register`. Those that read the whole text have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from segmenters.base import Segmenter
from segmenters.code.lines import Lines
from segmenters.code.python_lines import PythonLines
from segmenters.documents import Auto
from segmenters.pattern import Newline, Official, RandomCuts, Stride
from segmenters.proofs import ArithmeticSteps, ChainOfThought, Coq, Metamath
from segmenters.proofs.chain_of_thought import StepReader
from segmenters.proofs.coq import CoqReader
from segmenters.proofs.metamath import MetamathReader
from segmenters.prose.sentences import Sentences
from segmenters.streaming.machine import Machine, Window
from segmenters.streaming.sentence_machine import SentenceMachine


@singledispatch
def machine_of(segmenter: Segmenter) -> Machine:
    """The machine that follows this segmenter.

    Raises ValueError, with the reason, if the segmenter cannot be followed token by token.
    """
    raise _refused(segmenter, "it has no machine (segmenters/streaming/machines.py)")


def _refused(segmenter: Segmenter, reason: str) -> ValueError:
    return ValueError(
        f"segmenter must be one that can be followed while text is written, was: {segmenter!r}; "
        f"{reason}"
    )


@machine_of.register
def _sentences(segmenter: Sentences) -> Machine:
    if segmenter.lookahead is None:
        raise _refused(segmenter, "this back end reads the whole text: take backend=rules")
    if segmenter.next_word:
        raise _refused(segmenter, "it reads the next word: set next_word=false")
    return SentenceMachine()


@machine_of.register
def _lines(segmenter: Lines) -> Machine:
    if segmenter.granularity == "physical":
        return Window(segmenter=segmenter, before=1, triggers="\n\r")
    if segmenter.granularity == "block":
        raise _refused(segmenter, "definitions are known late: set granularity=logical")
    if segmenter.language != "python":
        raise _refused(segmenter, "statements are followed in Python alone: set language=python")
    return PythonLines()


@machine_of.register
def _auto(segmenter: Auto) -> Machine:
    raise _refused(segmenter, "name the document first: segmenter.choose(text=..., kind=...)")


@machine_of.register
def _newline(segmenter: Newline) -> Machine:
    return Window(segmenter=segmenter, before=1, triggers="\n")


@machine_of.register
def _official(segmenter: Official) -> Machine:
    return Window(segmenter=segmenter, before=2, triggers="\n.")


@machine_of.register
def _arithmetic(segmenter: ArithmeticSteps) -> Machine:
    return Window(segmenter=segmenter, before=2, triggers="\n=")


@machine_of.register
def _chain_of_thought(segmenter: ChainOfThought) -> Machine:
    return StepReader()


@machine_of.register
def _coq(segmenter: Coq) -> Machine:
    return CoqReader()


@machine_of.register
def _metamath(segmenter: Metamath) -> Machine:
    return MetamathReader()


@machine_of.register
def _stride(segmenter: Stride) -> Machine:
    return Strides(length=segmenter.length)


@machine_of.register
def _random(segmenter: RandomCuts) -> Machine:
    return Draws(segmenter=segmenter)


@dataclass(slots=True, kw_only=True)
class Strides(Machine):
    """Cuts at multiples of `length`."""

    length: int

    def _read(self, text: str) -> list[int]:
        first = self.size // self.length + 1
        last = (self.size + len(text)) // self.length
        return [self.length * index for index in range(first, last + 1)]


@dataclass(slots=True, kw_only=True)
class Draws(Machine):
    """Cuts drawn by a hash of all the text so far, of which `total` is the state."""

    segmenter: RandomCuts
    total: int = 0

    def _read(self, text: str) -> list[int]:
        cuts, self.total = self.segmenter.draw(text, read=self.size, total=self.total)
        return (cuts + self.size).tolist()
