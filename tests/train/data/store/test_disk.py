"""Writing: whole or absent, and a full disk is told."""

import pytest

from train.disk.files import Output, write_whole
from train.errors import DataError


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    write_whole(tmp_path / "a", "old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(DataError, match="no room"):
        write_whole(tmp_path / "a", "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "old")]
    output = Output(tmp_path / "b")
    with pytest.raises(DataError, match="no room"):
        output.commit()
    output.discard()
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
