"""A trial of a sweep: one configuration, its checks and its name.

A name is that of a single run, and behind it what the sweep changes, the seed last, where the
report looks for it:

    bipe pretrain -m encoding=rope,alibi seed=0,1 clip=1,2    rope_clip=1_seed0 ...

What tells names apart already (encoding, a stretch, what an experiment writes into `name`) is not
repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from train.config import Config
from train.errors import ConfigError
from train.fit.runs import RESUMES, refuse_claimed
from train.fit.trained_run import stem
from train.launch.commands import COMMANDS
from train.launch.composition import named
from train.launch.reader import verbatim
from train.ranks import rank
from train.words import loaded

_SEED = "seed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One configuration of a sweep. words: its overrides. changes: the swept keys among them.

    number: its place in the sweep, `${hydra:job.num}`.
    composed: its configuration, once it is composed. unnamed: neither words nor YAML name it.
    """

    words: tuple[str, ...]
    changes: Mapping[str, str]
    number: int = 0
    composed: Config | None = None
    name: str | None = None
    unnamed: bool = False

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.changes.items()) or "the only trial"

    @property
    def config(self) -> Config:
        assert self.composed is not None
        return self.composed

    def with_name(self, name: str) -> Trial:
        words = (*self.words, f"name={verbatim(name)}")
        return replace(self, name=name, words=words, composed=self.config.on({"name": name}))


def check_trial(command: str, trial: Trial) -> None:
    """Raise what the trial would be refused for, as far as it is known before it runs."""
    from train.commands import pretrain

    config = trial.config
    pretrain.check_trial(config)
    config.launch.built.check(config)
    # The other commands complete the configuration before they compare it.
    comparable = command == "pretrain" or config.if_exists not in RESUMES
    if rank() == 0 and comparable:  # the other processes may come when the first run is there
        folder = Path(config.out) / str(trial.name)
        refuse_claimed(folder, if_exists=config.if_exists, config=config.as_plain())


def trial_names(command: str, trials: Sequence[Trial], *, endings: Sequence[str]) -> list[str]:
    """Return a name of its own for each trial; ConfigError if the user's `name` gives fewer.

    endings: of a search, whose later trials are not known; then a name holds all that it changes.
    """
    names = [trial.config.name or default_name(command, trial.config) for trial in trials]
    if not any(word.lstrip("+").startswith("name=") for trial in trials for word in trial.words):
        # Keys whose values the names show already, as that of an encoding.
        shown_already = {key for key in trials[0].changes if _tells_apart(key, trials, names)}
        left_out = set() if endings else shown_already
        own = (_name(command, trial, left_out) for trial in trials)
        names = [name + end for name, end in zip_longest(own, endings, fillvalue="")]
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        same = [str(trial) for trial, each in zip(trials, names, strict=True) if each == name]
        raise ConfigError(
            f"name={name} would be the same for {count} trials ({'; '.join(same)}); each must "
            "differ from the others, and name be left out: names show what the sweep changes"
        )
    return names


def default_name(command: str, config: Config, *, changed: str = "", seeded: bool = False) -> str:
    """Return the name that a command gives to a run."""
    find = loaded(f"{COMMANDS[command].module}:default_name")
    return str(find(config, changed=changed, seeded=seeded))


def _tells_apart(key: str, trials: Sequence[Trial], names: Sequence[str]) -> bool:
    """Return whether trials that differ by this key alone have different names."""
    rests = [tuple(pair for pair in t.changes.items() if pair[0] != key) for t in trials]
    values = {(rest, trial.changes[key]) for rest, trial in zip(rests, trials, strict=True)}
    return len(values) == len({*zip(rests, names, strict=True)})


def _name(command: str, trial: Trial, shown: set[str]) -> str:
    config, changes = trial.config, trial.changes
    rest = {key: value for key, value in changes.items() if key not in shown and key != _SEED}
    if config.name is None or trial.unnamed:
        changed = named("", rest)
        return default_name(command, config, changed=changed, seeded=_SEED in changes)
    base = stem(config.name, config.seed)  # an experiment's, with the seed at its end or without
    end = config.name.removeprefix(base)
    if not end and _SEED in changes and _SEED not in shown:
        end = f"_seed{config.seed}"
    return named(base, rest, end)
