"""The `bipe` command: compose conf/config.yaml with Hydra, check it, and run a subcommand.

Help and errors of the command line import nothing heavy, so that they are instant.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any

from train.errors import ConfigError, is_mendable, nearest

if TYPE_CHECKING:
    from omegaconf import DictConfig

COMMANDS = {
    "prepare": "documents -> segments -> tokens and marks on disk, once",
    "pretrain": "train a model on prepared data; resumes exactly",
    "extend": "stretch a trained model, and train it on longer rows; resumes exactly",
    "scrolls": "fine-tune on a task of long documents, decode, and score",
    "evaluate": "perplexity against length, and passkey retrieval",
    "generate": "write on behind a prompt, as it comes; segments are followed",
    "report": "one HTML page of curves, with the numbers as CSV and JSON",
    "verify": "check every byte of prepared data; names the file and the bytes of each fault",
    "export": "prepared data as Megatron's .bin and .idx, or as Parquet",
    "tokenizer": "train: make a tokenizer of a corpus, to be used elsewhere",
    "segment": "show a file with its segments, in colours; --html, --json, --stats",
}
# Functions that are not named like their command.
_FUNCTIONS = {
    "prepare": "prepare_data",
    "statistics": "count_segments",  # bipe evaluate statistics
    "generate": "generate_text",
    "tokenizer": "train_tokenizer",
}
_TRAINS = ("pretrain", "extend", "scrolls")  # write a run, with their configuration
_GO_ON = ("extend", "scrolls")  # start from a checkpoint, which decides the model
_PLAIN = ("verify", "export", "segment")  # have options of their own, and no configuration
EXIT_FAULT, EXIT_INTERRUPTED = 2, 130
_UNKNOWN = re.compile(r"Could not override '([^']+)'")
_OF_CHECKPOINT = re.compile(r"[+~]*(model|encoding)[.=@]")
_NESTED = re.compile(r"(?!hydra\.)\w+(\.[\w-]+)+=")


def main(argv: list[str] | None = None) -> int:
    """Run `bipe` and return the exit status."""
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if words else EXIT_FAULT
    if words[0] in ("-V", "--version"):
        from importlib.metadata import version

        print(f"bipe {version('bipe')}")
        return 0
    command = words[0]
    if command not in COMMANDS:
        return _fault(f"there is no command {command!r}; {nearest(command, COMMANDS)}")
    if command in _PLAIN:
        return int(import_module(f"train.commands.{command}").main(words[1:]))
    if command == "tokenizer" and words[1:2] not in (["train"], ["--help"], ["-h"]):
        return _fault("tokenizer: say what to do: bipe tokenizer train key=value ...")
    if command == "scrolls" and any(word.startswith(("validate=", "submit=")) for word in words):
        return int(import_module("train.commands.scrolls").check_or_submit(words[1:]))
    if words[:2] == ["evaluate", "statistics"]:
        command, words = "statistics", words[1:]
    rest = words[2:] if words[1:2] == ["train"] else words[1:]
    return _guarded(lambda: _compose_and_run(command, rest))


def run_command(command: str, config: Mapping[str, Any]) -> Any:
    """Run one command on a composed and resolved configuration."""
    from train.config import Config

    checked = Config.from_config(config)
    module = import_module(f"train.commands.{command}")
    function = getattr(module, _FUNCTIONS.get(command, command))
    return function(checked, stored=config) if command in _TRAINS else function(checked)


def resolved(command: str, config: DictConfig) -> dict[str, Any]:
    """Resolve the configuration; set `steps` from `epochs` first, since schedules refer to it."""
    from omegaconf import OmegaConf

    if command in _GO_ON:
        from train.commands.extend import completed

        config = completed(config)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    if command not in _TRAINS or plain.get("epochs") is None:
        return dict(plain)
    if command == "scrolls":
        raise ConfigError("epochs must be null for bipe scrolls; set steps instead")
    from train.commands.pretrain import rows_of
    from train.config import Config

    config = config.copy()
    OmegaConf.update(config, "steps", rows_of(Config.from_config(plain)).epoch_steps())
    return dict(OmegaConf.to_container(config, resolve=True))  # type: ignore[arg-type]


def opened(word: str) -> str:
    """Return an override that sets a nested key whether or not the YAML contains it.

    Hydra needs "++" for a key that the YAML lacks (check.py checks that it exists), and ~stretch
    for stretch=null.
    """
    name, _, value = word.partition("=")
    if value == "null":
        defaults = resources.files("conf").joinpath("config.yaml").read_text()
        if name in re.findall(r"^  - (\w+): null\b", defaults, re.MULTILINE):
            return f"~{name}"
    return f"++{word}" if _NESTED.match(word) else word


def _is_override(word: str) -> bool:
    return not word.startswith("-") and ("=" in word or word.startswith("~"))


def register_resolvers() -> None:
    """Let YAML call ${head_width:width,n_head}, ${run_name:encoding} and ${fast_precision:}."""
    from omegaconf import OmegaConf

    def head_width(width: int, n_head: int) -> int:
        return int(width) // max(1, int(n_head))

    def run_name(encoding: Any) -> str:
        from train.config import encoding_name, slug

        return slug(encoding_name(encoding))

    def fast_precision() -> str:
        return str(import_module("train.fit.machine").fast_precision())

    for resolver in (head_width, run_name, fast_precision):
        OmegaConf.register_new_resolver(resolver.__name__, resolver, replace=True)


def _compose_and_run(command: str, words: list[str]) -> int:
    # Let waiting threads of torch sleep; this must be set before torch is loaded. By default they
    # spin, which takes most of the time on a shared machine: with one other busy process the
    # demo ran at below 1,000 tokens/s, against 5,000 to 9,000 with this.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import hydra

    register_resolvers()
    if command == "prepare":
        words = _without_options(words)
    elif command in _GO_ON:
        words = _going_on(command, words)
    _log_to_stderr()
    if words[:1] == ["--config-file"]:
        run_command(command, resolved(command, _from_file(words[1:])))
        return 0
    faults: list[BaseException] = []

    def task(config: DictConfig) -> None:
        if faults:  # the rest of a sweep
            return
        try:
            if command == "prepare":
                from train.commands.prepare import prepare_again

                if prepare_again(config):
                    return
            run_command(command, resolved(command, config))
        except BaseException as fault:  # raised below, since Hydra would print its own lines first
            faults.append(fault)

    before = sys.argv
    # Options first: argparse does not accept overrides on both sides of an option.
    sys.argv = [before[0], *map(opened, sorted(words, key=_is_override))]
    try:
        hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")(task)()
    except ValueError as error:  # from Hydra: errors of a command are in `faults`
        raise ConfigError(str(error)) from error
    finally:
        sys.argv = before
    if faults:
        raise faults[0]
    return 0


def _without_options(words: list[str]) -> list[str]:
    """Rewrite the options of `bipe prepare`, --dry-run and --limit N, as keys."""
    made, rest = [], iter(words)
    for word in rest:
        name, given, value = word.partition("=")
        if name == "--limit":
            word = f"limit={value if given else next(rest, '')}"
        made.append("dry_run=true" if word == "--dry-run" else word)
    return made


def _going_on(command: str, words: list[str]) -> list[str]:
    """Put the defaults of a command (conf/command) before the user's keys."""
    own = next((word for word in words if _OF_CHECKPOINT.match(word)), None)
    if own is not None:
        raise ConfigError(f"bipe {command}: leave out {own}; the checkpoint decides it")
    if command == "scrolls":
        words = [f"task.{word}" if word.startswith("path=") else word for word in words]
    return words if words[:1] == ["--config-file"] else [f"command={command}", *words]


def _log_to_stderr() -> None:
    """Show warnings, and which backends were chosen."""

    class CurrentStderr(logging.Handler):
        """Looks up stderr for each record, because a progress bar replaces it."""

        def emit(self, record: logging.LogRecord) -> None:
            print(self.format(record), file=sys.stderr)

    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[CurrentStderr()])
    logging.getLogger("bipe").setLevel(logging.INFO)


def _from_file(words: list[str]) -> DictConfig:
    """Read a configuration that a run stored, with overrides: FILE [key=value ...]."""
    from pathlib import Path

    import yaml
    from omegaconf import DictConfig, OmegaConf

    if not words:
        raise ConfigError("--config-file needs the path of a run's config.yaml")
    if not Path(words[0]).is_file():
        raise ConfigError(f"--config-file {words[0]}: there is no such file")
    try:
        stored = OmegaConf.load(words[0])
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config-file {words[0]}: is not YAML: {error}") from error
    config = OmegaConf.merge(stored, OmegaConf.from_dotlist(words[1:]))
    if not isinstance(config, DictConfig):
        raise ConfigError(f"--config-file {words[0]}: holds no configuration")
    return config


def _guarded(run: Callable[[], int]) -> int:
    """Turn errors that the user can fix into one message; others keep their traceback."""
    full = os.environ.get("HYDRA_FULL_ERROR") == "1"
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises instead of printing and exiting
    try:
        return run()
    except KeyboardInterrupt as stop:
        message = str(stop) or "interrupted; the same command goes on from the last checkpoint"
        return _fault(message, status=EXIT_INTERRUPTED)
    except Exception as error:
        if full or not is_mendable(error):
            raise
        return _fault(_explained(error))
    finally:
        os.environ["HYDRA_FULL_ERROR"] = "1" if full else "0"


def _explained(error: Exception) -> str:
    """Return the message of an error; for an unknown key of Hydra, with the nearest key."""
    text = str(error)
    if unknown := _UNKNOWN.search(text):
        from train.config import Config

        known = [*Config.__slots__, "experiment"]
        return f"there is no key {unknown[1]!r}; {nearest(unknown[1], known)}"
    text = text.partition("\nConfig search path")[0].strip()
    quoting = "\nquote a value with special characters: \"key='a <value>'\""
    return text + quoting * ("override_grammar" in text)


def _fault(message: str, *, status: int = EXIT_FAULT) -> int:
    print(f"bipe: {message}", file=sys.stderr)
    return status


def _usage() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  bipe {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return f"""bipe: position encodings that know how text is segmented

{commands}

  bipe COMMAND key=value ...     set anything in conf/ (encoding=bipe_rope steps=500)
  bipe COMMAND --cfg job         show the composed configuration and stop
  bipe prepare --dry-run         what would be done; --limit N: documents per source
  bipe pretrain -m encoding=rope,bipe_rope    one run for each
  bipe extend checkpoint=RUN stretch=yarn stretch.factor=16 row_length=4096
  bipe scrolls task=qmsum path=qmsum.zip checkpoint=RUN    or validate=FILE
  bipe generate out=RUN generate.prompt='...'    or the prompt on the standard input
  bipe COMMAND --help            groups and keys
  bipe segment FILE --stats      takes options instead of keys
  bipe evaluate statistics data=DIR    segments against length, without a model
  bipe verify DIR                exit status 1 if there are faults
  bipe export DIR format=megatron out=FOLDER
  bipe COMMAND --config-file FILE [key=value ...]    a run's own config.yaml

HYDRA_FULL_ERROR=1 shows whole tracebacks."""


if __name__ == "__main__":
    raise SystemExit(main())
