"""What makes no sense, or cannot be followed while text is written, is refused by name."""

import functools

import numpy as np
import pytest

from segmenters import (
    Auto,
    ByteTable,
    Called,
    ChainOfThought,
    Clauses,
    LaTeXProofs,
    Levels,
    Lines,
    Matched,
    Mixed,
    Newline,
    Online,
    Pattern,
    RandomCuts,
    Sentences,
    Stride,
    Turns,
    anchors_from_offsets,
    mark,
)
from segmenters.base import cuts_from_ends
from segmenters.streaming.id_table import IdTable
from tests.segmenters.levels.test_levels import Verses

CUTS, ANCHORS = np.array([0, 1]), np.zeros(1, dtype=np.int64)
HOLES = ByteTable.from_vocabulary({"a": 0, "b": 2})
SEPARATED = IdTable.of_separators(4, (1,))
verses = functools.partial(Levels, of=Verses())
NAMED = "levels to keep must be a number or among"
BOUND = "longest must be a number of characters, at least 1, or"
REFUSED = [
    (lambda: Pattern(ends="("), r"ends must be a regular expression, was: '\('"),
    (lambda: Stride(length=0), "length must be at least 1, was: 0"),
    (lambda: RandomCuts(mean=0.5), "mean must be between 1 and"),
    (lambda: RandomCuts(mean=1e20), "mean must be between 1 and"),
    (lambda: RandomCuts(mean=float("nan")), "mean must be between 1 and"),
    (lambda: RandomCuts(mean=9, seed=-1), "seed must be at least 0, was: -1"),
    (lambda: Matched(of=Newline(), kind="x"), "kind must be one of shuffled, random, stride, was"),
    (lambda: Matched(of=Newline(), kind="random", seed=-1), "seed must be at least"),
    (lambda: Sentences(language=""), "language must not be empty"),
    (lambda: Sentences(backend="senter", next_word=True), "must be false unless backend is rules"),
    (lambda: Sentences(backend="senter", line_ends="auto"), "wrapped unless backend is rules"),
    (lambda: Sentences(line_ends="x"), "line_ends must be one of wrapped, paragraph, auto"),
    (lambda: Lines(granularity="token"), "must be one of physical, logical, was: 'to"),
    (lambda: Lines(language="pyhton"), "language must be .* was: 'pyhton' .*mean 'python'"),
    (lambda: Lines(prose="sentences"), "granularity must be 'logical' with prose"),
    (lambda: Lines(granularity="logical", prose="rules"), "prose must be one of"),
    (lambda: Auto(granularity="block"), "must be one of physical, logical, was: 'b"),
    (lambda: Mixed(granularity="block"), "must be one of physical, logical, was: 'b"),
    (lambda: Mixed(format="word"), r"format must be one of html, latex.*was: 'word'"),
    (lambda: Called(function="a.b"), r"function must have the form 'module:name', was: 'a\.b'"),
    (lambda: verses(keep=0), "keep must be at least 1, was: 0"),
    (lambda: verses(keep=4), "must be at most 3, since Verses has line, stanza, book, was: 4"),
    (lambda: verses(keep=["verse"]), rf"{NAMED} line, stanza, book, .* was: \['verse'\]"),
    (lambda: verses(keep=["book", "line"]), "finest first, each once"),
    (lambda: verses(keep=["line", "line"]), "finest first, each once"),
    (lambda: verses(keep=[]), NAMED),
    (lambda: verses(longest=0), "longest must be at least 1, was: 0"),
    (lambda: verses(longest="9 words"), BOUND),
    (lambda: verses(longest="0 tokens"), BOUND),
    (lambda: Levels(of=Newline(), longest="9 tokens").cut("a"), "needs the tokens of the text"),
    # Marks and anchors.
    *((lambda end=end: cuts_from_ends([1, end], 3), f"between 0 and 3, was: {end}")
      for end in (-1, 4)),
    *((lambda count=count: mark(ANCHORS, [CUTS] * count), f"1 to 7 entries, was: {count}")
      for count in (0, 8)),
    (lambda: mark(np.array([2, 1]), [CUTS]), "anchors must not decrease"),
    *((lambda span=span: anchors_from_offsets("abc", [span]), "spans of the text, between 0 and 3")
      for span in ((0, 9), (-1, 2), (2, 1))),
    # Those of Llama 3 in old releases of tokenizers.
    (lambda: anchors_from_offsets("Sample", [(0, 0), (6, 6)]), r"\(6, 6\): update tokenizers"),
    *((lambda id=id: HOLES.anchors("a", [id]), f"ids must be .*, was: {id}") for id in (-1, 9)),
    (lambda: HOLES.anchors("ab", [0, 1]), "ids must be in the vocabulary, was: 1"),
    (lambda: ByteTable.from_vocabulary({"\u2581the": 3}), r"piece '(\\u2581|.)the' \(id 3\)"),
    *((lambda id=id: SEPARATED.marks([1, id]), f"ids must be from 0 to 3, was: {id}")
      for id in (-1, 4)),
    *((lambda by=by: SEPARATED.measured(["a"], lambda text: [1], by=by), "has no segmenter")
      for by in (None, Newline())),
    (lambda: IdTable.compile([b"\n"], Newline()).measured([], len), "at least one token"),
    # While text is written.
    (lambda: Pattern(ends="a").machine(), "works during generation.*it needs the whole text"),
    (lambda: Sentences(next_word=True).machine(), "set next_word=false"),
    (lambda: Sentences(backend="sentencizer").machine(), "set backend=rules"),
    (lambda: Lines(granularity="logical").machine(), "set language=python"),
    (lambda: Turns().machine(), "set of=chain_of_thought"),
    (lambda: Turns(names=True, of=ChainOfThought()).machine(), "set names=false"),
    (lambda: LaTeXProofs().level_machine(1), "the end of a formula or listing"),
    (lambda: Auto().machine(), "segmenter.choose"),
    (lambda: Online(segmenter=Pattern(ends="a")), "must be one that works during generation"),
    (lambda: IdTable.compile([], Pattern(ends="a")), "must be one that works during generation"),
    (lambda: Online(segmenter=Newline(), levels=2), "must be 1 to 1, since Newline has segment"),
]  # fmt: skip
KINDS = [
    (lambda: Pattern(ends=3), "ends must be a str, was: int"),
    (lambda: Stride(length=2.5), "length must be an int, was: float"),
    (lambda: RandomCuts(mean="9"), "mean must be a float, was: str"),
    (lambda: Clauses(of=3), "of must be a Segmenter, was: int 3"),
    (lambda: Sentences(backend=1), "backend must be a str, was: int"),
    (lambda: Sentences(next_word=1), "next_word must be a bool, was: int"),
    (lambda: Lines(language=None), "language must be a str, was: NoneType"),
    (lambda: Lines(fallback=1), "fallback must be a bool, was: int"),
    (lambda: Called(function="a:b", options="x"), "options must be a Mapping, was: str 'x'"),
    (lambda: Online(segmenter=Newline()).push(13), "piece must be str or bytes, was: int"),
]


@pytest.mark.parametrize(
    ("call", "told", "error"),
    [*((*each, ValueError) for each in REFUSED), *((*each, TypeError) for each in KINDS)],
)
def test_what_makes_no_sense_is_named(call, told, error):
    with pytest.raises(error, match=told):
        call()
