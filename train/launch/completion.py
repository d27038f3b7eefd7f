"""bipe completion SHELL: print a script for Tab completion of commands, keys and options.

  source <(bipe completion bash)      in ~/.bashrc; zsh: the same in ~/.zshrc
  bipe completion fish | source       in ~/.config/fish/config.fish

The scripts ask `bipe completion SHELL --line LINE`, which prints a word per line, so that keys and
options are those of conf/ as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def main(words: Sequence[str]) -> None:
    """Print the script of a shell, or with --line LINE what its last word may become."""
    shell = words[0] if words else ""
    if shell in HELP:
        print(__doc__)
    elif shell not in SCRIPTS:
        raise ConfigError(f"there is no shell {shell!r}; {nearest(shell, SCRIPTS)}")
    elif len(words) == 3 and words[1] == "--line":
        print("\n".join(_candidates(words[2])))
    elif len(words) > 1:
        raise ConfigError(f"{shell} takes no further arguments, was: {words[1]}")
    else:
        print(SCRIPTS[shell])


def _candidates(line: str) -> list[str]:
    words = line.split()
    word = "" if line.endswith(" ") else words.pop()
    return [each for each in _offered(words[1:], word) if each.startswith(word)]


def _offered(before: list[str], word: str) -> Iterator[str]:
    """Yield what may come behind the words before, if it is to begin like a word."""
    at = len(before)
    names = [name.split() for name in COMMANDS]
    yield from dict.fromkeys(name[at] for name in names if name[:at] == before and name[at:])
    command = COMMANDS.get(" ".join(before[:2])) or COMMANDS.get(" ".join(before[:1]))
    if command is None or command.own_words:
        return
    group = word.partition("=")[0]
    if before[-1] in HELP:
        yield from ("all", *groups(), *keys())
    elif word.startswith("-"):
        yield from (*command.options, "--help")
    elif "=" not in word:
        yield from (f"{each}=" for each in sorted({*groups(), *keys()}))
    elif group in groups():
        yield from (f"{group}={each}" for each in options(group))
