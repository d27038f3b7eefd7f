"""Sweeps (-m): one run for each combination, all of them composed and checked before the first.

A name is that of a single run, and behind it what the sweep changes, the seed last, where the
report looks for it:

    bipe pretrain -m encoding=rope,alibi seed=0,1 clip=1,2    rope_clip=1_seed0 ...

What tells names apart already (encoding, a stretch, what an experiment writes into `name`) is not
repeated.

A launcher of Hydra's runs the trials: here, one after the other, or elsewhere
(hydra/launcher=joblib, submitit_local, submitit_slurm). A trial that fails does not end the sweep;
all are named at the end. What a trial came to travels as its return value, since a launcher may run
it in another process.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train import stop
from train.config import Config
from train.errors import EXIT_BUG, EXIT_FAULT, ConfigError, RunError, is_mendable
from train.fit.runs import RESUMES, refuse_claimed
from train.fit.trained_run import stem
from train.launch import hydra_keys
from train.launch.commands import COMMANDS, TRAINS, settled
from train.launch.composition import as_overrides, configuration, named, parsed, whole
from train.launch.run import log_to_stderr, run_command
from train.ranks import rank, several, world
from train.words import Words, loaded

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

# hydra/sweeper=optuna (search.py), by the names of Hydra's Optuna sweeper. n_trials: in all, those
# of earlier starts included. n_jobs: at the same time; more than one needs a launcher. params: what
# is searched, as on the command line. seed: of the sampler; storage: the trials so far.
SEARCH = {
    **{"n_trials": 20, "n_jobs": 1, "seed": 0, "storage": "${out}/search.journal"},
    **{"study_name": "bipe", "direction": "minimize", "params": {}},
}


_SEED = "seed"
_PARAMS = "hydra.sweeper.params."


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One configuration of a sweep. words: its overrides. changes: the swept keys among them.

    composed: its configuration, once it is composed. unnamed: neither words nor YAML name it.
    """

    words: tuple[str, ...]
    changes: Mapping[str, str]
    composed: Config | None = None
    name: str | None = None
    unnamed: bool = False

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.changes.items()) or "the only trial"

    @property
    def config(self) -> Config:
        assert self.composed is not None
        return self.composed

    def named(self, name: str) -> Trial:
        words = (*self.words, f"name='{name}'")
        return replace(self, name=name, words=words, composed=self.config.on({"name": name}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a trial came to. loss: its last validation loss. status: the exit status of a fault."""

    loss: float | None = None
    fault: str | None = None
    status: int = 0


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
        from hydra.core.config_store import ConfigStore

        ConfigStore.instance().store(group="hydra/sweeper", name="optuna", node=dict(SEARCH))
        typed = {word: dict(_params(word)) for word in overrides}
        rest = [word for word, params in typed.items() if not params]
        swept = [word for word in rest if parsed(word).is_sweep_override()]
        if word := next(filter(hydra_keys.is_of_hydra, swept), None):
            raise ConfigError(f"{word}: keys of hydra are of the whole sweep, and have one value")
        master = whole([word for word in rest if word not in swept])
        params = dict(master.hydra.sweeper.get("params") or {})
        for more in typed.values():
            params |= more
        if master.hydra.sweeper.get("max_batch_size") is not None:
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
        return bool(self.master.hydra.runtime.choices.get("hydra/sweeper") == "optuna")

    @property
    def here(self) -> bool:
        """Whether the trials run in this process, one after the other."""
        return bool(self.master.hydra.runtime.choices.get("hydra/launcher") == "basic")

    def combinations(self) -> Iterator[Trial]:
        """Yield the trials, which are not composed yet."""
        last = self.overrides()
        swept = {key for key, override in last.items() if override.is_sweep_override()}
        if key := next((key for key in swept if last[key].is_interval_sweep()), None):
            raise ConfigError(f"{key}: an interval is searched: add hydra/sweeper=optuna")
        lists = [
            [f"{override.get_key_element()}={value}" for value in _values(override)]
            if key in swept
            else [str(override.input_line)]
            for key, override in last.items()
        ]
        for combination in itertools.product(*lists):
            pairs = (word.lstrip("+").partition("=") for word in combination)
            changes = {key: value for key, _, value in pairs if key in swept}
            yield Trial(words=combination, changes=changes)

    def overrides(self) -> dict[str, Override]:
        """Return the last override of each key, of which hydra.sweeper.params come first."""
        last: dict[str, Override] = {}
        for override in map(parsed, self.words):
            last[override.get_key_element().lstrip("+")] = override
        return last

    def composed(self, trial: Trial) -> Trial:
        """Return a trial with its configuration; keys that are swept are for its name to add."""
        fixed = [word for word in trial.words
                 if word.partition("=")[0].lstrip("+~") not in trial.changes]  # fmt: skip
        hydra_config = whole(trial.words)
        config = configuration(hydra_config, COMMANDS[self.command], fixed)
        return replace(trial, composed=config, unnamed=hydra_config.name is None)

    def trials(self, asked: Sequence[Trial], *, endings: Sequence[str] = ()) -> list[Trial]:
        """Compose, check and name trials; nothing is written.

        endings: of the names, where later trials may differ in keys that these share.
        """
        trials = []
        for trial in asked:
            with _named(trial):
                composed = self.composed(trial)
                if self.command in TRAINS:
                    composed = replace(composed, composed=settled(self.command, composed.config))
                else:
                    composed.config.check()
                trials.append(composed)
        if self.command not in TRAINS:
            return trials
        names = trial_names(self.command, trials, endings=endings)
        trials = [trial.named(name) for trial, name in zip(trials, names, strict=True)]
        for trial in trials:
            with _named(trial):
                check_trial(self.command, trial)
        return trials

    def run(self, trials: Sequence[Trial]) -> list[Outcome]:
        """Run the trials by Hydra's launcher; each has an outcome, whatever happened to it."""
        from hydra.core.global_hydra import GlobalHydra
        from hydra.core.plugins import Plugins
        from hydra.types import HydraContext

        from train.fit.runs import MODEL

        loader = GlobalHydra.instance().config_loader()
        callbacks: Any = hydra_keys.callbacks(
            self.master, self.words, allowed=trials[0].config.allowed_targets
        )
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
            name = str(self.master.hydra.runtime.choices.get("hydra/launcher"))
            fault = f"{name} lost a trial, and this one has no model: {str(error) or repr(error)}"
            lost = Outcome(fault=fault, status=EXIT_BUG)
            folders = [Path(trial.config.out) / str(trial.name) for trial in trials]
            return [
                Outcome(loss=_loss(folder)) if (folder / MODEL).exists() else lost
                for folder in folders
            ]
        finally:
            callbacks.on_multirun_end(config=self.master, config_name="config")
        return [_outcome(job) for job in done]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Runs a trial, here or in a process that a launcher started."""

    command: str
    here: bool

    def __call__(self, config: DictConfig) -> Outcome:
        from hydra.core.hydra_config import HydraConfig
        from omegaconf import open_dict

        log_to_stderr()
        try:
            with stop.stopping():
                if self.command in TRAINS and world() is None and several(config.trainer):
                    return self._apart(config)
                with open_dict(config):
                    config.hydra = HydraConfig.get()
                words = list(config.hydra.overrides.task)
                config_of_trial = configuration(config, COMMANDS[self.command], words)
                return Outcome(loss=_loss(run_command(self.command, config_of_trial)))
        except Exception as error:
            if world() is not None:  # the others may be waiting for this process
                raise
            if is_mendable(error):
                return Outcome(fault=str(error), status=EXIT_FAULT)
            return Outcome(fault=traceback.format_exc(), status=EXIT_BUG)
        except BaseException as error:
            if self.here:
                raise
            fault = f"{type(error).__name__}: {error}"
            return Outcome(fault=fault, status=getattr(error, "status", EXIT_BUG))

    def _apart(self, config: DictConfig) -> Outcome:
        """Run a trial of several ranks in processes of its own: they end together on a fault."""
        from hydra.core.hydra_config import HydraConfig

        typed = HydraConfig.get().overrides
        words = [word for word in typed.task if not word.startswith("command=")]
        words += [word for word in typed.hydra if word.startswith("hydra.searchpath=")]
        program = [sys.executable, "-P", "-m", "train.cli", self.command, *words]
        with subprocess.Popen(program) as ranks:
            try:
                status = ranks.wait()
            except BaseException as asked:
                ranks.send_signal(getattr(asked, "signal", signal.SIGTERM))
                raise
        if status == 0:
            return Outcome(loss=_loss(Path(config.out) / str(config.name)))
        fault = f"its ranks ended with exit status {status}; their messages are above"
        return Outcome(fault=fault, status=status if status > 0 else EXIT_BUG)


def report_faults(trials: Sequence[Trial], outcomes: Sequence[Outcome]) -> int:
    """Name the trials that failed; return the exit status of the sweep."""
    failed = [pair for pair in zip(trials, outcomes, strict=True) if pair[1].fault is not None]
    for trial, outcome in failed:
        print(f"bipe: {trial}: {outcome.fault}", file=sys.stderr)
    if not failed:
        return 0
    print(f"bipe: {len(failed)} of {len(trials)} trials failed", file=sys.stderr, flush=True)
    statuses = {outcome.status for _, outcome in failed}
    return statuses.pop() if len(statuses) == 1 else EXIT_BUG


def _values(override: Any) -> Iterator[str]:
    """Yield the values of a sweep as they were typed, else as Hydra writes them."""
    typed = str(override.input_line).partition("=")[2].split(",")
    values = list(override.sweep_string_iterator())
    as_typed = len(typed) == len(values) and not any(map(set("'\"[{()}]").intersection, typed))
    yield from (part.strip() for part in typed) if as_typed else values


def _loss(made: Any) -> float | None:
    """Return the last validation loss of a run."""
    from train.disk.files import read_numbers
    from train.fit.runs import METRICS

    if not isinstance(made, Path) or not (made / METRICS).exists():
        return None
    losses = [row["validation_loss"] for row in read_numbers(made / METRICS)]
    return next((float(loss) for loss in reversed(losses) if loss is not None), None)


def _outcome(done: Any) -> Outcome:
    try:
        outcome = done.return_value
    except Exception as fault:  # outside of the task
        if world() is not None:
            raise
        return Outcome(fault=f"{type(fault).__name__}: {fault}", status=EXIT_BUG)
    assert isinstance(outcome, Outcome)
    return outcome


@contextmanager
def _named(trial: Trial) -> Iterator[None]:
    """Put the trial before the message of what it is refused for."""
    try:
        yield
    except (ConfigError, RunError) as error:
        raise type(error)(f"{trial}: " * bool(trial.changes) + str(error)) from error


# Checks and names of trials


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
        named = (_name(command, trial, set() if endings else shown_already) for trial in trials)
        names = [name + end for name, end in zip_longest(named, endings, fillvalue="")]
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        same = [
            str(trial)
            for trial, trial_name in zip(trials, names, strict=True)
            if trial_name == name
        ]
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


def _name(command: str, trial: Trial, told: set[str]) -> str:
    config, changes = trial.config, trial.changes
    rest = {key: value for key, value in changes.items() if key not in told and key != _SEED}
    if config.name is None or trial.unnamed:
        changed = named("", rest)
        return default_name(command, config, changed=changed, seeded=_SEED in changes)
    base = stem(config.name, config.seed)  # an experiment's, with the seed at its end or without
    end = config.name.removeprefix(base)
    if not end and _SEED in changes and _SEED not in told:
        end = f"_seed{config.seed}"
    return named(base, rest, end)
