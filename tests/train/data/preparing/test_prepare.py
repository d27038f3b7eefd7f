"""Preparation: the same bytes twice, marks as recomputed, and nothing left of a failure."""

import errno
import json

import numpy as np
import pytest

from segmenters import Auto, Given, Newline, Pattern
from segmenters.align import anchors_from_offsets, mark
from segmenters.base import SegmenterError
from tests.train.data.corpora import content, ids_of, prepared, write_rows
from tests.train.data.faulty import FaultyDisk
from train.data.preparing.engines import Local, Ray, Slurm
from train.data.preparing.source import Corpus, Datatrove, Length, Source
from train.data.reading import SPLITS
from train.data.reading.files import JSONL, TextFiles
from train.data.reading.split import Split
from train.data.store.folder import read_top
from train.data.store.shards import open_dataset
from train.data.tokenizing.vocabulary import LoadTokenizer, TrainBPE
from train.errors import DataError

SPLIT = Split(validation=0.2, test=0.3)


@pytest.fixture
def corpus(tmp_path):
    draw = np.random.default_rng(0)
    words = ["cat", "sat", "on", "the", "mat", "42", "\u4e2d\u6587", "\U0001f600", "def f():"]
    rows = []
    for number in range(40):
        picked = draw.choice(words, int(draw.integers(1, 300)))
        ends = draw.choice([" ", ". ", "\n", "\n\n", "\n    "], len(picked))
        text = "".join(word + end for word, end in zip(picked, ends, strict=True))
        rows.append({"id": f"doc{number}", "text": text})
    return write_rows(tmp_path / "corpus.jsonl", rows)


def run(
    corpus,
    out,
    *,
    segmenter=None,
    filters=(),
    split=SPLIT,
    tokenizer=None,
    if_exists="refuse",
    **reader,
):
    documents = JSONL(path=corpus, id_key="id", **reader)
    source = Source(documents=documents, segmenter=segmenter or Newline(), filters=filters)
    made = {"tokenizer": tokenizer, "corpus": {"split": split}}
    return prepared({"tiny": source}, out, if_exists=if_exists, **made)


def test_marks_on_disk_equal_marks_recomputed_from_offsets(corpus, tmp_path):
    run(corpus, tmp_path / "out")
    tokenizer = LoadTokenizer(path=tmp_path / "out").build()
    texts = {document.id: document.text for document in JSONL(path=corpus, id_key="id")}
    seen = set()
    for split in SPLITS:
        data = open_dataset(tmp_path / "out" / "tiny" / split)
        for index, id in enumerate(data.document_ids()):
            tokens, marks = data.document(index)
            encoding = tokenizer.fast.encode(texts[id])
            assert tokens.tolist() == [*encoding.ids, tokenizer.eos_id]
            anchors = anchors_from_offsets(texts[id], encoding.offsets)
            assert np.array_equal(marks[:-1], mark(anchors, [Newline().cut(texts[id])]))
            assert marks[-1] == 0
            assert data.document_bytes[index] == len(texts[id].encode())
            assert SPLIT.of(id) == split
            seen.add(id)
    assert seen == set(texts)


def test_statistics_agree_with_the_shards(corpus, tmp_path):
    run(corpus, tmp_path / "out")
    found = json.loads((tmp_path / "out" / "statistics.json").read_text())
    tiny = found["sources"]["tiny"]
    lengths = []
    for split in SPLITS:
        data = open_dataset(tmp_path / "out" / "tiny" / split)
        starts = np.flatnonzero(data.starts(0, len(data.tokens)))
        lengths += np.diff(starts, append=len(data.tokens)).tolist()
    overall = tiny["tokens_per_segment"]
    edges = [*found["segment_edges"], 1 << 60]
    assert overall["segments"] == len(lengths)
    assert overall["mean"] == pytest.approx(np.mean(lengths))
    assert overall["percentiles"]["50"] == sorted(lengths)[(len(lengths) + 1) // 2 - 1]
    assert overall["histogram"] == np.histogram(lengths, edges)[0].tolist()
    assert overall["share_of_length_1"] == pytest.approx(np.mean(np.array(lengths) == 1))
    buckets = tiny["by_document_length"]
    assert sum(bucket["documents"] for bucket in buckets) == 40
    assert sum(bucket["segments"] for bucket in buckets) == len(lengths)
    sample = tiny["sample"]
    assert sample["split"] == "test"
    assert (sample["cuts"][0], sample["cuts"][-1]) == (0, len(sample["text"]))
    assert sorted(set(sample["cuts"])) == sample["cuts"]
    assert "## tiny" in (tmp_path / "out" / "README.md").read_text()


class Breaks(Newline):
    """Fails in the middle of the corpus."""

    def cut(self, text):
        if "42" in text:
            raise SegmenterError("cannot", offset=3)
        return super().cut(text)


class Gaps(Newline):
    """Breaks the tiling law."""

    def cut(self, text):
        return super().cut(text)[:-1] if text else super().cut(text)


def test_a_failure_in_the_middle_leaves_nothing(corpus, tmp_path, monkeypatch):
    with pytest.raises(SegmenterError, match=r"document 'doc[0-9]+'"):
        run(corpus, tmp_path / "out", segmenter=Breaks())
    with pytest.raises(SegmenterError, match="cuts must increase from 0 to the end"):
        run(corpus, tmp_path / "out", segmenter=Gaps())
    with monkeypatch.context() as patch:
        FaultyDisk(patch, fail_at=60, error=errno.ENOSPC, stays=True)
        with pytest.raises(DataError, match=r"no room is left.*set data= or out="):
            run(corpus, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]


def test_a_standing_data_set_is_refused_kept_or_overwritten(corpus, tmp_path):
    out = tmp_path / "out"
    larger = TrainBPE(vocab_size=280)
    run(corpus, out)
    before = content(out)
    for options, told in (
        ({}, r"contains a data set\. .*if_exists=overwrite or if_exists=auto"),
        ({"tokenizer": larger, "if_exists": "auto"}, r"tokenizer\.vocab_size was 270, is 280"),
        ({"segmenter": Pattern(ends="x"), "if_exists": "auto"}, r"sources\.tiny\.segmenter"),
        ({"limit": 5, "if_exists": "auto"}, r"sources\.tiny\.documents\.limit was null, is 5"),
        ({"if_exists": "yes"}, "must be auto, refuse, resume, overwrite, was: yes"),
        ({"segmenter": Breaks(), "if_exists": "overwrite"}, "cannot"),
    ):
        with pytest.raises(ValueError, match=told):
            run(corpus, out, **options)
    assert run(corpus, out, if_exists="auto").kept
    assert content(out) == before
    run(corpus, out, if_exists="overwrite", tokenizer=larger)
    assert read_top(out)["tokenizer"]["vocab_size"] == 280
    assert not (out / ".part").exists()


def test_other_files_in_the_folder_are_never_touched(corpus, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match=r"contains thesis\.txt, which is not part of a prepared"):
        run(corpus, out, if_exists="overwrite")
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_the_split_is_a_function_of_the_id():
    ids = [f"document {number}" for number in range(4000)]
    split = Split(validation=0.1, test=0.2, ids={"test": ["document 7"]})
    shares = {name: sum(split.of(id) == name for id in ids) / 4000 for name in SPLITS}
    assert shares == pytest.approx({"train": 0.7, "validation": 0.1, "test": 0.2}, abs=0.02)
    assert split.of("document 7") == "test"
    other = Split(validation=0.1, test=0.2, salt="other")
    assert sum(split.of(id) != other.of(id) for id in ids) > 1000


def corpus_of(sources):
    return Corpus(sources=sources, tokenizer=TrainBPE())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: corpus_of({"../a": 0}), r"consist of letters, digits, - and _, was: \.\./a"),
        (lambda: corpus_of({}), "at least one source"),
        (lambda: Length(min_characters=5, max_characters=4), "max_characters must be at least"),
        (lambda: Datatrove(filter="NoFilter").check(), "filter must be one of .*GopherQuality"),
        (lambda: Datatrove(filter="GopherQualityFilter", options={"no": 1}).check(), "'no'"),
        (lambda: Local(workers=0), r"engine\.workers must be at least 1, was: 0"),
        (lambda: Slurm(partition="x", memory_gb=0), r"engine\.memory_gb must be at least 1"),
        (lambda: Slurm(partition="x\ny"), r"engine\.partition must be one line"),
        (lambda: Ray(workers=0), r"engine\.workers must be at least 1, was: 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(make, told):
    with pytest.raises(DataError, match=told):
        make()


@pytest.mark.parametrize(
    ("rows", "options", "told"),
    [
        (None, {}, r"sources\.tiny\.documents\.path=.*jsonl: there is no such file or folder"),
        (["a"], {"split": Split(ids={"test": ["no"]})}, r"source tiny .*split\.ids names no,"),
        ([None, ""], {}, r"source tiny .* all documents \(2\) are empty"),
        (["a", "b"], {"filters": [Length(min_characters=9)]}, r"were left out \(2 Length\)"),
        (
            ["One. Two."] * 2,
            {
                "split": Split(validation=0.2, test=0.3, within=True),
                "segmenter": Given(field="cuts"),
                "meta_keys": ["cuts"],
            },
            r"split\.within cannot split 0, whose fields cuts may",
        ),
    ],
)
def test_requests_that_cannot_be_served_leave_nothing(tmp_path, rows, options, told):
    path = tmp_path / "a.jsonl"
    if rows is not None:
        held = [{"id": str(n), "text": text, "cuts": [0, 5, 9]} for n, text in enumerate(rows)]
        write_rows(path, held)
    with pytest.raises(DataError, match=told):
        run(path, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_filters_count_what_they_drop_in_their_order(tmp_path):
    texts = ["word " * number + ("secret" if number > 7 else "") for number in range(10)]
    path = write_rows(tmp_path / "a", [{"id": n, "text": t} for n, t in enumerate(texts)])
    filters = [
        Length(min_characters=10, max_characters=46),
        Datatrove(filter="RegexFilter", options={"regex_exp": "secret"}),
    ]
    made = run(path, tmp_path / "out", filters=filters, split=Split(validation=0, test=0))
    entry = made.manifest["sources"]["tiny"]
    assert entry["filtered"] == {"Length": 3, "RegexFilter": 1}
    assert entry["splits"]["train"]["documents"] == 6
    told = made.manifest["request"]["sources"]["tiny"]["filters"]
    assert [filter["filter"] for filter in told] == ["Length", "RegexFilter"]
    assert "left out, by RegexFilter: 1" in (tmp_path / "out" / "README.md").read_text()


def test_progress_is_plain_lines_without_a_terminal(corpus, tmp_path, capsys):
    reader = JSONL(path=corpus, id_key="id")
    prepared({"tiny": reader}, tmp_path / "out", progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["tokenizer", "1 part of tiny"]
    assert "40 documents" in lines[2]
    assert "MB/s" in lines[2] and "0.00" not in lines[2]


def test_a_segmenter_may_be_chosen_for_each_document_and_is_counted(tmp_path):
    rows = [
        {"id": "a.py", "text": "x = (1,\n  2)\ny = 3\n"},
        {"id": "b", "text": "One. Two.\nThree."},
        {"id": "c", "text": "Qed. Qed. x.y.", "meta": {"language": "coq"}},
    ]
    corpus = write_rows(tmp_path / "corpus.jsonl", rows)
    made = run(corpus, tmp_path / "out", segmenter=Auto(), split=Split(validation=0, test=0))
    counted = made.manifest["sources"]["tiny"]["segmenters"]
    assert [each["documents"] for each in counted.values()] == [1, 1, 1]
    assert sum(each["characters"] for each in counted.values()) == sum(
        len(row["text"]) for row in rows
    )
    assert {name.partition("(")[0] for name in counted} == {"Lines", "Sentences", "Coq"}
    card = (tmp_path / "out" / "README.md").read_text()
    assert "documents by segmenter: 1 (19 characters) by" in card
    data = open_dataset(tmp_path / "out" / "tiny" / "train")
    segments = [int((data.document(index)[1] & 2 > 0).sum()) for index in range(3)]
    assert segments == [3, 3, 3]


LINES = {
    "not JSON": [b"{", b'{"text": "a"', b"{} {}", b'{"text": ' + b"9" * 5000 + b"}", b"[" * 9999],
    "no object": [b"[1]", b"3", b"null", b'"text"'],
    "no text": [b'{"body": "x"}', b'{"text": 3}', b'{"text": ["x", 3]}'],
    "not UTF-8": [b'{"text": "\xff"}', b"\xc3\x28"],
}


def lenient(reader, out):
    corpus = {"split": Split(validation=0.2, test=0.2)}
    return prepared({"tiny": reader}, out, corpus=corpus, engine=Local(workers=1))


def test_bad_lines_are_counted_by_what_is_wrong(tmp_path):
    path = tmp_path / "a.jsonl"
    bad = [line for lines in LINES.values() for line in lines]
    good = [json.dumps({"text": f"good {number}"}).encode() for number in range(len(bad))]
    mixed = [line for pair in zip(good, bad, strict=True) for line in pair]
    path.write_bytes(b"\n".join([*mixed, b"", b"  ", b'{"text": null}', b'{"text": ""}']))
    reader = JSONL(path=path, encoding_errors="fail", on_bad="skip")
    made = lenient(reader, tmp_path / "out")
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
        lenient(TextFiles(path=tmp_path), tmp_path / "out")
    made = lenient(TextFiles(path=tmp_path, on_bad="skip"), tmp_path / "out")
    entry = made.manifest["sources"]["tiny"]
    assert (entry["bad"], entry["empty"]) == ({"cannot be read": 1}, 1)
    assert ids_of(tmp_path / "out", "tiny") == ["a.txt", "c.txt"]


def test_a_corpus_that_changed_is_begun_again(tmp_path, monkeypatch):
    """Parts of an interrupted run are not mixed with those of other texts."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n')
    monkeypatch.setattr("train.data.preparing.prepare.tallies", lambda work: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        lenient(JSONL(path=path), tmp_path / "out")
    assert list((tmp_path / "out").glob(".part/parts/tiny/00000/part.json"))
    monkeypatch.undo()
    path.write_text('{"text": "two"}\n')  # of the same size
    lenient(JSONL(path=path), tmp_path / "out")
    found = json.loads((tmp_path / "out" / "statistics.json").read_text())
    assert found["sources"]["tiny"]["sample"]["text"] == "two"
