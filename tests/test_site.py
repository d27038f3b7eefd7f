"""The pages of the site: no link is dead, no name or key missing; MkDocs, if there, builds them."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import griffe
import pytest
import yaml

from tests.test_rooms import COMMANDS, PUBLIC

ROOT = Path(__file__).parents[1]
CONF = ROOT / "conf"
LINK = re.compile(r"(?<!\\)\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def loaded():
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


site = loaded()


@pytest.fixture(scope="module")
def pages():
    """All pages of the site by path, as MkDocs gets them."""
    own = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
    shown = {name: site.relinked(text, name, f"docs/{name}") for name, text in own.items()}
    made = site.pages()
    assert not shown.keys() & made.keys()
    return shown | made


def test_links_of_the_pages_lead_somewhere_in_the_checkout_too():
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    for path in pages:
        text = FENCED.sub("", path.read_text(encoding="utf-8"))
        for target, _ in LINK.findall(text):
            made = target.startswith("reference/")  # by the site
            assert made or not target or (path.parent / target).exists(), (path.name, target)


@pytest.fixture(scope="module")
def packages():
    """What stands in the code, as mkdocstrings reads it: without an import."""
    loader = griffe.GriffeLoader(search_paths=[ROOT])
    for name in ("segmenters", "bipe", "train"):
        loader.load(name)
    return loader.modules_collection


@pytest.mark.parametrize("module", [name for name in PUBLIC if PUBLIC[name]])
def test_every_public_name_is_in_the_reference_and_said(module, packages, pages):
    assert f"::: {module}\n" in pages[f"reference/{module}.md"]
    shown = packages[module]
    assert shown.exports is None or list(shown.exports) == PUBLIC[module]
    objects = [shown[name] for name in PUBLIC[module]]
    assert [each.path for each in objects if not each.is_attribute and not each.docstring] == []


def test_what_code_of_the_pages_imports_of_ours_is_in_the_reference(packages, pages):
    missing, seen = [], 0
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for block in re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL):
            for node in ast.walk(ast.parse(block)):
                module = node.module if isinstance(node, ast.ImportFrom) else None
                if module and module.split(".")[0] in ("bipe", "segmenters", "train"):
                    there = f"reference/{module}.md" in pages
                    names = [each.name for each in node.names]
                    seen += len(names)
                    public = [name for name in names if there and packages[module][name].is_public]
                    missing += [f"{path.name}: {module}.{x}" for x in names if x not in public]
    assert seen and missing == []


def flat(value, above=""):
    """The full names of the leaves of a mapping."""
    if not isinstance(value, dict) or not value:
        return [above.removesuffix(".")]
    return [name for key, inner in value.items() for name in flat(inner, f"{above}{key}.")]


def test_every_key_of_the_configuration_is_in_the_settings(pages):
    config = yaml.safe_load((CONF / "config.yaml").read_text())
    keys = flat({name: config[name] for name in config.keys() - {"defaults", "hydra"}})
    shown = re.findall(r"^\| `([\w.]+)` \|", pages[site.SETTINGS], re.MULTILINE)
    assert len(keys) > 80 and sorted(shown) == sorted(keys)


def test_every_file_of_conf_is_in_the_settings(pages):
    files = list(CONF.glob("*/*.yaml"))
    assert len(files) > 150
    for path in files:
        page = pages[f"reference/settings/{path.parent.name}.md"]
        assert f"## {path.stem}\n" in page
        keys = re.findall(r"^ *([\w@/]+):", path.read_text("utf-8"), re.MULTILINE)
        block = page.partition(f"## {path.stem}\n")[2].partition("\n```\n")[0]
        assert [key for key in keys if f"{key}:" not in block] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help(command, pages):
    section = pages[site.COMMANDS].partition(f"\n## {command}\n")[2].partition("\n```\n")[0]
    assert f"bipe {command}" in section and len(section.splitlines()) > 5


@pytest.mark.slow
def test_mkdocs_builds_the_site_without_a_warning(packages, tmp_path):
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING -" not in done.stderr
    assert (tmp_path / "reference" / "settings" / "encoding.html").is_file()
    for module, names in PUBLIC.items():
        page = (tmp_path / "reference" / f"{module}.html").read_text("utf-8") if names else ""
        shown = set(re.findall(r'<h2 id="([\w.]+)"', page))
        said = {name for name in names if packages[module][name].docstring}
        assert shown == {f"{module}.{name}" for name in said}
