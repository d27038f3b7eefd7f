"""Compose conf/config.yaml with what was typed, resolve it, and run a command on the result."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train.errors import ConfigError, RunError, nearest
from train.launch.typed import GO_ON, full_names
from train.ranks import rank

if TYPE_CHECKING:
    from omegaconf import DictConfig

# Functions that are not named like their command.
_FUNCTIONS = {
    "prepare": "prepare_data",
    "statistics": "count_segments",  # bipe evaluate statistics
    "generate": "generate_text",
    "tokenizer": "train_tokenizer",
}
MODULES = {"retrofit": "extend"}  # of commands that share one
TRAINS = ("pretrain", "extend", "retrofit", "scrolls")  # write a run, with their configuration
LAUNCHED = (*TRAINS, "evaluate")  # may be jobs of Slurm
# What no other command reads; to check it takes seconds, for Lightning.
_OF_TRAINING: dict[str, Any] = {"trainer": {}, "callbacks": {}, "logger": {}}
# The key of the runs that a command reads, if it is not checkpoint.
_READS = {"evaluate": "evaluate.runs", "generate": "generate.run"}
# Set where HYDRA_FULL_ERROR=1 is ours and not the user's.
SHORT_ERRORS = "BIPE_SHORT_ERRORS"
_UNKNOWN = re.compile(r"Could not override '([^']+)'")
_SEVERAL = re.compile(r"Ambiguous value for argument '([^']+)'")
# How to use data that are not among the choices.
_OWN_CORPUS = (
    "\nyour own files: corpus=text (or jsonl, csv, parquet) corpus.sources.text.documents.path=PATH"
    "\nyour own YAML: FOLDER/corpus/{name}.yaml and --config-dir FOLDER"
)
_MISSING = re.compile(r"Could not find '([\w@./]+)/(\w+)'")
_OF_CHECKPOINT = re.compile(r"[+~]*(model|encoding)[.=@]")
_ALLOWS = re.compile(r"[+~]*allowed_targets=")
# An interpolation that is more than the name of another key, such as ${oc.env:HOME}.
_RESOLVES = re.compile(r"\$\{(?![\w.]+\})")


def run_command(command: str, config: Mapping[str, Any]) -> Any:
    from train.config import Config

    checked = Config.from_config(config, calls=False)  # what torch is not needed for comes first
    if command in ("prepare", "tokenizer") and checked.corpus is None:
        raise ConfigError(
            "corpus is null, since this is the configuration of a run, which names its data; set "
            "corpus=NAME (the manifest.json of the data describes the corpus)"
        )
    needs: Any = import_module("train.commands.before.needs")
    if command in (*TRAINS, "prepare"):
        needs.require(checked, command=command)
    needs.require_folders(checked, command=command)
    computes = command in (*LAUNCHED, "generate")
    if computes:  # the others build their own sections, and so check them
        unread = {} if command in TRAINS else _OF_TRAINING
        checked = Config.from_config({**config, **unread})
    module = import_module(f"train.commands.{MODULES.get(command, command)}")
    function = getattr(module, _FUNCTIONS.get(command, command))
    if computes:
        with flushed_denormals():
            # A run reads prepared data, and not the corpus that the configuration names.
            stored = {"stored": {**config, "corpus": None}} if command in TRAINS else {}
            return function(checked, **stored)
    return function(checked)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Let denormal numbers count as 0 in the block, in this thread and those that it starts.

    The weights of far keys under ALiBi and BiPE-ALiBi are denormal in float32, and some processors
    take many times as long for such products. Threads of torch that run already are not reached,
    so this comes before the first parallel operation. Python's own numbers are flushed as well.
    """
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def run_composed(command: str, config: DictConfig, words: Sequence[str]) -> Any:
    """Run a command on what Hydra composed of the words."""
    config = of_command_line(command, config, words)
    return run_command(command, resolved(command, config))


def reach_own(config: DictConfig, words: Sequence[str], folder: str) -> None:
    """Let Python find the packages that the words allow in the folder of --config-dir too."""
    from bipe.build import reach

    typed = any(_ALLOWS.match(word) for word in words)
    for package in config.get("allowed_targets") or () if typed else ():
        name = str(package).partition(".")[0]
        home = Path(folder) / name
        if name.isidentifier() and (home.is_dir() or home.with_suffix(".py").is_file()):
            reach(name)  # the working directory comes first
            reach(name, folder)


def asks_for_job(command: str, config: Mapping[str, Any]) -> bool:
    """Return whether to submit a job instead of running the command; ConfigError if it cannot."""
    job = str(config["launch"].get("_target_")).endswith(".Slurm")
    if job and command not in LAUNCHED:
        cure = "set engine=slurm" if command == "prepare" else "remove it"
        raise ConfigError(f"launch=slurm is for bipe {', '.join(LAUNCHED)}; {cure}")
    if config["dry_run"] and not job and command != "prepare":
        raise ConfigError("dry_run is for bipe prepare and launch=slurm; remove it")
    return job


def resolved(command: str, config: DictConfig) -> dict[str, Any]:
    """Resolve the configuration; set `steps` from `epochs` first, since schedules refer to it."""
    from omegaconf import OmegaConf

    if command in GO_ON:
        needs: Any = import_module("train.commands.before.needs")
        needs.require_run(config.get("checkpoint"), key="checkpoint")
        from train.commands.extend import completed

        config = completed(config)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    if command not in TRAINS or plain.get("epochs") is None:
        return dict(plain)
    if command == "scrolls":
        raise ConfigError("epochs must be null for bipe scrolls; set steps instead")
    from train.config import Config

    checked = Config.from_config(plain, calls=False)
    from train.commands.pretrain import rows_of

    config = config.copy()
    OmegaConf.update(config, "steps", rows_of(checked).epoch_steps())
    return dict(OmegaConf.to_container(config, resolve=True))  # type: ignore[arg-type]


def register_resolvers() -> None:
    """Let YAML call ${head_width:width,n_head}, ${half:number} and ${run_name:encoding}."""
    from omegaconf import OmegaConf

    def head_width(width: int, n_head: int, *, _root_: Any) -> int:
        given = (_root_.get("model") or {}).get("head_width")
        return int(width) // max(1, int(n_head)) if given is None else int(given)

    def half(number: int) -> int:
        return int(number) // 2

    def run_name(encoding: Any) -> str:
        from train.config import encoding_name, slug

        return slug(encoding_name(encoding))

    for resolver in (head_width, half, run_name):
        OmegaConf.register_new_resolver(resolver.__name__, resolver, replace=True)


def going_on(command: str, words: list[str]) -> list[str]:
    """Put the defaults of a command (conf/command) before the user's keys."""
    own = next((word for word in words if _OF_CHECKPOINT.match(word)), None)
    if own is not None:
        raise ConfigError(f"{command}: remove {own}; the checkpoint sets it")
    if command == "scrolls":
        words = [f"task.{word}" if word.startswith("path=") else word for word in words]
    return words if words[:1] == ["--config-file"] else [f"command={command}", *words]


def from_file(words: list[str], *, command: str) -> DictConfig:
    """Read a configuration that a run stored, with overrides: FILE [key=value ...]."""
    from pathlib import Path

    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    from train.disk.files import read_yaml

    if not words:
        raise ConfigError("--config-file needs the path of a run's config.yaml")
    if not Path(words[0]).is_file():
        raise ConfigError(f"--config-file {words[0]}: there is no such file")
    try:
        plain = read_yaml(Path(words[0]))
    except (OSError, ValueError) as error:
        raise ConfigError(f"--config-file {words[0]}: {error}") from error
    if not isinstance(plain, dict):
        raise ConfigError(f"--config-file {words[0]}: contains no configuration")
    if call := next(filter(_RESOLVES.search, _texts(plain)), None):
        raise ConfigError(
            f"--config-file {words[0]}: must contain plain values only, as runs store them, was: "
            f"{call!r}"
        )
    _refuse_engine(plain.get("engine"), words, command=command)
    try:
        stored = OmegaConf.load(words[0])
    except (YAMLError, OmegaConfBaseException) as error:  # a key twice, or a broken interpolation
        raise ConfigError(f"--config-file {words[0]}: {error}") from error
    # A file may be from anyone: packages that it names are imported only if the user says so.
    stored = OmegaConf.merge(stored, {"allowed_targets": []})
    config = OmegaConf.merge(stored, OmegaConf.from_dotlist(words[1:]))
    assert isinstance(config, DictConfig)
    return config


def _refuse_engine(engine: Any, words: Sequence[str], *, command: str) -> None:
    """Raise ConfigError for an engine of a file that may run lines of a shell, or elsewhere."""
    target = str(engine.get("_target_") if isinstance(engine, dict) else engine)
    local = target.rpartition(".")[2] == "Local"
    if command == "prepare" and not local and not any(w.startswith("engine.") for w in words):
        raise ConfigError(
            f"--config-file {words[0]}: its engine is {engine}; if you trust it, add "
            f"engine._target_={target} on the command line"
        )


def of_command_line(command: str, config: DictConfig, words: Sequence[str]) -> DictConfig:
    """Return a composed configuration whose allowed_targets are those of the words, if any.

    Else they are those that this user let in when training the runs that the command reads.
    """
    from omegaconf import OmegaConf

    if any(_ALLOWS.match(word) for word in words):
        return config
    places: Any = [OmegaConf.select(config, _READS.get(command, "checkpoint"))]
    if OmegaConf.is_list(places[0]):
        places = [*places[0]]
    allowed = {name: None for place in filter(None, places) for name in _let_in(str(place))}
    return OmegaConf.merge(config, {"allowed_targets": [*allowed]})  # type: ignore[return-value]


def _let_in(place: str) -> Iterator[str]:
    from pathlib import Path

    from train.fit import runs

    found = [Path(place)]
    with suppress(RunError):
        found += runs.find_runs(place)
    for run in found:
        yield from runs.allowed_of(run)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def explained(error: Exception) -> str:
    """Return the message of an error; for an unknown key of Hydra, with the nearest key."""
    text = str(error)
    if unknown := _UNKNOWN.search(text):
        if unknown[1].startswith("encoding@"):
            return (
                f"there is no {unknown[1]} in this encoding: only encoding=bilevel has parts to "
                "choose. With -m, every run gets every word; use one command for each"
            )
        if "@" in unknown[1]:
            return (
                f"there is no {unknown[1]}: GROUP@PATH=NAME needs the path of a key that a YAML "
                "file chooses, such as segmenter@corpus.sources.SOURCE.segmenter of a source of "
                "the corpus; --cfg job shows the sources"
            )
        from train.config import Config

        said = nearest(unknown[1], [*Config.__slots__, "experiment"])
        if full := full_names(unknown[1].rpartition(".")[2]):
            said = f"did you mean {' or '.join(full)}?"
        return f"there is no key {unknown[1]!r}; {said}"
    if several := _SEVERAL.match(text):
        key, values = several[1].lstrip("+").split("=", 1)
        listed = f"one list is '{key}=[{values}]'"
        return f"{key}={values} are several values: bipe COMMAND -m runs each; {listed}"
    text = text.partition("\nConfig search path")[0].strip()
    if missing := _MISSING.search(text):
        known = sorted(text.partition("Available options")[2].split()[2:])
        said = nearest(missing[2], known)
        close = f"{said}\nthere are: " if said.startswith("did") else "there are: "
        own = _OWN_CORPUS.format(name=missing[2]) if missing[1] == "corpus" else ""
        return f"{missing[0]}; {close}{', '.join(known) or 'none'}{own}"
    quoting = "\nquote a value with special characters: \"key='a <value>'\""
    return text + quoting * ("override_grammar" in text)


def log_to_stderr() -> None:
    """Show warnings, and which backends were chosen, of one process of a run."""

    class CurrentStderr(logging.Handler):
        """Looks up stderr for each record, because a progress bar replaces it."""

        def emit(self, record: logging.LogRecord) -> None:
            print(self.format(record), file=sys.stderr)

    several = rank() > 0
    level = logging.ERROR if several else logging.WARNING
    logging.basicConfig(level=level, format="%(message)s", handlers=[CurrentStderr()])
    logging.getLogger("bipe").setLevel(level if several else logging.INFO)
