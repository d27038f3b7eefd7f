"""A session equals reading the whole text at once, whatever is fed, split, taken back."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe import Positions
from bipe.generation import Session
from segmenters import Newline, Sentences, TokenMarker, anchors_from_offsets, mark
from tests.bipe.conftest import small_decoder

# One id a byte, and some whole words.
PIECES = [bytes([byte]) for byte in range(32, 90)] + [b"\n", b". ", b""]
LETTERS = [i for i, piece in enumerate(PIECES) if piece]
LINES = TokenMarker(segmenter=Newline(), pieces=PIECES)


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


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("scheme", ["multilevel", "segatron_xl"])
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
        close(found, expected)
        session.rewind(state)
    plain = TokenMarker(segmenter=Sentences(), pieces=PIECES)
    other = Session(model, batch=1, marker=plain).feed([row])[0]
    assert not torch.allclose(other[-1], expected[-1])


class LateMarker:
    """Opens a segment `late` tokens before each token whose id is 1 modulo `every`, so late."""

    def __init__(self, late=1, every=61):
        self.held, self.late, self.every = [], late, every

    def push(self, token):
        known = len(self.held) == self.late
        self.held = [*self.held, token][-self.late :]
        return [2 * (token % self.every == 1)] * known

    def provisional(self):
        return [0] * len(self.held)

    def copy(self):
        twin = LateMarker(self.late, self.every)
        twin.held = self.held.copy()
        return twin


def late_marks(tokens):
    return [2 * (later == 1) for later in tokens[1:]] + [0]


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
    at = Positions.from_marks(torch.tensor([late_marks(tokens)], dtype=torch.uint8))
    full = model.logits(torch.tensor([tokens]), at)
    close(last[0, -1], full[0, -1])


@pytest.mark.parametrize("scheme", ["bilevel_learned_alibi_x96", "chain"])
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
    session = Session(model, batch=2, marker=LINES, padding=[0, 6], chunk=4)
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
        close(found, full[0])
