"""SplitMix64: the published numbers, one by one and in blocks."""

from itertools import islice

import numpy as np

from segmenters.random_numbers import GOLDEN, mix, stream


def test_numbers_are_those_that_the_authors_print():
    """The first numbers of the authors' C program for the seeds 0 and 1234567."""
    assert [*islice(stream(0), 2)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [*islice(stream(1234567), 3)] == known


def test_a_stream_goes_on_from_block_to_block():
    made = [*islice(stream(2**64 - 1), 1000)]
    states = [(2**64 - 1 + n * GOLDEN) % 2**64 for n in range(1, 1001)]
    assert made == mix(np.array(states, np.uint64)).tolist()
