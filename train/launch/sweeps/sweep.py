"""Sweeps (-m): one run for each combination, all of them composed and checked before the first.

A launcher of Hydra's runs the trials: here, one after the other, or elsewhere
(hydra/launcher=joblib, submitit_local, submitit_slurm). A trial that fails does not end the sweep;
all are named at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train.errors import EXIT_BUG, ConfigError, RunError, as_config_error
from train.fit.runs import MODEL
from train.launch import help_pages, hydra_keys
from train.launch.commands import COMMANDS, TRAINS, settled
from train.launch.composition import as_overrides, configuration, described, parsed, whole
from train.launch.sweeps.outcomes import Outcome, Task, last_loss, outcome_of
from train.launch.sweeps.trials import Trial, check_trial, trial_names
from train.ranks import world
from train.words import Words

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

_PARAMS = "hydra.sweeper.params."
_BASIC = "BasicSweeper"  # of Hydra


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A composed sweep.

    master: Hydra's configuration without what is swept. words: all overrides, those of
    hydra.sweeper.params first.
    """

    command: str
    master: DictConfig
    words: tuple[str, ...]

    @classmethod
    def of(cls, words: Words, overrides: Sequence[str]) -> Sweep:
        """Compose what the trials share."""
        typed = [(word, dict(_params(word))) for word in overrides]
        rest = [word for word, params in typed if not params]
        swept = [word for word in rest if parsed(word).is_sweep_override()]
        if word := next(filter(hydra_keys.is_of_hydra, swept), None):
            raise ConfigError(f"{word}: keys of hydra are of the whole sweep, and have one value")
        master = whole([word for word in rest if word not in swept])
        section = master.hydra.sweeper or {}
        params = dict(section.get("params") or {})
        for _, more in typed:
            params |= more
        sweeper = str(section.get("_target_", _BASIC))  # our search names none
        if sweeper.rpartition(".")[2] != _BASIC:
            raise ConfigError(f"hydra/sweeper must be basic or optuna in bipe, was: {sweeper}")
        if section.get("max_batch_size") is not None:
            raise ConfigError(
                "hydra.sweeper.max_batch_size has no effect in bipe: hydra/launcher=joblib "
                "hydra.launcher.n_jobs=N runs N trials at a time; remove it"
            )
        of_params = as_overrides((f"{key}={value}" for key, value in params.items()), many=True)
        sweep = cls(command=words.command.name, master=master, words=(*of_params, *rest))
        if world() is not None and not sweep.here:
            raise ConfigError(
                "hydra/launcher must be basic when torchrun or srun started the processes: they "
                "run the trials together, one after the other; remove it"
            )
        return sweep

    @property
    def searches(self) -> bool:
        return self._choice("hydra/sweeper") == "optuna"

    @property
    def here(self) -> bool:
        """Whether the trials run in this process, one after the other."""
        return self._choice("hydra/launcher") == "basic"

    def _choice(self, group: str) -> str:
        return str(self.master.hydra.runtime.choices.get(group))

    def combinations(self) -> Iterator[Trial]:
        """Yield the trials, which are not composed yet."""
        last = self.overrides()
        swept = {key for key, override in last.items() if override.is_sweep_override()}
        if key := next((key for key in swept if last[key].is_interval_sweep()), None):
            raise ConfigError(f"{key}: an interval is searched: add hydra/sweeper=optuna")
        lists = [
            [assigned(override.get_key_element(), value) for value in _values(override)]
            if key in swept
            else [[str(override.input_line)]]
            for key, override in last.items()
        ]
        for number, each in enumerate(itertools.product(*lists)):
            combination = tuple(itertools.chain(*each))
            pairs = (word.lstrip("+~").partition("=") for word in combination)
            changes = {key: value or "null" for key, _, value in pairs if key in swept}
            yield Trial(words=combination, changes=changes, number=number)

    def overrides(self) -> dict[str, Override]:
        """Return the last override of each key, of which hydra.sweeper.params come first."""
        last: dict[str, Override] = {}
        for override in map(parsed, self.words):
            last[override.get_key_element().lstrip("+")] = override
        return last

    def composed(self, trial: Trial) -> Trial:
        """Return a trial with its configuration; keys that are swept are for its name to add."""
        hydra_config = whole(trial.words, number=trial.number)
        command, swept = COMMANDS[self.command], trial.changes
        config = configuration(hydra_config, command, trial.words, swept=swept)
        return replace(trial, composed=config, unnamed=hydra_config.name is None)

    def trials(self, asked: Sequence[Trial], *, endings: Sequence[str] = ()) -> list[Trial]:
        """Compose, check and name trials; nothing is written.

        endings: of the names, where later trials may differ in keys that these share.
        """
        trials = []
        for trial in asked:
            with _naming(trial):
                composed = self.composed(trial)
                if self.command in TRAINS:
                    composed = replace(composed, composed=settled(self.command, composed.config))
                else:
                    composed.config.check()
                trials.append(composed)
        if self.command not in TRAINS:
            return trials
        trials = self.with_names(trials, endings=endings)
        for trial in trials:
            with _naming(trial):
                check_trial(self.command, trial)
        return trials

    def with_names(self, trials: Sequence[Trial], *, endings: Sequence[str] = ()) -> list[Trial]:
        """Return composed trials with their names. endings: see `trials`."""
        names = trial_names(self.command, trials, endings=endings)
        return [trial.with_name(name) for trial, name in zip(trials, names, strict=True)]

    def run(self, trials: Sequence[Trial]) -> list[Outcome]:
        """Run the trials by Hydra's launcher; each has an outcome, whatever happened to it."""
        from hydra.core.global_hydra import GlobalHydra
        from hydra.core.plugins import Plugins
        from hydra.types import HydraContext

        loader = GlobalHydra.instance().config_loader()
        callbacks: Any = hydra_keys.callbacks(
            self.master, self.words, allowed=trials[0].config.allowed_targets
        )
        with as_config_error("hydra.launcher: ", Exception):
            launcher = Plugins.instance().instantiate_launcher(
                hydra_context=HydraContext(config_loader=loader, callbacks=callbacks),
                task_function=Task(command=self.command, here=self.here),
                config=self.master,
            )
        callbacks.on_multirun_start(config=self.master, config_name="config")
        try:
            # The launcher adds the words for Hydra's own section itself.
            words = [[w for w in trial.words if not hydra_keys.is_of_hydra(w)] for trial in trials]
            done = launcher.launch(words, initial_job_idx=0)
        except Exception as error:
            fault = (
                f"{self._choice('hydra/launcher')} lost a trial, and this one has no model: "
                f"{str(error) or repr(error)}"
            )
            lost = Outcome(fault=fault, status=EXIT_BUG)
            folders = [Path(trial.config.out) / str(trial.name) for trial in trials]
            return [
                Outcome(loss=last_loss(folder)) if (folder / MODEL).exists() else lost
                for folder in folders
            ]
        finally:
            callbacks.on_multirun_end(config=self.master, config_name="config")
        return [outcome_of(job) for job in done]


def assigned(key: str, value: Any) -> Sequence[str]:
    """Return the words for a value of a sweep; a group is null by ~GROUP."""
    is_group = key.partition("@")[0] in help_pages.groups()
    if is_group and str(value).startswith("{"):
        return described(f"{key}={value}")
    return [f"~{key}" if is_group and str(value) == "null" else f"{key}={value}"]


def _params(word: str) -> Iterator[tuple[str, str]]:
    """Yield what a word for hydra.sweeper.params sweeps, as it would be typed without."""
    key, _, text = word.lstrip("+").partition("=")
    if f"{key}.".startswith(_PARAMS):
        override = parsed(word)
        value = text if override.is_sweep_override() else override.value()
        if key != _PARAMS.rstrip("."):
            yield key.removeprefix(_PARAMS), str(value)
        elif isinstance(value, Mapping):
            yield from ((str(name), str(part)) for name, part in value.items())


def _values(override: Any) -> Iterator[str]:
    """Yield the values of a sweep as they were typed, else as Hydra writes them."""
    typed = str(override.input_line).partition("=")[2].split(",")
    values = list(override.sweep_string_iterator())
    as_typed = len(typed) == len(values) and not any(map(set("'\"[{()}]").intersection, typed))
    yield from (part.strip() for part in typed) if as_typed else values


@contextmanager
def _naming(trial: Trial) -> Iterator[None]:
    """Put the trial before the message of what it is refused for."""
    try:
        yield
    except (ConfigError, RunError) as error:
        if not trial.changes:
            raise
        raise type(error)(f"{trial}: {error}") from error
