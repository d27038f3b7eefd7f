"""Memory grows with the text by a few bytes per character, cuts and levels included."""

import tracemalloc

import pytest

from benchmarks.hostile_texts import repeated, samples

# Bytes; 50 million characters may take 0.3 GB.
_PER_CHARACTER = 6


def peak(segmenter, text):
    tracemalloc.start()
    try:
        segmenter.levels(text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["lists", "chain of thought", "mixed html", "mixed notebook"])
def test_the_levels_of_a_text_take_a_few_bytes_per_character(name):
    segmenter, unit = samples()[name]
    segmenter.levels(unit)
    small, large = (peak(segmenter, repeated(unit, size)) for size in (100_000, 200_000))
    assert (large - small) / 100_000 < _PER_CHARACTER
