"""From documents to batches: readers, tokenizers, shards, packing, order and the data module.

The names that a configuration builds are here, under `train.data`. Each is imported when it is
asked for, so that preparing data does not load torch and reading a shard no tokenizer.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "preparing.engines": ("Local", "Ray", "Slurm"),
    "preparing.source": ("Corpus", "Datatrove", "Language", "Length", "Source"),
    "reading.corpora": ("KingJamesBible", "PackageCode"),
    "reading.files": ("JSONL", "Parquet", "TextFiles"),
    "reading.hub": ("HuggingFace",),
    "reading.split": ("Split",),
    "tokenizing.vocabulary": ("LoadTokenizer", "TrainBPE"),
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(_MODULES[name]), name)
