"""Alignment: two ways to anchors against a brute-force oracle over characters."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from segmenters import ByteTable, Stride, anchors_from_offsets, mark
from segmenters.align import _LAST_SPACE, byte_alphabet
from tests.segmenters.texts import any_text, trained, utf8_text

CORPUS = [
    "The cat sat. The dog sat.\n    return x\n\n    return y\n",
    "na\u00efve caf\u00e9 \u3042\u308a\u304c\u3068\u3046\u3002 a\u00a0b \u3000\u3000 x == y\r\n",
    "\u201cYes.\u201d \u2026 \U0001f600 \U0001f601 .. ... \t\t  end",
]


@pytest.fixture(scope="module")
def tokenizer():
    return trained("bytes", CORPUS, size=330)


@pytest.fixture(scope="module")
def table(tokenizer):
    return ByteTable.from_vocabulary(tokenizer.get_vocab(), special={tokenizer.token_to_id("<s>")})


def characters_of_bytes(text):
    return [index for index, char in enumerate(text) for _ in char.encode("utf-8")]


def oracle_anchors(text, spans):
    """One token after the other, one character after the other."""
    anchors, last = [], 0
    for start, end in spans:
        visible = [place for place in range(start, end) if not text[place].isspace()]
        if start < end:
            last = max(last, visible[0] if visible else start)
        anchors.append(last)
    return anchors


def oracle_marks(anchors, levels):
    marks = []
    for token, anchor in enumerate(anchors):
        value = 0 if token else 1
        for level, cuts in enumerate(levels):
            segment = max(i for i, cut in enumerate(cuts) if cut <= anchor)
            before = (
                -1 if not token else max(i for i, c in enumerate(cuts) if c <= anchors[token - 1])
            )
            value |= (segment != before) << (level + 1)
        marks.append(value)
    return marks


@st.composite
def spans_of(draw, length):
    """Spans as tokenizers give them: starts never decrease, some are empty, some overlap."""
    starts = sorted(draw(st.lists(st.integers(0, length), max_size=20)))
    ends = [draw(st.integers(start, min(length, start + 5))) for start in starts]
    spans = list(zip(starts, ends, strict=True))
    for place in sorted(draw(st.lists(st.integers(0, len(spans)), max_size=3)), reverse=True):
        spans.insert(place, (0, 0))
    assume(not any(map(any, spans)) or any(start < end for start, end in spans))
    return spans


@given(data=st.data(), text=any_text)
def test_anchors_from_offsets_agree_with_the_oracle(data, text):
    spans = data.draw(spans_of(len(text)))
    assert anchors_from_offsets(text, spans).tolist() == oracle_anchors(text, spans)


@given(text=utf8_text, special=st.lists(st.integers(0, 60), max_size=3))
def test_anchors_from_bytes_agree_with_the_oracle(tokenizer, table, text, special):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    pieces = [(index, table.lengths[index]) for index in ids]
    for place in special:
        pieces.insert(place, (tokenizer.token_to_id("<s>"), 0))
    owner, spans, start = characters_of_bytes(text), [], 0
    for _, length in pieces:
        spans.append((owner[start], owner[start + length - 1] + 1) if length else (0, 0))
        start += length
    found = table.anchors(text, [index for index, _ in pieces])
    assert found.tolist() == oracle_anchors(text, spans)


@given(texts=st.lists(utf8_text, max_size=5), prefixes=st.lists(st.booleans(), min_size=5))
def test_parts_at_once_have_the_anchors_of_each_alone(tokenizer, table, texts, prefixes):
    rows = [
        tokenizer.encode(" " * prefix + text, add_special_tokens=False).ids
        for text, prefix in zip(texts, prefixes, strict=False)
    ]
    ids = [index for row in rows for index in row]
    given = [int(prefix) for prefix in prefixes[: len(texts)]]
    anchors, exact = table.anchors_of_parts(texts, ids, [*map(len, rows)], given)
    assert exact.tolist() == [True] * len(texts)
    alone = [
        table.anchors(text, row, prefix=prefix).tolist()
        for text, row, prefix in zip(texts, rows, given, strict=True)
    ]
    assert anchors.tolist() == [anchor for row in alone for anchor in row]


def test_a_part_that_is_not_spelt_spoils_no_other(table, tokenizer):
    whole = tokenizer.encode("The cat sat.", add_special_tokens=False).ids
    for wrong in (whole * 3, whole[:1], [], [10**6], [-1] * 4):
        texts = ["The cat sat.", "The caf\u00e9", "The cat sat."]
        counts = [len(whole), len(wrong), len(whole)]
        anchors, exact = table.anchors_of_parts(texts, [*whole, *wrong, *whole], counts, [0] * 3)
        assert exact.tolist() == [True, False, True]
        expected = table.anchors(texts[0], whole).tolist()
        assert anchors[: len(whole)].tolist() == expected
        assert anchors[-len(whole) :].tolist() == expected


def test_a_sentencepiece_table_knows_marks_and_bytes():
    vocabulary = {"<unk>": 0, "\u2581The": 1, "<0xE2>": 2, "\u2581": 3, "\u00e9": 4, "<0x0A>": 5}
    table = ByteTable.from_sentencepiece(vocabulary, special=[0])
    assert table.anchors("The \u00e9\n", [1, 3, 4, 5], prefix=1).tolist() == [0, 3, 4, 5]
    with pytest.raises(ValueError, match="ids must be in the vocabulary, was: 0"):
        table.anchors("The", [0], prefix=1)


@given(text=any_text, lengths=st.lists(st.integers(1, 9), min_size=1, max_size=7), data=st.data())
def test_marks_agree_with_the_oracle(text, lengths, data):
    levels = [Stride(length=length).cut(text) for length in lengths]
    anchors = anchors_from_offsets(text, data.draw(spans_of(len(text))))
    marks = mark(anchors, levels)
    assert marks.dtype == np.uint8
    assert marks.tolist() == oracle_marks(anchors.tolist(), levels)


def test_empty_spans_in_white_space_alone_are_at_the_start():
    assert anchors_from_offsets(" \n", [(1, 1), (2, 2)]).tolist() == [0, 0]


def test_a_tokenizer_that_normalises_is_found_out(tokenizer, table):
    ids = tokenizer.encode("caf\u00e9", add_special_tokens=False).ids
    with pytest.raises(ValueError, match="6 bytes of UTF-8, but decode to 5; if the tokenizer"):
        table.anchors("cafe\u0301", ids)


def test_the_byte_alphabet_is_that_of_the_tokenizers_library():
    assert sorted(byte_alphabet()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(byte_alphabet().values()) == list(range(256))
    assert byte_alphabet()["\u0120"] == 0x20 and byte_alphabet()["\u010a"] == 0x0A


def test_no_white_space_lies_beyond_the_table():
    assert not any(chr(code).isspace() for code in range(_LAST_SPACE + 1, 0x110000))
