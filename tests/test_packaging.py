"""Containerfile and requirements.lock fit pyproject.toml, constraints.txt and .dockerignore.

No image is built here and nothing is fetched: only what can be read off the files is tested.
"""

import re
import subprocess
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINES = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()


def said(instruction):
    return [line.split()[1:] for line in LINES if line.startswith(f"{instruction} ")]


def test_what_the_container_copies_is_there_is_sent_to_it_and_is_enough():
    copied = {name for *names, _ in said("COPY") for name in names}
    known = subprocess.run(["git", "ls-files", *copied], cwd=ROOT, capture_output=True, text=True)
    assert {line.split("/")[0] for line in known.stdout.splitlines()} == copied
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert sent[0] == "*" and {line[1:] for line in sent if line[0] == "!"} == copied
    packages = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    wanted = {*(name.rstrip("*") for name in packages), PROJECT["project"]["readme"]}
    assert copied == wanted | {*PROJECT["project"]["license-files"], "pyproject.toml",
                               "constraints.txt"}  # fmt: skip
    for *names, target in said("COPY"):
        assert target == "./" or [target] == names  # a folder keeps its name


def test_the_container_has_our_python_installs_extras_that_there_are_and_runs_as_a_user():
    ((image,),) = said("FROM")
    version = re.fullmatch(r"python:(3\.\d+)-slim", image)[1]
    assert version in SpecifierSet(PROJECT["project"]["requires-python"])
    assert f"py{version.replace('.', '')}" == PROJECT["tool"]["ruff"]["target-version"]
    (command,) = (line for line in LINES if "pip install" in line)
    (extras,) = re.findall(r"'\.\[(.*?)\]'", command)
    assert {*extras.split(",")} <= {*PROJECT["project"]["optional-dependencies"]}
    assert command.count("-c constraints.txt") == command.count("pip install")
    last = [line.split()[0] for line in LINES if line and line[0].isupper()]
    assert said("USER") == [["bipe"]] and last.index("USER") > max(
        place for place, word in enumerate(last) if word in ("RUN", "COPY")
    )
    assert said("ENTRYPOINT") == [['["bipe"]']] and "bipe" in PROJECT["project"]["scripts"]


def test_extras_have_names_that_every_pip_finds_and_the_makefile_asks_for_no_other():
    extras = PROJECT["project"]["optional-dependencies"]
    # The metadata has the canonical name, and pip before 23.3 passes over any other with a warning.
    assert [name for name in extras if name != canonicalize_name(name)] == []
    named = re.findall(r"(?:'\.|bipe)\[([^]]+)\]", (ROOT / "Makefile").read_text(encoding="utf-8"))
    named += [
        each for wanted in extras.values() for each in re.findall(r"bipe\[(.+?)\]", "".join(wanted))
    ]
    assert len(named) > 5
    assert {name for each in named for name in each.split(",")} <= {*extras}


def test_the_makefile_tests_the_oldest_transformers_of_the_extra():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (tested,) = re.findall(r"^OLDEST := \.venv/transformers-(\S+)$", makefile, re.MULTILINE)
    wanted = map(Requirement, PROJECT["project"]["optional-dependencies"]["hf"])
    (asked,) = (each.specifier for each in wanted if each.name == "transformers")
    assert [Version(each.version) for each in asked if each.operator == ">="] == [Version(tested)]


def test_the_lock_has_the_versions_of_the_constraints_and_hashes_of_all():
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = re.findall(
        r"^([\w.-]+)==([^ ;]+)(.*(?:\n    --hash=sha256:[0-9a-f]{64}.*)+)", text, re.M
    )
    assert len(locked) == len(re.findall(r"^\S", text, re.MULTILINE)) > 100
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in tested if "==" in line)
    pins = {canonicalize_name(name): version for name, version in pins.items()}
    versions = {canonicalize_name(name): version for name, version, _ in locked}
    assert [each for each in versions.items() if pins.get(each[0], each[1]) != each[1]] == []
    project = PROJECT["project"]
    groups = (project["optional-dependencies"][name] for name in ("code", "demo", "hf", "scrolls"))
    asked = {re.match(r"[\w.-]+", each)[0] for each in sum(groups, project["dependencies"])}
    assert {canonicalize_name(name) for name in asked} <= versions.keys()
