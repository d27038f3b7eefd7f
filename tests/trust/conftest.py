"""What a stranger's files try: a trap that shows whether anything ran, was written or removed."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from bipe.checkpoint import CONFIG, save_model
from bipe.sealing import sealed
from tests.bipe.conftest import small_decoder
from tests.train.conftest import data as data  # a fixture
from tests.train.studies import composed, pretrain
from train.cli import main


class Trap:
    """A place outside of what a stranger's files may touch.

    ran: appears if their code runs; kept, folder: must stay as they are. evil: a module of theirs
    on the path, which runs when it is imported, with classes of all kinds.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.ran, self.kept = home, home / "ran", home / "kept"
        self.folder = home / "papers"
        self.folder.mkdir(parents=True)
        for path in (self.kept, self.folder / "a.pdf", self.folder / "step=00000001.ckpt"):
            path.write_text("precious")
        self.shell = f"touch {self.ran}"
        (home / "evil.py").write_text(
            f"from pathlib import Path\nPath({str(self.ran)!r}).touch()\n"
            "from bipe.encodings import NoPE\nclass Encoding(NoPE): pass\n"
            "from segmenters import Newline\nclass Cuts(Newline): pass\n"
        )

    def fill(self, value):
        """A payload whose texts name the places: {ran}, {kept}, {folder}, {shell}."""
        if isinstance(value, str):
            for name in ("ran", "kept", "folder", "shell"):
                value = value.replace(f"{{{name}}}", str(getattr(self, name)))
            return value
        if isinstance(value, Mapping):
            return {key: self.fill(item) for key, item in value.items()}
        return [self.fill(item) for item in value] if isinstance(value, list) else value

    def untouched(self) -> bool:
        files = {path for path in self.home.rglob("*") if path.is_file()}
        files = {path for path in files if "__pycache__" not in path.parts}
        held = {self.kept, self.folder / "a.pdf", self.folder / "step=00000001.ckpt"}
        same = files == held | {self.home / "evil.py"}
        return same and all(path.read_text() == "precious" for path in held)


def tree(folder):
    """The texts of the files in a folder by name, those of links without following them."""
    paths = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    return {
        path.relative_to(folder).as_posix(): (
            str(path.readlink()) if path.is_symlink() else path.read_bytes().decode("latin-1")
        )
        for path in paths
    }


class Runs:
    """A pickle that runs code when it is read."""

    def __init__(self, trap):
        self.trap = trap

    def __reduce__(self):
        return (exec, (f"open({str(self.trap.ran)!r}, 'w')",))


@pytest.fixture
def trap(tmp_path, monkeypatch):
    made = Trap(tmp_path / "victim")
    monkeypatch.syspath_prepend(made.home)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return made


@contextlib.contextmanager
def rewritten(folder: Path):
    """Change config.json of a model folder and seal it again, as a stranger can."""
    held = json.loads((folder / CONFIG).read_text())
    yield held
    (folder / CONFIG).write_text(sealed(held))


@pytest.fixture
def model(tmp_path):
    save_model(small_decoder("flat_rope"), tmp_path / "model", notes={"row_length": 40})
    return tmp_path / "model"


@pytest.fixture(scope="session")
def trained(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained")
    words = (f"data={data}", f"out={out}", "steps=2", "checkpoint_every=1", "name=run")
    return pretrain(*words, "encoding=bipe_rope")


@pytest.fixture
def bipe(capsys):
    """Run a command; its status and all that it printed."""

    def run(*words):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "environ", os.environ)
            status = main([str(word) for word in words])
        return status, "".join(capsys.readouterr())

    return run


@pytest.fixture
def stored(data, tmp_path):
    """Write a run's configuration with changes; the file."""

    def write(changes=None, *, text="", command="pretrain"):
        words = (f"data={data}", f"out={tmp_path / 'out'}")
        config = composed(*words, command=command).as_plain()
        for key, value in (changes or {}).items():
            node = config
            *parts, last = key.split(".")
            for part in parts:
                node = node[part]
            node[last] = value
        path = tmp_path / "stored.yaml"
        path.write_text(yaml.safe_dump(config) + text)
        return path

    return write
