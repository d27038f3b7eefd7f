"""Exact duplicates: the first stays, for any number of workers and any size of memory."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Newline
from tests.train.data.corpora import content, prepared
from train.data.preparing import duplicates
from train.data.preparing.duplicates import ROW, hash_of
from train.data.preparing.engines import Local
from train.data.preparing.source import Length, Source
from train.data.reading import SPLITS
from train.data.reading import documents as parts
from train.data.reading.files import JSONL
from train.data.reading.split import Split
from train.data.store.shards import open_dataset

WHITE = st.sampled_from(["", " ", "\n", "\t\n ", "\u3000"])


@given(st.lists(st.text("ab\u00e9")), st.lists(WHITE, min_size=1), st.integers(1, 9))
def test_the_hash_knows_words_and_no_white_space(words, whites, size):
    text = "".join(word + (whites[i % len(whites)] or " ") for i, word in enumerate(words))
    plain = hash_of(" ".join(text.split()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_SLICE", size)
        assert hash_of(text) == plain
        assert hash_of(f"\n {text}") == plain
    assert hash_of(text + " c") != plain


def test_words_are_not_joined():
    assert len({hash_of(text) for text in ("a b", "ab", "a", "b a")}) == 4


def test_ranges_of_hashes_find_what_all_at_once_find():
    draw = np.random.default_rng(0)
    rows = [np.zeros(50, ROW) for _ in range(4)]
    for part in rows:
        part["high"] = draw.integers(0, 6, 50).astype(np.uint64) << np.uint64(61)
        part["low"], part["place"] = draw.integers(0, 3, 50), np.arange(50)
        part.sort(order=["high", "low", "place"])
    seen, expected = set(), set()
    for rank, part in enumerate(rows):
        for high, low, place in sorted(part.tolist(), key=lambda row: row[2]):
            if (high, low) in seen:
                expected.add((rank, place))
            seen.add((high, low))
    for buckets in (1, 2, 5, 64):
        edges = [number * 2**64 // buckets for number in range(1, buckets)]
        bounds = [duplicates._bounds(part, edges) for part in rows]
        found = []
        for bucket in range(buckets):
            slices = [
                part[cut[bucket] : cut[bucket + 1]] for part, cut in zip(rows, bounds, strict=True)
            ]
            for rank, places in duplicates._repeated(slices):
                found += [(rank, place) for place in places.tolist()]
        assert sorted(found) == sorted(expected)


def test_the_first_of_equal_documents_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "SMALLEST", 2000)
    draw = np.random.default_rng(1)
    texts = [f"text number {number} " * int(draw.integers(5, 20)) for number in range(30)]
    first, expected = {}, {"a": [], "b": []}
    sources = {}
    for name in expected:
        rows = []
        for number in range(60):
            picked = int(draw.integers(0, 20) if name == "a" else draw.integers(10, 30))
            id = f"{name}{number}"
            rows.append({"id": id, "text": texts[picked] + " " * int(draw.integers(3))})
            if picked not in first and len(texts[picked]) >= 120:
                first[picked] = id
                expected[name].append(id)
        rows.append({"id": f"{name}empty", "text": ""})
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        reader = JSONL(path=path, id_key="id")
        filters = [Length(min_characters=120, max_characters=10_000)]
        sources[name] = Source(documents=reader, segmenter=Newline(), filters=filters)
    corpus = {"split": Split(validation=0.2, test=0.2), "deduplicate": True}
    made = prepared(sources, tmp_path / "out", corpus=corpus, engine=Local(workers=2))
    for name, ids in expected.items():
        found = []
        for split in SPLITS:
            found += open_dataset(tmp_path / "out" / name / split).document_ids()
        assert sorted(found) == sorted(ids)
        entry = made.manifest["sources"][name]
        dropped = entry["duplicates"] + entry["filtered"].get("Length", 0)
        assert dropped + len(ids) == 61 and entry["duplicates"] > 5
    assert "duplicates" in (tmp_path / "out" / "README.md").read_text()
    again = prepared(sources, tmp_path / "one", corpus=corpus, engine=Local(workers=1))
    assert not again.kept
    assert content(tmp_path / "one") == content(tmp_path / "out")
