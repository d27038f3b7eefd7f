"""Figures: axes hold what they are given; every figure is one well-formed SVG element."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train.report import palette
from train.report.figures import lines as charts
from train.report.figures.heatmaps import heat_map
from train.report.figures.histograms import Histogram, histograms, position_in_bins
from train.report.formats import DAGGER

STYLE = palette.Style(hue=0, dashed=True, shape="circle")
ROW = Histogram(label="a", detail="", shares=(1.0,), mean=1.0)


def lines(*series, **told):
    return charts.Lines(
        name="a", title="t", series=series, x_name="tokens", y_name="y", **told
    ).draw()


def series(*points, **told):
    return charts.Series(**({"label": "a", "style": STYLE, "points": points} | told))


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12), st.floats(1e-300, 1e294))
def test_ticks_hold_both_ends_and_are_few(a, b, least):
    low, high = min(a, b), max(a, b)
    slack = 1e-6 * max(abs(low), abs(high), 1e-6)
    ticks = charts.round_ticks(low, high)
    assert ticks == sorted(ticks) and 2 <= len(ticks) <= 12
    assert ticks[0] <= low + slack and ticks[-1] >= high - slack
    most = least * max(charts.LOG_RATIO, min(abs(a), 1e6))
    ticks = charts.log_ticks(least, most)
    assert ticks[0] <= least * (1 + 1e-6) and ticks[-1] >= most * (1 - 1e-6) and len(ticks) <= 16


@given(st.lists(st.integers(0, 300), max_size=30).map(sorted))
def test_labels_are_apart_in_order_and_inside(places):
    moved = charts.spread(places, low=0.0, high=300.0)
    apart = min(14.0, 300 / max(1, len(places) - 1))
    assert len(moved) == len(places)
    assert all(-1e-6 <= at <= 300 + 1e-6 for at in moved)
    assert all(b - a >= apart - 1e-6 for a, b in pairwise(moved))
    if all(b - a >= 14 for a, b in pairwise(places)):  # those that have room do not move
        assert moved == pytest.approx(places)


def test_axes_say_what_they_are_and_a_gap_breaks_the_line():
    ys = (1.0, 2.0, math.nan, 3.0, charts.LOG_RATIO * 1.1)
    points = tuple((512 * 2**at, y) for at, y in enumerate(ys))
    drawn = ElementTree.fromstring(lines(series(*points, label="mine")).svg())
    at = {text.text: float(text.get("x", "")) for text in drawn.iter("text") if text.text}
    assert at["8192"] - at["4096"] == pytest.approx(at["1024"] - at["512"])
    assert "y (log scale)" in at
    line = next(group for group in drawn.iter("g") if group.findtext("title") == "mine")
    assert line.find("path").get("d").count("M") == 2
    drawn = lines(series((8.0, 1.0), (7936.0, charts.LOG_RATIO * 0.9)), x_scale="octaves").svg()
    assert ">16<" in drawn and ">4096<" in drawn and "7936<" not in drawn and ">y<" in drawn
    for scale in ("lengths", "linear", "octaves"):  # without any point it is still a chart
        assert ElementTree.fromstring(lines(series(), x_scale=scale).svg()).tag == "svg"


@settings(max_examples=8)
@given(st.lists(st.floats() | st.just(math.nan), min_size=1, max_size=9))
def test_a_line_chart_is_well_formed_whatever_the_values(values):
    points = tuple((2.0**i, value) for i, value in enumerate(values))
    drawn = lines(
        series(*points, label="<a> & $b_1$\x00"), guides=[charts.Guide(at=4.0, label="t")]
    ).svg()
    assert ElementTree.fromstring(drawn).tag == "svg"
    broken = sum(not abs(value) <= 1e300 for value in values)
    assert drawn.count(f">{DAGGER}</text>") == broken
    assert "nan" not in drawn.replace("no finite", "") and "inf" not in drawn.replace("finite", "")


def test_a_figure_has_only_colours_of_the_page_and_names_of_its_own():
    shares = {(length, depth): 0.1 * depth * length for length in (1, 2, 9) for depth in (0, 1)}
    for drawn in (
        lines(series((1, 3.0), (2, 4.0)), level=charts.Guide(at=3.5, label="l")).svg(),
        heat_map(shares, name="a", title="t", trained=2).svg(),
        histograms([ROW], name="a", title="t", edges=(1, math.inf)).svg(),
    ):
        assert not re.search(r"#[0-9a-f]{6}", drawn) and "var(--" in drawn
        names = re.findall(r' id="([^"]*)', drawn)
        assert len(set(names)) == len(names) and all(name.startswith("a-") for name in names)
        assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', drawn)) <= set(names)
        assert 'role="img"' in drawn and "<title>t</title>" in drawn and "http" not in drawn


def test_cells_and_bars_show_every_number():
    shares = {(8, 0.0): 0.0, (8, 1.0): 0.25, (16, 0.0): math.nan, (16, 1.0): 1.0}
    drawn = heat_map(shares, name="a", title="t", trained=8).svg()
    texts = [text.text for text in ElementTree.fromstring(drawn).iter("text")]
    shown = ["0", DAGGER, "25", "100"]
    assert [text for text in texts if text in shown] == shown and "longer than trained" in texts
    rows = [Histogram(label="a", detail="", shares=(0.5, 0.25, 0.25), mean=2.0)]
    drawn = histograms(rows, name="a", title="t", edges=(1, 2, 4, math.inf)).svg()
    tall = []
    for group in ElementTree.fromstring(drawn).iter("g"):
        if (group.findtext("title") or "").endswith("of segments"):
            ys = [float(y) for y in re.findall(r"[ML] \S+ (\S+)", group.find("path").get("d"))]
            tall.append(max(ys) - min(ys))
    assert tall == pytest.approx([tall[0], tall[0] / 2, tall[0] / 2], abs=1e-3)
    edges = (1, 2, 4, math.inf)
    assert [position_in_bins(v, edges) for v in (1, 1.5, 3, 9, 0)] == [0.0, 0.5, 1.5, 2.5, 0.0]


def test_a_family_shares_its_hue_and_no_two_models_look_alike():
    looks = palette.styles(
        [("RoPE", "RoPE", False), ("BiPE-RoPE", "RoPE", True), ("x", "ALiBi", False)]
    )
    assert looks["RoPE"].hue == looks["BiPE-RoPE"].hue != looks["x"].hue
    assert looks["RoPE"].dashed and not looks["BiPE-RoPE"].dashed
    many = [(f"{f} {n}", f, False) for f in ("RoPE", "New", "Other") for n in range(3)]
    assert len(set(palette.styles(many).values())) == 9
    forms = [(f"form {n}", "RoPE", True) for n in range(6)]
    assert len({look.hue for look in palette.styles(forms).values()}) == 6
    assert len(set(palette.ordered_styles([str(n) for n in range(20)]).values())) == 20


def contrast(colour, other):
    """The contrast ratio of WCAG 2 between two colours, from 1 to 21."""

    def luminance(value):
        levels = [level / 255 for level in bytes.fromhex(value[1:])]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in levels]
        return sum(share * v for share, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dim, bright = sorted((luminance(colour), luminance(other)))
    return (bright + 0.05) / (dim + 0.05)


def test_every_hue_can_be_read_as_text_and_no_two_roles_share_a_colour():
    steps = range(palette.HEAT_STEPS + 1)
    pairs = [("paper", f"hue-{hue}") for hue in range(palette.HUES)]
    pairs += [(f"heat-{step}", f"heat-ink-{step}") for step in steps]
    for paper, ink in pairs:
        for theme in (0, 1):
            assert contrast(palette.COLOURS[paper][theme], palette.COLOURS[ink][theme]) >= 4.5
    assert len({light for light, _ in palette.COLOURS.values()}) == len(palette.COLOURS)
    assert [palette.heat_step(share) for share in (-1, 0, 0.5, 1, 2)] == [0, 0, 5, 10, 10]
