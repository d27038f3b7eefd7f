"""The configuration as typed, frozen values; only the commands read it."""

from train.config.config import Config, IfExists, allowed_prefixes, encoding_name, slug
from train.config.sections import Evaluate, Generate, Scrolls, Sweep

__all__ = [
    "Config",
    "Evaluate",
    "Generate",
    "IfExists",
    "Scrolls",
    "Sweep",
    "allowed_prefixes",
    "encoding_name",
    "slug",
]
