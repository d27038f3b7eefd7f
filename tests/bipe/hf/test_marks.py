"""Marks of tokens: the table on a device, the exact rule, and what is refused."""

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from bipe.hf.marks import ExactMarks, IdFlags, positions_of
from segmenters import ChainOfThought, IdTable, Lines, Sentences, TokenMarker, mark
from segmenters.align import anchors_from_offsets
from tests.bipe.hf.conftest import KINDS, TABLE, VOCABULARY, model_of

PIECES = (b"", b" ", b"\n", b".", b" The", b" Mr", b"No", b")", b'"', b"!", b" it", b"\nSo", b"x")
ALPHABET = tuple(bytes([byte]) for byte in range(256))


@pytest.mark.parametrize("segmenter", [Sentences(), Lines(), ChainOfThought()], ids=repr)
def test_flags_mark_as_the_table_does(segmenter):
    table = IdTable.compile(PIECES, segmenter)
    flags = IdFlags.read(table.packed())
    ids = np.random.default_rng(0).integers(len(PIECES), size=(40, 60))
    assert np.array_equal(flags.marks(torch.from_numpy(ids)).numpy(), table.marks(ids))


def test_a_packed_table_is_read_back():
    table = IdTable.compile(PIECES, Sentences())
    read = IdFlags.read(table.packed(size=20))
    assert torch.equal(read.flags[4:6, : len(PIECES)], torch.from_numpy(table.passes))
    assert read.flags[4:6, len(PIECES) :].all()
    assert "not measured" in str(read)
    assert "Sentences" in str(read)


@pytest.mark.parametrize(
    "change",
    [{"flags": "AAAA"}, {"flags": "?"}, {"ids": 21}, {"ids": 10**9}, {"ids": 0}, {"about": None}],
)
def test_a_damaged_table_is_refused(change):
    packed = IdTable.compile(PIECES, Sentences()).packed(size=20) | change
    with pytest.raises(ValueError, match="segment_table"):
        IdFlags.read(packed)


def exact(segmenter):
    return ExactMarks(TokenMarker(segmenter=segmenter, pieces=ALPHABET))


TEXTS = (
    "He left. She (Mr. Smith's aunt) stayed! Why?\nNobody knew. Then it rained on the house.",
    "Eins. Zwei! \U0001f600 Drei? \u4e2d\u6587\u3002\u4e0b\u4e00\u53e5\u3002 The end of all this.",
)


@pytest.mark.parametrize("text", TEXTS)
def test_exact_marks_of_a_whole_text_are_the_segmenters(text):
    data = text.encode()
    ids = torch.tensor([list(data)])
    sizes = [len(character.encode()) for character in text]
    places = np.repeat(np.arange(len(text)), sizes)
    anchors = anchors_from_offsets(text, np.stack([places, places + 1], 1))
    expected = mark(anchors, [Sentences().cut(text)])
    assert exact(Sentences()).marks(ids, whole=True)[0].tolist() == expected.tolist()


@pytest.mark.parametrize("text", TEXTS)
def test_exact_marks_do_not_depend_on_what_was_read_before(text):
    rows = torch.tensor([list(text.encode())[:60], list(TEXTS[0].encode())[:60]])
    rule, generator = exact(Sentences()), np.random.default_rng(0)
    expected = exact(Sentences()).marks(rows)
    for _ in range(60):  # rows grow, shrink and change places, as with candidates and beams
        length = int(generator.integers(1, 61))
        order = torch.from_numpy(generator.permutation(2))
        made = rule.marks(rows[order, :length])
        assert torch.equal(made, expected[order, :length])
    assert len(rule._states) <= 16


def test_padding_is_not_read():
    row = torch.tensor([list(b"A b. C d. E")])
    padded = torch.cat([torch.full((1, 4), ord(".")), row], 1)
    mask = (torch.arange(padded.shape[1]) >= 4)[None].long()
    made = exact(Sentences()).marks(padded, mask=mask)
    assert torch.equal(made[:, 4:], exact(Sentences()).marks(row))


def test_documents_come_from_restarts_and_from_marks():
    marks = torch.tensor([[0, 0, 2, 0, 0, 2, 0]])
    restarts = torch.tensor([[0, 1, 2, 3, 0, 1, 2]])
    at = positions_of(marks, position_ids=restarts)
    assert at.inter.tolist() == [[0, 0, 1, 1, 0, 1, 1]]
    assert at.intra.tolist() == [[0, 1, 0, 1, 0, 0, 1]]
    assert at.packed
    marked = positions_of(marks | torch.tensor([[1, 0, 0, 0, 1, 0, 0]]))
    assert all(
        torch.equal(getattr(at, name), getattr(marked, name))
        for name in ("inter", "intra", "token")
    )
    assert not positions_of(marks, mask=torch.ones_like(marks)).packed


def test_positions_of_padding_start_no_document():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])
    position_ids = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)
    at = positions_of(torch.zeros_like(mask), mask=mask, position_ids=position_ids)
    assert at.document.tolist() == [[-1, -1, 0, 0, 0], [0, 0, 0, 0, -1]]
    assert at.intra.tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 0]]


@pytest.mark.parametrize("kind", ["bipe_rope", "llama_bipe_rope"])
class TestRefused:
    ids = torch.arange(1, 9)[None]

    def cache(self, model):
        cache = DynamicCache(config=model.config)
        model(self.ids, past_key_values=cache, segment_marks=torch.zeros_like(self.ids))
        return cache

    def test_vectors_without_marks(self, kind):
        model = model_of(kind)
        vectors = model.get_input_embeddings()(self.ids)
        with pytest.raises(ValueError, match="inputs_embeds have no ids"):
            model(inputs_embeds=vectors)
        with pytest.raises(ValueError, match="generate needs input_ids"):
            model.generate(inputs_embeds=vectors, max_new_tokens=2)

    def test_a_cache_without_marks_and_with_too_few(self, kind):
        model = model_of(kind)
        with pytest.raises(ValueError, match="8 tokens in the cache needs segment_marks"):
            model(self.ids[:, :1], past_key_values=self.cache(model))
        with pytest.raises(ValueError, match=r"must be \[1, 9\], for all tokens so far"):
            model(
                self.ids[:, :1],
                past_key_values=self.cache(model),
                segment_marks=torch.zeros_like(self.ids[:, :1]),
            )

    def test_a_mask_of_another_form(self, kind):
        with pytest.raises(ValueError, match="it had 4 dimensions"):
            model_of(kind)(self.ids, attention_mask=torch.ones(1, 1, 8, 8))
        with pytest.raises(ValueError, match=r"must be \[1, 8\]"):
            model_of(kind)(self.ids, attention_mask=torch.ones(1, 7))

    def test_no_rule_for_new_tokens(self, kind):
        model = model_of(kind)
        with pytest.raises(ValueError, match=r"call model.follow\(tokenizer\).* of bipe.hf first$"):
            model.generate(self.ids, segmentation="exact", max_new_tokens=2)
        with pytest.raises(ValueError, match="must be 'table' or 'exact'"):
            model.generate(self.ids, segmentation="exactly", max_new_tokens=2)
        model.config.segment_table = None
        with pytest.raises(ValueError, match="segments of these tokens are not known"):
            model.generate(self.ids, max_new_tokens=2)
        assert model.generate(self.ids, max_new_tokens=1, segment_marks=0 * self.ids).shape == (
            1,
            9,
        )

    def test_a_table_of_another_vocabulary(self, kind):
        with pytest.raises(ValueError, match=r"vocabulary \(8\), was: 64"):
            TABLE.packed(size=8)


def test_documents_that_transformers_would_not_keep_apart_are_refused():
    model = model_of("llama_bipe_rope")
    ids, restarts = torch.arange(1, 9)[None], torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]])
    with pytest.raises(ValueError, match="without attention_mask and without a cache"):
        model(ids, position_ids=restarts, attention_mask=torch.ones_like(ids))
    with pytest.raises(ValueError, match="use_cache must be False"):
        model(ids, position_ids=restarts, use_cache=True)


@pytest.mark.parametrize("kind", KINDS[1::2])
def test_exact_segmentation_generates_the_same_with_and_without_a_cache(kind):
    model = model_of(kind)
    pieces = [bytes([32 + id]) for id in range(VOCABULARY)]
    model.follow(TokenMarker(segmenter=Sentences(), pieces=pieces))
    prompt = torch.tensor([[40, 41, 14, 0, 39, 50], [33, 1, 0, 60, 61, 14]])
    given = {"max_new_tokens": 8, "do_sample": False, "segmentation": "exact"}
    expected = model.generate(prompt, use_cache=False, **given)
    assert torch.equal(model.generate(prompt, **given), expected)
    lookup = model.generate(prompt[:1], prompt_lookup_num_tokens=2, **given)
    assert torch.equal(lookup, expected[:1])
