"""A trained run as others see it: what it is, what it cost, and which runs differ by seed alone.

Read from the run's folder without loading its weights:

    RUN/config.yaml         what it was started with
    RUN/metrics.csv         its training
    RUN/model/config.json   the model, and the notes of its training
    RUN/model/*.safetensors their shapes alone
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from bipe.build import TARGET
from bipe.checkpoint import CONFIG, WEIGHTS
from train.config import encoding_name
from train.disk.files import sha256
from train.errors import RunError
from train.fit import runs
from train.fit.callbacks import read_metrics


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """name: of the folder. model: the decoder's configuration. notes: of its training.

    config: what the run was started with; empty for a model that `bipe` did not train. metrics: the
    lines of metrics.csv that hold a training loss.
    """

    folder: Path
    model: Mapping[str, Any]
    notes: Mapping[str, Any]
    config: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def seed(self) -> int | None:
        return self.config.get("seed")

    @property
    def encoding(self) -> Mapping[str, Any]:
        return self.model["encoding"]

    @property
    def model_name(self) -> str:
        """What papers call the model: RoPE, BiPE-RoPE + YaRN."""
        return encoding_name(self.encoding)

    @property
    def bilevel(self) -> bool:
        return str(self.encoding.get(TARGET, "")).rpartition(".")[2] == "Bilevel"

    @property
    def family(self) -> str:
        """What a flat model and its bilevel form share: the encoding between segments."""
        if not self.bilevel:
            return self.model_name
        return encoding_name({**self.encoding["inter"], "far": self.encoding.get("far")})

    @property
    def row_length(self) -> int | None:
        """The training row in tokens, or that of the first model this one goes back to."""
        return runs.first_row_length(self.notes)

    @property
    def curve(self) -> list[tuple[int, float]]:
        """Tokens seen, and the training loss in nats per token."""
        return [(row["tokens"], row["loss"]) for row in self.metrics]

    def mean_of(self, metric: str) -> float:
        """Return the mean of a column of metrics.csv; NaN where it is empty."""
        known = [row[metric] for row in self.metrics if row.get(metric) is not None]
        return sum(known) / len(known) if known else math.nan

    @cached_property
    def parameters(self) -> int:
        with safe_open(self.folder / runs.MODEL / WEIGHTS, framework="pt") as file:
            return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118 (no mapping)

    @cached_property
    def weights(self) -> str:
        """The sha256 of the file of weights."""
        return sha256(self.folder / runs.MODEL / WEIGHTS)

    @cached_property
    def arm(self) -> str:
        """Equal for runs that differ by their seed alone; a run that notes no seed is on its own.

        What decides what is trained is the rule by which a run is resumed (runs.decisive), the
        data that was read, and the model.
        """
        if self.seed is None:
            return runs.digest([self.model_name, str(self.folder.resolve())])
        kept = runs.decisive(self.config)
        kept = {key: value for key, value in kept.items() if key not in ("seed", "name")}
        model = dict(self.model)
        if isinstance(base := kept.get("checkpoint"), str):
            kept["checkpoint"] = stem(base.rstrip("/"), self.seed)
            # Lengths of the base run's training are in its encoding, and its weights have a sha256.
            del model["encoding"]
            kept.pop("encoding", None)
            kept["extend"] = {**(kept.get("extend") or {}), "sha256": None}
        else:
            kept.pop("extend", None)  # says how a checkpoint is extended
        return runs.digest([self.model_name, model, kept, self.notes.get("data")])


def read_run(folder: Path) -> TrainedRun:
    """Read a trained run; RunError names the file that is missing or broken."""
    path = folder / runs.MODEL / CONFIG
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        model, notes = described["decoder"], described["notes"]
        config = runs.read_config(folder) if (folder / runs.CONFIG).exists() else {}
        metrics = [row for row in read_metrics(folder / runs.METRICS) if row["loss"] is not None]
        read = TrainedRun(folder=folder, model=model, notes=notes, config=config, metrics=metrics)
        _ = read.parameters, read.encoding
    except RunError:
        raise
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as fault:
        raise RunError(
            f"{folder}: holds no trained model that can be read ({path.name}: {fault}); train it "
            "again, or leave it out"
        ) from fault
    return read


def group_by_arm(found: Iterable[TrainedRun]) -> list[list[TrainedRun]]:
    """Group runs that differ by their seed alone, in the order of the first; members by seed.

    Where runs are alike in all but their folder and have seeds in common, those of folders that
    differ by the seed alone belong together.
    """
    groups: dict[tuple[str, str], list[TrainedRun]] = {}
    listed = list(found)
    for run in listed:
        alike = [each for each in listed if each.arm == run.arm]
        unique = len({each.seed for each in alike}) == len(alike)
        name = "" if unique else stem(run.name, run.seed)
        place = 0  # folders of one name come from several places: each joins the next arm
        while any(run.seed == each.seed for each in groups.get((run.arm, f"{name}/{place}"), [])):
            place += 1
        groups.setdefault((run.arm, f"{name}/{place}"), []).append(run)
    return [sorted(group, key=lambda run: run.seed or 0) for group in groups.values()]


def stem(folder: str, seed: int | None) -> str:
    """Return the name of a folder without the seed at its end: rope_1, rope_seed1 -> rope."""
    for end in (f"_seed{seed}", f"_{seed}"):
        if folder.endswith(end):
            return folder.removesuffix(end)
    return folder
