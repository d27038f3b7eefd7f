"""`bipe lm-eval [RUN] ...`: lm-evaluation-harness with our models; its results into our rows.

    bipe lm-eval runs/mine/bipe_rope --tasks hellaswag,piqa --batch_size 8 --device cpu
    bipe lm-eval runs/mine/bipe_rope --tasks my_task --include_path FOLDER
    bipe lm-eval ls tasks

The harness itself is imported by name, since only bipe.hf may know of transformers.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmenters.wording import counted
from train.config import allowed_prefixes
from train.data.store.folder import SEGMENTER
from train.errors import ConfigError, install_command
from train.words import Words

if TYPE_CHECKING:
    from train.fit.checkpoints import Place

_OWN = ("run", "ls", "validate")
_ASKS = {"--tasks", "-t", "--config", "-C", "--help", "-h"}
_SIGMAS = 1.96  # of a 95% interval


def main(words: Words) -> None:
    """Run the harness, on a model of ours if the words name one."""
    if not words.typed:
        raise ConfigError("bipe lm-eval needs a RUN and --tasks; bipe lm-eval --help explains them")
    if not words.places or words.places[0] in _OWN:
        _harness().run(list(words.typed))
    else:
        _measure(words)


def _harness() -> Any:
    """Return bipe.hf.harness; ConfigError says how to install what it needs."""
    try:
        return import_module("bipe.hf.harness")
    except ModuleNotFoundError as missing:
        needed = f"bipe lm-eval needs {missing.name}: {install_command('lm-eval')}"
        raise ConfigError(needed) from None


def _measure(words: Words) -> None:
    from train.fit.checkpoints import find_place
    from train.fit.runs import CONFIG, MODEL, allowed_of, in_use

    place, rest, keys = words.places[0], list(words.rest), words.keys
    if not _ASKS & {word.partition("=")[0] for word in rest}:
        raise ConfigError(f"bipe lm-eval {place}: set --tasks; bipe lm-eval ls tasks lists them")
    path, out = Path(place), words.options.get("output_path")
    harness = _harness()
    if path.is_dir() and not (path / MODEL).is_dir() and not (path / CONFIG).is_file():
        harness.run(_command(path, [*rest, *(["--output_path", out] if out else [])]))
        return
    from train.commands.after.converting import to_hf

    found = find_place(place, key="RUN")
    folder = found.home
    listed = keys.get("allowed_targets", "").strip("[]").split(",")
    own = [name.strip() for name in listed if name.strip()] or allowed_of(folder)
    with tempfile.TemporaryDirectory() as scratch:
        exported = Path(scratch) / folder.resolve().name
        to_hf(place, exported, source=keys.get("source"), allowed=own)
        results = out or str(Path(scratch) / "results")
        before = {*Path(results).rglob("results_*.json")}
        with in_use(folder, command="lm-eval"):
            harness.run(_command(exported, [*rest, "--output_path", results], allowed=own))
            for file in {*Path(results).rglob("results_*.json")} - before:
                _keep(found, json.loads(file.read_text(encoding="utf-8")))


def _command(folder: Path, words: Sequence[str], *, allowed: Sequence[str] = ()) -> list[str]:
    model: dict[str, Any] = {"pretrained": str(folder)}
    if allowed and (folder / SEGMENTER).is_file():
        model["allowed"] = allowed_prefixes([*allowed])
    return ["run", "--model", "bipe", *words, "--model_args", json.dumps(model)]


def _keep(place: Place, results: Mapping[str, Any]) -> None:
    """Write the results of the harness into the journal of a run, a cell per task."""
    from train.evals.rows import FILE, Journal, key_of, of_run
    from train.fit.trained_run import read_run

    run, journal = read_run(place), Journal(place.home / FILE)
    journal.forget_others(run.weights, step=run.step)
    at = "" if run.step is None else f"step {run.step}: "
    for task, measured in results["results"].items():
        rows = of_run(_rows(task, measured, _protocol(task, results)), run, step=run.step)
        key = key_of([run.weights, task, results["config"], [row.note for row in rows]])
        journal.append(key, rows, name=f"{at}lm-eval {task}", weights=run.weights)


def _rows(task: str, measured: Mapping[str, Any], note: str) -> Iterator[Any]:
    """Yield a row per metric; metrics that are numbers are those of one length (RULER)."""
    from train.evals.rows import Row

    for name, value in measured.items():
        metric, comma, filtered = name.partition(",")
        if not comma or metric.endswith("_stderr") or not isinstance(value, int | float):
            continue
        length = int(metric) if metric.isdecimal() else None
        if length is not None and value < 0:  # no text of this length
            continue
        error = measured.get(f"{metric}_stderr,{filtered}")
        spread = _SIGMAS * error if isinstance(error, int | float) else math.nan
        is_finite = math.isfinite(spread)
        yield Row(
            task=task,
            measure="lm_eval_score" if length is not None else f"lm_eval_{metric}",
            unit="" if "perplexity" in metric or metric.startswith("bits") else "share",
            source="" if filtered == "none" else filtered,
            length=length,
            value=float(value),
            low=value - spread if is_finite else None,
            high=value + spread if is_finite else None,
            note=note,
        )


def _protocol(task: str, results: Mapping[str, Any]) -> str:
    """Return how a task was measured, in words."""
    shots = results.get("n-shot", {}).get(task)
    samples = (results.get("n-samples", {}).get(task) or {}).get("effective")
    parts = [f"lm-eval {results.get('lm_eval_version', '')}".rstrip()]
    parts += [f"version {results.get('versions', {}).get(task)} of the task"]
    parts += [] if shots is None else [f"{counted(shots, 'example')} before each question"]
    parts += [] if samples is None else [counted(samples, "question")]
    return ", ".join(parts) + "."
