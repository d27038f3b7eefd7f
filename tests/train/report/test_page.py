"""The page: well-formed, self-contained, escaped, and the same text each time."""

import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from train.report.formats import DAGGER
from train.report.page import page
from train.report.sections.account import hidden

HOSTILE = (
    "</title></style><script>alert('x')</script><img src=x onerror=\"y\"> & \x00\x07\u202e\ud800"
)
VOID = {"meta", "br", "hr", "col"}


class Balance(HTMLParser):
    """Fails on a tag that is not closed in order; collects tags and attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes = [], set(), []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag in VOID
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text):
    """The page as XML, after both parsers have read it."""
    balance = Balance()
    balance.feed(text)
    balance.close()
    assert balance.open == []
    loads = {"src", "srcset", "data", "action", "xlink:href"}
    assert not balance.tags & {"script", "iframe", "object", "embed", "link", "img", "image"}
    for name, value in balance.attributes:
        assert name not in loads and not name.startswith("on")
        assert name != "href" or value.startswith("#")
    assert not re.search(r"url\(|@import|https?://", text)
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def words(root):
    return "".join(root.itertext())


@pytest.fixture
def whole(make):
    return page(runs=make.loaded(), statistics=make.loaded_data(), title="Title")


def test_the_page_is_well_formed_and_loads_nothing(whole):
    root = parsed(whole)
    anchors = {a.get("href", "")[1:] for a in root.iter("a")}
    assert anchors == {section.get("id") for section in root.iter("section")}
    assert len(list(root.iter("svg"))) > 12


def test_the_same_inputs_give_the_same_page(make):
    runs, statistics = make.loaded(), make.loaded_data()
    first = page(runs=runs, statistics=statistics, title="Title")
    assert page(runs=runs, statistics=statistics, title="Title") == first


def test_runs_keep_their_order_in_every_table(whole):
    names = ["RoPE", "BiPE-RoPE", "ALiBi", "BiPE-ALiBi"]
    for table in parsed(whole).iter("table"):
        held = [words(cell) for cell in table.iter("span") if cell.get("class") == "model"]
        assert held == names * (len(held) // 4)


def test_hostile_text_is_shown_and_never_markup(make):
    content = make.evaluation(name=HOSTILE, sources=("prose", HOSTILE))
    for part in ("perplexity", "passkey"):
        content[part]["protocol"] = HOSTILE
    content["environment"] = dict.fromkeys(content["environment"], HOSTILE)
    content["config"] = {HOSTILE: {HOSTILE: HOSTILE}}
    content["training"]["sources"] = {HOSTILE: 1.0}
    data = make.statistics(sources=(HOSTILE,))
    told = data["manifest"]["sources"][HOSTILE]
    told |= {"licence": HOSTILE, "provenance": HOSTILE, "segmenter": {"segmenter": HOSTILE}}
    passage = {"document": HOSTILE, "split": "test", "text": HOSTILE, "cuts": [0, 7, len(HOSTILE)]}
    data["statistics"]["sources"][HOSTILE]["sample"] = passage
    text = page(runs=make.loaded(content), statistics=make.loaded_data(data), title=HOSTILE)
    root = parsed(text)
    assert words(root).count("<script>alert('x')</script>") > 10
    text.encode("utf-8")


def test_a_passage_comes_back_whole_from_its_coloured_segments(make):
    content = make.statistics(sources=("code",))
    passage = content["statistics"]["sources"]["code"]["sample"]
    text = page(runs=make.loaded(), statistics=make.loaded_data(content), title="t")
    spans = [s for s in parsed(text).iter("span") if s.get("class", "").startswith("segment ")]
    assert len(spans) == len(passage["cuts"]) - 1
    drawn = ""
    for span in spans:
        span.find("sup").text = ""
        drawn += words(span)
    for mark, blank in (("\u21b5\n", "\n"), ("\u2192\t", "\t"), ("\u00b7", " ")):
        drawn = drawn.replace(mark, blank)
    assert drawn == passage["text"]


def test_one_run_without_retrieval_positions_and_data_is_a_page(make):
    content = make.evaluation(sources=("prose",), passkey=False)
    del content["perplexity"]["sources"]["prose"]["by_position"]
    content["training"]["curve"] = []
    root = parsed(page(runs=make.loaded(content), statistics={}, title="t"))
    assert "evaluated without" in words(root)
    assert "No prepared data set was given" in words(root)


def test_a_training_of_which_nothing_was_noted_is_a_page(make):
    content = make.evaluation()
    content["training"] |= {"tokens": None, "steps": None, "seconds": None, "seed": None}
    content["training"]["sources"] = {}
    text = page(runs=make.loaded(content), statistics={}, title="t")
    assert not re.search(r"\b(nan|None)\b", words(parsed(text)))


def test_eight_runs_with_long_names_are_a_page(make):
    made = [make.evaluation(name="long name " * 9, seed=seed) for seed in range(8)]
    root = parsed(page(runs=make.loaded(*made), statistics={}, title="t"))
    assert words(root).count("(seed 7)") > 5


def test_runs_measured_at_different_lengths_are_a_page(make):
    short = make.evaluation(levels="bilevel", sources=("prose",))
    for key in ("lengths", "perplexity", "bits_per_byte", "nll", "tokens_scored", "documents"):
        scores = short["perplexity"]["sources"]["prose"]
        scores[key] = scores[key][:2]
    short["training"]["row_length"] = 300
    root = parsed(page(runs=make.loaded(make.evaluation(), short), statistics={}, title="t"))
    assert "trained at 300" in words(root)


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_value_that_is_not_finite_is_a_dagger_that_is_explained(make, value):
    content = make.four()
    for measured in content:
        for scores in measured["perplexity"]["sources"].values():
            for key in ("perplexity", "bits_per_byte", "nll"):
                scores[key] = [value] * 5
            scores["by_position"]["nll"] = [value] * len(scores["by_position"]["nll"])
        measured["passkey"]["accuracy"] = [[value] * 5] * 5
        measured["training"]["curve"] = [[tokens, value] for tokens, _ in
                                         measured["training"]["curve"]]  # fmt: skip
    text = page(runs=make.loaded(*content), statistics={}, title="t")
    seen = words(parsed(text))
    assert seen.count(DAGGER) > 100
    assert f"{DAGGER} no finite value" in seen
    assert not re.search(r"\b(nan|inf)\b", text)


def test_values_over_many_orders_of_magnitude_are_a_page(make):
    content = make.evaluation()
    values = [4.0, 1e3, 1e9, 1e80, 1e300]
    content["perplexity"]["sources"]["prose"]["perplexity"] = values
    text = page(runs=make.loaded(content), statistics={}, title="t")
    assert "perplexity, prose (log scale)" in words(parsed(text))


def test_credentials_in_a_configuration_are_struck_out(make):
    config = {"wandb": {"api_key": "abc123"}, "list": [{"Password": "abc123"}], "eos_token": "</s>"}
    assert hidden(config) == {
        "wandb": {"api_key": "(hidden)"},
        "list": [{"Password": "(hidden)"}],
        "eos_token": "</s>",
    }
    contents = [make.evaluation(), make.evaluation(levels="bilevel")]
    contents[0]["config"] = config
    assert "abc123" not in page(runs=make.loaded(*contents), statistics={}, title="t")


def test_configurations_that_differ_are_shown_by_key(make):
    contents = [make.evaluation(), make.evaluation(levels="bilevel")]
    contents[1]["config"]["trainer"]["max_steps"] = 999
    text = words(parsed(page(runs=make.loaded(*contents), statistics={}, title="t")))
    assert "trainer.max_steps188999" in text
