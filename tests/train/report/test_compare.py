"""Comparisons and the sentences that say them."""

import math
from itertools import pairwise

import pytest

from train.report import compare
from train.report.formats import change, short
from train.report.records import ByPosition
from train.report.sentences import observations, trained_on

LENGTHS = (512, 1024, 2048, 4096, 8192)


def with_perplexity(content, values, source="prose"):
    content["perplexity"]["sources"][source]["perplexity"] = values
    return content


def sentence(runs, subject):
    return next(seen.sentence for seen in observations(runs) if seen.subject == subject)


def test_a_window_weighs_every_token_the_same():
    held = ByPosition(length=8, edges=(0, 2, 4, 8), nll=(1.0, 2.0, 5.0), tokens=(10, 30, 7))
    assert compare.window_mean(held, 0, 4) == pytest.approx((10 * 1 + 30 * 2) / 40)
    assert compare.window_mean(held, 4, 8) == 5.0
    assert compare.window_mean(held, 8, 16) is None


def test_a_bin_without_tokens_weighs_nothing():
    held = ByPosition(length=4, edges=(0, 2, 4), nll=(1.0, math.nan), tokens=(10, 0))
    assert compare.window_mean(held, 0, 4) == 1.0


@pytest.mark.parametrize(("trained", "length"), [(512, 8192), (512, 512), (512, 100), (3, 100)])
def test_octaves_tile_the_positions(trained, length):
    windows = compare.octaves(trained, length)
    assert windows[0][0] == 0 and windows[-1][1] == length
    assert all(a[1] == b[0] for a, b in pairwise(windows))


def test_ratios_are_to_the_models_own_training_length(make):
    content = with_perplexity(make.evaluation(), [10, 20, 40, math.inf, 50])
    (run,) = make.loaded(content)
    ratios = [compare.to_trained(run, "prose", n) for n in LENGTHS]
    assert ratios == [None, 2.0, 4.0, None, 5.0]


def test_pairs_join_one_family_and_one_seed_only(make):
    made = [
        make.evaluation(),
        make.evaluation(levels="bilevel"),
        make.evaluation(levels="bilevel", seed=1),
        make.evaluation(family="ALiBi"),
    ]
    (pair,) = compare.pairs(make.loaded(*made))
    assert (pair.flat.model.name, pair.bilevel.training.seed) == ("RoPE", 0)


def test_the_sentence_names_the_lowest_and_the_highest_at_both_ends(make):
    flat = with_perplexity(make.evaluation(), [10, 20, 30, 40, 50])
    bilevel = with_perplexity(make.evaluation(levels="bilevel"), [11, 12, 13, 14, 15])
    said = sentence(make.loaded(flat, bilevel), "prose")
    assert "512 tokens, RoPE has the lowest perplexity, 10.0; BiPE-RoPE has the highest" in said
    assert "16 times the training length, BiPE-RoPE has the lowest perplexity, 15.0" in said
    assert "BiPE-RoPE is below RoPE at 4 of 5 lengths." in said


def test_what_is_written_alike_is_a_tie(make):
    flat = with_perplexity(make.evaluation(), [10.001] * 5)
    bilevel = with_perplexity(make.evaluation(levels="bilevel"), [10.002] * 5)
    assert "all models have perplexity 10.0" in sentence(make.loaded(flat, bilevel), "prose")


def test_a_model_that_diverged_is_named_and_never_called_lowest(make):
    flat = with_perplexity(make.evaluation(), [10, None, None, None, math.nan])
    bilevel = with_perplexity(make.evaluation(levels="bilevel"), [11, 12, 13, 14, 15])
    said = sentence(make.loaded(flat, bilevel), "prose")
    assert "BiPE-RoPE has perplexity 15.0; RoPE has no finite value" in said


def test_guessing_is_not_called_retrieval(make):
    content = make.evaluation()
    content["passkey"]["accuracy"] = [[0.1] * 5] * 5
    said = sentence(make.loaded(content), "Retrieval")
    assert "no model is above guessing" in said


def test_one_seed_is_called_one_seed(make):
    assert "trained once" in sentence(make.loaded(), "Certainty")


def test_several_seeds_are_not_called_one(make):
    runs = make.loaded(make.evaluation(), make.evaluation(seed=1))
    assert "Certainty" not in [seen.subject for seen in observations(runs)]


def test_the_first_paragraph_tells_size_mix_length_and_machine(make):
    said = trained_on(make.loaded())
    for part in (
        "Four models",
        "1.54\N{NO-BREAK SPACE}M tokens",
        "33% prose",
        "rows of 512",
        "188 steps",
        "CPU",
    ):
        assert part in said


def test_weights_of_sources_are_told_as_shares(make):
    content = make.evaluation()
    content["training"]["sources"] = {"prose": 3, "code": 1}
    assert "(75% prose and 25% code)" in trained_on(make.loaded(content))


def test_changes_are_signed_and_large_ones_are_multiples():
    assert [change(r) for r in (1.061, 0.5, 1.0, 30.0)] == [
        "+6.1%",
        "\N{MINUS SIGN}50.0%",
        "0.0%",
        "\N{MULTIPLICATION SIGN}30.0",
    ]


def test_numbers_keep_about_three_digits():
    written = [short(v) for v in (0.0, 0.1234, 1.234, 12.34, 123.4, 12345, 3e7, 2e-5)]
    assert written == ["0.000", "0.123", "1.23", "12.3", "123", "12,345", "3e7", "2e-5"]
