"""Code and commands of README and docs: each block runs here or in the test that is named for it.

A block of ```console is typed in a folder with README.md, CHANGELOG.md and docs: what it shows must
be printed, in that order, numbers aside. A block of ```python is run, and a block of ```text behind
it is what it prints. All other commands, of any block and within sentences, are composed and
checked against the signatures, which is all that comes before a command begins its work.
"""

import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from tests.processes import run
from train.launch import composition
from train.launch.commands import COMMANDS, STUDIES, find, settled
from train.launch.reader import read
from train.launch.sweeps.sweep import Sweep

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "PYPI.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [(name, *block) for name, text in TEXTS.items() for block in BLOCK.findall(text)]
# Python that needs more than this test has, and the tests that run it.
RUN_BY = {
    "README.md": "tests/test_readme.py",
    "segmenters.md": "tests/test_docs.py",
    "shards.md": "tests/train/data/store/test_shards.py",
    "stretch.md": "tests/bipe/extension/test_extend.py",
    "loops.md": "tests/bipe/hf/test_loops.py",
    "transformers.md": "tests/bipe/hf/test_loops.py",
}
# Words that stand for others are left out; and what cannot be composed here, with the reason.
DOTS = re.compile(r"\.\.\.$")
SPARED = {
    "hydra/": "takes a package of the extra `sweep`, see tests/train/launch",
    "yours": "a module of the reader's own, see tests/train/test_entry.py",
    "mine.Entropy": "the same",
    "--config-dir": "a folder of the reader's own",
    "=pauses": "the same",
    "validate=": "reads files: tests/train/scrolls",
    "submit=": "the same",
}
LANGUAGES = {"bash", "console", "python", "text", "yaml"}


def test_every_block_is_of_a_kind_that_is_tested():
    assert {language for _, language, _ in BLOCKS} <= LANGUAGES
    for page, file in RUN_BY.items():
        assert page in (ROOT / file).read_text(encoding="utf-8"), (page, file)


@pytest.mark.parametrize("page", sorted({p for p, kind, _ in BLOCKS if kind == "python"}))
def test_python_runs_and_prints_what_is_below_it(page):
    if page in RUN_BY:
        return
    names, printed = {}, ""
    for _, language, code in (block for block in BLOCKS if block[0] == page):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(code, page, "exec", dont_inherit=True), names)
            printed = out.getvalue()
        elif language == "text":
            assert printed == code


def masked(line):
    """A line without what differs between machines: numbers, and the room that they take."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d,.:]*(e[-+]\d+)?", "#", line)).strip()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["tutorial.md", "faq.md"])
def test_a_console_prints_what_it_shows(page, tmp_path):
    for name in ("README.md", "CHANGELOG.md", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "runs" / "text").mkdir(parents=True)
    (tmp_path / "runs" / "text" / "all.txt").write_text("".join(TEXTS.values()))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    typed = 0
    for _, language, text in (block for block in BLOCKS if block[0] == page):
        for part in text.split("$ ")[1:] if language == "console" else ():
            words, *shown = part.splitlines()
            printed = ""
            for each in words.split(" && "):
                bipe = [sys.executable, "-m", "train.cli", *shlex.split(each)[1:]]
                printed += run(
                    bipe if each.startswith("bipe ") else ["bash", "-c", each], cwd=tmp_path,
                    text=True, stdout=PIPE, stderr=STDOUT, env=environment,
                ).stdout  # fmt: skip
            lines = map(masked, printed.splitlines())
            for line in shown:  # each is there, behind the one before
                assert any(masked(line) in each for each in lines), (line, printed)
            typed += 1
    assert typed >= 4


def commands():
    """All commands of the pages, one simple command each, as (page, words)."""
    for page, text in TEXTS.items():
        lines = text.replace("\\\n", " ").splitlines()  # `$ ` is typed above
        found = [line for line in lines if re.match(r"(\s{4})?(\.venv/bin/)?(bipe|make) ", line)]
        found += [m[1] for m in re.finditer(r"`((?:bipe|make) [^`]+)`", text.replace("\n", " "))]
        found += re.findall(r"(?:torchrun|srun) .*?((?:-m train.cli|bipe) .*)", "\n".join(lines))
        for line in found:
            line = line.replace("-m train.cli", "bipe").replace("=SAME", "=512")
            lexer = shlex.shlex(line, posix=True, punctuation_chars="&;|")
            lexer.whitespace_split, one = True, []
            for word in [*lexer, "&&"]:
                if not set(word) <= set("&;|"):
                    one += [word.rpartition("/")[2]] if word.endswith("bin/bipe") else [word]
                    continue
                if one:
                    yield page, tuple(each for each in one if not DOTS.search(each))
                one = []


ALL = sorted(set(commands()))


# Named in a sentence; what they need is left out.
NAMES = [[name] for name, command in COMMANDS.items() if not command.composes]


@pytest.mark.parametrize(("page", "words"), ALL, ids=[" ".join(w)[:60] for _, w in ALL])
def test_a_command_is_one_that_would_start(page, words):
    program, *words = words
    if program == "make":
        targets = re.findall(r"^([\w./]+)(?: [\w./]+)*:", (ROOT / "Makefile").read_text(), re.M)
        assert not words or words[0] in (*targets, *phony())
        return
    if program != "bipe" or not words or words[0] == "COMMAND":
        return
    if [each for each in SPARED if each in " ".join(words)] or words in NAMES:
        return
    if words[0] == "help" or {"--help", "--config-file"} & {*words}:
        return
    command, rest = find(words)
    if command.name in STUDIES:
        composed(words)
    else:
        read(command, rest)


def phony():
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    return re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split()


def composed(words):
    """Compose every trial of a command and check it; nothing runs."""
    typed = read(*find(words))
    name = typed.study.name
    with composition.opened(typed) as overrides:
        if not typed.has("multirun"):
            whole = composition.whole(overrides)
            configs = [composition.configuration(whole, typed.study, overrides, typed.options)]
        else:
            made = Sweep.of(typed, overrides)
            trials = list(made.combinations())
            configs = [made.composed(trial).config for trial in (trials[0], trials[-1])]
    for config in configs:
        if typed.study.trains:
            settled(name, config, notes=[])
        else:
            config.check()
