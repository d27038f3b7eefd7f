"""What mkdocs.yml shows beside docs/*.md, made from the code whenever the site is built.

`make docs` writes the site into build/site. The home page is README.md; the reference comes from
help pages, conf/ and, through mkdocstrings, docstrings: no file of it is kept and none goes stale.
This is a hook of MkDocs, an extension of griffe, and plain functions without them.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import posixpath
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[1]
# Without `__all__` a module's public classes and functions are shown, with it what it names.
MODULES = (
    *("segmenters", "bipe", "bipe.encodings", "bipe.extension", "bipe.generation", "bipe.layouts"),
    *("bipe.hf", "bipe.bias", "bipe.rotation", "bipe.checkpoint", "train.evals.loop"),
    *(
        "train",
        "train.evals.rows",
        "train.data.rows.datamodule",
        "train.fit.module",
        "train.fit.optim",
    ),
    *("train.fit.optim", "train.fit.training"),
)
SETTINGS, COMMANDS = "reference/settings.md", "reference/commands.md"
COPIED = {"index.md": "README.md", "changelog.md": "CHANGELOG.md"}
COPIED |= {"contributing.md": "CONTRIBUTING.md"}
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")


def pages() -> dict[str, str]:
    """Return the pages that are made, by their paths in the site, as Markdown."""
    made = {page: relinked((ROOT / file).read_text(), page, file) for page, file in COPIED.items()}
    made[COMMANDS] = _commands()
    made |= _settings()
    made |= {f"reference/{name}.md": _module(name) for name in MODULES}
    made |= {f"reference/encodings/{path.stem}.md": _module(f"bipe.encodings.{path.stem}")
             for path in sorted((ROOT / "bipe" / "encodings").glob("[a-z]*.py"))}  # fmt: skip
    made["benchmarks.md"] = _benchmarks()
    return made


# Hooks of MkDocs


def on_config(config: Any) -> Any:
    """Complete the navigation with the pages of the reference."""
    (reference,) = (each for each in config.nav if "Reference" in each)
    made = [page for page in pages() if page.startswith("reference/")]
    encodings = [page for page in made if "/encodings/" in page]
    settings = [page for page in made if page.startswith("reference/settings")]
    modules = [f"reference/{name}.md" for name in MODULES]
    reference["Reference"] = [
        {"Commands": COMMANDS},
        {"Settings": settings},
        {"Python": [*modules, {"Encodings": encodings}]},
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made to those that are there."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links out of docs/ to pages of the site."""
    path = page.file.src_uri
    return relinked(markdown, path, f"docs/{path}") if (ROOT / "docs" / path).exists() else markdown


# Links


def relinked(text: str, page: str, file: str) -> str:
    """Return text of a file of the repository with its links as a page of the site needs them.

    A place that no page shows loses its link and keeps its words.
    """

    def moved(link: re.Match[str]) -> str:
        if not link[1]:
            return link[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(file), link[1]))
        target = page_of(place)
        if target is None:
            return "]"
        return f"]({posixpath.relpath(target, posixpath.dirname(page) or '.')}{link[2] or ''})"

    return re.sub(r"\[([^][]*)\](?!\()", r"[\1]", _LINK.sub(moved, text))


def page_of(place: str) -> str | None:
    """Return what shows a path of the repository: a page or a picture of the site, or None."""
    for page, file in COPIED.items():
        if place == file:
            return page
    parts = Path(place).parts
    if parts[0] == "docs":
        return posixpath.relpath(place, "docs") if len(parts) > 1 else "index.md"
    if parts[0] == "conf":
        group = f"reference/settings/{parts[1]}.md" if len(parts) > 2 else SETTINGS
        return group
    if parts[0] == "benchmarks":
        return "benchmarks.md"
    name = ".".join(Path(place).with_suffix("").parts)
    return f"reference/{name}.md" if name in MODULES else None


# Commands and settings


def _commands() -> str:
    from train.launch.commands import WORDS as commands

    text = ["# Commands", "", "The output of `bipe COMMAND --help`.", ""]
    for name, does in commands.items():
        shown = textwrap.dedent(_help(name)).strip("\n")
        text += [f"## {name}", "", f"{_escaped(does).capitalize()}.", "", *_block("text", shown)]
    return "\n".join(text)


@cache
def _help(command: str) -> str:
    from train.cli import main

    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "110"
    try:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
            main([command, "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return out.getvalue()


def _settings() -> dict[str, str]:
    """Return a page of all keys of config.yaml, and one per group with its files as they are."""
    from train.launch import help_pages

    text = ["# Settings", "", "Every key of `conf/config.yaml`: `bipe COMMAND KEY=VALUE`.", ""]
    for heading, block in help_pages.sections():
        if keys := help_pages.shown(block):
            text += [f"## {_escaped(heading)}", "", "| key | default | |", "|---|---|---|"]
            text += [_row(key, *each) for key, each in keys.items()] + [""]
    made = {SETTINGS: "\n".join(text)}
    for group in help_pages.groups():
        page = [
            f"# {group}",
            "",
            f"`bipe COMMAND {group}=OPTION`: the files of `conf/{group}`.",
            "",
        ]
        for option, lines in help_pages.options(group).items():
            page += [f"## {option}", "", *_block("yaml", "\n".join(lines))]
        made[f"reference/settings/{group}.md"] = "\n".join(page)
    return made


def _row(key: str, default: str, comment: str) -> str:
    said = re.sub(r"docs/(\w+)\.md", r"[\1](../\1.md)", _escaped(comment).replace("|", r"\|"))
    return f"| `{key}` | `{default}` | {said} |"


def _benchmarks() -> str:
    text = [
        "# Benchmarks",
        "",
        "Run these from a checkout; each states its machine and a peer. Our results:",
    ]
    results = sorted(path.name for path in (ROOT / "benchmarks" / "results").glob("*.json"))
    text += [", ".join(f"`benchmarks/results/{name}`" for name in results) + ".", ""]
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        said = ast.get_docstring(ast.parse(path.read_text()))
        if said and f"python -m benchmarks.{path.stem}" in said:
            text += [f"## {path.stem}", "", *_block("text", said)]
    return "\n".join(text)


# Python


def _module(module: str) -> str:
    return f"# {module}\n\n::: {module}\n"


class Docstrings(griffe.Extension):
    """Turns plain docstrings into Markdown: indented lines are blocks, `name: text` is an item."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of each object that is read."""
        if obj.docstring:
            obj.docstring.value = "\n".join(_said(obj.docstring.value))


def _said(docstring: str) -> Iterator[str]:
    before, item = "", False
    for line in inspect.cleandoc(docstring).splitlines():
        parameter = re.match(r"([a-z]\w*(?:, \w+)*): (?=\S)", line)
        item = bool(parameter) or (item and line.startswith("    "))
        if parameter:
            yield from ([""] if before else [])
            yield f"- `{parameter[1]}`: {_escaped(line[parameter.end() :])}"
        elif line.startswith("    ") and not item:
            yield from ([] if before.startswith("    ") or not before else [""])
            yield line
        else:
            yield _escaped(line)
        before = line


def _escaped(text: str) -> str:
    """Return text without Markdown but for code between backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*\[\]_])", r"\\\1", part).replace("<", "&lt;")
        for part in parts
    )


def _block(language: str, text: str) -> list[str]:
    return [f"```{language}", text, "```", ""]
