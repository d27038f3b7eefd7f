"""Segmenters by name, and those of prepared data, rebuilt from the fingerprint in its manifest."""

import dataclasses
import functools
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bipe.build import NAMES_CODE, TARGET, build, find, reach
from segmenters import registry
from segmenters.base import Segmenter
from segmenters.levels.levels import Levels
from train.data.rows.sets import DataSets, read_by
from train.data.store.folder import SEGMENTER
from train.data.store.shards import levels_read
from train.disk.files import read_json
from train.disk.manifest import plain
from train.errors import ConfigError, UserError, as_config_error, nearest

# spaCy loads a model by the name of its package, which is code, or from a folder.
_MODEL = re.compile(
    r"rules|spacy|sentencizer|senter|parser|[a-z]{2,3}_[a-z]+_[a-z]+_(sm|md|lg|trf)"
)
_LANGUAGE = re.compile(r"[a-z]{2,3}")
CURE = "one that works during generation (newline, sentences, lines, stride ...)"


def source_segmenter(
    sets: DataSets,
    *,
    source: str | None,
    trained_on: Sequence[str] = (),
    allowed: tuple[str, ...],
    section: str | None = None,
) -> Segmenter:
    """Return the segmenter of a source; without `source`, that of all sources, which must agree.

    Its levels are those of the data that are read, the finest first.
    trained_on: without `source`, only these sources count. section: of the configuration; messages
    name its keys `source` and `segmenter`, or those of a command without sections.
    """
    key = "source" if section is None else f"{section}.source"
    if source is not None and source not in sets.sources:
        raise ConfigError(f"{key}: {source!r} is not a source; {nearest(source, sets.sources)}")
    names = [source] if source else [name for name in trained_on if name in sets.sources]
    found: dict[str, Mapping[str, Any]] = {}
    levels: dict[str, tuple[int, ...]] = {}
    for name in names or sets.sources:
        folder, own = sets.sources[name]
        found[name] = sets.manifests[folder]["sources"][own]["segmenter"]
        levels[name] = sets.levels_of(name)
    if len({json.dumps([found[name], levels[name]], sort_keys=True) for name in found}) > 1:
        kinds = ", ".join(f"{name} ({each['segmenter']})" for name, each in found.items())
        raise ConfigError(
            f"{key} must name one of the sources, since their segmenters differ: {kinds}; add "
            f"{key}=NAME"
        )
    name, fingerprint = next(iter(found.items()))
    cure = "" if section is None else f"; set {section}.segmenter to {CURE}"
    about = {"of": f"source {name}", "file": "its manifest", "cure": cure}
    return at_levels(rebuilt(fingerprint, allowed=allowed, **about), levels[name])


def own_segmenter(
    folder: Path, notes: Mapping[str, Any], *, allowed: tuple[str, ...], key: str
) -> Segmenter:
    """Return the segmenter in a model's folder, at the levels that the model reads.

    key: what sets another one, for messages.
    """
    path = folder / SEGMENTER
    cure = f"; set {key} to {CURE}"
    if (fingerprint := read_json(path)) is None:
        raise ConfigError(f"{path} cannot be read{cure}")
    made = rebuilt(fingerprint, of=str(folder), file=SEGMENTER, allowed=allowed, cure=cure)
    stored = {"levels": len(made.level_names), "level_names": [*made.level_names]}
    return at_levels(made, levels_read(stored, **read_by(notes), what=f"{path}: "))


def rebuilt(
    fingerprint: Mapping[str, Any], *, of: str, file: str, allowed: tuple[str, ...], cure: str = ""
) -> Segmenter:
    """Return the segmenter of a fingerprint, with a warning if its rules have changed since.

    ConfigError names what it is of, and the file.
    """
    try:
        description = {TARGET: fingerprint["segmenter"], **fingerprint["parameters"]}
        _refuse_models(description, allowed)
        made: Segmenter = build(description, Segmenter, allowed=allowed)
    except (ImportError, KeyError, TypeError, ValueError) as fault:
        told = f"the segmenter of {of} cannot be built from {file} ({fault}){cure}"
        raise ConfigError(told) from None
    if plain(made.fingerprint()) != fingerprint:
        print(
            f"bipe: {of} was segmented with older rules or tables of {type(made).__name__}; "
            "the current ones are used",
            file=sys.stderr,
        )
    return made


def at_levels(segmenter: Segmenter, levels: Sequence[int]) -> Segmenter:
    """Return a segmenter whose levels are these, the finest first; above them others may follow."""
    names = segmenter.level_names
    if [*levels] == [*range(len(levels))]:
        return segmenter
    kept = names[levels[0] :] if len(levels) == 1 else [names[level] for level in levels]
    return Levels(of=segmenter, keep=kept)


def _refuse_models(description: Any, allowed: tuple[str, ...]) -> None:
    """Raise ValueError for a model that is not one of spaCy's own, unless it is allowed."""
    if not isinstance(description, Mapping):
        return
    for key, rule in (("backend", _MODEL), ("language", _LANGUAGE)):
        name = description.get(key)
        plain = not str(description.get(TARGET)).endswith("Sentences") or name is None
        if not plain and not rule.fullmatch(str(name)) and f"{name}." not in allowed:
            raise ValueError(
                f"{key} must be one of spaCy's own, was: {name!r}; if you trust it, add "
                f"allowed_targets=[{name}] to the command line"
            )
    for value in description.values():
        _refuse_models(value, allowed)


def built(wish: str, *, option: str = "--segmenter") -> Segmenter:
    """Return the segmenter of a name with its parameters; option: its source, for messages.

    Only the words of `bipe segment` may name a class of one's own: importing it runs it.
    """
    name, _, rest = wish.partition(":")
    given: dict[str, Any] = {}
    where = f"{option} {name}: "
    make: Callable[..., Segmenter] = functools.partial(registry.make, name)
    if "." in name and option == "--segmenter":
        make = kind = _own_class(name, where)
    elif name in registry.SEGMENTERS:
        kind = registry.segmenter_class(name)
    else:
        raise UserError(f"{option}: there is no {name!r}; {nearest(name, registry.SEGMENTERS)}")
    known = [field.name for field in dataclasses.fields(kind)]
    for pair in filter(None, _pairs(rest)):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"{where}parameters must be KEY=VALUE,..., was: {pair!r}")
        if key not in known:
            raise UserError(f"{where}there is no parameter {key!r}; {nearest(key, known)}")
        try:  # JSON for numbers, true and false; {YAML: text}; anything else is text
            given[key] = built(value, option=option) if key == "of" else json.loads(value)
        except json.JSONDecodeError:
            given[key] = _mapping(value) if value[:1] == "{" else value
    if make is kind:  # what a class of the words is to call may stand beside them, too
        for key in set(getattr(kind, NAMES_CODE, ())) & given.keys():
            reach(re.split("[.:]", str(given[key]))[0])
    with as_config_error(where, TypeError):
        return make(**given)


def _pairs(text: str) -> list[str]:
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
