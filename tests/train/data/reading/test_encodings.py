"""Bytes become the right text or are refused: no encoding is guessed."""

import gzip
import io
import json
import random
from pathlib import Path

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from tests.train.data.corpora import as_lines, prepared
from train.data.preparing.flaws import MOJIBAKE, Flaws, flaws_of
from train.data.reading.documents import REPLACEMENT, Bad, Document
from train.data.reading.encodings import decode, fault_of
from train.data.reading.files import CSV, JSONL, TextFiles
from train.data.reading.parquet import Parquet
from train.data.reading.repositories import Repositories
from train.data.reading.split import Split
from train.errors import DataError

# The encodings of a language, a tab, and text in it, which was written for these tests.
LINES = Path(__file__).with_name("languages.txt").read_text(encoding="utf-8").splitlines()
LANGUAGES = [(line.split("\t")[0].split(), line.split("\t")[1] + "\n") for line in LINES]
OLD = [(name, text) for names, text in LANGUAGES for name in names]
WIDE = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8-sig"]


@pytest.mark.parametrize(("name", "text"), OLD)
def test_old_encodings_are_refused_with_byte_and_hint_and_read_by_name(tmp_path, name, text):
    data = b"ASCII first.\n" * 5000 + text.encode(name, "ignore")
    first = next(at for at in range(len(data)) if data[at] > 127 or data[at] == 0x1B)
    for file, reader in (("a.txt", TextFiles), ("a.csv", CSV), ("a.jsonl", JSONL)):
        rows = {"a.csv": b"text\n" + data, "a.jsonl": as_row(data)}.get(file, data)
        (tmp_path / file).write_bytes(rows)
        with pytest.raises(DataError, match=r"cannot be read") as error:
            list(reader(path=tmp_path / file, max_broken=0))
        at = first + rows.index(data[:5])
        assert str(tmp_path / file) in str(error.value) and "encoding=NAME" in str(error.value)
        assert f"first at byte {at}" in str(error.value).replace("the ", "")
    (found,) = TextFiles(path=tmp_path, pattern="a.txt", encoding=name)
    assert found.text == data.decode(name) and found.replaced == 0


def as_row(data):
    return b'{"text": "' + data.replace(b"\n", b" ") + b'"}\n'


def test_the_hint_names_an_encoding_that_reads_most_languages():
    """charset-normalizer guesses; that it is right is no promise, that it helps is measured."""
    right = 0
    for names, text in LANGUAGES:
        told = fault_of(io.BytesIO(text.encode(names[0])))
        name = told.rpartition("it may be ")[2] or "ascii"
        right += text.encode(names[0]).decode(name, "replace") == text
    assert right >= len(LANGUAGES) / 2


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_the_first_broken_byte_is_the_same_for_blocks_of_any_size(monkeypatch, size):
    text = "\u20ac\U0001f600 ab\n" * 9
    data = text.encode()
    broken = [data + b"\xff" + data, data[:-4] + b"\xe2\x82" + data, b"\x80" + data]
    monkeypatch.setattr("train.data.reading.encodings._BLOCK", size)
    for each in broken:
        with pytest.raises(UnicodeDecodeError) as fault:
            each.decode()
        assert f"first at byte {fault.value.start}" in fault_of(io.BytesIO(each))
    assert fault_of(io.BytesIO(data)) == ""


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("text", [text for _, text in LANGUAGES[::3]] + ["Plain words.\n"])
def test_utf_16_and_utf_32_are_read_with_and_without_a_mark(name, text):
    assert decode(text.encode(name)).text == text
    assert decode(text.encode(name), encoding="cp1252").text == text or "-" in name[4:]


def test_no_excerpt_is_read_wrongly():
    """However short, and with another language in it: it is right, or counted as broken."""
    draw = random.Random(7)
    for _ in range(400):
        name, text = draw.choice(OLD)
        start, size = draw.randrange(len(text)), draw.choice([5, 20, 60, 150])
        mixed = draw.choice([text, draw.choice(LANGUAGES)[1]])
        piece = (text[start : start + size] + mixed[:size]).encode(name, "ignore")
        found = decode(piece)
        assert found.text == piece.decode(name) or found.replaced, (name, piece)


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 4,
        b"\x7fELF\0\0\0" + bytes(500),
        "\u043f\u0440\u0438\u0432\u0435\u0442".encode("utf-16-le"),  # without a mark or a space
        random.Random(1).randbytes(3000),
    ],
)
def test_what_is_no_text_is_refused_and_can_be_left_out(tmp_path, data):
    (tmp_path / "a.txt").write_text("Text.")
    (tmp_path / "b.txt").write_bytes(data)
    with pytest.raises(DataError, match=r"b\.txt: .* zero bytes or no text.*Set pattern to files"):
        list(TextFiles(path=tmp_path))
    (one, bad) = TextFiles(path=tmp_path, on_bad="skip").read()
    assert one.id == "a.txt" and isinstance(bad, Bad) and bad.rule == "binary"


def test_a_few_broken_bytes_are_counted_and_more_are_refused(tmp_path):
    text = b"It rains. " * 2000
    (tmp_path / "a.txt").write_bytes(text[:8] + b"\xff" + text + b"\xe2\x82")
    (found,) = TextFiles(path=tmp_path)
    assert found.replaced == found.text.count(REPLACEMENT) == 2
    assert decode(REPLACEMENT.encode() + b"\xff", encoding="utf8").replaced == 1
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(text[:8] + b"\xff\xff\xff" + text)
    with pytest.raises(DataError, match=r"a\.txt: 3 .*first at byte 8.*so are .*b\.txt\. Set enc"):
        list(TextFiles(path=tmp_path))
    assert len([*TextFiles(path=tmp_path, max_broken=1)]) == 2


def test_a_folder_of_several_encodings_needs_their_names(tmp_path):
    for name, text in (("a", "cp1252"), ("b", "utf-8"), ("c", "utf-16")):
        (tmp_path / f"{name}.txt").write_bytes("Andr\xe9\n".encode(text))
    with pytest.raises(DataError, match=r"a\.txt: 1 of 6 characters cannot be read"):
        list(TextFiles(path=tmp_path))
    for names in (["auto", "cp1252"], ["utf-8", "cp1252"]):
        found = [*TextFiles(path=tmp_path, encoding=names)]
        assert [each.text for each in found] == ["Andr\xe9\n"] * 3
        assert [each.encoding for each in found] == ["cp1252", "", "utf-16"]


def test_lines_of_another_encoding_need_its_name(tmp_path):
    rows = [b'{"text": "plain"}', b'{"text": "Andr\xe9"}', b'{"text": "Andr\xc3\xa9"}']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(rows))
    told = r"1 of 15 .*first in a\.jsonl:2.*at byte 32.*encoding=\[auto, NAME\]"
    with pytest.raises(DataError, match=told):
        list(JSONL(path=tmp_path))
    found = [*JSONL(path=tmp_path, encoding=["auto", "cp1252"])]
    assert [each.text for each in found] == ["plain", "Andr\xe9", "Andr\xe9"]
    assert [each.encoding for each in found] == ["", "cp1252", ""]


def test_a_wide_encoding_is_taken_where_it_fits_and_what_it_lacks_is_counted(tmp_path):
    line = '{"text": "Andr\xe9"}\n'
    (tmp_path / "a.jsonl").write_bytes(line.encode())
    (tmp_path / "b.jsonl").write_bytes(line.encode("utf-16-le"))
    found = [*JSONL(path=tmp_path, encoding=["auto", "utf-16-le"])]
    assert [each.text for each in found] == ["Andr\xe9"] * 2
    for name in ("utf-16", "utf-32"):
        (tmp_path / "b.jsonl").write_bytes((line * 9).encode(name)[:-1])  # cut short
        read = [*JSONL(path=tmp_path / "b.jsonl", on_bad="skip").read()]
        assert [type(each).__name__ for each in read] == ["Document"] * 8 + ["Bad"]
    lone = (line * 9).encode("utf-16").replace(b"r\0", b"\0\xd8", 1)
    (tmp_path / "b.jsonl").write_bytes(lone)
    with pytest.raises(DataError, match=r"1 of 45 .*, the first in b\.jsonl:1; allowed"):
        list(JSONL(path=tmp_path / "b.jsonl"))
    (one, *_) = JSONL(path=tmp_path / "b.jsonl", max_broken=1)
    assert (one.text, one.replaced) == (f"And{REPLACEMENT}\xe9", 1)


@pytest.mark.parametrize("name", ["utf-16", "utf-16-be", "utf-32-le", "cp1251", "utf-8"])
@pytest.mark.parametrize("packed", [False, True])
def test_lines_and_tables_are_decoded_whatever_the_piece(tmp_path, monkeypatch, name, packed):
    monkeypatch.setattr("train.data.reading.files.part_size", lambda total: 3000)
    texts = [f"{number}. {LANGUAGES[7][1]}" for number in range(40)]
    data = as_lines({"text": text} for text in texts).decode().encode(name)
    (tmp_path / "a.jsonl.gz" if packed else tmp_path / "a.jsonl").write_bytes(
        gzip.compress(data) if packed else data
    )
    reader = JSONL(path=tmp_path, encoding="auto" if name in WIDE else name)
    assert [each.text for each in reader] == texts
    pieces = [each for part in reader.parts() for each in reader.read_part(part)]
    assert sorted(pieces, key=lambda each: int(each.id.split(":")[1])) == [*reader]
    assert packed or name in WIDE or len(reader.parts()) > 1
    table = "text\n" + "".join(f'"{text}"\n' for text in texts)
    (tmp_path / "a.csv").write_bytes(table.encode(name))
    assert [each.text for each in CSV(path=tmp_path, encoding=reader.encoding)] == texts


def test_rows_of_parquet_that_are_not_utf_8_are_bad(tmp_path):
    column = arrow.array([b"One.", b"Andr\xe9", b"Two."], arrow.binary()).view(arrow.string())
    parquet.write_table(arrow.table({"text": column}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet, row 1: not UTF-8: .* set on_bad=skip"):
        list(Parquet(path=tmp_path))
    found = [*Parquet(path=tmp_path, on_bad="skip").read()]
    assert [getattr(each, "text", "bad") for each in found] == ["One.", "bad", "Two."]


def test_files_of_manuals_with_colons_in_their_names_are_unpacked(tmp_path):
    (tmp_path / "Date::Parse.3pm.gz").write_bytes(gzip.compress(b"Parse.\n"))
    assert [each.text for each in TextFiles(path=tmp_path, pattern="*")] == ["Parse.\n"]


def test_binary_files_of_repositories_are_left_out_and_old_ones_named(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "one" / "b.c").write_bytes(LANGUAGES[0][1].encode("cp1252"))
    files = TextFiles(path=tmp_path, pattern="**/*", encoding=["auto", "cp1252"])
    bad, one = sorted(Repositories(of=files).read(), key=lambda item: isinstance(item, Document))
    assert bad.rule == "binary" and (one.text, one.encoding) == (LANGUAGES[0][1], "cp1252")
    told = r"b\.c: \d+ of .* characters .* at byte .*Set x\.of\.encoding=NAME"
    with pytest.raises(DataError, match=told):
        list(Repositories(of=TextFiles(path=tmp_path, pattern="**/*")).keyed("x."))


def mojibake(text, name):
    return "".join(
        bytes([byte]).decode(name, "ignore") or chr(byte) for byte in text.encode("utf-8")
    )


def kinds(text):
    return {kind for kind, _, _ in flaws_of(Document(text=text, kind="", id="a", source=""))}


@pytest.mark.parametrize("text", [text for _, text in LANGUAGES])
def test_text_that_was_decoded_wrongly_is_found_and_other_text_is_not(text):
    assert kinds(text) == set()
    for name in ("cp1252", "latin-1"):
        assert kinds(mojibake(text, name)) == {MOJIBAKE}


def test_words_of_portuguese_in_capitals_are_decoded_well():
    ends = (
        "A MA\xc7\xc3\u201d",
        "\u201cF\xc3\u201d.",
        "IRM\xc3\u2013",
        "IRM\xc3\xa0MARIA",
        "\xabMA\xc7\xc3\xbb",
    )
    for text in (*ends, "MANH\xc3\u2026"):
        assert kinds(text) == set()
    for text in ("\xd3pera", "N\xd3S", "s\xfbr", "L\xe0-bas", "M\xd6GE", "METR\xd4S"):
        assert kinds(mojibake(text, "cp1252")) == {MOJIBAKE}


def test_flaws_of_parts_add_up_to_those_of_the_whole():
    texts = ["a\0", f"b{REPLACEMENT}", mojibake("\xe9", "cp1252"), "\0\0", "plain"]
    documents = [Document(text=t, kind="", id=t, source="", replaced=len(t) % 2) for t in texts]
    whole, joined = Flaws(), Flaws()
    for start in (0, 2, 3):
        part = Flaws()
        for document in documents[start : {0: 2, 2: 3, 3: 5}[start]]:
            whole.add(document)
            part.add(document)
        joined.merge(json.loads(json.dumps(part.state())))
    assert joined.table() == whole.table() and joined.characters == whole.characters
    assert {*whole.table()} == {"replaced", "zeros", "lost", "mojibake"}


def test_too_much_broken_text_in_all_is_refused(tmp_path):
    rows = [{"text": "One.\n" * 900}, {"text": "Two\ud800.\n"}]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    whole = {"corpus": {"split": Split(validation=0, test=0)}}
    with pytest.raises(
        DataError, match=r"a\.jsonl: 1 of 4,506 .*first in a\.jsonl:2.*n\.documents"
    ):
        prepared({"n": JSONL(path=path)}, tmp_path / "out", **whole)
    made = prepared({"n": JSONL(path=path, on_bad="skip")}, tmp_path / "out", **whole)
    assert made.manifest["sources"]["n"]["bad"] == {"broken text": 1}
    flaws = Flaws()
    flaws.add(Document(text="x" * 99, kind="", id="a", source="", replaced=1))
    with pytest.raises(
        DataError, match=r"n: 1 of 99 characters .* such as in a \(1\); .* 0\.0001\."
    ):
        flaws.require_few(JSONL(path=path), "n")
