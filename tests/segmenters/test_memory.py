"""Memory grows with the text by a few bytes per character, cuts and levels included."""

import tracemalloc

import pytest

from benchmarks.hostile_texts import repeated, samples
from segmenters.code.parsed import Seams

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
    small, large = (peak(segmenter, repeated(unit, size)) for size in (50_000, 100_000))
    assert (large - small) / 50_000 < _PER_CHARACTER


def test_a_text_that_was_parsed_is_not_kept():
    """The binding of tree-sitter never frees what its callbacks return."""
    segmenter, unit = samples()["lines java"]
    text = repeated(unit, 20_000)
    segmenter.levels(text)
    tracemalloc.start()
    try:
        for _ in range(3):
            segmenter.levels(text)
        assert tracemalloc.get_traced_memory()[0] < len(text) / 2
    finally:
        tracemalloc.stop()


def test_a_place_to_cut_long_code_is_found_without_a_look_at_all_its_lines():
    data = b"a = b(c);\n" * 100_000
    seams = Seams(data)
    tracemalloc.start()
    try:
        assert seams.within(500_000, 502_000) == 502_000
        assert tracemalloc.get_traced_memory()[1] < len(data) / 5
    finally:
        tracemalloc.stop()
