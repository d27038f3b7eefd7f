"""Marks from ids: equal to a loop, exact where ids decide, measured elsewhere."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Auto, Newline, Sentences, official_marks
from segmenters.streaming.id_table import IdTable
from segmenters.streaming.online import Online

PIECES = [
    *("", "\n", "\n\n", " ", "  ", "He", " he", " He", ".", ".\n", "!", "\nNo", " .", ",", ")"),
    *(" left", " Dr", " D", "r", '"', "a\nb", b"\xe4", b"\xbd\xa0", " 3", "3", "\n "),
]
NEWLINES = IdTable.compile(PIECES, Newline())
ids_of = st.lists(st.integers(0, len(PIECES) - 1), max_size=40)


def exact(segmenter, ids):
    online = Online(segmenter=segmenter)
    marks = [mark for id in ids for mark in online.push(PIECES[id])]
    return marks + online.finish()


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
    assert NEWLINES.marks(ids).tolist() == exact(Newline(), ids)


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
