"""Containerfile and requirements.lock fit pyproject.toml, constraints.txt and .dockerignore.

No image is built here and nothing is fetched: only what can be read off the files is tested, and
what the Makefile does with an environment whose installation was interrupted.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"
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


def make(target, folder, *words):
    """Make a target of a folder with the project's Makefile alone."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    return subprocess.run(
        ["make", "-s", target, f"PYTHON={sys.executable}", *words],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_an_environment_without_a_whole_pip_is_made_again(tmp_path):
    python = tmp_path / ".venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", python.parents[1]], check=True)
    made = make(".venv/created", tmp_path)
    assert made.returncode == 0, made.stderr
    place = subprocess.run(
        [python, "-c", "import pip; print(pip.__file__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    Path(place.stdout.strip()).unlink()  # killed while it was copied
    (tmp_path / ".venv" / "created").unlink()
    assert make(".venv/created", tmp_path).returncode == 0
    subprocess.run([python, "-m", "pip", "--version"], check=True, capture_output=True)


def test_a_python_without_venv_is_named_and_leaves_nothing(tmp_path):
    broken = tmp_path / "python"
    fails = '[ "$1" != -m ] || { mkdir -p .venv/bin; exit 1; }'
    broken.write_text(f'#!/bin/sh\n{fails}\nexec {sys.executable} "$@"\n')
    broken.chmod(0o755)
    made = make(".venv/created", tmp_path, f"PYTHON={broken}")
    assert made.returncode and "python3-venv" in made.stdout
    assert not (tmp_path / ".venv").exists()


def test_packages_whose_installation_was_interrupted_are_installed_again(tmp_path):
    site = tmp_path / ".venv" / "lib" / "python3" / "site-packages"
    for name, files in {"whole": ["METADATA", "INSTALLER"], "half": ["METADATA"]}.items():
        (site / f"{name}.dist-info").mkdir(parents=True)
        for file in files:
            (site / f"{name}.dist-info" / file).touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    (tmp_path / ".venv" / "created").touch()
    made = make(".venv/demo.done", tmp_path)
    assert made.returncode == 0 and "pip install" in made.stdout
    assert [path.name for path in site.iterdir()] == ["whole.dist-info"]
    assert (tmp_path / ".venv" / "demo.done").exists()


def test_workflows_run_what_there_is_on_every_python_that_the_package_names():
    texts = {path.stem: path.read_text(encoding="utf-8") for path in WORKFLOWS.glob("*.yml")}
    assert {"tests", "docs", "release"} <= texts.keys()
    jobs = {name: [*yaml.safe_load(text)["jobs"].values()] for name, text in texts.items()}
    (tests,) = jobs["tests"]
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["project"]["classifiers"]), re.M)
    assert tests["strategy"]["matrix"]["python"] == named
    assert named[0] in PROJECT["project"]["requires-python"]
    steps = [step for held in jobs.values() for job in held for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert "bash .ci/run" in commands
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "\n".join(commands), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
