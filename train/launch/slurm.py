"""`launch=slurm`: the same command as a job of Slurm, and a sweep as an array of jobs.

    bipe pretrain experiment=pile_151m_rope launch=slurm launch.nodes=2 launch.devices=8
    bipe pretrain -m seed=0,1,2 launch=slurm launch.partition=gpu launch.parallel=2 --dry-run

srun starts the command once per device (train/ranks.py).
Before the time limit Slurm sends `signal`; the command writes a checkpoint and exits with status
138 (train/stop.py), and the script queues the job again. So it does after SIGTERM (143), by which
jobs are preempted, unless it was scancel. Slurm itself requeues the jobs of a lost node. A job that
starts again goes on with its run, whatever if_exists says: `overwrite` is for the first start.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from train import stop
from train.commands.before.needs import program
from train.config import Config
from train.data.preparing.engines import looks
from train.data.rows.choices import uneven
from train.disk.files import write_whole
from train.errors import ConfigError, MissingPackage, RunError
from train.launch.commands import LAUNCHED, TRAINS, settled
from train.launch.sweeps.trials import Trial, check_trial, default_name
from train.words import Words

EXIT_LOST = 1
_TIME = re.compile(r"\d+(-\d+)?|(\d+-)?\d+:\d\d(:\d\d)?")
_SEXAGESIMAL = 3600  # YAML reads 1:00:00 without quotes as this number
_SIGNAL = re.compile(r"(USR1|TERM)@\d+")  # whose exit status `_end` knows
_DROPPED = re.compile(r"[+~]*(launch|dry_run|command)[.=]")
_JOB_NUMBER = re.compile(r"job (\d+)")
_JOB = "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}_${SLURM_ARRAY_TASK_ID:-0}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """This process."""

    def check(self, config: Config) -> None:
        """Raise ConfigError for a configuration that asks for a job script."""
        if config.dry_run:
            raise ConfigError("dry_run is for bipe prepare and launch=slurm; remove it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """Jobs of Slurm; conf/launch/slurm.yaml explains each value. All nodes must see the folders."""

    nodes: int = 1
    devices: int = 1
    gres: str | None = None
    cpus: int | None = 4
    memory_gb: float | None = None
    time: str | int = "04:00:00"
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    parallel: int | None = None
    signal: str = "USR1@120"
    requeue: int = 100
    sbatch: Mapping[str, Any] = field(default_factory=dict)
    srun: Sequence[str] = ()
    setup: Sequence[str] = ()
    logs: str = "logs"
    wait: bool = False
    poll_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("nodes", "devices", "cpus", "memory_gb", "parallel", "poll_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"launch.{name} must be above 0, was: {value}")
        for name, pattern, rule in (
            ("time", _TIME, "[DAYS-]HOURS:MINUTES:SECONDS, or minutes"),
            ("signal", _SIGNAL, "USR1 or TERM and seconds, such as USR1@120"),
        ):
            if not pattern.fullmatch(str(getattr(self, name))):
                raise ConfigError(f"launch.{name} must be {rule}, was: {getattr(self, name)!r}")
        if isinstance(self.time, int) and self.time >= _SEXAGESIMAL:
            raise ConfigError(
                f"launch.time in minutes must be below {_SEXAGESIMAL}, was: {self.time}; in YAML, "
                'put quotes around HOURS:MINUTES:SECONDS: time: "12:00:00"'
            )

    def check(self, config: Config) -> None:
        """Raise ConfigError for devices or batches that contradict those of the job."""
        for key, option in (("devices", "devices"), ("num_nodes", "nodes")):
            asked, given = config.trainer.get(key, 1), getattr(self, option)
            asked = len(asked) if isinstance(asked, list) else asked
            if str(asked) not in (str(given), "1", "-1", "auto"):  # the last three give way
                raise ConfigError(
                    f"launch=slurm: trainer.{key}={asked} conflicts with launch.{option}={given}; "
                    f"set launch.{option}={asked} and remove trainer.{key}"
                )
        devices, rows = self.nodes * self.devices, config.rows
        shared = {"devices": devices, "context": config.context_parallel}
        if fault := uneven(rows.global_batch, rows.micro_batch, **shared):
            raise ConfigError(f"launch=slurm: {fault}")

    def script(self, command: str, trials: Sequence[Trial], *, name: str) -> str:
        """Return the script of a job, or of an array with one task per trial."""
        job = "%A_%a" if len(trials) > 1 else "%j_0"
        logs, gres = Path(self.logs).absolute(), self.gres or f"gpu:{self.devices}"
        options: dict[str, Any] = {
            "job-name": name,
            "nodes": self.nodes,
            "ntasks-per-node": self.devices,
            "cpus-per-task": self.cpus,
            "mem": None if self.memory_gb is None else f"{round(self.memory_gb * 1024)}MB",
            "time": self.time,
            "signal": self.signal,
            "requeue" if self.requeue else "no-requeue": True,
            "output": f"{logs}/{job}.out",
            "open-mode": "append",
            "gres": None if gres == "none" else gres,
            **{key: getattr(self, key) for key in ("partition", "account", "qos", "constraint")},
        }
        if len(trials) > 1:
            options["array"] = f"0-{len(trials) - 1}%{self.parallel or len(trials)}"
        lines = (
            f"#SBATCH --{key}" + ("" if value is True else f"={shlex.quote(str(value))}")
            for key, value in (options | dict(self.sbatch)).items()
            if value is not None and value is not False
        )
        output = shlex.quote(f"{logs}/{job}_%t.out")
        step = ["srun", "--unbuffered", "--output", output, *map(shlex.quote, self.srun)]
        program = f'{shlex.quote(sys.executable)} -uP -m train.cli {command} "$@"'
        run = " ".join([*step, program])
        return "\n".join(
            ["#!/bin/bash", *lines, *self.setup, *_choose(trials), run, *self._end(), ""]
        )

    def submit(self, command: str, trials: Sequence[Trial], *, name: str) -> str:
        """Submit the job and return its number; RunError if sbatch refuses it."""
        logs = Path(self.logs)
        logs.mkdir(parents=True, exist_ok=True)
        file = logs / f"{name}.sh"
        write_whole(file, self.script(command, trials, name=name))
        done = subprocess.run(["sbatch", str(file)], capture_output=True, text=True)
        if done.returncode or not (number := _JOB_NUMBER.search(done.stdout)):
            message = (done.stderr or done.stdout).strip().rpartition("\n")[2]
            raise RunError(f"launch=slurm: sbatch refused the job: {message}")
        return number[1]

    def _end(self) -> list[str]:
        """Return the last lines of the script: queue again, or note the exit status."""
        status = f"{shlex.quote(str(Path(self.logs).resolve()))}/{_JOB}.status"
        state = 'squeue --noheader --jobs "$SLURM_JOB_ID" --format %T'
        again = f'"${{SLURM_RESTART_COUNT:-0}}" -lt {self.requeue}'
        return [
            "status=$?",
            f'if [ {again} ] && {{ [ "$status" = 138 ] || {{ [ "$status" = 143 ] && '
            f'[ "$({state})" = RUNNING ]; }}; }}; then',
            '  echo "bipe: stopped with status $status and a checkpoint; the job is queued again"',
            '  scontrol requeue "$SLURM_JOB_ID"',
            "else",
            f'  echo "$status" > {status}',
            "fi",
            'exit "$status"',
        ]


def submit_one(command: str, config: Config, *, words: Words) -> int:
    """Check a single configuration and submit it; return the exit status."""
    options = [part for name, value in words.options.items()
               for part in (f"--{name}", *filter(None, [value]))]  # fmt: skip
    trial = Trial(words=(*options, *words.overrides), changes={}, composed=config)
    if command in TRAINS:
        config = settled(command, config)
        trial = replace(trial, composed=config, name=config.name or default_name(command, config))
        check_trial(command, trial)
    return submit(command, [trial])


def submit(command: str, trials: Sequence[Trial]) -> int:
    """Submit checked trials, or print their script; return the exit status."""
    if command not in LAUNCHED:
        cure = "set engine=slurm" if command == "prepare" else "remove it"
        raise ConfigError(f"launch=slurm is for bipe {', '.join(LAUNCHED)}; {cure}")
    config, name = trials[0].config, f"bipe-{command}"
    slurm: Slurm = config.launch.built
    if config.dry_run:
        print(slurm.script(command, trials, name=name))
        return 0
    for check in (program(name, needed_by="launch=slurm") for name in ("sbatch", "squeue")):
        if check.status == "fail":
            raise MissingPackage(f"{check.text}: {check.cure}; --dry-run shows the script")
    job = slurm.submit(command, trials, name=name)
    print(f"job {job} of Slurm, logs in {slurm.logs}")
    for number, trial in enumerate(trials):
        own_job = f"{job}_{number}" if len(trials) > 1 else job
        print(f"  {own_job}: {_place(trial)}")
    print(f"watch it: squeue --jobs {job}, bipe status {_place(trials[0])}; end it: scancel {job}")
    sys.stdout.flush()
    return _wait(slurm, job, trials) if slurm.wait else 0


def _wait(slurm: Slurm, job: str, trials: Sequence[Trial]) -> int:
    """Wait until the jobs have left the queue; return the first status that is not 0."""
    for is_gone in looks(job, seconds=slurm.poll_seconds):
        if is_gone:
            break
        stop.check(f"job {job} is still running: squeue --jobs {job}; scancel {job} ends it")
    first_status = 0
    for number, trial in enumerate(trials):
        path = Path(slurm.logs) / f"{job}_{number}.status"
        status = int(path.read_text()) if path.exists() else None
        if status != 0:
            reason = "was lost or cancelled" if status is None else f"exit status {status}"
            print(f"bipe: {_place(trial)}: {reason}; {path.with_suffix('')}*.out", file=sys.stderr)
            first_status = first_status or status or EXIT_LOST
    return first_status


def _place(trial: Trial) -> str:
    return f"{trial.config.out}/{trial.name}" if trial.name else trial.config.out


def _choose(trials: Sequence[Trial]) -> list[str]:
    """Return lines that set the words of the task of the array, or of the only one."""
    kept = ([word for word in trial.words if not _DROPPED.match(word)] for trial in trials)
    cases = [
        f"  {number}) set -- {shlex.join([*words, 'launch=local'])} ;;"
        for number, words in enumerate(kept)
    ]
    return [
        "trap : TERM USR1  # srun's processes receive them too: wait for these",
        'case "${SLURM_ARRAY_TASK_ID:-0}" in',
        *cases,
        "esac",
        'if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then set -- "$@" if_exists=auto; fi',
    ]
