"""The machine that a run is on: what it is, its devices, and which precision is fast there."""

import datetime
import json
import logging
import os
import platform
import re
import resource
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from bipe import __version__
from bipe.build import TARGET
from train.disk.files import read_json, user_state, write_whole
from train.errors import ConfigError, UserError
from train.fit.flops import product_rate
from train.fit.runs import CONFIG, read_config
from train.ranks import World, in_slurm, several, world

if TYPE_CHECKING:
    from lightning.fabric.plugins.environments import ClusterEnvironment

log = logging.getLogger("bipe")
T = TypeVar("T")

_GIT_S = 10  # seconds that git may take, each time
_COMMIT = re.compile("[0-9a-f]{40,64}")
_GAIN = 1.1  # of bfloat16 products, so that they pay for the casts of autocast
_RATES = "products.json"  # in the user's folder: rates by device, threads, torch and width
# Files of a control group, version 2 or 1: its limit, what it takes, and the part that is spare.
_CONTROLS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
_UNREADABLE = (OSError, ValueError, IndexError)
_STRATEGIES = "train.fit.parallel.sharded"
_ALL = (-1, "-1", "auto")  # values of trainer.devices that leave the number to the machine


def fast_precision(width: int = 768, *, alone: bool = True) -> str:
    """Return "bf16-mixed" where bfloat16 is native and products in it are faster, else "32-true".

    A CPU may have it and take twice the time of float32, so products as in a model of this width
    are timed there. alone: False for one of several processes, which must all choose the same.
    """
    native = native_bfloat16()
    if torch.cuda.is_available() or not native or not alone:
        return "bf16-mixed" if native else "32-true"
    full, half = product_rates(width)
    chosen = "bf16-mixed" if half > _GAIN * full else "32-true"
    why = f"products run at {rate(full)} in float32 and at {rate(half)} in bfloat16"
    log.info("precision: %s, since %s", chosen, why)
    return chosen


def native_bfloat16() -> bool:
    """Return whether the GPU, or else the CPU, computes in bfloat16 without emulation."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def rate(flops: float) -> str:
    return f"{flops / 1e9:,.{0 if flops > 1e10 else 1}f} GFLOP/s"


def product_rates(
    width: int = 768, *, device: str = "cpu", anew: bool = False
) -> tuple[float, float]:
    """Return the operations per second of products in float32 and in bfloat16.

    They are measured once for each width and kept in the user's folder, so that all runs of a
    comparison decide alike. anew: forget what is kept.
    """
    name = torch.cuda.get_device_name() if device == "cuda" else noted(_cpu_name)
    key = f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}, width {width}"
    place = noted(lambda: user_state() / _RATES)
    rates = {} if anew or place is None else read_json(place) or {}
    match rates.get(key):
        case [float(full), float(half)]:
            return full, half
    dtypes = (torch.float32, torch.bfloat16)
    full, half = (product_rate(dtype, width=width, device=device) for dtype in dtypes)
    try:
        place = place or user_state() / _RATES
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps(rates | {key: [full, half]}, indent=1) + "\n")
    except (OSError, UserError, RuntimeError) as fault:  # a full disk, a home that is read-only
        _tell(f"speeds of products cannot be kept, and other runs may decide otherwise: {fault}")
    return full, half


def precision_of(asked: Any, *, resumed: Path | None, width: int = 768, alone: bool = True) -> str:
    """Return the precision of a run; auto: that with which it began, or else the fast one.

    resumed: the folder of the run, if it may be resumed. width, alone: see `fast_precision`. Raises
    ConfigError for other values.
    """
    names = {None: "32-true", 32: "32-true", "32": "32-true", "bf16": "bf16-mixed"}
    names |= {name: name for name in ("32-true", "bf16-mixed", "auto")}
    if asked not in names:
        raise ConfigError(
            "trainer.precision must be auto, 32-true or bf16-mixed (weights stay in float32), "
            f"was: {asked}"
        )
    if names[asked] != "auto":
        return names[asked]
    if resumed is not None and (resumed / CONFIG).is_file():
        with suppress(UserError):  # what cannot be read is refused by the claim of the folder
            began = read_config(resumed).get("trainer")
            first = began.get("precision") if isinstance(began, dict) else None
            if names.get(first, "auto") != "auto":
                return names[first]
    return fast_precision(width, alone=alone)


def placed(trainer: Mapping[str, Any], world: World | None) -> dict[str, Any]:
    """Return the trainer's section with the devices and nodes of the processes that were started.

    Its defaults (one device, or all of them) give way; other numbers must agree. Raises ConfigError
    if they do not, and for all GPUs of a machine that has none.
    """
    devices, nodes = trainer.get("devices", "auto"), trainer.get("num_nodes", 1)
    if world is not None:
        for key, value, default, started in (
            ("devices", devices, (1, "1", *_ALL), world.local),
            ("num_nodes", nodes, (1,), world.nodes),
        ):
            if value not in (started, str(started), *default):
                raise ConfigError(
                    f"trainer.{key} must be {started}, since {world.by} started {world.size} "
                    f"processes on {world.nodes} nodes, was: {value}; remove it"
                )
        return {**trainer, "devices": world.local, "num_nodes": world.nodes}
    forced = trainer.get("accelerator") == "cpu"
    if devices in (-1, "-1") and (forced or not torch.accelerator.is_available()):
        raise ConfigError(
            "trainer.devices must be a number of processes on a CPU, was: -1 (all GPUs, but there "
            "are none); set trainer.devices=1, or their number"
        )
    return dict(trainer)


def patient(trainer: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """Return the trainer's section with the seconds in which all ranks must meet."""
    strategy = trainer.get("strategy", "auto")
    if strategy in ("ddp_spawn", "ddp_fork", "ddp_notebook"):
        raise ConfigError(
            f"trainer.strategy must be ddp, since the command starts the ranks, was: {strategy}"
        )
    if strategy == "ddp" or (strategy == "auto" and several(trainer)):
        strategy = {TARGET: f"{_STRATEGIES}.Replicated"}
    if isinstance(strategy, Mapping) and str(strategy.get(TARGET)).startswith(_STRATEGIES):
        return {**trainer, "strategy": {"timeout": float(timeout), **strategy}}
    return dict(trainer)


def free_memory(device: torch.device, *, processes: int = 1) -> int | None:
    """Return the bytes that a process may still take on a device; None if that is not known.

    processes: those that share the memory of this machine, if the device is its CPU.
    """
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return noted(lambda: torch.cuda.mem_get_info(device)[0] + unused)
    sizes = [*_host_memory()] if device.type == "cpu" else []
    return max(0, min(sizes)) // processes if sizes else None


def _host_memory() -> Iterator[int]:
    """Yield what the machine, the limit of the process and its control groups leave of memory."""
    with suppress(*_UNREADABLE):
        yield 1024 * _field(Path("/proc/meminfo"), "MemAvailable:")
    with suppress(*_UNREADABLE, AttributeError):  # no more than the machine has
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(*_UNREADABLE):
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            yield limit - 1024 * _field(Path("/proc/self/status"), "VmSize:")
    for folder in _control_groups():
        for most, taken, spare in _CONTROLS:
            with suppress(*_UNREADABLE):  # "max" is no limit
                left = int((folder / most).read_text()) - int((folder / taken).read_text())
                yield left + _field(folder / "memory.stat", spare)


def _control_groups() -> Iterator[Path]:
    """Yield the folders of the control groups that this process is in, up to the root."""
    with suppress(*_UNREADABLE):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            if controllers in ("", "memory"):
                root = Path("/sys/fs/cgroup", controllers)
                inside = root / place.strip("/")
                yield from (
                    group for group in (inside, *inside.parents) if group.is_relative_to(root)
                )


def _field(path: Path, name: str) -> int:
    """Return the number behind a name in a file of the kernel's."""
    words = path.read_text().split()
    return int(words[words.index(name) + 1])


def noted(find: Callable[[], T]) -> T | None:
    """Return what is only recorded; None if it cannot be found out, which must cost no results."""
    try:
        return find()
    except Exception:
        return None


def known_version(package: str) -> str | None:
    return __version__ if package == "bipe" else noted(lambda: version(package))


def revision() -> dict[str, Any]:
    """Return the commit of the checkout that runs, and whether its files differ from it."""
    here = Path(__file__)
    git = partial(_output, "git", "-C", str(here.parent))
    tracked = git("ls-files", "--error-unmatch", here.name)  # None: installed, or no git
    commit = None if tracked is None else git("rev-parse", "HEAD")
    if commit is None or not _COMMIT.fullmatch(commit):
        _tell("the commit is not recorded: git cannot find it, or bipe is no checkout here")
        return {"commit": None, "changed": None}
    changed = git("status", "--porcelain", "-uno")
    return {"commit": commit, "changed": None if changed is None else bool(changed)}


@cache
def _tell(text: str) -> None:
    log.info(text)


def _output(*words: str) -> str | None:
    how: Any = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "check": True}
    done = noted(lambda: subprocess.run(words, timeout=_GIT_S, errors="replace", **how))
    return None if done is None else done.stdout.strip()


def environment() -> dict[str, Any]:
    facts = {
        "bipe": __version__,
        **revision(),
        "python": platform.python_version(),
        **{name: known_version(name) for name in ("torch", "lightning", "spacy", "tokenizers")},
        "platform": noted(platform.platform),
        "cpu": noted(_cpu_name),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": noted(lambda: torch.cuda.get_device_name() if torch.cuda.is_available() else None),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    if unknown := [key for key in ("python", "torch", "platform", "cpu") if not facts[key]]:
        _tell(f"not recorded, since it cannot be found out: {', '.join(unknown)}")
    return facts


def _cpu_name() -> str:
    with suppress(*_UNREADABLE):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def cluster() -> Iterator["ClusterEnvironment"]:
    """Yield how processes of a Slurm job find each other; Lightning must not requeue the job."""
    # Lightning requires SLURM_NTASKS_PER_NODE, which `srun --ntasks 2` does not set.
    from lightning.fabric.plugins.environments import LightningEnvironment, SLURMEnvironment

    started = world()
    if started is not None and started.by == "srun":
        os.environ["SLURM_NTASKS_PER_NODE"] = str(started.local)
        os.environ["SLURM_NNODES"] = str(started.nodes)
        yield SLURMEnvironment(auto_requeue=False)
    elif started is None and in_slurm():
        yield LightningEnvironment()
