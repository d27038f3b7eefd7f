"""Order: permutations without memory, and deals in exact proportions over every prefix."""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from bipe.positions import Carry, Positions
from tests.train.data.corpora import Stream
from train.data.rows.choices import PACKINGS, Packing
from train.data.rows.order import Deal, RowOrder, _keys, _permuted, _shape, row_statistics, table
from train.data.rows.packing import Rows
from train.data.rows.spans import Bins


class Counted:
    """Rows that know only how many they are."""

    row_length = 8
    continues = False

    def __init__(self, number, long=0):
        self.number, self.long = number, long

    def __len__(self):
        return self.number

    def long_rows(self):
        return self.long

    def targets(self, index):
        return np.asarray(index) % 5


def mixture(sizes, weights=None, seed=0, first=None, long=0):
    rows = {name: Counted(size, min(size, long)) for name, size in enumerate(sizes)}
    shares = dict(enumerate(weights)) if weights else None
    return RowOrder(rows=rows, weights=shares, seed=seed, first=first)


def permute(index, *, size, seed, epoch):
    """Return where numbers below `size` go in the order of an epoch."""
    shape, keys = (np.array(each)[:, None] for each in (_shape(size), _keys(seed, epoch)))
    each = (shape.repeat(len(index), 1), keys.repeat(len(index), 1))
    return _permuted(np.array(index, np.int64), *each)


@given(size=st.integers(1, 10**12), data=st.data())
def test_a_row_is_placed_without_the_others(size, data):
    index = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5))
    together = permute(index, size=size, seed=1, epoch=2)
    alone = [int(permute([one], size=size, seed=1, epoch=2)[0]) for one in index]
    assert together.tolist() == alone
    assert 0 <= together.min() <= together.max() < size


@given(
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=4),
    share=st.floats(0.01, 3.0),
    weighted=st.booleans(),
)
def test_a_run_that_needs_few_rows_reads_the_first_of_each_source_once(sizes, share, weighted):
    weights = [1.0 + index for index in range(len(sizes))] if weighted else None
    first = max(1, int(share * sum(sizes)))
    source, row = mixture(sizes, weights, first=first).global_rows(np.arange(first))
    whole, _ = mixture(sizes, weights).global_rows(np.arange(first))
    assert np.array_equal(source, whole)  # the turns of the sources stay
    for index, size in enumerate(sizes):
        own, asked = row[source == index], int((source == index).sum())
        assert np.array_equal(np.unique(own), np.arange(min(asked, size)))
        if asked <= size:
            assert np.array_equal(np.sort(own), np.arange(asked))


@given(sizes=st.lists(st.integers(1, 200), min_size=1, max_size=3), long=st.integers(0, 250))
def test_a_run_that_needs_few_rows_reads_from_all_that_are_of_long_documents(sizes, long):
    """Each at most once, and others only where these do not suffice."""
    first = min(sizes)
    made = mixture(sizes, first=first, long=long)
    asked = made.deal.counts(first)
    assert made.sizes == [
        max(1, few, min(size, long)) for size, few in zip(sizes, asked, strict=True)
    ]
    source, row = made.global_rows(np.arange(first))
    for index, size in enumerate(made.sizes):
        own = row[source == index]
        assert len(np.unique(own)) == len(own) == asked[index]
        assert (own < size).all()


def test_orders_differ_by_seed_and_epoch_and_look_random():
    size = 10_000
    orders = [
        permute(np.arange(size), size=size, seed=seed, epoch=epoch)
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    for one, other in combinations([*orders, np.arange(size)], 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.05
        assert (one == other).sum() < 10
    steps = np.diff(orders[0])
    assert abs(np.corrcoef(steps[:-1], steps[1:])[0, 1] + 0.5) < 0.05  # as of independent draws


@given(weights=st.lists(st.integers(1, 50), min_size=1, max_size=5), seed=st.integers(0, 9))
def test_each_source_walks_its_own_epochs(weights, seed):
    sizes = [3 + 2 * index for index in range(len(weights))]
    mixed = mixture(sizes, weights, seed)
    source, row = mixed.global_rows(np.arange(400))
    for index, size in enumerate(sizes):
        own = row[source == index]
        for epoch in range(len(own) // size):
            walked = own[epoch * size : (epoch + 1) * size]
            assert sorted(walked.tolist()) == list(range(size))


BOUND = 2  # rows; proved in order.py
whole = st.lists(st.integers(1, 10**6), min_size=1, max_size=40)
uneven = st.lists(st.floats(1e-6, 1e6, allow_nan=False), min_size=1, max_size=12)


@given(weights=whole, number=st.integers(0, 10**15))
def test_far_rows_are_dealt_exactly(weights, number):
    """Against whole numbers without a size: no product overflows, no share drifts."""
    deal = Deal(weights)
    counts = deal.counts(number)
    assert sum(counts) == number
    for times in (1, 3):  # after as many rows as shares, the counts are the shares
        assert deal.counts(times * sum(weights)) == [times * weight for weight in weights]
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - Fraction(number * weight, sum(weights))) < BOUND
    numbers = np.arange(number, number + 5)
    source, turn = deal.turns(numbers)
    for at, which, before in zip(numbers.tolist(), source.tolist(), turn.tolist(), strict=True):
        now, after = deal.counts(at), deal.counts(at + 1)
        assert before == now[which]
        assert [b - a for a, b in zip(now, after, strict=True)] == [
            int(index == which) for index in range(len(weights))
        ]


@given(weights=uneven, number=st.integers(0, 10**9))
def test_any_weights_are_kept_to_one_part_in_two_thousand_million(weights, number):
    counts = Deal(weights).counts(number)
    total = sum(map(Fraction, weights))
    for count, weight in zip(counts, weights, strict=True):
        off = abs(count - number * Fraction(weight) / total)
        assert off < BOUND + number * len(weights) / 2**30


def test_decimals_are_what_they_say():
    assert Deal([0.6, 0.25, 0.15]).weights == [12, 5, 3]
    assert Deal([np.float64(0.1), 0.2]).weights == [1, 2]
    assert Deal([1e-12, 1.0]).weights[0] == 1  # too small to keep: still read


lengths = st.lists(st.integers(2, 40), min_size=1, max_size=9)


def packed(data, row_length, **packing):
    return Rows(data=data, row_length=row_length, packing=Packing(**packing))


def real(row):
    end = len(row.tokens) - row.padding
    return row.tokens[:end], row.marks[:end]


every_row = pytest.mark.parametrize("packing", PACKINGS)
every_split = pytest.mark.parametrize("split_documents", ["restart", "continue"])


@every_row
@every_split
@given(lengths=lengths, row_length=st.integers(1, 40))
def test_positions_are_those_of_the_documents(packing, split_documents, lengths, row_length):
    data = Stream(lengths)
    continues = split_documents == "continue"
    rows = packed(data, row_length, strategy=packing, split_documents=split_documents)
    whole = Positions.from_marks(torch.from_numpy(data.marks(0, len(data.tokens)))[None])
    for number in range(len(rows)):
        row = rows.read([number])[0]
        tokens, marks = real(row)
        carry = Carry.from_columns(torch.from_numpy(row.carry)[None]) if continues else None
        found = Positions.from_marks(torch.from_numpy(marks)[None], carry=carry)
        at = 0
        for start, stop in rows.packed.spans(number).tolist():
            here, there = slice(at, at + stop - start), slice(start, stop)
            at += stop - start
            begins = start in (0, *data.document_ends)
            for name in ("token", "inter", "intra"):
                expected = getattr(whole, name)[0, there]
                ids = getattr(found, name)[0, here]
                if begins or (continues and here.start == 0):
                    assert torch.equal(ids, expected), name
                elif name != "intra":  # restarted: counted from the first token of the span
                    document = whole.document[0, there]
                    own = document == document[0]
                    assert torch.equal(ids[own], (expected - expected[0])[own]), name
        assert len(tokens) == at


@given(lengths=lengths, row_length=st.integers(1, 40))
def test_long_rows_come_first_and_hold_nothing_else(lengths, row_length):
    data = Stream(lengths)
    rows = packed(data, row_length, strategy="long_first")
    of = np.repeat(lengths, lengths)  # the length of the document of each token
    whole = [
        row.padding <= 1 and bool((of[row.tokens[:row_length]] >= row_length).all())
        for row in rows.read(range(len(rows)))
    ]
    assert rows.long_rows() == sum(whole)
    assert all(whole[: sum(whole)])


many = st.lists(st.integers(1, 60), min_size=1, max_size=60)


def one_by_one(lengths, room):
    """Room that is left in each row, by the definition of best fit decreasing."""
    rooms = []
    for length in sorted(lengths, reverse=True):
        fitting = [index for index, left in enumerate(rooms) if left >= length]
        if fitting:
            rooms[min(fitting, key=lambda index: rooms[index])] -= length
        else:
            rooms.append(room - length)
    return sorted(rooms)


def filled(bins):
    spans = [bins.spans(index) for index in range(len(bins))]
    return [int((each[:, 1] - each[:, 0]).sum()) for each in spans]


@given(lengths=many)
@example(np.random.default_rng(0).geometric(1 / 20, 3000).clip(1, 61).tolist())
def test_it_is_best_fit_decreasing(lengths):
    bins = Bins(np.cumsum(lengths), 60, together=True, tails_first=False)
    assert sorted(61 - number for number in filled(bins)) == one_by_one(lengths, 61)


@given(
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=40),
    row_length=st.integers(1, 40),
    together=st.booleans(),
    tails_first=st.booleans(),
    window=st.integers(1, 50),
)
def test_every_token_but_the_first_of_its_document_is_a_target_once(
    lengths, row_length, together, tails_first, window
):
    ends = np.cumsum(lengths)
    bins = Bins(ends, row_length, together=together, tails_first=tails_first, window=window)
    spans = [span for index in range(len(bins)) for span in bins.spans(index).tolist()]
    targets = sorted(token for start, stop in spans for token in range(start + 1, stop))
    assert targets == np.setdiff1d(np.arange(ends[-1]), [0, *ends]).tolist()
    assert max(filled(bins)) <= row_length + 1
    assert bins.pieces() == len(spans)
    for start, stop in pairwise([0, *ends.tolist()]) if together else ():
        assert stop - start > row_length + 1 or [start, stop] in spans
    assert bins.inputs() == sum(min(number, row_length) for number in filled(bins))
    rows = np.arange(len(bins))
    assert bins.targets(rows).tolist() == [
        sum(stop - start - 1 for start, stop in bins.spans(row).tolist()) for row in rows
    ]
    if tails_first or not together:  # what goes on from the row before is the first of its row
        begins = {0, *ends.tolist()}
        for row in rows:
            assert all(start in begins for start, _ in bins.spans(row).tolist()[1:])
    if not together:
        assert all(len(bins.spans(row)) == 1 for row in rows)


@pytest.mark.parametrize("packing", PACKINGS)
@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=20), row_length=st.integers(1, 40))
def test_they_are_what_reading_counts(packing, lengths, row_length):
    rows = Rows(data=Stream(lengths), row_length=row_length, packing=Packing(strategy=packing))
    (found,) = row_statistics(RowOrder(rows={"x": rows}), rows=3 * len(rows))
    padding = targets = documents = long = 0
    ends = np.cumsum(lengths)
    for number in range(len(rows)):
        row = rows.read([number])[0]
        inputs = min(row_length, row_length + 1 - row.padding)
        padding += row_length - inputs
        documents += int((row.marks[:inputs] & 1).sum())
        targets += int(rows.targets(number))
        of = np.searchsorted(ends, row.tokens[:inputs], side="right")  # a stream of 0, 1, 2 ...
        long += int((np.array(lengths)[of] >= row_length).sum())
        share = rows.packed.long_inputs(number + 1) / rows.packed.inputs(number + 1)
        assert share == pytest.approx(long / ((number + 1) * row_length - padding))
    places = len(rows) * row_length
    assert found.padding == pytest.approx(padding / places)
    assert found.targets == pytest.approx(targets / places)
    if packing in ("concat", "long_first"):
        assert found.documents_per_row == pytest.approx(documents / len(rows))
    assert found.long_documents == pytest.approx(share)  # of all rows
    assert (found.rows, found.read, found.epochs) == (len(rows), 3 * len(rows), 3.0)
    assert (found.documents, found.tokens) == (len(lengths), sum(lengths))


def test_the_table_has_a_line_a_source():
    rows = {name: Rows(data=Stream([50] * 9), row_length=10) for name in ("prose", "code")}
    mixture = RowOrder(rows=rows, weights={"prose": 3, "code": 1})
    found = row_statistics(mixture, rows=180)
    assert [each.read for each in found] == [135, 45]
    head, *lines = table(found)
    assert [line.split()[0] for line in lines] == ["prose", "code"]
    assert [line.split()[3] for line in lines] == ["3.000", "1.000"]
    assert len({len(line) for line in (head, *lines)}) == 1
    assert np.isclose(found[0].documents_per_row, 1.0)
