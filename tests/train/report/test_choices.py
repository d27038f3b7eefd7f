"""Only numbers of one measurement are compared: which, is said, and the others are apart."""

import math
import random
import re
from dataclasses import replace
from itertools import product

import pytest

from benchmarks import seeds
from tests.train.report.conftest import probe, run
from tests.train.report.test_sections import shown
from train.evals.rows import FILE, Journal, Row
from train.fit.checkpoints import Place
from train.report.content import Figure
from train.report.load import load
from train.report.sections import section_of

PROTOCOLS = ("windows (row_length 512)", "sliding (stride 256)", "last_k (last 256)")
WAYS = [f"{how}, {documents} documents of 2,048 tokens [{documents}{at}]"
        for at, (how, documents) in enumerate(product(PROTOCOLS, (4, 8)))]  # fmt: skip
LENGTHS = (256, 512, 1024, 2048)


def value(way, length, arm, seed):
    """A perplexity that tells its measurement: by its hundreds, and by its growth with length."""
    place = WAYS.index(way) + 1
    growth = (1 + place / 100) ** math.log2(length / 256)
    return 100 * place * growth * (1 + arm / 1000) * (1 + seed / 10_000)


def cells(way, lengths, arm, seed):
    for length in lengths:
        at = Row(source="prose", length=length, measure="", value=None, note="N.", measurement=way)
        number = value(way, length, arm, seed)
        yield f"perplexity of prose at {length} tokens", [
            replace(at, measure="perplexity", value=number),
            replace(at, measure="nll", unit="nats/token", value=math.log(number)),
            replace(at, measure="bits_per_byte", unit="bits/byte", value=math.log2(number)),
            replace(at, measure="documents", value=4.0),
            replace(at, measure="long_ppl", value=number),
        ]  # fmt: skip


def mixture(draw, folder):
    """Runs that were evaluated in random ways, one after another; and the ways of each arm."""
    places, ways = [], {}
    for arm in range(draw.randint(2, 4)):
        family, bilevel = (("RoPE", False), ("RoPE", True), ("ALiBi", False), ("ALiBi", True))[arm]
        evaluations = [(draw.choice(WAYS), draw.sample(LENGTHS, draw.randint(1, 4)))
                       for _ in range(draw.randint(1, 4))]  # fmt: skip
        for seed in range(draw.randint(1, 2)):
            one = run(family, bilevel, seed=seed)
            one.rows = []
            place = one.write(folder / one.name)
            journal = Journal(place / FILE)
            for way, lengths in evaluations:
                for name, rows in cells(way, lengths, arm, seed):
                    key = f"{way} {name}"
                    if key in journal:
                        journal.renew(key)
                    else:
                        journal.append(key, rows, name=name)
            places.append(Place.of(place))
        ways[("BiPE-" if bilevel else "") + family] = [way for way, _ in evaluations]
    return load(places), ways


def of_one_way(table):
    """The measurement of all numbers in a table of perplexities."""
    numbers = [float(cell.text.replace(",", "")) for row in table.cells for cell in row[1:]
               if row[0].style and re.fullmatch(r"[\d.,]+", cell.text)]  # fmt: skip
    (place,) = {min(int(number) // 100, len(WAYS)) for number in numbers}
    return WAYS[place - 1]


@pytest.mark.parametrize("seed", range(20))
def test_no_number_is_across_measurements_and_each_choice_is_said(tmp_path, seed):
    results, ways = mixture(random.Random(seed), tmp_path)
    arms = results.arms
    everywhere = set.intersection(*map(set, ways.values()))
    compared = results.cells("perplexity")
    (way,) = set(compared.measurement)
    if everywhere:
        assert way in everywhere and set(compared.arm) == set(ways)
        newest = {ways[arm][-1] for arm in ways}
        assert way in newest or not newest & everywhere or len(newest) > 1
    for first, second in product(range(len(arms)), repeat=2):
        ratios = results.ratios(arms[first], arms[second])
        expected = (1 + first / 1000) / (1 + second / 1000)
        assert ratios.value.tolist() == pytest.approx([expected] * len(ratios), rel=1e-9)
    section = section_of(results, "perplexity")
    tables = [table for table in section.tables if table.title]
    assert of_one_way(tables[0]) == way
    assert len({of_one_way(table) for table in tables}) == len(tables)
    for table in tables:
        growth = 1 + (WAYS.index(of_one_way(table)) + 1) / 100
        for row in (row for row in table.cells if row[0].style):
            for head, cell in zip(table.head[1:], row[1:], strict=True):
                for small in (line for line in cell.small if line[0] == "\N{MULTIPLICATION SIGN}"):
                    times = growth ** math.log2(int(head.replace(",", "")) / 512)
                    assert small[1:] == f"{times:.2f}"
    measured = {by for held in ways.values() for by in held}
    said, page = shown(results, "summary"), shown(results, "perplexity")
    assert ("Measurements" in said) == (len(measured) > 1)
    if len(measured) > 1:
        assert f"perplexity, prose: compared by {way}" in said
        assert all(by in said for by in measured)
        assert all(by in page for by in measured - {way})
    long = results.means[(results.means.measure == "long_ppl") & ~results.means.apart]
    assert long.measurement.nunique() == 1


def test_the_newest_that_all_models_have_is_compared(tmp_path):
    old, new, other = WAYS[0], WAYS[2], WAYS[4]
    places = []
    for arm, ways in enumerate([(old, new, other), (new, old), (old, new)]):
        one = run("RoPE", name=f"r{arm}", seed=arm)
        one.rows, one.config = [], {"model": f"m{arm}"}
        journal = Journal(one.write(tmp_path / one.name) / FILE)
        for way in ways:
            for name, rows in cells(way, LENGTHS, arm, 0):
                journal.append(f"{way} {name}", rows, name=name)
        places.append(Place.of(tmp_path / one.name))
    results = load(places)
    assert set(results.cells("perplexity").measurement) == {new}
    (choice, _) = results.choices
    assert list(choice.lines) == [new, old, other] and choice.lines[other] == ["r0"]


def test_a_measurement_of_some_seeds_only_is_named(tmp_path):
    places = []
    for seed in (0, 1):
        one = run("RoPE", seed=seed)
        one.rows = []
        journal = Journal(one.write(tmp_path / one.name) / FILE)
        for way in WAYS[: 2 - seed]:
            for name, rows in cells(way, LENGTHS, 0, seed):
                journal.append(f"{way} {name}", rows, name=name)
        places.append(Place.of(tmp_path / one.name))
    results = load(places)
    assert set(results.cells("perplexity").measurement) == {WAYS[0]}
    assert f"not of all seeds of RoPE, so not shown: {WAYS[1]}" in shown(results, "summary")


def old_rows(protocol, documents, scored, length=512):
    at = Row(source="prose", length=length, measure="", value=None)
    note = f"{protocol}: Windows of {length} tokens. Text: the first 1024 tokens."
    return [replace(at, measure="perplexity", value=9.0, note=note),
            replace(at, measure="documents", value=documents),
            replace(at, measure="tokens_scored", value=scored)]  # fmt: skip


@pytest.mark.parametrize(
    ("other", "apart"),
    [(("windows", 8, 4000), False), (("sliding", 8, 4000), True), (("windows", 4, 4000), True),
     (("windows", 8, 3999), True)],
)  # fmt: skip
def test_rows_of_older_versions_are_told_apart_by_protocol_documents_and_tokens(make, other, apart):
    one, two = make.run(), make.run("ALiBi")
    one.rows = old_rows("windows", 8, 4000) + old_rows("windows", 8, 4000, length=1024)
    two.rows = old_rows(*other)
    results = make.results(one, two)
    cells = results.cells("perplexity")
    assert (set(cells.arm) != {"RoPE", "ALiBi"}) == apart == bool(results.choices)
    assert sorted(cells[cells.arm == "RoPE"].length) == [512, 1024]


def test_a_task_in_another_text_is_another_measurement_also_while_training(tmp_path):
    places = []
    for bilevel, sources in ((False, ("books", "web")), (True, ("web",))):
        one = run("RoPE", bilevel)
        one.rows = []
        journal = Journal(one.write(tmp_path / one.name) / FILE)
        for source, step in product(sources, (None, 100)):
            share = 0.75 if source == "books" else 0.25
            rows = [
                replace(row, source=source, step=step, measurement=f"10 trials in {source}")
                for row in probe("passkey", [[share, 0.5]], lengths=(512,), depths=(0.0, 1.0))
            ]
            journal.append(f"{source} {step}", rows, name=f"{step} passkey in {source}")
        places.append(Place.of(tmp_path / one.name))
    results = load(places)
    found = results.cells("accuracy", task="passkey", depth=None)
    assert found.value.tolist() == [0.375, 0.375]
    assert (
        "accuracy, passkey: compared by 10 trials in web (RoPE, BiPE-RoPE); apart: 10 trials in "
        "books (RoPE)"
    ) in shown(results, "summary")
    live = [block for block in section_of(results, "live").blocks if isinstance(block, Figure)]
    assert [cell.text for row in live[0].table.rows for cell in row[1:]] == ["38%", "38%"]


def test_lengths_that_score_other_tokens_have_no_line_and_no_ratio(make):
    one = make.run(sources=("prose",))
    one.rows = [replace(row, measurement="bipe_blocks (batch 8), 4 documents") for row in one.rows
                if not row.task]  # fmt: skip
    said = shown(make.results(one), "perplexity")
    assert "x1." not in said and "scores other tokens" in said


def test_variants_of_a_model_are_compared_by_one_measurement(make):
    one = make.run(sources=("prose",))
    one.rows = [Row(measure="perplexity", source="prose", length=512, variant=variant,
                    measurement=way, value=value)
                for way, variant, value in ((WAYS[0], "none", 11.0), (WAYS[0], "yarn", 12.0),
                                            (WAYS[2], "none", 33.0))]  # fmt: skip
    said = shown(make.results(one), "stretch")
    assert "none: 11.0" in said and "yarn: 12.0" in said and "none: 33.0" in said
    assert f"RoPE, prose, by {WAYS[2]}: another measurement" in said and WAYS[0] not in said


def test_arms_are_compared_seed_by_seed_in_the_terminal(make, capsys):
    factors = {"rope": 1.0, "bipe": 0.9}
    words = []
    for name, factor in factors.items():
        made = [
            make.run(bilevel=name == "bipe", seed=seed, factor=factor, name=f"{name}_{seed}")
            for seed in range(3)
        ]
        words.append(f"{name}=" + ",".join(map(str, make.folders(*made))))
    assert seeds.main(words) == 0
    printed = capsys.readouterr().out
    assert re.search(r"prose: perplexity .*\n  rope +512: [\d.]+ \[[\d., ]+\]", printed)
    assert len(re.findall(r"  bipe +512: .*%", printed)) == 2
