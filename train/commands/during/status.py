"""`bipe status [FOLDER ...] [--json] [--verify]`: what runs and prepared data do, one line each.

Takes runs, data, or folders of them, also as out=FOLDER; by default all in runs/. Reads files only,
also while they are written, and loads no torch. Exit status: 0, or 2 if there is no such folder.
"""

import datetime
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from segmenters.wording import escaped
from train.commands.during.states import State, find_states
from train.errors import RunError
from train.words import Words

_DEFAULT = "runs"
_NUMBERS = ("step", "loss", "validation", "tokens/s")
_COLUMNS = ("run or data", "state", *_NUMBERS, "checkpoint", "next")
_TABLE_WIDTH, _FILE_WIDTH = 110, 200  # columns: less is a list, not a table


def main(words: Words) -> None:
    """Print the state of each run and of each folder of data."""
    places = list(map(Path, (*words.places, *words.keys.values()) or (_DEFAULT,)))
    if missing := next((place for place in places if not place.is_dir()), None):
        raise RunError(f"{missing}: there is no such folder")
    states = [state for place in places for state in find_states(place, verify=words.has("verify"))]
    if words.has("json"):
        print(json.dumps([*map(_plain, states)], indent=1, allow_nan=False))
    elif states:
        _show(states)
    else:
        print(f"no runs or prepared data in {', '.join(map(str, places))}")


def _plain(state: State) -> dict[str, Any]:
    """Return the fields of a state; a loss that is not finite is None, as strict JSON asks."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(state).items()
    }


def _show(states: Sequence[State]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(width=_FILE_WIDTH)
    # Texts, not strings: names of folders, maybe a stranger's, may hold rich's markup.
    rows = [[Text(escaped(cell), overflow="fold") for cell in _cells(state)] for state in states]
    if console.width >= _TABLE_WIDTH:
        console.print(_table(rows))
        return
    for folder, *cells in rows:
        folder.stylize("bold")
        console.print(folder)
        for name, cell in zip(_COLUMNS[1:], cells, strict=True):
            if cell.plain:
                console.print(Text(f"  {name}: ", overflow="fold").append_text(cell))


def _table(rows: Sequence[Sequence[Any]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _cells(state: State) -> tuple[str, ...]:
    return (
        state.folder,
        state.state,
        "" if state.step is None else f"{state.step:,}/{state.steps or '?'}",
        "" if state.loss is None else f"{state.loss:.3f}",
        "" if state.validation_loss is None else f"{state.validation_loss:.3f}",
        "" if state.tokens_per_second is None else f"{state.tokens_per_second:,.0f}",
        _checkpoint(state),
        state.next,
    )


def _checkpoint(state: State) -> str:
    if state.checkpoint is None or state.checkpoint_age is None:
        return ""
    age = datetime.timedelta(seconds=round(state.checkpoint_age))
    return f"step {state.checkpoint:,}, {age} ago"
