"""Runs of several seeds as one: means, intervals, and comparisons seed by seed."""

import math
import random
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.report.page import page
from train.report.palette import styles
from train.report.records import Model, Run, Training
from train.report.seeds import arms, difference
from train.report.sentences import observations


def seeded(make, *, count=3, factor=1.0, **told):
    """Evaluations of several seeds whose perplexities are `factor` times those of the others."""
    made = []
    for seed in range(count):
        content = make.evaluation(seed=seed, **told)
        for scores in content["perplexity"]["sources"].values():
            noise = random.Random(seed).uniform(0.95, 1.05)
            own = random.Random(f"{seed}/{factor}").uniform(0.999, 1.001)
            level = [10 * noise * own * factor * (1 + i) for i in range(len(scores["nll"]))]
            scores["nll"] = list(map(math.log, level))
            scores["perplexity"] = list(map(math.exp, scores["nll"]))
        made.append(content)
    return made


def test_the_mean_is_geometric_and_knows_its_interval(make):
    made = seeded(make)
    (arm,) = arms(make.loaded(*made))
    assert arm.label == "RoPE" and [run.training.seed for run in arm.members] == [0, 1, 2]
    nll = [content["perplexity"]["sources"]["prose"]["nll"][2] for content in made]
    scores = arm.scores["prose"]
    assert scores.perplexity[2] == pytest.approx(math.exp(fmean(nll)))
    deviation = math.sqrt(sum((x - fmean(nll)) ** 2 for x in nll) / 2)
    assert scores.half_widths[2] == pytest.approx(4.303 * deviation / math.sqrt(3))
    assert arm.passkey.trials == sum(content["passkey"]["trials"] for content in made)


def test_models_are_compared_seed_by_seed(make):
    loaded = make.loaded(*seeded(make), *seeded(make, levels="bilevel", factor=0.9))
    flat, bilevel = arms(loaded)
    found = difference(bilevel, flat, "prose", 512)
    ratios = [
        b.scores["prose"].perplexity[0] / a.scores["prose"].perplexity[0]
        for a, b in zip(flat.members, bilevel.members, strict=True)
    ]
    assert found.seeds == 3
    assert found.ratio == pytest.approx(math.exp(fmean(map(math.log, ratios))))
    # The seeds differ by several percent, the models on one seed by the same ratio.
    assert found.half < flat.scores["prose"].half_widths[0] / 5
    assert found.clear == (abs(math.log(found.ratio)) > found.half)


def test_other_configurations_and_lone_seeds_stay_apart(make):
    other = make.evaluation(seed=1)
    other["config"] = {**other["config"], "clip": 0.5}
    unknown = [make.evaluation(seed=None), make.evaluation(seed=None)]
    loaded = make.loaded(make.evaluation(seed=0), other, *unknown)
    assert arms(loaded) == loaded


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["positions", "stretch", "task", "scrolls", "extend", "trainer2"]),
            st.sampled_from([None, {}, {"a": None}]),
        ),
        min_size=2,
        max_size=4,
    )
)
def test_keys_that_say_nothing_do_not_split_an_arm(told):
    runs = [run_of(seed=seed, config={"width": 8} | extra) for seed, extra in enumerate(told)]
    (arm,) = arms(runs)
    assert len(arm.members) == len(told)


@pytest.mark.parametrize("said", [0, False, "", [], {"a": 0}, "x"])
def test_keys_that_say_something_do(said):
    runs = [run_of(seed=0, config={}), run_of(seed=1, config={"positions": said})]
    assert len(arms(runs)) == 2


@given(st.permutations([0, 2, 3, 10, 11, 100]))
def test_seeds_stand_in_the_order_of_their_numbers(order):
    (arm,) = arms([run_of(seed=seed) for seed in order])
    assert [run.training.seed for run in arm.members] == [0, 2, 3, 10, 11, 100]


def test_checkpoints_that_differ_by_the_seed_are_of_one_arm():
    def run(seed, parent):
        return run_of(
            seed=seed,
            config={"checkpoint": parent, "extend": {"unit": "segments", "sha256": parent}},
        )

    assert len(arms([run(0, "runs/rope_0"), run(1, "runs/rope_1")])) == 1
    longer = run(1, "runs/rope_1")
    encoding = {"stretch": {"original_length": 88}}
    config = {**longer.config, "encoding": encoding}
    longer = replace(longer, model=replace(longer.model, encoding=encoding), config=config)
    assert len(arms([run(0, "runs/rope_0"), longer])) == 1
    assert len(arms([run(0, "runs/rope_0"), run(1, "runs/alibi_1")])) == 2


def test_no_seed_counts_twice():
    runs = [run_of(seed=seed, folder=f"{name}_{seed}") for name in "ab" for seed in (0, 1)]
    one, two = arms(runs)
    assert [run.folder for run in one.members] == ["a_0", "a_1"]
    assert [run.folder for run in two.members] == ["b_0", "b_1"]
    again = arms([run_of(seed=seed, folder="c") for seed in (0, 1, 0, 1)])
    assert [[run.training.seed for run in arm.members] for arm in again] == [[0, 1], [0, 1]]
    assert len({arm.label for arm in again}) == 2


def run_of(*, seed, config=None, folder=None):
    """A run of which nothing was measured."""
    return Run(
        label=f"RoPE (seed {seed})",
        folder=folder or f"rope_{seed}",
        model=Model(name="RoPE", family="RoPE", levels="flat", parameters=1, encoding={},
                    config={}),
        training=Training(row_length=8, tokens=1, steps=1, seconds=1, seed=seed, sources={},
                          curve=(), skipped_steps=0, clipped_share=0.0),
        protocol="", scores={}, passkey=None, environment={}, config=config or {},
    )  # fmt: skip


def test_arms_of_one_model_are_told_apart_by_their_folders(make):
    one, two = seeded(make, count=2), seeded(make, count=2, factor=0.9)
    for content in two:
        content["config"] = {**content["config"], "corpus": "other"}
    made = arms(make.loaded(*one, *two))
    assert len({run.label for run in made}) == 2


def test_the_page_shows_seeds_and_differences(make):
    loaded = make.loaded(*seeded(make), *seeded(make, levels="bilevel", factor=0.5))
    made = arms(loaded)
    text = page(runs=made, statistics={}, title="Seeds")
    assert "Against RoPE, seed by seed" in text and "Over seeds" in text
    said = [seen.sentence for seen in observations(made) if seen.subject == "Certainty"]
    assert said and "mean over 3 seeds" in said[0]
    alone = page(runs=loaded[:1], statistics={}, title="One")
    assert "Over seeds" not in alone


def test_many_forms_of_one_encoding_have_colours_of_their_own(make):
    made = []
    for arm in range(6):
        for content in seeded(make, count=2, levels="bilevel"):
            content["config"] = {**content["config"], "arm": arm}
            made.append(content)
    looks = styles(arms(make.loaded(*made)))
    assert len({look.hue for look in looks.values()}) == 6
