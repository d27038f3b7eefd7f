"""Optional loggers in addition to metrics.csv: Weights & Biases and TensorBoard."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import Logger

from train.errors import MissingPackage, install_command

log = logging.getLogger("bipe")

_TIMEOUT_S = 30


class WandbRun(Logger):
    """One run of Weights & Biases, started with its first metrics and finished with the training.

    Only numbers are sent: configurations, command lines, code and the terminal may hold paths and
    secrets. Without a network the run is kept offline for `wandb sync`. (Lightning's own logger
    fails then, and never finishes a run: the next run of a sweep would continue the same one.)
    """

    def __init__(self, *, folder: Path, name: str, project: str, offline: bool) -> None:
        super().__init__()
        self._folder, self._name, self._project = folder, name, project
        self._offline = offline
        self._run: Any = None

    @property
    def name(self) -> str:
        return self._project

    @property
    def version(self) -> str:
        return self._name

    @property
    def save_dir(self) -> str:
        return str(self._folder)

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Send nothing."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        if self._run is None:
            self._run = self._begin()
        self._run.log({**metrics, "step": step})

    @rank_zero_only
    def finalize(self, status: str) -> None:
        if self._run is not None:
            self._run.finish(exit_code=0 if status == "success" else 1)
            self._run = None

    def _begin(self) -> Any:
        from wandb.errors import Error

        if not self._offline:
            try:
                return self._init("online")
            except Error as error:
                log.warning("wandb cannot be reached, the run is kept offline: %s", error)
        return self._init("offline")

    def _init(self, mode: Any) -> Any:
        import wandb as client

        settings = client.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            init_timeout=_TIMEOUT_S,
            program="bipe",
            save_code=False,
            silent=True,
            x_disable_meta=True,
        )
        run = client.init(
            project=self._project, name=self._name, dir=self._folder, mode=mode, settings=settings
        )
        run.define_metric("*", step_metric="step")
        return run


def wandb(*, folder: Path, name: str, project: str = "bipe", offline: bool | None = None) -> Logger:
    """Return a Weights & Biases logger; None: offline without a key (WANDB_API_KEY, netrc)."""
    if not offline and not _has_wandb_key():
        if offline is False:
            log.warning("logger.offline=false needs a key (wandb login): the run is kept offline")
        offline = True
    return WandbRun(folder=folder, name=name, project=project, offline=bool(offline))


def tensorboard(*, folder: Path, name: str) -> Logger:
    """Return a writer of TensorBoard event files; needs the extra `tensorboard`."""
    try:
        from lightning.pytorch.loggers import TensorBoardLogger

        return TensorBoardLogger(save_dir=folder, name="tensorboard", version="")
    except ModuleNotFoundError as error:
        raise MissingPackage(
            f"logger=tensorboard needs TensorBoard ({error}): {install_command('tensorboard')}"
        ) from error


def _has_wandb_key() -> bool:
    if os.environ.get("WANDB_MODE", "online") != "online":
        return False
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        netrc = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
        return "api.wandb.ai" in netrc.read_text(errors="replace")
    except (OSError, RuntimeError):  # no such file, no home
        return False
