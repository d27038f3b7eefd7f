"""Search for the lowest validation loss by Optuna: `-m hydra/sweeper=optuna`.

hydra-optuna-sweeper needs Optuna below 3; this takes today's, with the same ways to write what is
searched: interval(a, b) and range(a, b), with tag(log, ...), and choices a,b,c. The journal is
written as trials end: the same command goes on after a kill, first with the trials that were cut
off. A trial that fails is pruned, so that the sampler keeps away from it, and named at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from train.errors import ConfigError, UserError, as_config_error, nearest, require_package
from train.launch.commands import TRAINS
from train.launch.hydra_keys import SEARCH, is_of_hydra
from train.launch.sweeps.outcomes import Outcome
from train.launch.sweeps.sweep import Sweep, assigned
from train.launch.sweeps.trials import Trial
from train.ranks import world

_WORDS = "bipe words"  # attribute of a study: what it searches, and what is the same in its trials
_SEEDS = 1_000_003  # trials of searches with neighbouring seeds draw apart


def search(made: Sweep) -> tuple[list[Trial], list[Outcome]]:
    """Run trials until there are n_trials; print the best, and return those of this start."""
    require_package("optuna", extra="sweep", needed_by="hydra/sweeper=optuna")
    from optuna.trial import TrialState

    if made.command not in TRAINS or world() is not None:
        raise ConfigError(
            f"hydra/sweeper=optuna is for bipe {', '.join(TRAINS)}, which starts the processes "
            "itself; remove torchrun or srun"
        )
    options = made.master.hydra.sweeper
    for key in set(options) - set(SEARCH):
        raise ConfigError(f"hydra.sweeper.{key} has no effect in bipe; {nearest(str(key), SEARCH)}")
    fixed, space = _parsed(made)
    if name := next((w for w in fixed if w.lstrip("+").startswith("name=") and "${" not in w), ""):
        raise ConfigError(
            f"{name} would be the same for all trials; remove it: names show what a search changes"
        )
    study = _study(options)
    _require_same(study, fixed, space, storage=str(options.storage))
    done: list[tuple[Trial, Outcome]] = []
    for batch in _batches(study, space, options):
        asked = [
            Trial(
                words=(*fixed, *chain(*(assigned(*pair) for pair in params.items()))),
                changes={key.lstrip("+"): _rounded(value) for key, value in params.items()},
                number=number,
            )
            for number, params in batch
        ]
        try:
            trials = made.trials(asked, endings=[f"_trial{number}" for number, _ in batch])
            for trial in trials:
                _require_validation(trial)
        except UserError:
            for number, _ in batch:  # not to be tried again
                study.tell(number, state=TrialState.FAIL)
            raise
        for (number, _), trial, outcome in zip(batch, trials, made.run(trials), strict=True):
            lost = outcome.loss is None or not math.isfinite(outcome.loss)
            study.tell(number, *([None, TrialState.PRUNED] if lost else [outcome.loss]))
            done.append((trial, outcome))
    if study.get_trials(states=(TrialState.COMPLETE,)):
        best = study.best_trial
        best_words = (f"{key.lstrip('+')}={value}" for key, value in best.params.items())
        summary = f"validation loss {best.value:.4f} of {' '.join(best_words)}"
        print(f"best of {len(study.trials)} trials: {summary}", flush=True)
    elif not done:
        print("no trial of the search has a validation loss, and none is left to run", flush=True)
    return [trial for trial, _ in done], [outcome for _, outcome in done]


def _require_validation(trial: Trial) -> None:
    every, steps = trial.config.validate_every, trial.config.steps
    if every is not None and every > steps:
        raise ConfigError(
            f"validate_every must be at most steps ({steps}) for a search of the lowest validation "
            f"loss, was: {every}; null validates at the end"
        )


def _parsed(made: Sweep) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the words that are the same in all trials, and the distribution of each other key."""
    from hydra.core.override_parser.types import Override

    last = made.overrides().values()
    fixed = [str(override.input_line) for override in last if not override.is_sweep_override()]
    space = {}
    for override in filter(Override.is_sweep_override, last):
        key = override.get_key_element()
        with as_config_error(f"{key.lstrip('+')}: "):  # Optuna says why
            space[key] = _distribution(override)
    if not space:
        raise ConfigError("hydra/sweeper=optuna has nothing to search; write key='interval(a, b)'")
    return tuple(fixed), space


def _distribution(override: Any) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    value = override.value()
    value.shuffle = False  # the sampler draws, and the same command must find the same space
    if override.is_choice_sweep():
        return CategoricalDistribution(list(override.sweep_string_iterator()))
    if override.is_range_sweep():
        numbers = sorted(value.range()) or [value.start, value.stop]
        low, high, step = numbers[0], numbers[-1], abs(value.step)
        if isinstance(high, float):  # range(0, 1, 0.3) ends at 0.8999999999999999
            high = float(f"{high:.12g}")
    else:
        low, high, step = value.start, value.end, None
    log = "log" in value.tags
    if all(isinstance(number, int) for number in (low, high, step or 1)):
        return IntDistribution(low, high, log=log, step=step or 1)
    return FloatDistribution(low, high, log=log, step=step)


def _rounded(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _study(options: Any) -> Any:
    """Return the study of a journal or, by its address, of a database; it is made if need be."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    storage, direction = str(options.storage), options.direction
    if direction not in ("minimize", "maximize"):
        raise ConfigError(
            f"hydra.sweeper.direction must be minimize or maximize, was: {options.direction}"
        )
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    trials: Any = storage
    if "://" not in storage:
        Path(storage).parent.mkdir(parents=True, exist_ok=True)
        trials = optuna.storages.JournalStorage(JournalFileBackend(storage))
    name = options.study_name or "bipe"
    study = optuna.create_study(
        study_name=name, storage=trials, direction=direction, load_if_exists=True
    )
    if (before := study.direction.name.lower()) != direction:
        raise ConfigError(
            f"hydra.sweeper.direction must be {before}, as it was in the study {name} of "
            f"{storage}, was: {direction}; another study has another hydra.sweeper.study_name"
        )
    return study


def _require_same(
    study: Any, fixed: Sequence[str], space: Mapping[str, Any], *, storage: str
) -> None:
    """Raise ConfigError for a search of another kind than the one that a study began.

    One all of whose trials were refused has not begun.
    """
    pairs = (word.lstrip("+").partition("=") for word in fixed if not is_of_hydra(word))
    now = {key: value for key, _, value in pairs if key != "out"}  # another path, the same folder
    now |= {key.lstrip("+"): str(values) for key, values in space.items()}
    before = study.user_attrs.get(_WORDS)
    if before is None or all(trial.state.name == "FAIL" for trial in study.trials):
        study.set_user_attr(_WORDS, now)
    elif differing := [key for key in {**before, **now} if before.get(key) != now.get(key)]:
        key = differing[0]
        raise ConfigError(
            f"the search in {storage} had {key}={before.get(key)}, and not {now.get(key)}: repeat "
            "it as it was, or set hydra.sweeper.study_name=NAME to begin another"
        )


def _batches(
    study: Any, space: dict[str, Any], options: Any
) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Yield the next trials as (number, values), first those that a kill has cut off.

    Each has random numbers of its own, so that a search that is resumed goes on as it would have.
    """
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    n_trials, n_jobs = options.n_trials, options.n_jobs
    cut = study.get_trials(states=(TrialState.RUNNING,))
    left = [(trial.number, trial.params) for trial in cut if trial.params.keys() == space.keys()]
    ended = study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
    begun = len(ended) + len(left)  # those that were refused have not begun
    while left or begun < n_trials:
        batch, left = left[:n_jobs], left[n_jobs:]
        while len(batch) < n_jobs and begun < n_trials:
            if options.seed is not None:
                study.sampler = TPESampler(seed=options.seed * _SEEDS + len(study.trials))
            asked = study.ask(space)
            batch.append((asked.number, asked.params))
            begun += 1
        yield batch
