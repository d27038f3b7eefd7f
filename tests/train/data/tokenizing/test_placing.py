"""Every kind of tokenizer: chunks have the ids of the whole, tokens the place a slow walk finds."""

import json

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, models, pre_tokenizers

from segmenters.align import byte_alphabet
from tests.segmenters.test_align import oracle_anchors
from tests.train.data.tokenizer_kinds import FRAGMENTS, KINDS, kind, walk
from train.data.tokenizing import tokenizers as module
from train.data.tokenizing import twin as room
from train.data.tokenizing.tokenizers import SAMPLES, Tokenizer
from train.data.tokenizing.twin import NoTwin, Twin

texts = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)
HOSTILE = [
    "".join(map(chr, range(0x3000))),
    " " * 3000 + "a",
    "\n" * 3000,
    "a" * 3000 + "1" * 3000,
    "</s><|endoftext|> </s>",
    "don't DON'T don\u2019t \u017f\u212a x'\u017f K'\u212a",
    "e\u0301\u200d\ufe0f\U0001f468\u200d\U0001f469 \u0130\u0131 \u00a0\u2028\u0085\x1c\x00",
]
TWINS = {"gpt2", "gpt2_trimmed", "cl100k", "o200k"}
UNCUT = {"unigram_whole", "digits_prefix"}  # what of them has no place to cut


@pytest.fixture
def in_small_parts(monkeypatch):
    """Cut wherever the rule allows, and encode a few characters at a time."""
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 1)
    monkeypatch.setattr(module, "_SLAB_CHARACTERS", 5)
    monkeypatch.setattr(module, "WORTH_A_TWIN", 0)


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", KINDS)
def test_tokens_are_placed_as_a_walk_over_characters_places_them(name, in_small_parts):
    fast = kind(name)
    tokenizer = Tokenizer(fast=fast, eos="</s>")
    assert (tokenizer.twin is not None) is (name in TWINS)
    assert (tokenizer.places is None) is (name in UNCUT)

    @settings(database=None)
    @given(batch=st.lists(texts, min_size=1, max_size=3))
    def law(batch):
        for text, (ids, anchors) in zip(batch, tokenizer.encode_batch(batch), strict=True):
            encoding = tokenizer.fast.encode(text, add_special_tokens=False)
            assert ids.tolist() == encoding.ids
            spans = walk(name, fast, text, encoding.tokens)
            assert anchors.tolist() == oracle_anchors(text, spans)

    law()


@pytest.mark.parametrize("name", ["gpt2_prefix", "metaspace_always", "fallback_whole_always"])
def test_a_space_is_put_behind_added_tokens_not_before_them(name):
    fast = tokenizers.Tokenizer.from_str(kind(name).to_str())
    fast.add_tokens(["<x>"])
    ((_, anchors),) = Tokenizer(fast=fast, eos="</s>").encode_batch(["<x><x>The"])
    assert anchors[:3].tolist() == [0, 3, 6]


any_characters = st.lists(
    st.one_of(st.sampled_from(FRAGMENTS), st.characters(exclude_categories=["Cs"])), max_size=20
).map("".join)


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", [*sorted(TWINS), "llama", "metaspace_first", "word_piece_bert"])
def test_chunks_of_any_text_have_the_ids_of_the_whole(name, in_small_parts):
    tokenizer = Tokenizer(fast=kind(name), eos="</s>")

    @settings(database=None)
    @given(text=any_characters)
    def law(text):
        ((ids, anchors),) = tokenizer.encode_batch([text])
        assert ids.tolist() == tokenizer.fast.encode(text, add_special_tokens=False).ids
        assert (np.diff(anchors) >= 0).all()
        assert ((anchors >= 0) & (anchors < max(1, len(text)))).all()

    law()
    for text in HOSTILE if name in TWINS else ():
        law.hypothesis.inner_test(text)


@pytest.mark.parametrize("name", ["gpt2", "llama", "unigram_whole", "metaspace_always"])
def test_a_text_without_a_place_to_cut_is_encoded_in_bounded_pieces(name, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 8)
    monkeypatch.setattr(module, "LONGEST_CHUNK", 40)
    tokenizer = Tokenizer(fast=kind(name), eos="</s>")
    for text in ("xa" * 300, "x" + "\u4e2d" * 200, "x" + " " * 300, "x\t" * 200):
        longest = max(len(part.content) for part in tokenizer.parts([text]))
        assert longest <= 40
        ((ids, anchors),) = tokenizer.encode_batch([text])
        assert (np.diff(anchors) >= 0).all() and anchors[-1] >= len(text) - 40
        if tokenizer.spelling is not None and name == "gpt2":
            assert tokenizer.decode(ids) == text


def definition(fast):
    return json.loads(fast.to_str())


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
    twin = Twin(definition(fast))
    assert twin.encode(text).tolist() == fast.encode(text).ids
    for texts in ([text, "a b", text], [text], [text, f"a{room._BETWEEN}b"]):
        ids, counts = twin.encode_all(texts)
        assert ids.tolist() == [id for each in texts for id in fast.encode(each).ids]
        assert counts == [len(fast.encode(each).ids) for each in texts]


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
    batches = ["The cat sat. \u00e9\n" * 30, "a" * (room.LONGEST + 9), "x"]
    plain = tokenizer.encode_batch(batches)
    monkeypatch.setattr(module, "WORTH_A_TWIN", 0)
    called = []
    own = Twin.encode
    monkeypatch.setattr(Twin, "encode", lambda *given: called.append(given) or own(*given))
    for batch in (batches, batches[:1] + batches[2:]):
        called.clear()
        found = tokenizer.encode_batch(batch)
        assert bool(called) is (len(batch) == 2)
        expected = plain if len(batch) == 3 else [plain[0], plain[2]]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
