"""Laws of the ids that are derived from marks, and of positions that are drawn."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe.positions import NO_DOCUMENT, Carry, Positions
from bipe.random_positions import PoSE, Randomised, Shifted, mixed, row_keys
from tests.bipe.conftest import random_marks

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


@given(marks=MARKS, left=st.integers(0, 5), right=st.integers(0, 5), level=st.sampled_from([0, 1]))
def test_ids_equal_a_count_by_hand_whatever_padding_is_around(marks, left, right, level):
    padded = torch.tensor([[7] * left + marks + [7] * right], dtype=torch.uint8)
    padding = torch.zeros_like(padded, dtype=torch.bool)
    padding[:, :left] = True
    padding[:, left + len(marks) :] = True
    at = Positions.from_marks(padded, padding=padding if left or right else None, level=level)
    assert ids(at) == counted(padded[0].tolist(), padding=padding[0].tolist(), level=level)
    assert ids(at)[left : left + len(marks)] == counted(marks, level=level)


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


def test_a_stored_carry_continues_each_level():
    marks = torch.tensor([[0, 2, 6, 7]], dtype=torch.uint8)
    carry = Carry.from_columns(torch.tensor([[100, 7, 4, 2, 3]]))
    at = Positions.from_marks(marks, carry=carry, levels=2)
    assert [ids.tolist() for ids in at.levels] == [[[2, 3, 0, 0]], [[3, 3, 4, 0]]]
    assert at.inter.tolist() == [[7, 8, 9, 0]]
    short = Carry.from_columns(torch.tensor([[100, 7, 4]]))
    with pytest.raises(ValueError, match="levels must be 2, as many as the encoding reads, was: 1"):
        Positions.from_marks(marks, carry=short, levels=2)


DRAWS = {
    "pose": lambda reach: PoSE(reach=reach),
    "pose_5": lambda reach: PoSE(reach=reach, chunks=5),
    "randomised": lambda reach: Randomised(reach=reach),
    "shifted": lambda reach: Shifted(most=reach),
}


def packed(batch: int, time: int, *, seed: int) -> tuple[torch.Tensor, Positions]:
    tokens = torch.randint(50, (batch, time), generator=torch.Generator().manual_seed(seed))
    return tokens, Positions.from_marks(random_marks(batch, time, seed=seed))


@pytest.mark.parametrize("name", DRAWS)
@given(seed=st.integers(0, 10**6), time=st.integers(1, 60), reach=st.integers(1, 200))
def test_ids_keep_their_order_and_their_range(name, seed, time, reach):
    tokens, at = packed(3, time, seed=seed)
    made = DRAWS[name](reach).drawn(at, row_keys(tokens, seed=seed, step=7))
    assert torch.equal(made.document, at.document) and torch.equal(made.intra, at.intra)
    same = at.document[:, 1:] == at.document[:, :-1]
    for level in ("token", "inter"):
        old, new = getattr(at, level), getattr(made, level)
        step_old, step_new = old.diff(dim=-1)[same], new.diff(dim=-1)[same]
        assert torch.equal(step_new == 0, step_old == 0)
        assert bool((step_new >= step_old).all())
        count = torch.stack([_count(old, at.document, row) for row in range(3)])
        most = torch.maximum(count, torch.tensor(reach)) + reach * (name == "shifted")
        assert bool((new >= 0).all()) and bool((new < most + (name == "shifted")).all())


def _count(ids: torch.Tensor, document: torch.Tensor, row: int) -> torch.Tensor:
    """Ids of the document of each token, by looking at every pair."""
    alike = document[row][:, None] == document[row][None]
    return torch.where(alike, ids[row][None], -1).amax(-1) + 1


@pytest.mark.parametrize("name", DRAWS)
def test_a_row_draws_the_same_whatever_stands_beside_it(name):
    tokens, at = packed(6, 40, seed=3)
    draw = DRAWS[name](300)
    together = draw.drawn(at, row_keys(tokens, seed=1, step=2))
    for row in range(6):
        alone = Positions.from_marks(random_marks(6, 40, seed=3)[row : row + 1])
        alone = draw.drawn(alone, row_keys(tokens[row : row + 1], seed=1, step=2))
        assert torch.equal(alone.token[0], together.token[row])
        assert torch.equal(alone.inter[0], together.inter[row])


@pytest.mark.parametrize("name", DRAWS)
def test_seeds_steps_and_rows_differ(name):
    tokens, at = packed(4, 50, seed=5)
    draw = DRAWS[name](5000)
    draws = [
        draw.drawn(at, row_keys(tokens, seed=seed, step=step)).token
        for seed, step in ((0, 0), (0, 1), (1, 0))
    ]
    assert not any(torch.equal(a, b) for a, b in itertools.pairwise(draws))
    starts = Positions.from_marks(torch.zeros_like(tokens, dtype=torch.uint8))
    rows = draw.drawn(starts, row_keys(tokens, seed=0, step=0)).token
    assert len({tuple(row.tolist()) for row in rows}) == 4


def test_padding_keeps_its_ids_and_a_document_goes_on_from_its_first_index():
    tokens, _ = packed(2, 20, seed=1)
    marks, padding = torch.zeros(2, 20, dtype=torch.uint8), torch.arange(20)[None] >= 12
    padding = padding & torch.tensor([[True], [False]])
    carry = Positions.from_marks(torch.zeros(2, 400, dtype=torch.uint8)).carry()
    at = Positions.from_marks(marks, padding=padding, carry=carry)
    made = PoSE(reach=500).drawn(at, row_keys(tokens, seed=0, step=0))
    assert bool((made.token[padding] == 0).all()) and bool((made.document[padding] == -1).all())
    assert made.token[:, 0].tolist() == [400, 400] and int(made.token.max()) < 900


def test_pose_meets_every_distance():
    at = Positions.from_marks(torch.zeros(4000, 4, dtype=torch.uint8))
    tokens = torch.arange(16000).view(4000, 4)
    made = PoSE(reach=12).drawn(at, row_keys(tokens, seed=0, step=0))
    last = made.token[:, -1]
    # The last id is 3 + skip, and skips from 0 to 8 are alike.
    share = torch.bincount(last, minlength=12)[3:] / len(last)
    assert len(share) == 9 and float((share - 1 / 9).abs().max()) < 0.03


def test_randomised_subsets_are_alike():
    at = Positions.from_marks(torch.zeros(6000, 2, dtype=torch.uint8))
    tokens = torch.arange(12000).view(6000, 2)
    made = Randomised(reach=5).drawn(at, row_keys(tokens, seed=4, step=0)).token
    share = torch.bincount(made[:, 0] * 5 + made[:, 1], minlength=25).double() / 6000
    pairs = [a * 5 + b for a in range(5) for b in range(a + 1, 5)]
    assert float(share[pairs].sum()) == 1.0
    assert float((share[pairs] - 0.1).abs().max()) < 0.02


def test_splitmix_values():
    """The first outputs of SplitMix64 seeded with 0, as its authors' C code prints them."""
    gamma = 0x9E3779B97F4A7C15
    states = torch.tensor([0, gamma - (1 << 64)])
    wanted = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
    assert [value % (1 << 64) for value in mixed(states).tolist()] == wanted
