"""Small files that would grow to gigabytes are refused by name, before they do."""

import base64
import bz2
import gzip
import json
import lzma
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from train.data.reading import storage
from train.data.reading.files import CSV, JSONL, TextFiles
from train.data.reading.parquet import Parquet
from train.data.tokenizing.bounds import MOST_GROWTH, require_bounded
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.disk.files import read_yaml
from train.errors import DataError

PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": storage.zstd.compress,
}


@pytest.fixture
def small(monkeypatch):
    """A bound of 1 MB instead of 64, so that bombs of tests are small."""
    monkeypatch.setattr(storage, "ALWAYS", 1 << 20)
    monkeypatch.setattr("train.data.reading.parquet.ALWAYS", 1 << 20)


def refused(reader, name):
    with pytest.raises(DataError, match=r"bytes from .* packed ones") as error:
        list(reader)
    assert name in str(error.value) and "trust it" in str(error.value)


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("ending", ["txt", "csv", "jsonl"])
@pytest.mark.parametrize("lines", [False, True])
def test_a_packed_bomb_is_refused_at_the_bound(small, tmp_path, kind, ending, lines):
    row = {"txt": b"a", "csv": b"a\n", "jsonl": b'{"text": "a"}\n'}[ending] if lines else b" "
    path = tmp_path / f"a.{ending}.{kind}"
    path.write_bytes(PACKERS[kind](b"text\n" * (ending == "csv") + row * (4_000_000 // len(row))))
    assert path.stat().st_size < 30_000
    reader = {"txt": TextFiles, "csv": CSV, "jsonl": JSONL}[ending]
    refused(reader(path=path), path.name)
    with pytest.raises(DataError, match=r"or set here\.on_bad=skip to leave it out"):
        list(reader(path=path).keyed("here."))
    assert all(bad.rule for bad in [*reader(path=path, on_bad="skip").read()][-1:])


@pytest.mark.parametrize("inner", ["a.txt", "a.jsonl", "a.txt.gz"])
def test_a_bomb_in_an_archive_is_refused_with_its_member(small, tmp_path, inner):
    data = b" " * 8_000_000
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(inner, gzip.compress(data) if inner.endswith("gz") else data)
    reader = JSONL if "jsonl" in inner else TextFiles
    refused(reader(path=tmp_path / "a.zip", pattern="*"), inner)


@pytest.mark.parametrize("kind", PACKERS)
def test_text_that_packs_well_is_read(tmp_path, kind):
    text = "".join(f"Row {number} has the same words as the others.\n" for number in range(9000))
    (tmp_path / f"a.txt.{kind}").write_bytes(PACKERS[kind](text.encode()))
    (found,) = TextFiles(path=tmp_path, pattern="*")
    assert found.text == text
    rows = "".join(json.dumps({"text": line}) + "\n" for line in text.splitlines())
    (tmp_path / f"b.jsonl.{kind}").write_bytes(PACKERS[kind](rows.encode()))
    assert len([*JSONL(path=tmp_path)]) == 9000


@pytest.mark.parametrize("packing", ["zstd", "brotli", "gzip", "snappy"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_a_parquet_bomb_is_refused_with_its_rows(small, tmp_path, packing, dictionary):
    table = arrow.table({"text": ["a" * 400_000] * 1 + ["b" * 3_000_000]})
    path = tmp_path / "a.parquet"
    parquet.write_table(table, path, compression=packing, use_dictionary=dictionary)
    if packing == "snappy":  # a twentieth at most
        assert len([*Parquet(path=path)]) == 2
    else:
        refused(Parquet(path=path), "a.parquet, row group 0")


def test_rows_that_repeat_a_large_value_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(Parquet, "most_bytes", 1 << 20)
    table = arrow.table({"text": ["a" * 300_000] * 50})
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd")
    reader = Parquet(path=tmp_path)
    with reader.table(reader.files()[0]) as stored:
        assert reader.rows_at_once(stored.metadata) <= 4
    assert [len(each.text) for each in reader] == [300_000] * 50


def spoken(normaliser=None, pre_tokeniser=None, decoder=None):
    fast = tokenizers.Tokenizer(models.WordLevel({"a": 0, "<eos>": 1, "?": 2}, unk_token="?"))
    for name, value in (
        ("normalizer", normaliser), ("pre_tokenizer", pre_tokeniser), ("decoder", decoder),
    ):  # fmt: skip
        if value is not None:
            setattr(fast, name, value)
    return fast


def charsmap(replacement):
    trie = b"\0" * 8
    table = len(trie).to_bytes(4, "little") + trie + b"x\0" + replacement + b"\0"
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


HUNDRED = "a" * 100
GROWING = [
    {"normalizer": normalizers.Sequence([normalizers.Replace("a", HUNDRED)] * 5)},
    {"normalizer": normalizers.Replace("a", "a" * 1000)},
    {"normalizer": normalizers.Replace(Regex("b*"), HUNDRED)},
    {"normalizer": normalizers.Sequence([normalizers.ByteLevel()] * 20)},
    {"decoder": decoders.Sequence([decoders.Replace("a", HUNDRED)] * 5)},
]


@pytest.mark.parametrize("parts", GROWING)
def test_a_tokenizer_that_grows_text_is_refused_before_it_reads_any(tmp_path, parts, bipe):
    names = {"normalizer": "normaliser", "pre_tokenizer": "pre_tokeniser", "decoder": "decoder"}
    path = tmp_path / "tokenizer.json"
    spoken(**{names[key]: value for key, value in parts.items()}).save(str(path))
    with pytest.raises(DataError, match=r"characters of one; at most 100 .* remove") as error:
        LoadTokenizer(path=path, eos="<eos>").build()
    assert str(path) in str(error.value) and next(iter(parts)) in str(error.value)
    text = tmp_path / "a.txt"
    text.write_text("aaaa")
    status, told = bipe("segment", text, "--tokenizer", path)
    assert status == 2 and "characters of one" in told


def test_tables_of_sentencepiece_and_nested_steps_count():
    nested = {"type": "Sequence", "normalizers": [charsmap(b"y" * 400)]}
    with pytest.raises(DataError, match="normalizer of the tokenizer"):
        require_bounded({"normalizer": {"type": "Sequence", "normalizers": [nested]}})
    require_bounded({"normalizer": charsmap(b"y" * 33)})
    require_bounded({"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"}})
    bytewise = {"type": "ByteLevel"}
    with pytest.raises(DataError, match="up to 256 characters"):  # of a character of four bytes
        require_bounded({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [bytewise] * 4}})
    content = "y" * (MOST_GROWTH + 1)
    with pytest.raises(DataError):
        require_bounded(
            {"decoder": {"type": "Replace", "pattern": {"String": "x"}, "content": content}}
        )


SLOW = r"(?:a|a|aa)+$"


def test_a_slow_expression_of_a_tokenizer_ends_in_one_line(tmp_path, bipe):
    path, text = tmp_path / "tokenizer.json", tmp_path / "a.txt"
    slow = pre_tokenizers.Split(Regex(SLOW), "isolated")
    spoken(pre_tokeniser=slow).save(str(path))
    text.write_text("a" * 60 + "b")
    tokenizer = LoadTokenizer(path=path, eos="<eos>").build()
    with pytest.raises(DataError, match="cannot encode this text") as error:
        tokenizer.encode_batch([text.read_text()])
    assert "\n" not in str(error.value) and "expressions" in str(error.value)
    status, told = bipe("segment", text, "--tokenizer", path)
    assert status == 2 and "cannot encode this text" in told


def bombs():
    levels = range(1, 9)
    lists = "a0: &a0 [x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in levels
    )
    merges = "a0: &a0 {x: 1}\n" + "".join(
        f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in levels
    )
    text = f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 9000)}]\n"
    return {"lists": lists, "merges": merges, "texts": text, "itself": "a: &a [*a, *a]\n"}


@pytest.mark.parametrize("kind", bombs())
def test_a_yaml_bomb_is_refused_before_it_is_built(tmp_path, kind):
    path = tmp_path / "a.yaml"
    path.write_text(bombs()[kind])
    with pytest.raises(ValueError, match="at most 100000 values, including aliases"):
        read_yaml(path)


def test_yaml_with_merges_and_aliases_is_read(tmp_path):
    (tmp_path / "a.yaml").write_text("a: &a {x: 1}\nb: {<<: *a, y: [*a, *a]}\n")
    assert read_yaml(tmp_path / "a.yaml")["b"] == {"x": 1, "y": [{"x": 1}, {"x": 1}]}
    (tmp_path / "a.yaml").write_text("")
    assert read_yaml(tmp_path / "a.yaml") is None


MEMORY = """
import sys
from pathlib import Path
from train.data.reading.files import TextFiles, JSONL
from train.errors import DataError
def peak():
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in one]
    return int(line.split()[1])
before = peak()
try:
    [*{"txt": TextFiles, "jsonl": JSONL}[sys.argv[2]](path=sys.argv[1], pattern="*")]
except DataError as error:
    print(peak() - before, error)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_the_memory_of_a_bomb_of_a_megabyte_is_bounded(tmp_path, ending):
    path = tmp_path / f"a.{ending}.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(230):
            file.write(bytes(1 << 20).replace(b"\0", b" "))
    assert path.stat().st_size < 1_100_000
    words = [sys.executable, "-c", MEMORY, str(path), ending]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert 0 < int(told.split()[0]) < 1 << 20 and path.name in told  # kilobytes
