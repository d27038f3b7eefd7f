"""The walls of the house: imports run one way, what is public is frozen, no file grows too long."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("segmenters", "bipe", "train")
HEAVY = {"lightning", "hydra", "omegaconf", "wandb", "datasets", "tensorboard", "train", "conf"}
FORBIDDEN = {
    "segmenters": HEAVY | {"torch", "bipe", "tokenizers"},
    "bipe": HEAVY | {"segmenters"},  # marks come as tensors: not even segmenters is needed
    "train": {"conf", "tests"},
    "conf": {*ROOMS, "tests"},
}
# Where a heavy package may be imported at the top of a file: behind a door that opens it on use.
LAZY = {"spacy": "spacy_pipeline.py", "tree_sitter": "grammars.py", "datasets": None, "wandb": None}
PUBLIC = {
    "segmenters": [
        "ArithmeticSteps",
        "Auto",
        "ByteTable",
        "ChainOfThought",
        "Clauses",
        "Coq",
        "IdTable",
        "Isabelle",
        "LaTeXProofs",
        "Lean",
        "Lines",
        "Matched",
        "Metamath",
        "Mixed",
        "Mizar",
        "Newline",
        "Official",
        "Online",
        "Pattern",
        "RandomCuts",
        "Segmenter",
        "SegmenterError",
        "Sentences",
        "Stride",
        "TokenMarker",
        "anchors_from_offsets",
        "mark",
        "official_marks",
        "route",
    ],
    "bipe": ["Cache", "Carry", "Decoder", "DecoderConfig", "Positions"],
    "bipe.encodings": [
        "ALiBi",
        "Bilevel",
        "Chain",
        "Encoding",
        "Flat",
        "Learned",
        "NoPE",
        "RoPE",
        "Scheme",
        "Sinusoidal",
    ],
    "train": [],
}
COMMANDS = ["prepare", "pretrain", "extend", "scrolls", "evaluate", "generate", "report"]
COMMANDS += ["verify", "export", "tokenizer", "segment"]


def files(room):
    return sorted((ROOT / room).rglob("*.py"))


def imported(path, *, top_only=False):
    """Names of the packages that a file imports, relative imports left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("room", FORBIDDEN)
def test_imports_run_one_way(room):
    assert files(room)
    against = {
        str(path.relative_to(ROOT)): sorted(FORBIDDEN[room] & set(imported(path)))
        for path in files(room)
    }
    assert {path: found for path, found in against.items() if found} == {}


@pytest.mark.parametrize("package", LAZY)
def test_a_back_end_is_imported_at_the_top_of_its_own_file_only(package):
    holders = [
        path.name
        for room in ROOMS
        for path in files(room)
        if package in imported(path, top_only=True)
    ]
    assert holders == ([LAZY[package]] if LAZY[package] else [])


def test_no_file_is_longer_than_400_lines():
    places = (*ROOMS, "conf", "tests", "benchmarks")
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for place in places
        for path in files(place)
    }
    assert {path: count for path, count in lengths.items() if count > 400} == {}


def test_every_module_says_what_it_is():
    silent = [
        str(path.relative_to(ROOT))
        for room in (*ROOMS, "conf")
        for path in files(room)
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_source_is_ascii():
    places = (*ROOMS, "conf", "tests")
    paths = [path for place in places for path in (ROOT / place).rglob("*") if _is_source(path)]
    assert paths
    assert [str(path) for path in paths if not path.read_bytes().isascii()] == []


def _is_source(path):
    return path.suffix in (".py", ".yaml")


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_is_frozen(name):
    module = __import__(name, fromlist=["__all__"])
    assert list(getattr(module, "__all__", [])) == PUBLIC[name]
    assert all(hasattr(module, public) for public in PUBLIC[name])


def test_the_commands_are_frozen():
    from train.cli import COMMANDS as commands

    assert list(commands) == COMMANDS


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        (
            "import segmenters as s; s.Sentences(backend='rules').cut('A. B')",
            {"spacy", "tree_sitter", "torch", "datasets", "tokenizers"},
        ),
        ("import bipe", HEAVY | {"segmenters", "spacy", "tokenizers"}),
        ("from train.cli import main; main(['--help'])", HEAVY - {"train"} | {"torch", "numpy"}),
        ("from train.cli import main; main(['pretrian'])", {"torch", "lightning", "hydra"}),
    ],
)
def test_what_is_cheap_loads_nothing_heavy(program, unwanted):
    """In a process of its own: this one has loaded everything."""
    program += f"; import sys; print(sorted({unwanted!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.splitlines()[-1] == "[]"
