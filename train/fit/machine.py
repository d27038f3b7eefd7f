"""The machine that a run is on: what it is, and which precision is fast there."""

import datetime
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from bipe import __version__


def fast_precision() -> str:
    """Return "bf16-mixed" if bfloat16 is native; emulated on a CPU, it is slower than float32."""
    if torch.cuda.is_available():
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16-mixed" if native else "32-true"


def environment() -> dict[str, Any]:
    """Return the versions and the machine, to be stored with every result."""
    return {
        "bipe": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "lightning", "spacy", "tokenizers")},
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
