"""Levels from the text to the model and out again."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from bipe import Carry, Positions
from segmenters import Clauses, Levels, Newline, Sentences, mark
from segmenters.align import ByteTable, byte_alphabet
from tests.train.data.corpora import random_documents, write_rows, write_shards
from train.data import JSONL, Corpus, Source
from train.data.preparing.dry_run import describe
from train.data.preparing.engines import Local
from train.data.preparing.prepare import prepare
from train.data.reading.split import Split
from train.data.rows.choices import PACKINGS, Packing
from train.data.rows.loader import collate
from train.data.rows.packing import Rows
from train.data.store.shards import open_dataset
from train.data.tokenizing.tokenizers import Tokenizer as Encoder
from train.errors import DataError

TEXTS = [
    "# Title\n\nOne, two. Three: four.\n\n## Next\n\n- Mr. A said so.\n- It is.\n",
    "import os\n\n\n@cache\ndef f(a,\n      b):\n    return a\n\n\nclass A:\n    a = 1\n",
    "Lemma a : 1 = 1.\nProof. auto. Qed.\n\n2+3=5\n$a x $.\n\u597d\u3002\u6211\uff0c\u662f",
    "x",
]
IDS = {piece: index for index, piece in enumerate(byte_alphabet())}
BYTES = ByteTable.from_vocabulary(IDS)
END = len(IDS)


def encoded(text):
    alphabet = {value: letter for letter, value in byte_alphabet().items()}
    return np.array([IDS[alphabet[value]] for value in text.encode()], dtype=np.int64)


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
def test_a_level_that_is_read_has_the_positions_of_its_segments(tmp_path, strategy):
    names, documents, expected = ("a", "b", "c"), [], {}
    for _, marks in random_documents(np.random.default_rng(0).integers(2, 30, 12), levels=3):
        tokens = len(expected) + np.arange(len(marks))
        documents.append((tokens, marks))
        opens = marks[:, None] >> np.array([1, 2, 3]) & 1
        begins = np.maximum.accumulate(opens * np.arange(len(marks))[:, None])
        places = np.stack([opens.cumsum(0) - 1, np.arange(len(marks))[:, None] - begins], 2)
        expected |= zip(tokens.tolist(), places.tolist(), strict=True)
    description = {"split": "train", "level_names": names}
    given = {"vocab_size": 1000, "levels": 3, "shard_tokens": 40, "description": description}
    write_shards(tmp_path / "x", documents, **given)
    about = {"step": 0, "step_targets": 1, "rows_after": 0, "tokens_after": 0}
    packing = Packing(strategy=strategy, split_documents="continue")
    for level, name in enumerate(names):
        rows = Rows(data=open_dataset(tmp_path / "x", level=name), row_length=8, packing=packing)
        batch = collate(
            rows.read(range(len(rows))), sources=[0] * len(rows), continues=True, **about
        )
        carry = Carry.from_columns(batch.carry)
        at = Positions.from_marks(batch.marks, padding=batch.padding, carry=carry)
        real = at.document >= 0
        found = torch.stack([at.inter[real], at.intra[real]], 1)
        for token, ids in zip(batch.tokens[real].tolist(), found.tolist(), strict=True):
            assert expected[token][level] == ids
