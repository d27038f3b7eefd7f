"""Tokenizers: the ids of chunks are those of the whole, and every token has its place."""

import json
from itertools import chain

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from segmenters import Sentences
from tests.train.data.corpora import prepared
from tests.train.evals.probes.conftest import hay_for
from train.data.preparing.source import Source
from train.data.reading.files import TextFiles
from train.data.reading.split import Split
from train.data.store.shards import open_dataset
from train.data.tokenizing.tokenizers import SAMPLE
from train.data.tokenizing.vocabulary import END, LoadTokenizer, TrainBPE
from train.errors import DataError
from train.evals.probes.answers import copy, induction
from train.evals.probes.haystack import Draw, Texts
from train.evals.probes.kinds import KINDS
from train.evals.probes.trials import trial

CORPUS = [SAMPLE, "def f(x):\n    return x + 12\n\nThe cat sat. It slept.\n" * 50]


@pytest.fixture(scope="module")
def trained():
    return TrainBPE(vocab_size=400).build(lambda _: CORPUS)


def gpt2_like():
    fast = tokenizers.Tokenizer(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    given = {"vocab_size": 400, "special_tokens": ["</s>"], "initial_alphabet": alphabet}
    fast.train_from_iterator(CORPUS, trainers.BpeTrainer(show_progress=False, **given))
    return fast


def test_training_twice_gives_the_same_vocabulary_and_it_loads_as_itself(trained, tmp_path):
    assert TrainBPE(vocab_size=400).build(lambda _: CORPUS).json == trained.json
    (tmp_path / "tokenizer.json").write_text(trained.json, encoding="utf-8")
    loaded = LoadTokenizer(path=tmp_path / "tokenizer.json").build()
    assert loaded.fingerprint() == trained.fingerprint()
    assert 257 < trained.vocab_size <= 400
    assert trained.decode([trained.eos_id]) == END


words = st.sampled_from(["a", "5", " ", "\n", "\r", "\t", ".", "'s", "\u4e2d", "\u00e9", "\u3000"])
varied = st.lists(st.one_of(words, st.characters(exclude_categories=["Cs"]))).map("".join)


@given(text=varied)
def test_ids_decode_to_the_text_and_anchors_rise(trained, text):
    ((ids, anchors),) = trained.encode_batch([text])
    assert trained.decode(ids) == text
    assert ids.shape == anchors.shape
    assert np.all(np.diff(anchors) >= 0)
    assert np.all((anchors >= 0) & (anchors < max(1, len(text))))


def test_a_special_token_spelled_in_a_text_is_characters(trained):
    ((ids, _),) = trained.encode_batch([f"a{END}b"])
    assert trained.eos_id not in ids
    assert trained.decode(ids) == f"a{END}b"


def test_truncation_padding_and_dropout_of_a_file_are_off(tmp_path):
    fast = gpt2_like()
    fast.enable_truncation(4)
    fast.enable_padding(length=64)
    fast.model.dropout = 0.5
    fast.save(str(tmp_path / "tokenizer.json"))
    tokenizer = LoadTokenizer(path=tmp_path).build()
    first, second = tokenizer.encode_batch([CORPUS[1]] * 2)
    assert tokenizer.decode(first[0]) == CORPUS[1]
    assert np.array_equal(first[0], second[0])


@pytest.mark.parametrize(
    "normaliser", [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace("a", "b")]
)
def test_a_tokenizer_that_normalises_is_kept_or_dropped_or_refused(tmp_path, normaliser):
    fast = gpt2_like()
    fast.normalizer = normalizers.Sequence([normaliser])
    fast.save(str(tmp_path / "tokenizer.json"))
    name = type(normaliser).__name__
    with pytest.raises(DataError, match=rf"normalises text \({name}\).*normaliser=drop"):
        LoadTokenizer(path=tmp_path, normaliser="refuse").build()
    tokenizer = LoadTokenizer(path=tmp_path, normaliser="drop").build()
    assert tokenizer.decode(tokenizer.encode_batch(["Aa"])[0][0]) == "Aa"
    kept = LoadTokenizer(path=tmp_path).build()
    ((ids, anchors),) = kept.encode_batch(["a\ufb01 Aa"])
    assert kept.decode(ids) == normaliser.normalize_str("a\ufb01 Aa")
    assert anchors[-1] in (3, 4)
    with pytest.raises(DataError, match="normaliser must be keep, drop, refuse, was: no"):
        LoadTokenizer(path=tmp_path, normaliser="no")


def test_the_end_of_document_comes_from_the_folder(tmp_path):
    fast = gpt2_like()
    fast.add_special_tokens(["[STOP]"])
    fast.save(str(tmp_path / "tokenizer.json"))
    for config, piece in (({}, "</s>"), ({"eos_token": "[STOP]"}, "[STOP]")):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        assert LoadTokenizer(path=tmp_path).build().eos_id == fast.token_to_id(piece)
    with pytest.raises(DataError, match=r"eos=\[NO\] is not in the vocabulary"):
        LoadTokenizer(path=tmp_path, eos="[NO]").build()


def test_what_is_no_tokenizer_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such tokenizer file or folder"):
        LoadTokenizer(path=tmp_path / "no").build()
    with pytest.raises(DataError, match=r"contains none of tokenizer.json, tokenizer.model"):
        LoadTokenizer(path=tmp_path).build()
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    with pytest.raises(DataError, match=r"tokenizer.model: not a SentencePiece model"):
        LoadTokenizer(path=tmp_path).build()
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="not a fast tokenizer"):
        LoadTokenizer(path=tmp_path).build()


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
