"""The help page of a command, generated from conf/: `bipe pretrain --help`, `--help rows`.

Keys and their descriptions are the entries of conf/config.yaml, section by section, with the
comments behind them; groups are the folders of conf. Commands without a configuration have their
places, options and keys in commands.py. Nothing heavy is imported, so that help is instant.

Tab completion is of the same lists:

bipe completion bash               # source <(bipe completion bash) in ~/.bashrc; zsh: ~/.zshrc
bipe completion fish | source      # in ~/.config/fish/config.fish

The scripts ask `bipe completion SHELL --line LINE`, which prints a word per line, so that keys and
options are those of conf/ as it is.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from train import CONF
from train.errors import ConfigError, nearest
from train.launch.commands import COMMANDS, HELP
from train.words import Command, Words

WIDTH = 110  # columns, where the terminal has them
_INTERNAL = ("defaults", "hydra")
# Groups that are chosen inside others.
_PLACES = {"tokenizer": "corpus.tokenizer", "segmenter": "corpus.sources.SOURCE.segmenter"}
_OF_OTHERS = ("command", "experiment")  # groups that set keys of others

# Names in other tools, and what does it here.
_ELSEWHERE = {
    "batch_size": "rows.global_batch",
    "block_size": "row_length",
    "dropout": "optimizer.weight_decay (models here have no dropout)",
    "gpus": "trainer.devices",
    "grad_clip": "clip",
    "gradient_accumulation_steps": "rows.micro_batch",
    "learning_rate": "optimizer.lr",
    "max_epochs": "epochs, or steps",
    "num_workers": "nothing: a thread reads the rows",
    "resume": "nothing: the same command resumes",
    "save_every": "checkpoint_every",
    "warmup_steps": "schedule.warmup",
    "wandb": "logger=wandb",
}

Keys = dict[str, tuple[str, str]]  # default and comment of each key, by its full name


def usage() -> str:
    """Return what `bipe --help` prints."""
    width = max(map(len, COMMANDS))
    listed = "\n".join(
        f"  bipe {name:<{width}}  {command.does}" for name, command in COMMANDS.items()
    )
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
    entries = keys(command.name)
    if chosen := {
        key: entry for key, entry in entries.items() if f"{key}.".startswith(f"{topic}.")
    }:
        return "\n".join(_lines(chosen))
    raise ConfigError(f"--help {topic}: there is no such key or group; {meant(topic)}")


def meant(name: str) -> str:
    """Return which key or group a word may mean that is none."""
    from train.config import DECIDED_BY

    if here := (DECIDED_BY | _ELSEWHERE).get(name):
        return f"set {here}"
    names = [*groups(), *keys()]
    ends = [repr(key) for key in names if key.endswith(f".{name.rpartition('.')[2]}")]
    if ends:
        return f"did you mean {' or '.join(ends)}?"
    said = nearest(name, names)
    return said if said.startswith("did") else "--help all lists them"


def _page(command: Command) -> str:
    lines = [
        f"bipe {command.name}: {command.does}",
        "",
        *(f"  {line}" for line in command.examples),
    ]
    if not command.composes:
        return "\n".join([*lines, "", *_without_configuration(command)])
    names = (f"{name} {option.value}".rstrip() for name, option in command.options.items())
    lines += ["", *_wrapped(f"Options: {', '.join(names)}")]
    if command.sections:
        lines.append("Keys (KEY=VALUE) and their defaults:")
    for heading, block in sections():
        if heading.startswith(tuple(command.sections)):
            entries = _with_own(shown(block), command.name).items()
            kept = {key: entry for key, entry in entries if key not in command.leave_out}
            lines += [_cut(f"  {line}") for line in _lines(kept)]
    if command.groups:
        listed = ", ".join(f"{name} ({len(options(name))})" for name in command.groups)
        lines += _wrapped(f"Groups (GROUP=OPTION) and their number of options: {listed}")
    topic = command.groups[0] if command.groups else "out"
    return "\n".join([*lines, f"--help {topic} explains one of them, --help all lists everything."])


def _without_configuration(command: Command) -> Iterator[str]:
    """Yield what a command takes that composes no configuration."""
    yield from command.about.splitlines()
    entries = {}
    if (places := command.places) is not None:
        entries[places.name] = places.about
    for name, key in command.keys.items():
        choices = f": {' or '.join(key.choices)}" * bool(key.choices)
        entries[f"{name}="] = f"{key.about}{choices}"
    for name, option in command.options.items():
        choices = f": {', '.join(option.choices)}" * bool(option.choices)
        entries[f"{name} {option.value}".rstrip()] = f"{option.about}{choices}"
    width = min(16, max(map(len, entries)))
    for name, about in entries.items():
        yield from _wrapped(f"  {name:<{width}}  {about}", indent=width + 4)


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
    entries: Keys = {}
    for group in groups():
        if group not in _OF_OTHERS:
            for option in (*options(group), _default(group, command)):
                entries |= _of_option(group, option)
    for _, block in sections():
        entries |= shown(block)
    return _with_own(entries, command)


def _default(group: str, command: str) -> str:
    chosen = {}
    for lines in (_config(), _own(command)):
        for entry in _defaults(lines):
            if isinstance(entry, dict):
                ((key, name),) = entry.items()
                chosen[key.removeprefix("override /")] = str(name)
    return chosen.get(group, "")


def _defaults(lines: Sequence[str]) -> list[Any]:
    """Return the list of defaults in lines of YAML."""
    return (yaml.safe_load("\n".join(lines)) or {}).get("defaults") or []


def _of_option(group: str, option: str) -> Keys:
    """Return the keys of an option, those of the options that it starts from included."""
    lines, entries = options(group).get(option, []), dict[str, Any]()
    for base in _defaults(lines):
        if isinstance(base, str) and base != "_self_":
            entries |= _of_option(group, base)
    place = _PLACES.get(group, group)
    entries_of_option = {
        key: entry for key, entry in shown(lines).items() if not key.startswith("_")
    }
    return entries | {f"{place}.{key}": entry for key, entry in entries_of_option.items()}


def _own(command: str) -> list[str]:
    """Return the lines of a command's YAML, if it has one."""
    return options("command").get(command, [])


def _with_own(found: Keys, command: str) -> Keys:
    """Return keys with the defaults that a command has of its own."""
    of_command = shown(_own(command))
    return found | {
        key: (of_command[key][0], of_command[key][1] or comment)
        for key, (_, comment) in found.items()
        if key in of_command
    }


@cache
def _config() -> list[str]:
    return (CONF / "config.yaml").read_text(encoding="utf-8").splitlines()


@cache
def top_keys() -> tuple[str, ...]:
    """Return the keys at the top of config.yaml."""
    return tuple(key for key in yaml.safe_load("\n".join(_config())) if key not in _INTERNAL)


def sections() -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraphs of config.yaml: their headings, and the lines of their keys."""
    for paragraph in "\n".join(_config()).split("\n\n"):
        lines = paragraph.splitlines()
        if lines[0].startswith("# "):
            yield lines[0][2:], lines[1:]
        else:
            yield lines[0].partition(":")[0], lines


def shown(lines: Sequence[str]) -> Keys:
    """Return the keys in lines of YAML with their values and comments."""
    entries = Keys()
    node = yaml.compose("\n".join(lines), Loader=yaml.SafeLoader)
    if isinstance(node, yaml.MappingNode):
        _walk(node, "", lines, entries)
    return entries


def _walk(node: yaml.MappingNode, path: str, lines: Sequence[str], entries: Keys) -> None:
    for key, value in node.value:
        name, end = f"{path}{key.value}", value.end_mark
        if not path and key.value in _INTERNAL:
            continue
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            _walk(value, f"{name}.", lines, entries)
        elif end.line == value.start_mark.line:  # no list in lines of its own
            line, below = lines[end.line], end.line + 1
            comment = line[end.column :].strip(" #")
            while (
                below < len(lines)
                and lines[below].startswith("  ")
                and (lines[below].lstrip().startswith("# "))
            ):
                comment += f" {lines[below].strip(' #')}"
                below += 1
            entries[name] = (line[value.start_mark.column : end.column], comment)


@cache
def groups() -> dict[str, Path]:
    """Return the folders of conf by name."""
    folders = {path.name: path for path in CONF.iterdir() if path.is_dir()}
    return {name: folders[name] for name in sorted(folders) if not name.startswith("_")}


@cache
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


# Tab completion

_BASH = """_bipe() {
    local line="${COMP_LINE:0:COMP_POINT}"
    local word="${line##*[[:space:]]}"
    mapfile -t COMPREPLY < <(bipe completion bash --line "$line" 2> /dev/null)
    # Bash replaces what follows the last = only.
    [[ ${#COMPREPLY[@]} == 1 && $COMPREPLY != *= ]] && compopt +o nospace
    [[ $COMP_WORDBREAKS == *=* ]] && COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*=}"}"}")
}
complete -o nospace -o default -F _bipe bipe"""
_ZSH = """_bipe() {
    local -a offered
    offered=("${(@f)$(bipe completion zsh --line "$LBUFFER" 2> /dev/null)}")
    [[ -n "$offered" ]] || { _files; return }
    compadd -S '' -- ${(M)offered:#*=}
    compadd -- ${offered:#*=}
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _bipe bipe"""
_FISH = """complete -c bipe -a '(bipe completion fish --line (commandline -cp | string collect))'"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(words: Words) -> None:
    """Print the script of a shell, or with --line LINE what its last word may become."""
    shell = words.places[0]
    if shell not in SCRIPTS:
        raise ConfigError(f"there is no shell {shell!r}; {nearest(shell, SCRIPTS)}")
    if words.has("line"):
        print("\n".join(_candidates(words.options["line"])))
    else:
        print(SCRIPTS[shell])


def _candidates(line: str) -> list[str]:
    words = line.split()
    word = "" if line.endswith(" ") else words.pop()
    return [
        word_offered for word_offered in _offered(words[1:], word) if word_offered.startswith(word)
    ]


def _offered(before: list[str], word: str) -> Iterator[str]:
    """Yield what may come behind the words before, if it is to begin like a word."""
    at = len(before)
    names = [name.split() for name in COMMANDS]
    yield from dict.fromkeys(name[at] for name in names if name[:at] == before and name[at:])
    command = COMMANDS.get(" ".join(before[:2])) or COMMANDS.get(" ".join(before[:1]))
    if command is None:
        return
    group = word.partition("=")[0]
    if before[-1] in HELP:
        yield from ("all", *groups(), *keys())
    elif word.startswith("-"):
        yield from (*command.options, "--help")
    elif not command.composes:
        key = command.keys.get(group)
        if "=" not in word:
            yield from (f"{name}=" for name in command.keys)
        elif key is not None:
            yield from (f"{group}={choice}" for choice in key.choices)
    elif "=" not in word:
        yield from (f"{name}=" for name in sorted({*groups(), *keys()}))
    elif group in groups():
        yield from (f"{group}={name}" for name in options(group))
