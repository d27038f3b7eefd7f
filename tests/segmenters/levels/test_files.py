"""Documents of several files: each is cut as it is alone, and begins a segment of every level."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Auto, Levels, Newline, Online, Repository, SegmenterError
from segmenters.base import tallied
from tests.segmenters.texts import any_text

REPOSITORY = Repository(of=Auto(granularity="logical"))
NAMES = ["a.py", "README.md", "b.c", "c.txt", "d.v", "e.csv", "LICENSE"]
files = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["", "# header\n"]), any_text),
    min_size=1,
    max_size=5,
)


def joined(parts):
    """The text of the files, and the field that says where they begin."""
    text, field = "", []
    for path, header, inside in parts:
        body = len(text) + len(header)
        field.append({"path": path, "start": len(text), "body": body})
        text += header + inside
    return text, field


@given(parts=files)
def test_every_file_is_cut_as_alone_and_begins_a_segment_of_all_levels(parts):
    text, field = joined(parts)
    chosen = REPOSITORY.choose(text=text, kind="code", meta={"files": field})
    assert chosen.level_names == ("segment", "block", "part", "file")
    with tallied() as rules:
        levels = chosen.levels(text)
    assert rules.total() == len(text)
    assert levels[0].tolist() == chosen.cut(text).tolist()
    for finer, coarser in pairwise(levels):
        assert np.isin(coarser, finer).all()
    starts = [each["start"] for each in field]
    assert levels[3].tolist() == sorted({0, len(text), *starts})
    for (path, _, inside), each in zip(parts, field, strict=True):
        alone = REPOSITORY.of.choose(text=inside, kind="code", name=path).cut(inside)
        held = levels[0][(levels[0] >= each["body"]) & (levels[0] <= each["body"] + len(inside))]
        assert (held - each["body"]).tolist() == alone.tolist()


def test_a_document_without_files_is_one_and_can_be_followed():
    one = Repository(of=Newline())
    chosen = one.choose(text="a\nb", name="a.txt")
    assert [cuts.tolist() for cuts in chosen.levels("a\nb")] == [[0, 2, 3], [0, 3]]
    assert [cuts.tolist() for cuts in one.levels("a\nb")] == [[0, 2, 3], [0, 3]]
    online = Online(segmenter=chosen, levels=2)
    assert [online.push(piece) for piece in ("a", "\n", "b")] == [[7], [0], [2]]
    two = [{"path": "a", "start": 0, "body": 0}, {"path": "b", "start": 2, "body": 2}]
    several = one.choose(text="a\nb", meta={"files": two})
    with pytest.raises(ValueError, match="only for a whole document"):
        several.machine()
    assert Levels(of=one, keep=["file"]).around(several).cut("a\nb").tolist() == [0, 2, 3]
    headed = one.choose(text="a\nb", meta={"files": [{"path": "a", "start": 0, "body": 1}]})
    with pytest.raises(ValueError, match="only for a whole document"):
        headed.machine()
    assert one.choose(text="a\nb", meta={"files": None}).cut("a\nb").tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    "field",
    [
        [],
        [{}],
        ["a.py"],
        [{"path": "a", "start": 1, "body": 1}],
        [{"path": "a", "start": 0, "body": 9}],
        [{"path": "a", "start": 0, "body": 2}, {"path": "b", "start": 1, "body": 2}],
    ],
)
def test_places_that_are_none_are_refused(field):
    with pytest.raises(SegmenterError, match="field 'files'"):
        REPOSITORY.choose(text="abc", meta={"files": field})
