"""docs/shards.md: its reader, as it stands there, reads what was prepared."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.train.data.store.test_export import make
from train.data.store.shards import open_dataset

PAGE = Path(__file__).parents[4] / "docs" / "shards.md"


@pytest.mark.parametrize("made", [(300, 1, 10**6), (300, 2, 40), (70_000, 1, 1)], ids=str)
def test_the_reader_of_the_page_reads_shards_with_numpy_alone(tmp_path, monkeypatch, made):
    make(tmp_path / "data", *made).rename(tmp_path / "OUT")
    (tmp_path / "OUT" / "s").rename(tmp_path / "OUT" / "prose")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert set(re.findall(r"(?:import|from) (\w+)", code)) == {"json", "pathlib", "numpy", "Path"}
    names: dict = {}
    exec(compile(code, str(PAGE), "exec"), names)
    for split in ("train", "validation", "test"):
        data = open_dataset(tmp_path / "OUT" / "prose" / split)
        read = list(names["documents"](tmp_path / "OUT" / "prose" / split))
        assert [name for _, _, name in read] == data.document_ids()
        for index, (ids, starts, _) in enumerate(read):
            tokens, marks = data.document(index)
            assert np.array_equal(ids, tokens)
            assert np.array_equal(starts, marks >> 1 & 1)
    tokens, marks = open_dataset(tmp_path / "OUT" / "prose" / "train").document(4)
    starts = np.flatnonzero(marks & 2)
    assert names["inter"].tolist() == [(starts <= at).sum() - 1 for at in range(len(tokens))]
    assert names["intra"].tolist() == [at - starts[starts <= at][-1] for at in range(len(tokens))]
