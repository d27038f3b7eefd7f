"""Where files lie: addresses, archives, packed files, pieces; and what of them must not be told."""

import bz2
import gzip
import json
import lzma
import sys
import zipfile

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from tests.train.data.corpora import as_lines, write_rows
from train.data.reading import documents as parts
from train.data.reading import line_pieces as lines
from train.data.reading.corpora import PackageCode
from train.data.reading.documents import Bad, Part, grouped
from train.data.reading.fields import keeps
from train.data.reading.files import CSV, JSONL, TextFiles
from train.data.reading.hub import HuggingFace
from train.data.reading.parquet import Parquet
from train.disk.manifest import redacted
from train.errors import DataError
from train.tasks.arithmetic.chains import ArithmeticChains

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd.compress}


@pytest.fixture
def rows():
    draw = np.random.default_rng(0)
    return [
        {"text": "\u4e2d " * int(draw.integers(1, 60)) + f"\n{number}", "n": number}
        for number in range(80)
    ]


def texts_of(documents):
    return [document.text for document in documents]


@pytest.mark.parametrize("suffix", PACK)
def test_packed_files_are_read_in_pieces_that_miss_and_double_nothing(tmp_path, rows, suffix):
    data = as_lines(rows)
    # Two packed files, one after the other, are one.
    packed = PACK[suffix](data[:1000]) + PACK[suffix](data[1000:])
    (tmp_path / f"a.jsonl.{suffix}").write_bytes(packed)
    reader = JSONL(path=tmp_path)
    whole = list(reader)
    assert texts_of(whole) == [row["text"] for row in rows]
    assert len(reader.parts()) > 1
    assert sorted(in_parts(reader), key=lambda d: int(d.id.rpartition(":")[2])) == whole


@pytest.mark.parametrize(("suffix", "size"), [*((each, 150) for each in PACK), ("gz", 10**9)])
def test_a_packed_file_cut_short_is_one_fault(tmp_path, rows, suffix, size, monkeypatch):
    monkeypatch.setattr(parts, "SMALLEST", size)
    packed = PACK[suffix](as_lines(rows))
    (tmp_path / f"a.jsonl.{suffix}").write_bytes(packed[:-20])
    with pytest.raises(DataError, match=rf"a\.jsonl\.{suffix}: not a complete"):
        in_parts(JSONL(path=tmp_path))
    found = in_parts(JSONL(path=tmp_path, on_bad="skip"))
    assert [item.rule for item in found if isinstance(item, Bad)] == ["cut short"]
    kept = texts_of(item for item in found if not isinstance(item, Bad))
    assert len(set(kept)) == len(kept)
    assert set(kept) <= {row["text"] for row in rows}


@given(
    st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=40), st.data()
)
def test_pieces_of_a_plain_file_are_its_lines(tmp_path_factory, content, data):
    file_path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    last = data.draw(st.sampled_from([b"", b"\n"]))
    file_path.write_bytes(b"\n".join(content) + last)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_BLOCK", data.draw(st.integers(1, 64)))
        (file,) = JSONL(path=file_path).files()
        size = data.draw(st.integers(1, 50))
        pieces = lines.spans(file, size=size)
        assert sum(bytes_ for _, bytes_ in pieces) == file.size
        found = [
            (number, line) for where, _ in pieces for number, line in lines.lines_of(file, **where)
        ]
    whole = [(number, line) for number, line in lines.lines_of(file)]
    assert found == whole


def test_row_groups_are_read_apart_and_small_files_together(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(parts, "SMALLEST", 500)
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=7)
    for number in range(40):
        (tmp_path / f"{number:02d}.txt").write_text("x" * 5 * (number % 17))
    for reader, most in ((Parquet(path=tmp_path), 99), (TextFiles(path=tmp_path), 10)):
        assert 2 < len(reader.parts()) < most
        assert in_parts(reader) == list(reader)
    assert in_parts(Parquet(path=tmp_path, limit=5)) == list(Parquet(path=tmp_path))[:5]


def test_addresses_that_fsspec_knows(rows):
    memory = MemoryFileSystem()
    memory.store.clear()
    memory.pipe("/corpus/a.jsonl", as_lines(rows[:30]))
    memory.pipe("/corpus/deep/b.jsonl.gz", gzip.compress(as_lines(rows[30:])))
    memory.pipe("/corpus/c.txt", b"text")
    wanted = [row["text"] for row in rows]
    reader = JSONL(path="memory://corpus")
    assert texts_of(reader) == wanted
    assert sorted(texts_of(in_parts(reader))) == sorted(wanted)
    assert [document.id for document in reader][29:31] == ["a.jsonl:30", "deep/b.jsonl.gz:1"]
    assert texts_of(JSONL(path="memory://corpus/*.jsonl")) == wanted[:30]
    assert [d.id for d in TextFiles(path="memory://corpus/c.txt")] == ["c.txt"]
    assert reader.fingerprint()["files"] == 2
    with pytest.raises(DataError, match="path=memory://nowhere: there is no such file"):
        JSONL(path="memory://nowhere").check()
    with pytest.raises(DataError, match="fsspec cannot open this address"):
        JSONL(path="nosuch://a:secret@nowhere").check()
    memory.store.clear()


def test_files_in_a_zip_archive(tmp_path, rows):
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("deep/a.jsonl", as_lines(rows[:30]))
        file.writestr("b.jsonl.xz", lzma.compress(as_lines(rows[30:])))
        file.writestr("c.md", "no")
    found = in_parts(JSONL(path=archive))
    assert sorted(d.text for d in found) == sorted(row["text"] for row in rows)
    assert {d.id.partition(":")[0] for d in found} == {"deep/a.jsonl", "b.jsonl.xz"}
    chained = JSONL(path=f"zip://deep/a.jsonl::file://{archive}")
    assert texts_of(chained) == [row["text"] for row in rows[:30]]
    with pytest.raises(DataError, match=r"no file in it matches pattern=\*\*/\*\.txt"):
        TextFiles(path=archive).check()
    shouted = archive.rename(tmp_path / "A.ZIP")
    assert len(texts_of(JSONL(path=shouted))) == len(rows)
    broken = bytearray(shouted.read_bytes())
    broken[broken.index(b"text")] ^= 1
    archive.write_bytes(broken)
    with pytest.raises(DataError, match=r"deep/a\.jsonl::.*cannot be unpacked: Bad CRC-32"):
        list(JSONL(path=archive))
    left = [*JSONL(path=archive, on_bad="skip").read()]
    assert [type(each).__name__ for each in left].count("Bad") == 1 and len(left) > 1
    archive.write_bytes(b"PK")
    with pytest.raises(DataError, match="not a zip archive"):
        JSONL(path=archive).check()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("https://me:pass@host/a?x=1", "https://...@host/a?x=1"),
        ("https://h/a?sig=abc&sv=2&token=t", "https://h/a?sig=...&sv=2&token=..."),
        ("s3://b/k?X-Amz-Signature=ff", "s3://b/k?X-Amz-Signature=..."),
        ("zip://a::https://u:p@h/b.zip", "zip://a::https://...@h/b.zip"),
        ("folder/me@home?page=x", "folder/me@home?page=x"),
    ],
)
def test_what_grants_access_is_not_told(address, told):
    assert redacted(address) == told
    reader = TextFiles(path=address)
    assert told in reader.label()
    assert parts.Reader.fingerprint(reader)["path"] == told


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "SMALLEST", 300)


def in_parts(reader):
    """As workers read them: a part travels as JSON."""
    found = []
    for part in reader.division():
        where = json.loads(json.dumps(dict(part.where)))
        found += reader.take(Part(where=where, size=part.size))
    return found


@given(st.lists(st.integers(0, 50)), st.integers(1, 60))
def test_groups_keep_the_order_and_are_large_enough(sizes, size):
    groups = list(grouped(enumerate(sizes), size=size))
    assert [item for group, _ in groups for item in group] == list(range(len(sizes)))
    assert [sum(sizes[item] for item in group) for group, _ in groups] == [h for _, h in groups]
    assert all(held >= size for _, held in groups[:-1])


@pytest.mark.parametrize(
    "reader",
    [
        ArithmeticChains(documents=11, chains=4),
        PackageCode(packages=["numpy"], min_characters=3000, max_characters=6000),
    ],
)
def test_generated_and_installed_documents(reader, monkeypatch):
    whole = list(reader)
    assert len(reader.parts()) > 1
    assert in_parts(reader) == whole
    monkeypatch.setattr(parts, "SMALLEST", 10**9)
    assert in_parts(reader) == whole


@pytest.fixture
def folder(tmp_path):
    for file in range(3):
        rows = [{"text": f"{file}-{row}", "n": 10 * file + row} for row in range(40)]
        write_rows(tmp_path / f"{file}.jsonl", rows)
    return tmp_path


@pytest.mark.parametrize("streaming", [True, False])
def test_data_sets_of_the_hub(folder, streaming):
    options = {"path": "json", "data_files": str(folder / "*.jsonl"), "streaming": streaming}
    reader = HuggingFace(**options)
    whole = list(reader)
    assert len(whole) == len({document.id for document in whole}) == 120
    assert len(reader.parts()) > 2
    assert in_parts(reader) == whole
    assert in_parts(HuggingFace(**options, limit=50)) == whole[:50]


@pytest.mark.parametrize("kind", [JSONL, Parquet, HuggingFace, CSV])
def test_rows_are_filtered_alike(folder, kind):
    import pyarrow.json
    import pyarrow.parquet

    lines = [f"1-{row},{10 + row}" for row in range(40)]
    (folder / "1.csv").write_text("\n".join(("text,n", *lines)))
    pyarrow.parquet.write_table(pyarrow.json.read_json(folder / "1.jsonl"), folder / "1.parquet")
    path = {"path": "json", "data_files": str(folder / "1.jsonl")}
    given = path if kind is HuggingFace else {"path": folder / f"1.{kind.__name__.lower()}"}
    conditions = {"n": {"at_least": 12, "at_most": 30, "not": [20]}, "text": {"matches": "-[2-9]"}}
    found = [document.text for document in in_parts(kind(**given, filter=conditions))]
    # 1-2 to 1-20, those whose number begins with 2 to 9, and of them not 1-10.
    assert found == [f"1-{n}" for n in range(2, 21) if str(n)[0] in "23456789"]
    for key, condition in ("a", {"at_least": 0}), ("a", {"matches": "."}), ("b.c", {"at_least": 3}):
        assert not keeps({"a": None, "b": {"c": 2.5}}, {key: condition}, where="")
