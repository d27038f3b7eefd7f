"""The folder of a prepared data set, its manifest, and how it is named.

    OUT/manifest.json  statistics.json  tokenizer.json  README.md  card.json
    OUT/SOURCE/{train,validation,test}/

workplace.py builds it, aside in OUT/.part.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from train.disk.files import checksum, is_name
from train.disk.manifest import SPLITS, Fault, load, store
from train.errors import DataError

FORMAT = "bipe-data"
VERSION = 2
MANIFEST = "manifest.json"
STATISTICS = "statistics.json"
TOKENIZER = "tokenizer.json"
SEGMENTER = "segmenter.json"  # beside the tokenizer of a model, not of data
CARD = "README.md"
CARD_DATA = "card.json"
FILES = {MANIFEST, STATISTICS, TOKENIZER, CARD, CARD_DATA}  # beside the folders of sources

Folders = str | Path | Sequence[str | Path] | Mapping[str, str | Path]


def read_top(out: Path) -> dict[str, Any]:
    """Return the manifest of a prepared data set; DataError if there is none.

    Whoever wrote it: the names in it are those of folders and files inside `out`.
    """
    manifest = load(out / MANIFEST, format=FORMAT, version=VERSION, what="prepared data")
    for key in ("sources", "files"):
        if not isinstance(manifest.get(key), dict):
            raise DataError(f"{out / MANIFEST}: has no {key!r}; prepare again")
    for name, source in manifest["sources"].items():
        splits = source.get("splits") if isinstance(source, dict) else None
        if not (is_name(name) and isinstance(splits, dict) and {*splits} <= {*SPLITS}):
            raise DataError(f"{out / MANIFEST}: a source must have a name and splits: {name!r}")
    for name in manifest["files"]:
        if not all(map(is_name, name.split("/"))):
            raise DataError(f"{out / MANIFEST}: files must be inside the folder, was: {name!r}")
    return manifest


def disagreements(
    split: Path, own: Mapping[str, Any], manifest: Mapping[str, Any]
) -> Iterator[Fault]:
    """Yield what the manifest of a split says otherwise than that of the data set."""
    source = manifest["sources"].get(split.parent.name, {})
    expected = {
        "tokenizer": manifest["tokenizer"],
        "segmenter": source.get("segmenter"),
        "split": split.name,
        "counts": source.get("splits", {}).get(split.name),
    }
    for key, value in expected.items():
        if own.get(key) != value:
            what = f"its {key} is not that of the data set: {own.get(key)}, not {value}"
            yield Fault(path=split / MANIFEST, what=f"{what}; prepare again")


def folders_of(data: Folders) -> dict[str, Path]:
    if isinstance(data, str | Path):
        return {"data": Path(data)}
    if isinstance(data, Mapping):
        return {str(name): Path(folder) for name, folder in data.items()}
    return {str(number): Path(folder) for number, folder in enumerate(data)}


def override_of(data: Folders, *, out: str | Path | None = None) -> str:
    """Return the word that configures these data, such as data={web: a}; "" for those of `out`."""

    def plain(folder: Any) -> str:
        text = str(folder)
        return text if re.fullmatch(r"[\w/.+-]+", text) else "'" + text.replace("'", r"\'") + "'"

    if isinstance(data, str | Path):
        own = out is not None and Path(data) == Path(out) / "data"
        return "" if own else f"data={data}"
    if isinstance(data, Mapping):
        return f"data={{{', '.join(f'{name}: {plain(folder)}' for name, folder in data.items())}}}"
    return f"data=[{','.join(map(plain, data))}]"


def write_top(part: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Write the manifest, whose checksums vouch for each other file; return it."""
    beside = (path for path in part.iterdir() if path.is_file())
    listed = sorted((*beside, *part.glob(f"*/*/{MANIFEST}")))
    files = {path.relative_to(part).as_posix(): checksum(path) for path in listed}
    return store(part / MANIFEST, {**manifest, "files": files})


def differences(old: Any, new: Any, *, key: str = "") -> Iterator[str]:
    """Yield the dotted keys in which two requests differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            inner = f"{key}.{name}" if key else name
            yield from differences(old.get(name), new.get(name), key=inner)
    elif old != new:
        yield f"{key} was {json.dumps(old)}, is {json.dumps(new)}"
