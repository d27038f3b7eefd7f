"""Marks of tokens: the table on a device, the exact rule, and what is refused."""

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from bipe.hf.marks import ExactMarks, IdFlags, positions_of
from segmenters import ChainOfThought, IdTable, Sentences, TokenMarker, mark
from segmenters.align import anchors_from_offsets
from tests.bipe.hf.conftest import TABLE, VOCABULARY, model_of

PIECES = (b"", b" ", b"\n", b".", b" The", b" Mr", b"No", b")", b'"', b"!", b" it", b"\nSo", b"x")
ALPHABET = tuple(bytes([byte]) for byte in range(256))


@pytest.mark.parametrize("segmenter", [Sentences(), ChainOfThought()], ids=repr)
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


def exact():
    return ExactMarks(TokenMarker(segmenter=Sentences(), pieces=ALPHABET))


TEXTS = (
    "He left. She (Mr. Smith's aunt) stayed! Why?\nNobody knew. Then it rained on the house.",
    "Eins. Zwei! \U0001f600 Drei? \u4e2d\u6587\u3002\u4e0b\u4e00\u53e5\u3002 The end of all this.",
)


@pytest.mark.parametrize("text", TEXTS)
def test_exact_marks_are_the_segmenters_whatever_was_read_before(text):
    ids = torch.tensor([list(text.encode())])
    places = np.repeat(np.arange(len(text)), [len(character.encode()) for character in text])
    anchors = anchors_from_offsets(text, np.stack([places, places + 1], 1))
    expected = mark(anchors, [Sentences().cut(text)])
    assert exact().marks(ids, whole=True)[0].tolist() == expected.tolist()
    rows = torch.tensor([list(each.encode())[:60] for each in (text, TEXTS[0])])
    rule, generator = exact(), np.random.default_rng(0)
    expected = exact().marks(rows)
    for _ in range(40):  # rows grow, shrink and change places, as with candidates and beams
        length = int(generator.integers(1, 61))
        order = torch.from_numpy(generator.permutation(2))
        assert torch.equal(rule.marks(rows[order, :length]), expected[order, :length])
    assert len(rule._states) <= 16


def test_padding_is_not_read():
    row = torch.tensor([list(b"A b. C d. E")])
    padded = torch.cat([torch.full((1, 4), ord(".")), row], 1)
    mask = (torch.arange(padded.shape[1]) >= 4)[None].long()
    assert torch.equal(exact().marks(padded, mask=mask)[:, 4:], exact().marks(row))


def test_documents_come_from_restarts_and_from_marks():
    marks = torch.tensor([[0, 0, 2, 0, 0, 2, 0]])
    at = positions_of(marks, position_ids=torch.tensor([[0, 1, 2, 3, 0, 1, 2]]))
    assert at.packed
    for found in (at, positions_of(marks | torch.tensor([[1, 0, 0, 0, 1, 0, 0]]))):
        assert found.inter.tolist() == [[0, 0, 1, 1, 0, 1, 1]]
        assert found.intra.tolist() == [[0, 1, 0, 1, 0, 0, 1]]
        assert found.token.tolist() == [[0, 1, 2, 3, 0, 1, 2]]
    assert not positions_of(marks, mask=torch.ones_like(marks)).packed


def test_positions_of_padding_start_no_document():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])
    position_ids = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)
    at = positions_of(torch.zeros_like(mask), mask=mask, position_ids=position_ids)
    assert at.document.tolist() == [[-1, -1, 0, 0, 0], [0, 0, 0, 0, -1]]
    assert at.intra.tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 0]]


IDS = torch.arange(1, 9)[None]


def cache(model):
    made = DynamicCache(config=model.config)
    model(IDS, past_key_values=made, segment_marks=torch.zeros_like(IDS))
    return made


def vectors(model):
    return model.get_input_embeddings()(IDS)


FEW = {"segment_marks": 0 * IDS[:, :1]}
FEW_IDS = "of 16 tokens are needed, but only 1 have segment_marks and 8 have ids"
REFUSED = [
    (lambda m: m(inputs_embeds=vectors(m)), "inputs_embeds have no ids"),
    (lambda m: m.generate(inputs_embeds=vectors(m)), "generate needs input_ids"),
    (lambda m: m(IDS[:, :1], past_key_values=cache(m)), "8 tokens in the cache needs segment_mar"),
    (lambda m: m(IDS[:, :1], past_key_values=cache(m), **FEW), r"must be \[1, 9\], for all tokens"),
    (lambda m: m(IDS, segment_marks=IDS > 8), "segment_marks must be a tensor.*was: torch.bool"),
    (lambda m: m(IDS, segment_marks=IDS.numpy()), "must be a tensor of numbers.*was: ndarray"),
    (lambda m: m(IDS, segment_marks=[[3, *[0] * 7]]), "segment_marks must be a tensor.*was: list"),
    (lambda m: m(IDS, attention_mask=torch.ones(1, 1, 8, 8)), "it had 4 dimensions"),
    (lambda m: m(IDS, attention_mask=torch.ones(1, 7)), r"attention_mask must be \[1, 8\]"),
    (lambda m: m.generate(IDS, segmentation="exact"), r"model.follow\(tokenizer\).*bipe.hf first$"),
    (lambda m: m.generate(IDS, segmentation="exactly"), "must be 'table' or 'exact', was: 'exac"),
    (lambda m: TABLE.packed(size=8), r"vocabulary \(8\), was: 64"),
    (lambda m: m.prepare_inputs_for_generation(IDS, past_key_values=cache(m), **FEW), FEW_IDS),
]


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize("kind", ["bipe_rope", "llama_bipe_rope"])
def test_what_segments_cannot_be_found_for_is_refused(kind):
    model = model_of(kind)
    for call, reason in REFUSED:
        with pytest.raises(ValueError, match=reason):
            call(model)
    model.config.segment_table = None
    with pytest.raises(ValueError, match="segments of these tokens are not known"):
        model.generate(IDS, max_new_tokens=2)
    made = model.generate(IDS, max_new_tokens=1, segment_marks=0 * IDS)
    assert made.shape == (1, 9)


def test_documents_that_transformers_would_not_keep_apart_are_refused():
    model, restarts = model_of("llama_bipe_rope"), torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]])
    with pytest.raises(ValueError, match="without attention_mask and without a cache"):
        model(IDS, position_ids=restarts, attention_mask=torch.ones_like(IDS))
    with pytest.raises(ValueError, match="use_cache must be False"):
        model(IDS, position_ids=restarts, use_cache=True)


@pytest.mark.parametrize("kind", ["bipe_rope", "bipe_alibi", "llama_bipe_rope"])
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
