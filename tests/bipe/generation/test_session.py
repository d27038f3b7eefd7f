"""A session equals reading the whole text at once, whatever is fed, split, taken back."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe import Positions
from bipe.generation import Session
from segmenters import Newline, Sentences, TokenMarker, anchors_from_offsets, mark
from tests.bipe.conftest import SCHEMES, small_decoder

# One id a byte, and some whole words.
PIECES = [bytes([byte]) for byte in range(32, 90)] + [b"\n", b". ", b""]
LETTERS = [i for i, piece in enumerate(PIECES) if piece]


def whole_logits(model, tokens, segmenter):
    """All logits of a row, its marks from the text at once."""
    text = b"".join(PIECES[token] for token in tokens).decode()
    ends, offsets = 0, []
    for token in tokens:
        offsets.append((ends, ends + len(PIECES[token])))
        ends = offsets[-1][1]
    levels = segmenter.levels(text)[: model.levels]
    marks = mark(anchors_from_offsets(text, offsets), levels)
    at = Positions.from_marks(torch.from_numpy(marks)[None], levels=model.levels)
    return model.logits(torch.tensor([tokens]), at)[0]


def draw(seed, time):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, len(LETTERS), (time,), generator=generator).tolist()


@pytest.mark.parametrize("segmenter", [Newline(), Sentences()], ids=["newline", "sentences"])
@pytest.mark.parametrize("scheme", ["bilevel_learned_rope", "bilevel_learned_alibi_x96", "chain"])
@torch.no_grad()
def test_a_session_reads_as_the_whole_text(scheme, segmenter):
    model = small_decoder(scheme).double()
    rows = [draw(1, 40), draw(2, 40)]
    marker = TokenMarker(segmenter=segmenter, pieces=PIECES)
    session = Session(model, batch=2, marker=marker, chunk=7)
    pieces = [session.feed([row[:19] for row in rows])]
    pieces += [session.feed([row[i : i + 1] for row in rows]) for i in range(19, 40)]
    for row, ours in zip(rows, torch.cat(pieces, 1), strict=True):
        torch.testing.assert_close(ours, whole_logits(model, row, segmenter), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("scheme", ["multilevel", "segatron", "segatron_xl"])
@torch.no_grad()
def test_a_session_follows_the_levels_that_a_model_reads(scheme):
    model = small_decoder(scheme).double()
    end, line = PIECES.index(b". "), PIECES.index(b"\n")
    words = [LETTERS[id] for id in draw(1, 60) if LETTERS[id] < 58]
    row = [*words[:9], end, *words[9:14], end, line, line, *words[14:20], end, *words[20:26], line]
    row += [line, *words[26:30]]
    marker = TokenMarker(segmenter=Sentences(), pieces=PIECES, levels=2)
    session = Session(model, batch=1, marker=marker, chunk=7)
    state = session.state()
    for _ in range(2):  # the second time after a rewind
        pieces = [session.feed([row[:8]]), *(session.feed([[id]]) for id in row[8:])]
        found = torch.cat(pieces, 1)[0]
        expected = whole_logits(model, row, Sentences())
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
        session.rewind(state)
    plain = TokenMarker(segmenter=Sentences(), pieces=PIECES)
    other = Session(model, batch=1, marker=plain).feed([row])[0]
    assert not torch.allclose(other[-1], expected[-1])


@torch.no_grad()
def test_padding_on_the_left_changes_nothing():
    model = small_decoder("bilevel_learned_alibi_x96").double()
    long, short = draw(3, 30), draw(4, 21)
    marker = TokenMarker(segmenter=Newline(), pieces=PIECES)
    session = Session(model, batch=2, marker=marker, padding=[0, 9], chunk=8)
    ours = session.feed([long, [0] * 9 + short])
    more = session.feed([[40], [41]])
    for row, (tokens, pad) in enumerate((([*long, 40], 0), ([*short, 41], 9))):
        found = torch.cat([ours[row, pad:], more[row]])
        torch.testing.assert_close(
            found, whole_logits(model, tokens, Newline()), atol=1e-9, rtol=1e-9
        )


class LateMarker:
    """Opens a segment at every token that a token of id 1 follows: one token late."""

    def __init__(self):
        self.held = []

    def push(self, token):
        marks = [2 * (token == 1)] if self.held else []
        self.held = [token]
        return marks

    def provisional(self):
        return [0] * len(self.held)

    def copy(self):
        twin = LateMarker()
        twin.held = self.held.copy()
        return twin


@given(
    tokens=st.lists(st.integers(0, 2), min_size=2, max_size=24),
    sizes=st.lists(st.integers(1, 5), min_size=24, max_size=24),
)
@torch.no_grad()
def test_a_mark_that_changes_is_read_again(tokens, sizes):
    model = small_decoder("bilevel_learned_rope").double()
    session = Session(model, batch=1, marker=LateMarker())
    start, last = 0, None
    for size in sizes:
        if start < len(tokens):
            last = session.feed([tokens[start : start + size]])
            start += size
    marks = [2 * (later == 1) for later in tokens[1:]] + [0]
    at = Positions.from_marks(torch.tensor([marks], dtype=torch.uint8))
    full = model.logits(torch.tensor([tokens]), at)
    torch.testing.assert_close(last[0, -1], full[0, -1], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("scheme", ["bilevel_learned_rope", "bilevel_learned_alibi_x96"])
@torch.no_grad()
def test_speculation_can_be_taken_back(scheme):
    model = small_decoder(scheme).double()
    tokens, wrong = draw(5, 40), draw(6, 9)
    marker = TokenMarker(segmenter=Sentences(), pieces=PIECES)
    session = Session(model, batch=1, marker=marker)
    session.feed([tokens[:25]])
    state = session.state()
    for turn in range(2):
        session.feed([wrong])
        session.feed([wrong[: 3 + turn]])
        session.rewind(state)
    rest = session.feed([tokens[25:]])
    full = whole_logits(model, tokens, Sentences())
    torch.testing.assert_close(rest[0], full[25:], atol=1e-9, rtol=1e-9)


@torch.no_grad()
def test_rows_may_be_picked_and_doubled():
    model = small_decoder("bilevel_learned_rope").double()
    rows = [draw(7, 20), draw(8, 20)]
    marker = TokenMarker(segmenter=Newline(), pieces=PIECES)
    session = Session(model, batch=2, marker=marker)
    session.feed(rows)
    session.select([1, 1])
    ours = session.feed([[58, 5], [6, 58]])
    for row, more in enumerate(([58, 5], [6, 58])):
        full = whole_logits(model, rows[1] + more, Newline())
        torch.testing.assert_close(ours[row], full[-2:], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name.startswith("flat")])
@torch.no_grad()
def test_flat_models_need_no_marker(scheme):
    model = small_decoder(scheme).double()
    row = draw(9, 20)
    session = Session(model, batch=1)
    ours = torch.cat([session.feed([row[:11]]), session.feed([row[11:]])], 1)
    full = model.logits(torch.tensor([row]), Positions.from_marks(torch.zeros(1, 20).byte()))
    torch.testing.assert_close(ours, full, atol=1e-9, rtol=1e-9)


def test_rows_of_two_lengths_are_refused():
    session = Session(small_decoder("flat_rope"), batch=2)
    with pytest.raises(ValueError, match="rows must have the same length"):
        session.feed([[1, 2], [3]])
    with pytest.raises(ValueError, match="chunk must be at least 1"):
        Session(small_decoder("flat_rope"), batch=2, chunk=0)


@pytest.mark.parametrize("scheme", ["bilevel_learned_rope", "bilevel_learned_alibi_x96", "chain"])
@torch.no_grad()
def test_given_marks_of_prompts_are_read_as_they_are(scheme):
    """Rows of other lengths, padded on the left; behind a prompt the marker opens a segment."""
    model = small_decoder(scheme).double()
    prompts = [draw(7, 17), draw(8, 11)]
    given = [
        [3] + [2 * (i % 5 == 2) for i in range(16)],
        [3] + [2 * (i % 3 == 1) for i in range(10)],
    ]
    written = draw(9, 12)
    marker = TokenMarker(segmenter=Newline(), pieces=PIECES)
    session = Session(model, batch=2, marker=marker, padding=[0, 6], chunk=4)
    ours = [session.feed([prompts[0], [0] * 6 + prompts[1]], marks=[given[0], [0] * 6 + given[1]])]
    ours += [session.feed([[token], [token]]) for token in written]
    text = b"".join(PIECES[token] for token in written).decode()
    ends = [sum(len(PIECES[t]) for t in written[:i]) for i in range(len(written) + 1)]
    offsets = list(itertools.pairwise(ends))
    own = mark(anchors_from_offsets(text, offsets), [Newline().cut(text)])
    own[0] = 2
    for row, pad in enumerate((0, 6)):
        marks = torch.tensor([[*given[row], *own.tolist()]], dtype=torch.uint8)
        full = model.logits(torch.tensor([prompts[row] + written]), Positions.from_marks(marks))
        found = torch.cat([ours[0][row, pad:], *(each[row] for each in ours[1:])])
        torch.testing.assert_close(found, full[0], atol=1e-9, rtol=1e-9)


def test_marks_come_before_what_the_marker_reads():
    model = small_decoder("bilevel_learned_rope")
    session = Session(model, batch=1, marker=TokenMarker(segmenter=Newline(), pieces=PIECES))
    with pytest.raises(ValueError, match="2 marks, one per token, were"):
        session.feed([[1, 2]], marks=[[3]])
    session.feed([[1, 2]], marks=[[3, 0]])
    session.feed([[4]], marks=[[0]])
    session.feed([[5]])
    with pytest.raises(ValueError, match="cannot follow tokens without marks"):
        session.feed([[1]], marks=[[2]])
    session = Session(model, batch=1, marker=TokenMarker(segmenter=Newline(), pieces=PIECES))
    session.feed([[1]])
    with pytest.raises(ValueError, match="cannot follow tokens without marks"):
        session.feed([[1]], marks=[[2]])
