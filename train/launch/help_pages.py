"""The help page of a command, generated from conf/: `bipe pretrain --help`, `--help rows`.

Keys and their descriptions are the lines of conf/config.yaml, section by section; groups are the
folders of conf. No YAML is parsed and nothing heavy is imported, so that help is instant.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from train.errors import ConfigError, nearest
from train.launch.commands import COMMANDS, Command

WIDTH = 110  # columns, where the terminal has them
_KEY = re.compile(r"( *)(\w+):(?: +(.*?))?(?: +# (.*))?")
_DEFAULT = re.compile(r"^  - (?:override /)?(\w+): (\w+)", re.MULTILINE)
_BASE = re.compile(r"^  - (\w+)$", re.MULTILINE)
_INTERNAL = ("defaults", "hydra")
# Groups that are chosen inside others.
_PLACES = {"tokenizer": "corpus.tokenizer", "segmenter": "corpus.sources.SOURCE.segmenter"}
_OF_OTHERS = ("command", "experiment")  # groups that set keys of others

Keys = dict[str, tuple[str, str]]  # default and comment of each key, by its full name


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
    """Return the help of a command; words: those behind --help, of which the first is the topic.

    A topic is a key, a group, GROUP=OPTION, or all. ConfigError for any other.
    """
    if not words:
        return _page(command)
    topic, _, option = words[0].partition("=")
    if topic == "all":
        listed = (f"  {name}: {', '.join(options(name))}" for name in groups())
        return "\n".join(["Groups (GROUP=OPTION):", *listed, "", *_config()])
    if topic in groups():
        lines = options(topic)
        return "\n".join(lines[option]) if option in lines else _group(command.name, topic)
    known = keys(command.name)
    if found := {key: each for key, each in known.items() if f"{key}.".startswith(f"{topic}.")}:
        return "\n".join(_lines(found))
    raise ConfigError(f"--help {topic}: there is no such key or group; {meant(topic)}")


def meant(name: str) -> str:
    """Return which key or group a word may mean that is none."""
    known = [*groups(), *keys()]
    ends = [repr(key) for key in known if key.endswith(f".{name.rpartition('.')[2]}")]
    if ends:
        return f"did you mean {' or '.join(ends)}?"
    said = nearest(name, known)
    return said if said.startswith("did") else "--help all lists them"


def _page(command: Command) -> str:
    lines = [f"bipe {command.name}: {command.does}", "", *(f"  {one}" for one in command.examples)]
    names = (f"{name} {one.value}".rstrip() for name, one in command.options.items())
    lines += ["", *_wrapped(f"Options: {', '.join(names)}")]
    if command.sections:
        lines.append("Keys (KEY=VALUE) and their defaults:")
    for heading, block in sections():
        if heading.startswith(tuple(command.sections)):
            own = _with_own(shown(block), command.name).items()
            kept = {key: each for key, each in own if key not in command.leave_out}
            lines += [_cut(f"  {line}") for line in _lines(kept)]
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
        lines += _wrapped(f"  {option:<18}  {next(comments, '')}", indent=22)
    default = _default(name, command)
    if of_default := _with_own(_of_option(name, default), command):
        lines += ["", f"Keys of {name}={default}:"]
        lines += [_cut(f"  {line}") for line in _lines(of_default)]
    return "\n".join([*lines, f"--help {name}=OPTION shows one with its keys."])


def keys(command: str = "") -> Keys:
    """Return all keys of conf/; of a group those of all options, as its default option has them."""
    found: Keys = {}
    for group in groups():
        if group not in _OF_OTHERS:
            for option in (*options(group), _default(group, command)):
                found |= _of_option(group, option)
    for _, block in sections():
        found |= shown(block)
    return _with_own(found, command)


def _default(group: str, command: str) -> str:
    chosen = _DEFAULT.findall("\n".join([*_config(), *_own(command)]))
    return dict(chosen).get(group, "")


def _of_option(group: str, option: str) -> Keys:
    """Return the keys of an option, those of the options that it starts from included."""
    lines, found = options(group).get(option, []), dict[str, Any]()
    for base in _BASE.findall("\n".join(lines)):
        if base != "_self_":
            found |= _of_option(group, base)
    place = _PLACES.get(group, group)
    own = {key: each for key, each in shown(lines).items() if not key.startswith("_")}
    return found | {f"{place}.{key}": each for key, each in own.items()}


def _own(command: str) -> list[str]:
    """Return the lines of a command's YAML, if it has one."""
    return options("command").get(command, [])


def _with_own(found: Keys, command: str) -> Keys:
    """Return keys with the defaults that a command has of its own."""
    own = shown(_own(command))
    return found | {
        key: (own[key][0], own[key][1] or comment)
        for key, (_, comment) in found.items()
        if key in own
    }


def _config() -> list[str]:
    return resources.files("conf").joinpath("config.yaml").read_text().splitlines()


def sections() -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraphs of config.yaml: their headings, and the lines of their keys."""
    for paragraph in "\n".join(_config()).split("\n\n"):
        lines = paragraph.splitlines()
        if lines[0].startswith("# "):
            yield lines[0][2:], lines[1:]
        else:
            yield lines[0].partition(":")[0], lines


def shown(lines: Sequence[str]) -> Keys:
    """Return the keys in lines of YAML."""
    made, path = Keys(), list[str]()
    for line in lines:
        if line.startswith("  ") and line.lstrip().startswith("# "):  # a comment goes on
            key, (value, comment) = made.popitem()
            made[key] = (value, f"{comment} {line.strip(' #')}")
        elif match := _KEY.fullmatch(line):
            indent, name, value, comment = match.groups()
            path = [*path[: len(indent) // 2], name]
            if value and path[0] not in _INTERNAL:
                made[".".join(path)] = (value, comment or "")
    return made


def groups() -> dict[str, Any]:
    """Return the folders of conf by name."""
    found = {each.name: each for each in resources.files("conf").iterdir() if each.is_dir()}
    return {name: found[name] for name in sorted(found) if not name.startswith("_")}


def options(group: str) -> dict[str, list[str]]:
    """Return the lines of each YAML of a group, by name."""
    files = {file.name: file for file in groups()[group].iterdir() if file.name.endswith(".yaml")}
    return {name[: -len(".yaml")]: files[name].read_text().splitlines() for name in sorted(files)}


def _lines(found: Mapping[str, tuple[str, str]]) -> list[str]:
    return [
        f"{f'{key}: {value}':<30}  {comment}".rstrip() for key, (value, comment) in found.items()
    ]


def _wrapped(text: str, *, indent: int = 2) -> list[str]:
    return textwrap.wrap(text, _width(), subsequent_indent=" " * indent, break_on_hyphens=False)


def _width() -> int:
    return max(80, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def _cut(line: str) -> str:
    return line if len(line) <= _width() else f"{line[: _width() - 4]} ..."
