"""The configuration as typed, frozen values: one file a command's section, study.py the whole."""

from train.study.generate import Generate
from train.study.names import encoding_name, slug
from train.study.study import IfExists, Study, allowed_prefixes

__all__ = ["Generate", "IfExists", "Study", "allowed_prefixes", "encoding_name", "slug"]
