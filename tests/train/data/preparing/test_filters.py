"""Filters of documents: what they drop is counted, what they need is said before work."""

import pytest

from segmenters import Newline
from tests.train.data import corpora
from train.data.preparing.source import Datatrove, Language, Length, Source
from train.data.reading.files import TextFiles
from train.data.reading.split import Split
from train.errors import DataError


def prepared(folder, filters):
    source = Source(documents=TextFiles(path=folder), segmenter=Newline(), filters=filters)
    corpus = {"split": Split(validation=0.0, test=0.0)}
    return corpora.prepared({"tiny": source}, folder / "out", corpus=corpus)


def test_filters_count_what_they_drop_in_their_order(tmp_path):
    for number in range(10):
        (tmp_path / f"{number}.txt").write_text("word " * number + ("secret" if number > 7 else ""))
    filters = [
        Length(min_characters=10, max_characters=46),
        Datatrove(filter="RegexFilter", options={"regex_exp": "secret"}),
    ]
    made = prepared(tmp_path, filters)
    entry = made.manifest["sources"]["tiny"]
    assert entry["filtered"] == {"Length": 3, "RegexFilter": 1}
    assert entry["splits"]["train"]["documents"] == 6
    told = made.manifest["request"]["sources"]["tiny"]["filters"]
    assert [filter["filter"] for filter in told] == ["Length", "RegexFilter"]
    assert "left out, by RegexFilter: 1" in (tmp_path / "out" / "README.md").read_text()


def test_a_corpus_that_is_filtered_away_is_said(tmp_path):
    (tmp_path / "a.txt").write_text("short")
    with pytest.raises(DataError, match=r"all documents were left out \(1 Length\)"):
        prepared(tmp_path, [Length(min_characters=10)])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: Length(min_characters=5, max_characters=4), "max_characters must be at least"),
        (lambda: Datatrove(filter="NoFilter").check(), "filter must be one of .*GopherQuality"),
        (lambda: Datatrove(filter="GopherQualityFilter", options={"no": 1}).check(), "'no'"),
        (
            lambda: Language(languages=["en"], model="/nowhere/lid.176.bin").check(),
            r"lid\.176\.bin: there is no such file\. Download",
        ),
    ],
)
def test_filters_that_cannot_work_are_refused(make, fault):
    with pytest.raises(DataError, match=fault):
        make()


def test_a_filter_is_checked_before_any_work(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(DataError, match="filter must be one of"):
        prepared(tmp_path, [Datatrove(filter="NoFilter")])
    assert not (tmp_path / "out").exists()
