"""The commands of `bipe`, one object each; usage, help, completion and dispatch follow from them.

To add a command, add an object to `_ALL`. Imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from train.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option such as --limit N.

    value: the name of its value; empty for a switch. key: KEY= or KEY=VALUE of conf/, which it
    sets; otherwise the command reads the option itself. text: the value is taken as it is typed,
    whatever Hydra's grammar would make of it. short: another name.
    """

    value: str = ""
    key: str = ""
    text: bool = False
    short: str = ""


_COMPOSED = {
    "--cfg": Option(value="job", short="-c"),
    "--resolve": Option(),
    "--config-file": Option(value="FILE"),
    "--config-dir": Option(value="FOLDER", short="-cd"),
}
_MANY = {"--multirun": Option(short="-m")} | _COMPOSED
_DRY = {"--dry-run": Option(key="dry_run=true")}
_TRAINED = {"--plan": Option(), "--json": Option()} | _DRY | _MANY


@dataclass(frozen=True, slots=True)
class Command:
    """A command. name: one or two words. does: a sentence without its full stop.

    call: "module:function" below train. It takes the composed configuration; with own_words, the
    words behind the command, without one; with examines, the configuration and the options.
    sections, groups: of the help page, sections named by how their comments in conf/config.yaml
    start. leave_out: keys of these that the page has no room for. positional: key of a word without
    one. renames: short names of keys. elsewhere: keys that hand the words to another function
    ("module:function").
    """

    name: str
    does: str
    call: str
    _: KW_ONLY
    sections: Sequence[str] = ()
    groups: Sequence[str] = ()
    leave_out: Sequence[str] = ()
    options: Mapping[str, Option] = field(default_factory=lambda: _MANY)
    own_words: bool = False
    examines: bool = False
    names_study: bool = False  # its first word is the command whose study it examines
    trains: bool = False  # writes a run, with its configuration
    continues: bool = False  # starts from a checkpoint, which decides the model
    launched: bool = False  # may be a job of Slurm
    computes: bool = False  # builds models, and so checks every section of the configuration
    reads: str = "checkpoint"  # key of the runs that it reads
    positional: str = ""
    renames: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """The first word of its name."""
        return self.name.partition(" ")[0]

    @property
    def examples(self) -> list[str]:
        """The lines that call it in the docstring of its module, which is not imported."""
        spec = find_spec(f"train.{self.call.partition(':')[0]}")
        doc = Path(str(spec and spec.origin)).read_text(encoding="utf-8").split('"""')[1]
        return re.findall(rf"^ *([^`\n]*(?:bipe|-m train\.cli) {self.name}(?: .*)?)$", doc, re.M)


def _own(name: str, does: str, module: str = "") -> Command:
    """Return a command that reads its words itself."""
    return Command(name, does, f"{module or f'commands.{name}'}:main", own_words=True)


_FILES, _PREPARE, _TRAIN = "Output folders", "Preparing data", "Training"
_RUNNING = ("trainer", "logger", "callbacks", "launch", "experiment")


def _training(
    name: str, does: str, call: str, *, sections: Sequence[str], groups: Sequence[str],
    continues: bool = True, leave_out: Sequence[str] = (), **others: Any,
) -> Command:  # fmt: skip
    return Command(
        name, does, call, sections=(_FILES, *sections), groups=(*groups, *_RUNNING),
        leave_out=leave_out, options=_TRAINED, trains=True, launched=True, computes=True,
        continues=continues, **others,
    )  # fmt: skip


_RARE = ("patience", "recompute", "context_parallel", "checkpoint_async", "stall_after")
_EXTENDING: dict[str, Any] = {
    "sections": ("bipe extend", _TRAIN),
    "groups": ("stretch", "rows", "optimizer", "schedule"),
    "leave_out": ("positions", "compile", "clip", "label_smoothing", "z_loss"),
}
_ALL = (
    Command(
        "prepare",
        "segment and tokenize documents, and write tokens and marks to disk",
        "commands.prepare:prepare_data",
        sections=(_FILES, _PREPARE),
        groups=("corpus", "segmenter", "tokenizer", "engine", "experiment"),
        options=_DRY | {"--limit": Option(value="N", key="limit=")} | _MANY,
    ),
    _training(
        "pretrain",
        "train a model on prepared data; the same command again resumes exactly",
        "commands.pretrain:pretrain",
        sections=(_TRAIN,),
        groups=("model", "encoding", "rows", "optimizer", "schedule", "positions"),
        continues=False,
    ),
    _training(
        "extend",
        "extend the context of a trained model, by its encoding and by longer rows",
        "commands.extend:extend",
        **_EXTENDING,
    ),
    _training(
        "retrofit",
        "add segments to a trained RoPE model, and train it further",
        "commands.extend:retrofit",
        **_EXTENDING,
    ),
    _training(
        "scrolls",
        "fine-tune on a long-document task, decode, and score",
        "commands.scrolls:scrolls",
        sections=("bipe scrolls", _TRAIN),
        leave_out=(*_EXTENDING["leave_out"], *_RARE),
        groups=("task", "stretch", "rows", "optimizer", "schedule"),
        renames={"path": "task.path"},
        elsewhere=dict.fromkeys(("validate", "submit"), "commands.scrolls:check_or_submit"),
    ),
    _own("finish", "end a run now: cool its learning rate down, write its model", "launch.finish"),
    Command(
        "evaluate",
        "measure perplexity at several lengths, and retrieval; earlier results are kept",
        "commands.evaluate:evaluate",
        sections=(_FILES, "Evaluation"),
        groups=("sweep", "trainer", "launch", "experiment"),
        options=_DRY | _MANY,
        launched=True,
        computes=True,
        reads="evaluate.runs",
    ),
    Command(
        "evaluate statistics",
        "measure how segments relate to document length, without a model",
        "commands.statistics:count_segments",
        sections=(_FILES, "bipe evaluate statistics"),
    ),
    Command(
        "generate",
        "continue a prompt, or standard input, with a trained model",
        "commands.generate:generate_text",
        sections=("bipe generate", _FILES),
        leave_out=("name", "if_exists"),
        options={
            "--prompt": Option(value="TEXT", key="generate.prompt=", text=True, short="-p"),
            "--file": Option(value="FILE", key="generate.file=", text=True),
            **_MANY,
        },
        computes=True,
        reads="generate.run",
        positional="generate.run",
    ),
    Command(
        "report",
        "write an HTML report with curves and tables, and the numbers as CSV and JSON",
        "commands.report:report",
        sections=(_FILES, "report"),
        leave_out=("data", "name", "if_exists"),
    ),
    _own("verify", "check every byte of prepared data"),
    _own("export", "convert prepared data to Megatron or Parquet"),
    _own(
        "convert", "convert a run to Hugging Face transformers, or back", "commands.after.convert"
    ),
    _own("lm-eval", "run tasks of lm-evaluation-harness", "commands.after.lm_eval"),
    Command(
        "tokenizer train",
        "train a tokenizer on a corpus, for use elsewhere",
        "commands.tokenizer:train_tokenizer",
        sections=(_FILES, _PREPARE),
        groups=("corpus", "tokenizer"),
        leave_out=("name", "dry_run"),
    ),
    Command(
        "doctor",
        "check whether this machine can run a study, and how to fix what is missing",
        "commands.before.doctor:doctor",
        options={"--ranks": Option(value="N"), "--json": Option()} | _COMPOSED,
        examines=True,
        names_study=True,
    ),
    _own("status", "show the state of runs and prepared data", "commands.during.status"),
    Command(
        "explain",
        "describe an encoding: formula, hooks, cost, attention path, curves",
        "commands.explain:explain",
        groups=("encoding", "model"),
        options={
            "--lengths": Option(value="N,N"),
            **{f"--{name}": Option(value="FILE") for name in ("svg", "pdf", "page", "file")},
            **_COMPOSED,
        },
        examines=True,
        computes=True,
    ),
    _own(
        "completion", "print a script for Tab completion in bash, zsh or fish", "launch.completion"
    ),
    _own("segment", "show a file with its segments in colour"),
)
COMMANDS = {command.name: command for command in _ALL}
COMPOSED = tuple(name for name, command in COMMANDS.items() if not command.own_words)
STUDIES = tuple(name for name in COMPOSED if not COMMANDS[name].examines)
TRAINS, LAUNCHED, CONTINUES = (
    tuple(name for name, command in COMMANDS.items() if getattr(command, kind))
    for kind in ("trains", "launched", "continues")
)
HELP = ("-h", "--help")


def loaded(call: str) -> Any:
    """Return what "module:name" below train names."""
    module, _, name = call.partition(":")
    return getattr(import_module(f"train.{module}"), name)


def find(words: Sequence[str]) -> tuple[Command, list[str]]:
    """Return the command that words begin with, and the rest; ConfigError if there is none."""
    name, rest = words[0], list(words[1:])
    if (two := " ".join(words[:2])) in COMMANDS:
        return COMMANDS[two], rest[1:]
    if name in COMMANDS:
        return COMMANDS[name], rest
    longer = next((each for each in _ALL if each.word == name), None)
    if longer is None:
        known = dict.fromkeys(each.word for each in _ALL)
        raise ConfigError(f"there is no command {name!r}; {nearest(name, known)}")
    if not {*HELP} & {*rest}:  # help of the first such command shows how it goes on
        raise ConfigError(f"{name}: say what to do: bipe {longer.name} key=value ...")
    return longer, rest
