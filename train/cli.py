"""The `bipe` command: find the command of the words, and run it; errors are one message.

Help and errors of the command line import nothing heavy, so that they are instant.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import suppress

from bipe import __version__
from train import stop
from train.errors import EXIT_FAULT, ConfigError, is_mendable
from train.launch.commands import HELP, WORDS, find
from train.launch.reader import read
from train.ranks import rank
from train.words import Command, loaded

_ABOUT = ("-V", "--version")


def main(argv: list[str] | None = None) -> int:
    """Run `bipe` and return the exit status."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller: no other file may take its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    # It warns in two lines of a home that is missing, which concerns its cache of fonts alone.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        with stop.stopping():
            status = _run(sys.argv[1:] if argv is None else argv)
            sys.stdout.flush()
            return status
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except stop.Stopped as stopped:
        if stopped.text is None:  # another rank says it
            return stopped.status
        return _fault(str(stopped), status=stopped.status)
    except Exception as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1" or not is_mendable(error):
            raise
        if isinstance(error, ConfigError) and rank():
            return EXIT_FAULT  # all processes of a run find the same, and one says it
        said = str(error).strip()
        if key := getattr(error, "full_key", None):  # of OmegaConf, which adds lines of its own
            said = f"{key}: {said.partition(chr(10))[0]}"
            if "RecursionError" in said:  # hydra.job.override_dirname in a word that it lists
                said = f"{key} cannot be part of a word that it is made of: remove it"
        return _fault(said, status=getattr(error, "status", EXIT_FAULT))


def _run(typed: list[str]) -> int:
    if not typed or typed[0] in (*_ABOUT, "help", *HELP):
        return _about(typed)
    command, rest = find(typed)
    # Behind a command that has other words than ours, help is its own.
    if {*HELP} & {*(rest[:1] if command.rest else rest)}:
        return _help(command, rest)
    words = read(command, rest)
    if command.composes:
        from train.launch.start import start

        return start(words)
    try:
        return int(loaded(command.call)(words) or 0)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        raise ConfigError(f"{command.word}: {error}") from error  # a disk that fails


def _about(words: list[str]) -> int:
    """Print the version, the usage, or the help of a command, a group or a key."""
    if words[:1] and words[0] in _ABOUT:
        from importlib.metadata import version

        number = __version__
        with suppress(Exception):  # a checkout that is not installed has no metadata
            number = version("bipe")
        print(f"bipe {number}")
    elif len(words) < 2:
        from train.launch.help_pages import usage

        print(usage())
    else:
        of_command = words[1:] if words[1] in WORDS else ["pretrain", *words[1:]]
        # --help, so that the first word of several commands is enough.
        command, rest = find([*of_command, "--help"])
        return _help(command, ["--help", *rest[:-1]])
    return 0 if words else EXIT_FAULT


def _help(command: Command, rest: list[str]) -> int:
    from train.launch.help_pages import help_page

    at = next(at for at, word in enumerate(rest) if word in HELP)
    print(help_page(command, rest[at + 1 :]))
    return 0


def _fault(message: str, *, status: int = EXIT_FAULT) -> int:
    number = rank()
    print(f"bipe: {f'rank {number}: ' if number else ''}{message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
