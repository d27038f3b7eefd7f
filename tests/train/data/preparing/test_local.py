"""Local workers: the same bytes for any number of them, and clear ends."""

import os
import signal
from dataclasses import dataclass

import pytest

from segmenters import Newline
from segmenters.base import SegmenterError
from tests.train.data import corpora
from tests.train.data.corpora import content, ids_of
from tests.train.data.preparing.disturbed import PART_BYTES, run, sources, write_corpus
from train.data.preparing.engines import Local
from train.data.preparing.source import Source
from train.data.reading import documents as parts
from train.errors import DataError


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "SMALLEST", PART_BYTES)


@dataclass(frozen=True, kw_only=True)
class Deadly(Newline):
    """Kills its own process at a document."""

    def cut(self, text):
        if "def f():" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().cut(text)


@dataclass(frozen=True, kw_only=True)
class Breaks(Newline):
    """Cannot cut some documents."""

    def cut(self, text):
        if "def f():" in text:
            raise SegmenterError("cannot", offset=3)
        return super().cut(text)


def test_the_bytes_do_not_depend_on_the_number_of_workers(tmp_path):
    texts = write_corpus(tmp_path / "in", seed=1)
    run(tmp_path / "in", tmp_path / "one")
    expected = content(tmp_path / "one")
    run(tmp_path / "in", tmp_path / "three", workers=3)
    assert content(tmp_path / "three") == expected
    run(tmp_path / "in", tmp_path / "apart", engine=Local(workers=1, isolate=True))
    assert content(tmp_path / "apart") == expected
    assert ids_of(tmp_path / "one", "rows", "text") == sorted(texts)


def test_the_bytes_do_not_depend_on_the_division(tmp_path, monkeypatch):
    write_corpus(tmp_path / "in", seed=3)
    made = {}
    for size in (1500, 10**9):
        monkeypatch.setattr(parts, "SMALLEST", size)
        given = sources(tmp_path / "in")
        corpora.prepared(given, tmp_path / str(size), vocab_size=300, engine=Local(workers=1))
        made[size] = content(tmp_path / str(size))
    assert made[1500] == made[10**9]


def prepared(folder, segmenter):
    source = Source(documents=sources(folder / "in")["rows"].documents, segmenter=segmenter)
    made = corpora.prepared({"rows": source}, folder / "out", engine=Local(workers=2))
    assert not (folder / "out" / ".part").exists()
    return made


def test_a_document_that_kills_every_worker_ends_the_run(tmp_path):
    write_corpus(tmp_path / "in", seed=4, documents=30)
    with pytest.raises(DataError, match=r"workers were killed 3 times in a row while"):
        prepared(tmp_path, Deadly())
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_fault_in_a_worker_is_the_same_fault_here(tmp_path):
    write_corpus(tmp_path / "in", seed=4)
    with pytest.raises(SegmenterError, match=r"document 'doc[0-9]+': character 3: cannot"):
        prepared(tmp_path, Breaks())
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert not prepared(tmp_path, Newline()).kept
