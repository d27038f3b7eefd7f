"""Every kind of tokenizer: chunks have the ids of the whole, tokens the place a slow walk finds."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.segmenters.test_align import oracle_anchors
from tests.train.data.tokenizer_kinds import FRAGMENTS, KINDS, kind, walk
from train.data.tokenizing import tokenizers as module
from train.data.tokenizing.tokenizers import Tokenizer

texts = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)
RULES = {
    "gpt2": "before line end",
    "gpt2_prefix": "before line end",
    "gpt2_nfc": "before line end",
    "cl100k": "after line end",
    "o200k": "after line end",
    "digits": "before line end",
    "llama": "before space or after line end",
    "metaspace_first": "before space",
    "unigram_first": "before space",
    "word_piece_bert": "white space",
    "unigram_whole": None,
    "digits_prefix": None,
}


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

    @settings(database=None)
    @given(batch=st.lists(texts, min_size=1, max_size=3))
    def law(batch):
        for text, (ids, anchors) in zip(batch, tokenizer.encode_batch(batch), strict=True):
            encoding = tokenizer.fast.encode(text, add_special_tokens=False)
            assert ids.tolist() == encoding.ids
            spans = walk(name, fast, text, encoding.tokens)
            assert anchors.tolist() == oracle_anchors(text, spans)

    law()


@pytest.mark.parametrize("name", RULES)
def test_where_texts_are_cut_follows_from_the_structure(name):
    assert Tokenizer(fast=kind(name), eos="</s>").rule.name == RULES[name]


any_characters = st.lists(
    st.one_of(st.sampled_from(FRAGMENTS), st.characters(exclude_categories=["Cs"])), max_size=20
).map("".join)


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", ["gpt2", "o200k", "llama", "metaspace_first", "word_piece_bert"])
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


@pytest.mark.parametrize("name", ["gpt2", "llama", "word_piece_bert"])
def test_a_pickled_tokenizer_is_the_same(name):
    tokenizer = Tokenizer(fast=kind(name), eos="</s>")
    other = pickle.loads(pickle.dumps(tokenizer))
    assert other.fingerprint() == tokenizer.fingerprint()
    assert other.rule.name == tokenizer.rule.name
    text = "The cat\n(a) \u00e9. " * 400
    for one, two in zip(*(t.encode_batch([text, ""])[0] for t in (tokenizer, other)), strict=True):
        assert np.array_equal(one, two)
