"""Line ends in prose: what is wrapped, what is a paragraph, and what is a heading."""

import random
import textwrap

import pytest

from segmenters import Online, Sentences
from tests.segmenters.texts import pieces

AUTO = Sentences(line_ends="auto")
_SENTENCE = "the house on a hill of stone was old and nobody in our town had ever seen it"
_WORDS = _SENTENCE.split(" ")


def paragraph(draw, *, words):
    """Make sentences of small words and names, so that lines start with either."""
    chosen = [draw.choice(_WORDS) for _ in range(words)]
    chosen = [word.capitalize() if draw.random() < 0.3 else word for word in chosen]
    return " ".join(chosen).capitalize() + "."


@pytest.mark.parametrize("width", [50, 72, 96])
@pytest.mark.parametrize("seed", range(3))
def test_wrapped_text_is_cut_as_if_it_were_not(seed, width):
    draw = random.Random(seed)
    whole = [paragraph(draw, words=draw.choice((30, 80, 150))) for _ in range(20)]
    text = "\n\n".join(textwrap.fill(each, width) for each in whole)
    assert AUTO.cut(text).tolist() == Sentences().cut(text).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_paragraphs_of_a_line_each_start_sentences(seed):
    draw = random.Random(seed)
    lines = ["A Title"]
    for _ in range(30):
        lines.append(paragraph(draw, words=draw.choice((12, 40, 90))).rstrip("."))
    text = "\n".join(lines)
    # Two line ends tell what the others are.
    expected = [line + "\n" for line in lines[:-1]] + lines[-1:]
    assert pieces(text, AUTO)[-27:] == expected[-27:]
    assert len(Sentences().cut(text)) < len(lines)


def test_short_lines_of_wrapped_text_are_headings_lists_and_verse():
    body = textwrap.fill(" ".join([_SENTENCE] * 8).capitalize() + ".", 72)
    text = f"{body}\n\nSigned by\nAnn Lee\n\n{body}\n\nBring with you:\nBread\nMilk and honey\n"
    assert [piece.strip() for piece in pieces(text, AUTO) if len(piece) < 40] == [
        *("Signed by", "Ann Lee", "Bring with you:", "Bread", "Milk and honey")
    ]


def test_informal_lines_may_begin_with_small_letters():
    question = "what to do in a town like this one?\nokay so i live there.\nsee it\nYes"
    for text in ("love this park\nit is great\nthe best", question):
        assert pieces(text, AUTO) == text.splitlines(keepends=True)
    wrapped = f"{_SENTENCE.capitalize()}, not\nthat of\nan old man."
    assert pieces(wrapped, AUTO) == [wrapped]


def test_every_line_may_be_a_paragraph():
    assert pieces("one\ntwo. Three\nfour", Sentences(line_ends="paragraph")) == [
        *("one\n", "two. ", "Three\n", "four")
    ]


def test_levels_are_named():
    text = "CHAPTER I\n\nIt rained. We left.\n\nThen it stopped.\n\n2.1 On rain\n\nNo. Yes.\n"
    assert Sentences().level_names == ("sentence", "paragraph", "section")
    for level, begins in ((1, ["CHAPTER", "It", "Then", "2.1", "No."]), (2, ["CHAPTER", "2.1"])):
        assert [piece.split()[0] for piece in pieces(text, Sentences(), level=level)] == begins


HEADINGS = [
    *("Chapter One", "Part II. The Sea", "Kapitel 3", "XIV.", "THE WHITE WHALE", "A Title\n=======")
]
NO_HEADINGS = [
    *(
        "It rained in the town.",
        "1. Take two eggs.",
        "1. Take two eggs. ",
        "I.B.M.",
        "Part of it was lost",
        "NO",
    )
]


@pytest.mark.parametrize("line", [*HEADINGS, "3.2 Results", *NO_HEADINGS])
def test_headings_start_sections(line):
    text = f"It rained.\n\n{line}\n\nWe left.\n"
    assert (len(Sentences().levels(text)[2]) == 3) is (line not in NO_HEADINGS)


LISTS = (
    "Take:\n- bread and\n- milk\n\n1. One\n2. Two\n****\n"
    "It is \u201cso.\n\nNo\u201d. We\nleft\n\nTHE END\n\nYes."
)


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("line_ends", ["wrapped", "paragraph", "auto"])
def test_line_ends_with_returns_are_line_ends(end, line_ends):
    segmenter, text = Sentences(line_ends=line_ends), LISTS.replace("\n", end)
    for level in range(3):
        expected = [each.replace("\n", end) for each in pieces(LISTS, segmenter, level=level)]
        assert pieces(text, segmenter, level=level) == expected
    for level in range(2):
        machine = segmenter.level_machine(level)
        ends = [end for character in text for end in machine.push(character)]
        assert [*ends, len(text)] == segmenter.levels(text)[level].tolist()[1:]


def test_online_and_batch_agree_without_reading_ahead():
    assert AUTO.lookahead == 1
    online = Online(segmenter=AUTO)
    assert [online.push(piece)[0] for piece in ("Title", "\n", "We", " left")] == [3, 0, 2, 0]
