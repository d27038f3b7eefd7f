"""Levels from the text to the model and out again: all that the registry names, and a corpus."""

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from bipe import Positions
from segmenters import Clauses, Levels, Newline, Sentences, mark, registry
from segmenters.align import ByteTable, byte_alphabet
from tests.train.data.corpora import random_documents, shard_writer, write_rows, write_shards
from train.data import JSONL, Corpus, Source
from train.data.preparing.description import describe
from train.data.preparing.engines import Local
from train.data.preparing.prepare import prepare
from train.data.reading.split import Split
from train.data.rows.choices import PACKINGS, Packing
from train.data.rows.loader import collate
from train.data.rows.packing import Rows
from train.data.store.shards import MAX_LEVELS, open_dataset
from train.data.tokenizing.tokenizers import Tokenizer as Encoder
from train.errors import DataError

TEXTS = [
    "# Title\n\nOne, two. Three: four.\n\n## Next\n\n- Mr. A said so.\n- It is.\n",
    "import os\n\n\n@cache\ndef f(a,\n      b):\n    return a\n\n\nclass A:\n    a = 1\n",
    "Lemma a : 1 = 1.\nProof. auto. Qed.\n\n2+3=5\n$a x $.\n\u597d\u3002\u6211\uff0c\u662f",
    "x",
]
NEEDS = {"pattern": {"ends": r"\s"}}
IDS = {piece: index for index, piece in enumerate(byte_alphabet())}
BYTES = ByteTable.from_vocabulary(IDS)
END = len(IDS)


def encoded(text):
    alphabet = {value: letter for letter, value in byte_alphabet().items()}
    return np.array([IDS[alphabet[value]] for value in text.encode()], dtype=np.int64)


# Rows know only how many levels there are: one segmenter of each number of levels.
OF_LEVELS = {len(registry.make(n, **NEEDS.get(n, {})).level_names): n for n in registry.SEGMENTERS}


@pytest.mark.parametrize("name", OF_LEVELS.values())
def test_marks_of_every_level_reach_the_model(name, tmp_path):
    """Written to shards, and read as batches of one document a row."""
    segmenter = registry.make(name, **NEEDS.get(name, {}))
    names = segmenter.level_names
    assert 1 <= len(names) <= MAX_LEVELS and len(set(names)) == len(names)
    expected = {}
    with shard_writer(tmp_path / "x", vocab_size=END + 1, levels=len(names)) as writer:
        for number, text in enumerate(TEXTS):
            ids = encoded(text)
            anchors = BYTES.anchors(text, ids)
            levels = segmenter.choose(text=text).levels_of_tokens(text, anchors)
            levels = (*levels, *[levels[-1][[0, -1]]] * (len(names) - len(levels)))
            expected[len(ids)] = (anchors, levels)
            marks = np.append(mark(anchors, levels), np.uint8(0))
            writer.add(np.append(ids, END), marks, id=str(number), size=len(text.encode()))
    data = open_dataset(tmp_path / "x")
    rows = Rows(data=data, row_length=max(expected) + 1, packing=Packing(strategy="single"))
    about = {"continues": False, "step": 0, "step_targets": 1, "tokens_after": 0}
    batch = collate(rows.read(range(len(rows))), sources=[0] * len(rows), **about)
    for row, padding in enumerate(batch.padding):
        anchors, levels = expected[int((~padding).sum()) - 1]
        for level, cuts in enumerate(levels):
            at = Positions.from_marks(batch.marks, padding=batch.padding, level=level)
            held = np.searchsorted(cuts, anchors, side="right")
            dense = np.unique(held, return_inverse=True)[1]
            assert at.inter[row, : len(anchors)].tolist() == dense.tolist()
    for index, (anchors, levels) in enumerate(expected.values()):
        tokens, marks = data.document(index)
        assert tokens[:-1].tolist() == encoded(TEXTS[index]).tolist()
        assert marks[:-1].tolist() == mark(anchors, levels).tolist()


@pytest.fixture
def corpus(tmp_path):
    rows = [{"id": str(number), "text": text} for number, text in enumerate(TEXTS)]
    return write_rows(tmp_path / "corpus.jsonl", rows)


class Bytes:
    """A tokenizer of bytes."""

    def build(self, texts=None):
        fast = Tokenizer(models.BPE(vocab=IDS | {"<end>": END}, merges=[]))
        fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        fast.decoder = decoders.ByteLevel()
        fast.add_special_tokens(["<end>"])
        return Encoder(fast=fast, eos="<end>")

    def fingerprint(self):
        return {"bytes": 1}


def asked(corpus, **options):
    source = Source(documents=JSONL(path=corpus, id_key="id"), **options)
    split = Split(validation=0, test=0)
    return Corpus(sources={"x": source}, tokenizer=Bytes(), split=split)


CLAUSES = Clauses(of=Newline())


def test_a_source_keeps_the_levels_that_it_asks_for(corpus, tmp_path):
    wanted = asked(corpus, segmenter=CLAUSES, levels=2, longest=20)
    entry = prepare(wanted, out=tmp_path / "out", progress=False).manifest["sources"]["x"]
    assert entry["levels"] == 2 and entry["level_names"] == ["clause", "segment"]
    assert entry["segmenter"]["segmenter"] == "segmenters.Levels"
    data = open_dataset(tmp_path / "out" / "x" / "train")
    kept = Levels(of=CLAUSES, keep=2, longest=20)
    for index, id in enumerate(data.document_ids()):
        anchors = BYTES.anchors(TEXTS[int(id)], encoded(TEXTS[int(id)]))
        expected = mark(anchors, kept.levels(TEXTS[int(id)]))
        assert data.document(index)[1][:-1].tolist() == expected.tolist()
    card = (tmp_path / "out" / "README.md").read_text()
    assert "- segmenter: segmenters.Levels of segmenters.Clauses\n" in card
    assert "- levels: clause, segment\n- longest segment: 20 characters\n" in card
    told = describe(wanted, out=tmp_path / "new", limit=None, if_exists="auto", engine=Local())
    assert "levels: clause, segment" in told and "longest: 20" in told
    assert "tokens per level: clause " in told
    with pytest.raises(DataError, match="must be one of clause, segment"):
        Rows(data=data, row_length=200, packing=Packing(strategy="single", prompt_level="page"))
    by_name = Packing(strategy="single", prompt_level="segment")
    by_number = Packing(strategy="single", prompt_level=1)
    first, second = (
        Rows(data=data, row_length=200, packing=packing) for packing in (by_name, by_number)
    )
    assert first.all_targets() == second.all_targets()


def test_a_bound_in_tokens_holds_in_prepared_data(corpus, tmp_path):
    wanted = asked(corpus, segmenter=Sentences(), longest="8 tokens")
    prepare(wanted, out=tmp_path / "out", progress=False)
    data = open_dataset(tmp_path / "out" / "x" / "train")
    for index in range(len(data)):
        _, marks = data.document(index)
        starts = np.flatnonzero(marks & 2)
        assert np.diff(starts, append=len(marks) - 1).max() <= 8
    with pytest.raises(ValueError, match=r"to keep must be .* among segment, .* for Newline"):
        asked(corpus, segmenter=Newline(), levels=["page"])


@pytest.mark.parametrize("strategy", PACKINGS)
def test_a_level_that_is_read_is_as_if_there_were_no_other(tmp_path, strategy):
    documents = random_documents([3, 29, 1, 17, 8, 40, 2], levels=3)
    write_shards(tmp_path / "all", documents, levels=3, shard_tokens=40)
    packing = Packing(strategy=strategy, split_documents="continue")
    for level in range(3):
        own = [(tokens, marks & 1 | marks >> level & 2) for tokens, marks in documents]
        write_shards(tmp_path / str(level), own, levels=1)
        whole = open_dataset(tmp_path / "all", level=level)
        alone = open_dataset(tmp_path / str(level))
        rows, expected = (Rows(data=d, row_length=8, packing=packing) for d in (whole, alone))
        assert len(rows) == len(expected) > 3
        for row, other in zip(*(r.read(range(len(r))) for r in (rows, expected)), strict=True):
            assert np.array_equal(row.tokens, other.tokens)
            assert np.array_equal(row.marks & 3, other.marks)
            assert np.array_equal(row.carry, other.carry)
