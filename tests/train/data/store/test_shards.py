"""Shards: what is read equals what was written, however many shards; damage is named.

The reader of docs/shards.md, as it is there, reads what was prepared.
"""

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.data.corpora import content, random_documents, shard_writer, write_shards
from tests.train.data.store.test_export import make
from train.data.store.shards import open_dataset
from train.disk.manifest import store
from train.errors import DataError

lengths = st.lists(st.integers(1, 40), min_size=1, max_size=12)


DOCUMENTS = random_documents([3, 1, 17, 8, 40])


@given(
    lengths=lengths,
    seed=st.integers(0, 99),
    shard_tokens=st.sampled_from([1, 9, 30, 10**6]),
    vocab_size=st.sampled_from([300, 65_536, 65_537, 300_000]),
)
def test_what_is_read_was_written(tmp_path_factory, lengths, seed, shard_tokens, vocab_size):
    folder = tmp_path_factory.mktemp("shard")
    documents = random_documents(lengths, seed=seed, vocab_size=vocab_size)
    documents[0][0][0] = vocab_size - 1
    write_shards(folder, documents, shard_tokens=shard_tokens, vocab_size=vocab_size)
    data = open_dataset(folder)
    tokens = np.concatenate([tokens for tokens, _ in documents])
    marks = np.concatenate([marks for _, marks in documents])
    assert np.array_equal(data.tokens, tokens)
    assert len(data.tokens) == len(tokens)
    assert data.tokens.dtype == (np.uint16 if vocab_size <= 65_536 else np.uint32)
    for start in range(0, len(tokens), 3):
        for stop in (start, start + 1, start + 20, len(tokens)):
            stop = min(stop, len(tokens))
            assert np.array_equal(data.tokens[start:stop], tokens[start:stop])
            assert np.array_equal(data.marks(start, stop), marks[start:stop])
            assert np.array_equal(data.starts(start, stop), marks[start:stop] >> 1 & 1)
            assert np.array_equal(data.starts(start, stop, level=1), marks[start:stop] >> 2)
    places = np.random.default_rng(seed).integers(0, len(tokens), 50)
    for found, whole in zip(data.read(places), (tokens, marks), strict=True):
        assert np.array_equal(found, whole[places])
    assert len(data) == len(data.document_bytes) == len(documents)
    for index, (one, own) in enumerate(documents):
        read, read_marks = data.document(index)
        assert np.array_equal(read, one)
        assert np.array_equal(read_marks, own)
    assert data.document_ids() == [f"d\n\u4e2d{number}" for number in range(len(documents))]
    assert data.document_bytes.tolist() == [10 * number for number in range(len(documents))]
    assert data.manifest["counts"]["segments"] == int(((marks & 2) > 0).sum())
    for shard in data.shards[:-1]:  # a shard ends with the document that fills it
        ends = [0, *shard.ends.tolist()]
        assert ends[-2] < shard_tokens <= ends[-1] == len(shard.tokens)
    assert len(data.shards[-1].tokens) > 0
    told = data.manifest["shards"]
    assert [shard["tokens"] for shard in told] == [len(shard.tokens) for shard in data.shards]
    for key in ("documents", "tokens", "segments"):
        assert sum(shard[key] for shard in told) == data.manifest["counts"][key]


@given(
    lengths=lengths,
    seed=st.integers(0, 99),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    part_tokens=st.sampled_from([1, 15, 10**6]),
    shard_tokens=st.sampled_from([1, 9, 50, 10**6]),
    vocab_size=st.sampled_from([300, 70_000]),
)
def test_merged_parts_are_the_bytes_of_one_writer(
    tmp_path_factory, lengths, seed, cuts, part_tokens, shard_tokens, vocab_size
):
    root = tmp_path_factory.mktemp("merge")
    levels = 1 + seed % 7
    made = {"vocab_size": vocab_size, "levels": levels}
    documents = random_documents(lengths, seed=seed, **made)
    write_shards(root / "whole", documents, shard_tokens=shard_tokens, **made)
    bounds = [0, *sorted(min(cut, len(documents)) for cut in cuts), len(documents)]
    with (
        pytest.MonkeyPatch.context() as patch,
        shard_writer(root / "merged", shard_tokens=shard_tokens, **made) as merged,
    ):
        # In blocks that are smaller than some documents.
        patch.setattr("train.data.store.writer._COPIED_TOKENS", 7)
        patch.setattr("train.data.store.writer._COPIED_DOCUMENTS", 2)
        for number, (first, last) in enumerate(pairwise(bounds)):
            folder = root / f"part{number}"
            write_shards(
                folder, documents[first:last], first=first, shard_tokens=part_tokens, **made
            )
            merged.extend(open_dataset(folder))
    assert content(root / "merged") == content(root / "whole")


@given(lengths=lengths, seed=st.integers(0, 99), shard_tokens=st.sampled_from([1, 9, 30, 10**6]))
def test_documents_at_once_are_the_bytes_of_one_after_another(
    tmp_path_factory, lengths, seed, shard_tokens
):
    folder = tmp_path_factory.mktemp("shard")
    documents = random_documents(lengths, seed=seed)
    write_shards(folder / "each", documents, shard_tokens=shard_tokens)
    tokens, marks = map(np.concatenate, zip(*documents, strict=True))
    numbers = range(len(documents))
    with shard_writer(folder / "all", shard_tokens=shard_tokens) as opened:
        opened.add_documents(
            tokens,
            marks,
            ends=np.cumsum(lengths),
            ids=[f"d\n\u4e2d{number}" for number in numbers],
            sizes=[10 * number for number in numbers],
            replaced=sum(numbers),
        )
        marks[0] = 0
        with pytest.raises(DataError, match="document a: only its first mark"):
            opened.add_documents(
                tokens, marks, ends=np.cumsum(lengths), ids="abcdefghijkl"[: len(lengths)], sizes=[]
            )
    assert content(folder / "each") == content(folder / "all")


def test_what_is_there_or_of_another_tokenizer_is_left_alone(tmp_path):
    write_shards(tmp_path / "part", DOCUMENTS, description={"tokenizer": {"sha256": "other"}})
    before = content(tmp_path / "part")
    with pytest.raises(DataError, match="already contains a data set; remove it"):
        write_shards(tmp_path / "part", DOCUMENTS[:1])
    assert content(tmp_path / "part") == before
    with (
        pytest.raises(DataError, match=r"part: its tokenizer must be .*t.* was: .*other"),
        shard_writer(tmp_path / "merged") as merged,
    ):
        merged.extend(open_dataset(tmp_path / "part"))
    assert list((tmp_path / "merged").iterdir()) == []


def test_what_an_interrupted_or_killed_writer_left_is_removed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_shards(tmp_path, DOCUMENTS, fail_at=4, shard_tokens=10)
    assert list(tmp_path.iterdir()) == []
    for name in ("x.00000.bin", ".x.00007.level0.bits.part", ".manifest.json.part"):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / "xy.00000.bin").write_bytes(b"another's")
    write_shards(tmp_path, DOCUMENTS)
    kinds = ("bin", "bytes", "documents", "ids", "level0.bits", "level1.bits")
    names = ["manifest.json", *(f"x.00000.{kind}" for kind in kinds), "xy.00000.bin"]
    assert sorted(content(tmp_path)) == names


def test_a_folder_without_a_manifest_of_ours_is_no_data_set(tmp_path):
    write_shards(tmp_path, DOCUMENTS)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    cases = [
        (manifest | {"version": 99}, "made by a newer version of bipe: format 99, this reads 2"),
        (manifest | {"version": 1}, "made by an older version of bipe: format 1, .* prepare again"),
        (manifest | {"format": "other"}, "must be bipe-shards 2, was: other 2"),
        (manifest | {"levels": "2"}, "has no 'levels' of type int"),
        (manifest | {"levels": 1}, "its files are not those of its shards"),
        (manifest | {"name": "y"}, "its files are not those of its shards"),
    ]
    for other, told in cases:
        store(path, other)
        with pytest.raises(DataError, match=f"{re.escape(str(path))}: {told}"):
            open_dataset(tmp_path)
    for text in ("[]", "", "{", "null", '"x"', "\0", '{"format": "bipe-shards"}'):
        path.write_text(text)
        with pytest.raises(DataError, match="not a manifest of shards"):
            open_dataset(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match="contains no shards; bipe prepare first"):
        open_dataset(tmp_path)


@pytest.mark.parametrize(
    ("tokens", "marks", "told"),
    [
        ([1, 2], [7], "2 tokens with 1 mark"),
        ([], [], "0 tokens with 0 marks"),
        ([1, 9], [7, 0], "ids must be from 0 to 8, were: 1 to 9"),
        ([-1, 1], [7, 0], "ids must be from 0 to 8, were: -1 to 1"),
        ([1, 2], [3, 0], "the first must be 7 for levels=2, was: 3"),
        ([1, 2], [7, 1], "only its first mark may have bit 0"),
        ([1, 2], [7, 8], "its first mark"),
    ],
)
def test_a_document_that_would_not_be_read_back_is_refused(tmp_path, tokens, marks, told):
    with (
        pytest.raises(DataError, match=f"document d: .*{told}"),
        shard_writer(tmp_path, vocab_size=9) as opened,
    ):
        opened.add(np.array(tokens, np.int64), np.array(marks, np.uint8), id="d", size=1)


PAGE = Path(__file__).parents[4] / "docs" / "shards.md"


@pytest.mark.parametrize("made", [(300, 1, 10**6), (300, 2, 40), (70_000, 1, 1)], ids=str)
def test_the_reader_of_the_page_reads_shards_with_numpy_alone(tmp_path, monkeypatch, made):
    make(tmp_path / "data", *made).rename(tmp_path / "OUT")
    (tmp_path / "OUT" / "s").rename(tmp_path / "OUT" / "prose")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert set(re.findall(r"(?:import|from) (\w+)", code)) == {"json", "pathlib", "numpy", "Path"}
    names: dict = {}
    exec(compile(code, str(PAGE), "exec"), names)
    for split in ("train", "validation", "test"):
        data = open_dataset(tmp_path / "OUT" / "prose" / split)
        read = list(names["documents"](tmp_path / "OUT" / "prose" / split))
        assert [name for _, _, name in read] == data.document_ids()
        for index, (ids, starts, _) in enumerate(read):
            tokens, marks = data.document(index)
            assert np.array_equal(ids, tokens)
            assert np.array_equal(starts, marks >> 1 & 1)
    tokens, marks = open_dataset(tmp_path / "OUT" / "prose" / "train").document(4)
    starts = np.flatnonzero(marks & 2)
    assert names["inter"].tolist() == [(starts <= at).sum() - 1 for at in range(len(tokens))]
    assert names["intra"].tolist() == [at - starts[starts <= at][-1] for at in range(len(tokens))]
