"""All of conf/config.yaml as one typed, frozen value, which only the commands take apart.

It is made once, from what Hydra composed, and is what is compared, stored, printed and handed on
(`as_plain`). What a machine or a checkpoint decides gives another (`on`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Literal, get_origin

from bipe.arguments import fits, hints_of, members, section_of
from bipe.attention import Path
from bipe.build import TARGET, Faults, sectioned
from train.config import sections as of
from train.config.calls import Call, calls_in, plain, put
from train.config.sections import Count, Rule
from train.errors import ConfigError, as_config_error, refuse

IfExists = Literal["auto", "refuse", "resume", "change", "overwrite"]
Positive = Annotated[float, Rule("above 0", lambda value: value > 0)]
_FOLDERS = Rule("a folder, a list of folders, or names of folders",
                lambda value: fits(value, str | list[str] | dict[str, str] | None))  # fmt: skip
_NAME = Rule("one folder name, without a path",
             re.compile(r"(?!\.{0,2}$)[^/\\\0]+").fullmatch)  # fmt: skip
_LENGTH = Rule("at least 1", lambda value: fits(value, Count | None))


Place = tuple[str | int, ...]

# Arguments that bipe passes itself, and the key to set instead.
DECIDED_BY = {
    "accumulate_grad_batches": "rows.global_batch and rows.micro_batch",
    "barebones": "log_every",
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


@dataclass(frozen=True, slots=True)
class Origin:
    """What a Config was read from.

    node: before interpolations are resolved, so that they follow a later decision. texts: what was
    typed, by key. choices: of groups of conf/. variables: the texts that stand for variables of the
    environment, by place.
    """

    node: Any
    texts: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[Place, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The top level of the configuration; conf/config.yaml explains each key.

    data and row_length may be None where a checkpoint decides them.
    """

    out: Annotated[str, Rule("the name of a folder", len)]
    data: Annotated[Any, _FOLDERS]
    name: Annotated[str, _NAME] | None
    if_exists: IfExists
    limit: Count | None
    dry_run: bool
    seed: int
    row_length: Annotated[Any, _LENGTH]
    steps: Annotated[int, Rule("at least 0", lambda value: value >= 0)]
    epochs: Positive | None
    clip: Positive | None
    patience: Count
    attention: Path
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
    rank_timeout: Positive
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
    logger: Mapping[str, of.LoggerCall] = field(default_factory=dict)  # ~logger
    callbacks: Mapping[str, of.CallbackCall] = field(default_factory=dict)
    evaluate: of.Evaluate
    statistics: of.Statistics
    generate: of.Generate
    report: of.Report
    allowed_targets: list[str]

    _origin: Origin | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        texts: Mapping[str, str] = MappingProxyType({}),
        choices: Mapping[str, Any] = MappingProxyType({}),
    ) -> Config:
        """Return a composed configuration, or a plain one; ConfigError lists every fault.

        Arguments of calls are left to `check`, since their classes have to be imported. texts: what
        was typed for keys, which a key of type text takes. choices: of groups of conf/.
        """
        from omegaconf import OmegaConf

        register_resolvers()
        for key in ("model", "steps", "row_length", "out", "seed"):  # which others are made of
            if key not in config:
                raise ConfigError(f"the configuration also needs {key}: remove ~{key}")
        plain: Any = (
            config if isinstance(config, dict) else OmegaConf.to_container(config, resolve=True)
        )
        for key in {"folder", "row_length", "seed", "steps", "epochs"} & {*plain.get("rows", ())}:
            raise _decided_elsewhere("rows", key)
        targets = plain.get("allowed_targets")
        allowed = tuple(f"{package}." for package in (targets if isinstance(targets, list) else ()))
        try:
            made: Config = sectioned(
                plain, cls, name="the configuration",
                later=lambda node, kind, key: Call(node, kind, key, allowed, texts),
            )  # fmt: skip
        except Faults as faults:
            refuse(faults.args)
        if not isinstance(config, dict):
            variables = _variables(config, plain) if "oc.env" in str(config) else {}
            origin = Origin(config, texts, choices, variables)
            object.__setattr__(made, "_origin", origin)
        return made

    def on(self, decided: Mapping[str, Any]) -> Config:
        """Return the configuration with what was decided, by dotted keys.

        Interpolations follow: `schedule.steps` is `${steps}`.
        """
        if all(self.value(key) == value for key, value in decided.items()):
            return self
        from omegaconf import OmegaConf, open_dict

        origin = self._origin or Origin(OmegaConf.create(self.as_plain()))
        node = origin.node.copy()
        with open_dict(node):
            for key, value in decided.items():
                OmegaConf.update(node, key, plain(value), merge=False, force_add=True)
        return Config.from_config(node, texts=origin.texts, choices=origin.choices)

    @property
    def choices(self) -> Mapping[str, Any]:
        """Return what was chosen of each group of conf/, if that is known."""
        return {} if self._origin is None else self._origin.choices

    def as_plain(self) -> dict[str, Any]:
        """Return the configuration as YAML would have it; secrets are hidden where it is written.

        Variables of the environment are as they were written, and not what they hold.
        """
        made: dict[str, Any] = plain(self)
        for path, text in self._origin.variables.items() if self._origin else ():
            put(made, path, text)
        return made

    def value(self, key: str) -> Any:
        """Return the value of a dotted key; None if it has none."""
        value: Any = self
        for part in key.split("."):
            inside = isinstance(value, Mapping)
            value = value.get(part) if inside else getattr(value, part, None)
        return value

    def check(self, *sections: str) -> None:
        """Raise ConfigError with all faults of the calls in some sections, or in all of them."""
        named = sections or [key.name for key in fields(self) if key.init]
        calls = calls_in({key: getattr(self, key) for key in named})
        refuse([fault for call in calls for fault in _checkable(call).faults])
        if "rows" in named:
            self.rows.values()  # the classes built there check their arguments

    @property
    def allowed(self) -> tuple[str, ...]:
        """Return the prefixes of the user's own packages that the configuration may name."""
        return allowed_prefixes(self.allowed_targets)

    @property
    def coarser(self) -> int | list[Any]:
        """Return the levels above the segments that the encoding reads; ConfigError for too few."""
        from bipe.encodings.base import levels_of  # torch, which checks and help do without

        with as_config_error("encoding: "):
            wanted = levels_of(self.encoding.built) - 1
        named = self.rows.coarser
        if named is None:
            return wanted
        if len(named) < wanted:
            raise ConfigError(
                f"rows.coarser must name {wanted} levels, the number that the encoding reads above "
                f"segments, or be null, was: {named}"
            )
        return named[:wanted]


def _text_keys(section: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    for name, hint in hints_of(section).items():
        kinds = {get_origin(kind) or kind for kind in members(hint)} - {NoneType}
        if str in kinds and kinds <= {str, list, dict}:
            yield f"{path}{name}", len(kinds) > 1
        elif (inner := section_of(hint)) not in (None, Call):
            yield from _text_keys(inner, f"{path}{name}.")


# The keys that take a text, and whether they also take several.
TEXT_KEYS = {"data": True} | dict(_text_keys(Config))


def called(call: Call, **given: Any) -> Any:
    """Build a partial section with the given arguments; ConfigError if it sets one of them."""
    for key in call:
        if key in given or (call.key == "trainer" and key in DECIDED_BY):
            raise _decided_elsewhere(call.key, key)
    return call.built(**given)


def _variables(node: Any, resolved: Mapping[str, Any]) -> dict[Place, str]:
    """Return the texts that stand for variables of the environment, by place.

    They are used, and written down as they were written: `${oc.env:NAME}`; but a number, or what
    else is no text, as what it is, since it decides what is trained, and is no secret.
    """
    from omegaconf import OmegaConf

    raw = dict(texts_in(OmegaConf.to_container(node, resolve=False)))
    values = dict(texts_in(resolved))
    written = {path: text for path, text in raw.items() if "oc.env" in text and path in values}
    secrets = {values[path]: text for path, text in written.items() if values[path]}
    for path, value in values.items():
        if path not in written and "${" in raw.get(path, "${"):  # refers to such a key
            text = value
            for secret in sorted(secrets, key=len, reverse=True):
                text = text.replace(secret, secrets[secret])
            written |= {} if text == value else {path: text}
    return written


def texts_in(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield the texts inside a plain value, each with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping | list):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from texts_in(part, (*place, key))


def _checkable(call: Call) -> Call:
    """Return what the signature of a call knows: precisions are those of `precision_of`."""
    return call.changed(precision=None) if call.key == "trainer" else call


def _decided_elsewhere(section: str, key: str) -> ConfigError:
    decides = DECIDED_BY.get(key, key if key in Config.__slots__ else None)
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


def register_resolvers() -> None:
    """Let YAML call ${head_width:width,n_head}, ${half:number} and ${run_name:encoding}."""
    from omegaconf import OmegaConf

    resolvers: dict[str, Any] = {
        # Of sizes that are none it gives any width: the model's own check names them.
        "head_width": lambda width, n_head, *, _root_: (
            (_root_.get("model") or {}).get("head_width")
            or (width // n_head if fits(width, Count) and fits(n_head, Count) else 64)
        ),
        "half": lambda number: int(number) // 2,
        "run_name": lambda encoding: slug(encoding_name(encoding)),
    }
    for name, resolver in resolvers.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)
