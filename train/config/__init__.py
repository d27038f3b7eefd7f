"""The configuration as typed, frozen values; only commands take it, and hand down values."""

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
