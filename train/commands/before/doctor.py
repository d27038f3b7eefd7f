"""`bipe doctor [COMMAND key=value ...]`: check this machine, and whether it can run a study.

    bipe doctor                                         # the machine
    bipe doctor scrolls task=qmsum checkpoint=RUN       # also what this study needs

Prints one line per check (ok, warn, fail) and how to fix it. Exit status 1 if a check fails.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import torch
from rich.console import Console
from rich.markup import escape

from segmenters.wording import counted
from train.commands.before.needs import Finding, compiler, grammars, needs, warned
from train.config import Config
from train.errors import EXIT_FAILED_CHECK, install_command
from train.fit.flops import product_rate
from train.fit.machine import environment, fast_precision, native_bfloat16, product_rates, rate
from train.ranks import cores

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
_MEGABYTE, _WRITTEN = 1 << 20, 32  # megabytes written to measure a disk
_LITTLE, _SLOW = 5e9, 50e6  # bytes free, bytes per second: below these a disk is warned of
# Optional packages by extra: the module that shows that it is installed.
_EXTRAS = {
    "scrolls": "rouge_score",
    "tensorboard": "tensorboard",
    "trackio": "trackio",
    "sweep": "optuna",
    "ray": "ray",
    "demo": "bible",
    "sentencepiece": "sentencepiece",
    "thai": "pythainlp",
}


def doctor(config: Config | None, *, study: str, options: Mapping[str, str]) -> int:
    """Check the machine, and what a study needs; print it and return the exit status."""
    findings = list(_machine(config))
    if config is not None:
        findings += needs(config, command=study)
    if "json" in options:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        _print(findings)
    return EXIT_FAILED_CHECK if any(finding.status == "fail" for finding in findings) else 0


def _machine(config: Config | None) -> Iterator[Finding]:
    facts = environment()
    names = ("bipe", "python", "torch", "lightning", "spacy", "tokenizers")
    versions = ", ".join(f"{name} {facts[name] or 'unknown'}" for name in names)
    yield Finding("versions", "ok", versions)
    yield Finding("system", "ok", f"{facts['platform']}, {facts['cpu']}")
    yield _devices()
    yield _threads()
    yield _precision()
    yield compiler()
    yield disk("out", Path(config.out if config is not None else "runs"))
    yield disk("TMPDIR", Path(tempfile.gettempdir()))
    yield grammars(needed_by="code cut by statements (granularity=logical)")
    for extra, module in _EXTRAS.items():
        if find_spec(module) is not None:
            yield Finding(extra, "ok", f"{module} is installed (optional)")
        else:
            text = f"{module} is not installed (optional)"
            yield Finding(extra, "ok", text, install_command(extra))


def _devices() -> Finding:
    if torch.cuda.is_available():
        gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        text = ", ".join(f"{gpu.name} ({gpu.total_memory / 1e9:.0f} GB)" for gpu in gpus)
        return Finding("devices", "ok", f"{text}; CUDA {torch.version.cuda}")
    if shutil.which("nvidia-smi") is None:
        return Finding("devices", "ok", "no GPU; training runs on the CPU")
    if torch.version.cuda is None:
        text, cure = "there is a GPU, but this torch was built without CUDA", "pip install torch"
    else:
        text = f"there is a GPU, but torch (CUDA {torch.version.cuda}) cannot use it"
        cure = "nvidia-smi  # compare the driver with that CUDA version"
    return Finding("devices", "warn", text, cure)


def _threads() -> Finding:
    threads, most = torch.get_num_threads(), cores()
    text = f"{counted(threads, 'thread')} on {counted(most, 'core')}"
    cure = f"export OMP_NUM_THREADS={most}" if threads > most else ""
    return warned("threads", text, cure)


def _precision() -> Finding:
    """Return the speed of products in both precisions, and which one trainings take."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if not native_bfloat16():  # to measure what is emulated takes seconds
        text = f"{rate(product_rate(torch.float32, device=device))} in float32, no native bfloat16"
        return Finding("precision", "ok", f"{text}; training uses 32-true")
    full, half = product_rates(device=device, anew=True)
    chosen = fast_precision()
    text = f"{rate(full)} in float32, {rate(half)} in bfloat16; training uses {chosen}"
    slower = half < full if chosen == "bf16-mixed" else half > 1.5 * full
    other = "32-true" if chosen == "bf16-mixed" else "bf16-mixed"
    return warned("precision", text, f"trainer.precision={other}" if slower else "")


def disk(name: str, folder: Path) -> Finding:
    """Return free space and speed of a folder's disk; a file is written there and removed."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    try:
        free = shutil.disk_usage(place).free
        with tempfile.NamedTemporaryFile(dir=place, prefix=".bipe-doctor-") as file:
            block = os.urandom(_MEGABYTE)  # drawn once: it is the disk that is measured
            begin = time.perf_counter()
            for _ in range(_WRITTEN):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            speed = _WRITTEN * _MEGABYTE / (time.perf_counter() - begin)
    except OSError as fault:
        temporary = name == "TMPDIR"
        cure = "export TMPDIR=FOLDER" if temporary else "set out=FOLDER, which you can write to"
        return Finding(name, "fail", f"{place} cannot be written: {fault.strerror or fault}", cure)
    cure = ""
    if free < _LITTLE:
        cure = "free some space, or set another folder (out=FOLDER, TMPDIR)"
    elif speed < _SLOW:
        cure = "use a local disk, or raise checkpoint_every"
    text = f"{place}: {free / 1e9:.1f} GB free, {speed / 1e6:,.0f} MB/s when writing"
    return warned(name, text, cure)


def _print(findings: Sequence[Finding]) -> None:
    console = Console(highlight=False, soft_wrap=True, file=sys.stdout)
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        status = f"[{_COLOURS[finding.status]}]{finding.status:<4}[/]"
        console.print(f"{status} {finding.name:<{width}}  {escape(finding.text)}")
        if finding.cure:
            console.print(f"     {'':<{width}}  -> {escape(finding.cure)}")
