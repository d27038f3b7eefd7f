"""Readers: every format gives the same documents, and bad input is named."""

import csv
import gzip
import json

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.data.reading.documents import (
    REPLACEMENT,
    SPLITS,
    Document,
    clean,
    decode,
    unwrap,
)
from train.data.reading.files import CSV, JSONL, Parquet, TextFiles
from train.data.reading.hub import HuggingFace
from train.data.reading.split import Split
from train.errors import DataError

TEXTS = ["One.\r\nTwo.\n", "", "caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{GRINNING FACE}\n\n x"]


@pytest.fixture
def rows():
    return [{"text": text, "meta": {"name": f"n{i}"}} for i, text in enumerate(TEXTS)]


def as_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def texts(reader):
    return [document.text for document in reader]


def test_every_format_gives_the_same_texts(tmp_path, rows):
    (tmp_path / "a.jsonl").write_bytes(as_lines(rows))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(as_lines(rows)))
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "c.parquet")
    for number, text in enumerate(TEXTS):
        (tmp_path / f"{number}.txt").write_bytes(text.encode())
    assert texts(TextFiles(path=tmp_path)) == TEXTS
    assert texts(JSONL(path=tmp_path / "a.jsonl")) == TEXTS
    assert texts(JSONL(path=tmp_path)) == TEXTS * 2
    assert texts(Parquet(path=tmp_path)) == TEXTS
    local = HuggingFace(path="json", data_files=str(tmp_path / "a.jsonl"))
    assert texts(local) == TEXTS


def test_ids_are_relative_and_unique(tmp_path, rows):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.txt").write_text("x")
    (tmp_path / "a.txt").write_text("y")
    assert [d.id for d in TextFiles(path=tmp_path)] == ["a.txt", "deep/a.txt"]
    (tmp_path / "a.jsonl").write_bytes(as_lines(rows))
    assert [d.id for d in JSONL(path=tmp_path)] == ["a.jsonl:1", "a.jsonl:2", "a.jsonl:3"]
    named = JSONL(path=tmp_path, id_key="meta.name", source="mine", kind="code")
    assert next((d.id, d.source, d.kind) for d in named) == ("n0", "mine", "code")


def test_a_glob_reads_what_it_matches(tmp_path):
    for name in ("a.txt", "b.txt", "c.md"):
        (tmp_path / name).write_text(name)
    assert texts(TextFiles(path=tmp_path / "*.txt")) == ["a.txt", "b.txt"]
    assert texts(TextFiles(path=tmp_path, pattern="*.md")) == ["c.md"]


def test_the_limit_counts_documents(tmp_path, rows):
    (tmp_path / "a.jsonl").write_bytes(as_lines(rows))
    assert texts(JSONL(path=tmp_path, limit=2)) == TEXTS[:2]


def test_bad_bytes_are_replaced_and_counted(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"ok \xff\xfe " + REPLACEMENT.encode() + b" \xe2\x82")
    (document,) = TextFiles(path=tmp_path)
    assert document.replaced == 3
    assert document.text.count(REPLACEMENT) == 4


def test_bad_bytes_fail_by_option_with_file_and_offset(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "ok"}\n{"text": "\xff"}\n')
    with pytest.raises(DataError, match=r"a\.jsonl:2: byte 25 is not UTF-8"):
        list(JSONL(path=tmp_path, encoding_errors="fail"))
    with pytest.raises(DataError, match="encoding_errors must be replace or fail, was: ignore"):
        list(JSONL(path=tmp_path, encoding_errors="ignore"))


def test_lone_surrogates_are_replaced_and_counted(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a\\ud800b\\ud83d\\ude00"}')
    (document,) = JSONL(path=tmp_path)
    assert document.text == f"a{REPLACEMENT}b\N{GRINNING FACE}"
    assert document.replaced == 1


@given(st.binary())
def test_any_bytes_become_text_that_encodes(data):
    text, replaced = decode(data, errors="replace")
    assert text.encode() is not None
    assert (replaced == 0) == (text.encode() in (data, data.removeprefix(b"\xef\xbb\xbf")))


@given(st.text(st.characters(exclude_categories=())))
def test_clean_text_encodes_and_keeps_its_length(text):
    cleaned, _ = clean(text)
    assert len(cleaned) == len(text)
    assert cleaned.encode().decode() == cleaned


def test_unwrap_joins_lines_and_keeps_paragraphs():
    wrapped = "It was\na dark\r\nnight.\n\nRain\n  indented\n\n\nfell.\n"
    assert unwrap(wrapped) == "It was a dark night.\n\nRain\n  indented\n\n\nfell.\n"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"body": "x"}', "text_key=text is not a field; there are: body"),
        ('{"text": 3}', "text_key=text must contain text, was: int"),
        ("[1]", "must be an object"),
        ("{", "not JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, fault):
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n' + line)
    with pytest.raises(DataError, match=rf"a\.jsonl:2: {fault}"):
        list(JSONL(path=tmp_path))


def test_files_that_the_pattern_leaves_out_are_told(tmp_path, caplog):
    for name in ("a.py", "b/c.py", "b/d.md", ".git/e.x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    told = (
        r"matches pattern=\*\*/\*\.txt; it also contains 2 \.py files, 1 \.md file\. To read them"
    )
    with pytest.raises(DataError, match=told):
        TextFiles(path=tmp_path).check()
    (tmp_path / "f.txt").write_text("x")
    TextFiles(path=tmp_path).check()
    assert "only 1 match pattern=**/*.txt; it also contains 2 .py files, 1 .md file" in caplog.text
    caplog.clear()
    TextFiles(path=tmp_path, pattern="**/*.py").check()
    assert not caplog.records  # most of what is there was read


def test_a_missing_or_empty_corpus_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere: there is no such file or folder"):
        TextFiles(path=tmp_path / "nowhere").check()
    with pytest.raises(DataError, match=r"no file in it matches pattern=\*\*/\*\.txt"):
        TextFiles(path=tmp_path).check()
    with pytest.raises(DataError, match="no file matches this glob"):
        TextFiles(path=tmp_path / "*.txt").check()
    (tmp_path / "a.jsonl").write_text("\n")
    with pytest.raises(DataError, match="no documents were found"):
        list(JSONL(path=tmp_path))
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(DataError, match="not a Parquet file"):
        list(Parquet(path=tmp_path))
    (tmp_path / "a.jsonl.gz").write_text("no")
    with pytest.raises(DataError, match="not a complete gzip file"):
        list(JSONL(path=tmp_path / "a.jsonl.gz"))


def test_hub_rows_are_filtered_by_dotted_fields(tmp_path, rows):
    (tmp_path / "a.jsonl").write_bytes(as_lines(rows))
    options = {"path": "json", "data_files": {"train": [str(tmp_path / "a.jsonl")]}}
    kept = HuggingFace(**options, filter={"meta.name": ["n0", "n2"]}, id_key="meta.name")
    assert [d.id for d in kept] == ["n0", "n2"]
    with pytest.raises(DataError, match=r"filter=meta\.nam is not a field; there are: name"):
        list(HuggingFace(**options, filter={"meta.nam": ["n0"]}))
    with pytest.raises(DataError, match=r"filter\.meta\.name must be a list"):
        HuggingFace(**options, filter={"meta.name": "n0"}).check()
    with pytest.raises(DataError, match="no documents were found"):
        list(HuggingFace(**options, filter={"meta.name": ["n9"]}))


def test_a_script_data_set_fails_with_the_cure(tmp_path):
    with pytest.raises(DataError, match="Name the files instead"):
        HuggingFace(path="owner/name.py").check()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "old.py").write_text("import datasets")
    with pytest.raises(DataError, match="Name the files instead"):
        list(HuggingFace(path=str(tmp_path / "old")))


def test_the_fingerprint_holds_every_option_and_the_size(tmp_path):
    (tmp_path / "a.txt").write_text("four")
    reader = TextFiles(path=tmp_path, limit=3)
    assert reader.fingerprint() | {"path": ""} == {
        "reader": "TextFiles",
        "kind": "prose",
        "source": None,
        "licence": None,
        "limit": 3,
        "unwrap": False,
        "path": "",
        "pattern": "**/*.txt",
        "on_bad": "error",
        "encoding_errors": "replace",
        "files": 1,
        "bytes": 4,
    }


@pytest.mark.parametrize(
    ("name", "corpus"),
    [
        ("a.jsonl", "jsonl"),
        ("a.JSONL.gz", "jsonl"),
        ("b.ndjson", "jsonl"),
        ("c.parquet", "parquet"),
    ],
)
def test_rows_are_not_read_as_one_document_of_text(name, corpus, tmp_path):
    (tmp_path / name).write_bytes(b"{}")
    for reader in (TextFiles(path=tmp_path / name), TextFiles(path=tmp_path, pattern=f"*{name}")):
        with pytest.raises(DataError, match=f"set corpus={corpus} and"):
            reader.check()


def test_rows_of_a_table_are_documents(tmp_path):
    (tmp_path / "a.csv").write_bytes(
        b'\xef\xbb\xbfid,text,lang\r\n1,"One, ""two"".\r\nThree.",en\r\n2,,de\r\n'
    )
    with gzip.open(tmp_path / "b.tsv.gz", "wt") as packed:
        packed.write("text\tpath\nx = 1\ta.py\n")
    found = [*CSV(path=tmp_path, pattern="*.?sv*").read()]
    assert [each.id for each in found] == ["a.csv:1", "a.csv:2", "b.tsv.gz:1"]
    assert found[0].text == 'One, "two".\r\nThree.' and found[0].meta == {"lang": "en"}
    assert found[1].text == "" and found[2].meta == {"path": "a.py"}
    (tmp_path / "a.csv").write_text('text\n"open')
    with pytest.raises(DataError, match="not CSV after row"):
        [*CSV(path=tmp_path / "a.csv").read()]
    (tmp_path / "a.csv").write_text("body\nOne.\n")
    with pytest.raises(DataError, match="text_key=text is not a field; there are: body"):
        [*CSV(path=tmp_path / "a.csv").read()]
    (tmp_path / "a.csv").write_text("text\n" + "x" * 200_000 + "\n")
    assert len(next(CSV(path=tmp_path / "a.csv").read()).text) == 200_000


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_table_is_the_one_that_gives_the_text(tmp_path, delimiter):
    rows = [["note", "my text"], ["a;b|c", "One, two; three|four\tfive."]]
    with (tmp_path / "a.csv").open("w", newline="") as table:
        csv.writer(table, delimiter=delimiter).writerows(rows)
    (found,) = CSV(path=tmp_path / "a.csv", text_key="my text").read()
    assert found.text == rows[1][1]
    with pytest.raises(DataError, match="text_key=body is not a field; there are: note, my text"):
        [*CSV(path=tmp_path / "a.csv", text_key="body").read()]


def test_a_missing_column_is_met_with_those_that_are_there(tmp_path):
    table = arrow.Table.from_pylist([{"content": "One.", "n": 1}])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="text_key=text is not a field; there are: content, n"):
        [*Parquet(path=tmp_path / "a.parquet").read()]


def test_a_table_as_one_document_is_warned_of(tmp_path, caplog):
    (tmp_path / "a.csv").write_text("text\nOne.\n")
    TextFiles(path=tmp_path, pattern="*.csv").check()
    assert "one document per row, set corpus=csv" in caplog.text


@given(
    text=st.text(alphabet="ab \n", max_size=200),
    validation=st.floats(0, 0.5),
    test=st.floats(0, 0.5),
)
def test_the_parts_of_a_document_are_all_of_it_in_order(text, validation, test):
    split = Split(validation=validation, test=test, within=True)
    whole = Document(text=text, kind="prose", id="a/b.txt", source="x", replaced=2)
    parts = split.pieces(whole)
    assert "".join(part.text for part in parts) == text
    order = [split.of(part.id) for part in parts]
    assert order == sorted(order, key=SPLITS.index) and len({*order}) == len(order)
    assert all(part.id == f"{name}/a/b.txt" for part, name in zip(parts, order, strict=True))
    assert sum(part.replaced for part in parts) == 2 * bool(parts)
    for before in parts[:-1]:
        rest = text[text.index(before.text) + len(before.text) :] if before is parts[0] else ""
        assert before.text.endswith((" ", "\n")) or not set(" \n") & set(rest)


def test_documents_are_split_whole_by_name_or_within():
    with pytest.raises(DataError, match=r"split\.ids names whole documents"):
        Split(within=True, ids={"test": ["1"]})
