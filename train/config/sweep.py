"""What `bipe evaluate sweep=stretch` can be told (conf/sweep/stretch.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from train.errors import ConfigError

NONE = "none"
UnitName = Literal["tokens", "segments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Which ways to stretch are compared.

    methods: names in `stretch`, and none for the model as it is. units: what the original length
    counts. factor: of every method that has one; None: the length over that of training. stretch:
    a description of each method (conf/stretch).
    """

    methods: list[str]
    units: list[UnitName]
    factor: float | None
    stretch: Mapping[str, Mapping[str, Any]]

    def __post_init__(self) -> None:
        for key, value in (("methods", self.methods), ("units", self.units)):
            if not value or len(set(value)) < len(value):
                raise ConfigError(f"evaluate.sweep.{key} must name some, each once, was: {value}")
        known = [NONE, *self.stretch]
        for name in self.methods:
            if name not in known:
                raise ConfigError(
                    f"evaluate.sweep.methods: there is no method {name!r} among {', '.join(known)};"
                    f" describe it: +stretch@evaluate.sweep.stretch.{name}=..."
                )
        if self.factor is not None and not self.factor >= 1:
            raise ConfigError(
                f"evaluate.sweep.factor must be at least 1, or null for the length over that of "
                f"training, was: {self.factor}"
            )
