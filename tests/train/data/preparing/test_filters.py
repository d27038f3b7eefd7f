"""Filters of documents: what they drop is counted, what they need is said before work."""

import pytest

from segmenters import Newline
from tests.train.data import corpora
from train.data.preparing.source import Datatrove, Length, Source
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
    with pytest.raises(DataError, match=r"all documents were left out \(10 Length\)"):
        prepared(tmp_path, [Length(min_characters=1000)])
    made = prepared(tmp_path, filters)
    entry = made.manifest["sources"]["tiny"]
    assert entry["filtered"] == {"Length": 3, "RegexFilter": 1}
    assert entry["splits"]["train"]["documents"] == 6
    told = made.manifest["request"]["sources"]["tiny"]["filters"]
    assert [filter["filter"] for filter in told] == ["Length", "RegexFilter"]
    assert "left out, by RegexFilter: 1" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: Length(min_characters=5, max_characters=4), "max_characters must be at least"),
        (lambda: Datatrove(filter="NoFilter").check(), "filter must be one of .*GopherQuality"),
        (lambda: Datatrove(filter="GopherQualityFilter", options={"no": 1}).check(), "'no'"),
    ],
)
def test_filters_that_cannot_work_are_refused(make, fault):
    with pytest.raises(DataError, match=fault):
        make()
