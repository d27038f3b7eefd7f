"""Where the numbers of a run go besides metrics.csv: Lightning's loggers, and trackio.

    bipe pretrain 'logger=[wandb, tensorboard]' logger.wandb.project=study

A logger that raises is reported once and dropped; none ends a training. Secrets are redacted in
the hyperparameters that a logger is given. RUN/loggers.json keeps the ids under which resumed runs
continue.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
import os
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import CSVLogger, Logger, WandbLogger
from lightning.pytorch.loggers.logger import rank_zero_experiment

from bipe.build import PARTIAL, build
from train.config.sections import LOGGER
from train.disk.files import read_json, read_lines, read_numbers, write_whole
from train.disk.manifest import redacted
from train.errors import ConfigError

log = logging.getLogger("bipe")

IDS = "loggers.json"
_SEND = "log_numbers_of_bipe"  # an attribute of the loggers of a run
# What the module logs for callbacks; loggers get it with all other numbers of the step (`send`).
_SENT = {"train/loss", "train/grad_norm", "train/lr", "validation/loss", "epoch"}
_METHODS = ("log_graph", "log_image", "save", "after_save_checkpoint", "finalize")
# Not sent by wandb, since they may hold secrets: command line, code and terminal. A variable of the
# client's, such as WANDB_CONSOLE, counts more.
_WANDB: Mapping[str, Any] = {
    **dict.fromkeys(("disable_code", "disable_git", "x_disable_meta"), True),
    **{"save_code": False, "console": "off", "program": "bipe"},
    **{"init_timeout": 30, "finish_timeout": 60, "finish_timeout_raises": True},  # seconds
}


class Trackio(Logger):
    """A run of trackio. version: its name, under which a resumed training continues.

    save_dir: folder of its database, unless TRACKIO_DIR is set.
    """

    def __init__(
        self,
        *,
        project: str = "bipe",
        version: str | None = None,
        save_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        self._project, self._version = project, version
        self._folder = None if save_dir is None else os.fspath(save_dir)
        self._config: dict[str, Any] = {}
        self._run: Any = None

    @property
    def name(self) -> str:
        return self._project

    @property
    def version(self) -> str | None:
        return self._version

    @property
    def save_dir(self) -> str | None:
        return self._folder

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        if self._run is None:
            if self._folder is not None:
                os.environ.setdefault("TRACKIO_DIR", self._folder)
            import trackio

            names: Any = {"project": self._project, "name": self._version}
            self._run = trackio.init(**names, config=self._config, resume="allow", embed=False)
        return self._run

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        self._config |= params  # sent with the first numbers

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.experiment.log(dict(metrics), step=step)

    @rank_zero_only
    def log_image(self, key: str, images: Sequence[Any], step: int | None = None) -> None:
        """Log matplotlib figures."""
        import numpy
        import trackio
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        for image in images:
            canvas = FigureCanvasAgg(image)
            canvas.draw()
            self.experiment.log({key: trackio.Image(numpy.asarray(canvas.buffer_rgba()))}, step)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None


class Guard:
    """Calls what belongs to one logger; an exception is reported once, and the logger dropped."""

    def __init__(self, label: str) -> None:
        self.label, self.dropped = label, False

    def __call__(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.dropped:
            return None
        try:
            return call(*args, **kwargs)
        except Exception as fault:  # whatever it is: only records are lost
            self.dropped = True
            reason = str(fault).strip().partition("\n")[0]
            self.report(
                f"failed: {type(fault).__name__}: {reason}; training continues without it; "
                "metrics.csv has every number"
            )
            return None

    def report(self, text: str) -> None:
        if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
            log.warning("logger.%s %s", self.label, text)


class Loggers:
    """The loggers of a run, from their descriptions by name. allowed: see bipe.build."""

    def __init__(
        self, descriptions: Mapping[str, Any], *, folder: Path, allowed: tuple[str, ...]
    ) -> None:
        self._folder, self._allowed = folder.resolve(), allowed
        self._ids = read_json(folder / IDS) or {}
        self._guards: list[tuple[Guard, Logger]] = []
        self._clients: list[tuple[Guard, Any]] = []  # runs of wandb that began here
        for label, description in descriptions.items():
            guard = Guard(label)
            logger = guard(self._open, guard, label, description)
            if logger is not None:
                self._guards.append((guard, logger))

    @property
    def all(self) -> list[Logger]:
        return [logger for _, logger in self._guards]

    def close(self, *, failed: bool) -> None:
        """Draw the curves of a run that did not fail, and end the runs of clients."""
        if self._guards and not failed and rank_zero_only.rank == 0:  # type: ignore[attr-defined]
            figures, step = figures_of(self._folder)
            for guard, logger in self._guards:
                guard(_draw, logger, figures, step)
        for guard, logger in self._guards:
            guard(logger.finalize, "failed" if failed else "success")
        for guard, run in self._clients:  # Lightning leaves them to the whole process
            guard(run.finish, exit_code=int(failed))
            if guard.dropped:  # the next run of a sweep would continue this one
                with suppress(Exception):
                    run.finish(exit_code=1)
        self._guards, self._clients = [], []

    def _open(self, guard: Guard, label: str, description: Mapping[str, Any]) -> Logger:
        make = build({**description, PARTIAL: True}, LOGGER, allowed=self._allowed)
        arguments = dict(make.keywords)
        for name, value in self._defaults(make.func, label).items():
            if arguments.get(name) is None:
                arguments[name] = value
        logger: Logger
        if issubclass(make.func, WandbLogger):
            logger = self._open_wandb(make.func, arguments, guard)
        else:
            logger = make.func(**arguments)
        if isinstance(logger, CSVLogger) and Path(logger.log_dir).resolve() == self._folder:
            raise ConfigError(
                f"logger.{label} would replace metrics.csv of {self._folder}: set "
                f"logger.{label}.name=csv"
            )
        if isinstance(logger, WandbLogger | Trackio):
            self._keep_id(label, logger)
        for name in _METHODS:
            if (method := getattr(logger, name, None)) is not None:
                setattr(logger, name, partial(guard, method))
        setattr(logger, _SEND, partial(guard, logger.log_metrics))
        others = partial(_log_others, logger.log_metrics)
        logger.log_metrics = partial(guard, others)  # type: ignore[method-assign]
        hyperparameters = partial(_log_redacted, logger.log_hyperparams)
        logger.log_hyperparams = partial(guard, hyperparameters)  # type: ignore[method-assign]
        return logger

    def _defaults(self, kind: type, label: str) -> dict[str, Any]:
        """Return the arguments that a logger takes unless the configuration sets them."""
        defaults: dict[str, Any] = {}
        if "save_dir" in inspect.signature(kind).parameters:
            defaults["save_dir"] = str(self._folder)
        if issubclass(kind, Trackio):
            name = f"{self._folder.name}-{secrets.token_hex(2)}"
            defaults |= {"version": self._ids.get(label, name)}
        elif issubclass(kind, WandbLogger):
            variables = os.environ
            defaults |= {
                "save_dir": variables.get("WANDB_DIR", str(self._folder)),
                "project": variables.get("WANDB_PROJECT", "bipe"),
                "name": None if "WANDB_NAME" in variables else self._folder.name,
                "id": self._ids.get(label),
            }
        return defaults

    def _open_wandb(
        self, kind: type[WandbLogger], arguments: dict[str, Any], guard: Guard
    ) -> WandbLogger:
        """Return a logger whose run has begun: offline if its client cannot begin it otherwise."""
        settings = {k: v for k, v in _WANDB.items() if f"WANDB_{k.upper()}" not in os.environ}
        arguments["settings"] = settings | dict(arguments.get("settings") or {})
        if arguments.pop("offline", False):  # by Lightning it would be so for the whole process
            arguments["mode"] = "offline"
        elif os.environ.get("WANDB_DISABLED", "").lower() in ("1", "true", "yes", "on"):
            arguments.setdefault("mode", "disabled")
        logger = kind(**arguments)
        if rank_zero_only.rank:  # type: ignore[attr-defined]
            return logger
        import wandb

        begins = wandb.run is None  # else it is that of a sweep's agent, or of a notebook
        try:
            run = logger.experiment
        except wandb.errors.Error as fault:
            reason = str(fault).partition("\n")[0]
            guard.report(f"is offline, to be sent by wandb sync: {type(fault).__name__}: {reason}")
            wandb.teardown()  # its process would refuse the same run a second time
            logger = kind(**{**arguments, "mode": "offline"})
            run = logger.experiment
        if begins:
            self._clients.append((guard, run))
        return logger

    @rank_zero_only
    def _keep_id(self, label: str, logger: WandbLogger | Trackio) -> None:
        if not getattr(logger.experiment, "disabled", False):
            self._ids[label] = logger.version
            write_whole(self._folder / IDS, json.dumps(self._ids))


def send(loggers: Iterable[Logger], values: Mapping[str, Any], step: int, *, kind: str) -> None:
    """Give the finite numbers among values to all loggers; kind begins their names."""
    numbers = {
        f"{kind}/{name}": float(value)
        for name, value in values.items()
        if name != "step" and isinstance(value, int | float) and math.isfinite(value)
    }
    for logger in loggers:
        getattr(logger, _SEND, logger.log_metrics)(numbers, step=step)
        logger.save()


def _log_others(
    method: Callable[..., Any], metrics: Mapping[str, Any], step: int | None = None
) -> None:
    """Log the numbers of callbacks and of Lightning, which counts steps from 0."""
    others = {name: value for name, value in metrics.items() if name not in _SENT}
    if others:
        method(others, step=None if step is None else step + 1)


def _log_redacted(method: Callable[..., Any], params: Any, *args: Any, **kwargs: Any) -> None:
    params = params if isinstance(params, Mapping) else vars(params)
    method(redacted(params), *args, **kwargs)


def _draw(logger: Any, figures: Mapping[str, Any], step: int) -> None:
    if hasattr(logger, "log_image"):
        for name, figure in figures.items():
            logger.log_image(name, [figure], step=step)
    elif hasattr(getattr(logger, "experiment", None), "add_figure"):  # TensorBoard's writer
        for name, figure in figures.items():
            logger.experiment.add_figure(name, figure, step)
        logger.experiment.close()


Lines = Mapping[str, Sequence[tuple[float, float]]]
_INCHES, _DPI = (6.0, 3.6), 120
_MOST_LINES = 12


def figures_of(folder: Path) -> tuple[dict[str, Any], int]:
    """Return matplotlib figures of the curves of a run, and its last step."""
    rows = read_numbers(folder / "metrics.csv")
    losses = {"training": _points(rows, "loss"), "validation": _points(rows, "validation_loss")}
    places = [name for name in (rows[0] if rows else ()) if name.startswith("loss/token/")]
    by_place = {name.rpartition("/")[2] + "+": _points(rows, name) for name in places}
    subjects: dict[str, tuple[str, Lines]] = {
        "loss": ("loss, nats per token", losses),
        "loss_by_token_index": ("loss, by token index in the document", by_place),
        "perplexity": ("perplexity", _evaluated(folder / "evaluation.jsonl")),
    }
    figures = {
        f"figures/{name}": _figure(lines, y_name=y_name)
        for name, (y_name, lines) in subjects.items()
        if any(lines.values())
    }
    return figures, int(rows[-1]["step"]) if rows else 0


def _points(rows: Iterable[Mapping[str, Any]], name: str) -> list[tuple[float, float]]:
    return [(row["step"], row[name]) for row in rows if row.get(name) is not None]


def _evaluated(path: Path) -> Lines:
    curves: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in read_lines(path):
        if row.get("measure") == "perplexity" and row.get("step") and row.get("value"):
            curves[f"{row.get('source')}, {row.get('length')}"].append((row["step"], row["value"]))
    return curves


def _figure(lines: Lines, *, y_name: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, dpi=_DPI, layout="constrained")
    axes = figure.subplots()
    curves = {name: points for name, points in lines.items() if points}
    for name, points in list(curves.items())[:_MOST_LINES]:
        axes.plot(*zip(*sorted(points), strict=True), label=name, marker="." * (len(points) < 30))
    axes.set_xlabel("step")
    axes.set_ylabel(y_name)
    axes.legend(fontsize="small", frameon=False)
    return figure
