"""Loggers beside metrics.csv: Weights & Biases and TensorBoard, neither of them ever required."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger


def wandb(*, folder: Path, name: str, project: str = "bipe", offline: bool | None = None) -> Logger:
    """Weights & Biases: online where there is a key, offline where there is none.

    offline: null decides by the key (WANDB_API_KEY or a netrc file). The configuration is not
    sent: it may hold paths and tokens. `wandb sync` uploads an offline run later.
    """
    from lightning.pytorch.loggers import WandbLogger

    if offline is None:
        offline = not _has_wandb_key()
    # The command line is stored by wandb otherwise, values of keys included.
    os.environ.setdefault("WANDB_DISABLE_CODE", "true")
    import wandb as client

    settings: Any = client.Settings(program="bipe", x_disable_meta=True, silent=True)
    return WandbLogger(
        project=project, name=name, save_dir=folder, offline=offline, settings=settings
    )


def tensorboard(*, folder: Path, name: str) -> Logger:
    """TensorBoard event files in the run's folder; needs `pip install bipe[tensorboard]`."""
    try:
        from lightning.pytorch.loggers import TensorBoardLogger

        return TensorBoardLogger(save_dir=folder, name="tensorboard", version="")
    except ModuleNotFoundError as error:
        raise ValueError(
            f"logger=tensorboard needs TensorBoard ({error}): pip install 'bipe[tensorboard]'"
        ) from error


def _has_wandb_key() -> bool:
    if os.environ.get("WANDB_MODE") in ("offline", "disabled"):
        return False
    if os.environ.get("WANDB_API_KEY"):
        return True
    netrc = Path(os.environ.get("NETRC", Path.home() / ".netrc"))
    return netrc.is_file() and "api.wandb.ai" in netrc.read_text(errors="replace")
