"""The trials of a sweep, their checks and their names.

A name is that of a single run, and behind it what the sweep changes.

    bipe pretrain -m encoding=rope,alibi seed=0,1 optimizer.lr=1e-3,1e-2    rope_lr0.001_seed0 ...

A key whose values the name tells apart already is not repeated (encoding, a task, a stretch, and
what an experiment writes into `name`). The others follow in the order in which they were typed, as
words (schedule=wsd: _wsd) or with their last part (optimizer.lr=1e-3: _lr0.001); the seed comes
last, where the report looks for it. If this gives two trials one name, whole keys are written.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from train.config import Config, encoding_name, slug
from train.errors import ConfigError
from train.fit.runs import RESUMES, refuse_claimed
from train.fit.trained_run import stem
from train.launch.commands import COMMANDS, loaded
from train.ranks import rank

_LONGEST, _LONGEST_WORD = 180, 60  # characters; file systems allow 255 bytes
_SEED = "seed"
_OF_ENCODING = re.compile(r"(\w+@)?encoding\.")
_PARTS = "bilevel"  # with encoding@encoding.inter=alibi its name is that of bipe_alibi


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One configuration of a sweep. words: its overrides. changes: the swept keys among them.

    unnamed: nobody chose its name.
    """

    words: tuple[str, ...]
    changes: Mapping[str, str]
    config: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    unnamed: bool = False

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.changes.items()) or "the only trial"

    def named(self, name: str) -> Trial:
        words = (*self.words, f"name={name}")
        return replace(self, name=name, words=words, config={**self.config, "name": name})


def check_trial(command: str, trial: Trial) -> None:
    """Raise what the trial would be refused for, as far as it is known before it runs."""
    from train.commands import pretrain

    config = Config.from_config(trial.config)
    pretrain.check_trial(config)
    config.build("launch").check(config)
    # The other commands complete the configuration before they compare it.
    comparable = command == "pretrain" or config.if_exists not in RESUMES
    if rank() == 0 and comparable:  # the other processes may come when the first run is there
        folder = Path(config.out) / str(trial.name)
        refuse_claimed(folder, if_exists=config.if_exists, config=trial.config)


def trial_names(command: str, trials: Sequence[Trial], *, endings: Sequence[str]) -> list[str]:
    """Return a name of its own for each trial; ConfigError if the user's `name` gives fewer.

    endings: of a search, whose later trials are not known; then a name holds all that it changes.
    """
    configs = [Config.from_config(trial.config) for trial in trials]
    names = [config.name or default_name(command, config) for config in configs]
    if not any(word.lstrip("+").startswith("name=") for trial in trials for word in trial.words):
        # Keys whose values the names show already, as that of an encoding.
        told = {key for key in trials[0].changes if _tells_apart(key, trials, names)}
        pairs = list(zip(trials, configs, strict=True))
        for whole in (False, True):
            made = (_name(command, *pair, set() if endings else told, whole) for pair in pairs)
            names = [name + end for name, end in zip_longest(made, endings, fillvalue="")]
            if len({*names}) == len(names):
                return names
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        same = [str(trial) for trial, own in zip(trials, names, strict=True) if own == name]
        raise ConfigError(
            f"name={name} would be the same for {count} trials ({'; '.join(same)}); each must "
            "differ from the others, and name be left out: names show what the sweep changes"
        )
    return names


def default_name(command: str, config: Config, *, changed: str = "", seeded: bool = False) -> str:
    module = COMMANDS[command].call.partition(":")[0]
    name: str = loaded(f"{module}:default_name")(config, changed=changed, seeded=seeded)
    return name


def _tells_apart(key: str, trials: Sequence[Trial], names: Sequence[str]) -> bool:
    """Return whether trials that differ by this key alone have different names."""
    values, found = set(), set()
    for trial, name in zip(trials, names, strict=True):
        rest = tuple(item for item in trial.changes.items() if item[0] != key)
        values.add((rest, trial.changes[key]))
        found.add((rest, name))
    return len(values) == len(found)


def _name(command: str, trial: Trial, config: Config, told: set[str], whole: bool) -> str:
    changed = "".join(
        f"_{_short(key, value, whole=whole)}"
        for key, value in trial.changes.items()
        if key not in told and key != _SEED
    )
    if config.name is None or trial.unnamed:
        seeded = _SEED in trial.changes
        return _limited(default_name(command, config, changed=changed, seeded=seeded))
    base = stem(config.name, config.seed)  # an experiment's, with the seed at its end or without
    end = config.name.removeprefix(base)
    if not end and _SEED in trial.changes and _SEED not in told:
        end = f"_seed{config.seed}"
    return _limited(f"{base}{changed}{end}")


def chosen_name(choice: str | None, typed: Mapping[str, str], *, encoding: Any) -> str:
    """Return the name of an encoding's run: rope, or rope_theta500000 where its YAML was changed.

    choice: the YAML. typed: all keys with their values. encoding: what it came to.
    """
    changes = {key: value or "null" for key, value in typed.items() if _OF_ENCODING.match(key)}
    if choice is None or choice == _PARTS:
        name = slug(encoding_name(encoding))
        changes = {key: value for key, value in changes.items() if "@" not in key}
    else:
        name = _word(choice)
    return _limited(name + "".join(f"_{_short(*each)}" for each in changes.items()))


def _limited(name: str, longest: int = _LONGEST) -> str:
    if len(name) <= longest:
        return name
    return f"{name[:longest]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _short(key: str, value: str, *, whole: bool = False) -> str:
    """Return a change as a part of a name, with the last part of its key or the whole of it."""
    last, text = re.split(r"[.@]", key)[-1], value.strip("'\"")
    number = _number(text)
    if whole:
        return f"{_word(key)}_{number or _word(text)}"
    if number is not None:
        return f"{last}{number}"
    if text.lower() in ("true", "false", "null", "none"):
        return f"{last}_{text.lower()}"
    return _word(text.rstrip("/").rpartition("/")[2]) or last


def _word(text: str) -> str:
    """Return a text as a part of a file name."""
    return _limited(re.sub(r"[^A-Za-z0-9.+-]+", "_", text).strip("_."), _LONGEST_WORD)


def _number(text: str) -> str | None:
    """Return 0.001 for 1e-3, and 4096 for 4096; None for what is no number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return text if re.fullmatch(r"-?\d+", text) else f"{value:.12g}"
