"""From documents to batches: readers, tokenizers, shards, packing, order and the data module.

These are the names that configurations use. Each is imported on first use, so that preparing data
does not load torch.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "preparing.engines": ("Local", "Ray", "Slurm"),
    "preparing.source": ("Corpus", "Datatrove", "Length", "Source"),
    "reading.corpora": ("KingJamesBible", "PackageCode"),
    "reading.split": ("Split",),
    "reading.files": ("CSV", "JSONL", "TextFiles"),
    "reading.hub": ("HuggingFace",),
    "reading.parquet": ("Parquet",),
    "reading.repositories": ("Repositories",),
    "tokenizing.vocabulary": ("LoadTokenizer", "TrainBPE"),
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(_MODULES[name]), name)
