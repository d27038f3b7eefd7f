"""Tokenizers of every kind of file give the ids of their own libraries, and begin and end texts."""

import base64
import io
import json
from itertools import chain

import numpy as np
import pytest
import sentencepiece
import tiktoken
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from segmenters import Sentences
from segmenters.align import byte_alphabet
from tests.train.data.corpora import prepared
from tests.train.data.tokenizer_kinds import CORPUS, FRAGMENTS, kind
from tests.train.evals.probes.conftest import hay_for
from train.data.preparing.source import Source
from train.data.reading.files import TextFiles
from train.data.reading.split import Split
from train.data.rows.sets import DataSets
from train.data.store.shards import open_dataset
from train.data.tokenizing import sentencepiece_model
from train.data.tokenizing import tokenizers as module
from train.data.tokenizing.tiktoken_ranks import PATTERNS, merges, read_ranks
from train.data.tokenizing.tokenizers import SAMPLE, Tokenizer
from train.data.tokenizing.vocabulary import LoadTokenizer, TrainBPE
from train.errors import DataError
from train.evals.probes.kinds import KINDS
from train.evals.probes.measure import COPIES
from train.evals.probes.trials import Draw, Texts, trial
from train.fit.handover import files_of_data

texts = st.lists(
    st.sampled_from([*FRAGMENTS, "</s>", "<unk>", "<0x41>", "<tag>", "aaa", "    "]), max_size=14
)
MODELS = {
    "bpe": {"model_type": "bpe", "byte_fallback": True, "remove_extra_whitespaces": False},
    "bpe_nfkc": {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc"},
    "bpe_no_prefix": {"model_type": "bpe", "add_dummy_prefix": False, "byte_fallback": True},
    "bpe_symbols": {"model_type": "bpe", "byte_fallback": True, "remove_extra_whitespaces": False}
    | {"user_defined_symbols": ["<tag>", "\n\n", "[x]"]},
    "unigram": {"model_type": "unigram", "byte_fallback": True},
    "unigram_spaces": {"model_type": "unigram", "remove_extra_whitespaces": False},
}


@pytest.fixture(scope="module")
def model_bytes():
    """Train a small SentencePiece model; its bytes."""
    made = {}

    def train(name, **options):
        if name not in made:
            target = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(" ".join(CORPUS).split("\n") * 3),
                model_writer=target,
                hard_vocab_limit=False,
                vocab_size=600,
                character_coverage=0.999,
                minloglevel=2,
                **{"normalization_rule_name": "identity", **MODELS.get(name, {}), **options},
            )
            made[name] = target.getvalue()
        return made[name]

    return train


@pytest.fixture
def in_small_parts(monkeypatch):
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 1)


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", MODELS)
def test_a_sentencepiece_model_gives_its_own_ids(name, model_bytes, tmp_path, in_small_parts):
    (tmp_path / "own.model").write_bytes(model_bytes(name))
    tokenizer = LoadTokenizer(path=tmp_path).build()
    original = sentencepiece.SentencePieceProcessor(model_proto=model_bytes(name))
    assert tokenizer.eos_id == original.eos_id()

    @settings(database=None)
    @given(parts=texts)
    def law(parts):
        text = "".join(parts)
        ((ids, anchors),) = tokenizer.encode_batch([text])
        assert ids.tolist() == original.encode(text)
        assert (anchors[1:] >= anchors[:-1]).all()

    law()
    for spelled in ("<unk>", "<s>", "</s>", "<0x41>", "<0x0A>", "<0x4<0x41>>"):  # they are text
        for text in (f"<tag>{spelled}", f"a\n\n{spelled}[x]{spelled}<tag>b", f"a<{spelled}>\n0x"):
            ((ids, _),) = tokenizer.encode_batch([text])
            assert ids.tolist() == original.encode(text)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model_type": "char"}, "type is CHAR"),
        ({"model_type": "bpe", "treat_whitespace_as_suffix": True}, "writes spaces as suffixes"),
        ({"model_type": "unigram", "user_defined_symbols": ["<tag>"]}, "user-defined symbols"),
    ],
)
def test_a_model_without_an_exact_form_is_refused(options, told, model_bytes, tmp_path):
    path = tmp_path / "tokenizer.model"
    path.write_bytes(model_bytes(str(options), **options))
    with pytest.raises(DataError, match=rf"tokenizer.model: .*{told}.*, which no fast tokenizer"):
        LoadTokenizer(path=path).build()


def test_a_damaged_model_or_conversion_is_refused(model_bytes, tmp_path, monkeypatch):
    data = model_bytes("bpe")
    for broken in (data[:1000], b"", b"\xff" * 50, b"{}"):
        (tmp_path / "tokenizer.model").write_bytes(broken)
        with pytest.raises(DataError, match=r"tokenizer\.model: not a SentencePiece model"):
            LoadTokenizer(path=tmp_path).build()
    (tmp_path / "tokenizer.model").write_bytes(data)
    reversed_ = lambda *given: merges(*given)[::-1]  # noqa: E731
    monkeypatch.setattr(sentencepiece_model, "merges", reversed_)
    with pytest.raises(DataError, match="not exact: SentencePiece gives other ids"):
        LoadTokenizer(path=tmp_path).build()


def ranks_of(fast):
    """Ranks {bytes: rank} as tiktoken has them, of a trained byte-level BPE."""
    alphabet = byte_alphabet()
    definition = json.loads(fast.to_str())["model"]
    ranks = {bytes([byte]): byte for byte in range(256)}
    for left, right in definition["merges"]:
        ranks.setdefault(bytes(map(alphabet.__getitem__, left + right)), len(ranks))
    return ranks


def copied(name):
    return type(kind(name)).from_str(kind(name).to_str())


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k"])
def test_a_tiktoken_file_gives_the_ids_of_tiktoken(name, tmp_path, in_small_parts):
    ranks = ranks_of(kind("o200k"))
    path = tmp_path / f"{name}_base.tiktoken"
    path.write_text(lines_of(ranks))
    assert read_ranks(path) == ranks
    tokenizer = LoadTokenizer(path=path).build()
    assert tokenizer.places.search("a\nb c").start() == (2 if "00k" in name else 1)
    assert tokenizer.spelling is not None
    assert LoadTokenizer(path=path, pattern=r"\w+|\W").build().places is None
    original = tiktoken.Encoding(
        name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens={}
    )

    @settings(database=None)
    @given(parts=texts)
    def law(parts):
        text = "".join(parts)
        ((ids, _),) = tokenizer.encode_batch([text])
        assert ids.tolist() == original.encode_ordinary(text)
        assert tokenizer.decode(ids) == text

    law()


PRINTED = {"tokenizer.json": lambda: kind("gpt2").to_str()}
RANKS = {bytes([byte]): byte for byte in range(256)}


def lines_of(ranks):
    return "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())


def configured(text):
    return PRINTED | {"tokenizer_config.json": text}


def spread(last):
    """Return a tokenizer.json with an id far behind the others."""
    definition = json.loads(kind("gpt2").to_str())
    definition["model"]["vocab"]["far"] = last
    return json.dumps(definition)


@pytest.mark.parametrize(
    ("files", "options", "told"),
    [
        ({}, {"path": "no"}, "no such tokenizer file or folder"),
        ({}, {}, "contains none of tokenizer.json, tokenizer.model"),
        ({"tokenizer.json": "{}"}, {}, "not a fast tokenizer"),
        (PRINTED, {"eos": "[NO]"}, r"eos=\[NO\] is not in the vocabulary"),
        (PRINTED, {"bos": "document"}, r"name it as bos_token in tokenizer_config\.json, or"),
        (configured('{"bos_token": "e"}'), {"bos": "document"}, "bos=e is not a special token"),
        (configured("["), {}, "must be a JSON object"),
        (
            {"tokenizer.json": lambda: spread(1 << 30)},
            {},
            "must be below 4,194,304, were up to",
        ),
        (configured('{"eos_token": "\\ud800"}'), {}, "must not hold half of a character"),
        (configured('{"added_tokens_decoder": [1]}'), {}, "must hold tokens with their content"),
        (configured('{"added_tokens_decoder": {"x": {}}}'), {}, r"was: \{'x': \{\}\}; remove it"),
        (
            configured('{"added_tokens_decoder": {"5": {"content": "<end>"}}}'),
            {},
            r"added token '<end>' must have id 5, was: \d+",
        ),
        ({"a.tiktoken": lines_of(RANKS)}, {}, "set corpus.tokenizer.pattern to one of gpt2, r50k"),
        ({"a.tiktoken": lines_of(RANKS)}, {"pattern": "("}, "pattern must be a regular expression"),
        ({"gpt2.tiktoken": "YQ==\n"}, {}, "line 1: not BASE64 RANK"),
        ({"gpt2.tiktoken": "\nYQ== x\n"}, {}, "line 2"),
        ({"gpt2.tiktoken": "!! 3\n"}, {}, "line 1"),
        ({"gpt2.tiktoken": "YQ== 0\n"}, {}, "no rank for the byte 0"),
        ({"gpt2.tiktoken": lines_of(RANKS | {b"aa": 7})}, {}, "two tokens have the same rank"),
    ],
)
def test_what_is_no_tokenizer_is_refused(tmp_path, files, options, told):
    for name, text in files.items():
        (tmp_path / name).write_text(text if isinstance(text, str) else text())
    name = next((name for name in files if name.endswith("tiktoken")), "")
    with pytest.raises(DataError, match=told):
        LoadTokenizer(**{**options, "path": tmp_path / options.get("path", name)}).build()


@pytest.mark.parametrize(
    "model",
    [models.BPE(unk_token="?"), models.WordPiece(unk_token="?"), models.Unigram([("x", 0.0)])],
)
def test_an_unknown_piece_that_the_vocabulary_lacks_is_named(model):
    fast = tokenizers.Tokenizer(model)
    fast.pre_tokenizer = pre_tokenizers.Metaspace()
    fast.add_special_tokens(["</s>"])
    with pytest.raises(DataError, match="add the unknown piece of its model to the vocabulary"):
        Tokenizer(fast=fast, eos="</s>")


def test_an_unknown_piece_is_not_needed_where_all_bytes_are_known():
    definition = json.loads(kind("llama").to_str())
    definition["model"]["unk_token"] = "?"
    fast = tokenizers.Tokenizer.from_str(json.dumps(definition))
    ((ids, _),) = Tokenizer(fast=fast, eos="</s>").encode_batch(["a\U0001f600"])
    assert fast.decode(ids) == " a\U0001f600"


def test_documents_end_as_in_the_prepared_data_of_the_folder(tmp_path):
    """Whoever reads prepared data again finds the end that was chosen, known spelling or not."""
    fast = kind("gpt2")
    fast.add_special_tokens(["</s>", "<over>"])
    fast.save(str(tmp_path / "tokenizer.json"))
    prints = []
    for piece in ("</s>", "<over>"):
        chosen = fast.token_to_id(piece)
        (tmp_path / "manifest.json").write_text(json.dumps({"tokenizer": {"eos_id": chosen}}))
        assert LoadTokenizer(path=tmp_path).build().eos_id == chosen
        prints.append(LoadTokenizer(path=tmp_path).fingerprint())
    ids = {"bos_id": chosen, "eos_id": chosen}
    (tmp_path / "manifest.json").write_text(json.dumps({"tokenizer": ids}))
    prints.append(LoadTokenizer(path=tmp_path).fingerprint())
    assert len({each["sha256"] for each in prints}) == 3
    (tmp_path / "manifest.json").write_text("of another program")
    assert LoadTokenizer(path=tmp_path).build().eos == "</s>"


def test_what_the_configuration_of_a_folder_says_counts(tmp_path):
    fast = kind("gpt2")
    fast.save(str(tmp_path / "tokenizer.json"))
    added = {str(fast.get_vocab_size()): {"content": "<end>", "special": True}}
    config = {"add_prefix_space": True, "added_tokens_decoder": added, "eos_token": "<end>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = LoadTokenizer(path=tmp_path).build()
    assert tokenizer.eos_id == fast.get_vocab_size()
    ((ids, _),) = tokenizer.encode_batch(["a<end>"])
    assert tokenizer.decode(ids) == " a<end>" and tokenizer.eos_id not in ids


def test_special_tokens_are_never_made_of_characters_and_added_ones_keep_their_ids():
    """A Unigram vocabulary holds the spellings of its special tokens as pieces."""
    tokenizer = Tokenizer(fast=kind("unigram_first"), eos="</s>")
    ((ids, anchors),) = tokenizer.encode_batch(["The cat</s>b </s>"])
    assert tokenizer.eos_id not in ids
    assert anchors[0] == 0 and anchors[-1] >= 13
    made = copied("gpt2")
    made.add_tokens([AddedToken("cat<x>")])
    ((ids, anchors),) = Tokenizer(fast=made, eos="</s>").encode_batch(["a cat<x>b"])
    assert made.token_to_id("cat<x>") in ids
    assert anchors.tolist()[-2:] == [2, 8]


def test_a_normaliser_whose_offsets_fail_can_be_dropped(tmp_path, monkeypatch):
    made = copied("gpt2")
    made.normalizer = normalizers.Sequence([normalizers.NFKC()])
    made.save(str(tmp_path / "tokenizer.json"))
    fault = lambda fast, _: "shifted" if fast.normalizer else None  # noqa: E731
    monkeypatch.setattr(module, "offset_fault", fault)
    with pytest.raises(DataError, match=r"shifted. Set corpus.tokenizer.normaliser=drop"):
        LoadTokenizer(path=tmp_path).build()
    assert LoadTokenizer(path=tmp_path, normaliser="drop").build().fast.normalizer is None


SAMPLES = [SAMPLE, "def f(x):\n    return x + 12\n\nThe cat sat. It slept.\n" * 50]


def test_truncation_padding_and_dropout_of_a_file_are_off(tmp_path):
    fast = copied("gpt2")
    fast.enable_truncation(4)
    fast.enable_padding(length=64)
    fast.model.dropout = 0.5
    fast.save(str(tmp_path / "tokenizer.json"))
    tokenizer = LoadTokenizer(path=tmp_path).build()
    first, second = tokenizer.encode_batch([SAMPLES[1]] * 2)
    assert tokenizer.decode(first[0]) == SAMPLES[1]
    assert np.array_equal(first[0], second[0])


@pytest.mark.parametrize(
    "normaliser", [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace("a", "b")]
)
def test_a_tokenizer_that_normalises_is_kept_or_dropped_or_refused(tmp_path, normaliser):
    fast = copied("gpt2")
    fast.normalizer = normalizers.Sequence([normaliser])
    fast.save(str(tmp_path / "tokenizer.json"))
    name = type(normaliser).__name__
    with pytest.raises(
        DataError, match=rf"normalises text \({name}\).*corpus\.tokenizer\.normaliser=drop"
    ):
        LoadTokenizer(path=tmp_path, normaliser="refuse").build()
    tokenizer = LoadTokenizer(path=tmp_path, normaliser="drop").build()
    assert tokenizer.decode(tokenizer.encode_batch(["Aa"])[0][0]) == "Aa"
    kept = LoadTokenizer(path=tmp_path).build()
    ((ids, anchors),) = kept.encode_batch(["a\ufb01 Aa"])
    assert kept.decode(ids) == normaliser.normalize_str("a\ufb01 Aa")
    assert anchors[-1] in (3, 4)


SHORT = ["One two. Three four.", "Five. Six seven."]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A tokenizer whose configuration names what begins a text."""
    folder = tmp_path_factory.mktemp("tokenizer")
    made = TrainBPE(vocab_size=270, special_tokens=["<s>"]).build(lambda characters: SHORT)
    (folder / "tokenizer.json").write_text(made.json)
    config = {"bos_token": "<s>", "eos_token": made.eos}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def data(files, out, **options):
    for number, text in enumerate(SHORT):
        (out / f"{number}.txt").write_text(text)
    source = Source(
        documents=TextFiles(path=out), segmenter=Sentences(), split=Split(validation=0, test=0)
    )
    tokenizer = LoadTokenizer(path=files, **options)
    return prepared({"text": source}, out / "data", tokenizer=tokenizer)


def beside_a_model(made):
    held = files_of_data(DataSets(made.folder), sources=["text"], max_length=9)
    return module.tokenizers.Tokenizer.from_str(held["tokenizer.json"])


def test_it_begins_each_document_and_its_first_segment(files, tmp_path):
    made = data(files, tmp_path, bos="document")
    bos = made.manifest["tokenizer"]["bos_id"]
    kept = LoadTokenizer(path=made.folder).build()  # as evaluate, generate and scrolls open it
    assert kept.bos_id == bos == kept.fast.token_to_id("<s>") == kept.opening
    stored = open_dataset(made.folder / "text" / "train")
    spoken = beside_a_model(made)
    for index, text in enumerate(SHORT):
        ids, marks = stored.document(index)
        assert spoken.encode(text).ids == ids[:-1].tolist()
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
    assert beside_a_model(made).post_processor is None
    plain, own = (tokenizer.encode_batch(SHORT), tokenizer.encode_documents(SHORT))
    assert all(np.array_equal(a, b) for a, b in zip(chain(*plain), chain(*own), strict=True))


def test_a_token_behind_texts_begins_none(files, tmp_path):
    made = json.loads((files / "tokenizer.json").read_text())
    for single, bos in (("$A <s>", None), ("<s> $A", "<s>")):
        fast = tokenizers.Tokenizer.from_str(json.dumps(made))
        fast.post_processor = TemplateProcessing(
            single=single, special_tokens=[("<s>", fast.token_to_id("<s>"))]
        )
        fast.enable_padding(direction="left", length=9, pad_token="<|endoftext|>")
        fast.save(str(tmp_path / "tokenizer.json"))
        source = LoadTokenizer(path=tmp_path, bos="document")
        if bos is None:
            with pytest.raises(DataError, match="has no beginning-of-document token"):
                source.build()
        else:
            assert source.build().bos_id == fast.token_to_id(bos)


def test_trials_begin_with_it_once_and_keep_their_length(files):
    tokenizer = LoadTokenizer(path=files, bos="document").build()
    hay = hay_for(Texts(tokenizer=tokenizer, segmenter=Sentences()))
    draw = Draw(0, "passkey", 900)
    found = trial(KINDS["passkey"], hay, length=900, depth=0.5, candidates=4, draw=draw)
    assert found is not None
    for ids in (
        found.tokens,
        *(make(hay, length=901, depth=0.5, draw=draw).tokens for make in COPIES.values()),
    ):
        assert np.flatnonzero(ids == tokenizer.bos_id).tolist() == [0]
    assert len(found.tokens) == len(found.marks) == 900
    assert found.marks[0] & 3 == 3 and found.marks[1] & 3 == 0
