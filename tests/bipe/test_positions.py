"""Laws of the ids that are derived from marks."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe.positions import NO_DOCUMENT, Carry, Positions

FIELDS = ("document", "token", "inter", "intra")
MARKS = st.lists(st.sampled_from([0, 0, 0, 2, 2, 3, 1, 4, 6]), min_size=1, max_size=40)


def counted(marks: list[int], *, padding: list[bool] | None = None, level: int = 0):
    """The ids of one row by a loop over its tokens."""
    document = token = inter = intra = -1
    rows = []
    for i, mark in enumerate(marks):
        if padding and padding[i]:
            rows.append((NO_DOCUMENT, 0, 0, 0))
            continue
        if mark & 1 or document < 0:
            document, token, inter, intra = document + 1, 0, 0, 0
        elif mark & (2 << level):
            token, inter, intra = token + 1, inter + 1, 0
        else:
            token, intra = token + 1, intra + 1
        rows.append((document, token, inter, intra))
    return rows


def ids(at: Positions, row: int = 0):
    return list(zip(*(getattr(at, name)[row].tolist() for name in FIELDS), strict=True))


@given(marks=MARKS, level=st.sampled_from([0, 1]))
def test_ids_equal_a_count_by_hand(marks, level):
    at = Positions.from_marks(torch.tensor([marks], dtype=torch.uint8), level=level)
    assert ids(at) == counted(marks, level=level)


@given(marks=MARKS, left=st.integers(0, 5), right=st.integers(0, 5))
def test_padding_on_either_side_changes_no_id(marks, left, right):
    padded = torch.tensor([[7] * left + marks + [7] * right], dtype=torch.uint8)
    padding = torch.zeros_like(padded, dtype=torch.bool)
    padding[:, :left] = True
    padding[:, left + len(marks) :] = True
    at = Positions.from_marks(padded, padding=padding)
    assert ids(at) == counted(padded[0].tolist(), padding=padding[0].tolist())
    assert ids(at)[left : left + len(marks)] == counted(marks)


@given(marks=MARKS, data=st.data())
def test_chunks_with_a_carry_equal_the_whole_row(marks, data):
    whole = Positions.from_marks(torch.tensor([marks, marks[::-1]], dtype=torch.uint8))
    cut = data.draw(st.integers(1, len(marks)))
    rest = torch.tensor([marks[cut:], marks[::-1][cut:]], dtype=torch.uint8)
    first = whole[:cut]
    if not rest.shape[1]:
        return
    second = Positions.from_marks(rest, carry=first.carry())
    for name in FIELDS:
        joined = torch.cat((getattr(first, name), getattr(second, name)), 1)
        assert torch.equal(joined, getattr(whole, name)), name


def test_a_stored_carry_continues_document_and_segment():
    marks = torch.tensor([[0, 0, 2, 3, 0]], dtype=torch.uint8)
    carry = Carry.from_columns(torch.tensor([[100, 7, 4]]))
    at = Positions.from_marks(marks, carry=carry)
    assert at.token.tolist() == [[100, 101, 102, 0, 1]]
    assert at.inter.tolist() == [[7, 7, 8, 0, 0]]
    assert at.intra.tolist() == [[4, 5, 0, 0, 1]]
    assert at.document.tolist() == [[0, 0, 0, 1, 1]]
