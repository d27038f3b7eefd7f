"""Change single lines of behaviour at random, and count the changes that the tests notice.

    python -m benchmarks.mutations [--seed 0] [--count 40] [--room FOLDER ...] [--tests PATH ...]
        [--old REVISION] [--limit 900] [--out FILE.json]

A change turns a comparison, moves a number, flips a truth value, swaps `and` and `or` or two
operators of arithmetic, drops a `not` or a branch, or returns None. Docstrings, messages (`raise`,
f-strings, warnings, logs), annotations, decorators and `__repr__` are left alone. The drawn lines
depend on the seed and their own text, so that work on other lines does not move them.

Each change is made in a copy of the tracked files, never in the working tree. The tests of the
changed room run with `pytest -x`, those nearest by imports first (`train`: the 25 nearest).
A test that fails without the change, too, does not count. With `--old` only lines that the revision
has as well are drawn, and its tests run on its own source with the same change.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("segmenters", "bipe", "train")
_TURNED = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq}
_TURNED |= {ast.Is: ast.IsNot, ast.In: ast.NotIn}
_TURNED |= {new: old for old, new in _TURNED.items()}
_SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult}
_SWAPPED |= {ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult}
_SAYS = {"print", "warn", "debug", "info", "warning", "error", "exception", "log"}
_NEAREST = 25  # test files of a change in train
_PYTEST = "-x -q -rfE --tb=no -p no:cacheprovider -o timeout=120 --hypothesis-seed=0"


@dataclass(frozen=True)
class Change:
    """One changed line of a file."""

    path: str
    scope: str  # the function or class
    line: int
    before: str
    after: str
    kind: str

    @property
    def key(self) -> tuple[str, ...]:
        """Name the change by what does not move with other lines."""
        return self.path, self.scope, self.before.strip(), self.after.strip()


def changes(root: Path, path: str) -> Iterator[Change]:
    """Yield all changes of one file."""
    text = (root / path).read_text(encoding="utf-8")
    lines = text.splitlines()
    for node, new, kind, scope in _walk(ast.parse(text), ""):
        if node.lineno == node.end_lineno:
            before = lines[node.lineno - 1]
            after = before[: node.col_offset] + new + before[node.end_col_offset :]
            yield Change(path, scope, node.lineno, before, after, kind)


def _walk(node: ast.AST, scope: str) -> Iterator[tuple[ast.expr | ast.stmt, str, str, str]]:
    """Yield nodes, the text that replaces each, the kind of change, and the scope."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        scope = f"{scope}.{node.name}"
    if _is_message(node):
        return
    for target, new, kind in _replaced(node):
        yield target, new if isinstance(new, str) else f"({ast.unparse(new)})", kind, scope
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                yield from _walk(child, scope) if isinstance(child, ast.AST) else ()


def _is_message(node: ast.AST) -> bool:
    """Return whether a node is only for the eye, or for the checker of types."""
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Expr(ast.Constant()):
            return True
        case ast.Call(ast.Attribute(attr=name) | ast.Name(id=name)) if name in _SAYS:
            return True
        case ast.FunctionDef(name="__repr__" | "__str__"):
            return True
        case ast.If(test):
            return any(word in ast.unparse(test) for word in ("TYPE_CHECKING", "__name__"))
    return False


def _replaced(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST | str, str]]:
    match node:
        case ast.Compare(left, [op, *more], right) if type(op) in _TURNED:
            yield node, ast.Compare(left, [_TURNED[type(op)](), *more], right), "comparison"
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield node, ast.BoolOp(other, values), "and/or"
        case ast.UnaryOp(ast.Not(), operand):
            yield node, operand, "not"
        case ast.BinOp(left, op, right) if type(op) in _SWAPPED and not _is_text(left, right):
            yield node, ast.BinOp(left, _SWAPPED[type(op)](), right), "arithmetic"
        case ast.AugAssign(to, op, value) if type(op) in _SWAPPED and not _is_text(value):
            new = ast.AugAssign(to, _SWAPPED[type(op)](), value)
            yield node, ast.unparse(new), "arithmetic"
        case ast.Constant(bool() as value):
            yield node, repr(not value), "constant"
        case ast.Constant(int() | float() as value):
            yield node, repr(value + 1 if isinstance(value, int) else value * 2 or 1.0), "constant"
        case ast.Return(ast.expr() as value) if not _is_text(value):
            if ast.unparse(value) not in ("None", "True", "False"):
                yield value, "None", "return"
        case ast.If(test) | ast.IfExp(test):
            yield test, "False", "branch"


def _is_text(*nodes: ast.expr) -> bool:
    kinds = (type(getattr(node, "value", node)) for node in nodes)
    return bool({str, ast.JoinedStr} & set(kinds))


def all_changes(root: Path, rooms: list[str]) -> list[Change]:
    """Return the changes of all files of the rooms (folders or files)."""
    paths = {p for room in rooms for p in ([root / room, *(root / room).rglob("*")])}
    sources = sorted(str(p.relative_to(root)) for p in paths if p.suffix == ".py" and p.is_file())
    return [change for path in sources for change in changes(root, path)]


def draw(found: list[Change], count: int, seed: int) -> list[Change]:
    """Draw changes of all kinds in turn, at most one of each line."""
    places = {c: hashlib.sha256(repr((seed, c.key)).encode()).hexdigest() for c in found}
    taken: dict[str, int] = {}
    turns = {}
    for change in sorted(found, key=places.get):
        taken[change.kind] = turns[change] = taken.get(change.kind, 0) + 1
    drawn: dict[tuple[str, int], Change] = {}
    for change in sorted(found, key=lambda c: (turns[c], places[c])):
        drawn.setdefault((change.path, change.line), change)
    return list(drawn.values())[:count]


def tests_of(path: str, imports: dict[str, set[str]]) -> list[str]:
    """Return the test files of a changed file, the nearest by name and imports first."""
    distance, reached, step = {path: 0}, {path}, 0
    while reached:
        step += 1
        reached = {p for p, of in imports.items() if p not in distance and of & reached}
        distance |= dict.fromkeys(reached, step)
    room, *parts = Path(path).with_suffix("").parts
    own = f"tests/{room}/" if room != "train" else "tests/"

    def rank(test: str) -> tuple[int, int, str]:
        shared = set(Path(test.replace("test_", "")).with_suffix("").parts) & set(parts)
        return -len(shared), distance.get(test, step), test

    near = (p for p in imports if p.startswith(own) and Path(p).name.startswith("test_"))
    if room == "train":
        return sorted((p for p in near if p in distance and "/bipe/" not in p), key=rank)[:_NEAREST]
    return sorted(near, key=rank)


def imports(root: Path) -> dict[str, set[str]]:
    """Return the files that each file of the rooms and tests imports, or names in a string."""
    files = [p.relative_to(root) for room in (*ROOMS, "tests") for p in (root / room).rglob("*.py")]
    modules = {".".join(p.with_suffix("").parts).removesuffix(".__init__"): p for p in files}
    found = {}
    for file in files:
        names = {f"{'.'.join(folder.parts)}.conftest" for folder in file.parents}  # its fixtures
        for node in ast.walk(ast.parse((root / file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)
        found[str(file)] = {str(modules[name]) for name in names & modules.keys()} - {str(file)}
    return found


class Tree:
    """A copy of a revision in which lines are changed and tests run."""

    def __init__(self, revision: str, folder: Path, tests: list[str], limit: float) -> None:
        folder.mkdir(parents=True)
        packed = subprocess.check_output(["git", "-C", str(ROOT), "archive", revision])
        subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
        self.root, self.tests, self.limit = folder, tests, limit
        self.imports = imports(folder)
        self.broken: set[str] = set()  # tests that fail without any change

    def noticed(self, change: Change) -> str | None:
        """Return the test that notices a change, or None."""
        file = self.root / change.path
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        lines[change.line - 1] = change.after + "\n"
        tests = self.tests or tests_of(change.path, self.imports)
        while True:
            self._write(file, "".join(lines))
            try:
                failed = self._failed(tests)
            finally:
                self._write(file, text)
            if failed is None or failed in self.broken or self._failed([failed]) is None:
                return failed
            self.broken.add(failed)

    def _write(self, file: Path, text: str) -> None:
        file.write_text(text, encoding="utf-8")
        # Python compares whole seconds and sizes: a change of one character can look like none.
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()

    def _failed(self, tests: list[str]) -> str | None:
        """Return the first test that fails, or the first file if pytest names none."""
        tests = [test for test in tests if test not in self.broken]
        if not tests:
            return None
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
        words = [sys.executable, "-m", "pytest", *_PYTEST.split(), *tests]
        words += [f"--deselect={test}" for test in sorted(self.broken)]
        env = {**os.environ, "PYTHONPATH": str(self.root)}
        with tempfile.TemporaryFile("w+") as out:
            where = {"cwd": self.root, "env": env, "stdout": out, "stderr": out}
            process = subprocess.Popen(words, **where, start_new_session=True)
            try:
                status = process.wait(self.limit)
            except subprocess.TimeoutExpired:
                return None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            out.seek(0)
            failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", out.read(), re.MULTILINE)
        return None if status in (0, 5) else failed[1] if failed else tests[0]


def of_both(new: list[Change], old: list[Change]) -> dict[Change, Change]:
    """Return the changes that an older tree has as well, and theirs; a file may have moved."""
    places: dict[tuple[str, ...], list[Change]] = {}
    for change in old:
        places.setdefault(change.key, []).append(change)
        places.setdefault(change.key[1:], []).append(change)
    found = {c: places.get(c.key) or places.get(c.key[1:], []) for c in new}
    return {c: there[0] for c, there in found.items() if len(there) == 1}


def main() -> None:
    """Draw changes, run the tests of each, and print which were noticed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--room", nargs="+", default=list(ROOMS), help="folders or files")
    parser.add_argument("--tests", nargs="+", default=[], help="instead of those of the room")
    parser.add_argument("--old", help="a git revision, whose tests are compared")
    parser.add_argument("--limit", type=float, default=900, help="seconds of the tests of a change")
    parser.add_argument("--out", type=Path, help="a JSON file of the results")
    args = parser.parse_args()
    stash = subprocess.check_output(["git", "-C", str(ROOT), "stash", "create"], text=True)
    revisions = {"old": args.old} if args.old else {}
    revisions["new"] = stash.strip() or "HEAD"  # the tracked files as they are now
    results = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as scratch:
        more = (args.tests, args.limit)
        trees = {name: Tree(rev, Path(scratch, name), *more) for name, rev in revisions.items()}
        found = all_changes(trees["new"].root, args.room)
        there = {"new": {change: change for change in found}}
        if args.old:
            there["old"] = of_both(found, all_changes(trees["old"].root, list(ROOMS)))
        drawn = draw(list(there["old" if args.old else "new"]), args.count, args.seed)
        for number, change in enumerate(drawn, 1):
            by = {name: tree.noticed(there[name][change]) for name, tree in trees.items()}
            results.append({**asdict(change), "by": by})
            print(f"{number}/{len(drawn)} {change.path}:{change.line}")
            print(f"    - {change.before.strip()}\n    + {change.after.strip()}")
            for name, test in by.items():
                print(f"    {name}: {test or 'NOT NOTICED'}", flush=True)
            if args.out:
                args.out.write_text(json.dumps(revisions | {"changes": results}, indent=1) + "\n")
    for name in revisions:
        count = sum(result["by"][name] is not None for result in results)
        print(f"noticed by the {name} tests: {count} of {len(results)}")


if __name__ == "__main__":
    main()
