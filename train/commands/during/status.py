"""`bipe status [FOLDER ...] [--json] [--verify]`: what runs and prepared data do, one line each.

Takes runs, data, or folders of them, also as out=FOLDER; by default all in runs/. Reads files only,
also while they are written, and loads no torch. Exit status: 0, or 2 if there is no such folder.
"""

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path

from train.errors import RunError
from train.fit.record import State, as_json, find_states

_DEFAULT = "runs"


def main(words: list[str]) -> None:
    """Run the command on its arguments."""
    parser = argparse.ArgumentParser(
        prog="bipe status", description="Show the state of runs and prepared data."
    )
    parser.add_argument(
        "folders", metavar="FOLDER", nargs="*", help=f"folder to search; default: {_DEFAULT}"
    )
    parser.add_argument("--json", action="store_true", help="print all numbers as a JSON list")
    parser.add_argument("--verify", action="store_true", help="also verify the sha256 of models")
    given = parser.parse_args(words)
    folders = [word.removeprefix("out=") for word in given.folders] or [_DEFAULT]
    places = list(map(Path, folders))
    if missing := next((place for place in places if not place.is_dir()), None):
        raise RunError(f"{missing}: there is no such folder")
    states = [state for place in places for state in find_states(place, verify=given.verify)]
    if given.json:
        print(as_json(states))
    elif states:
        _show(states)
    else:
        print(f"no runs or prepared data in {', '.join(map(str, places))}")


def _show(states: Sequence[State]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    numbers = ("step", "loss", "validation", "tokens/s")
    for name in ("run or data", "state", *numbers, "checkpoint", "next"):
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for one in states:
        cells = (
            one.folder,
            one.state,
            "" if one.step is None else f"{one.step:,}/{one.steps or '?'}",
            "" if one.loss is None else f"{one.loss:.3f}",
            "" if one.validation_loss is None else f"{one.validation_loss:.3f}",
            "" if one.tokens_per_second is None else f"{one.tokens_per_second:,.0f}",
            _checkpoint(one),
            one.next,
        )
        # Texts, not strings: names of folders may hold rich's markup.
        table.add_row(*(Text(cell) for cell in cells))
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)


def _checkpoint(one: State) -> str:
    if one.checkpoint is None or one.checkpoint_age is None:
        return ""
    age = datetime.timedelta(seconds=round(one.checkpoint_age))
    return f"step {one.checkpoint:,}, {age} ago"
