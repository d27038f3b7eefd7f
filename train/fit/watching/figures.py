"""The figures of a run for its loggers, as PNG: its curves, and what was evaluated while training.

They are drawn from the run's files at its end, in a logger's own process; it loads no torch.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Lines = Mapping[str, Sequence[tuple[float, float]]]
_INCHES, _DPI = (6.0, 3.6), 120
_MOST = 12  # lines in a figure


def figures(folder: Path) -> dict[str, bytes]:
    """Return the figures of a run's folder by their names."""
    drawn = {}
    for name, (y_name, lines) in _subjects(folder).items():
        if any(lines.values()):
            drawn[f"figures/{name}"] = _png(lines, y_name=y_name)
    return drawn


def _subjects(folder: Path) -> dict[str, tuple[str, Lines]]:
    rows = _rows(folder / "metrics.csv")
    losses = {"training": _points(rows, "loss"), "validation": _points(rows, "validation_loss")}
    places = [name for name in (rows[0] if rows else ()) if name.startswith("loss/token/")]
    by_place = {name.rpartition("/")[2] + "+": _points(rows, name) for name in places}
    return {
        "loss": ("loss, nats per token", losses),
        "loss_by_token_index": ("loss, by token index in the document", by_place),
        "perplexity": ("perplexity", _evaluated(folder / "evaluation.jsonl")),
    }


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        return list(csv.DictReader(io.StringIO(path.read_text())))
    except OSError:
        return []


def _points(rows: Iterable[Mapping[str, str]], name: str) -> list[tuple[float, float]]:
    return [(float(row["step"]), float(row[name])) for row in rows if row.get(name)]


def _evaluated(path: Path) -> Lines:
    """Return the perplexities that were measured while training, by source and length."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        row = _json(line)
        if row.get("measure") == "perplexity" and row.get("step") and row.get("value"):
            found[f"{row.get('source')}, {row.get('length')}"].append((row["step"], row["value"]))
    return found


def _json(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def _png(lines: Lines, *, y_name: str) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, dpi=_DPI, layout="constrained")
    axes = figure.subplots()
    for name, points in [(name, points) for name, points in lines.items() if points][:_MOST]:
        axes.plot(*zip(*sorted(points), strict=True), label=name, marker="." * (len(points) < 30))
    axes.set_xlabel("step")
    axes.set_ylabel(y_name)
    axes.legend(fontsize="small", frameon=False)
    held = io.BytesIO()
    figure.savefig(held, format="png")
    return held.getvalue()
