"""The configuration as typed, frozen values: one file a command's section, study.py the whole."""

from train.config.generate import Generate
from train.config.names import encoding_name, slug
from train.config.study import IfExists, Study, allowed_prefixes

__all__ = ["Generate", "IfExists", "Study", "allowed_prefixes", "encoding_name", "slug"]
