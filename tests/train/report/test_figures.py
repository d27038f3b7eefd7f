"""Figures: axes hold what they are given, and every figure is one well-formed SVG element."""

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.report.figures import Guide, Histogram, Series, heat_map, histograms, line_chart
from train.report.figures.axes import LOG_RATIO, length_axis, round_ticks, value_axis
from train.report.figures.histograms import place
from train.report.figures.line_chart import spread
from train.report.formats import DAGGER
from train.report.palette import HEAT_STEPS, HUES, Style, contrast, heat_step, styles

SIZES = st.floats(min_value=-1e12, max_value=1e12)
STYLE = Style(hue=0, dashed=True, shape="circle")


@given(SIZES, SIZES)
def test_round_ticks_hold_both_ends_and_are_few(a, b):
    low, high = min(a, b), max(a, b)
    ticks = round_ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), 1e-6)
    assert ticks == sorted(ticks)
    assert ticks[0] <= low + slack and ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 12


@given(st.lists(st.floats(min_value=1e-9, max_value=1e300), min_size=1))
def test_a_value_axis_puts_every_value_inside_the_plot(values):
    axis = value_axis(values, start=300.0, stop=40.0)
    assert all(39.9 <= axis.at(value) <= 300.1 for value in values)
    assert axis.ticks


@pytest.mark.parametrize(("ratio", "log"), [(LOG_RATIO * 0.9, False), (LOG_RATIO * 1.1, True)])
def test_a_wide_range_of_values_gets_a_log_axis(ratio, log):
    assert value_axis([3.0, 3.0 * ratio], start=0.0, stop=1.0).log is log


def test_a_log_axis_is_named_on_the_chart():
    series = Series(label="a", style=STYLE, points=((512, 10.0), (1024, 1e6)))
    chart = line_chart(title="t", series=[series], x_name="tokens", y_name="perplexity")
    assert "perplexity (log scale)" in chart


def test_doubling_a_length_is_one_step_whatever_the_length():
    axis = length_axis([512, 1024, 8192], start=0.0, stop=600.0)
    steps = [axis.at(2 * x) - axis.at(x) for x in (512, 1024, 4096)]
    assert steps == pytest.approx([steps[0]] * 3)
    assert [label for _, label in axis.ticks] == ["512", "1024", "8192"]


def test_octaves_are_powers_of_two():
    axis = length_axis([8.0, 7936.0], start=0.0, stop=600.0, octaves=True)
    assert all(math.log2(value).is_integer() for value, _ in axis.ticks)


@given(st.lists(st.floats(min_value=0, max_value=300), max_size=30).map(sorted))
def test_labels_are_apart_in_order_and_inside(places):
    moved = spread(places, low=0.0, high=300.0)
    apart = min(14.0, 300 / max(1, len(places) - 1))
    assert len(moved) == len(places)
    assert all(-1e-6 <= at <= 300 + 1e-6 for at in moved)
    assert all(b - a >= apart - 1e-6 for a, b in pairwise(moved))


@given(st.lists(st.floats(min_value=0, max_value=1000), max_size=8, unique_by=lambda x: x // 20))
def test_labels_that_have_room_do_not_move(places):
    apart = sorted(place for place in places if place % 20 < 1)
    assert spread(apart, low=0.0, high=1000.0) == pytest.approx(apart)


@given(st.lists(st.floats() | st.just(math.nan), min_size=1, max_size=9))
def test_a_line_chart_is_well_formed_whatever_the_values(values):
    points = tuple((2.0**i, value) for i, value in enumerate(values))
    series = Series(label="<a> & b", style=STYLE, points=points)
    guide = Guide(at=4.0, label="trained")
    chart = line_chart(title="t", series=[series], x_name="x", y_name="y", guides=[guide])
    parsed = ElementTree.fromstring(chart)
    broken = sum(not abs(value) <= 1e300 for value in values)
    assert parsed.tag == "svg"
    assert chart.count(f"</title>{DAGGER}</text>") == broken
    assert "nan" not in chart.replace("no finite", "") and "inf" not in chart.replace("finite", "")


def test_a_gap_breaks_the_line():
    points = ((1.0, 1.0), (2.0, 2.0), (4.0, math.nan), (8.0, 3.0))
    series = Series(label="a", style=STYLE, points=points)
    chart = line_chart(title="t", series=[series], x_name="x", y_name="y")
    path = next(p for p in ElementTree.fromstring(chart).iter("path") if p.get("fill") == "none")
    assert path.get("d", "").count("M") == 2


def test_a_chart_without_any_point_is_still_a_chart():
    series = Series(label="a", style=STYLE, points=())
    for scale in ("lengths", "linear", "octaves"):
        chart = line_chart(title="t", series=[series], x_name="x", y_name="y", x_scale=scale)
        assert ElementTree.fromstring(chart).tag == "svg"


def test_a_heat_map_shows_every_number_and_marks_what_is_missing():
    values = [[0.0, 0.25], [math.nan, 1.0]]
    drawn = heat_map(title="t", values=values, lengths=[8, 16], depths=[0, 1], trained=8)
    texts = [text.text for text in ElementTree.fromstring(drawn).iter("text")]
    assert [text for text in texts if text in {"0", "25", DAGGER, "100"}] == [
        "0",
        "25",
        DAGGER,
        "100",
    ]
    assert "longer than trained" in texts


def test_histogram_bars_are_as_tall_as_their_shares():
    rows = [Histogram(label="a", detail="", share=(0.5, 0.25, 0.25), mean=2.0)]
    edges = (1, 2, 4, math.inf)
    drawn = ElementTree.fromstring(histograms(title="t", edges=edges, rows=rows, x_name="x"))
    tall = [float(bar.get("height", "")) for bar in drawn.iter("rect")]
    assert tall == pytest.approx([tall[0], tall[0] / 2, tall[0] / 2])


def test_values_find_their_bins():
    edges = (1, 2, 4, math.inf)
    assert [place(v, edges) for v in (1, 1.5, 3, 9, 0)] == [0.0, 0.5, 1.5, 2.5, 0.0]


def test_a_family_shares_its_hue_and_its_levels_differ_in_dashes(make):
    looks = styles(make.loaded())
    assert looks["RoPE"].hue == looks["BiPE-RoPE"].hue != looks["ALiBi"].hue
    assert looks["RoPE"].dashed and not looks["BiPE-RoPE"].dashed


def test_no_two_runs_look_alike(make):
    families = ("RoPE", "NewOne", "Other")
    runs = make.loaded(*(make.evaluation(family=f, seed=s) for f in families for s in range(3)))
    assert len(set(styles(runs).values())) == 9


@pytest.mark.parametrize("hue", HUES)
def test_every_hue_can_be_read_as_text_in_both_themes(hue):
    light, dark = hue
    assert contrast(light)("#ffffff") >= 4.5
    assert contrast(dark)("#14181c") >= 4.5


def test_heat_steps_hold_every_share():
    assert [heat_step(share) for share in (-1, 0, 0.5, 1, 2)] == [0, 0, 5, HEAT_STEPS, HEAT_STEPS]
