"""The walls of the house: imports run one way, what is public is frozen, no file grows too long."""

import ast
import functools
import graphlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("segmenters", "bipe", "train")
HEAVY = {"lightning", "hydra", "omegaconf", "wandb", "datasets", "tensorboard", "train", "conf"}
HF, HF_ROOM = {"transformers", "accelerate", "peft", "lm_eval"}, "bipe/hf"
FORBIDDEN = {
    "segmenters": HEAVY | HF | {"torch", "bipe", "tokenizers"},
    "bipe": HEAVY | HF | {"segmenters"},  # marks come as tensors: not even segmenters is needed
    HF_ROOM: HEAVY,  # the only one that imports transformers
    "train": HF | {"conf", "tests"},
    "conf": {*ROOMS, "tests"},
}
# Where a heavy package may be imported at the top of a file: behind a door that opens it on use.
LAZY = {
    "spacy": ["spacy_models.py", "spacy_pipeline.py"],
    "pythainlp": ["thai.py"],
    "tree_sitter": ["grammars.py"],
    "datasets": [],
    "wandb": [],
}
PUBLIC = {
    "segmenters": [
        "Agda",
        "ArithmeticSteps",
        "Auto",
        "ByteTable",
        "Called",
        "ChainOfThought",
        "Clauses",
        "Coq",
        "Given",
        "Hol",
        "IdTable",
        "Isabelle",
        "LaTeXProofs",
        "Lean",
        "Levels",
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
        "Repository",
        "Segmenter",
        "SegmenterError",
        "Sentences",
        "Stride",
        "TokenMarker",
        "Tptp",
        "Turns",
        "anchors_from_offsets",
        "mark",
        "official_marks",
        "route",
        "segment_ids",
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
    "bipe.hf": [
        "FAMILIES",
        "BipeConfig",
        "BipeForCausalLM",
        "DataCollatorWithSegments",
        "SegmentingTokenizer",
        "bilevel",
    ],
    "train": ["evaluate", "extend", "prepare", "pretrain", "retrofit", "scrolls"],
}
# The floors of each room from the ground up: a file imports from its own floor and from below,
# wherever in the file the import is. The longest name that fits decides where a file belongs.
FLOORS = {
    "segmenters": """
        places offsets fields random_numbers asked checks wording base align registry levels
        controls prose code proofs documents turns streaming show token_files
    """,
    "bipe": """
        arguments build sealing positions bias rotation loss cache random_positions
        encodings attention attention.passes decoder checkpoint generation extension layouts hf
        __main__
    """,
    "train": """
        errors words stop ranks disk data.reading data.tokenizing data.store data.preparing
        data.rows data tasks config fit.flops fit.watching fit evals report commands
        launch cli
    """,
}
# A file of less than this many lines, encodings aside, is here with its reason.
SHORT = 60
REASONS = {
    "bipe/__main__.py": "the console script",
    "bipe/attention/heads.py": "types and shapes of all paths",
    "segmenters/asked.py": "a property of two rooms",
    "segmenters/checks.py": "checks that all segmenters share",
    "segmenters/prose/endings/habits.py": "how sentences begin, which has nothing to do with",
    "segmenters/prose/endings/language.py": "the language of a text",
    "segmenters/prose/thai.py": "the only file that imports PyThaiNLP",
    "segmenters/random_numbers.py": "one generator for two rooms",
    "train/commands/after/convert.py": "one file a command",
    "segmenters/wording.py": "the words of messages, for rooms that show no segments",
    "train/commands/during/evaluation.py": "named by the configuration",
    "train/commands/explain/counter.py": "torch's counter of operations",
    "train/config/decoders.py": "the one file of the configuration that loads torch",
    "train/commands/export.py": "one file a command",
    "train/tasks/arithmetic/symbols.py": "a tokenizer, named by the configuration",
}
MOST_FLAT = 12
# The own files that a command loads, lazily or not: packages, and what these import, included.
LOADED = {"train.commands.evaluate": 113, "train.commands.pretrain": 86}
COMMANDS = [
    "prepare",
    "pretrain",
    "extend",
    "retrofit",
    "scrolls",
    "finish",
    "evaluate",
    "generate",
]
COMMANDS += [
    "report",
    "verify",
    "export",
    "convert",
    "lm-eval",
    "tokenizer",
    "doctor",
    "status",
    "explain",
]
COMMANDS += ["completion", "segment"]


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
    within = [path for path in files(room) if room == HF_ROOM or ROOT / HF_ROOM not in path.parents]
    assert within
    against = {
        str(path.relative_to(ROOT)): sorted(FORBIDDEN[room] & set(imported(path)))
        for path in within
    }
    assert {path: found for path, found in against.items() if found} == {}


def test_nothing_of_ours_imports_the_room_of_transformers():
    known, room = modules(), HF_ROOM.replace("/", ".")
    inside = {name for name in known if f"{name}.".startswith(f"{room}.")}
    assert inside
    assert [name for name in known.keys() - inside if imports_of(name, known) & inside] == []


@pytest.mark.parametrize("package", LAZY)
def test_a_back_end_is_imported_at_the_top_of_its_own_files_only(package):
    holders = [
        path.name
        for room in ROOMS
        for path in files(room)
        if package in imported(path, top_only=True)
    ]
    assert holders == LAZY[package]


def test_no_file_is_longer_than_500_lines():
    places = (*ROOMS, "conf", "tests", "benchmarks")
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for place in places
        for path in files(place)
    }
    assert {path: count for path, count in lengths.items() if count > 500} == {}


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
    if name == "bipe.hf":
        pytest.importorskip("transformers")
    module = __import__(name, fromlist=["__all__"])
    assert list(getattr(module, "__all__", [])) == PUBLIC[name]
    assert all(hasattr(module, public) for public in PUBLIC[name])


def test_the_commands_are_frozen():
    from train.launch.commands import WORDS as commands

    assert list(commands) == COMMANDS


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        (
            "import segmenters as s; s.Sentences().cut('A. B')",
            {"spacy", "tree_sitter", "torch", "datasets", "tokenizers"},
        ),
        (
            "import bipe; bipe.Decoder",
            HEAVY | HF | {"segmenters", "spacy", "tokenizers", "torch._dynamo", "sympy"},
        ),
        (
            "from train.cli import main; main(['--help'])",
            HEAVY - {"train"} | HF | {"torch", "numpy"},
        ),
        ("from train.cli import main; main(['status', '.'])", HF | {"torch", "lightning", "hydra"}),
        (
            "from train.cli import main; main(['pretrain', 'steps=x'])",
            HF | {"torch", "lightning", "numpy"},
        ),
        ("import train.commands.report", HF | {"torch", "lightning"}),
        (
            "import train.commands.evaluate, train.commands.generate",
            HF | {"lightning", "pandas", "torch._dynamo"},
        ),
    ],
)
def test_what_is_cheap_loads_nothing_heavy(program, unwanted):
    """In a process of its own: this one has loaded everything."""
    program += f"; import sys; print(sorted({unwanted!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.splitlines()[-1] == "[]"


def modules():
    """The modules of the rooms by their names."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for room in ROOMS
        for path in files(room)
    }


def imports_of(name, known, *, types=False):
    """The modules among `known` that a file imports anywhere; types: also for its types alone."""
    tree = ast.parse(known[name].read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    found, lazy = set(), lazy_names()
    for node in ast.walk(tree):
        if id(node) in typing_only and not types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            # `from package import module` needs the module; other names are the package's own.
            found |= inner & known.keys() or {node.module}
            found |= {node.module} if inner - known.keys() else set()
            found |= {lazy[name] for name in inner & lazy.keys()}
    return (found & known.keys()) - {name}


@functools.cache
def lazy_names():
    """The module behind each name that a package imports on first use, which it tells types of."""
    return {
        f"{package}.{alias.name}": node.module
        for package in ("segmenters", "bipe", "bipe.encodings")
        for block in ast.parse((ROOT / package.replace(".", "/") / "__init__.py").read_text()).body
        if isinstance(block, ast.If)
        for node in block.body
        for alias in node.names
    }


def floor_of(name, floors):
    return max((f for f in floors if f"{name}.".startswith(f"{f}.")), key=len, default=None)


@pytest.mark.parametrize("room", FLOORS)
def test_inside_a_room_no_import_goes_up(room):
    known, floors = modules(), [f"{room}.{floor}" for floor in FLOORS[room].split()]
    inside = [name for name in known if name.partition(".")[0] == room and name != room]
    assert [name for name in inside if floor_of(name, floors) is None] == []
    up = [
        (name, other)
        for name in inside
        for other in imports_of(name, known)
        if other in inside
        and floors.index(floor_of(other, floors)) > floors.index(floor_of(name, floors))
    ]
    assert up == []


def test_no_file_imports_itself_by_way_of_others():
    """Not for its types alone either."""
    known = modules()
    # Packages that import names on first use tell types of all they have.
    graph = {name: imports_of(name, known, types=name not in ROOMS) for name in known}
    try:
        list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as circle:
        pytest.fail(" <- ".join(circle.args[1]))


@pytest.mark.parametrize("command", LOADED)
def test_a_command_loads_no_more_than_it_needs(command):
    """Packages count, as do imports inside of functions."""
    known = modules()
    loaded, todo = set(), [command]
    while todo:
        name = todo.pop()
        if name not in loaded:
            loaded.add(name)
            todo += imports_of(name, known) | ({name.rpartition(".")[0]} & known.keys())
    assert len(loaded) <= LOADED[command], sorted(loaded)


def test_folders_and_files_have_their_sizes():
    counts = Counter(path.parent for path in modules().values() if path.name != "__init__.py")
    full = {str(f.relative_to(ROOT)): n for f, n in counts.items() if n > MOST_FLAT}
    full.pop("bipe/encodings", None)  # one file an encoding
    assert full == {}
    short = {
        str(path.relative_to(ROOT))
        for path in modules().values()
        if path.name != "__init__.py"
        and path.parent.name != "encodings"
        and len(path.read_text(encoding="utf-8").splitlines()) < SHORT
    }
    assert short == REASONS.keys()


def test_below_the_commands_nothing_takes_the_configuration():
    """A command takes the configuration apart and hands values down."""
    takers = []
    for name, path in modules().items():
        above = ["train.commands", "train.launch", "train.config.decoders"]
        if not name.startswith("train.") or floor_of(name, above):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.args, *node.args.kwonlyargs]
                kinds = [ast.unparse(each.annotation) for each in arguments if each.annotation]
                takers += [f"{name}.{node.name}" for kind in kinds if "Config" in kind.split(".")]
    assert takers == []


# os._exit is documented; torch's processors, kernels and fused optimizers have no public names.
_ALLOWED_PRIVATE = {
    *("_exit", "_is_avx512_bf16_supported", "_is_amx_tile_supported", "_step_supports_amp_scaling"),
    *("_scaled_dot_product_flash_attention_for_cpu",),
    *("_scaled_dot_product_flash_attention_for_cpu_backward",),
}


def test_train_touches_nothing_private_of_others():
    """The next release of Lightning, Hydra, submitit or wandb may change what begins with _."""
    trees = {path: ast.parse(path.read_text()) for room in ROOMS for path in files(room)}
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    ours = {"_replace", "_asdict", "_fields"}
    for _, node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            ours.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            ours.add(node.id if isinstance(node, ast.Name) else node.attr)
    touches = []
    for path, node in nodes:
        names = []
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "setattr"):
            names = [str(getattr(node.args[1], "value", ""))]
        elif isinstance(node, ast.Import):
            names = [part for alias in node.names for part in alias.name.split(".")]
        elif (
            isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] not in ROOMS
        ):
            parts = (node.module or "").split(".")
            names = [*parts, *(alias.name for alias in node.names)]
        touches += [
            (path.name, node.lineno, name) for name in names
            if name.startswith("_") and not name.startswith("__")
            and name not in ours | _ALLOWED_PRIVATE and (ROOT / "train") in path.parents
        ]  # fmt: skip
    assert touches == []
