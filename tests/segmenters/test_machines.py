"""Machines: the cuts of a text in pieces are the cuts of the text, each known in time."""

import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import segmenters
from segmenters.base import Machine
from segmenters.prose import rules
from segmenters.prose.rules import sentence_ends
from tests.segmenters.proofs.test_laws import PIECES
from tests.segmenters.texts import any_text

PYTHON = segmenters.Lines(granularity="logical", language="python")
# What each rule looks at; the texts of `any_text` are added.
SIGNS = {
    segmenters.Sentences(backend="rules"): [
        *(" ''", "''", " \u00bb", "\u00ab", "``", "[1]", " [12]", " [1234]", "[", "]", "\u201c"),
        *("\u3002", "\u201d", "\u2022 ", " \U0001f600", "\u263a", "\U0001f44d", "\U0001f130"),
        *("======", "---", "=", "_", " :)", " ;-(", "a@b.c>", "<x@y.org> ", "\u2029", " .", "!?"),
        *("  ", "\n", "\n\n", "a", "The", "3", "foo.", "Bar", "\u03b1;", "\u0561:", '"', "'"),
        *(' "', ' " ', "word.12 ", ".1", "\u00b2", " \u201d", " \u201c", "\u201e", ", ", "in S. "),
        *("- ", "? - ", "\uff08", "\uff09", "\u300a", "\u300b", "\uff01", "(eng. ", "10. ", "=)"),
        *("\n* ", "\n- a", "\n1. a", "\n 2", "\n(1) b", "\n(", "\na) c", "\nb", ":\n", "p.m. M"),
        *("\u4e2d", "\u4e86.", "\u2018", "\u201e", "\u201a", "\u2039", " \u203a", "\u300c"),
        *("(", ")", "so. ", "ok? ", "... it", "So. It", "\u2026 ", ' ("', "1,000."),
        *("\u0e01", "\u0e01 ", "\u0e01  ", "\u0e81\n", "Let X be ", "in X. ", "n = k. "),
        *("x. ", "by J. ", "Doe", "and B. ", "is C. It", "v. C", "Yahoo! "),
    ],
    segmenters.Sentences(line_ends="auto"): [
        *(
            "Word",
            "word",
            "a long line of words, " * 4,
            "\n",
            "\n\n",
            "\r\n",
            ".",
            ". ",
            '."\n',
            "1",
        )
    ],
    **{
        segmenter: pieces
        for segmenter, pieces in PIECES.items()
        if not isinstance(segmenter, segmenters.LaTeXProofs)
    },
    segmenters.Metamath(inner=True): PIECES[segmenters.Metamath()],
    segmenters.Mizar(inner=True): PIECES[segmenters.Mizar()],
    PYTHON: [
        *"'\"()[]{}#\\\n\r \t:=ax",
        *("'''", '"""', "\\\n", "\\\r\n", "\r\n", "def ", "\n    return x", "\n  define", "\n"),
    ],
    segmenters.Lines(): ["\r", "\n", "\r\n", "\x0b", "\u2028", "x"],
    segmenters.Official(): [" ", ".", " .", "\n", "x"],
    segmenters.ArithmeticSteps(): ["=", "==", "<=", "\n", " = ", "1"],
    segmenters.Stride(length=3): ["x"],
    segmenters.RandomCuts(mean=3, seed=1): ["x", "y"],
}
# Characters that are read before a place is decided.
_WAITS = {
    segmenters.Hol: 48,
    segmenters.Lean: 40,
    segmenters.Agda: 40,
    segmenters.Isabelle: 43,
    segmenters.Mizar: 7,
    segmenters.Tptp: 8,
}
each = pytest.mark.parametrize("segmenter", SIGNS, ids=lambda s: type(s).__name__)


def hostile(segmenter):
    """Texts of a few signs of the rule, or of all of them, or of anything."""
    signs = st.sampled_from([*SIGNS[segmenter], "A", " "])
    few = st.builds(
        lambda chosen, order: "".join(chosen[i % len(chosen)] for i in order),
        st.lists(signs, min_size=1, max_size=4),
        st.lists(st.integers(0, 3), max_size=40),
    )
    return st.one_of(few, st.lists(signs, max_size=40).map("".join), any_text)


def inner(cuts, text):
    return [cut for cut in cuts if 0 < cut < len(text)]


@each
@given(data=st.data(), seed=st.integers(0, 99))
def test_pieces_of_any_size_give_the_cuts_of_the_whole_in_time(segmenter, data, seed):
    text, draw = data.draw(hostile(segmenter)), random.Random(seed)
    cuts = inner(segmenter.cut(text).tolist(), text)
    waits = _WAITS.get(type(segmenter), 0)
    machine, found, place = segmenter.machine(), [], 0
    while place < len(text):
        size = draw.choice((1, 1, 2, 5))
        found += machine.push(text[place : place + size])
        place = min(place + size, len(text))
        assert machine.size == place and place - 1 - waits <= machine.decided < place
        known = [cut for cut in cuts if cut <= machine.decided]
        assert [cut for cut in inner(found, text) if cut <= machine.decided] == known
    assert inner(found + machine.close(), text) == cuts


@each
@given(data=st.data(), share=st.floats(0, 1))
def test_what_was_taken_back_leaves_no_trace(segmenter, data, share):
    text, taken_back = data.draw(hostile(segmenter)), data.draw(hostile(segmenter))
    place = int(share * len(text))
    machine = segmenter.machine()
    machine.push(text[:place])
    saved, packed = machine.copy(), pickle.dumps(machine)
    machine.push(taken_back)
    assert saved == pickle.loads(packed)
    assert saved.push(text[place:]) == pickle.loads(packed).push(text[place:])


ENDLESS = [
    *("\u201c", " ", ".", "\n", '"', "1", " \U0001f600", ". ", ' "', " .", "(", "[", " [1]"),
    *(" word", " ''.", "=", "$ ", ".\u201c"),
]


@each
def test_a_run_without_end_is_followed_exactly_in_a_state_that_does_not_grow(segmenter):
    """So the cost of a push does not grow either: a machine reads its state and the piece alone."""
    # Behind an end of a sentence, signs like these may still belong to it, however many they are.
    unbounded = (" \U0001f600", " [1]") * isinstance(
        segmenter, segmenters.Sentences | segmenters.ChainOfThought
    )
    for sign in ENDLESS:
        run = sign * (16_000 // len(sign))
        text = f"He left.{run}Then it rained{run}\n\nIt rained. And"
        machine, found = segmenter.machine(), []
        for place in range(0, len(text), 97):
            found += machine.push(text[place : place + 97])
            if place % 11 == 0 and sign not in unbounded:
                assert len(pickle.dumps(machine)) < 14_000, sign
        assert inner(found + machine.close(), text) == inner(segmenter.cut(text).tolist(), text)


@pytest.mark.parametrize("sign", ENDLESS)
def test_the_sentence_rules_read_each_character_a_few_times(sign, monkeypatch):
    read = []

    def counted(text, *, position, **known):
        read.append(len(text) - position)
        return sentence_ends(text, position=position, **known)

    monkeypatch.setattr(rules, "sentence_ends", counted)
    machine = segmenters.Sentences().machine()
    machine.push("He left")
    for _ in range(600):
        machine.push(sign)
    machine.push(" Then")
    assert sum(read) < 20 * machine.size


@pytest.mark.parametrize(
    ("segmenter", "cure"),
    [
        (segmenters.Pattern(ends="a"), "it needs the whole text"),
        (segmenters.Sentences(next_word=True), "set next_word=false"),
        (segmenters.Sentences(backend="sentencizer"), "set backend=rules"),
        (segmenters.Lines(granularity="logical"), "set language=python"),
        (segmenters.Auto(), "segmenter.choose"),
    ],
    ids=repr,
)
def test_what_cannot_be_followed_is_refused_with_the_reason(segmenter, cure):
    with pytest.raises(ValueError, match=f"must be one that works during generation.*{cure}"):
        segmenter.machine()


def test_a_segmenter_of_ones_own_can_join():
    class Own(segmenters.Segmenter):
        lookahead = 0

        def _ends(self, text):
            return range(1, len(text))

        def machine(self):
            return Each()

    class Each(Machine):
        def _read(self, text):
            return list(range(self.size + 1, self.size + 1 + len(text)))

    assert Own().machine().push("abc") == [1, 2, 3]
