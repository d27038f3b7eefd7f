"""A trained run as others see it: what it is and cost, which differ only by seed, and its data.

It is read from the run's folder (runs.py), of the weights only the shapes, and without torch. A
checkpoint of a run is one too (checkpoints/__init__.py).
"""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from bipe.build import TARGET
from bipe.sealing import CONFIG, WEIGHTS, read_config, read_shapes
from train.config import encoding_name
from train.data.store.folder import MANIFEST, folders_of, override_of, read_top
from train.disk.files import read_numbers
from train.errors import DataError, RunError
from train.fit import runs
from train.fit.checkpoints import Place, describe


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A run read from its folder; notes: of its training; config: empty if `bipe` did not train it.

    metrics: lines of metrics.csv with a loss, to the step of the weights. place: where these lie.
    """

    folder: Path
    model: Mapping[str, Any] = field(repr=False)
    notes: Mapping[str, Any] = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)
    metrics: Sequence[Mapping[str, Any]] = field(repr=False)
    place: Place

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def label(self) -> str:
        """Return the name, of a checkpoint with its step: bipe_rope@200."""
        return self.at(self.name)

    def at(self, name: str) -> str:
        """Return a name with the step of a checkpoint."""
        return name if self.step is None else f"{name}@{self.step}"

    @property
    def step(self) -> int | None:
        """Return the step of a checkpoint; None for the trained model."""
        return self.place.step

    @property
    def seed(self) -> int | None:
        return self.config.get("seed")

    @property
    def encoding(self) -> Mapping[str, Any]:
        return self.model["encoding"]

    @property
    def model_name(self) -> str:
        """Return the model's name in papers: RoPE, BiPE-RoPE + YaRN."""
        return encoding_name(self.encoding)

    @property
    def bilevel(self) -> bool:
        return str(self.encoding.get(TARGET, "")).rpartition(".")[2] == "Bilevel"

    @property
    def family(self) -> str:
        """Return what a flat model and its bilevel form share: the inter-segment encoding."""
        if not self.bilevel:
            return self.model_name
        return encoding_name({**self.encoding["inter"], "far": self.encoding.get("far")})

    @property
    def row_length(self) -> int | None:
        return runs.first_row_length(self.notes)

    @property
    def curve(self) -> list[tuple[int, float]]:
        """Return pairs of the tokens seen and the training loss in nats per token."""
        return [(row["tokens"], row["loss"]) for row in self.metrics]

    def known(self, metric: str) -> list[float]:
        """Return a column of metrics.csv, without its empty cells."""
        return [row[metric] for row in self.metrics if row.get(metric) is not None]

    @cached_property
    def parameters(self) -> int:
        if self.place.checkpoint is not None:
            return int(describe(self.place)["parameters"])
        return sum(map(math.prod, read_shapes(self.place.folder / WEIGHTS).values()))

    @property
    def weights(self) -> str:
        """Return the sha256 of the weights."""
        return self.place.sha256

    @cached_property
    def arm(self) -> str:
        """Return a digest that is equal for runs that differ only by their seed.

        A run without one is alone in its arm.
        """
        if self.seed is None:
            return runs.digest([self.model_name, str(self.folder.resolve())])
        kept = runs.decisive(self.config)
        del kept["seed"]
        model = dict(self.model)
        if isinstance(base := kept.get("checkpoint"), str):
            kept["checkpoint"] = stem(base.rstrip("/"), self.seed)
            # Encoding and sha256 depend on the base run, and so on its seed.
            del model["encoding"]
            kept.pop("encoding", None)
            kept["extend"] = {**(kept.get("extend") or {}), "sha256": None}
        else:
            kept.pop("extend", None)  # concerns only runs from a checkpoint
        at = [] if self.step is None else [self.step]
        return runs.digest([self.model_name, model, kept, self.notes.get("data"), *at])


@cache
def _tell_once(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def read_run(place: Place) -> TrainedRun:
    """Read a trained run; RunError names the file that is missing or broken."""
    folder, path = place.home, place.folder / CONFIG
    try:
        described = read_config(place.folder) if place.checkpoint is None else describe(place)
        model, notes = described["decoder"], described["notes"]
        config = runs.read_config(folder) if (folder / runs.CONFIG).exists() else {}
        last = math.inf if place.step is None else place.step
        metrics = [
            row
            for row in read_numbers(folder / runs.METRICS)
            if row["loss"] is not None and (row.get("step") or 0) <= last
        ]
        read = TrainedRun(
            folder=folder, model=model, notes=notes, config=config, metrics=metrics, place=place
        )
        _ = read.parameters, read.encoding
        if place.checkpoint is None and (step := runs.short_of(notes, config)) is not None:
            _tell_once(
                f"bipe: {folder} was stopped at step {step} of {config['steps']}, and its model is "
                "of it; its own command goes on"
            )
    except RunError:
        raise
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as fault:
        raise RunError(
            f"{folder}: its trained model cannot be read ({path.name}: {fault}); train it "
            "again, or exclude it"
        ) from fault
    return read


def group_by_arm(found: Iterable[TrainedRun]) -> list[list[TrainedRun]]:
    """Group runs that differ only by their seed, in the order of each first run; members by seed.

    If runs of an arm share a seed, those whose folder names differ only by the seed are a group.
    """
    groups: dict[tuple[str, str], list[TrainedRun]] = {}
    listed = list(found)
    for run in listed:
        alike = [other for other in listed if other.arm == run.arm]
        unique = len({other.seed for other in alike}) == len(alike)
        name = "" if unique else stem(run.name, run.seed)
        place = 0  # equal names with equal seeds, from several places: separate groups
        while any(run.seed == other.seed for other in groups.get((run.arm, f"{name}/{place}"), [])):
            place += 1
        groups.setdefault((run.arm, f"{name}/{place}"), []).append(run)
    return [sorted(group, key=lambda run: run.seed or 0) for group in groups.values()]


def stem(folder: str, seed: int | None) -> str:
    """Return a name without the seed at its end: rope_1, rope_seed1 -> rope; it may be RUN@STEP."""
    name, at, step = folder.rpartition("@")
    name, tail = (name, at + step) if step.isdecimal() else (folder, "")
    for end in (f"_seed{seed}", f"_{seed}"):
        if name.endswith(end):
            return name.removesuffix(end) + tail
    return folder


def data_of_run(run: TrainedRun, *, asked: runs.Data, out: str) -> runs.Data:
    """Return the data to measure a run on: those asked for, those of `out` if they fit, or its own.

    asked: those of `out` count as not asked for. Raises DataError if there are none of these.
    """
    taken = asked
    if asked == f"{out}/data" and not _fits(Path(asked), run.notes):
        taken = runs.data_of(run.config, run.folder)
        if taken is None or not _are_there(taken):
            named = "does not name its data" if taken is None else f"{override_of(taken)} is gone"
            raise DataError(
                f"{run.folder}: {named}, and {asked} holds none with its tokenizer: set data=FOLDER"
            )
    for folder in folders_of(taken).values():
        tokenizer = read_top(folder)["tokenizer"]
        runs.refuse_other_tokenizer(folder, tokenizer, run.notes, home=run.folder)
    return taken


def _are_there(data: runs.Data) -> bool:
    return all((folder / MANIFEST).is_file() for folder in folders_of(data).values())


def _fits(folder: Path, notes: Mapping[str, Any]) -> bool:
    """Return whether a folder has data that a model of these notes can read."""
    there = (folder / MANIFEST).is_file()
    return there and not runs.other_tokenizer(notes, read_top(folder)["tokenizer"])


def data_of_runs(found: Sequence[TrainedRun], *, asked: runs.Data, out: str) -> list[runs.Data]:
    """Return the data to measure each run on, and say which, where they were not asked for."""
    taken = [data_of_run(run, asked=asked, out=out) for run in found]
    names: dict[str, dict[str, None]] = {}
    for run, data in zip(found, taken, strict=True):
        if data != asked:
            names.setdefault(override_of(data), {})[run.name] = None
    why = "has another tokenizer" if _are_there(asked) else "holds no data"
    for word, of in names.items():
        listed = ", ".join(of) if len(of) < 4 else f"{len(of)} runs"
        message = f"bipe: {listed}: {word}, as in training, since {asked} {why}"
        print(message, file=sys.stderr, flush=True)
    return taken
