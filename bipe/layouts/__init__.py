"""Weights in the layouts of others: official.py has names and configs, folders.py files."""

from bipe.layouts.official import (
    config_from_official,
    config_to_official,
    from_official,
    to_official,
)

__all__ = [
    "config_from_official",
    "config_to_official",
    "from_official",
    "to_official",
]
