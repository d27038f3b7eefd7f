"""Markup: whatever the text, the result is well-formed and shows the text."""

import html
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from train.report.markup import Markup, escape, join, tag, visible

# Lone surrogates too: st.text() leaves them out unless they are asked for.
ANY_TEXT = st.text(st.characters() | st.characters(categories=["Cs"]))


@given(ANY_TEXT)
def test_any_text_comes_back_from_an_element(text):
    parsed = ElementTree.fromstring(tag("p", text))
    assert len(parsed) == 0
    assert (parsed.text or "") == visible(text)


@given(ANY_TEXT)
def test_any_text_comes_back_from_an_attribute(text):
    parsed = ElementTree.fromstring(tag("p", title=text))
    expected = visible(text).replace("\n", " ").replace("\t", " ")
    assert parsed.attrib == {"title": expected}


@given(ANY_TEXT)
def test_html_reads_the_same_text_as_xml(text):
    assert html.unescape(escape(text)) == visible(text)


@given(ANY_TEXT)
def test_visible_text_can_be_encoded_and_stays_visible(text):
    shown = visible(text)
    shown.encode("utf-8")
    assert len(shown) == len(text)
    assert visible(shown) == shown


def test_only_markup_goes_unescaped():
    assert join(["<b>", Markup("<i></i>")]) == "&lt;b&gt;<i></i>"


def test_void_elements_close_themselves_and_others_do_not():
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8"/>'
    assert tag("td") == "<td></td>"


def test_attributes_take_html_names_and_short_numbers():
    made = tag("line", class_="a", stroke_width=1.5, x1=0.3333333, fill=None)
    assert made == '<line class="a" stroke-width="1.5" x1="0.33"></line>'


def test_control_characters_become_their_pictures():
    assert visible("a\x07\r\x9f\u202e\ud800") == "a\u2407\u240d\ufffd\ufffd\ufffd"
