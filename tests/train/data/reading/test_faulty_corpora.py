"""Faults of a corpus: a clear error, or counted by policy; nothing lost, nothing doubled."""

import json

import pytest

from tests.train.data import corpora
from tests.train.data.corpora import ids_of
from train.data.preparing.engines import Local
from train.data.reading.files import JSONL, TextFiles
from train.data.reading.split import Split
from train.errors import DataError

LINES = {
    "not JSON": [b"{", b'{"text": "a"', b"{} {}", b'{"text": ' + b"9" * 5000 + b"}", b"[" * 9999],
    "no object": [b"[1]", b"3", b"null", b'"text"'],
    "no text": [b'{"body": "x"}', b'{"text": 3}', b'{"text": ["x", 3]}'],
    "not UTF-8": [b'{"text": "\xff"}', b"\xc3\x28"],
}


def prepared(reader, out, **options):
    corpus = {"split": Split(validation=0.2, test=0.2)}
    return corpora.prepared(
        {"tiny": reader}, out, corpus=corpus, engine=Local(workers=1), **options
    )


def test_bad_lines_are_counted_by_what_is_wrong(tmp_path):
    path = tmp_path / "a.jsonl"
    bad = [line for lines in LINES.values() for line in lines]
    good = [json.dumps({"text": f"good {number}"}).encode() for number in range(len(bad))]
    mixed = [line for pair in zip(good, bad, strict=True) for line in pair]
    path.write_bytes(b"\n".join([*mixed, b"", b"  ", b'{"text": null}', b'{"text": ""}']))
    reader = JSONL(path=path, encoding_errors="fail", on_bad="skip")
    made = prepared(reader, tmp_path / "out")
    entry = made.manifest["sources"]["tiny"]
    assert entry["bad"] == {rule: len(lines) for rule, lines in LINES.items()}
    assert entry["empty"] == 2
    assert ids_of(tmp_path / "out", "tiny") == sorted(
        f"a.jsonl:{number}" for number in range(1, 2 * len(good), 2)
    )
    card = (tmp_path / "out" / "README.md").read_text()
    assert "left out, not JSON: 5" in card
    assert "a.jsonl:2: not JSON" in card
    data = json.loads((tmp_path / "out" / "card.json").read_text())
    assert data["sources"]["tiny"]["bad"] == entry["bad"]


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(f"text {name}")
    (tmp_path / "empty.txt").write_text("")
    opened = type(tmp_path).open

    def refused(self, *arguments, **options):
        if self.name == "b.txt":
            raise PermissionError(13, "Permission denied")
        return opened(self, *arguments, **options)

    monkeypatch.setattr(type(tmp_path), "open", refused)
    with pytest.raises(DataError, match=r"b\.txt: cannot be read: Permission denied"):
        prepared(TextFiles(path=tmp_path), tmp_path / "out")
    made = prepared(TextFiles(path=tmp_path, on_bad="skip"), tmp_path / "out")
    entry = made.manifest["sources"]["tiny"]
    assert (entry["bad"], entry["empty"]) == ({"cannot be read": 1}, 1)
    assert ids_of(tmp_path / "out", "tiny") == ["a.txt", "c.txt"]


def test_a_corpus_that_changed_is_begun_again(tmp_path, monkeypatch):
    """Parts of an interrupted run are not mixed with those of other texts."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n')
    monkeypatch.setattr("train.data.preparing.prepare.tallies", lambda work: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        prepared(JSONL(path=path), tmp_path / "out")
    assert list((tmp_path / "out").glob(".part/parts/tiny/00000/part.json"))
    monkeypatch.undo()
    path.write_text('{"text": "two"}\n')  # of the same size
    prepared(JSONL(path=path), tmp_path / "out")
    found = json.loads((tmp_path / "out" / "statistics.json").read_text())
    assert found["sources"]["tiny"]["sample"]["text"] == "two"
