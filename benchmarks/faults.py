"""A fault at each write, rename and removal of every command, then the same command again.

    python -m benchmarks.faults [--commands prepare pretrain ...] [--kill] [--most 40]

Each command runs undisturbed first. Then, for each of its calls that change a file (of so many, if
there are more than `most`, evenly chosen), it starts from the same folder in a process in which
that call fails (a full disk; with --kill the process ends there, without any handler), and again
without a fault. The first must end with a line and not a traceback; the second must succeed and
leave what the undisturbed command leaves: the same files, none besides, with the same weights,
tokens, tables and texts. Prints JSON: the faults of each command, and each that was not clean.
"""

from __future__ import annotations

import argparse
import builtins
import errno
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

REMOVALS = ("unlink", "remove", "rmdir")
CHANGES = ("rename", "replace", "mkdir", "link", "symlink", "fsync", "truncate", "ftruncate")
KILLED = 137
# What says when, where or how fast it was made: only its name is compared.
_OF_THE_MOMENT = re.compile(
    r"(metrics\.csv|run\.jsonl?|session.*|.*\.log|.*\.ckpt|events\..*|rate\.jsonl|.*\.png|.*\.pdf"
    r"|step=.*\.json|environment\.json|segment_statistics\.json|report\.(html|json)|evaluation.*\.jsonl|manifest\.json|README\.md|.*\.lock|.*\.md)"
)
_WHOLE = "already exists. Choose another folder"  # what a command says that writes a new thing
_STUDY = ("experiment=smoke", "out=study")
_SHORT = ("evaluate.lengths=[1]", "evaluate.probes=[]", "evaluate.documents=1")
_FIRST: list[list[str]] = [
    ["prepare", *_STUDY],
    ["pretrain", *_STUDY, "name=base", "encoding=rope"],
    ["evaluate", *_STUDY, *_SHORT],
    ["convert", "study/base", "to=hf", "out=hf"],
]
COMMANDS: dict[str, list[str]] = {
    "prepare": ["prepare", "experiment=smoke", "out=other"],
    "tokenizer": ["tokenizer", "train", "experiment=smoke", "out=other"],
    "pretrain": ["pretrain", *_STUDY, "name=other", "steps=4"],
    "extend": ["extend", "checkpoint=study/base", "out=study", "name=longer", "steps=2",
               "row_length=128", "stretch=yarn", "rows.global_batch=2"],
    "retrofit": ["retrofit", "checkpoint=study/base", "out=study", "name=taught", "steps=2",
                 "rows.global_batch=2"],
    "evaluate": ["evaluate", *_STUDY, "evaluate.lengths=[1,2]", "evaluate.probes=[]",
                 "evaluate.documents=1"],
    "statistics": ["evaluate", "statistics", *_STUDY],
    "report": ["report", *_STUDY],
    "export": ["export", "study/data", "format=megatron", "out=exported"],
    "convert": ["convert", "study/base", "to=hf", "out=other-hf"],
    "convert_back": ["convert", "hf", "to=bipe", "out=back"],
    "finish": ["finish", "study/base@4", "name=cooled", "cooldown=2"],
    "scrolls": ["scrolls", "checkpoint=study/base", "out=answers", "trainer=cpu", "row_length=64",
                "steps=2", "checkpoint_every=1", "validate_every=1", "rows.global_batch=2",
                "rows.micro_batch=2", "scrolls.source=proofs", "scrolls.max_new=2",
                "task=fact_lookup", "task.facts=1", "task.train=4", "task.validation=2"],
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commands", nargs="*", default=[*COMMANDS], choices=[*COMMANDS])
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--most", type=int, default=40, help="faults per command")
    args = parser.parse_args(argv)
    os.environ |= {"OMP_NUM_THREADS": "1", "WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1"}
    import train.launch.start  # noqa: F401  (once, for all children)
    from train.commands import evaluate, pretrain, report  # noqa: F401

    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch) / "base"
        base.mkdir()
        for words in _FIRST:
            status, _, told = in_child(base, words)
            if status:
                sys.exit(f"{' '.join(words)} failed:\n{told}")
        results = {
            name: tried(base, COMMANDS[name], kill=args.kill, most=args.most)
            for name in args.commands
        }
    print(json.dumps(results, indent=1))
    return int(any(result["not_clean"] for result in results.values()))


def tried(base: Path, words: list[str], *, kill: bool, most: int) -> dict[str, Any]:
    """Run a command with a fault at each of its changes; return what was not clean."""
    folder = base.parent / "work"

    def again() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(base, folder, symlinks=True)

    again()
    status, calls, told = in_child(folder, words)
    if status:
        return {"faults": 0, "not_clean": [f"undisturbed: {told}"]}
    whole = state(folder)
    chosen = sorted({round(i * (len(calls) - 1) / max(1, most - 1)) for i in range(most)})
    wrong = []
    for number in [n for n in chosen if n < len(calls)]:
        again()
        status, _, told = in_child(folder, words, fail_at=number, kill=kill)
        done, said = status == 0, os.strerror(errno.ENOSPC) in told
        faults = [] if kill or "Traceback" not in told else [f"traceback: {told[-600:]}"]
        # What is left over is for the next one to remove.
        lost = [name for name in difference(whole, state(folder)) if name[0] != "+"]
        if done and not _late(lost, said):
            faults.append(f"ended well: {lost}")
        status, _, more = in_child(folder, words)
        left = difference(whole, state(folder))
        if not _late(left, said) or (status and not done and _WHOLE not in more):
            faults.append(f"again, status {status}: {left} {more[-200:]}")
        wrong += [f"{number} {calls[number]}: {fault}" for fault in faults]
    return {"calls": len(calls), "faults": len(chosen), "not_clean": wrong}


def _late(names: Sequence[str], said: bool) -> bool:
    """Return whether nothing is missing, or the last checkpoint alone, which was said.

    A model is written when the last checkpoint cannot be, and the run is finished.
    """
    return not names or (said and all("/checkpoints/" in name for name in names))


def in_child(
    folder: Path, words: Sequence[str], *, fail_at: int | None = None, kill: bool = False
) -> tuple[int, list[str], str]:
    """Run a command in a child; return its status, the changes that it made, and what it told."""
    told, made = folder.parent / "told", folder.parent / "made"
    child = os.fork()
    if not child:
        status = 1
        try:
            os.chdir(folder)
            descriptor = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(descriptor, stream)
            watched(folder, fail_at=fail_at, kill=kill, made=made)
            from train.cli import main as bipe

            status = bipe([*words])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, made.read_text().splitlines(), told.read_text(errors="replace")


def watched(folder: Path, *, fail_at: int | None, kill: bool, made: Path) -> None:
    """Wrap every call that changes a file below a folder; the one of a number fails."""
    log = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    numbers, write = itertools.count(), os.write

    def meet(name: str, path: Any, beside: int | None = None) -> None:
        """Count a call on a path, or on an open file; beside: the folder that it is relative to."""
        if isinstance(path, int):
            path, beside = "", path
        at = Path.cwd() if beside is None else Path(f"/proc/self/fd/{beside}").readlink()
        place = at / os.fsdecode(path)
        if not place.is_relative_to(folder):
            return
        number = next(numbers)
        write(log, f"{name} {place.relative_to(folder)}\n".encode())
        if number != fail_at:
            return
        if kill:
            os._exit(KILLED)
        kind = errno.EACCES if name in REMOVALS else errno.ENOSPC
        raise OSError(kind, os.strerror(kind), str(place))

    def wrapped(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def inner(path: Any, *args: Any, **kwargs: Any) -> Any:
            meet(name, path, kwargs.get("dir_fd") or kwargs.get("src_dir_fd"))
            return call(path, *args, **kwargs)

        return inner

    for name in (*REMOVALS, *CHANGES):
        setattr(os, name, wrapped(name, getattr(os, name)))
    low, high = os.open, io.open

    def low_open(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            meet("open", path, kwargs.get("dir_fd"))
        return low(path, flags, *args, **kwargs)

    def high_open(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if {*"wax+"} & {*mode} and not isinstance(path, int):
            meet("open", path)
        return high(path, mode, *args, **kwargs)

    os.open = low_open
    io.open = builtins.open = high_open


def state(folder: Path) -> dict[str, str]:
    """Return the digest of each file, "" where only its name counts."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = "" if _OF_THE_MOMENT.fullmatch(path.name) else digest
        else:
            found[name] = "folder"
    return found


def difference(one: dict[str, str], two: dict[str, str]) -> list[str]:
    """Return the files that only one state has, and those that differ."""
    gone = [f"-{name}" for name in one.keys() - two.keys()]
    new = [f"+{name}" for name in two.keys() - one.keys()]
    other = [f"~{name}" for name in one.keys() & two.keys() if one[name] != two[name]]
    return sorted([*gone, *new, *other])[:12]


if __name__ == "__main__":
    raise SystemExit(main())
