"""A wheel holds all that the commands read, and runs elsewhere; an sdist is the checkout."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from readme_renderer import markdown

ROOT = Path(__file__).parents[1]
PACKAGES = ("bipe", "conf", "segmenters", "train")
# Runs two commands, and says where the packages are that they took.
RUN = """
import bipe, conf, segmenters, train, train.cli
print(*(package.__path__[0] for package in (bipe, conf, segmenters, train)), flush=True)
assert train.cli.main(["segment", "a.txt"]) == 0
assert train.cli.main(["prepare", "experiment=smoke", "--cfg", "job"]) == 0
"""
# What a developer's machine adds, or a package index has no use for.
NOT_RELEASED = {"PKG-INFO", "setup.cfg"}
BUILD = "from setuptools.build_meta import build_wheel; build_wheel('..')"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Build a wheel from a copy, so that nothing is left in the checkout, and unpack it."""
    place = tmp_path_factory.mktemp("wheel")
    copy = place / "copy"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "PYPI.md", "LICENSE"):
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
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(unpacked)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "One sentence. \u2502And another." in done.stdout
    assert done.stdout.splitlines()[0].split() == [str(unpacked / name) for name in PACKAGES]
    assert "out: runs/smoke" in done.stdout


@pytest.fixture(scope="module")
def distribution(tmp_path_factory):
    """Build a source distribution from a copy of what git tracks."""
    place = tmp_path_factory.mktemp("sdist")
    for name in tracked():
        (place / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place / "copy" / name)
    build = "from setuptools.build_meta import build_sdist; build_sdist('..')"
    subprocess.run(
        [sys.executable, "-c", build], cwd=place / "copy", check=True, capture_output=True
    )
    (archive,) = place.glob("*.tar.gz")
    return archive


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_a_source_distribution_holds_the_checkout(distribution):
    with tarfile.open(distribution) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if "/" in name}
    files = {name for name in names if ".egg-info" not in name} - NOT_RELEASED
    assert {*tracked()} - files == set()


def test_an_index_page_shows_the_description(distribution):
    with tarfile.open(distribution) as archive:
        file = next(each for each in archive.getmembers() if each.name.endswith("/PKG-INFO"))
        metadata = email.message_from_binary_file(archive.extractfile(file))
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert {"Author", "License-Expression", "Project-URL", "Classifier"} <= {*metadata.keys()}
    page = markdown.render(metadata.get_payload())
    links = re.findall(r'(?:href|src)="([^"#]+)"', page)
    assert links and all(link.startswith("https://") for link in links)  # no file is beside it
