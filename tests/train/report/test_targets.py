"""Published numbers: where they stand beside ours, and that every one has its provenance."""

import re

import pytest

from train.report.page import page
from train.report.sections.published import published as section
from train.report.targets import PROVENANCES, Target, experiments, published, target_of


def held():
    return [target for targets in experiments().values() for target in targets]


def test_every_target_names_its_source_and_provenance_and_the_unread_are_blank():
    for target in held():
        assert re.search(r"arXiv \d{4}\.\d{5}", target.source)
        assert target.provenance in PROVENANCES
        stated = target.value is not None or target.below is not None or target.said
        assert bool(stated) == (target.provenance != "unread")


@pytest.mark.parametrize(
    ("told", "rule"),
    [
        ({"provenance": "heard", "value": 1.0}, "provenance must be one of"),
        ({"provenance": "unread", "value": 1.0}, "unread has no value"),
        ({"provenance": "paper"}, "all else has one"),
    ],
)
def test_a_target_that_nobody_checked_is_refused(told, rule):
    with pytest.raises(ValueError, match=rule):
        Target(measure="mean", source="a paper", **told)


def test_the_numbers_are_those_of_the_papers():
    found = {
        (t.model, t.data, t.length): (t.value, t.provenance) for t in experiments()["perplexity"]
    }
    assert found["BiPE-RoPE", "PG-19", 4096] == (19.67, "paper")
    assert found["RoPE", "PG-19", 4096] == (158, "paper")
    assert found["BiPE-ALiBi", "PG-19", 8192] == (25.24, "paper")
    assert found["ALiBi", "PG-19", 8192] == (28.59, "paper")
    assert found["BiPE-RoPE", "arXiv", 6144] == (40.6, "later")
    assert target_of("scrolls", "BiPE-RoPE").value == 22.36
    assert target_of("scrolls", "ALiBi") is None
    assert target_of("arithmetic", "NoPE").below == 0.7


def test_a_source_of_another_name_or_training_length_has_none():
    def at(**other):
        told = {"data": "pg19", "model": "BiPE-RoPE", "trained_at": 1024} | other
        return published(**told)

    assert sorted(at()) == [1024, 4096, 6144]
    assert sorted(at(data="PG_19")) == [1024, 4096, 6144]
    for other in ({"data": "prose"}, {"model": "NoPE"}, {"trained_at": 512}, {"data": "pg19x"}):
        assert at(**other) == {}


def pg19(make, *, row_length):
    content = make.evaluation(levels="bilevel", sources=("pg19",))
    content["perplexity"]["sources"]["pg19"]["lengths"] = [1024, 2048, 4096, 8192, 16384]
    content["training"]["row_length"] = row_length
    return page(runs=make.loaded(content), statistics={}, title="t").partition('id="retrieval"')[0]


def test_published_perplexities_stand_under_ours_where_all_is_the_same(make):
    shown = pg19(make, row_length=1024)
    assert "published (provenance" in shown and "19.67" in shown and "13.74" in shown
    assert "66.6" not in shown  # 6144 tokens were not measured here


def test_published_perplexities_stay_away_from_other_runs(make):
    assert "published (provenance" not in pg19(make, row_length=512)


def test_all_that_is_published_ends_the_page(make):
    text = page(runs=make.loaded(), statistics={}, title="t")
    assert text.rindex("<section") == text.index(str(section()))
    for told in ("22.36", "every other encoding", "below 70%", "unread", "stays low to 20k tokens"):
        assert told in str(section()), told
