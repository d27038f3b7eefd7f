"""Sections and the sentences of the headline: what is measured is shown, and nothing else."""

import math
import re
from dataclasses import replace

import pandas as pd
import pytest

from tests.train.report.conftest import LENGTHS, probe
from train.evals.rows import Row
from train.report.content import Figure, Grid, Items, Table, terminal_tables
from train.report.formats import change, short
from train.report.sections import growth_section, section_of, sections
from train.report.sections.data import growth
from train.report.sections.exhibits import octaves, window_means
from train.report.sections.published import PROVENANCES, target_of, targets


def shown(results, name):
    """The texts of a section, dashes and times as in ASCII; empty where there is none."""
    section = section_of(results, name)
    texts = []
    for block in section.blocks if section else ():
        if isinstance(block, Items):
            texts += [*block.items, *(text for pair in block.pairs for text in pair)]
        elif isinstance(block, Grid):
            texts += [f"{caption} {drawing.title}" for caption, drawing in block.drawings]
        elif not isinstance(block, Table | Figure):
            texts += [str(part) for part in block]
    for table in section.tables if section else ():
        texts += [*table.head, *table.notes]
        for first, *row in table.cells:
            cells = ("/".join((cell.text, *cell.small)) for cell in row)
            texts.append(f"{first.text}: {' '.join(cells)}")
    return "\n".join(texts).replace("\N{EN DASH}", "-").replace("\N{MULTIPLICATION SIGN}", "x")


def with_perplexity(one, values, source="prose"):
    for length, value in zip(LENGTHS, values, strict=True):
        one.change("perplexity", value, source=source, length=length)
    return one


@pytest.mark.parametrize(
    ("flat", "bilevel", "told"),
    [
        ([10, 20, 50], [11, 12, 15], (
            "512 tokens, RoPE has the lowest perplexity, 10.0; BiPE-RoPE has the highest",
            "16 times the training length, BiPE-RoPE has the lowest perplexity, 15.0",
            "BiPE-RoPE is below RoPE at 2 of 3 lengths.", "BiPE-RoPE: 8 11.0 15.0/x1.36",
        )),
        ([10.001] * 3, [10.002] * 3, ("all models have perplexity 10.0",)),
        ([10, None, math.nan], [11, 12, 15],
         ("BiPE-RoPE has perplexity 15.0; RoPE has no finite value",)),
    ],
)  # fmt: skip
def test_the_sentence_names_the_lowest_and_the_highest_at_both_ends(make, flat, bilevel, told):
    made = [with_perplexity(make.run(), flat), with_perplexity(make.run(bilevel=True), bilevel)]
    said = shown(make.results(*made), "summary")
    assert all(each in said for each in told) and "trained once" in said


def test_seeds_are_counted_and_compared_with_the_first_model(make):
    made = [make.run(bilevel=bilevel, seed=seed, factor=1 - bilevel / 2)
            for bilevel in (False, True) for seed in range(3)]  # fmt: skip
    results = make.results(*made)
    headline = shown(results, "summary")
    assert "mean over 3 seeds" in headline and "trained once" not in headline
    seeds = shown(results, "seeds")
    assert "BiPE-RoPE against RoPE" in seeds and "\N{MINUS SIGN}" in seeds


@pytest.mark.parametrize(("share", "said"), [(0.1, "No model is"), (0.9, "RoPE is")])
def test_guessing_is_not_called_retrieval(make, share, said):
    one = make.run().change("accuracy", share)
    assert f"{said} above chance" in shown(make.results(one), "summary")


def test_size_mix_cost_and_machine_of_the_training_are_there(make):
    four = make.four()
    four[0].rows.append(Row(measure="left_out", variant="yarn", value=None, note="no angles"))
    one = with_perplexity(four[0], [10, 20, 50])
    one.rows = [replace(row, low=row.value - 1, high=row.value + 2) if row.measure == "perplexity"
                else row for row in one.rows]  # fmt: skip
    four[3].rows = []
    results = make.results(*four)
    for name, parts in {
        "summary": ("Four models of 8 parameters", "1.54\N{NO-BREAK SPACE}M tokens",
                     "(75% prose and 25% code)", "rows of 512", "188 steps", "Example CPU"),
        "perplexity": ("RoPE: 10.0/9.00-12.0 20.0/19.0-22.0/x2.00", "documents: 12 12 12"),
        "training": ("GiB", "1.25", "not evaluated yet: BiPE-ALiBi"),
        "account": ("no angles",),
    }.items():  # fmt: skip
        said = shown(results, name)
        for part in parts:
            assert part in said, part


def test_a_window_weighs_every_token_the_same():
    cells = pd.DataFrame({"arm": "a", "middle": [1.0, 3.0, 6.0], "value": [1.0, 2.0, 5.0],
                          "tokens": [10.0, 30.0, 7.0]})  # fmt: skip
    cells = cells.assign(measure="nll_by_position", unit="nats/token")
    found = window_means(cells, [0, 4, 8, 16]).set_index("start").value
    assert found.to_dict() == {0: pytest.approx((10 * 1 + 30 * 2) / 40), 4: 5.0}
    assert octaves(512, 100) == [0, 100] and octaves(3, 20) == [0, 3, 6, 12, 20]


def test_every_probe_has_its_maps_its_means_and_its_curves(make):
    one = make.run()
    one.rows += probe("niah", [[0.25, 0.5], [0.75, 1.0]], lengths=(256, 1024), depths=(0.0, 1.0),
                      written=0.5, distance_tokens=200, distance_segments=9)  # fmt: skip
    one.rows += probe("copy", [[0.125]], lengths=(256,), depths=(None,), first=9.5, second=1.25)
    one.rows += [Row(task="positions", source="prose", length=4, start=start, stop=start + 1,
                     measure="nll_by_token", unit="nats/token", value=5 - start)
                 for start in (0, 1)]  # fmt: skip
    said = shown(make.results(one, make.run("ALiBi")), "probes")
    for told in ("Five digits <hidden>.", "niah accuracy of RoPE", "niah written of RoPE",
                 "RoPE: 38%/50% 88%/50%", "Chance is 10%", "9.50, 1.25", "distance in tokens: 200",
                 "distance in segments: 9.00",
                 "loss, nats per token, by position in the document"):  # fmt: skip
        assert told in said, told


def arithmetic(shares, *, operators=(2, 4, 6), trained=4):
    rows = [Row(task="arithmetic", measure="trained_operators", operators=n, value=n)
            for n in range(1, trained + 1)]  # fmt: skip
    for number, share in zip(operators, shares, strict=True):
        at = Row(task="arithmetic", source="chains", operators=number, measure="answer",
                 unit="share", value=share, low=share - 0.1, high=share + 0.1,
                 note="Chains.")  # fmt: skip
        rows += [at, *(replace(at, measure=name) for name in ("steps", "tokens", "problems"))]
    return rows


def test_right_answers_by_operators_and_by_width(make):
    narrow = make.Made(name="narrow", bilevel=True, rows=arithmetic([0.9, 0.5, 0.2]))
    wide = make.Made(name="wide", bilevel=True, width=48, rows=arithmetic([0.95, 0.8, 0.4]))
    results = make.results(narrow, wide)
    said = shown(results, "arithmetic")
    for told in ("Chains.", "wide: 95%/85%-105% 80%/70%-90% 40%/30%-50% 95%", "correct steps",
                 "width", "BiPE-RoPE: 50%"):  # fmt: skip
        assert told in said, told
    summary = shown(results, "summary")
    assert "Of problems with 4 operators, wide solves the most, 80%; narrow 50%." in summary
    assert "trained up to 4" in next(s for s in sections(results) if s.anchor == "arithmetic"
                                     ).drawings[0].svg()  # fmt: skip


def test_ways_to_extend_a_model_are_lines_of_their_own(make):
    made = []
    for seed in range(3):
        one = make.run(seed=seed)
        one.rows += [replace(row, variant=variant, value=row.value * 2**seed)
                     for variant in ("none", "yarn (tokens)", "yarn (segments)")
                     for row in one.rows if row.measure == "perplexity"]  # fmt: skip
        one.rows += [replace(row, variant="none") for row in one.rows if row.task == "passkey"]
        made.append(one)
    results = make.results(*made)
    said = shown(results, "stretch")
    for told in ("yarn (segments): ", "passkey found", "95% intervals over 3 seeds"):
        assert told in said, told
    titles = [str(table.title) for table in terminal_tables(sections(results))]
    assert any(title.startswith("Length extension") for title in titles)
    assert "yarn" not in shown(results, "perplexity") + shown(results, "others")


def scored(make, task, seed, score, model="bipe_rope"):
    rows = [Row(task=task, source="validation", measure=f"scrolls_{name}", unit=unit, value=value,
                note="rouge/geometric_mean") for name, unit, value in (
        ("score", "percent", score), ("predictions", "predictions", 8), ("empty", "share", 0.25),
        ("ended_by_length", "predictions", 5), ("prediction_words_p50", "words", 31),
        ("prediction_words_p10", "words", 3), ("prediction_words_p90", "words", 60),
        ("prompts_cut", "examples", 7))]  # fmt: skip
    return make.Made(name=f"{model}_{task}_seed{seed}", seed=seed, config={"task": task},
                     rows=[row for row in rows if row.value is not None])  # fmt: skip


def test_scrolls_brings_seeds_and_tasks_of_a_model_together(make):
    tasks = ["qmsum", "qasper", "gov_report", "summ_screen_fd", "narrative_qa", "quality",
             "contract_nli"]  # fmt: skip
    made = [scored(make, task, seed, 20 + n + seed) for n, task in enumerate(tasks)
            for seed in (0, 1)]  # fmt: skip
    results = make.results(*made, scored(make, "qmsum", 0, 30.0, "zero"))
    said = shown(results, "scrolls")
    for told in ("qmsum: 20.50/\N{PLUS-MINUS SIGN}0.71, 2 seeds/14.15-26.85 30.00/1 seed",
                 "mean: 23.50 -", "mean of the published model: 22.36/paper", "bipe_rope", "zero",
                 "25% 62% 7", "31.0/3.00-60.0"):  # fmt: skip
        assert told in said, told
    assert results.arms == [] and shown(results, "training") == "" == shown(results, "perplexity")
    assert "SCROLLS" in str([table.title for table in terminal_tables(sections(results))])


def test_a_score_over_a_part_of_a_split_is_no_official_one(make):
    part, whole = scored(make, "qmsum", 0, 99.0), scored(make, "qmsum", 0, 20.0, "rope")
    part.rows = [replace(row, measure=row.measure.replace("_score", "_part_score"))
                 for row in part.rows]  # fmt: skip
    part.rows.append(replace(part.rows[0], measure="scrolls_examples", value=272.0))
    hidden = scored(make, "qmsum", 0, None, "hidden")
    results = make.results(part, whole, hidden, make.run())
    said = shown(results, "scrolls")
    assert [arm.label for arm in results.arms] == ["RoPE"]
    assert "qmsum: 8 of 272 outputs/on these: 99.00/no official score 20.00/1 seed unscored" in said
    assert "18.38/paper" in said and "22.36" not in said


def test_a_measure_that_no_section_knows_is_shown_all_the_same(make):
    one = make.run()
    one.rows += [Row(task="sorting", measure="swaps", unit="swaps", length=length, value=length / 4)
                 for length in LENGTHS]  # fmt: skip
    one.rows += [Row(measure="published_mean_of_windows", source="prose", length=512, value=41.5),
                 Row(measure="entropy", unit="bits", value=2.5)]  # fmt: skip
    one.rows += [Row(task="t", measure="gain", depth=depth, value=depth) for depth in (0.0, 1.0)]
    said = shown(make.results(one), "others")
    for told in ("sorting, swaps", "RoPE: 128 256 2,048", "published mean of windows", "41.5",
                 "entropy", "RoPE: 2.50", "gain"):  # fmt: skip
        assert told in said, told


def test_credentials_in_a_configuration_are_struck_out(make):
    one, two = make.run(), make.run("ALiBi")
    one.config |= {"wandb": {"api_key": "abc123"}, "list": [{"Password": "abc123"}], "steps": 999}
    said = shown(make.results(one, two), "account")
    assert "abc123" not in said and "redacted" in said
    assert re.search(r"steps: 999.188", said)


def test_every_target_has_a_source_and_a_provenance():
    assert targets().source.str.contains(r"arXiv \d{4}\.\d{5}").all()
    assert set(targets().provenance) == set(PROVENANCES)
    assert ((targets().text != "") == (targets().provenance != "unread")).all()
    found = targets().set_index(["model", "data", "length"]).origin
    assert found["BiPE-RoPE", "PG-19", 4096] == "BiPE, arXiv 2401.16421 (paper)"
    assert target_of("scrolls", "BiPE-RoPE") == "22.36" and target_of("scrolls", "ALiBi") == ""
    assert target_of("arithmetic", "NoPE") == "below 70%"


@pytest.mark.parametrize(
    ("change", "there"),
    [({}, True), ({"source": "PG_19"}, True), ({"row_length": 512}, False),
     ({"bilevel": False}, False), ({"source": "pg19x"}, False)],
)  # fmt: skip
def test_published_perplexities_are_below_ours_only_where_all_is_the_same(make, change, there):
    at = {"source": "pg19", "row_length": 1024, "bilevel": True} | change
    one = make.run(bilevel=at["bilevel"], sources=(at["source"],))
    one.notes["row_length"] = at["row_length"]
    results = make.results(one)
    said = shown(results, "perplexity")
    assert ("BiPE-RoPE:  13.74/later" in said) == there
    assert "66.6" not in said  # 6144 tokens were not measured here
    assert "at 4,096" in shown(results, "published")


def counted():
    bucket = {
        "from": 256, "to": 512, "documents": 9, "segments_per_document": 20.0, "segments": 180,
        "mean": 16.0, "percentiles": {"50": 15}, "max": 60, "share_of_length_1": 0.01,
        "histogram": [1, 79, 100],
    }  # fmt: skip
    line = {"documents": 18, "slope": 0.0625, "intercept": 0.5, "r2": 0.987, "exponent": 1.01}
    pair = {"bins": [256, 512], "distance": 0.0234, "by_chance": 0.0211}
    rate = {"ends": 90, "share": 0.5, "appearances": 120, "hit_rate": 0.75}
    source = {
        "segmenter": {"segmenter": "segmenters.Newline"}, "documents": 18, "tokens": 5760,
        "segments": 360, "tokens_per_segment": bucket,
        "by_document_length": [bucket, bucket | {"from": 512, "to": None}], "growth": line,
        "distance": {"least_documents": 5, "bins": [256, 512], "pairs": [pair], "mean": 0.0234,
                     "largest": 0.0234},
        "separators": {"segments": 360, "tokens": 5760, "blank_share": 0.0, "line_end": rate,
                       "characters": [rate | {"character": "<", "name": "LESS-THAN SIGN"}]},
    }  # fmt: skip
    return {"format": "bipe-segment-statistics/1", "segment_edges": [1, 8, 16],
            "sources": {"prose": source}}  # fmt: skip


def test_the_claim_of_figure_1_is_in_numbers():
    made = growth_section(counted())
    cells = " ".join(cell.text for table in made.tables for row in table.cells for cell in row)
    for told in ("62.5", "0.987", "0.023", "0.021", "75.0%", "< (less-than sign)"):
        assert told in cells, told
    assert "512 or more" in made.drawings[1].svg()
    again = list(growth(counted(), counted()["sources"]))  # drawn on this page already
    assert len(made.drawings) == 2 and sum(isinstance(block, Figure) for block in again) == 1
    (nothing,) = growth(None)
    assert nothing.text.startswith("Not counted yet")


def test_numbers_keep_about_three_digits_and_changes_are_signed():
    written = [short(v) for v in (0.0, 0.1234, 1.234, 12.34, 123.4, 12345, 3e7, 2e-5)]
    assert written == ["0.000", "0.123", "1.23", "12.3", "123", "12,345", "3e7", "2e-5"]
    assert [change(r) for r in (1.061, 0.5, 1.0, 30.0)] == [
        "+6.1%", "\N{MINUS SIGN}50.0%", "0.0%", "\N{MULTIPLICATION SIGN}30.0",
    ]  # fmt: skip
