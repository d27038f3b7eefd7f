"""`bipe prepare` from the command line: what would be done, a limit, and the keys in messages."""

import json
import re
import shlex

import pytest
import tokenizers
from tokenizers import models

from segmenters.code import advice
from tests.train.data.corpora import write_rows
from train.cli import main
from train.data.reading.files import JSONL
from train.errors import DataError

SMALL = ("corpus.tokenizer.vocab_size=270", "engine.workers=1")


@pytest.fixture
def corpus(tmp_path):
    rows = [{"text": f"Number {number}. " * 30} for number in range(20)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    own = ("corpus=jsonl", f"corpus.sources.text.documents.path={path}", *SMALL)
    return (*own, "segmenter@corpus.sources.text.segmenter=newline", f"data={tmp_path / 'data'}")


def test_a_dry_run_tells_and_writes_nothing(corpus, tmp_path, capsys):
    assert main(["prepare", *corpus, "--dry-run", "--limit", "7"]) == 0
    told = capsys.readouterr().out
    assert f"into {tmp_path / 'data'}, which contains no data" in told
    for words in ("by 1 process here", "vocab_size=270", "files: 1, ", "parts: 1", "the first 7 "):
        assert words in told
    assert not (tmp_path / "data").exists()


def test_a_limit_is_part_of_the_request(corpus, tmp_path, capsys):
    assert main(["prepare", *corpus, "limit=3"]) == 0
    assert "3 documents" in capsys.readouterr().out
    assert main(["prepare", *corpus, "limit=3"]) == 0
    assert "is already prepared" in capsys.readouterr().out
    assert main(["prepare", *corpus]) == 2
    told = capsys.readouterr().err
    assert "sources.text.documents.limit was 3, is null" in told
    assert "data=" in told and "out=" not in told
    assert main(["prepare", *corpus, "dry_run=true", "limit=3"]) == 0
    assert "contains the same data set (if_exists=auto)" in capsys.readouterr().out


def test_physical_lines_in_place_of_logical_ones_are_told(tmp_path, capsys, monkeypatch):
    found = advice.missing
    monkeypatch.setattr(advice, "missing", lambda name: name == "go" or found(name))
    page = "# Title\n\n```go\na := 1\nb := 2\n```\n"
    files = {"a.py": "x = (1,\n  2)\n", "b.go": "var a = 1\n", "c.md": page, "d.c": "a" * 20_000}
    for copy in range(2):
        rows = [{"path": name, "text": text} for name, text in files.items()]
        write_rows(tmp_path / f"{copy}.jsonl", rows)
    words = ["corpus=jsonl", f"corpus.sources.text.documents.path={tmp_path}", *SMALL]
    words += ["segmenter@corpus.sources.text.segmenter=auto", "corpus.split.within=false"]
    words += ["corpus.sources.text.segmenter.granularity=logical", f"data={tmp_path / 'data'}"]
    assert main(["prepare", *words]) == 0
    out, err = capsys.readouterr()
    made = json.loads((tmp_path / "data" / "manifest.json").read_text())["sources"]["text"]
    inside = len("a := 1\nb := 2\n")
    assert made["done"] == {
        "physical lines: too hard to parse": {"documents": 2, "characters": 40_000},
        "Mixed": {"documents": 2, "characters": 2 * (len(page) - inside)},
        "physical lines: no grammar of go": {"documents": 4, "characters": 2 * (10 + inside)},
        "logical python": {"documents": 2, "characters": 26},
    }
    card = (tmp_path / "data" / "README.md").read_text()
    assert "4 (48 characters) physical lines: no grammar of go" in card
    assert "0.1% of characters, 4 documents: physical lines: no grammar of go" in out
    assert "physical lines: no grammar of go; pip install -U tree-sitter tree-sitter-go" in err
    assert "% of characters, 2 documents: physical lines: too hard to parse; exclude" in err


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("corpus.sources.text.documents.path=/nowhere", "corpus.sources.text.documents.path=/nowh"),
        ("limit=0", "limit must be at least 1"),
        ("corpus.sources.texts.documents.path=a", "needs _target_); did you mean 'text'?"),
        ("engine=slrum", "there is no engine=slrum"),
        ("corpus.shard_tokens=0", "shard_tokens must be at least 1, was: 0"),
        ("corpus.sources.text.split.test=0", "set corpus.sources.text.split._target_=train.dat"),
    ],
)
def test_faults_are_named_by_their_keys(corpus, capsys, tmp_path, word, told):
    assert main(["prepare", *corpus, word]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.fixture
def texts(tmp_path, capsys):
    """Prepare a folder of texts with further words; stdout and stderr."""

    def run(texts, *words):
        (tmp_path / "text").mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            (tmp_path / "text" / f"{number}.txt").write_text(text)
        own = ["corpus=text", f"corpus.sources.text.documents.path={tmp_path / 'text'}", *SMALL]
        assert main(["prepare", *own, f"data={tmp_path / 'data'}", *words]) == 0
        return capsys.readouterr()

    return run


def test_an_empty_file_is_counted_in_the_limit_and_said_to_be_left_out(texts):
    out, _ = texts(["One. Two. Three. " * 9 * number for number in range(4)], "--limit", "4")
    assert "text: 3 documents" in out and "\n    left out: 1 empty\n" in out


def test_splits_without_a_document_are_named_with_a_cure_that_works(texts):
    book = ["".join(f"Number {number}.\n" for number in range(500))]
    out, err = texts(book, "corpus.split.within=false")
    assert "written, and lacks documents" in out and "is ready" not in out
    assert "1 document (1 for train, 0 for validation, 0 for test)" in out
    assert "text: no document for validation and test" in err
    cure = next(word.rstrip(",") for word in err.split() if word.startswith("corpus.split.within"))
    out, err = texts(book, cure, "if_exists=overwrite")
    assert "is ready" in out and "1 document (1 for train, 1 for validation" in out
    assert "warning" not in err
    _, err = texts(["One line.\n"], "corpus.split.within=true", "if_exists=overwrite")
    assert "no document for validation and test, since all are too short" in err


@pytest.mark.parametrize(
    "made",
    [
        ["One line.\n"],
        ["One.\n", "Two.\n"],
        [f"Text {number}.\n" for number in range(9)],
        [f"Line {number}.\n" * 40 for number in range(4)],
        ["One. Two.\n" * 500, "Three.\n"],
    ],
)
def test_each_cure_for_a_split_without_documents_works_as_typed(texts, made):
    """Whatever the texts are: a cure that would not help is not named."""
    given = ("corpus.split.within=false", "corpus.split.test=0.02")
    _, err = texts(made, *given)
    typed = re.findall(r"by (corpus\.split\.within=true)", err)
    typed += re.findall(r"raw more by (\S+ corpus\.split\.test=[.\d]+)", err)
    assert "dd more or longer documents" in err and "rows.validation_rows=0" in err
    for words in typed:
        out, err = texts(made, *given, *words.split(), "if_exists=overwrite")
        assert "is ready" in out and "warning" not in err, words
    assert typed or len(made) < 5


@pytest.mark.parametrize(
    ("number", "lines", "counts", "why"),
    [
        (1, 1200, "1 document (1 for train, 1 for validation, 1 for test)", "so each is split"),
        (7, 1, "7 documents (5 for train, 1 for validation, 1 for test)", "so splits are drawn"),
    ],
)
def test_few_documents_have_a_split_at_the_first_try(texts, tmp_path, number, lines, counts, why):
    made = ["".join(f"{each}, line {at}.\n" for at in range(lines)) for each in range(number)]
    out, err = texts(made)
    assert "is ready" in out and counts in out and why in out and "warning" not in err
    assert f"- split: documents are few, {why}" in (tmp_path / "data" / "README.md").read_text()
    assert "is already prepared" in texts(made).out  # the same documents, the same split


def prepare(folder, *words):
    path = f"corpus.sources.text.documents.path={folder}"
    return main(["prepare", path, *SMALL, f"data={folder}.data", "--dry-run", *words])


def test_the_cure_of_bad_rows_and_of_broken_text_works_as_typed(tmp_path, capsys):
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"text": "One."}\n{"text"\n' + '{"text": "Two."}\n' * 9)
    old = tmp_path / "b.txt"
    old.write_bytes(b"Andr\xe9.\n" * 9)
    key = "corpus.sources.text.documents"
    cures = [(lines, "jsonl", f"{key}.on_bad=skip"), (old, "text", f"{key}.max_broken=1")]
    for path, corpus, cure in cures:
        assert prepare(path, f"corpus={corpus}") == 2
        told = capsys.readouterr().err
        assert str(path) in told and cure in told
        assert prepare(path, f"corpus={corpus}", cure) == 0
    assert "warning: replaced by U+FFFD, since it could not be" in capsys.readouterr().out
    assert prepare(old, "corpus=text", f"{key}.encoding=[auto,cp1252]") == 0
    assert "1 document read as cp1252, such as b.txt" in capsys.readouterr().out


def test_the_cure_of_a_pattern_works_as_typed(tmp_path, capsys, caplog):
    for number in range(9):
        (tmp_path / f"{number}.md").write_text(f"Text {number}.\n" * 20)
    for more in (0, 1):  # no file matches, or the fewer
        assert prepare(tmp_path, "corpus=text") == (0 if more else 2)
        told = "".join((*capsys.readouterr(), caplog.text))
        (word,) = shlex.split(re.search(r"To read them, set ('.*')", told)[1])
        assert prepare(tmp_path, "corpus=text", word) == 0
        assert "files: 9," in capsys.readouterr().out
        (tmp_path / "one.txt").write_text("Text.\n")


def test_a_tokenizer_to_load_is_named_by_the_key_of_its_path(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("Text.\n" * 20)
    path = f"corpus.sources.text.documents.path={tmp_path}"
    words = ("prepare", "corpus=text", path, "tokenizer@corpus.tokenizer=load", "--dry-run")
    assert main([*words]) == 2
    key = re.search(r"(corpus\.tokenizer\.path)=\S+: there is no", capsys.readouterr().err)[1]
    spoken = tokenizers.Tokenizer(models.WordLevel({"a": 0, "<eos>": 1, "?": 2}, unk_token="?"))
    spoken.save(str(tmp_path / "own.json"))
    assert main([*words, f"{key}={tmp_path / 'own.json'}"]) == 0


def test_a_json_array_is_named_and_its_cure_works(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    for text in ('[\n {"text": "One."}\n]\n', '[{"text": "One."}]\n'):
        path.write_text(text)
        with pytest.raises(DataError, match="JSON array"):
            list(JSONL(path=path))
    assert prepare(path, "corpus=jsonl") == 2
    told = capsys.readouterr().err
    assert f"{path}:1: a JSON array; write one object per line" in told and "jq -c '.[]'" in told
    assert "path and filters" not in told
    skip = "corpus.sources.text.documents.on_bad=skip"
    rows = "".join(json.dumps(row) + "\n" for row in json.loads(text))  # as jq does
    path.write_text(rows * 9)
    assert prepare(path, "corpus=jsonl", skip) == 0


def test_what_is_wrong_with_text_is_said_and_kept_in_the_manifest(texts, tmp_path):
    good = ["One. Two.\n" * 99] * 3
    assert "warning" not in texts(good).err
    made = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert "flaws" not in made["sources"]["text"]
    bad = [*good, "caf\xc3\xa9 " + "x " * 9999 + "\ufffd\0"]
    _, err = texts(bad, "if_exists=overwrite", "corpus.split.within=false")
    assert "decoded wrongly before, it seems: 1 place in 1 document, such as 3.txt: caf" in err
    assert "zero bytes, as in binary files: 1 character in 1 document, such as 3.txt (1)" in err
    assert "U+FFFD in the source itself, lost before: 1 character in 1 document" in err
    again = texts(bad, "corpus.split.within=false")
    assert "already prepared" in again.out and "decoded wrongly" in again.err
    assert "- mojibake: 1 characters" in (tmp_path / "data" / "README.md").read_text()
