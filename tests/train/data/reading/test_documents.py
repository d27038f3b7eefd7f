"""Readers: every format gives the same documents, and bad input is named."""

import csv
import gzip
import json
import os

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Auto, Coq, Given, Lines, Mixed, Sentences
from segmenters.offsets import without_surrogates
from tests.train.data.corpora import as_lines, write_rows
from train.data.preparing.engines import Slurm
from train.data.preparing.source import Corpus, Datatrove, Length, Source
from train.data.reading import files
from train.data.reading.corpora import PackageCode
from train.data.reading.documents import Document, Reader, unwrap
from train.data.reading.encodings import decode
from train.data.reading.files import CSV, JSONL, TextFiles
from train.data.reading.hub import HuggingFace
from train.data.reading.parquet import Parquet
from train.data.reading.repositories import Repositories
from train.data.reading.split import Split, for_few
from train.data.tokenizing.vocabulary import TrainBPE
from train.disk.manifest import SPLITS
from train.errors import DataError
from train.tasks.arithmetic.chains import ArithmeticChains

TEXTS = ["One.\r\nTwo.\n", "", "caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{GRINNING FACE}\n\n x"]


@pytest.fixture
def rows():
    return [{"text": text, "meta": {"name": f"n{i}"}} for i, text in enumerate(TEXTS)]


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


def test_what_datasets_saved_is_read_by_it_alone(tmp_path, rows):
    saved = Dataset.from_list(rows)
    saved.save_to_disk(tmp_path / "one")
    DatasetDict(train=saved, test=saved.select([1])).save_to_disk(tmp_path / "several")
    for name in ("one", "several"):
        folder = str(tmp_path / name)
        reader = HuggingFace(path=folder)
        assert texts(reader) == TEXTS
        parts = [*reader.parts()]
        assert sum(part.where["last"] - part.where["first"] for part in parts) == len(TEXTS)
        for other in (TextFiles, JSONL):
            with pytest.raises(DataError, match=f"path={folder}.*set corpus=datasets"):
                other(path=folder, pattern="**/*.json").check()
    assert texts(HuggingFace(path=str(tmp_path / "several"), split="test")) == TEXTS[1:2]


def test_only_line_feeds_part_rows_of_json(tmp_path):
    row = {"text": "a\u2028b\u2029c\x85d"}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(row, ensure_ascii=False)}\r\n" * 2, "utf-8")
    assert texts(JSONL(path=tmp_path)) == [row["text"]] * 2


def test_ids_are_relative_and_unique(tmp_path, rows):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.txt").write_text("x")
    (tmp_path / "a.txt").write_text("y")
    assert [d.id for d in TextFiles(path=tmp_path)] == ["a.txt", "deep/a.txt"]
    (tmp_path / "a.jsonl").write_bytes(as_lines(rows))
    assert [d.id for d in JSONL(path=tmp_path)] == ["a.jsonl:1", "a.jsonl:2", "a.jsonl:3"]
    named = JSONL(path=tmp_path, id_key="meta.name", source="mine", kind="code")
    assert next((d.id, d.source, d.kind) for d in named) == ("n0", "mine", "code")


def test_a_glob_or_a_pattern_reads_what_it_matches_up_to_the_limit(tmp_path):
    for name in ("a.txt", "b.txt", "c.md"):
        (tmp_path / name).write_text(name)
    assert texts(TextFiles(path=tmp_path / "*.txt")) == ["a.txt", "b.txt"]
    for name in "ab":  # one name in several folders
        (tmp_path / name).mkdir()
        (tmp_path / name / "text").write_text(name)
    for path in (tmp_path / "*" / "text", f"file://{tmp_path}/*/text"):
        assert [each.id for each in TextFiles(path=path)] == ["a/text", "b/text"]
    assert [each.id for each in TextFiles(path=f"file://{tmp_path}/b.t*")] == ["b.txt"]
    assert [each.id for each in TextFiles(path=f"file://{tmp_path}/b.txt")] == ["b.txt"]
    assert texts(TextFiles(path=tmp_path, pattern="*.md")) == ["c.md"]
    assert texts(TextFiles(path=tmp_path, limit=1)) == ["a.txt"]


LINE = b'{"text": "x"}\n'
SHUT = {"max_broken": 0}
# What a file holds, how it is read, and what must be said: the place, the rule and the cure.
FAULTS = [
    ("a.jsonl", LINE + b'{"body": "x"}', JSONL, {}, r"a\.jsonl:2: text_key=text is .*are: body"),
    ("a.jsonl", LINE + b'{"text": 3}', JSONL, {}, r":2: text_key=text must contain text, was: int"),
    ("a.jsonl", LINE + b"[1]", JSONL, {}, r"a\.jsonl:2: must be an object"),
    ("a.jsonl", LINE + b"{", JSONL, {}, r"a\.jsonl:2: not JSON"),
    ("a.jsonl", LINE + b'{"text": "\xff"}', JSONL, SHUT, r"1 of 2 .*, the first in a\.jsonl:2"),
    ("a.txt", b"ok \xff", TextFiles, SHUT, "1 of 4 characters .*, the first at byte 3; .*of 0"),
    ("a.txt", b"ok", TextFiles, {"encoding": "latn1"}, "must be auto, a name .*, was: latn1"),
    ("a.txt", b"ok", TextFiles, {"encoding": "idna"}, "must be auto, a name .*, was: idna"),
    ("a.jsonl", b'{"text": "a", "id": null}', JSONL, {"id_key": "id"}, "id_key=id must name the d"),
    ("a.jsonl", LINE, JSONL, {"filter": {"no": [1]}}, "filter=no is not a field"),
    ("a.jsonl", b"\n", JSONL, {}, "no documents were found"),
    ("a.jsonl.gz", b"no", JSONL, {}, "not a complete gzip file"),
    ("a.parquet", b"no", Parquet, {}, "not a Parquet file"),
    ("a.csv", b"text", JSONL, {"path": "a.csv"}, "not JSON: .*Set corpus=csv. To leave"),
    ("a.csv", b"text", JSONL, {"path": "a.csv", "on_bad": "skip"}, "a.csv:1: .*Set corpus=csv"),
    ("a.csv", b"text", Parquet, {"path": "a.csv", "on_bad": "skip"}, "Set corpus=csv"),
    ("a.jsonl", LINE * 2, CSV, {"path": "a.jsonl"}, "Set corpus=jsonl"),
    ("a.csv", b'text\n"open', CSV, {}, "not CSV after row 0"),
    ("a.csv", b"text,n\nOne, two.,1\n", CSV, {}, "row 1: more fields than 2 columns; quote texts"),
    ("a.csv", b"text,text\nOne.,Two.\n", CSV, {}, "several columns are named text"),
    ("a.csv", b"text,n,n\nOne.,1,2\n", CSV, {"id_key": "n"}, "several columns are named n; rename"),
    ("a.csv", b"text,lang,lang\nOne.,a,b\n", CSV, {}, "several columns are named lang; rename"),
    ("a.csv", b"text,n,n\nOne.,1,2\n", CSV, {"meta_keys": ["n"]}, "columns are named n; rename"),
    ("a.csv", b"body\nOne.\n", CSV, {}, "there are: body. Set text_key or id_key to"),
    ("a.csv", b"one;two\n1;2\n", CSV, {}, "text_key=text is not a field; there are: one, two"),
    ("a.csv", b'one\n"{}"\n', CSV, {"text_key": "one.two"}, "one holds text, of which JSON is"),
    ("a.JSONL.gz", b"{}", TextFiles, {"pattern": "a.JSONL.gz"}, "set corpus=jsonl and"),
    ("c.parquet", b"{}", TextFiles, {"pattern": "*.parquet"}, "set corpus=parquet and"),
    ("x", b"", TextFiles, {}, r"no file in it matches pattern=\*\*/\*\.txt"),
    ("x", b"", TextFiles, {"pattern": "**.txt"}, r"pattern must be a glob .*, was: '\*\*\.txt'"),
    ("x", b"", TextFiles, {"pattern": "/x"}, "pattern must be a glob of paths in the folder"),
    ("x", b"", TextFiles, {"path": "nowhere"}, "nowhere: there is no such file or folder"),
    ("x", b"", TextFiles, {"path": "*.txt"}, "no file matches this glob"),
]


@pytest.mark.parametrize(("name", "data", "kind", "options", "told"), FAULTS)
def test_a_fault_is_named_with_its_place_and_its_cure(
    tmp_path, monkeypatch, name, data, kind, options, told
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=told):
        reader = kind(**{"path": tmp_path} | options)
        reader.check()
        list(reader)


@pytest.mark.parametrize(
    "options", [{}, {"encoding": ["utf-8", "cp1252"]}, {"max_broken": 1}, {"id_key": "text"}]
)
def test_short_lines_are_read_as_long_ones(tmp_path, monkeypatch, options):
    lines = [*(data for name, data, kind, *_ in FAULTS if kind is JSONL), b'{"text": null}', b" "]
    lines += [
        b"\xef\xbb\xbf" + LINE.strip(),
        b'{"text": "\xe9\x00", "language": "de"} ',
        LINE + LINE,
    ]
    (tmp_path / "a.jsonl").write_bytes(
        b"\n".join([*lines, LINE * 2, b'{"text": "\xc3\xa9\\ud800"}'])
    )
    reader = JSONL(path=tmp_path, on_bad="skip", **options)
    read = [str(each) if isinstance(each, Exception) else each for each in reader.read()]
    monkeypatch.setattr(files, "_SHORT_LINE", 0)
    again = [str(each) if isinstance(each, Exception) else each for each in reader.read()]
    assert read == again and len(read) > len(lines)


class Kept(Reader):
    """A reader of documents that are there."""

    def __init__(self, kept):
        super().__init__()
        object.__setattr__(self, "kept", kept)

    def read(self):
        return iter(self.kept)


TEXT = TextFiles(path="x")
NEEDED = {JSONL: {"path": "x"}, ArithmeticChains: {"documents": 1, "chains": 1}}
NEEDED |= {Corpus: {"tokenizer": TrainBPE()}}


@pytest.mark.parametrize(
    ("make", "options", "told"),
    [
        (Split, {"within": True, "ids": {"test": ["1"]}}, r"split\.ids names whole"),
        (Split, {"validation": 0.6, "test": 0.6}, "must be at most 1"),
        (Split, {"ids": {"dev": []}}, "must name train, validation, test, was: dev"),
        (Split, {"ids": {"test": ["a"], "train": ["a"]}}, "a is in test and in train"),
        (Repositories, {"of": TEXT, "unwrap": True}, "set of.unwrap"),
        (Repositories, {"of": TEXT, "header": "{name}"}, "header must be a line in which"),
        (Repositories, {"of": JSONL(path="x")}, "key must name the field"),
        (PackageCode, {"packages": "numpy"}, "packages must be a list of names, was: numpy"),
        (PackageCode, {"packages": ["nowhere"]}, "package nowhere is not installed; run: pip"),
        (ArithmeticChains, {"modulus": 12}, "modulus must be a prime, so that division works, was"),
        (ArithmeticChains, {"operators": (4, 1)}, "operators must be"),
        (ArithmeticChains, {"chains": 0}, "chains must be at least 1, was: 0"),
        (Corpus, {"sources": {"../a": 0}}, r"consist of letters, digits, - and _, was: \.\./a"),
        (Corpus, {"sources": {}}, "at least one source"),
        (Length, {"min_characters": 5, "max_characters": 4}, "max_characters must be at least"),
        (Datatrove, {"filter": "NoFilter"}, "filter must be one of .*GopherQuality"),
        (Datatrove, {"filter": "GopherQualityFilter", "options": {"no": 1}}, "'no'"),
        (Slurm, {"partition": "x\ny"}, r"engine\.partition must be one line"),
        (HuggingFace, {"path": "owner/name.py"}, "Name the files instead"),
        (JSONL, {"filter": {"a": "x"}}, r"filter\.a must be a list of values, was: 'x'"),
        (JSONL, {"filter": {"a": {"above": 3}}}, r"filter\.a must be one of at_least, .*: above"),
        (JSONL, {"filter": {"a": {"matches": "("}}}, r"filter\.a\.matches must be a regular"),
        (JSONL, {"filter": {"a": {"at_least": "3"}}}, r"at_least must be a number, was: '3'"),
        (JSONL, {"filter": {"a": {"not": "x"}}}, r"filter\.a\.not must be a list"),
    ],
)
def test_what_cannot_be_asked_is_refused(make, options, told):
    with pytest.raises(DataError, match=told):
        made = make(**NEEDED.get(make, {}) | options)
        made.step() if make is Datatrove else made.check()


def test_a_filter_that_is_none_is_named_by_its_key(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    source = Source(
        documents=TextFiles(path=tmp_path), segmenter=Lines(), filters=[Datatrove(filter="No")]
    )
    with pytest.raises(DataError, match=r"^corpus\.sources\.x\.filters: filter must be one of"):
        Corpus(sources={"x": source}, tokenizer=TrainBPE()).completed(limit=None)


def test_the_name_of_a_file_may_be_any_bytes(tmp_path):
    (tmp_path / os.fsdecode(b"a\xff.txt")).write_bytes(b"ok")
    (document,) = TextFiles(path=tmp_path)
    assert document.id == r"a\udcff.txt"


@given(st.binary())
def test_any_bytes_become_text_that_encodes(data):
    found = decode(data, encoding="utf-8")
    assert decode(data).text.encode() is not None
    if not found.encoding:
        plain = found.text.encode() in (data, data.removeprefix(b"\xef\xbb\xbf"))
        assert (found.replaced == 0) == plain


@given(st.text(st.characters(exclude_categories=())))
def test_clean_text_encodes_and_keeps_its_length(text):
    cleaned, _ = without_surrogates(text)
    assert len(cleaned) == len(text)
    assert cleaned.encode().decode() == cleaned


def test_unwrap_joins_lines_and_keeps_paragraphs():
    wrapped = "It was\na dark\r\nnight.\n\nRain\n  indented\n\n\nfell.\n"
    assert unwrap(wrapped) == "It was a dark night.\n\nRain\n  indented\n\n\nfell.\n"


def test_unwrap_keeps_blank_lines_with_white_space_in_linear_time():
    text = "\nNight fell.\n \nRain fell.\n" + "\t" * 300_000
    assert unwrap(text) == text


def test_files_that_the_pattern_leaves_out_are_told(tmp_path, caplog):
    for name in ("a.py", "b/c.py", "b/d.md", ".git/e.x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    with pytest.raises(DataError, match=r"it also contains 2 \.py files, 1 \.md file\. To read"):
        TextFiles(path=tmp_path).check()
    (tmp_path / "f.txt").write_text("x")
    TextFiles(path=tmp_path).check()
    assert "only 1 match pattern=**/*.txt; it also contains 2 .py files, 1 .md file" in caplog.text
    caplog.clear()
    TextFiles(path=tmp_path, pattern="**/*.py").check()
    assert not caplog.records  # most of what is there was read
    (tmp_path / "a.csv").write_text("text\nOne.\n")
    TextFiles(path=tmp_path, pattern="*.csv").check()
    assert "one document per row, set corpus=csv" in caplog.text


def test_the_fingerprint_holds_every_option_and_the_size(tmp_path):
    (tmp_path / "a.txt").write_text("four")
    found = TextFiles(path=tmp_path, limit=3).fingerprint()
    given = {"reader": "TextFiles", "kind": "prose", "source": None, "licence": None, "limit": 3}
    given |= {"unwrap": False, "pattern": "**/*.txt", "on_bad": "error"}
    given |= {"encoding": "auto", "max_broken": 1e-4, "path": str(tmp_path)}
    assert found == given | {"files": 1, "bytes": 4}


def test_a_changed_byte_of_parquet_is_found_where_pages_have_checksums(tmp_path):
    path = tmp_path / "a.parquet"
    rows = arrow.table({"text": ["One is here. Two are there."]})
    parquet.write_table(rows, path, write_page_checksum=True, compression="none")
    path.write_bytes(path.read_bytes().replace(b"One is", b"Ten is", 1))
    with pytest.raises(DataError, match="CRC checksum verification failed"):
        list(Parquet(path=path))


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
    (tmp_path / "a.csv").write_text("text\n" + "x" * 200_000 + ",\n")  # a comma at the end
    assert len(next(CSV(path=tmp_path / "a.csv").read()).text) == 200_000


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_table_is_the_one_that_gives_the_text(tmp_path, delimiter):
    rows = [["note", "my text"], ["a;b|c", "One, two; three|four\tfive."]]
    with (tmp_path / "a.csv").open("w", newline="") as table:
        csv.writer(table, delimiter=delimiter).writerows(rows)
    (found,) = CSV(path=tmp_path / "a.csv", text_key="my text").read()
    assert found.text == rows[1][1]


@given(validation=st.floats(0.1, 0.9), number=st.integers(10, 19))
def test_few_documents_are_drawn_whatever_the_shares(validation, number):
    named = [Document(text=".", kind="prose", id=str(each), source="") for each in range(number)]
    asked = Split(validation=validation, test=1 - validation, within="auto")
    drawn = for_few(asked, Kept(named))
    assert {drawn.of(each.id) for each in named} == {"validation", "test"}


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


ROWS = [
    {"text": "x = 1. Y\n", "meta": {"pile_set_name": "Github", "blob": "b" * 9000}, "n": 1},
    {"text": "A. B\n", "meta": {"pile_set_name": "StackExchange", "blob": ""}, "n": 2},
    {"text": "Proof. Qed.\n", "meta": {"pile_set_name": "PubMed Abstracts", "blob": ""}, "n": 3},
]
EXPECTED = [Lines(fallback=True), Mixed(format="markdown"), Sentences(backend="rules")]


def chosen(documents):
    auto = Auto()
    return [
        auto.choose(text=one.text, kind=one.kind, name=one.id, meta=one.meta) for one in documents
    ]


@pytest.fixture(params=[JSONL, Parquet, HuggingFace, "json in parquet"])
def reader(request, tmp_path):
    rows = ROWS
    if request.param == "json in parquet":
        name = "pile_set_name"
        rows = [row | {"meta": json.dumps({name: row["meta"][name]})} for row in ROWS]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    path = write_rows(tmp_path / "a.jsonl", ROWS)
    if request.param is HuggingFace:
        return HuggingFace(path="json", data_files=str(path))
    return (JSONL if request.param is JSONL else Parquet)(path=tmp_path)


def test_every_reader_tells_the_set_that_a_document_comes_from(reader):
    documents = list(reader)
    assert chosen(documents) == EXPECTED
    assert documents[0].meta == {"meta": {"pile_set_name": "Github"}}


def test_fields_beside_the_text_name_files_and_languages(tmp_path):
    rows = [
        {"content": "a", "max_stars_repo_path": "b/A.v", "lang": "Coq", "stars": 3},
        {"content": "b", "max_stars_repo_path": "b/x", "lang": "C", "stars": None},
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    documents = list(Parquet(path=tmp_path, text_key="content"))
    assert chosen(documents) == [Coq(), Lines(fallback=True)]
    assert documents[1].meta == {"max_stars_repo_path": "b/x", "lang": "C"}
    asked = list(Parquet(path=tmp_path, text_key="content", meta_keys=["lang"]))
    assert asked[0].meta == {"lang": "Coq"}


@pytest.mark.parametrize("kind", [JSONL, Parquet])
def test_a_list_of_texts_is_one_text_with_given_boundaries(tmp_path, kind):
    rows = [{"steps": ["1 + 1", "= 2."]}, {"steps": []}]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    steps = [{"text": "1 + 1", "rating": 1}, {"text": "= 2."}]
    write_rows(tmp_path / "a.jsonl", [{"steps": steps}, {"steps": []}])
    first, second = kind(path=tmp_path, text_key="steps", meta_keys=["steps"])
    assert (first.text, second.text) == ("1 + 1\n= 2.", "")
    given = Given(field="steps").choose(text=first.text, meta=first.meta)
    assert given.cut(first.text).tolist() == [0, 6, 10]


def test_a_null_above_the_text_is_an_empty_document(tmp_path):
    rows = [{"meta": None}, {"meta": {"text": "One."}}]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "b.parquet")
    for kind in (JSONL, Parquet):
        assert texts(kind(path=tmp_path, text_key="meta.text")) == ["", "One."]


@pytest.mark.parametrize(("named", "keys"), [("text", None), ("lang", None), ("n", ["n"])])
def test_a_repeated_column_of_parquet_is_refused(tmp_path, named, keys):
    table = arrow.table([["One."], ["Two."], ["Three."]], names=["text", named, named])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match=f"several columns are named {named}; rename all but one"):
        list(Parquet(path=tmp_path, meta_keys=keys))


def test_a_repeated_column_that_is_not_read_is_no_fault(tmp_path):
    (tmp_path / "a.csv").write_text("text,n,n\nOne.,1,2\n")
    assert texts(CSV(path=tmp_path)) == ["One."]


def test_a_broken_link_is_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(LINE)
    (tmp_path / "b.jsonl").symlink_to("nowhere")
    with pytest.raises(DataError, match=r"b\.jsonl: cannot be read: No such file.*on_bad=skip"):
        list(JSONL(path=tmp_path))
    assert texts(JSONL(path=tmp_path, on_bad="skip")) == ["x"]


def test_of_a_repeated_key_of_json_the_last_value_counts(tmp_path):
    row = '{"text": "One.", "text": "Two."}'
    (tmp_path / "a.jsonl").write_text(f"{row}\n {row}\n")
    assert texts(JSONL(path=tmp_path)) == ["Two.", "Two."]


def test_parts_of_a_message_may_be_texts_or_have_none(tmp_path):
    turn = {"role": "user", "content": ["a", {"text": "b"}, {"text": None}, {"image": 1}, 3]}
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": [turn]}))
    assert texts(JSONL(path=tmp_path)) == ["<|im_start|>user\nab<|im_end|>\n"]


@pytest.mark.parametrize("content", [{}, {"content": None}])
def test_a_call_of_a_tool_without_content_is_an_empty_turn(tmp_path, content):
    call = {"role": "assistant", "tool_calls": [{"id": "1"}], **content}
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"text": [call, {"role": "tool", "content": "3"}]})
    )
    (text,) = texts(JSONL(path=tmp_path))
    assert text == "<|im_start|>assistant\n<|im_end|>\n<|im_start|>tool\n3<|im_end|>\n"
