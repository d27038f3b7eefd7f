"""Preparation: the same bytes twice, marks as recomputed, and nothing left of a failure."""

import errno
import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Auto, Given, Newline, Pattern
from segmenters.align import anchors_from_offsets, mark
from segmenters.base import SegmenterError
from tests.train.data.corpora import content, ids_of, prepared, write_rows
from tests.train.data.faulty import FaultyDisk
from tests.train.data.preparing.test_local import Breaks
from train.data.preparing import duplicates
from train.data.preparing.duplicates import hash_of
from train.data.preparing.engines import Local
from train.data.preparing.source import Datatrove, Filter, Length, Source
from train.data.preparing.statistics import SAMPLE_CHARACTERS, Sample
from train.data.reading import documents as parts
from train.data.reading.files import CSV, JSONL, TextFiles
from train.data.reading.split import Split
from train.data.store.folder import read_top
from train.data.store.shards import open_dataset
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import LoadTokenizer, TrainBPE
from train.disk.manifest import SPLITS
from train.errors import DataError

SPLIT = Split(validation=0.2, test=0.3)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    draw = np.random.default_rng(0)
    words = ["cat", "sat", "on", "the", "mat", "42", "\u4e2d\u6587", "\U0001f600", "def f():"]
    rows = []
    for number in range(40):
        picked = draw.choice(words, int(draw.integers(1, 300)))
        ends = draw.choice([" ", ". ", "\n", "\n\n", "\n    "], len(picked))
        text = "".join(word + end for word, end in zip(picked, ends, strict=True))
        rows.append({"id": f"doc{number}", "text": text})
    return write_rows(tmp_path_factory.mktemp("in") / "corpus.jsonl", rows)


def run(corpus, out, *, segmenter=None, filters=(), split=SPLIT, tokenizer=None, **more):
    options = {"if_exists": more.pop("if_exists", "refuse")}
    documents = JSONL(path=corpus, id_key="id", **more)
    source = Source(documents=documents, segmenter=segmenter or Newline(), filters=filters)
    made = {"tokenizer": tokenizer, "corpus": {"split": split}}
    return prepared({"tiny": source}, out, **options, **made)


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """The folder of the prepared corpus."""
    return run(corpus, tmp_path_factory.mktemp("out") / "out").folder


def test_marks_on_disk_equal_marks_recomputed_from_offsets(corpus, whole):
    tokenizer = LoadTokenizer(path=whole).build()
    texts = {document.id: document.text for document in JSONL(path=corpus, id_key="id")}
    seen = set()
    for split in SPLITS:
        data = open_dataset(whole / "tiny" / split)
        for index, id in enumerate(data.document_ids()):
            tokens, marks = data.document(index)
            encoding = tokenizer.fast.encode(texts[id])
            assert tokens.tolist() == [*encoding.ids, tokenizer.eos_id]
            anchors = anchors_from_offsets(texts[id], encoding.offsets)
            expected = mark(anchors, [Newline().cut(texts[id])])
            assert marks.tolist() == [*expected.tolist(), 0]
            assert data.document_bytes[index] == len(texts[id].encode())
            assert SPLIT.of(id) == split
            seen.add(id)
    assert seen == set(texts)


def test_statistics_agree_with_the_shards(whole):
    found = json.loads((whole / "statistics.json").read_text())
    tiny = found["sources"]["tiny"]
    lengths = []
    for split in SPLITS:
        data = open_dataset(whole / "tiny" / split)
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
    assert "## tiny" in (whole / "README.md").read_text()


def test_progress_is_plain_lines_without_a_terminal(corpus, tmp_path, capsys):
    prepared({"tiny": JSONL(path=corpus, id_key="id")}, tmp_path / "out", progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["tokenizer", "1 part of tiny"]
    assert "40 documents" in lines[2]
    assert "MB/s" in lines[2] and "0.00" not in lines[2]


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
    assert [*tmp_path.iterdir()] == []


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
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match=r"contains thesis\.txt, which is not part of a prepared"):
        run(corpus, other, if_exists="overwrite")
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]


def test_the_split_is_a_function_of_the_id():
    ids = [f"document {number}" for number in range(4000)]
    split = Split(validation=0.1, test=0.2, ids={"test": ["document 7"]})
    shares = {name: sum(split.of(id) == name for id in ids) / 4000 for name in SPLITS}
    assert shares == pytest.approx({"train": 0.7, "validation": 0.1, "test": 0.2}, abs=0.02)
    assert split.of("document 7") == "test"
    other = Split(validation=0.1, test=0.2, salt="other")
    assert sum(split.of(id) != other.of(id) for id in ids) > 1000


GIVEN = {"segmenter": Given(field="cuts"), "meta_keys": ["cuts"]}
GIVEN["split"] = Split(validation=0.2, test=0.3, within=True)


@pytest.mark.parametrize(
    ("rows", "options", "told"),
    [
        (None, {}, r"sources\.tiny\.documents\.path=.*jsonl: there is no such file or folder"),
        (["a"], {"split": Split(ids={"test": ["no"]})}, r"source tiny .*split\.ids names no,"),
        ([None, ""], {}, r"source tiny .* all documents \(2\) are empty"),
        (["a", "b"], {"filters": [Length(min_characters=9)]}, r"were left out \(2 Length\)"),
        (["One. Two."] * 2, GIVEN, r"split\.within cannot split 0, whose fields cuts may"),
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


@dataclass(frozen=True, kw_only=True)
class Edits(Filter):
    """Keeps each document without its last line, as C4QualityFilter may."""

    def step(self):
        from datatrove.pipeline.filters import LambdaFilter

        def edited(document):
            document.text = document.text.rpartition("\n")[0]
            return True

        return LambdaFilter(edited)


def test_a_filter_that_changes_text_is_refused_where_fields_place_segments(tmp_path):
    text = "One line.\nno end"
    path = write_rows(tmp_path / "a", [{"id": "x", "text": text, "ends": [10, len(text)]}])
    options = {"filters": [Edits()], "split": Split(validation=0, test=0)}
    made = run(path, tmp_path / "out", **options)
    assert made.manifest["sources"]["tiny"]["splits"]["train"]["bytes"] == len("One line.")
    given = {"segmenter": Given(field="ends"), "meta_keys": ["ends"]}
    with pytest.raises(DataError, match=r"\(Edits\) changed the text of x, .* ends may"):
        run(path, tmp_path / "given", **options, **given)


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
    "broken text": [b'{"text": "\xff"}', b'{"text": "a\\ud800"}', b'{"text": "\\u0000"}'],
}


@pytest.mark.parametrize(
    ("name", "text", "reader", "told"),
    [
        ("a.csv", "text\nOne.\n", JSONL, r"2 not JSON\). Set corpus=csv"),
        ("a.csv", "b\nOne.\n", CSV, r"1 no text\). Set .*\.text_key or"),
        ("a.csv", "text,b\n,1\n", CSV, r"\(1\) are empty. Set .*\.text_key to"),
        ("a.txt", "", TextFiles, r"\(1\) are empty. Set .*tiny\.documents\.path to"),
    ],
)
def test_a_source_without_documents_names_its_cure(
    tmp_path, monkeypatch, whole, name, text, reader, told
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    sources = {"tiny": reader(path=name, on_bad="skip")}
    with pytest.raises(DataError, match=told):
        prepared(sources, tmp_path / "out", tokenizer=LoadTokenizer(path=whole))


def test_an_id_out_of_range_is_refused(corpus, tmp_path, monkeypatch):
    encode = Tokenizer.encode_documents

    def wrong(self, texts):
        made = encode(self, texts)
        return [*made[:-1], (made[-1][0] + np.int32(1 << 16), made[-1][1])]

    monkeypatch.setattr(Tokenizer, "encode_documents", wrong)
    with pytest.raises(DataError, match="doc39: ids must be from 0 to 269, were: 0 to 65"):
        run(corpus, tmp_path / "out", split=Split(validation=0, test=0))


def lenient(reader, out):
    corpus = {"split": Split(validation=0.2, test=0.2)}
    return prepared({"tiny": reader}, out, corpus=corpus, engine=Local(workers=1))


def test_bad_lines_are_counted_by_what_is_wrong(tmp_path):
    path = tmp_path / "a.jsonl"
    bad = [line for lines in LINES.values() for line in lines]
    good = [json.dumps({"text": f"good {number}"}).encode() for number in range(len(bad))]
    mixed = [line for pair in zip(good, bad, strict=True) for line in pair]
    path.write_bytes(b"\n".join([*mixed, b"", b"  ", b'{"text": null}', b'{"text": ""}']))
    reader = JSONL(path=path, max_broken=0, on_bad="skip")
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


WHITE = st.sampled_from(["", " ", "\n", "\t\n ", "\u3000"])


@given(st.lists(st.text("ab\u00e9")), st.lists(WHITE, min_size=1), st.integers(1, 9))
def test_the_hash_knows_words_and_no_white_space(words, whites, size):
    text = "".join(word + (whites[i % len(whites)] or " ") for i, word in enumerate(words))
    plain = hash_of(" ".join(text.split()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_SLICE", size)
        assert hash_of(text) == hash_of(f"\n {text}") == plain
    assert hash_of(text + " c") != plain
    assert len({hash_of(text) for text in ("a b", "ab", "a", "b a")}) == 4


def test_the_first_of_equal_documents_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "SMALLEST", 2000)
    draw = np.random.default_rng(1)
    texts = [f"text number {number} " * int(draw.integers(5, 20)) for number in range(30)]
    first, expected, sources = set(), {"a": [], "b": []}, {}
    for name, (low, high) in {"a": (0, 20), "b": (10, 30)}.items():
        rows = [{"id": f"{name}empty", "text": ""}]
        for number in range(60):
            text = texts[int(draw.integers(low, high))]
            id = f"{name}{number}"
            rows.append({"id": id, "text": text + " " * int(draw.integers(3))})
            if text not in first and len(text) >= 120:
                first.add(text)
                expected[name].append(id)
        reader = JSONL(path=write_rows(tmp_path / f"{name}.jsonl", rows), id_key="id")
        filters = [Length(min_characters=120, max_characters=10_000)]
        sources[name] = Source(documents=reader, segmenter=Newline(), filters=filters)
    corpus = {"split": Split(validation=0.2, test=0.2), "deduplicate": True}
    prepared(sources, tmp_path / "one", corpus=corpus, engine=Local(workers=1))
    monkeypatch.setattr(duplicates, "_AT_ONCE", 7)
    made = prepared(sources, tmp_path / "out", corpus=corpus, engine=Local(workers=1))
    assert content(tmp_path / "one") == content(tmp_path / "out")
    for name, ids in expected.items():
        assert ids_of(tmp_path / "out", name) == sorted(ids)
        entry = made.manifest["sources"][name]
        dropped = entry["duplicates"] + entry["filtered"].get("Length", 0)
        assert dropped + len(ids) == 61 and entry["duplicates"] > 5
    assert "duplicates" in (tmp_path / "out" / "README.md").read_text()


def test_the_sample_of_a_document_of_one_segment_is_its_text():
    sample, text = Sample(), "a" * 5000
    sample.offer(text, np.array([0, len(text)]), id="whole", split="test")
    assert sample.best[1]["text"] == text[: 2 * SAMPLE_CHARACTERS]
