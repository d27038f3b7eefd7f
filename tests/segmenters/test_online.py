"""Marks token by token equal the marks of the whole text."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from segmenters import (
    ArithmeticSteps,
    Lines,
    Newline,
    Official,
    Pattern,
    Sentences,
    Stride,
    mark,
)
from segmenters.align import ByteTable, byte_alphabet
from segmenters.online import Online
from tests.segmenters.texts import utf8_text

SEGMENTERS = [
    Sentences(backend="rules"),
    Newline(),
    Official(),
    ArithmeticSteps(),
    Lines(),
]
each = pytest.mark.parametrize("segmenter", SEGMENTERS, ids=lambda s: type(s).__name__)

_WORDS = [
    *("the", "a", "it", "Mr.", "U.S.", "e.g.", "went.", "Then?", "wait...", "3.", "5", "p.m."),
    *("(so)", "=", "==", "1+2=3", "<=", "a.b@c.org", "[12]", "i.e.", ".", "''", "``", ",", ";"),
    *("\u00abja\u00bb", "\u201cno.\u201d", "\u4f60\u597d\u3002", "\u300c\u662f\u3002\u300d"),
    *("\U0001f600", "\U0001f468\u200d\U0001f469", "caf\u00e9.", "\u0434\u0430.", "\u2022"),
    *("\u03c4\u03b9;", "\u0561:", "\u0905\u0964", "\u0646\u061f", "\uff0e", "\u1362"),
]
_SPACES = [" ", " ", " ", " ", "  ", "\n", "\n\n", "\r\n", "\t", "", "\u3000", "\u00a0"]


def prose(seed, words):
    draw = random.Random(seed)
    parts = (draw.choice(_WORDS) + draw.choice(_SPACES) for _ in range(words))
    return "".join(part.capitalize() if draw.random() < 0.2 else part for part in parts)


@pytest.fixture(scope="module")
def tokenizer():
    """A byte-level BPE so small that it splits characters beyond ASCII over tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=290,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator([prose(0, 3000)], trainer)
    return made


def pieces_of(tokenizer, ids):
    alphabet = byte_alphabet()
    return [bytes(alphabet[char] for char in tokenizer.id_to_token(index)) for index in ids]


def online_marks(segmenter, pieces):
    online = Online(segmenter=segmenter)
    marks = [decided for piece in pieces for decided in online.push(piece)]
    return marks + online.finish()


@each
def test_fifty_thousand_tokens_agree_with_the_batch(segmenter, tokenizer):
    table = ByteTable.from_vocabulary(tokenizer.get_vocab())
    count = straddling = 0
    for seed in range(1, 100):
        text = prose(seed, 3000)
        ids = tokenizer.encode(text).ids
        pieces = pieces_of(tokenizer, ids)
        batch = mark(table.anchors(text, ids), (segmenter.cut(text),))
        assert online_marks(segmenter, pieces) == batch.tolist()
        count += len(ids)
        straddling += sum(0x80 <= piece[0] < 0xC0 for piece in pieces)
        if count > 50_000:
            break
    assert count > 50_000 and straddling > 1_000


@each
@given(text=utf8_text, seed=st.integers(0, 99))
def test_any_text_in_any_pieces_agrees(segmenter, text, seed):
    draw, data = random.Random(seed), text.encode()
    pieces = []
    while data:
        size = draw.choice([1, 1, 2, 3, 5])
        pieces.append(data[:size])
        data = data[size:]
    table = ByteTable.from_vocabulary(byte_alphabet())  # ids are bytes
    by_byte = mark(table.anchors(text, list(text.encode())), (segmenter.cut(text),))
    assert online_marks(segmenter, [bytes([byte]) for byte in text.encode()]) == by_byte.tolist()
    assert len(online_marks(segmenter, pieces)) == len(pieces)


@given(text=utf8_text)
def test_whole_characters_may_be_pushed_as_strings(text):
    segmenter = Sentences(backend="rules")
    cuts = segmenter.cut(text)
    marks = online_marks(segmenter, text)
    assert [place for place, value in enumerate(marks) if value] == cuts[:-1].tolist()


def test_a_mark_comes_with_its_token():
    online = Online(segmenter=Sentences())
    pushed = [online.push(piece) for piece in ("He", " left", ".", " ", '"', " She", "")]
    assert pushed == [[3], [0], [0], [0], [2], [0], [0]]


def test_a_split_character_waits_for_its_last_byte():
    online = Online(segmenter=Newline())
    first, *rest = [bytes([byte]) for byte in "\n\U0001f600".encode()]
    assert online.push(first) == [3]
    assert [online.push(piece) for piece in rest] == [[], [], [], [2, 0, 0, 0]]
    assert online.waiting == 0


def test_broken_bytes_are_replaced():
    online = Online(segmenter=Newline())
    assert online.push(b"\n") == [3] and online.push(b"\xf0\x9f") == []
    assert online.push(b"a") == [2, 0]
    assert online.push(b"\xe3") == [] and online.finish() == [0]


def test_a_copy_goes_its_own_way():
    online = Online(segmenter=Sentences())
    online.push("He left.")
    twin = online.copy()
    assert online.push(" She") == [2]
    assert twin.push(", too") == [0]
    assert online.push(" did") == [0] and twin.push(".") == [0]
    assert online.push(" well") == [0] and twin.push(" Yes") == [2]


def test_the_state_stays_small():
    online = Online(segmenter=Sentences())
    for _ in range(3000):
        online.push(" and so on, without end")
    assert len(online._text) < 2000


@pytest.mark.parametrize(
    "segmenter", [Pattern(ends="a"), Sentences(next_word=True), Stride(length=3)], ids=repr
)
def test_a_segmenter_that_cannot_be_followed_is_refused(segmenter):
    with pytest.raises(ValueError, match="segmenter must be Newline, Official"):
        Online(segmenter=segmenter)


def test_a_piece_must_be_text():
    with pytest.raises(TypeError, match="piece must be str or bytes, was: int"):
        Online(segmenter=Newline()).push(13)
