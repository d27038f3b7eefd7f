"""`bipe lm-eval [PLACE] ...`: lm-evaluation-harness with our models; its results into our rows.

The harness itself is imported by name, since only bipe.hf may know of transformers.
"""

from __future__ import annotations

import argparse
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

if TYPE_CHECKING:
    from train.fit.checkpoints import Place

USAGE = """usage: bipe lm-eval PLACE --tasks TASK[,TASK] [option of lm-eval ...]
       bipe lm-eval [run | ls | validate] [option of lm-eval ...]

Measure a model on tasks of lm-evaluation-harness (extra `lm-eval`), with its own command line; the
model type `bipe` segments texts as in training.
  PLACE         a run or RUN@STEP, whose results are also added to its evaluation.jsonl for `bipe
                report`, or a folder of transformers, as written by bipe convert
  options       bipe lm-eval run --help lists them; --model and pretrained= are set by PLACE.
                allowed_targets=[yours] allows your own segmenter, if not allowed before;
                source=NAME chooses the segmenter of a source, if they differ (default: the first)

  bipe lm-eval runs/mine/bipe_rope --tasks hellaswag,piqa --batch_size 8 --device cpu
  bipe lm-eval runs/mine/bipe_rope --tasks my_task --include_path FOLDER
  bipe lm-eval ls tasks"""
_OWN = ("run", "ls", "validate")
_OUT, _ALLOWS, _SOURCE = "--output_path", "allowed_targets=", "source="
_ASKS = {"--tasks", "-t", "--config", "-C", "--help", "-h"}
_SIGMAS = 1.96  # of a 95% interval


def main(words: list[str]) -> None:
    """Run the command on its arguments."""
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
    elif words[0].startswith("-") or words[0] in _OWN:
        _harness().run(words)
    else:
        _measure(words[0], words[1:])


def _harness() -> Any:
    """Return bipe.hf.harness; ConfigError says how to install what it needs."""
    try:
        return import_module("bipe.hf.harness")
    except ModuleNotFoundError as missing:
        needed = f"bipe lm-eval needs {missing.name}: {install_command('lm-eval')}"
        raise ConfigError(needed) from None


def _measure(place: str, words: Sequence[str]) -> None:
    from train.fit.checkpoints import find_place
    from train.fit.runs import CONFIG, MODEL, allowed_of, in_use

    if not _ASKS & {word.partition("=")[0] for word in words}:
        raise ConfigError(f"bipe lm-eval {place}: set --tasks; bipe lm-eval ls tasks lists them")
    path = Path(place)
    harness = _harness()
    if path.is_dir() and not (path / MODEL).is_dir() and not (path / CONFIG).is_file():
        harness.run(_command(path, words))
        return
    from train.commands.after.converting import to_hf

    found = find_place(place, key="PLACE")
    folder = found.home
    words, own = _allowed(words)
    sources = [word.removeprefix(_SOURCE) for word in words if word.startswith(_SOURCE)]
    words = [word for word in words if not word.startswith(_SOURCE)]
    own = own or allowed_of(folder)
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / folder.resolve().name
        to_hf(place, made, source=sources[-1] if sources else None, allowed=own)
        options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        options.add_argument(_OUT, dest="out", default=str(Path(scratch) / "results"))
        given, words = options.parse_known_args(words)
        results = given.out
        before = {*Path(results).rglob("results_*.json")}
        with in_use(folder, command="lm-eval"):
            harness.run(_command(made, [*words, _OUT, results], allowed=own))
            for file in {*Path(results).rglob("results_*.json")} - before:
                _keep(found, json.loads(file.read_text(encoding="utf-8")))


def _command(folder: Path, words: Sequence[str], *, allowed: Sequence[str] = ()) -> list[str]:
    model: dict[str, Any] = {"pretrained": str(folder)}
    if allowed and (folder / SEGMENTER).is_file():
        model["allowed"] = allowed_prefixes([*allowed])
    return ["run", "--model", "bipe", *words, "--model_args", json.dumps(model)]


def _allowed(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of the harness, and the packages of allowed_targets=[...] among them."""
    rest = [word for word in words if not word.startswith(_ALLOWS)]
    own = [word.removeprefix(_ALLOWS).strip("[]") for word in words if word not in rest]
    return rest, [name.strip() for each in own for name in each.split(",") if name.strip()]


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
        known = math.isfinite(spread)
        yield Row(
            task=task,
            measure="lm_eval_score" if length is not None else f"lm_eval_{metric}",
            unit="" if "perplexity" in metric or metric.startswith("bits") else "share",
            source="" if filtered == "none" else filtered,
            length=length,
            value=float(value),
            low=value - spread if known else None,
            high=value + spread if known else None,
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
