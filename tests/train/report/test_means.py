"""Means over seeds of what is not perplexity: right answers, probes, stretched models, passkeys."""

import copy
import math
from statistics import fmean

import pytest

from tests.train.report.test_probes import probed
from train.report.intervals import half_width, interval
from train.report.load import load_runs
from train.report.numbers import rows
from train.report.page import page
from train.report.seeds import arms
from train.report.spans import found_span, probe_span, stretched_span
from train.report.terminal import arithmetic_table, probes_table
from train.report.terminal_stretch import stretch_table

SEEDS = (0, 1, 2)


def everything(make, seed):
    """An evaluation with all sections, whose numbers rise with the seed."""
    held = make.evaluation(seed=seed)
    held["probes"] = copy.deepcopy(probed())
    held["probes"]["passkey"]["accuracy"] = [[0.1 * seed, 0.2], [0.3, 0.4 + 0.1 * seed]]
    held["probes"]["positions"]["curves"]["token"]["nll"] = [None, 5.0 + seed, 4.0]
    shares = {"share": [0.5 + 0.1 * seed, 0.25]}
    held["arithmetic"] = {
        "protocol": "P.", "trained_operators": [1, 2], "operators": [2, 4], "problems": [10, 10],
        "answer": shares, "steps": shares, "tokens": shares, "interval": [[0.4, 0.8], [0.1, 0.5]],
    }  # fmt: skip
    cells = [
        {"sources": {"prose": {"protocol": "S.", "perplexity": 10.0 * 2**seed * (i + 1),
                               "bits_per_byte": 1.0, "tokens_scored": 5}},
         "passkey": {"accuracy": 0.1 * seed}}
        for i in range(2)
    ]  # fmt: skip
    line = {"method": "yarn", "unit": "segments", "lengths": [512, 1024], "factors": [1.0, 2.0],
            "cells": cells}  # fmt: skip
    held["stretch"] = {"lines": [line, line | {"method": "linear"}]}
    return held


@pytest.fixture
def arm(make):
    (made,) = arms(load_runs(make.runs(*(everything(make, seed) for seed in SEEDS))))
    return made


def test_right_answers_are_means_with_the_interval_of_the_mean(arm):
    shares = [0.5, 0.6, 0.7]
    assert arm.arithmetic.answer == pytest.approx((0.6, 0.25))
    assert arm.arithmetic.interval[0] == pytest.approx(interval(shares, share=True))
    assert arm.arithmetic.problems == (30, 30)


def test_stretched_perplexities_are_averaged_as_losses(arm):
    assert [line.name for line in arm.stretched] == ["yarn (segments)", "linear (segments)"]
    assert arm.stretched[0].perplexity["prose"] == pytest.approx((20.0, 40.0))
    half = half_width([math.log(10.0 * 2**seed) for seed in SEEDS])
    span = stretched_span(arm, "yarn (segments)", "prose", 512)
    assert span == pytest.approx((20 * math.exp(-half), 20 * math.exp(half)))
    assert stretched_span(arm, "yarn (segments)", "code", 512) is None


def test_probes_are_means_with_intervals_and_so_are_their_curves(arm):
    assert arm.probes["passkey"].grids["accuracy"][0] == pytest.approx((0.1, 0.2))
    assert arm.probes["positions"].curves["token"].nll[1:] == pytest.approx((6.0, 4.0))
    ends = interval([0.1, 0.15, 0.2], share=True)
    assert probe_span(arm, "passkey", 256) == pytest.approx(ends)


def test_passkeys_have_intervals(arm):
    found = [fmean(member.passkey.accuracy[1]) for member in arm.members]
    assert found_span(arm, arm.passkey.lengths[1]) == interval(found, share=True)


def test_one_line_an_arm_on_the_page_and_in_the_terminal(arm):
    text = page(runs=[arm], statistics={}, title="t")
    for told in ("60.0%", "Small: 95% intervals over 3 seeds."):
        assert told in text, told
    assert "seed 1" not in text
    assert arithmetic_table([arm]).row_count == 2 * 3
    assert probes_table([arm]).row_count == 2 * 2
    assert stretch_table([arm]).row_count == 3 * 2
    assert probes_table([]) is None


def test_means_are_rows_with_their_intervals_and_every_seed_has_its_own(arm):
    table = rows(arm.members, {})
    means = [row for row in table if row.measure.endswith("_mean") and row.model]
    assert {row.measure for row in means} == {
        "perplexity_mean", "stretched_perplexity_mean", "passkey_accuracy_mean",
        "arithmetic_answer_mean", "probe_accuracy_mean",
    }  # fmt: skip
    for row in means:
        assert row.seed is None and "mean over 3 seeds" in row.note
        assert row.value is None or row.low <= row.value <= row.high
    for seed in SEEDS:
        own = [row for row in table if row.seed == seed]
        probes = [row for row in own if row.measure == "probe_accuracy" and row.task == "passkey"]
        assert [(row.length, row.depth) for row in probes] == [
            (256, 0.0), (256, 1.0), (1024, 0.0), (1024, 1.0),
        ]  # fmt: skip
        curve = [row for row in own if row.measure == "probe_nll_by_token"]
        assert [(row.low, row.high) for row in curve] == [(0, 1), (1, 2), (2, 4)]
        assert curve[0].value is None and "not finite" in curve[0].note


def test_what_a_seed_lacks_the_mean_lacks(make):
    whole, part = everything(make, 0), everything(make, 1)
    for name in ("arithmetic", "stretch", "passkey"):
        part[name] = None
    del part["probes"]["passkey"]
    part["probes"]["induction"]["lengths"] = [512]
    (arm,) = arms(load_runs(make.runs(whole, part)))
    assert (arm.arithmetic, arm.stretched, arm.passkey) == (None, (), None)
    assert "passkey" not in arm.probes and arm.probes["induction"].lengths == ()
    page(runs=[arm], statistics={}, title="t")
    assert rows(arm.members, {})


def test_an_evaluation_of_old_has_what_it_has(make):
    """Without the sections that came later, and with configurations that differ by their keys."""
    old, new = make.evaluation(seed=0), everything(make, 1)
    new["config"] |= {"positions": None, "extend": {"unit": "segments"}, "checkpoint": None}
    (arm,) = arms(load_runs(make.runs(old, new)))
    assert len(arm.members) == 2 and arm.stretched == () and not arm.probes
    text = page(runs=[arm], statistics={}, title="t")
    assert 'href="#arithmetic"' not in text and 'href="#stretch"' not in text
