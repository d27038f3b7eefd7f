"""The `bipe` command: compose conf/config.yaml with Hydra, check it, and run a subcommand.

Help and errors of the command line import nothing heavy, so that they are instant.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module

from train import stop
from train.errors import ConfigError, is_mendable, nearest
from train.launch.composition import SHORT_ERRORS, explained
from train.ranks import rank

COMMANDS = {
    "prepare": "segment and tokenize documents, and write tokens and marks to disk",
    "pretrain": "train a model on prepared data; resumes exactly",
    "extend": "extend the context of a trained model; resumes exactly",
    "retrofit": "add segments to a trained RoPE model; resumes exactly",
    "scrolls": "fine-tune on a long-document task, decode, and score",
    "evaluate": "measure perplexity at several lengths, and passkey retrieval",
    "generate": "continue a prompt with a trained model",
    "report": "write an HTML report with curves and tables, and the numbers as CSV and JSON",
    "verify": "check every byte of prepared data",
    "export": "convert prepared data to Megatron or Parquet",
    "convert": "convert a run to Hugging Face transformers, or back",
    "lm-eval": "run tasks of lm-evaluation-harness",
    "tokenizer": "train a tokenizer on a corpus",
    "doctor": "check whether this machine can run a study, and how to fix what is missing",
    "status": "show the state of runs and prepared data",
    "explain": "describe an encoding: formula, hooks, cost, attention path, curves",
    "completion": "print a script for Tab completion in bash, zsh or fish",
    "segment": "show a file with its segments in colour",
}
# Commands with options of their own and no configuration, and their modules.
_PLAIN = {name: name for name in ("verify", "export", "segment")}
_PLAIN |= {"status": "during.status", "convert": "after.convert"}
_PLAIN["lm-eval"] = "after.lm_eval"
EXIT_FAULT = 2
_HELP = {"-h", "--help"}


def main(argv: list[str] | None = None) -> int:
    """Run `bipe` and return the exit status."""
    try:
        with stop.heard_or_not(), stop.stopping():
            status = _main(sys.argv[1:] if argv is None else argv)
            sys.stdout.flush()
            return status
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except stop.Stopped as stopped:
        if stopped.text is None:  # another rank says it
            return stopped.status
        return _fault(str(stopped), status=stopped.status)


def _main(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        words = [words[1], "--help", *words[2:]]
    elif len(words) > 1 and words[0] in _HELP:  # of a command, a group or a key
        words = [words[1], "--help"] if words[1] in COMMANDS else ["pretrain", *words]
    if not words or words[0] in (*_HELP, "help"):
        print(_usage())
        return 0 if words else EXIT_FAULT
    if words[0] in ("-V", "--version"):
        from importlib.metadata import version

        print(f"bipe {version('bipe')}")
        return 0
    command = words[0]
    if command not in COMMANDS:
        return _fault(f"there is no command {command!r}; {nearest(command, COMMANDS)}")
    if words[:2] == ["evaluate", "statistics"]:
        command, words = "statistics", words[1:]
    if _HELP & set(words[1:]):
        from train.launch.help_pages import PAGES, help_page

        if command in PAGES:
            return _guarded(lambda: print(help_page(command, words[1:])) or 0)
    if command == "completion":
        from train.launch.completion import completion

        return _guarded(lambda: print(completion(words[1:], commands=list(COMMANDS))) or 0)
    if command in ("doctor", "explain"):
        examining = import_module("train.launch.start")
        return _guarded(lambda: int(getattr(examining, command)(words[1:])))
    if command in _PLAIN:
        return int(import_module(f"train.commands.{_PLAIN[command]}").main(words[1:]))
    if command == "tokenizer" and words[1:2] != ["train"]:
        return _fault("tokenizer: say what to do: bipe tokenizer train key=value ...")
    if command == "scrolls" and any(word.startswith(("validate=", "submit=")) for word in words):
        return int(import_module("train.commands.scrolls").check_or_submit(words[1:]))
    rest = words[2:] if words[1:2] == ["train"] else words[1:]
    from train.launch.start import compose_and_run

    return _guarded(lambda: compose_and_run(command, rest))


def _guarded(run: Callable[[], int]) -> int:
    """Turn errors that the user can fix into one message; others keep their traceback."""
    full = os.environ.get("HYDRA_FULL_ERROR") == "1" and SHORT_ERRORS not in os.environ
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises instead of printing and exiting
    if not full:  # the processes of other devices inherit both
        os.environ[SHORT_ERRORS] = "1"
    try:
        return run()
    except Exception as error:
        if full or not is_mendable(error):
            raise
        if isinstance(error, ConfigError) and rank():
            return EXIT_FAULT  # all processes of a run find the same, and one says it
        return _fault(explained(error))
    finally:
        os.environ["HYDRA_FULL_ERROR"] = "1" if full else "0"
        os.environ.pop(SHORT_ERRORS, None)


def _fault(message: str, *, status: int = EXIT_FAULT) -> int:
    number = rank()
    print(f"bipe: {f'rank {number}: ' if number else ''}{message}", file=sys.stderr)
    return status


def _usage() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  bipe {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return f"""bipe: position encodings that know how text is segmented

{commands}

Options of most commands:
  bipe COMMAND --help            its examples and keys; --help KEY, GROUP, GROUP=OPTION or all
  bipe COMMAND key=value ...     set any key of conf/ (encoding=bipe_rope steps=500)
  bipe COMMAND --cfg job         print the composed configuration and exit
  bipe COMMAND --config-file FILE [key=value ...]    start from the config.yaml of a run

Examples:
  bipe prepare --dry-run         show what would be done; --limit N: documents per source
  bipe pretrain --plan           memory, work, days and disk space of a run, before it starts
  bipe pretrain -m encoding=rope,bipe_rope    one run per value
  bipe extend checkpoint=RUN stretch=yarn stretch.factor=16 row_length=4096
  bipe retrofit checkpoint=RUN stretch=gated    or homotopy, swap, split
  bipe scrolls task=qmsum path=qmsum.zip checkpoint=RUN    or validate=FILE
  bipe evaluate statistics out=DIR     segment statistics, without a model
  bipe generate RUN --prompt TEXT    or --file FILE, or the prompt on standard input
  bipe verify DIR                exit status 1 if there are faults
  bipe export DIR format=megatron out=FOLDER
  bipe convert RUN to=hf out=FOLDER    or back, with to=bipe
  bipe lm-eval RUN --tasks hellaswag,piqa --batch_size 8
  bipe doctor pretrain key=value ...    can this machine run this study?
  bipe status [FOLDER ...]       runs and data in a folder; default: runs
  bipe explain encoding=bipe_alibi --lengths 512,8192 --page FILE.html
  bipe segment FILE --stats

Set HYDRA_FULL_ERROR=1 to show full tracebacks."""


if __name__ == "__main__":
    raise SystemExit(main())
