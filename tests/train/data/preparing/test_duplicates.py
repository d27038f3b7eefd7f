"""Exact duplicates: the first stays, for any size of memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Newline
from tests.train.data.corpora import content, ids_of, prepared, write_rows
from train.data.preparing import duplicates
from train.data.preparing.duplicates import hash_of
from train.data.preparing.engines import Local
from train.data.preparing.source import Length, Source
from train.data.reading import documents as parts
from train.data.reading.files import JSONL
from train.data.reading.split import Split

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
