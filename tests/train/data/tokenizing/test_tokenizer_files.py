"""SentencePiece models, tiktoken files and folders give the ids of their own libraries."""

import base64
import io
import json

import pytest
import sentencepiece
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, normalizers, pre_tokenizers

from segmenters.align import byte_alphabet
from tests.train.data.tokenizer_kinds import CORPUS, FRAGMENTS, kind
from train.data.tokenizing import sentencepiece_model
from train.data.tokenizing import tokenizers as module
from train.data.tokenizing.tiktoken_ranks import PATTERNS, merges, read_ranks
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.errors import DataError

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
        with pytest.raises(DataError, match="not a SentencePiece model"):
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


def write_ranks(path, ranks):
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()]
    path.write_text("".join(lines))
    return path


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k"])
def test_a_tiktoken_file_gives_the_ids_of_tiktoken(name, tmp_path, in_small_parts):
    ranks = ranks_of(kind("o200k"))
    path = write_ranks(tmp_path / f"{name}_base.tiktoken", ranks)
    assert read_ranks(path) == ranks
    tokenizer = LoadTokenizer(path=path).build()
    assert tokenizer.rule.name == f"{'after' if '00k' in name else 'before'} line end"
    assert tokenizer.spelling is not None
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


def test_a_tiktoken_file_needs_its_pattern_and_sound_lines(tmp_path):
    path = write_ranks(tmp_path / "mine.tiktoken", ranks_of(kind("gpt2")))
    with pytest.raises(DataError, match="set pattern to one of gpt2, r50k"):
        LoadTokenizer(path=path).build()
    assert LoadTokenizer(path=path, pattern=r"\w+|\W").build().rule.name is None
    with pytest.raises(DataError, match="pattern must be a regular expression"):
        LoadTokenizer(path=path, pattern="(").build()
    path = tmp_path / "gpt2.tiktoken"
    all_bytes = "".join(
        f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256)
    )
    for text, told in (
        ("YQ==\n", "line 1: not BASE64 RANK"),
        ("\nYQ== x\n", "line 2"),
        ("!! 3\n", "line 1"),
        ("YQ== 0\n", "no rank for the byte 0"),
        (all_bytes + "YWE= 7\n", "two tokens have the same rank"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=told):
            LoadTokenizer(path=path).build()


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
    assert prints[0] != prints[1]
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
    config["added_tokens_decoder"] = {"5": {"content": "<end>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match=r"added token '<end>' must have id 5, was: \d+"):
        LoadTokenizer(path=tmp_path).build()
    (tmp_path / "tokenizer_config.json").write_text("[")
    with pytest.raises(DataError, match="must be a JSON object"):
        LoadTokenizer(path=tmp_path).build()


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
    with pytest.raises(DataError, match=r"shifted. Set normaliser=drop"):
        LoadTokenizer(path=tmp_path).build()
    assert LoadTokenizer(path=tmp_path, normaliser="drop").build().fast.normalizer is None


def test_whatever_cannot_be_proved_has_a_reason():
    made = copied("gpt2")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.UnicodeScripts(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    rule = Tokenizer(fast=made, eos="</s>").rule
    assert rule.name is None and "UnicodeScripts" in rule.reason
