"""The segmenter that a word on the command line names: NAME, or NAME:KEY=VALUE,KEY=VALUE."""

import dataclasses
import functools
import json
import re
from collections.abc import Callable
from typing import Any

from bipe.build import NAMES_CODE, find, reach
from segmenters.base import Segmenter
from segmenters.registry import SEGMENTERS, segmenter_class
from segmenters.registry import make as make_by_name
from train.errors import UserError, as_config_error, nearest


def named_segmenter(wish: str, *, option: str = "--segmenter") -> Segmenter:
    """Return the segmenter of a name with its parameters; option: its source, for messages.

    Only the words of `bipe segment` may name a class of one's own: importing it runs it.
    """
    name, _, rest = wish.partition(":")
    options: dict[str, Any] = {}
    where = f"{option} {name}: "
    make: Callable[..., Segmenter] = functools.partial(make_by_name, name)
    if "." in name and option == "--segmenter":
        make = kind = _own_class(name, where)
    elif name in SEGMENTERS:
        kind = segmenter_class(name)
    else:
        raise UserError(f"{option}: there is no {name!r}; {nearest(name, SEGMENTERS)}")
    parameters = [field.name for field in dataclasses.fields(kind)]
    for pair in filter(None, _pairs(rest)):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"{where}parameters must be KEY=VALUE,..., was: {pair!r}")
        if key not in parameters:
            raise UserError(f"{where}there is no parameter {key!r}; {nearest(key, parameters)}")
        try:  # JSON for numbers, true and false; {YAML: text}; anything else is text
            inner = key == "of"
            options[key] = named_segmenter(value, option=option) if inner else json.loads(value)
        except json.JSONDecodeError:
            options[key] = _mapping(value) if value[:1] == "{" else value
    if make is kind:  # what a class of the words is to call may stand beside them, too
        for key in set(getattr(kind, NAMES_CODE, ())) & options.keys():
            reach(re.split("[.:]", str(options[key]))[0])
    with as_config_error(where, TypeError):
        return make(**options)


def _pairs(text: str) -> list[str]:
    """Divide parameters at their commas, but not at those inside of brackets and braces."""
    pairs: list[str] = []
    for piece in text.split(","):
        if pairs and any(pairs[-1].count(a) > pairs[-1].count(b) for a, b in ("[]", "{}")):
            pairs[-1] += f",{piece}"
        else:
            pairs.append(piece)
    return pairs


def _mapping(value: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        return value


def _own_class(name: str, where: str) -> type[Segmenter]:
    try:
        return find(name, Segmenter, allowed=(f"{name.partition('.')[0]}.",))
    except (ImportError, ValueError) as fault:
        raise UserError(f"{where}{fault}") from None
