"""A study: everything that conf/config.yaml can say, as one typed, frozen value.

Hydra composes, check.py compares with the signatures, and the commands receive a `Config`; nothing
below train/cli.py knows Hydra.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from bipe.attention import Path as AttentionPath
from bipe.build import ALLOWED, build
from train.config.check import check, section_of
from train.config.evaluate import Evaluate
from train.config.extend import Extend
from train.config.generate import Generate
from train.config.scrolls import Scrolls
from train.config.statistics import Statistics
from train.errors import ConfigError

IfExists = Literal["refuse", "resume", "overwrite"]
Call = Mapping[str, Any]  # a description that `bipe.build.build` turns into an object

# What a section may not set, since another key decides it.
_DECIDED_BY = {
    "accumulate_grad_batches": "rows.global_batch and rows.micro_batch",
    "check_val_every_n_epoch": "validate_every",
    "default_root_dir": "out and name",
    "encoding": "encoding",
    "engine": "engine",
    "epochs": "epochs",
    "folder": "data, or out and name",
    "gradient_clip_val": "clip",
    "if_exists": "if_exists",
    "limit": "limit",
    "log_every_n_steps": "log_every",
    "logger": "logger",
    "max_epochs": "steps",
    "max_steps": "steps",
    "name": "name",
    "out": "data",
    "row_length": "row_length",
    "seed": "seed",
    "val_check_interval": "validate_every",
}
_COUNTS = (
    "limit",
    "row_length",
    "patience",
    "log_every",
    "checkpoint_every",
    "keep_checkpoints",
    "validate_every",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `bipe report` reads and where it writes."""

    runs: str | list[str]
    out: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The top level of the configuration; conf/config.yaml explains each key."""

    out: str
    data: str | list[str] | dict[str, str]
    name: str | None
    if_exists: IfExists
    limit: int | None
    dry_run: bool
    seed: int
    row_length: int
    steps: int
    epochs: float | None
    clip: float | None
    patience: int
    attention: AttentionPath
    compile: bool
    recompute: bool
    z_loss: float
    label_smoothing: float
    positions: Call | None
    checkpoint: str | None
    stretch: Call | None
    extend: Extend
    task: Call | None
    scrolls: Scrolls
    log_every: int
    checkpoint_every: int
    validate_every: int | None
    keep_checkpoints: int
    corpus: Call
    engine: Call
    model: Call
    encoding: Call
    rows: Call
    optimizer: Call
    schedule: Call
    trainer: Call
    logger: Call
    evaluate: Evaluate
    statistics: Statistics
    generate: Generate
    report: Report
    allowed_targets: list[str]

    def __post_init__(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, was: {value}")
        if self.steps < 0:
            raise ConfigError(f"steps must be at least 0, was: {self.steps}")
        if self.epochs is not None and not self.epochs > 0:
            raise ConfigError(f"epochs must be above 0, or null for steps, was: {self.epochs}")
        if self.clip is not None and not self.clip > 0:
            raise ConfigError(f"clip must be above 0, or null for no clipping, was: {self.clip}")
        if not 0 <= self.z_loss < float("inf"):
            raise ConfigError(f"z_loss must be 0 or more, was: {self.z_loss}")
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(
                f"label_smoothing must be from 0 to below 1, was: {self.label_smoothing}"
            )

    @property
    def allowed(self) -> tuple[str, ...]:
        """Prefixes of what the configuration may build."""
        return allowed_prefixes(self.allowed_targets)

    def call(self, section: str, **given: Any) -> Any:
        """Build a section that is an open call, and complete it with what bipe itself decides.

        Raises ValueError for a key of the section that would be overruled.
        """
        for key in getattr(self, section):
            if key in given or (section == "trainer" and key in _DECIDED_BY):
                decides = _DECIDED_BY.get(key)
                cure = f"set {decides} instead" if decides else "bipe sets it"
                raise ConfigError(f"{section}.{key} cannot be set; {cure}")
        return build(getattr(self, section), allowed=self.allowed)(**given)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Config:
        """Check a composed and resolved configuration, then make a study of it.

        Raises `check.ConfigError` with every fault.
        """
        own = config.get("allowed_targets")
        check(config, schema=cls, allowed=allowed_prefixes(own if isinstance(own, list) else []))
        return _from_mapping(cls, config)


def allowed_prefixes(own: list[str]) -> tuple[str, ...]:
    """What any configuration may build, and the packages that the user names."""
    return (*ALLOWED, "lightning.", *(f"{str(prefix).rstrip('.')}." for prefix in own))


def _from_mapping(kind: Any, values: Mapping[str, Any]) -> Any:
    """Make a dataclass of a mapping, sections that are dataclasses included."""
    hints = typing.get_type_hints(kind)
    made = {}
    for field in fields(kind):
        value, section = values[field.name], section_of(hints[field.name])
        if section is not None and isinstance(value, Mapping):
            value = _from_mapping(section, value)
        made[field.name] = value
    return kind(**made)
