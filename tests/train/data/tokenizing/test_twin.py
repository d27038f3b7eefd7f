"""tiktoken encodes instead of tokenizers only where it gives the same ids."""

import json

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, models, pre_tokenizers

from segmenters.align import byte_alphabet
from tests.train.data.tokenizer_kinds import FRAGMENTS, KINDS, kind
from train.data.tokenizing import tokenizers as module
from train.data.tokenizing import twin as room
from train.data.tokenizing.tokenizers import SAMPLES, Tokenizer
from train.data.tokenizing.twin import NoTwin, Twin

TWINS = {"gpt2", "gpt2_trimmed", "cl100k", "o200k"}
HOSTILE = [
    "".join(map(chr, range(0x3000))),
    " " * 3000 + "a",
    "\n" * 3000,
    "a" * 3000 + "1" * 3000,
    "</s><|endoftext|> </s>",
    "don't DON'T don\u2019t \u017f\u212a x'\u017f K'\u212a",
    "e\u0301\u200d\ufe0f\U0001f468\u200d\U0001f469 \u0130\u0131 \u00a0\u2028\u0085\x1c\x00",
]


def definition(fast):
    return json.loads(fast.to_str())


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", KINDS)
def test_a_twin_is_there_where_it_is_proved_and_gives_the_same_ids(name):
    tokenizer = Tokenizer(fast=kind(name), eos="</s>")
    assert (tokenizer.twin is not None) is (name in TWINS)
    if tokenizer.twin is None:
        return

    @settings(database=None)
    @given(text=st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join) | st.text())
    def law(text):
        same(tokenizer.fast, tokenizer.twin, text)

    law()
    for text in HOSTILE:
        same(tokenizer.fast, tokenizer.twin, text)


def same(fast, twin, text):
    assert twin.encode(text).tolist() == fast.encode(text, add_special_tokens=False).ids


LETTERS = st.text("ab ", min_size=1, max_size=4)


@settings(database=None)
@given(pairs=st.lists(st.tuples(LETTERS, LETTERS), max_size=12), text=st.text("ab ", max_size=40))
def test_any_list_of_merges_has_a_twin(pairs, text):
    """Also one with several merges of a token, and with tokens that no text is merged to."""
    spelled = {letter: byte for byte, letter in enumerate(byte_alphabet())}
    pairs = [(a.replace(" ", "\u0120"), b.replace(" ", "\u0120")) for a, b in pairs]
    for a, b in pairs:
        for token in (a, b, a + b):
            spelled.setdefault(token, len(spelled))
    fast = tokenizers.Tokenizer(models.BPE(spelled, [*dict.fromkeys(pairs)]))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    same(fast, Twin(definition(fast)), text)


def test_what_has_no_proof_says_why():
    fast = kind("gpt2")
    for change, told in (
        ({"normalizer": {"type": "NFC"}}, "a normaliser changes texts"),
        ({"pre_tokenizer": None}, "the pre-tokenizer is none"),
        ({"pre_tokenizer": {"type": "ByteLevel", "use_regex": False, "add_prefix_space": False}},
         "splits never"),
    ):  # fmt: skip
        with pytest.raises(NoTwin, match=told):
            Twin(definition(fast) | change)
    whole = definition(fast)
    whole["model"] |= {"ignore_merges": True, "vocab": whole["model"]["vocab"] | {"zzzz": 9999}}
    with pytest.raises(NoTwin, match="cannot be made by merges"):
        Twin(whole)


def test_a_difference_is_found_by_the_sample_and_by_the_classes(monkeypatch):
    twin = Twin(definition(kind("gpt2")))
    with pytest.raises(NoTwin, match="other ids"):
        twin.require_same(kind("cl100k"), SAMPLES)
    assert room._holds_the_same(r"\p{L}")
    monkeypatch.setattr(room.tokenizers, "Regex", lambda _: Regex("[a-z]"))
    room._holds_the_same.cache_clear()
    with pytest.raises(NoTwin, match="other characters"):
        twin.require_same(kind("gpt2"), SAMPLES)
    room._holds_the_same.cache_clear()


def test_large_batches_go_through_the_twin_and_long_runs_do_not(monkeypatch):
    tokenizer = Tokenizer(fast=kind("gpt2"), eos="</s>")
    texts = ["The cat sat. \u00e9\n" * 30, "a" * (room.LONGEST + 9), "x"]
    plain = tokenizer.encode_batch(texts)
    monkeypatch.setattr(module, "WORTH_A_TWIN", 0)
    called = []
    own = Twin.encode
    monkeypatch.setattr(Twin, "encode", lambda *given: called.append(given) or own(*given))
    for batch in (texts, texts[:1] + texts[2:]):
        called.clear()
        found = tokenizer.encode_batch(batch)
        assert bool(called) is (len(batch) == 2)
        expected = plain if len(batch) == 3 else [plain[0], plain[2]]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
