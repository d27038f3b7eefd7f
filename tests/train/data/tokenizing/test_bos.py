"""A token that begins documents: everywhere the same, or nowhere."""

import json
from itertools import chain

import numpy as np
import pytest

from segmenters import Sentences
from tests.train.data.corpora import prepared
from tests.train.evals.probes.conftest import hay_for
from train.data.preparing.source import Source
from train.data.reading.files import TextFiles
from train.data.reading.split import Split
from train.data.store.shards import open_dataset
from train.data.tokenizing.vocabulary import LoadTokenizer, TrainBPE
from train.errors import DataError
from train.evals.probes.answers import copy, induction
from train.evals.probes.haystack import Draw, Texts
from train.evals.probes.kinds import KINDS
from train.evals.probes.trials import trial

TEXTS = ["One two. Three four.", "Five. Six seven."]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A tokenizer whose configuration names what begins a text."""
    folder = tmp_path_factory.mktemp("tokenizer")
    made = TrainBPE(vocab_size=270, special_tokens=["<s>"]).build(lambda characters: TEXTS)
    (folder / "tokenizer.json").write_text(made.json)
    config = {"bos_token": "<s>", "eos_token": made.eos}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def data(files, out, **options):
    for number, text in enumerate(TEXTS):
        (out / f"{number}.txt").write_text(text)
    source = Source(
        documents=TextFiles(path=out), segmenter=Sentences(), split=Split(validation=0, test=0)
    )
    tokenizer = LoadTokenizer(path=files, **options)
    return prepared({"text": source}, out / "data", tokenizer=tokenizer)


def test_it_begins_each_document_and_its_first_segment(files, tmp_path):
    made = data(files, tmp_path, bos="document")
    bos = made.manifest["tokenizer"]["bos_id"]
    kept = LoadTokenizer(path=made.folder).build()  # as evaluate, generate and scrolls open it
    assert kept.bos_id == bos == kept.fast.token_to_id("<s>") == kept.opening
    stored = open_dataset(made.folder / "text" / "train")
    for index, text in enumerate(TEXTS):
        ids, marks = stored.document(index)
        ((own, _),) = kept.encode_documents([text])
        assert ids.tolist() == [*own.tolist(), kept.eos_id] and ids[0] == bos
        assert kept.decode(ids[1:-1]) == text and marks[0] & 1
        assert np.flatnonzero(marks & 2)[0] == 0 and (marks[1] & 3) == 0
        assert np.count_nonzero(marks & 2) == 2


def test_it_is_off_by_default_and_then_nothing_is_other(files, tmp_path):
    made = data(files, tmp_path)
    assert "bos_id" not in made.manifest["tokenizer"]
    assert "bos" not in made.manifest["request"]["tokenizer"]
    tokenizer = LoadTokenizer(path=made.folder).build()
    assert tokenizer.bos_id is None and not len(tokenizer.opening)
    plain, own = (tokenizer.encode_batch(TEXTS), tokenizer.encode_documents(TEXTS))
    assert all(np.array_equal(a, b) for a, b in zip(chain(*plain), chain(*own), strict=True))


def test_a_tokenizer_without_one_is_refused(tmp_path):
    made = TrainBPE(vocab_size=270).build(lambda characters: TEXTS)
    (tmp_path / "tokenizer.json").write_text(made.json)
    with pytest.raises(DataError, match=r"name it as bos_token in tokenizer_config\.json, or"):
        LoadTokenizer(path=tmp_path, bos="document").build()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "e"}))
    with pytest.raises(DataError, match=r"bos=e is not a special token"):
        LoadTokenizer(path=tmp_path, bos="document").build()
    with pytest.raises(DataError, match=r"bos must be none or document, was: yes"):
        LoadTokenizer(path=tmp_path, bos="yes")


def test_trials_begin_with_it_once_and_keep_their_length(files):
    tokenizer = LoadTokenizer(path=files, bos="document").build()
    hay = hay_for(Texts(tokenizer=tokenizer, segmenter=Sentences()))
    draw = Draw(0, "passkey", 900)
    found = trial(KINDS["passkey"], hay, length=900, depth=0.5, candidates=4, draw=draw)
    assert found is not None
    for ids in (
        found.tokens,
        *(make(hay, length=901, depth=0.5, draw=draw).tokens for make in (copy, induction)),
    ):
        assert np.flatnonzero(ids == tokenizer.bos_id).tolist() == [0]
    assert len(found.tokens) == len(found.marks) == 900
    assert found.marks[0] & 3 == 3 and found.marks[1] & 3 == 0
