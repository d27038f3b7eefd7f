"""Shards: what is read equals what was written, and damage is named."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train.data.disk import Output, write_whole
from train.data.documents import DataError
from train.data.shards import ShardWriter, open_dataset


@pytest.fixture
def documents():
    return random_documents(seed=0, lengths=[3, 1, 17, 8, 40])


def random_documents(*, seed, lengths, vocab_size=300, levels=2):
    draw = np.random.default_rng(seed)
    documents = []
    for length in lengths:
        marks = draw.integers(0, 2**levels, length).astype(np.uint8) << 1
        marks[0] |= 3
        documents.append((draw.integers(0, vocab_size, length), marks))
    return documents


def write(folder, documents, *, vocab_size=300, levels=2, fail_at=None):
    writer = ShardWriter(
        folder=folder, name="x", vocab_size=vocab_size, levels=levels, description={"split": "t"}
    )
    with writer:
        for number, (tokens, marks) in enumerate(documents):
            if number == fail_at:
                raise KeyboardInterrupt
            writer.add(tokens, marks, id=f"d\n{number}", size=10 * number, replaced=number)


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_what_is_read_equals_what_was_written(tmp_path_factory, lengths, seed):
    folder = tmp_path_factory.mktemp("shard")
    documents = random_documents(seed=seed, lengths=lengths)
    write(folder, documents)
    data = open_dataset(folder)
    tokens = np.concatenate([tokens for tokens, _ in documents])
    marks = np.concatenate([marks for _, marks in documents])
    assert np.array_equal(data.tokens, tokens)
    for start in range(0, len(tokens), 3):
        for stop in (start, start + 1, len(tokens)):
            assert np.array_equal(data.marks(start, stop), marks[start:stop])
    for index, (one, own) in enumerate(documents):
        read, read_marks = data.document(index)
        assert np.array_equal(read, one)
        assert np.array_equal(read_marks, own)


def test_the_manifest_counts(tmp_path, documents):
    write(tmp_path, documents)
    data = open_dataset(tmp_path)
    segments = sum(int(((marks & 2) > 0).sum()) for _, marks in documents)
    assert data.manifest["counts"] == {
        "documents": 5,
        "tokens": 69,
        "segments": segments,
        "bytes": 100,
        "replaced": 10,
    }
    assert data.document_bytes.tolist() == [0, 10, 20, 30, 40]
    assert data.document_ids() == [f"d\n{number}" for number in range(5)]
    assert data.manifest["split"] == "t"


@pytest.mark.parametrize(
    ("vocab_size", "dtype"), [(65_536, np.uint16), (65_537, np.uint32), (300_000, np.uint32)]
)
def test_a_large_vocabulary_takes_wider_tokens(tmp_path, vocab_size, dtype):
    write(
        tmp_path,
        [(np.array([0, vocab_size - 1]), np.array([3, 0], np.uint8))],
        vocab_size=vocab_size,
    )
    data = open_dataset(tmp_path)
    assert data.tokens.dtype == dtype
    assert data.tokens.tolist() == [0, vocab_size - 1]


def test_an_empty_split_opens(tmp_path):
    write(tmp_path, [])
    data = open_dataset(tmp_path)
    assert (len(data), len(data.tokens), len(data.marks(0, 0))) == (0, 0, 0)


def test_an_interruption_leaves_nothing(tmp_path, documents):
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, documents, fail_at=3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [5, 400])
def test_a_full_disk_leaves_nothing_and_names_path_and_cure(tmp_path, small_files, number):
    documents = random_documents(seed=0, lengths=[1000] * number)
    with pytest.raises(DataError, match=r"x\.bin: no room is left.*Free space"):
        write(tmp_path, documents)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    write_whole(tmp_path / "a", "old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(DataError, match="no room"):
        write_whole(tmp_path / "a", "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "old")]
    output = Output(tmp_path / "b")
    with pytest.raises(DataError, match="no room"):
        output.commit()
    output.discard()
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_damage_is_named(tmp_path, documents):
    write(tmp_path, documents)
    bits = tmp_path / "x.level0.bits"
    whole = bits.read_bytes()
    bits.write_bytes(bytes([whole[0] ^ 4]) + whole[1:])
    with pytest.raises(DataError, match=r"x\.level0\.bits: its sha256 is not the manifest's"):
        open_dataset(tmp_path)
    assert open_dataset(tmp_path, verify=False) is not None
    bits.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"x\.level0\.bits: 8 bytes, but the manifest says 9"):
        open_dataset(tmp_path, verify=False)
    bits.unlink()
    with pytest.raises(DataError, match=r"x\.level0\.bits: missing"):
        open_dataset(tmp_path)


def test_a_folder_without_a_manifest_is_no_data_set(tmp_path, documents):
    write(tmp_path, documents)
    manifest = tmp_path / "manifest.json"
    other = json.loads(manifest.read_text()) | {"version": 99}
    manifest.write_text(json.dumps(other))
    with pytest.raises(DataError, match="must be bipe-shards 1, was: bipe-shards 99"):
        open_dataset(tmp_path)
    manifest.write_text("[]")
    with pytest.raises(DataError, match="not a manifest"):
        open_dataset(tmp_path)
    manifest.unlink()
    with pytest.raises(DataError, match="holds no data set; prepare it first"):
        open_dataset(tmp_path)


def test_tokens_and_marks_of_different_length_are_refused(tmp_path):
    with (
        pytest.raises(DataError, match="document d: 2 tokens with 1 marks"),
        ShardWriter(folder=tmp_path, name="x", vocab_size=9, levels=1, description={}) as writer,
    ):
        writer.add(np.array([1, 2]), np.array([3], np.uint8), id="d", size=1)
    with pytest.raises(DataError, match="levels must be 1 to 7, was: 8"):
        ShardWriter(folder=tmp_path, name="x", vocab_size=9, levels=8, description={})
