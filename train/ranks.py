"""The processes of one run: those that torchrun or srun started, or that a command starts itself.

    torchrun --nproc-per-node 2 -m train.cli pretrain ...
    srun --ntasks 2 bipe pretrain ...
    bipe pretrain trainer=ddp trainer.devices=2

All three are the same run. In the third the command starts them by torch's own agent, which is what
torchrun calls: it passes signals on, ends the other ranks when one has died, and says which. Ranks
on a machine that is lost are missed by the others after `rank_timeout`, in a collective.

Imports nothing heavy: the command line asks before it prints.
"""

import logging
import os
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from train import stop
from train.errors import EXIT_BUG, ConfigError, RunError, UserError, is_mendable

_INTERACTIVE = ("bash", "interactive")  # names of Slurm's jobs in which a user types commands
START = "spawn"  # how processes are started, see multiprocessing
EXIT_LOST = 75  # EX_TEMPFAIL: run it again
_SHUTDOWN_S = 3600  # seconds for ranks to end by themselves once they are asked to
_PATIENCE_S = 5.0  # seconds in which the agent ends the others of a dead rank
_AGENT = ("torch.distributed.elastic", "torch.multiprocessing")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Processes that were started together. local: those of each node. by: what started them."""

    size: int
    local: int
    by: str

    @property
    def nodes(self) -> int:
        return self.size // self.local


def world(environ: Mapping[str, str] = os.environ) -> World | None:
    """Return the processes started together with this one; None if it is alone, or starts them.

    Raises ConfigError for a job script of several tasks that forgets srun, and for nodes with
    unequal numbers of processes.
    """
    if "TORCHELASTIC_RUN_ID" in environ:
        by, size = "torchrun", int(environ.get("WORLD_SIZE", "1"))
        local = int(environ.get("LOCAL_WORLD_SIZE", size))
    elif in_slurm(environ):
        by, size = "srun", int(environ["SLURM_NTASKS"])
        nodes = int(environ.get("SLURM_STEP_NUM_NODES") or environ.get("SLURM_NNODES") or 1)
        local = size // nodes if size % nodes == 0 else 0
    else:
        return None
    if size < 2:
        return None
    if by == "srun" and environ.get("ENVIRONMENT") == "BATCH" and "SLURM_STEP_ID" not in environ:
        raise ConfigError(
            f"the job has {size} tasks, but its script starts one process; use: srun bipe ..."
        )
    if not local or size % local:
        raise ConfigError(
            f"{by} must start the same number of processes on each node, was: {size} on "
            f"{environ.get('SLURM_NNODES', 'several')} nodes"
        )
    return World(size=size, local=local, by=by)


def in_slurm(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process is a task of a Slurm job, and not of a shell inside one."""
    return "SLURM_NTASKS" in environ and environ.get("SLURM_JOB_NAME") not in _INTERACTIVE


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def several(trainer: Mapping[str, Any]) -> bool:
    devices = trainer.get("devices", 1)
    if devices in (-1, "-1", "auto"):
        import torch

        return torch.accelerator.device_count() > 1 and trainer.get("accelerator") != "cpu"
    return str(devices) != "1" or trainer.get("num_nodes", 1) != 1


def to_start(trainer: Mapping[str, Any]) -> int:
    """Return the number of ranks that a command is to start; 0 if it trains in this process.

    trainer: its section. Raises ConfigError for what only torchrun or srun can start.
    """
    if not several(trainer) or world() is not None:
        return 0
    devices, nodes = trainer.get("devices", 1), trainer.get("num_nodes", 1)
    if nodes != 1:
        raise ConfigError(
            f"trainer.num_nodes={nodes} needs processes on each node: start the command by srun, "
            f"or on each node by torchrun --nnodes {nodes} --nproc-per-node N "
            "--rdzv-backend c10d --rdzv-endpoint HOST:PORT -m train.cli pretrain ..."
        )
    if devices in (-1, "-1", "auto"):
        import torch

        return torch.accelerator.device_count()
    if not str(devices).isdecimal():
        raise ConfigError(
            f"trainer.devices must be a number of devices, or -1 for all, was: {devices}; "
            "CUDA_VISIBLE_DEVICES chooses among them"
        )
    return int(devices)


class RankFault(UserError):
    """What ended a rank: its message is that of the user's error."""


class RankEnded(RunError):
    """A rank that has ended too early. status: that of the command."""

    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(text)
        self.status = status


def start_ranks(work: Callable[..., Any], *given: Any, count: int) -> Any:
    """Call a function of a module in `count` ranks; return what rank 0 does.

    Raises what ended them: Stopped for a signal, RankEnded for a rank that has died or failed.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher import LaunchConfig, elastic_launch

    for name in list(logging.root.manager.loggerDict):
        if name.startswith(_AGENT):  # it would tell what is told here
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with tempfile.TemporaryDirectory(prefix="bipe-ranks-") as place, stop.deferred():
        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=count, max_restarts=0,
            run_id=uuid.uuid4().hex, rdzv_backend="c10d", rdzv_endpoint="localhost:0",
            local_addr="localhost", start_method=START, shutdown_timeout=_SHUTDOWN_S,
            signals_to_handle=",".join(each.name for each in stop.handled()),
            logs_specs=DefaultLogsSpecs(log_dir=place),
        )  # fmt: skip
        try:
            results = elastic_launch(config, rank_of_agent)(work, *given)
        except SignalException as end:
            raise stop.Stopped(end.sigval, None) from None  # a rank has said it
        except ChildFailedError as fault:
            raise _ended(fault) from None
        finally:
            stop.heard_again()
    return results[0]


def rank_of_agent(work: Callable[..., Any], *given: Any) -> Any:
    """Do the work as one of several ranks, and return what it returns; exit if it is stopped."""
    with stop.stopping():
        try:
            return work(*given)
        except stop.Stopped as stopped:
            if stopped.text is not None:  # else another rank says it
                stop.tell(f"bipe: {stopped}")
            # Whoever returns would wait for the agent, and that, if it was asked to stop, for us.
            raise SystemExit(stopped.status) from None
        except Exception as error:
            mendable = is_mendable(error)
            if rank() or not mendable:
                _leave_if_another_died()
            if mendable:
                raise RankFault(str(error)) from error
            raise


def _leave_if_another_died() -> None:
    """End this rank without a word if its error comes from the end of another one."""
    limit = time.monotonic() + _PATIENCE_S
    while time.monotonic() < limit:
        if stop.requested() is not None:  # by the agent
            os._exit(EXIT_LOST)
        time.sleep(0.1)


def _ended(fault: Any) -> BaseException:
    """Return what to raise for the first rank that has ended too early."""
    number, failure = fault.get_first_failure()
    who = f"rank {number} (pid {failure.pid})"
    others = "the other ranks were ended"
    again = "Run the same command again to resume from the last checkpoint"
    if failure.exitcode < 0:
        name = signal.Signals(-failure.exitcode).name
        return RankEnded(f"{who} was killed by {name}; {others}. {again}", status=EXIT_LOST)
    if failure.exitcode - 128 in stop.SIGNALS:
        return stop.Stopped(failure.exitcode - 128, None)
    message = failure.error_file_data.get("message") if failure.error_file_data else None
    if not isinstance(message, Mapping):
        return RankEnded(f"{who} ended with status {failure.exitcode}; {others}", status=EXIT_LOST)
    kind, _, text = str(message["message"]).partition(": ")
    if kind == RankFault.__name__:
        return ConfigError(text) if number == 0 else RankEnded(f"{who}: {text}", status=2)
    shown = message.get("extraInfo", {}).get("py_callstack", "")
    return RankEnded(f"{who} ended by an error; {others}\n{shown.rstrip()}", status=EXIT_BUG)


def rank(environ: Mapping[str, str] = os.environ) -> int:
    """Return the number of this process among all of its run; 0 if it is alone."""
    for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"):
        if environ.get(name, "").isdecimal() and (name != "SLURM_PROCID" or in_slurm(environ)):
            return int(environ[name])
    return 0
