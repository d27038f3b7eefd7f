"""`bipe completion bash | zsh | fish`: what a shell reads so that Tab completes commands and keys.

The scripts ask `bipe completion SHELL --line LINE`, which prints a word per line, so that keys and
options are those of conf/ as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from train.errors import ConfigError, nearest
from train.launch.commands import COMMANDS, HELP
from train.launch.help_pages import groups, keys, options

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
    local -a found
    found=("${(@f)$(bipe completion zsh --line "$LBUFFER" 2> /dev/null)}")
    [[ -n "$found" ]] || { _files; return }
    compadd -S '' -- ${(M)found:#*=}
    compadd -- ${found:#*=}
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _bipe bipe"""
_FISH = """complete -c bipe -a '(bipe completion fish --line (commandline -cp | string collect))'"""
_HELP = """bipe completion SHELL: print a script for Tab completion of commands, keys and options.

  source <(bipe completion bash)      in ~/.bashrc; zsh: the same in ~/.zshrc
  bipe completion fish | source       in ~/.config/fish/config.fish"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def main(words: Sequence[str]) -> None:
    """Print the script of a shell, or with --line LINE what its last word may become."""
    shell = words[0] if words else ""
    if shell in HELP:
        print(_HELP)
    elif shell not in SCRIPTS:
        raise ConfigError(f"there is no shell {shell!r}; {nearest(shell, SCRIPTS)}")
    elif len(words) == 3 and words[1] == "--line":
        print("\n".join(_candidates(words[2])))
    elif len(words) > 1:
        raise ConfigError(f"{shell} takes no further arguments, was: {words[1]}")
    else:
        print(SCRIPTS[shell])


def _candidates(line: str) -> list[str]:
    _, *before, word = [*filter(None, line.split(" ")[:-1]), line.split(" ")[-1]]
    if before:
        started = (name for name in COMMANDS if name.startswith(f"{before[0]} "))
        names = dict.fromkeys(name.partition(" ")[2] for name in started)
    else:
        names = dict.fromkeys(command.word for command in COMMANDS.values())
    offered = [name for name in names if name.startswith(word)] if len(before) < 2 else []
    command = COMMANDS.get(" ".join(before[:2])) or COMMANDS.get(*before[:1] or ("",))
    if command is None or command.own_words:
        return offered
    if before[-1] in HELP:
        return [topic for topic in ("all", *groups(), *keys()) if topic.startswith(word)]
    if word.startswith("-"):
        return [name for name in (*command.options, "--help") if name.startswith(word)]
    group = word.partition("=")[0]
    if "=" in word:
        named = options(group) if group in groups() else ()
        return [full for each in named if (full := f"{group}={each}").startswith(word)]
    found = (f"{each}=" for each in sorted({*groups(), *keys()}))
    return [*offered, *(each for each in found if each.startswith(word))]
