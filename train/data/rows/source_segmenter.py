"""Segmenters of prepared data and of models, rebuilt from the fingerprints that these hold."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bipe.arguments import nodes
from bipe.build import TARGET, build
from segmenters.base import Segmenter
from segmenters.levels.levels import Levels
from segmenters.registry import make as make_by_name
from segmenters.wording import visible
from train.data.rows.sets import DataSets, read_by
from train.data.store.folder import SEGMENTER
from train.data.store.shards import levels_read
from train.disk.files import read_json
from train.disk.manifest import plain
from train.errors import ConfigError, nearest
from train.ranks import rank

# spaCy loads a model by the name of its package, which is code, or from a folder.
_MODEL = re.compile(
    r"rules|spacy|sentencizer|senter|parser|[a-z]{2,3}_[a-z]+_[a-z]+_(sm|md|lg|trf)"
)
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_ROUTER, _LEVELS = "segmenters.Auto", "levels read"
CURE = "one that works during generation (newline, sentences, lines, stride ...)"


def source_segmenter(
    sets: DataSets,
    *,
    source: str | None,
    trained_on: Sequence[str] = (),
    allowed: tuple[str, ...],
    section: str | None = None,
    text: str | None = None,
    name: str | None = None,
) -> Segmenter:
    """Return the segmenter of a source; without `source`, of the one that suits a text.

    Its levels are those of the data that are read, the finest first.
    trained_on: without `source`, only these sources count. section: of the configuration; messages
    name its keys `source` and `segmenter`, or those of a command without sections. text, name: see
    `_chosen`.
    """
    key = _key(section, "source")
    require_source(source, sets.sources, key=key)
    names = [source] if source else [name for name in trained_on if name in sets.sources]
    fingerprints: dict[str, Mapping[str, Any]] = {}
    for source_name in names or sets.sources:
        folder, inner = sets.sources[source_name]
        fingerprint = sets.manifests[folder]["sources"][inner]["segmenter"]
        fingerprints[source_name] = {**fingerprint, _LEVELS: sets.levels_of(source_name)}
    source = _chosen(fingerprints, key=key, text=text, name=name)
    fingerprint = {key: value for key, value in fingerprints[source].items() if key != _LEVELS}
    cure = "" if section is None else f"; set {section}.segmenter to {CURE}"
    about = {"of": f"source {source}", "file": "its manifest", "cure": cure}
    return at_levels(rebuilt(fingerprint, allowed=allowed, **about), fingerprints[source][_LEVELS])


def knows_segmenter(folder: Path, notes: Mapping[str, Any], *, source: str | None = None) -> bool:
    """Return whether `own_segmenter` finds one. source: None, or a name to look up."""
    beside = source is None and (folder / SEGMENTER).is_file()
    return beside or bool(_of_notes(notes))


def own_segmenter(
    folder: Path,
    notes: Mapping[str, Any],
    *,
    allowed: tuple[str, ...],
    section: str | None = None,
    source: str | None = None,
    text: str | None = None,
    name: str | None = None,
) -> Segmenter:
    """Return the segmenter in a model's folder, or in its notes if its sources have several.

    Its levels are those that the model reads. Arguments as for `source_segmenter`.
    """
    path, fingerprints, key = folder / SEGMENTER, _of_notes(notes), _key(section, "source")
    require_source(source, fingerprints, key=key)
    cure = f"; set {_key(section, 'segmenter')} to {CURE}"
    if path.is_file() or not fingerprints:
        if (fingerprint := read_json(path)) is None:
            raise ConfigError(f"{path} cannot be read{cure}")
        about = {"of": str(folder), "file": SEGMENTER}
    else:
        source = source or _chosen(fingerprints, key=key, text=text, name=name)
        fingerprint = fingerprints[source]
        about = {"of": f"source {source} of {folder}", "file": "its notes"}
    segmenter = rebuilt(fingerprint, allowed=allowed, cure=cure, **about)
    stored = {"levels": len(segmenter.level_names), "level_names": [*segmenter.level_names]}
    return at_levels(segmenter, levels_read(stored, **read_by(notes), what=f"{path}: "))


def _of_notes(notes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fingerprints of the segmenters of the sources; empty if not all are known."""
    entries = notes.get("documents")
    if not isinstance(entries, Mapping):
        return {}
    known = {
        source: entry["segmenter"]
        for source, entry in entries.items()
        if isinstance(entry, Mapping) and isinstance(entry.get("segmenter"), dict)
    }
    return known if len(known) == len(entries) else {}


def _key(section: str | None, name: str) -> str:
    return name if section is None else f"{section}.{name}"


def require_source(source: str | None, sources: Mapping[str, Any], *, key: str) -> None:
    """Raise ConfigError for a source that is named by `key` and is not there."""
    if source is not None and source not in sources:
        raise ConfigError(f"{key}: {source!r} is not a source; {nearest(source, sources)}")


def _chosen(
    fingerprints: Mapping[str, Mapping[str, Any]], *, key: str, text: str | None, name: str | None
) -> str:
    """Return the source whose segmenter is most like that of `auto` for a text, else the first.

    fingerprints: by source; if they differ, the choice is reported. text: None if there is none.
    name: of its file.
    """
    first, *others = fingerprints
    if all(fingerprints[other] == fingerprints[first] for other in others):
        return first
    likeness = dict.fromkeys(fingerprints, (0, 0))
    if text is not None:
        wanted = plain(make_by_name("auto").choose(text=text, name=name).fingerprint())
        likeness = {source: _likeness(of, wanted) for source, of in fingerprints.items()}
    source = max(fingerprints, key=lambda other: likeness[other])
    if rank() == 0:
        kinds = {
            other: f"{other} ({str(of.get('segmenter')).rpartition('.')[2]})"
            for other, of in fingerprints.items()
        }
        taken, rest = kinds.pop(source), ", ".join(kinds.values())
        why = "whose segmenter suits the text" if likeness[source] > (0, 0) else "the first source"
        message = f"{key}={source} is taken: {taken}, {why}; there are also {rest}"
        print(f"bipe: {visible(message)}", file=sys.stderr, flush=True)
    return source


def _likeness(fingerprint: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[int, int]:
    """Return how well a segmenter suits a text, and how many of its parameters are the wanted."""
    parameters: Any = fingerprint.get("parameters") or {}
    inner = (node.get(TARGET) for _, node in nodes(parameters, ""))
    kinds = {fingerprint.get("segmenter"), *inner}
    if wanted["segmenter"] in kinds:
        return 2, sum(parameters.get(name) == value for name, value in wanted["parameters"].items())
    return int(_ROUTER in kinds), 0


def rebuilt(
    fingerprint: Mapping[str, Any], *, of: str, file: str, allowed: tuple[str, ...], cure: str = ""
) -> Segmenter:
    """Return the segmenter of a fingerprint, with a warning if its rules have changed since.

    ConfigError names what it is of, and the file.
    """
    try:
        description = {TARGET: fingerprint["segmenter"], **fingerprint["parameters"]}
        _refuse_models(description, allowed)
        segmenter: Segmenter = build(description, Segmenter, allowed=allowed)
    except (ImportError, KeyError, TypeError, ValueError) as fault:
        message = f"the segmenter of {of} cannot be built from {file} ({fault}){cure}"
        raise ConfigError(message) from None
    if plain(segmenter.fingerprint()) != fingerprint:
        print(
            f"bipe: {of} was segmented with older rules or tables of {type(segmenter).__name__}; "
            "the current ones are used",
            file=sys.stderr,
        )
    return segmenter


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
