"""Verification: a whole data set has no fault, and every kind of damage is found and placed."""

import errno
import json
import re
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.train.data import corpora
from train.cli import main
from train.commands import verify
from train.data.reading.files import TextFiles
from train.data.reading.split import Split
from train.data.rows.datamodule import LMDataModule
from train.data.store.folder import write_top
from train.data.store.verify import data_faults
from train.disk.files import BLOCK, Checksum, checksum, differing
from train.disk.manifest import store
from train.errors import DataError


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    root = tmp_path_factory.mktemp("verify")
    corpora.write_words(root, files=6, words=60)
    readers = {name: TextFiles(path=root / name) for name in ("prose", "code")}
    split = Split(validation=0.3, test=0.2)
    return corpora.prepared(readers, root / "out", corpus={"split": split}).folder


@pytest.fixture
def folder(prepared, tmp_path):
    shutil.copytree(prepared, tmp_path / "data")
    return tmp_path / "data"


def found(folder, **options):
    return [str(fault) for fault in data_faults(folder, **options)]


def before_training(folder, **options):
    given = {"row_length": 8, "global_batch": 2, "micro_batch": 1} | options
    LMDataModule(folder=folder, **given).prepare_data()


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_whole_data_set_has_no_fault(prepared, capsys):
    assert found(prepared) == []
    before_training(prepared)
    assert main(["verify", str(prepared)]) == 0
    assert re.search(r": [1-9][\d.]* kB, no fault\n", capsys.readouterr().out)
    assert main(["verify", str(prepared / "prose" / "train")]) == 0


def test_a_changed_cut_or_missing_file_is_found_before_training(folder):
    draw = np.random.default_rng(1)
    for path in files(folder):
        whole = path.read_bytes()
        others = [whole[:-1], whole[: len(whole) // 2], b"", whole + b"\0"]
        for place in draw.integers(0, max(1, len(whole)), 2 if whole else 0).tolist():
            flipped = bytes([whole[place] ^ (1 << int(draw.integers(8)))])
            others.append(whole[:place] + flipped + whole[place + 1 :])
        for number, other in enumerate(others):
            if other == whole:
                continue
            path.write_bytes(other)
            with pytest.raises(DataError, match=path.name):
                before_training(folder)
            if number >= 4:
                assert any(fault.startswith(str(path)) for fault in found(folder))
            if path.suffix != ".bin" or "train" not in path.parts:
                continue
            if len(other) == len(whole):
                before_training(folder, verify=False)  # looks at sizes alone
            else:
                with pytest.raises(DataError, match=path.name):
                    before_training(folder, verify=False)
        path.unlink()
        with pytest.raises(DataError, match=path.name):
            before_training(folder)
        path.write_bytes(whole)
    before_training(folder)


def test_all_faults_are_listed_and_the_status_is_1(folder, capsys):
    train = folder / "prose" / "train"
    tokens = bytearray((train / "prose.00000.bin").read_bytes())
    tokens[7] ^= 0xFF
    (train / "prose.00000.bin").write_bytes(tokens)
    (folder / "code" / "validation" / "code.00000.ids").unlink()
    (folder / "code" / "test" / "notes.txt").write_text("mine")
    (folder / "tokenizer.json").write_text("{}")
    assert main(["verify", str(folder)]) == 1
    lines = capsys.readouterr().out.splitlines()
    size = len(tokens)
    told = [
        f"prose.00000.bin: its sha256 is not the manifest's; prepare again (bytes 0 to {size})",
        "prose.00000.bin: ids must be below 270, was: ",
        "code.00000.ids: missing",
        "notes.txt: is not of this data set",
        "tokenizer.json: 2 bytes, but the manifest says",
        "tokenizer.json: is not the tokenizer of",
    ]
    for words in told:
        assert any(words in line for line in lines), words
    assert lines[-1].endswith("faults in 4 files; exit status 1")


@pytest.mark.parametrize("key", ["tokenizer", "segmenter", "split", "counts"])
def test_manifests_must_agree(folder, key):
    """Even where all seals and checksums were made anew."""
    path = folder / "prose" / "train" / "manifest.json"
    manifest = json.loads(path.read_text())
    other = manifest[key] | {"tokens": 1, "sha256": "x"} if key != "split" else "test"
    store(path, manifest | {key: other})
    top = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").unlink()
    write_top(folder, top)
    assert any(f"its {key} is not that of the data set" in fault for fault in found(folder))
    with pytest.raises(DataError, match=f"{key}"):
        before_training(folder)


CHANGES = {
    "prose.00000.documents": [
        (lambda a: np.flip(a), "<i8", "document ends must rise"),
        (lambda a: a + 1, "<i8", "the last document must end with token"),
    ],
    "prose.00000.bytes": [(lambda a: -a, "<i8", "sizes must be at least 0")],
    "prose.00000.bin": [(lambda a: a + 1000, "<u2", "ids must be below 270")],
    "prose.00000.level0.bits": [
        (lambda a: a & 0, "u1", "a document must start a segment"),
        (lambda a: a | 255, "u1", "but the manifest counts"),
        (lambda a: a | 255, "u1", "bits are set beyond the last token (bytes"),
    ],
    "prose.00000.ids": [
        (lambda a: np.where(a == 10, 32, a), "u1", "line 1 must be a JSON string"),
        (lambda a: np.where(a == 34, 39, a), "u1", "line 1 must be a JSON string"),
    ],
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_breaks_the_format_is_found_whatever_the_checksums(folder, name):
    path = folder / "prose" / "train" / name
    whole = path.read_bytes()
    assert path.with_name("prose.00000.bin").stat().st_size // 2 % 8  # the last byte has room
    for change, dtype, told in CHANGES[name]:
        path.write_bytes(change(np.frombuffer(whole, dtype)).astype(dtype).tobytes())
        manifest = json.loads(path.with_name("manifest.json").read_text())
        manifest["files"][name] = checksum(path)
        store(path.with_name("manifest.json"), manifest)
        faults = found(folder)
        assert any(told in fault and fault.startswith(str(path)) for fault in faults), faults


def test_links_are_followed_and_dangling_ones_are_missing(prepared, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(prepared)
    assert found(link) == []
    copy = tmp_path / "copy"
    shutil.copytree(prepared, copy)
    for path in files(copy):
        path.unlink()
        path.symlink_to(prepared / path.relative_to(copy))
    assert found(copy) == []
    before_training(copy)
    ids = copy / "code" / "train" / "code.00000.ids"
    ids.unlink()
    ids.symlink_to(tmp_path / "nowhere")
    assert found(copy) == [f"{ids}: missing, though the manifest lists it; prepare again"]


def test_a_disk_that_fails_is_no_damage(prepared, capsys, monkeypatch):
    """An error of a read names no file, and is neither a traceback nor a fault found."""

    def failing(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(verify, "data_faults", failing)
    assert main(["verify", str(prepared)]) == 2
    assert capsys.readouterr().err == "bipe: verify: [Errno 5] Input/output error\n"


def test_what_is_no_data_set_is_told(tmp_path, capsys):
    (tmp_path / "other.txt").write_text("x")
    for name, status, told in (
        ("nowhere", 2, "there is no such folder"),
        ("other.txt", 2, "other.txt"),
        (".", 1, "contains no prepared data; bipe prepare first"),
    ):
        assert main(["verify", str(tmp_path / name)]) == status
        assert told in "".join(capsys.readouterr())
    checkpoint = {"format": "bipe-shards", "version": 1, "files": {}, "tensors": {}}
    (tmp_path / "manifest.json").write_text(json.dumps(checkpoint))
    assert main(["verify", str(tmp_path)]) == 1
    assert "must be bipe-data 2, was: bipe-shards 1" in capsys.readouterr().out


@settings(max_examples=20)
@given(
    size=st.integers(1, 3 * BLOCK + 5),
    places=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=3),
    step=st.integers(9_999, 2 * BLOCK),
)
def test_changed_blocks_are_placed(size, places, step):
    data = bytearray(np.random.default_rng(size).bytes(size))
    whole, other = Checksum(), Checksum()
    for at in range(0, size, step):
        whole.update(bytes(data[at : at + step]))
    changed = sorted({int(place * size) for place in places})
    for place in changed:
        data[place] ^= 1
    other.update(bytes(data))
    ranges = list(differing(other.digest(), whole.digest()))
    assert all(any(start <= place < stop for start, stop in ranges) for place in changed)
    blocks = {place // BLOCK for place in changed}
    assert sum(-(-(stop - start) // BLOCK) for start, stop in ranges) == len(blocks)
    assert all(stop <= size for _, stop in ranges)
