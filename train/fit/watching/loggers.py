"""Where the numbers of a run go besides metrics.csv: wandb, TensorBoard, trackio, and others.

    bipe pretrain 'logger=[wandb, tensorboard]' logger.wandb.project=study

Each logger has a process of its own (recorder.py), so none can end or delay a training. This file
imports no torch: those processes start at once.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from train.errors import require_package

_INIT_S, _FINISH_S = 30, 40  # seconds to wait for a server


@dataclass(kw_only=True)
class About:
    """What a logger is told of the run. state: kept in the run's folder over resumes."""

    folder: Path
    name: str
    config: Mapping[str, Any]
    facts: Mapping[str, Any]
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def described(self) -> dict[str, Any]:
        return {**self.config, "bipe": self.facts}


class RunLogger(ABC):
    """A logger; its methods may raise anything. needs: the package it imports, and its extra."""

    needs: ClassVar[tuple[str, str]] = ("", "")

    @classmethod
    def require(cls, key: str) -> None:
        """Raise MissingPackage if the package is not installed; key: of the configuration."""
        package, extra = cls.needs
        if package:
            require_package(package, extra=extra, needed_by=key)

    @abstractmethod
    def begin(self, run: About) -> str:
        """Start or continue the run; return what to tell the user, or an empty text."""

    @abstractmethod
    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Record the numbers of a step; steps rise."""

    @abstractmethod
    def figure(self, name: str, png: bytes, step: int) -> None:
        """Record a figure."""

    @abstractmethod
    def end(self, *, failed: bool) -> str:
        """Finish; return what to tell the user, or an empty text."""


class _Client(RunLogger):
    """A run of a package with the interface of wandb."""

    _run: Any = None

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def figure(self, name: str, png: bytes, step: int) -> None:
        from PIL import Image

        picture = import_module(self.needs[0]).Image(Image.open(io.BytesIO(png)))
        self._run.log({name: picture}, step=step)


class Wandb(_Client):
    """One run of Weights & Biases, which a resumed training continues.

    offline: null: without a key (WANDB_API_KEY, netrc). Command lines, code and the terminal are
    not sent, since they may hold secrets; the configuration is, without its secrets.
    """

    needs = ("wandb", "")

    def __init__(
        self,
        *,
        project: str = "bipe",
        entity: str | None = None,
        group: str | None = None,
        tags: Sequence[str] = (),
        offline: bool | None = None,
    ) -> None:
        self._about = {"project": project, "entity": entity, "group": group, "tags": [*tags]}
        self._offline = offline

    def begin(self, run: About) -> str:
        import wandb as client
        from wandb.errors import Error

        run.state.setdefault("id", secrets.token_hex(4))
        told = ""
        offline = self._offline
        if not offline and not has_wandb_key():
            told = "offline=false needs a key (wandb login). " if offline is False else ""
            offline = True
        try:
            self._run = self._init(run, "offline" if offline else "online")
        except Error as error:
            told = f"wandb cannot be reached ({str(error).splitlines()[0]}). "
            client.teardown()  # its process would refuse the same run a second time
            self._run, offline = self._init(run, "offline"), True
        if not offline:
            return f"run {self._run.url or self._run.id}"
        folder = run.folder / "wandb" / "offline-run-*"
        return f"{told}the run {self._run.id} is kept offline; to send it: wandb sync {folder}"

    def _init(self, run: About, mode: Any) -> Any:
        import wandb as client

        unsent: Any = dict.fromkeys(("disable_code", "disable_git", "x_disable_meta"), True)
        settings = client.Settings(
            **unsent,
            init_timeout=_INIT_S,
            finish_timeout=_FINISH_S,
            console="off",
            finish_timeout_raises=True,
            program="bipe",
            save_code=False,
            silent=True,
        )
        named: Any = {**self._about, "id": run.state["id"], "name": run.name, "dir": run.folder}
        return client.init(
            **named, resume="allow", config=run.described, mode=mode, settings=settings
        )

    def end(self, *, failed: bool) -> str:
        try:
            self._run.finish(exit_code=int(failed))
        except TimeoutError:
            return f"not all of the run was sent; to send it: wandb sync {self._run.dir}/.."
        return ""


class TensorBoard(RunLogger):
    """Event files in RUN/tensorboard, written by TensorBoard's own writer, without torch."""

    needs = ("tensorboard", "tensorboard")

    def begin(self, run: About) -> str:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        place = run.folder / "tensorboard"
        self._writer = EventFileWriter(str(place))
        if "step" not in run.state:  # not resumed
            from tensorboard.compat.proto.types_pb2 import DT_STRING

            text = f"```\n{json.dumps(run.described, indent=1, default=str)}\n```"
            tensor = {"dtype": DT_STRING, "string_val": [text.encode()]}
            plugin = {"plugin_data": {"plugin_name": "text"}}
            self._add(0, {"tag": "configuration", "metadata": plugin, "tensor": tensor})
        return f"tensorboard --logdir {run.folder.parent}"

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        self._add(step, *({"tag": name, "simple_value": value} for name, value in values.items()))

    def figure(self, name: str, png: bytes, step: int) -> None:
        width, height = struct.unpack(">II", png[16:24])
        image = {"encoded_image_string": png, "width": width, "height": height, "colorspace": 4}
        self._add(step, {"tag": name, "image": image})

    def end(self, *, failed: bool) -> str:
        self._writer.close()
        return ""

    def _add(self, step: int, *values: Mapping[str, Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        event = Event(step=step, wall_time=time.time(), summary={"value": list(values)})
        self._writer.add_event(event)
        self._writer.flush()


class Trackio(_Client):
    """A run of trackio, whose data base is in `folder`: trackio's own (TRACKIO_DIR) if null."""

    needs = ("trackio", "trackio")

    def __init__(self, *, project: str = "bipe", folder: str | None = None) -> None:
        self._project, self._place = project, folder

    def begin(self, run: About) -> str:
        if self._place is not None:
            os.environ["TRACKIO_DIR"] = self._place
        import trackio

        self._run = trackio.init(
            project=self._project,
            name=run.state.setdefault("name", f"{run.name}-{secrets.token_hex(2)}"),
            config=run.described,
            resume="allow",
            embed=False,
        )
        where = f"TRACKIO_DIR={self._place} " if self._place else ""
        return f"{where}trackio show --project {self._project}"

    def end(self, *, failed: bool) -> str:
        self._run.finish()
        return ""


class OfLightning(RunLogger):
    """Any logger of Lightning's: numbers and the configuration, no figures."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def begin(self, run: About) -> str:
        self._logger.log_hyperparams(run.described)
        return ""

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        self._logger.log_metrics(dict(values), step=step)
        self._logger.save()

    def figure(self, name: str, png: bytes, step: int) -> None:
        """Do nothing: Lightning's loggers have no common way to take one."""

    def end(self, *, failed: bool) -> str:
        self._logger.finalize("failed" if failed else "success")
        return ""


def has_wandb_key() -> bool:
    """Return whether wandb may go online: a key in the environment or in netrc."""
    if os.environ.get("WANDB_MODE", "online") != "online":
        return False
    with suppress(OSError, RuntimeError):  # no such file, no home
        netrc = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
        if "api.wandb.ai" in netrc.read_text(errors="replace"):
            return True
    return bool(os.environ.get("WANDB_API_KEY"))
