"""Marks token by token equal the marks of the whole text; those from ids alone are measured."""

import json
import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import (
    Auto,
    Coq,
    Isabelle,
    Lines,
    Mizar,
    Newline,
    Sentences,
    Turns,
    mark,
    official_marks,
)
from segmenters.align import anchors_from_offsets
from segmenters.streaming.id_table import IdTable
from segmenters.streaming.online import Online
from tests.segmenters.texts import any_text

each = pytest.mark.parametrize("segmenter", [Sentences(), Lines(), Coq(), Isabelle()], ids=repr)


def online_marks(segmenter, pieces):
    online, marks = Online(segmenter=segmenter), []
    for count, piece in enumerate(pieces, 1):
        marks += online.push(piece)
        assert len(online.provisional()) == online.waiting == count - len(marks)
    return marks + online.finish()


@each
@given(text=any_text, seed=st.integers(0, 99))
def test_any_text_in_any_pieces_agrees(segmenter, text, seed):
    """Empty pieces, split characters, and lone surrogates, as UTF-8 would spell them."""
    draw = random.Random(seed)
    rest, pieces, offsets = text.encode("utf-8", "surrogatepass"), [], []
    while rest:
        size = draw.randint(0, 5)
        pieces.append(rest[:size])
        rest = rest[size:]
    # The characters that hold the first and the last byte of a piece.
    sizes = (len(char.encode("utf-8", "surrogatepass")) for char in text)
    owner = [place for place, size in enumerate(sizes) for _ in range(size)]
    byte = 0
    for piece in pieces:
        held = owner[byte : byte + len(piece)]
        offsets.append((held[0], held[-1] + 1) if held else (0, 0))
        byte += len(piece)
    batch = mark(anchors_from_offsets(text, offsets), (segmenter.cut(text),))
    assert online_marks(segmenter, pieces) == batch.tolist()


@given(text=any_text, taken_back=st.binary(max_size=9), share=st.floats(0, 1))
def test_a_rollback_leaves_no_trace(text, taken_back, share):
    rest = text.encode("utf-8", "surrogatepass")
    place = int(share * len(rest))
    online, straight = (Online(segmenter=Sentences()) for _ in range(2))
    for value in rest[:place]:
        assert online.push(bytes([value])) == straight.push(bytes([value]))
    saved = online.copy()
    assert saved == online == pickle.loads(pickle.dumps(online))
    online.push(taken_back)
    online.finish()
    assert saved == straight
    for value in rest[place:]:
        assert saved.push(bytes([value])) == straight.push(bytes([value]))


@pytest.mark.parametrize(
    "text",
    [
        *("\n\n\nUser: Hi", "a\n<|user|>\n\nHi", "a</s><bos>[INST] Hi"),
        f"a</s><|begin_of_text|><|start_header_id|>{'x' * 40}<|end_header_id|>\n\nHi",
    ],
)
def test_turns_of_lines_are_followed(text):
    segmenter, spans = Turns(of=Lines()), [(place, place + 1) for place in range(len(text))]
    marks = mark(anchors_from_offsets(text, spans), (segmenter.cut(text),))
    assert online_marks(segmenter, text) == marks.tolist()


def test_a_mark_comes_with_its_token():
    online = Online(segmenter=Sentences())
    pushed = [online.push(piece) for piece in ("He", " left", ".", " ", '"', " She", "")]
    assert pushed == [[3], [0], [0], [0], [2], [0], [0]]


def test_a_split_character_waits_for_its_last_byte():
    online = Online(segmenter=Newline())
    first, *rest = [bytes([byte]) for byte in "\n\U0001f600".encode()]
    assert online.push(first) == [3]
    assert [online.push(piece) for piece in rest[:-1]] == [[], [], []]
    assert online.waiting == 3 and online.provisional() == [2, 0, 0]
    assert online.push(rest[-1]) == [2, 0, 0, 0]
    assert online.waiting == 0 and online.provisional() == []


def test_broken_bytes_are_replaced():
    online = Online(segmenter=Newline())
    assert online.push(b"\n") == [3] and online.push(b"\xf0\x9f") == []
    assert online.push(b"a") == [2, 0]
    assert online.push(b"\xe3") == [] and online.finish() == [0]
    with pytest.raises(ValueError, match="push must not follow finish"):
        online.push(b"a")


PIECES = [
    *("", "\n", "\n\n", " ", "  ", "He", " he", " He", ".", ".\n", "!", "\nNo", " .", ",", ")"),
    *(" left", " Dr", " D", "r", '"', "a\nb", b"\xe4", b"\xbd\xa0", " 3", "3", "\n "),
]
NEWLINES = IdTable.compile(PIECES, Newline())
ids_of = st.lists(st.integers(0, len(PIECES) - 1), max_size=40)


def looped(table, ids):
    """The rule of the table, token by token."""
    marks, pending, guarded, spaced = [], False, 0, 0
    for id in ids:
        start = table.opens[id] or (pending and table.takes[spaced][id])
        marks.append(2 if start else 0)
        pending = table.closes[guarded][id] or (pending and table.passes[spaced][id])
        guarded, spaced = int(table.guards[id]), int(table.spaces[id])
    return [3, *marks[1:]] if marks else []


@given(ids=ids_of)
def test_newlines_are_told_from_ids_alone(ids):
    assert NEWLINES.marks(ids).tolist() == online_marks(Newline(), [PIECES[id] for id in ids])


@given(ids=ids_of, seed=st.integers(0, 9999))
def test_the_vectorised_marks_are_those_of_the_loop(ids, seed):
    draw = np.random.default_rng(seed)
    pairs = {name: draw.random((2, len(PIECES))) < 0.5 for name in ("closes", "takes", "passes")}
    flags = {name: draw.random(len(PIECES)) < 0.3 for name in ("opens", "guards", "spaces")}
    table = IdTable(**pairs, **flags)
    assert table.marks(ids).tolist() == looped(table, ids)
    assert table.marks([ids, ids[::-1]]).tolist() == [looped(table, ids), looped(table, ids[::-1])]


@given(ids=st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_the_released_rule_is_a_table(ids):
    table = IdTable.of_separators(10, (3, 7))
    starts = official_marks(ids, separators=(3, 7))
    assert ((table.marks(ids) & 2) > 0).tolist() == starts.tolist()


def test_a_sentence_ends_by_two_neighbours():
    table = IdTable.compile(PIECES, Sentences())
    at = {piece: id for id, piece in enumerate(PIECES)}

    def marks(*pieces):
        return table.marks([at[piece] for piece in pieces]).tolist()

    assert marks("He", " left", ".", " He", " left") == [3, 0, 0, 2, 0]
    assert marks("He", " left", ".", '"', " ", "", "\n", "He") == [3, 0, 0, 0, 0, 0, 0, 2]
    assert marks(" left", ".", ")", ",", " he") == [3, 0, 0, 0, 0]
    assert marks("3", ".", "3") == [3, 0, 0]
    assert marks("3", ".", "\n", "3") == [3, 0, 0, 2]
    assert marks(" Dr", ".", " He") == [3, 0, 0]
    assert marks(".\n", '"', "He", " left") == [3, 2, 0, 0]
    assert marks(" D", "r", ".", " He") == [3, 0, 0, 2]  # what ids cannot know


def test_a_segment_that_ends_later_than_its_tokens_are_read_is_seen():
    table = IdTable.compile([" x", ";", " thus"], Mizar())
    assert table.marks([0, 1, 2, 1, 0]).tolist() == [3, 0, 2, 0, 2]


def test_the_disagreement_is_measured_and_printed_and_told_apart():
    table = IdTable.compile(PIECES, Sentences())
    assert table.disagreement is None and "not measured" in str(table)
    at = {piece: id for id, piece in enumerate(PIECES)}
    texts = {"wrong": [" D", "r", ".", " He"], "right": [" left", ".", " He", "."]}
    measured = table.measured(texts, lambda text: [at[piece] for piece in texts[text]])
    assert measured.disagreement == 1 / 8 and measured.tokens == 8
    assert "12.5000% of 8 marks wrong" in str(measured)
    prints = [json.dumps(each.fingerprint()) for each in (table, measured)]
    assert len(set(prints)) == 2


def test_a_segmenter_chosen_for_each_document_has_the_table_of_most_of_them():
    code = "import os\n\n\ndef f(x):\n    return os.path.join(x, 'a')\n"
    page = "# Title\n\n* one\n* two\n\n[a](http://b.c) and **bold** `code`\n"
    prose = "He left the house. It rained all night, and nobody noticed."
    letters = [bytes([byte]) for byte in range(256)]
    table = IdTable.compile(letters, Auto(), texts=[page, page, code, prose, prose])
    assert table.segmenter == Auto().choose(text=prose)
    exact = table.measured([prose, page], lambda text: list(text.encode()), by=Auto())
    assert exact.tokens == len(prose)  # Markdown needs the whole text
    assert table.measured([page], lambda text: list(text.encode()), by=Auto()) is table
    of_code = table.measured([code], lambda text: list(text.encode()), by=Auto())
    assert of_code.disagreement > exact.disagreement
