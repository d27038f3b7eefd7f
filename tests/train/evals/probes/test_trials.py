"""Draws, fair and the same for ever; trials of exact length, marked by the rules of the data."""

import hashlib
import re

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from segmenters import anchors_from_offsets, mark
from tests.train.evals.probes.conftest import PHRASES, SEGMENTERS, hay_for, haystack, prose
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import TrainBPE
from train.evals.probes.kinds import KINDS
from train.evals.probes.trials import Draw, Room, Texts, trial

LENGTHS = [20, 256, 1500]


@pytest.fixture(scope="module", params=SEGMENTERS)
def texts(request, tokenizer):
    return Texts(tokenizer=tokenizer, segmenter=SEGMENTERS[request.param])


@pytest.fixture(scope="module")
def hay(texts):
    return hay_for(texts)


def spelt(texts, ids):
    return b"".join(texts.pieces[id] for id in ids.tolist())


def made(name, hay, *, length, depth=0.5, seed=0, candidates=10):
    kind = KINDS[name]
    depth = depth if kind.deep else None
    return trial(
        kind, hay, length=length, depth=depth, candidates=candidates,
        draw=Draw(seed, name, length),
    )  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_trial_has_its_length_its_answers_and_the_marks_of_its_text(name, hay, texts):
    for length in LENGTHS:
        found = made(name, hay, length=length)
        assert found is not None or length < LENGTHS[-1]
        assert found is None or length > LENGTHS[0]
        if found is None:
            continue
        assert len(found.tokens) == len(found.marks) == length
        text = spelt(texts, found.tokens).decode()
        assert all(answer in text for answer in found.answers)
        assert found.right.sum() == len(found.answers) < len(found.right)
        ends = np.cumsum([len(texts.pieces[id]) for id in found.tokens])  # ASCII: bytes, characters
        assert text.isascii()
        offsets = np.stack([np.append(0, ends[:-1]), ends], 1)
        expected = mark(anchors_from_offsets(text, offsets), [texts.segmenter.cut(text)])
        assert np.array_equal(found.marks, expected)


@pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].deep])
@pytest.mark.parametrize("depth", [0.3, 1.0])
def test_the_needle_stands_at_its_depth_and_distance(name, depth, hay, texts):
    found = made(name, hay, length=3000, depth=depth)
    (answer,) = found.answers
    before, told, behind = spelt(texts, found.tokens).decode().partition(answer)
    assert answer not in behind
    assert len(before) / len(before + told + behind) == pytest.approx(depth, abs=0.08)
    if name == "qa":  # its answer stands inside the passage
        behind = behind.partition("\n")[2]
    # From the end of the statement (behind its number, a point, a line end or two words).
    tokens = len(texts.encode([behind])[0])
    assert found.distance_tokens == pytest.approx(tokens, abs=12)
    segment = np.cumsum(found.marks >> 1 & 1)
    assert found.distance_segments == segment[-1] - segment[len(segment) - found.distance_tokens]


def test_statements_stand_before_segments_and_leave_the_text_as_it_was(hay, texts):
    found = made("niah_multikey", hay, length=3000)
    text = spelt(texts, found.tokens).decode()
    stated = re.findall(r"[ \n]?The secret number of [a-z]+-[a-z]+ is \d{7}\.\n?", text)
    assert len(stated) == 4
    for each in stated:
        text = text.replace(each, "\n" if each[0] == each[-1] == "\n" else "", 1)
    whole = spelt(texts, hay.data.tokens).decode()  # it may come again
    intro, _, rest = text.partition("\n")
    assert intro.startswith("Remember")
    assert rest.rpartition("\nWhat is")[0].strip() in whole + whole


def test_a_question_is_answered_by_one_passage_of_many(hay, texts):
    asked = set()
    for seed in range(12):
        found = made("qa", hay, length=3000, seed=seed)
        text = spelt(texts, found.tokens).decode()
        told = re.findall(
            r"(\w+) lies on the river (\w+)\. It was founded by (\w+)\. .* trade in (\w+)\.", text
        )
        assert len(told) > 10 and len({word for town in told for word in town}) == 4 * len(told)
        question = text.rpartition("\n")[2]
        (town,) = (town for town in told if town[0] in question)
        (place,) = (i for i, word in enumerate(("lies", "river", "founded", "trade")) if
                    i and re.search(rf"\b{word}\b", question))  # fmt: skip
        assert found.answers == (town[place],)
        words = {spelt(texts, ids).decode() for ids in found.candidates}
        assert words <= {f" {other[place]}" for other in told} and len(words) == 10
        asked.add(place)
    assert asked == {1, 2, 3}


def test_a_token_that_opens_documents_takes_its_room():
    text = f"{prose(200)}\n{PHRASES}\n" * 3
    built = TrainBPE(vocab_size=700, special_tokens=("<s>",)).build(lambda _: [text])
    begins = Tokenizer(fast=built.fast, eos=built.eos, bos="<s>")
    hay = hay_for(Texts(tokenizer=begins, segmenter=SEGMENTERS["newline"]))
    for seed in range(30):
        found = made("niah_needles", hay, length=512, seed=seed)
        assert len(found.tokens) == 512 and found.tokens[0] == begins.opening[0]


def test_numbers_without_a_statement_are_nowhere_in_the_context(texts):
    small = haystack(texts, prose(12, joint="\n"))  # it comes again, without ends of documents
    found = made("niah_multivalue", small, length=700, candidates=12)
    assert texts.tokenizer.eos_id not in found.tokens and len(found.tokens) > 2 * len(small)
    text = spelt(texts, found.tokens).decode()
    words = [spelt(texts, ids).decode() for ids in found.candidates]
    assert len(set(words)) == 12
    assert [word in text for word in words] == found.right.tolist()
    assert all(re.fullmatch(r" \d{7}", word) for word in words)


def test_drafts_are_the_same_on_every_machine(texts):
    """What a draw makes of its bits is part of the protocol: changing it changes results."""
    room = Room(tokens=2000, count=lambda each: [len(text) for text in each], candidates=10)
    drafted = [kind.draft(Draw(7, name), room) for name, kind in KINDS.items()]
    digest = hashlib.sha256(repr(drafted).encode()).hexdigest()
    assert digest == "2c1cd42efac306d1a635e50c08e7d38fe0ddbcde98b46f2781422385e136d15a"


def test_marks_of_broken_characters_and_of_any_text(texts):
    for text in ("\u00e9t\u00e9. \u4e2d\u6587\u3002 \U0001f600 So. It is!\n", ""):
        (ids,) = texts.encode([text])
        anchors = texts.tokenizer.encode_batch([text])[0][1]
        assert np.array_equal(texts.marks(ids), mark(anchors, [texts.segmenter.cut(text)]))
    halves = np.array(
        [i for i, piece in enumerate(texts.pieces) if piece in (b"\xc3", b"\xe4", b"a")]
    )
    assert len(texts.marks(np.tile(halves, 5))) == 15


@given(
    key=st.lists(st.integers() | st.text(), max_size=4),
    stop=st.integers(1, 2**64),
    items=st.lists(st.integers(), max_size=9),
)
def test_a_key_gives_the_same_draws_and_all_items(key, stop, items):
    one, two = Draw(*key), Draw(*key)
    found = [one.below(stop) for _ in range(5)]
    assert found == [two.below(stop) for _ in range(5)]
    assert all(0 <= number < stop for number in found)
    assert one.shuffled(items) == two.shuffled(items)
    assert sorted(one.shuffled(items)) == sorted(one.sample(items, len(items))) == sorted(items)
