"""A wheel holds all that the commands read, and runs outside of a checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("bipe", "conf", "segmenters", "train")
# Runs a command, and says where the packages are that it took.
RUN = """
import sys, bipe, conf, segmenters, train, train.cli
print(*(package.__path__[0] for package in (bipe, conf, segmenters, train)), flush=True)
sys.exit(train.cli.main(sys.argv[1:]))
"""
BUILD = "from setuptools.build_meta import build_wheel; build_wheel('..')"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Build a wheel from a copy, so that nothing is left in the checkout, and unpack it."""
    place = tmp_path_factory.mktemp("wheel")
    copy = place / "copy"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    subprocess.run([sys.executable, "-c", BUILD], cwd=copy, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(place / "site")
    return place / "site"


def test_a_wheel_holds_every_file_of_the_packages(unpacked):
    files = {
        path.relative_to(ROOT)
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {Path(name, "py.typed") for name in PACKAGES if name != "conf"} <= files
    assert {path for path in files if not (unpacked / path).exists()} == set()


def test_commands_of_a_wheel_run_outside_of_the_checkout(unpacked, tmp_path):
    (tmp_path / "a.txt").write_text("One sentence. And another.\n")

    def bipe(*words):
        done = subprocess.run(
            [sys.executable, "-c", RUN, *words], cwd=tmp_path, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(unpacked)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = bipe("segment", "a.txt")
    assert "One sentence. \u2502And another." in said
    assert said.splitlines()[0].split() == [str(unpacked / name) for name in PACKAGES]
    assert "out: runs/smoke" in bipe("prepare", "experiment=smoke", "--cfg", "job")
