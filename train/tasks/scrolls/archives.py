"""The seven tasks of SCROLLS (Shaham et al., 2022, arXiv 2201.03533), and all tasks by name.

An archive holds ``<task>/<split>.jsonl`` with rows {id, pid, input, output}. A question comes
before the document, separated by a blank line; in QuALITY it includes four options, (A) to (D).
Several references are several rows of one id, each with its own pid. Outputs of test splits are not
public. Nothing is unpacked to disk, and a damaged member is an error, never a shorter split.
"""

import itertools
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal

import yaml

from bipe.build import build
from segmenters.offsets import without_surrogates
from train import CONF
from train.data.reading.storage import bounded
from train.disk.manifest import redacted
from train.errors import DataError, nearest
from train.tasks.scrolls.examples import SPLITS, Example, Examples, Metric, Task, Unprompted

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


def rows(path: str, *, task: str, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row of a split with its place: file, member and row number (from 1).

    path: an archive, a folder with ``<task>.zip`` or ``<task>/<split>.jsonl``, or the address of an
    archive or of a folder of archives. Raises DataError for an unreadable file or row.
    """
    with _opened(path, task=task, split=split) as (name, lines):
        for number in itertools.count(1):
            where = f"{name}, row {number}"
            try:
                line = lines.readline()
            except _DAMAGE as fault:
                raise DataError(
                    f"{where}: the archive is damaged here ({fault}); download it again"
                ) from None
            if not line:
                return
            if not line.isspace():
                yield where, _object(line, where=where)


def parsed_once(text: str) -> tuple[Any, list[str]]:
    """Return a JSON value, and the names that occur more than once in one of its objects."""
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.extend(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        return dict(pairs)

    return json.loads(text, object_pairs_hook=once), twice


def _object(line: bytes, *, where: str) -> dict[str, Any]:
    try:
        row, twice = parsed_once(line.decode("utf-8-sig"))
    # ValueError: not JSON, not UTF-8, or a number with thousands of digits.
    except (ValueError, RecursionError) as fault:
        reason = str(fault)
        if isinstance(fault, json.JSONDecodeError):  # its line is that of the row
            reason = f"{fault.msg}, column {fault.colno}"
        raise DataError(f"{where}: must be a JSON object in UTF-8: {reason}") from None
    if twice:
        raise DataError(
            f"{where}: each field must occur once, twice were: {', '.join(sorted(twice))}"
        )
    if not isinstance(row, dict):
        raise DataError(f"{where}: must be a JSON object, was: {type(row).__name__}")
    return row


@contextmanager
def _opened(path: str, *, task: str, split: str) -> Iterator[tuple[str, IO[bytes]]]:
    if split not in SPLITS:
        raise DataError(f"split must be one of {', '.join(SPLITS)}, was: {split}")
    place = _downloaded(path, task=task) if "://" in path else Path(path)
    shown = redacted(path)
    if place.is_dir():
        loose = place / task / f"{split}.jsonl"
        if loose.is_file():
            with loose.open("rb") as lines:
                yield str(loose), lines
            return
        place, shown = place / f"{task}.zip", f"{shown}/{task}.zip"
    if not place.is_file():
        raise DataError(
            f"path={shown}: there is no such file; task {task} needs its official zip, or a folder "
            f"that contains {task}.zip or {task}/{split}.jsonl"
        )
    member = f"{task}/{split}.jsonl"
    try:
        with zipfile.ZipFile(place) as archive:
            if member not in archive.namelist():
                names = sorted(archive.namelist())
                others = [other for other in TASKS if f"{other}/{split}.jsonl" in names]
                listed = ", ".join(names[:8]) or "nothing"
                cure = f"; set task={others[0]}?" if others else ""
                raise DataError(
                    f"{shown}: split {split} is missing: it has no {member}, only {listed}{cure}"
                )
            with archive.open(member) as lines:
                packed = archive.getinfo(member).compress_size
                where = f"{shown}, {member}"
                yield where, bounded(lines, packed=packed, where=where)
    except _DAMAGE as fault:
        raise DataError(f"{shown}, {member}: cannot be read ({fault}); download it again") from None


def _downloaded(path: str, *, task: str) -> Path:
    """Return the archive at an address, in the cache of `datasets`."""
    import datasets

    address = path if path.partition("?")[0].endswith(".zip") else f"{path.rstrip('/')}/{task}.zip"
    try:
        return Path(datasets.DownloadManager().download(address))
    except Exception as fault:  # the clients of the network have errors of their own
        raise DataError(
            f"path={redacted(address)}: {type(fault).__name__}: {redacted(str(fault))}. Check the "
            "address and the network (HF_HUB_OFFLINE), or set path= to a local zip"
        ) from fault


HUB = "hf://datasets/tau/scrolls"
Layout = Literal["document", "query", "choices"]
# Layout of the input, and metric of the output; in the order of a submission.
TASKS: dict[str, tuple[Layout, Metric]] = {
    "gov_report": ("document", "rouge"),
    "summ_screen_fd": ("document", "rouge"),
    "qmsum": ("query", "rouge"),
    "narrative_qa": ("query", "f1"),
    "qasper": ("query", "f1"),
    "quality": ("choices", "exact_match"),
    "contract_nli": ("query", "exact_match"),
}
_BLANK = re.compile(r"\n\n+|\r\n\r\n[\r\n]*")
_OPTIONS = re.compile(r"\(A\).*?\(B\).*?\(C\).*?\(D\)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrollsTask(Task):
    """One of the seven tasks. path: its zip, a folder of zips or unpacked tasks, or an address."""

    path: str = HUB

    def __post_init__(self) -> None:
        if self.name not in TASKS:
            raise DataError(f"task must be one of {', '.join(TASKS)}, was: {self.name}")
        self.template(*self._needs)

    @property
    def metric(self) -> Metric:
        return TASKS[self.name][1]

    @property
    def _needs(self) -> tuple[str, ...]:
        return ("document",) if TASKS[self.name][0] == "document" else ("question", "document")

    def examples(self, split: str) -> Sequence[Example]:
        """Return the examples (`Task.examples`) after the whole split is read and checked.

        Raises DataError naming file, row and field.
        """
        read = list(self._rows(split))
        if not read:
            raise DataError(f"{self.path}: split {split} of task {self.name} has no rows")
        hidden = [row for row in read if row.output is None]
        if hidden and len(hidden) < len(read):
            raise DataError(
                f"{hidden[0].where}: all rows of a split or none must have an output, "
                f"{len(hidden)} of {len(read)} have none"
            )
        merged = [[row] for row in read] if split == "train" else _merged(read)
        return Examples(groups=merged, prompt=self.template(*self._needs))

    def _rows(self, split: str) -> Iterator[Unprompted]:
        # Rows of one document share one string: NarrativeQA has fifty per document.
        texts: dict[str, str] = {}
        seen: dict[str, str] = {}
        for where, row in rows(self.path, task=self.name, split=split):
            pid = _text(row, "pid", where=where)
            if pid in seen:
                raise DataError(f"{where}: pid must be unique, was: {pid!r}, also in {seen[pid]}")
            seen[pid] = where
            text = _text(row, "input", where=where)
            question, document = split_input(text, layout=TASKS[self.name][0], where=where)
            hidden = split == "test" and row.get("output") in (None, "")
            yield Unprompted(
                id=_text(row, "id", where=where),
                question=question,
                document=texts.setdefault(document, document),
                output=None if hidden else _text(row, "output", where=where),
                where=where,
            )


def split_input(text: str, *, layout: Layout, where: str) -> tuple[str, str]:
    """Return the question (or "") and the document of an input; DataError if one is missing."""
    if layout == "document":
        return "", text
    start = 0
    if layout == "choices":
        options = _OPTIONS.search(text)
        if options is None:
            raise DataError(f"{where}: input must begin with a question and its options (A) to (D)")
        start = options.end()
    blank = _BLANK.search(text, start)
    question, document = (text[: blank.start()], text[blank.end() :]) if blank else (text, "")
    if not question.strip() or not document.strip():
        raise DataError(
            f"{where}: input must be a question, a blank line, and a document, was: {text[:60]!r}"
        )
    return question, document


def _merged(read: Sequence[Unprompted]) -> list[list[Unprompted]]:
    groups: dict[str, list[Unprompted]] = {}
    for row in read:
        group = groups.setdefault(row.id, [])
        if group and (row.question, row.document) != (group[0].question, group[0].document):
            raise DataError(
                f"{row.where}: rows with the same id must have the same input, but {row.id!r} has "
                f"another in {group[0].where}"
            )
        group.append(row)
    return list(groups.values())


def _text(row: Mapping[str, Any], field: str, *, where: str) -> str:
    value = row.get(field)
    if not isinstance(value, str):
        was = type(value).__name__ if field in row else f"missing (there is: {', '.join(row)})"
        raise DataError(f"{where}: {field} must be text, was: {was}")
    if not value.strip():
        raise DataError(f"{where}: {field} must not be empty, was: {value!r}")
    return without_surrogates(value)[0]


def find_task(name: str, **settings: Any) -> Task:
    """Return the task of conf/task/NAME.yaml with some keys replaced, such as path="qmsum.zip".

    Raises DataError for an unknown name or key.
    """
    described = _descriptions()
    if name not in described:
        raise DataError(f"task: there is no {name!r}; {nearest(name, described)}")
    for key in settings:
        if key not in described[name]:
            raise DataError(f"task {name} has no key {key}; {nearest(key, described[name])}")
    task: Task = build({**described[name], **settings}, Task)
    return task


@cache
def _descriptions() -> dict[str, dict[str, Any]]:
    folder = CONF / "task"
    return {
        file.name.removesuffix(".yaml"): yaml.safe_load(file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
    }
