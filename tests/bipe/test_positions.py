"""Laws of the ids that are derived from marks."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe.positions import NO_DOCUMENT, Carry, Positions

FIELDS = ("document", "token", "inter", "intra")
LEVELED = st.lists(st.sampled_from([0, 0, 0, 2, 2, 6, 6, 14, 4, 8, 15, 1]), min_size=1, max_size=40)
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


def nested(marks: list[int], levels: int):
    """The index of each unit in the next coarser one, of one row, by a loop over its tokens."""
    found, counts = [], [0] * levels
    for i, mark in enumerate(marks):
        opened = [bool(mark & (2 << level)) for level in range(levels)]
        top = max((n for n in range(levels) if opened[n]), default=-1)
        top = levels if mark & 1 or not i else top
        for level in range(levels):
            if level == top:
                counts[level] += 1
            elif level < top:
                counts[level] = 0
        found.append(tuple(counts))
    return found


def ids(at: Positions, row: int = 0):
    return list(zip(*(getattr(at, name)[row].tolist() for name in FIELDS), strict=True))


@given(marks=MARKS, level=st.sampled_from([0, 1]))
def test_ids_equal_a_count_by_hand(marks, level):
    at = Positions.from_marks(torch.tensor([marks], dtype=torch.uint8), level=level)
    assert ids(at) == counted(marks, level=level)


@given(marks=LEVELED, levels=st.sampled_from([2, 3]), left=st.integers(0, 3))
def test_units_are_counted_inside_the_next_coarser_ones(marks, levels, left):
    row = torch.tensor([[15] * left + marks], dtype=torch.uint8)
    padding = (torch.arange(row.shape[1]) < left)[None] if left else None
    at = Positions.from_marks(row, padding=padding, levels=levels)
    found = list(zip(*(ids[0, left:].tolist() for ids in at.levels), strict=True))
    assert found == nested(marks, levels)
    one = Positions.from_marks(row, padding=padding)
    if all(mark & 2 for mark in marks if mark & 12):  # as data of several levels are
        assert ids(at) == ids(one) and one.levels == ()


@given(marks=MARKS, left=st.integers(0, 5), right=st.integers(0, 5))
def test_padding_on_either_side_changes_no_id(marks, left, right):
    padded = torch.tensor([[7] * left + marks + [7] * right], dtype=torch.uint8)
    padding = torch.zeros_like(padded, dtype=torch.bool)
    padding[:, :left] = True
    padding[:, left + len(marks) :] = True
    at = Positions.from_marks(padded, padding=padding)
    assert ids(at) == counted(padded[0].tolist(), padding=padding[0].tolist())
    assert ids(at)[left : left + len(marks)] == counted(marks)


@given(marks=LEVELED, data=st.data(), levels=st.sampled_from([1, 2, 3]))
def test_chunks_with_a_carry_equal_the_whole_row(marks, data, levels):
    row = torch.tensor([marks, marks[::-1]], dtype=torch.uint8)
    whole = Positions.from_marks(row, levels=levels)
    cut = data.draw(st.integers(1, len(marks)))
    rest = torch.tensor([marks[cut:], marks[::-1][cut:]], dtype=torch.uint8)
    first = whole[:cut]
    if not rest.shape[1]:
        return
    second = Positions.from_marks(rest, carry=first.carry(), levels=levels)
    assert len(whole.tensors()) == len(FIELDS) + (levels if levels > 1 else 0)
    for one, two, both in zip(first.tensors(), second.tensors(), whole.tensors(), strict=True):
        assert torch.equal(torch.cat((one, two), 1), both)


def test_a_stored_carry_continues_document_and_segment():
    marks = torch.tensor([[0, 0, 2, 3, 0]], dtype=torch.uint8)
    carry = Carry.from_columns(torch.tensor([[100, 7, 4]]))
    at = Positions.from_marks(marks, carry=carry)
    assert at.token.tolist() == [[100, 101, 102, 0, 1]]
    assert at.inter.tolist() == [[7, 7, 8, 0, 0]]
    assert at.intra.tolist() == [[4, 5, 0, 0, 1]]
    assert at.document.tolist() == [[0, 0, 0, 1, 1]]


def test_a_stored_carry_continues_each_level():
    marks = torch.tensor([[0, 2, 6, 7]], dtype=torch.uint8)
    carry = Carry.from_columns(torch.tensor([[100, 7, 4, 2, 3]]))
    at = Positions.from_marks(marks, carry=carry, levels=2)
    assert [ids.tolist() for ids in at.levels] == [[[2, 3, 0, 0]], [[3, 3, 4, 0]]]
    assert at.inter.tolist() == [[7, 8, 9, 0]]
    short = Carry.from_columns(torch.tensor([[100, 7, 4]]))
    with pytest.raises(ValueError, match="levels must be 2, as many as the encoding reads, was: 1"):
        Positions.from_marks(marks, carry=short, levels=2)
