"""The help page of a command, generated from conf/: `bipe pretrain --help`, `--help rows`.

Keys and their descriptions are the lines of conf/config.yaml, section by section; groups are the
folders of conf. No YAML is parsed and nothing heavy is imported, so that help is instant.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

from train.errors import ConfigError, nearest
from train.launch.commands import COMMANDS, HELP, Command

WIDTH = 110  # columns, where the terminal has them
_KEY = re.compile(r"( *)(\w+):(?: +(.*?))?(?: +# (.*))?")
_DEFAULT = re.compile(r"^  - (?:override /)?(\w+): (\w+)", re.MULTILINE)
_BASE = re.compile(r"^  - (\w+)$", re.MULTILINE)
_INTERNAL = ("defaults", "hydra")


def usage() -> str:
    """Return what `bipe --help` prints."""
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  bipe {name:<{width}}  {one.does}" for name, one in COMMANDS.items())
    return f"""bipe: position encodings that know how text is segmented

{listed}

Words of most commands:
  bipe COMMAND --help            examples, options, keys; --help KEY, GROUP, GROUP=OPTION or all
  bipe COMMAND key=value ...     set any key of conf/ (encoding=bipe_rope steps=500)
  bipe COMMAND -m key=a,b        run it once for each value
  bipe COMMAND --cfg job         print the composed configuration and exit
  bipe COMMAND --config-file FILE [key=value ...]    start from the config.yaml of a run

First steps:
  bipe segment FILE --stats      segments of a file
  bipe explain encoding=bipe_rope
  bipe prepare corpus=text corpus.sources.text.documents.path=FOLDER out=runs/mine
  bipe pretrain out=runs/mine encoding=bipe_rope steps=2000
  bipe evaluate out=runs/mine    then bipe report out=runs/mine

Set HYDRA_FULL_ERROR=1 to show full tracebacks."""


def help_page(command: Command, words: Sequence[str]) -> str:
    """Return the help of a command; words: those beside --help, of which one may be a topic.

    A topic is a key, a group, GROUP=OPTION, or all. ConfigError for any other.
    """
    group, _, option = words[-1].partition("=") if words else ("", "", "")
    if {*words[-2:-1]} & {*HELP} and group in groups() and option in options(group):
        return "\n".join(options(group)[option])
    known, helps = {"all", *groups(), *keys()}, [word in HELP for word in words]
    topics = (
        word
        for at, word in enumerate(words)
        if not word.startswith("-") and "=" not in word and (word in known or any(helps[:at]))
    )  # a word before --help may also be a run, for example
    topic = next(topics, None)
    if topic is None:
        return _page(command)
    if topic == "all":
        listed = (f"  {name}: {', '.join(options(name))}" for name in groups())
        return "\n".join(["Groups (GROUP=OPTION):", *listed, "", *_config()])
    if topic in groups():
        return _group(command.name, topic)
    lines = [line for line in _lines(command.name) if re.match(rf"{re.escape(topic)}[.:]", line)]
    group = topic.partition(".")[0]
    if not lines and group in groups():  # a key of an option
        shown_keys = {key.strip() for each in options(group) for key in _keys_of(group, each)[1:]}
        lines = sorted(key for key in shown_keys if re.match(rf"{re.escape(topic)}[.:]", key))
    if not lines:
        said = nearest(topic, known)
        cure = said if said.startswith("did") else "--help all lists them"
        raise ConfigError(f"--help {topic}: there is no such key or group; {cure}")
    return "\n".join(lines)


def _page(command: Command) -> str:
    lines = [f"bipe {command.name}: {command.does}", "", *(f"  {one}" for one in command.examples)]
    names = (f"{name} {one.value}".rstrip() for name, one in command.options.items())
    lines += ["", *_wrapped(f"Options: {', '.join(names)}")]
    if command.sections:
        lines.append("Keys (KEY=VALUE) and their defaults:")
    for heading, block in _sections():
        if heading.startswith(tuple(command.sections)):
            keys = _with_own(shown(block), command.name)
            kept = (key for key in keys if key.split(":")[0] not in command.leave_out)
            lines += [f"  {_cut(key, 2)}" for key in kept]
    if command.groups:
        listed = ", ".join(f"{name} ({len(options(name))})" for name in command.groups)
        lines += _wrapped(f"Groups (GROUP=OPTION) and their number of options: {listed}")
    topic = command.groups[0] if command.groups else "out"
    return "\n".join([*lines, f"--help {topic} explains one of them, --help all lists everything."])


def _group(command: str, name: str) -> str:
    """Return the options of a group, and the keys of the one that is the command's default."""
    lines = [f"{name}=OPTION", ""]
    for option, text in options(name).items():
        comments = (line[2:] for line in text if line.startswith("# ") and "@package" not in line)
        told = f"  {option:<18}  {next(comments, '')}"
        lines += textwrap.wrap(told, _width(), subsequent_indent=" " * 22, break_long_words=False)
    default = dict(_DEFAULT.findall("\n".join([*_config(), *_own(command)]))).get(name, "")
    more = [*_keys_of(name, default, command), f"--help {name}=OPTION shows one with its keys."]
    return "\n".join([*lines, "", *more])


def _keys_of(name: str, option: str, command: str = "") -> list[str]:
    """Return the keys of an option, those of the options that it starts from included."""

    def own(option: str) -> dict[str, str]:
        lines = options(name).get(option, [])
        bases = [base for base in _BASE.findall("\n".join(lines)) if base != "_self_"]
        found = {key: line for base in bases for key, line in own(base).items()}
        keys = [line for line in shown(lines) if not line.startswith("_")]
        return found | {line.partition(":")[0]: line for line in keys}

    keys = _with_own([f"{name}.{key}" for key in own(option).values()], command)
    return [f"Keys of {name}={option}:", *(_cut(f"  {key}") for key in keys)] if keys else []


def keys() -> list[str]:
    """Return all keys of config.yaml by their full names."""
    return [line.partition(":")[0] for line in _lines()]


# Groups that are chosen inside others.
_PLACES = {"tokenizer": "corpus.tokenizer", "segmenter": "corpus.sources.SOURCE.segmenter"}


def full_names(name: str) -> list[str]:
    """Return the keys of conf/ whose last part is a name, such as optimizer.lr for lr."""
    found = set(keys())
    for group in set(groups()) - {"command", "experiment"}:  # which set keys of the others
        place = _PLACES.get(group, group)
        for lines in options(group).values():
            found |= {f"{place}.{key.partition(':')[0]}" for key in shown(lines)}
    return sorted(key for key in found if key.endswith(f".{name}"))


def _lines(command: str = "") -> list[str]:
    return _with_own([line for _, block in _sections() for line in shown(block)], command)


def _own(command: str) -> list[str]:
    """Return the lines of a command's YAML, if it has one."""
    return options("command").get(command, [])


def _with_own(lines: list[str], command: str) -> list[str]:
    """Return lines of keys with the defaults that a command has of its own."""
    own = {line.partition(":")[0]: line for line in shown(_own(command))}
    made = []
    for line in lines:
        key, _, comment = own.get(line.partition(":")[0], line).partition("  ")
        comment = comment.strip() or line.partition("  ")[2].strip()
        made.append(f"{key:<30}  {comment}".rstrip())
    return made


def _config() -> list[str]:
    return resources.files("conf").joinpath("config.yaml").read_text().splitlines()


def _sections() -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraphs of config.yaml: their headings, and the lines of their keys."""
    for paragraph in "\n".join(_config()).split("\n\n"):
        lines = paragraph.splitlines()
        if lines[0].startswith("# "):
            yield lines[0][2:], lines[1:]
        else:
            yield lines[0].partition(":")[0], lines


def shown(lines: Sequence[str]) -> list[str]:
    """Return keys with full names, one per line, from lines of YAML."""
    made: list[str] = []
    path: list[str] = []
    for line in lines:
        if line.startswith("  ") and line.lstrip().startswith("# "):  # a comment goes on
            made[-1] += " " + line.strip(" #")
        elif match := _KEY.fullmatch(line):
            indent, name, value, comment = match.groups()
            path = [*path[: len(indent) // 2], name]
            if value and path[0] not in _INTERNAL:
                key = f"{'.'.join(path)}: {value}"
                made.append(f"{key:<30}  {comment}" if comment else key)
    return made


def groups() -> dict[str, Any]:
    """Return the folders of conf by name."""
    found = {each.name: each for each in resources.files("conf").iterdir() if each.is_dir()}
    return {name: found[name] for name in sorted(found) if not name.startswith("_")}


def options(group: str) -> dict[str, list[str]]:
    """Return the lines of each YAML of a group, by name."""
    files = {file.name: file for file in groups()[group].iterdir() if file.name.endswith(".yaml")}
    return {name[: -len(".yaml")]: files[name].read_text().splitlines() for name in sorted(files)}


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _width(), subsequent_indent="  ", break_on_hyphens=False)


def _width() -> int:
    return max(80, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def _cut(line: str, indent: int = 0) -> str:
    room = _width() - indent
    return line if len(line) <= room else f"{line[: room - 4]} ..."
