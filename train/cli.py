"""The `bipe` command: find the command of the words, and run it; errors are one message.

Help and errors of the command line import nothing heavy, so that they are instant.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from bipe import __version__
from train import stop
from train.errors import EXIT_FAULT, ConfigError, is_mendable
from train.launch.commands import COMMANDS as _COMMANDS
from train.launch.commands import HELP, Command, find, loaded
from train.ranks import rank

# The first words, with what they do: of several commands with one word, that of the word alone.
COMMANDS = {each.word: _COMMANDS.get(each.word, each).does for each in _COMMANDS.values()}


def main(argv: list[str] | None = None) -> int:
    """Run `bipe` and return the exit status."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller: no other file may take its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
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
    except Exception as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1" or not is_mendable(error):
            raise
        if isinstance(error, ConfigError) and rank():
            return EXIT_FAULT  # all processes of a run find the same, and one says it
        from train.launch.composition import explained

        return _fault(explained(error))


def _main(words: list[str]) -> int:
    if words[:1] in (["-V"], ["--version"]):
        from importlib.metadata import version

        number = __version__
        with suppress(Exception):  # a checkout that is not installed has no metadata
            number = version("bipe")
        print(f"bipe {number}")
    elif not {*words[:1]} - {"help", *HELP} and len(words) < 2:  # no words, or only such a one
        from train.launch.help_pages import usage

        print(usage())
    elif words[0] in ("help", *HELP):  # of a command, a group or a key
        of_command = words[1:] if words[1] in COMMANDS else ["pretrain", *words[1:]]
        # --help, so that the first word of several commands is enough.
        command, rest = find([*of_command, "--help"])
        return _run(command, ["--help", *rest[:-1]])
    else:
        return _run(*find(words))
    return 0 if words else EXIT_FAULT


def _run(command: Command, rest: list[str]) -> int:
    called = next((command.elsewhere[key] for word in rest
                   if (key := word.partition("=")[0]) in command.elsewhere), None)  # fmt: skip
    if command.own_words:
        called = command.call
    elif asked := {*HELP} & {*rest}:
        from train.launch.help_pages import help_page

        print(help_page(command, rest[rest.index(asked.pop()) + 1 :]))
        return 0
    if called is None:
        from train.launch import start
        from train.launch import words as typed

        return start.start(typed.read(command, rest))
    try:
        return int(loaded(called)(rest) or 0)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        raise ConfigError(f"{command.word}: {error}") from error  # a disk that fails


def _fault(message: str, *, status: int = EXIT_FAULT) -> int:
    number = rank()
    print(f"bipe: {f'rank {number}: ' if number else ''}{message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
