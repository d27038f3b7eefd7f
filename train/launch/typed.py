"""The words behind a command: options and prompts become keys, and what is mistyped is refused.

All of it comes before Hydra, which says less of a wrong word than a user needs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

from train.errors import ConfigError

GO_ON = ("extend", "retrofit", "scrolls")  # start from a checkpoint, which decides the model
MANY = ("-m", "--multirun")
CONFIG_FOLDER = ("--config-dir", "-cd")
# Options of Hydra and ours that the next word belongs to.
_VALUED = (
    *("--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn"),
    *(*CONFIG_FOLDER, "--info", "-i", "--experimental-rerun", "--config-file"),
)
_FLAGS = (
    *(*MANY, "--resolve", "--run", "-r", "--hydra-help", "--version"),
    *("--shell-completion", "-sc"),
)
PLANS = ("--plan", "--json")
_OURS = {"prepare": ("--dry-run", "--limit"), "generate": ("--prompt", "--file")}
_NESTED = re.compile(r"(?!hydra\.)\w+(\.[\w-]+)+=")
_SOURCE = "corpus.sources.text.documents.path"
# What Hydra's grammar reads without quotes; and values that are lists, functions, quoted or such.
_PLAIN = re.compile(r"[\w/\-\\+.$%*@?|:, ]*", re.ASCII)
_WRITTEN = re.compile(r"[\[{'\"]|\w+\(.*\)$|.*\$\{", re.DOTALL)


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
    word = _quoted(word)
    return f"++{word}" if _NESTED.match(word) else word


def _quoted(word: str) -> str:
    """Return an override whose value Hydra reads as it was typed: paths hold any character."""
    name, given, value = word.partition("=")
    if value.startswith("~/"):  # which a shell does not expand behind a key
        value = str(Path(value).expanduser())
    if not given or re.fullmatch(r"[\w/\-+.]*", value, re.ASCII):
        return f"{name}{given}{value}"
    if is_place(value):
        return f"{name}={verbatim(value)}"
    if not _PLAIN.fullmatch(value) and not _WRITTEN.match(value):
        value = ",".join(map(verbatim, value.split(",")))  # several are for -m
    return f"{name}={value}"


def verbatim(text: str) -> str:
    """Quote a text so that Hydra and OmegaConf read back just that text."""
    text = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return "'" + re.sub(r"(\\*)('|\Z)", lambda m: m[1] * 2 + ("\\'" * bool(m[2])), text) + "'"


def without_options(words: list[str]) -> list[str]:
    """Rewrite the options of `bipe prepare`, --dry-run and --limit N, as keys."""
    made, rest = [], iter(words)
    for word in rest:
        name, given, value = word.partition("=")
        if name == "--limit":
            word = f"limit={value if given else next(rest, '')}"
        made.append("dry_run=true" if word == "--dry-run" else word)
    return made


def prompted(words: list[str]) -> list[str]:
    """Rewrite the words of `bipe generate`, RUN, --prompt TEXT and --file FILE, as keys.

    A prompt is taken as it is typed, whatever Hydra's grammar would make of it.
    """
    if words[:1] == ["--config-file"]:  # whose overrides are of another grammar
        return words
    made: list[str] = []
    rest = iter(words)
    for word in rest:
        name, given, value = word.partition("=")
        if name in ("--prompt", "-p", "--file"):
            name = "--prompt" if name == "-p" else name
            value = value if given else next(rest, "")
            if not value:
                raise ConfigError(f"{name} needs {'a text' if name == '--prompt' else 'a file'}")
            word = f"generate.{name[2:]}={verbatim(value)}"
        elif name == "generate.prompt" and not re.fullmatch(r"null|'.*'|\".*\"", value, re.DOTALL):
            word = f"{name}={verbatim(value)}"
        elif (
            not given and not word.startswith(("-", "~")) and (made[-1:] or [""])[0] not in _VALUED
        ):
            word = f"generate.run={verbatim(word)}"
        made.append(word)
    return made


def is_override(word: str) -> bool:
    return not word.startswith("-") and ("=" in word or word.startswith("~"))


def is_place(word: str) -> bool:
    """Return whether a word names a file or folder."""
    try:
        return Path(word).exists()
    except (OSError, ValueError):
        return False


def refuse_bare(command: str, words: Sequence[str]) -> None:
    """Refuse a word that is neither an option, nor its value, nor KEY=VALUE."""
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        if before in _VALUED or (is_override(word) and not word.startswith("=")):
            continue
        if word.startswith("-"):
            _refuse_option(command, word.partition("=")[0])
        elif before.endswith(","):
            raise ConfigError(f"a list of values must have no spaces, was: {before}{word}")
        elif before.endswith("=") or "=" in (word[0], after[:1]):
            raise ConfigError(f"KEY=VALUE must have no spaces around =, was: {word!r}")
        else:
            cure = f"{_meant(command, word)}bipe {command} --help lists the keys"
            raise ConfigError(f"{command} expects KEY=VALUE, was: {word!r}; {cure}")


def _refuse_option(command: str, option: str) -> None:
    hydra = (*_VALUED, *_FLAGS)  # which may be shortened
    if option in PLANS or any(each.startswith(option) for each in hydra):
        return
    known = (*hydra, *_OURS.get(command, ()), *PLANS, "--help")
    close = difflib.get_close_matches(option, known, n=1)
    cure = f"did you mean {close[0]!r}?" if close else f"bipe {command} --help lists the keys"
    raise ConfigError(f"{command}: there is no option {option}; {cure}")


def _meant(command: str, word: str) -> str:
    """Return "did you mean ...? " for a word without a key, if that can be known."""
    if command == "evaluate" and difflib.get_close_matches(word, ["statistics"]):
        meant = "bipe evaluate statistics"
    elif command in GO_ON or command == "explain":
        meant = f"{'encoding' if command == 'explain' else 'checkpoint'}={word}"
    elif command == "prepare":
        meant = f"corpus=text {_SOURCE}={word}" if is_place(word) else ""
    else:
        meant = f"out={word}" if is_place(word) or "/" in word else ""
    return f"did you mean {meant}? " if meant else ""


# Groups that are chosen inside others.
_PLACES = {"tokenizer": "corpus.tokenizer", "segmenter": "corpus.sources.SOURCE.segmenter"}


def full_names(name: str) -> list[str]:
    """Return the keys of conf/ whose last part is a name, such as optimizer.lr for lr."""
    return sorted({key for key in _keys() if key.endswith(f".{name}")})


def _keys() -> Iterator[str]:
    from train.launch.help_pages import groups, keys, options, shown

    yield from keys()
    for group in set(groups()) - {"command", "experiment"}:  # which set keys of the others
        for lines in options(group).values():
            place = _PLACES.get(group, group)
            yield from (f"{place}.{key.partition(':')[0]}" for key in shown(lines))
