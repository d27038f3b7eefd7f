"""Training, evaluation and reporting: what needs Lightning, Hydra or a data set."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Torchmetrics(MetaPathFinder):
    """Let torchmetrics be imported without the packages that only some of its metrics need.

    Lightning imports torchmetrics, and that imports transformers, scipy and matplotlib where they
    are installed: 6 of the 11 seconds that `bipe pretrain` took to start. Nothing of ours uses its
    metrics. In a process of bipe they lack BERTScore, InfoLM and plot().
    """

    def find_spec(self, name: str, path: Sequence[str] | None = None, _: Any = None) -> Any:
        if name != "torchmetrics":
            return None
        sys.meta_path.remove(self)
        if (found := find_spec(name)) is not None:
            self._wrap(found)
        return found

    def _wrap(self, found: ModuleSpec) -> None:
        imports: Any = import_module("lightning_utilities.core.imports")
        loader: Any = found.loader
        asks = imports.RequirementCache
        execute, met, available = loader.exec_module, asks.__bool__, imports.package_available

        def exec_module(module: ModuleType) -> None:
            asks.__bool__ = lambda it: str(it.requirement).startswith("torch>") and met(it)
            imports.package_available = lambda name: False
            try:
                execute(module)
            finally:
                asks.__bool__, imports.package_available = met, available

        loader.exec_module = exec_module


sys.meta_path.insert(0, _Torchmetrics())
