"""All of conf/config.yaml as one typed, frozen value, which only the commands take apart."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from bipe.arguments import section_of
from bipe.attention import Path as AttentionPath
from bipe.build import TARGET, build
from train.config import sections as of
from train.config.sections import Count, Rule
from train.disk.files import is_name
from train.errors import ConfigError, UserError, as_config_error

IfExists = Literal["auto", "refuse", "resume", "change", "overwrite"]
Positive = Annotated[float, Rule("above 0", lambda value: value > 0)]

# Arguments that bipe passes itself, and the key to set instead.
_DECIDED_BY = {
    "accumulate_grad_batches": "rows.global_batch and rows.micro_batch",
    "check_val_every_n_epoch": "validate_every",
    "default_root_dir": "out and name",
    "folder": "data, or out and name",
    "gradient_clip_val": "clip",
    "log_every_n_steps": "log_every",
    "max_epochs": "steps",
    "max_steps": "steps",
    "out": "data",
    "val_check_interval": "validate_every",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The top level of the configuration; conf/config.yaml explains each key."""

    out: str
    data: str | list[str] | dict[str, str]
    name: Annotated[str, Rule("one folder name, without a path", is_name)] | None
    if_exists: IfExists
    limit: Count | None
    dry_run: bool
    seed: int
    row_length: Count
    steps: Annotated[int, Rule("at least 0", lambda value: value >= 0)]
    epochs: Positive | None
    clip: Positive | None
    patience: Count
    attention: AttentionPath
    compile: bool
    recompute: bool
    context_parallel: Count
    z_loss: Annotated[float, Rule("0 or more", lambda value: 0 <= value < float("inf"))]
    label_smoothing: Annotated[float, Rule("from 0 to below 1", lambda value: 0 <= value < 1)]
    positions: of.DrawCall | None
    checkpoint: str | None
    stretch: of.StrategyCall | None
    extend: of.Extend
    task: of.TaskCall | None
    scrolls: of.Scrolls
    log_every: Count
    checkpoint_every: Count
    validate_every: Count | None
    stall_after: Positive | None
    keep_checkpoints: Count
    checkpoints: Literal["whole", "sharded"] | None
    checkpoint_async: bool
    corpus: of.CorpusCall | None
    engine: of.EngineCall
    launch: of.LaunchCall
    model: of.ModelCall
    encoding: of.EncodingCall
    rows: of.Rows
    optimizer: of.OptimizerCall
    schedule: of.ScheduleCall
    trainer: of.TrainerCall
    logger: Mapping[str, of.LoggerCall]
    callbacks: Mapping[str, of.CallbackCall]
    evaluate: of.Evaluate
    statistics: of.Statistics
    generate: of.Generate
    report: of.Report
    allowed_targets: list[str]

    @property
    def allowed(self) -> tuple[str, ...]:
        """Return the prefixes of the user's own packages that the configuration may name."""
        return allowed_prefixes(self.allowed_targets)

    @property
    def coarser(self) -> int | list[Any]:
        """Return the levels above the segments that the encoding reads; ConfigError for too few."""
        from bipe.encodings.base import levels_of  # torch, which checks and help do without

        with as_config_error("encoding: "):
            wanted = levels_of(self.build("encoding")) - 1
        named = self.rows.coarser
        if named is None:
            return wanted
        if len(named) < wanted:
            raise ConfigError(
                f"rows.coarser must name {wanted} levels, the number that the encoding reads above "
                f"segments, or be null, was: {named}"
            )
        return named[:wanted]

    def build(self, section: str) -> Any:
        """Build a section; ConfigError names the key of the part that cannot be built."""
        kind = typing.get_type_hints(Config, include_extras=True)[section]
        try:
            return build(getattr(self, section), kind, allowed=self.allowed, path=section)
        except UserError:
            raise
        except ValueError as error:
            named = str(error).startswith(section)
            place = "" if named else f"{getattr(error, 'place', section)}: "
            raise ConfigError(f"{place}{error}") from error

    def call(self, section: str, **given: Any) -> Any:
        """Build a partial section with the given arguments; ConfigError if it sets one of them."""
        for key in getattr(self, section):
            if key in given or (section == "trainer" and key in _DECIDED_BY):
                raise _decided_elsewhere(section, key)
        return self.build(section)(**given)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, calls: bool = True) -> Config:
        """Check a composed and resolved configuration; ConfigError lists every fault.

        calls: False leaves out what needs torch to check, the keys of the calls.
        """
        for key in ("folder", "row_length", "seed", "steps", "epochs"):
            if key in config.get("rows", ()):
                raise _decided_elsewhere("rows", key)
        own = config.get("allowed_targets")
        trainer, checked = config.get("trainer"), dict(config)
        if isinstance(trainer, Mapping) and trainer.get("precision") == "auto":
            # Ours: Lightning has no such value.
            checked["trainer"] = {key: each for key, each in trainer.items() if key != "precision"}
        prefixes = allowed_prefixes(own if isinstance(own, list) else [])
        of.check(checked, schema=cls, allowed=prefixes, calls=calls)
        made: Config = _from_mapping(cls, config)
        return made


def _decided_elsewhere(section: str, key: str) -> ConfigError:
    decides = _DECIDED_BY.get(key, key if key in Config.__slots__ else None)
    cure = f"set {decides} instead" if decides else "bipe sets it"
    return ConfigError(f"{section}.{key} cannot be set; {cure}")


def allowed_prefixes(own: list[str]) -> tuple[str, ...]:
    """Return the packages that the user adds, as prefixes of the names in them."""
    return tuple(f"{str(prefix).rstrip('.')}." for prefix in own)


def encoding_name(encoding: Any) -> str:
    """Return an encoding's name in papers: RoPE, BiPE-RoPE + YaRN, or Bilevel(Sinusoidal, RoPE)."""
    if not isinstance(encoding, Mapping) or TARGET not in encoding:
        return "encoding"
    name = str(encoding[TARGET]).rpartition(".")[2]
    if name == "Flat":
        name = encoding_name(encoding.get("encoding"))
    elif name == "Chain":
        name = f"Chain({', '.join(map(encoding_name, encoding.get('links', [])))})"
    elif name == "Layers":
        name = f"Layers({', '.join(map(encoding_name, encoding.get('schemes', {}).values()))})"
    elif name == "Multilevel":
        names = [*map(encoding_name, encoding.get("encodings", {}).values())]
        name = "Segatron" if {*names} == {"Learned"} else f"Multilevel({', '.join(names)})"
    elif name == "Bilevel":
        intra, inter = (encoding_name(encoding.get(level)) for level in ("intra", "inter"))
        name = f"BiPE-{inter}" if intra == "Learned" else f"Bilevel({intra}, {inter})"
    if name == "RoPE":
        kinds = {"part": "Partial RoPE", "pairs": "p-RoPE"}
        name = next((kind for key, kind in kinds.items() if encoding.get(key)), name)
    elif name == "Kerple" and encoding.get("kernel") == "power":
        name = "Kerple Power"
    changes = (encoding_name(encoding[key]) for key in ("stretch", "far") if encoding.get(key))
    return " + ".join([name, *changes])


def slug(name: str) -> str:
    """Return a folder name: BiPE-RoPE -> bipe_rope."""
    words = "".join(c.lower() if c.isalnum() else " " for c in name).split()
    return "_".join(words) or "run"


def _from_mapping(kind: Any, values: Mapping[str, Any]) -> Any:
    hints, made = typing.get_type_hints(kind), {}
    for field in fields(kind):
        if field.name not in values:  # it has a default
            continue
        value, section = values[field.name], section_of(hints[field.name])
        if section is not None and isinstance(value, Mapping):
            value = _from_mapping(section, value)
        made[field.name] = value
    return kind(**made)
