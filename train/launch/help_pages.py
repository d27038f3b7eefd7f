"""The help page of a command, generated from conf/: `bipe pretrain --help`, `--help rows`.

Keys and their descriptions are the lines of conf/config.yaml, section by section; groups are the
folders of conf. No YAML is parsed and nothing heavy is imported, so that help is instant.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from train.errors import ConfigError, nearest

WIDTH = 110  # columns, where the terminal has them
_KEY = re.compile(r"( *)(\w+):(?: +(.*?))?(?: +# (.*))?")
_DEFAULT = re.compile(r"^  - (?:override /)?(\w+): (\w+)", re.MULTILINE)
_BASE = re.compile(r"^  - (\w+)$", re.MULTILINE)
_INTERNAL = ("defaults", "hydra")
_FILES, _PREPARE, _TRAIN = "Output folders", "Preparing data", "Training"
# Groups that train a model, whichever command does it.
_TRAINING = ("model", "encoding", "rows", "optimizer", "schedule", "positions")
_RUNNING = ("trainer", "logger", "callbacks", "launch", "experiment")


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a help page that is not in conf/; sections are named by how their comments start.

    leave_out: keys of these sections that the page has no room for; `--help all` has them.
    """

    does: str
    examples: tuple[str, ...]
    sections: tuple[str, ...]
    groups: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()


_EXTENDING: dict[str, Any] = {
    "sections": (_FILES, "bipe extend", _TRAIN),
    "groups": ("stretch", "rows", "optimizer", "schedule", *_RUNNING),
    "leave_out": ("positions", "compile", "clip"),
}
PAGES = {
    "prepare": Page(
        "Segment and tokenize documents, and write tokens and marks as shards.",
        (
            "bipe prepare corpus=text corpus.sources.text.documents.path=FOLDER out=runs/mine",
            "bipe prepare corpus=jsonl corpus.sources.text.documents.path=FILE --dry-run",
            "bipe prepare segmenter@corpus.sources.text.segmenter=auto --limit 100",
        ),
        (_FILES, _PREPARE),
        ("corpus", "segmenter", "tokenizer", "engine", "experiment"),
    ),
    "pretrain": Page(
        "Train a model on prepared data. Repeat the command to resume an interrupted run.",
        (
            "bipe pretrain out=runs/mine encoding=bipe_rope steps=2000",
            "bipe pretrain -m out=runs/mine encoding=rope,alibi seed=0,1     # one run each",
            "bipe pretrain --plan experiment=pile_151m_bipe_rope             # memory, days, disk",
        ),
        (_FILES, _TRAIN),
        (*_TRAINING, *_RUNNING),
    ),
    "extend": Page(
        "Extend the context of a trained model: stretch its encoding, train on longer rows.",
        (
            "bipe extend checkpoint=runs/mine/bipe_rope out=runs/mine stretch=yarn row_length=4096",
            "bipe extend checkpoint=RUN out=OUT stretch=rerope steps=0       # without training",
            "bipe extend checkpoint=RUN out=OUT row_length=2048              # longer rows alone",
        ),
        **_EXTENDING,
    ),
    "retrofit": Page(
        "Add segments to a trained RoPE model, and train it further.",
        (
            "bipe retrofit checkpoint=runs/mine/rope out=runs/mine stretch=gated",
            "bipe retrofit -m checkpoint=RUN out=OUT stretch=gated,swap,drope  # with a control",
            "bipe retrofit checkpoint=RUN out=OUT stretch=split steps=0       # without training",
        ),
        **_EXTENDING,
    ),
    "scrolls": Page(
        "Fine-tune a model on a long-document task, decode, and score the outputs.",
        (
            "bipe scrolls task=qmsum path=qmsum.zip checkpoint=RUN out=runs/scrolls",
            "bipe scrolls task=qmsum path=qmsum.zip checkpoint=RUN steps=0   # without training",
            "bipe scrolls validate=predictions.json task=qmsum path=qmsum.zip",
        ),
        (_FILES, "bipe scrolls"),
        ("task", "stretch", "rows", "optimizer", "schedule", *_RUNNING),
    ),
    "evaluate": Page(
        "Measure perplexity at several lengths, and retrieval. Earlier results are kept.",
        (
            "bipe evaluate out=runs/mine",
            "bipe evaluate out=runs/mine evaluate.lengths=[1,4] evaluate.probes=[passkey,copy]",
            "bipe evaluate statistics out=runs/mine                          # without a model",
        ),
        (_FILES, "Evaluation"),
        ("sweep", "trainer", "launch", "experiment"),
    ),
    "statistics": Page(
        "Measure how segments relate to document length; needs no model.",
        ("bipe evaluate statistics out=runs/mine",),
        (_FILES, "bipe evaluate statistics"),
    ),
    "generate": Page(
        "Continue a prompt with a trained model. The default prompt is standard input.",
        (
            "bipe generate runs/mine/bipe_rope --prompt 'It was'",
            "bipe generate runs/mine/bipe_rope --file prompt.txt generate.temperature=0",
            "echo 'It was' | bipe generate runs/mine/bipe_rope",
        ),
        ("bipe generate", _FILES),
        leave_out=("name", "if_exists"),
    ),
    "report": Page(
        "Write an HTML report with curves and tables, and the numbers as CSV and JSON.",
        (
            "bipe report out=runs/mine",
            "bipe report report.runs=[runs/a,runs/b] report.out=runs/both",
        ),
        (_FILES, "report"),
        leave_out=("data", "name", "if_exists"),
    ),
    "tokenizer": Page(
        "Train a tokenizer on a corpus, for use elsewhere.",
        ("bipe tokenizer train corpus=text corpus.sources.text.documents.path=FOLDER",),
        (_FILES, _PREPARE),
        ("corpus", "tokenizer"),
        ("name", "dry_run"),
    ),
}


def help_page(command: str, words: Sequence[str]) -> str:
    """Return the help of a command; words: those beside --help, of which one may be a topic.

    A topic is a key, a group, GROUP=OPTION, or all. ConfigError for any other.
    """
    page = PAGES[command]
    words = words[1:] if command == "tokenizer" and words[:1] == ["train"] else words
    group, _, option = words[-1].partition("=") if words else ("", "", "")
    if words[-2:-1] in (["-h"], ["--help"]) and group in groups() and option in options(group):
        return "\n".join(options(group)[option])
    known, helps = {"all", *groups(), *keys()}, [word in ("-h", "--help") for word in words]
    topics = [
        word
        for at, word in enumerate(words)
        if not word.startswith("-") and "=" not in word and (word in known or any(helps[:at]))
    ]  # a word before --help may also be a run, for example
    if not topics:
        return _page(command, page)
    topic = topics[0]
    if topic == "all":
        return "\n".join(["Groups (GROUP=OPTION):", *map(_listed, groups()), "", *_config()])
    if topic in groups():
        return _group(command, topic)
    lines = [line for line in _lines() if re.match(rf"{re.escape(topic)}[.:]", line)]
    group = topic.partition(".")[0]
    if not lines and group in groups():  # a key of an option
        shown_keys = {key.strip() for each in options(group) for key in _keys_of(group, each)[1:]}
        lines = sorted(key for key in shown_keys if re.match(rf"{re.escape(topic)}[.:]", key))
    if not lines:
        said = nearest(topic, known)
        cure = said if said.startswith("did") else "--help all lists them"
        raise ConfigError(f"--help {topic}: there is no such key or group; {cure}")
    return "\n".join(lines)


def _page(command: str, page: Page) -> str:
    title = "evaluate statistics" if command == "statistics" else command
    lines = [f"bipe {title}: {page.does}", "", *(f"  {line}" for line in page.examples), ""]
    lines.append("Keys (KEY=VALUE) and their defaults:")
    for heading, block in _sections():
        if heading.startswith(page.sections):
            shown_keys = (key for key in shown(block) if key.split(":")[0] not in page.leave_out)
            lines += [f"  {_cut(key, 2)}" for key in shown_keys]
    if page.groups:
        listed = ", ".join(f"{name} ({len(options(name))})" for name in page.groups)
        text = f"Groups (GROUP=OPTION) and their number of options: {listed}"
        lines += ["", *textwrap.wrap(text, _width(), subsequent_indent="  ")]
    topic = page.groups[0] if page.groups else "out"
    return "\n".join([*lines, f"--help {topic} explains one of them, --help all lists everything."])


def _group(command: str, name: str) -> str:
    """Return the options of a group, and the keys of the one that is the command's default."""
    lines = [f"{name}=OPTION", ""]
    for option, text in options(name).items():
        comments = (line[2:] for line in text if line.startswith("# ") and "@package" not in line)
        told = f"  {option:<18}  {next(comments, '')}"
        lines += textwrap.wrap(told, _width(), subsequent_indent=" " * 22, break_long_words=False)
    file = resources.files("conf").joinpath("command", f"{command}.yaml")
    yaml = "\n".join([*_config(), file.read_text() if file.is_file() else ""])
    default = dict(_DEFAULT.findall(yaml)).get(name, "")
    more = _keys_of(name, default) or [f"--help {name}=OPTION shows one of them."]
    return "\n".join([*lines, "", *more])


def _keys_of(name: str, option: str) -> list[str]:
    """Return the keys of an option, those of the options that it starts from included."""

    def own(option: str) -> dict[str, str]:
        lines = options(name).get(option, [])
        bases = [base for base in _BASE.findall("\n".join(lines)) if base != "_self_"]
        found = {key: line for base in bases for key, line in own(base).items()}
        keys = [line for line in shown(lines) if not line.startswith("_")]
        return found | {line.partition(":")[0]: line for line in keys}

    keys = own(option).values()
    return [f"Keys of {name}={option}:", *(_cut(f"  {name}.{key}") for key in keys)] if keys else []


def keys() -> list[str]:
    """Return all keys of config.yaml by their full names."""
    return [line.partition(":")[0] for line in _lines()]


def _lines() -> list[str]:
    return [line for _, block in _sections() for line in shown(block)]


def _config() -> list[str]:
    return resources.files("conf").joinpath("config.yaml").read_text().splitlines()


def _sections() -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraphs of config.yaml: their headings, and the lines of their keys."""
    for paragraph in "\n".join(_config()).split("\n\n"):
        lines = paragraph.splitlines()
        if lines[0].startswith("# "):
            yield lines[0][2:], lines[1:]
        else:
            yield lines[0].partition(":")[0], lines


def shown(lines: Sequence[str]) -> list[str]:
    """Return keys with full names, one per line, from lines of YAML."""
    made: list[str] = []
    path: list[str] = []
    for line in lines:
        if line.startswith("  ") and line.lstrip().startswith("# "):  # a comment goes on
            made[-1] += " " + line.strip(" #")
        elif match := _KEY.fullmatch(line):
            indent, name, value, comment = match.groups()
            path = [*path[: len(indent) // 2], name]
            if value and path[0] not in _INTERNAL:
                key = f"{'.'.join(path)}: {value}"
                made.append(f"{key:<30}  {comment}" if comment else key)
    return made


def groups() -> dict[str, Any]:
    """Return the folders of conf by name."""
    folders = (each for each in resources.files("conf").iterdir() if each.is_dir())
    return {
        each.name: each
        for each in sorted(folders, key=lambda each: each.name)
        if not each.name.startswith("_")
    }


def options(group: str) -> dict[str, list[str]]:
    """Return the lines of each YAML of a group, by name."""
    files = (each for each in groups()[group].iterdir() if each.name.endswith(".yaml"))
    return {
        file.name.removesuffix(".yaml"): file.read_text().splitlines()
        for file in sorted(files, key=lambda each: each.name)
    }


def _listed(group: str) -> str:
    return f"  {group}: {', '.join(options(group))}"


def _width() -> int:
    return max(80, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def _cut(line: str, indent: int = 0) -> str:
    room = _width() - indent
    return line if len(line) <= room else f"{line[: room - 4]} ..."
