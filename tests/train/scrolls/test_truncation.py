"""Truncation: laws over all lengths, and the numbers of the recipe."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.errors import DataError
from train.tasks.scrolls.encoding import Counts, Truncation, counted


@pytest.mark.parametrize(("output", "last", "first"), [(1000, 7, 7184), (200, 0, 7991)])
def test_the_recipe_of_the_paper_fills_a_row(output, last, first):
    assert Truncation(row_length=8192, output=output, last=last).first == first


@given(
    room=st.integers(1, 40),
    last=st.integers(0, 9),
    output=st.integers(1, 9),
    prompt=st.integers(0, 200),
    written=st.integers(0, 20),
)
def test_first_and_last_tokens_are_kept_and_the_rest_counted(room, last, output, prompt, written):
    cut = Truncation(row_length=room + last + output + 1, output=output, last=last)
    kept = cut.keep(prompt=prompt, output=written)
    tokens = list(range(prompt))
    too_long = prompt > room + last
    expected = tokens[:room] + tokens[len(tokens) - last :] if too_long else tokens
    assert kept.prompt.tolist() == expected
    assert len(kept.prompt) + kept.prompt_cut == prompt
    assert kept.output + kept.output_cut == written
    assert len(kept.prompt) + kept.output + 1 <= cut.row_length
    assert (kept.joint is None) == (not too_long or last == 0)
    if kept.joint is not None:
        assert np.diff(kept.prompt)[kept.joint - 1] == kept.prompt_cut + 1


def test_what_is_too_long_can_be_an_error():
    cut = Truncation(row_length=20, output=5, on_long="error")
    assert cut.keep(prompt=14, output=5).prompt_cut == 0
    with pytest.raises(DataError, match=r"i7: the prompt must have at most 14 tokens.*had: 15 and"):
        cut.keep(prompt=15, output=5, where="i7")
    with pytest.raises(DataError, match="i8"):
        cut.keep(prompt=3, output=6, where="i8")


def test_a_row_without_room_for_the_document_is_refused():
    with pytest.raises(DataError, match="set row_length to more than 1008"):
        Truncation(row_length=512, output=1000, last=7)
    with pytest.raises(DataError, match="output_tokens must be at least 1"):
        Truncation(row_length=512, output=0)


def test_counts_add_up():
    cut = Truncation(row_length=20, output=5)
    total = counted(cut.keep(prompt=n, output=n) for n in (3, 14, 20))
    assert total == Counts(
        examples=3, prompts_cut=1, prompt_tokens_cut=6, outputs_cut=2, output_tokens_cut=24
    )
