"""The configuration as typed, frozen values: one file a command's section, study.py the whole."""

from train.config.generate import Generate
from train.config.names import encoding_name, slug
from train.config.study import Config, IfExists, allowed_prefixes

__all__ = ["Config", "Generate", "IfExists", "allowed_prefixes", "encoding_name", "slug"]
