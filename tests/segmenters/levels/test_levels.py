"""Levels that are kept, bounds on length, and the same while text is written."""

import dataclasses
import random
import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import (
    Auto,
    Clauses,
    Coq,
    Levels,
    Lines,
    Matched,
    Newline,
    Segmenter,
    SegmenterError,
    Sentences,
    Stride,
    mark,
)
from segmenters.align import anchors_from_offsets
from segmenters.base import Machine, Window
from segmenters.levels.bounds import Bound, joined
from segmenters.streaming.online import Online
from tests.segmenters.texts import any_text, pieces


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Verses(Segmenter):
    """Lines, stanzas that end at an empty line, and books that end at "%"."""

    lookahead = 0
    level_names = ("line", "stanza", "book")

    def _ends(self, text):
        return [place + 1 for place, sign in enumerate(text) if sign == "\n"]

    def _levels(self, text):
        return tuple(_places(text, sign) for sign in ("\n", "\n\n", "%"))

    def machine(self):
        return Window(segmenter=Newline(), before=1, triggers="\n")

    def _coarser_machine(self, level):
        return _Signs(sign=("", "\n\n", "%")[level])


def _places(text, sign):
    return [place + 1 for place in range(len(text)) if text[: place + 1].endswith(sign)]


@dataclasses.dataclass(slots=True, kw_only=True)
class _Signs(Machine):
    sign: str
    before: str = ""

    def _read(self, text):
        window = self.before + text
        start, known = self.size - len(self.before), len(self.before)
        self.before = window[-1:]
        return [start + place for place in _places(window, self.sign) if place > known]


GERMANY, FRANCE = "\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7"
WORDS = st.lists(
    st.sampled_from(
        [*"\n\n% ,.ax\r\u0301\u200d\u3002", "\n\n", "a, b. c", "\U0001f468\u200d\U0001f469"]
    ),
    max_size=40,
).map("".join)
TEXTS = st.one_of(WORDS, any_text)
FOLLOWED = [
    Levels(of=Verses(), keep=["stanza", "book"], longest=3),
    Levels(of=Clauses(of=Newline()), keep=2, longest=6),
    Levels(of=Clauses(of=Sentences()), keep=2),
]
IN_TOKENS = [
    Levels(of=Verses(), keep=3, longest="3 tokens"),
    Levels(of=Sentences(), longest="1 token"),
    Levels(of=Clauses(of=Newline()), keep=["segment"], longest="4 tokens"),
]


def tokens_of(text, seed):
    """Spans of characters, some empty and some that share their character with the next."""
    draw, spans, place = random.Random(seed), [], 0
    while place < len(text):
        size = min(draw.choice((0, 1, 1, 2, 4)), len(text) - place)
        spans.append((place, place + size))
        place += size
    return spans


@pytest.mark.parametrize("segmenter", [*FOLLOWED, *IN_TOKENS], ids=repr)
@given(text=TEXTS, seed=st.integers(0, 99))
def test_marks_of_every_level_come_with_the_tokens(segmenter, text, seed):
    spans = tokens_of(text, seed)
    anchors = anchors_from_offsets(text, spans)
    levels = segmenter.levels_of_tokens(text, anchors)
    online = Online(segmenter=segmenter, levels=len(levels))
    found = []
    for start, end in spans:
        found += online.push(text[start:end])
        whole = found + online.provisional()
        assert len(whole) == len(found) + online.waiting
    assert found + online.finish() == mark(anchors, levels).tolist()


def test_special_tokens_count_in_the_segment_that_they_follow():
    segmenter, pieces = Levels(of=Newline(), longest="2 tokens"), ("ab", "", "", "", "c", "d")
    anchors = anchors_from_offsets("abcd", [(0, 2), *[(2, 2)] * 3, (2, 3), (3, 4)])
    online = Online(segmenter=segmenter)
    found = [one for piece in pieces for one in online.push(piece)] + online.finish()
    assert found == mark(anchors, segmenter.levels_of_tokens("abcd", anchors)).tolist()


@pytest.mark.parametrize("segmenter", IN_TOKENS, ids=repr)
@given(text=TEXTS, seed=st.integers(0, 99))
def test_no_segment_has_more_tokens_than_the_bound(segmenter, text, seed):
    spans = [(start, end) for start, end in tokens_of(text, seed) if end > start]
    anchors = anchors_from_offsets(text, spans)
    finest, *coarser = segmenter.levels_of_tokens(text, anchors)
    most = Bound.of(segmenter.longest).number
    counts = np.diff(np.searchsorted(anchors, finest))
    for (start, end), count in zip(pairwise(finest.tolist()), counts.tolist(), strict=True):
        inside = range(start + 1, end)
        shared = count > len(set(anchors[(anchors >= start) & (anchors < end)].tolist()))
        assert count <= most or shared or any(joined(text, place, start) for place in inside)
    for cuts in coarser:
        assert set(cuts.tolist()) <= set(finest.tolist())


@given(text=TEXTS, most=st.integers(1, 12))
def test_what_is_short_enough_stays_and_what_is_longer_is_split(text, most):
    plain, split = Sentences(), Levels(of=Sentences(), longest=most)
    before, after = plain.cut(text).tolist(), split.cut(text).tolist()
    assert set(before) <= set(after)
    for start, end in pairwise(before):
        if end - start <= most:
            assert not [cut for cut in after if start < cut < end]
    for start, end in pairwise(after):
        assert end - start <= most or all(
            joined(text, place, start) for place in range(start + most, end)
        )
        assert start in before or not unicodedata.combining(text[start])


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("one two, three four five", 12, ["one two, ", "three four ", "five"]),
        ("one two.) three, four five", 20, ["one two.) ", "three, four five"]),
        ("a\nb c\n\nd e\nf g", 9, ["a\nb c\n\n", "d e\nf g"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("xe\u0301\u0302y", 2, ["x", "e\u0301\u0302", "y"]),
        ("ab\r\ncd", 3, ["ab", "\r\n", "cd"]),
        ("a\ud83d\ude00b", 2, ["a", "\ud83d\ude00", "b"]),
        (f"x{GERMANY}{FRANCE}", 2, ["x", GERMANY, FRANCE]),
        ("\U0001f468\u200d\U0001f469\U0001f3fd!", 1, ["\U0001f468\u200d\U0001f469\U0001f3fd", "!"]),
        ("\u6211\uff0c\u4ed6\u3002\u5979", 3, ["\u6211\uff0c", "\u4ed6\u3002\u5979"]),
    ],
)
def test_long_segments_are_split_at_the_next_lower_level(text, most, expected):
    split = Levels(of=Matched(of=Coq(), kind="stride"), longest=most)
    assert pieces(text, split) == expected


def test_code_is_split_at_lines_and_a_coarse_level_at_the_finer_one():
    text = "call(a, b,\n  c, d)\n"
    code = Levels(of=Lines(granularity="logical", language="python"), longest=12)
    assert code.cut(text).tolist() == [0, 11, 19]
    stanzas = Levels(of=Verses(), keep=["stanza"], longest=8)
    assert stanzas.cut("a b. c\nd. e\nf\n\ng").tolist() == [0, 7, 15, 16]


def test_levels_are_kept_by_number_or_name():
    text = "a\n%\n\nc\n\ne"
    everything = Verses().levels(text)
    assert [cuts.tolist() for cuts in everything] == [
        *([0, 2, 4, 5, 7, 8, 9], [0, 5, 8, 9], [0, 5, 9])
    ]
    for keep, ranks in ((1, [0]), (3, [0, 1, 2]), (["stanza"], [1]), (["line", "book"], [0, 2])):
        kept = Levels(of=Verses(), keep=keep)
        assert [c.tolist() for c in kept.levels(text)] == [everything[r].tolist() for r in ranks]
        assert kept.cut(text).tolist() == everything[ranks[0]].tolist()
        assert kept.level_names == tuple(Verses().level_names[rank] for rank in ranks)


def test_levels_of_auto_are_those_of_the_document_by_rank():
    kept = Levels(of=Auto(), keep=["segment", "part"])
    chosen = kept.choose(text="Qed.", kind="coq")
    assert chosen.level_names == ("segment", "part")
    levels = chosen.levels("Qed. Qed.")
    assert [cuts.tolist() for cuts in levels] == [[0, 5, 9], [0, 9]]
    assert Levels(of=Auto(), longest=9).choose(text="", kind="coq").of == Coq()


def test_levels_that_are_only_named_are_refused():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Verses(Newline):
        level_names = ("line", "stanza")

    with pytest.raises(SegmenterError, match="levels line, stanza, so it must define _levels"):
        Verses().levels("a\n\nb")


def test_a_level_without_a_machine_is_refused_by_its_name():
    plain = Levels(of=Lines(granularity="logical", language="python"))
    assert plain.level_machine(0)

    class Chapters(Verses):
        def _coarser_machine(self, level):
            return Segmenter._coarser_machine(self, level)

    assert Online(segmenter=Chapters()).push("a") == [3]
    with pytest.raises(ValueError, match=r"Chapters\(\); its level 'stanza' needs the whole text"):
        Online(segmenter=Levels(of=Chapters(), keep=["stanza"]))


def test_one_level_without_a_bound_is_the_segmenter_itself():
    assert Levels(of=Stride(length=3)).fingerprint() == Stride(length=3).fingerprint()
    two = Levels(of=Verses(), keep=["line", "book"]).fingerprint()
    assert two["segmenter"] == "segmenters.Levels"
    assert two["parameters"]["keep"] == ("line", "book")
    assert two["parameters"]["of"]["_target_"].endswith("Verses")
