"""The commands of `bipe`, one object each; usage, help, completion and dispatch follow from them.

To add a command, add an object to `_ALL`. Imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from train.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option such as --limit N.

    value: the name of its value; empty for a switch. key: of conf/, which it sets; otherwise the
    command reads the option itself. text: the value is taken as it is typed, whatever Hydra's
    grammar would make of it. short: another name.
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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    examples: Sequence[str] = ()
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


_FILES, _PREPARE, _TRAIN = "Output folders", "Preparing data", "Training"
_RUNNING = ("trainer", "logger", "callbacks", "launch", "experiment")


def _training(
    name: str, *, sections: Sequence[str], groups: Sequence[str], continues: bool = True,
    leave_out: Sequence[str] = (), **others: object,
) -> Command:  # fmt: skip
    return Command(
        name=name, sections=(_FILES, *sections), groups=(*groups, *_RUNNING), leave_out=leave_out,
        options=_TRAINED, trains=True, launched=True, computes=True, continues=continues,
        **others,  # type: ignore[arg-type]
    )  # fmt: skip


_EXTENDING = {
    "sections": ("bipe extend", _TRAIN),
    "groups": ("stretch", "rows", "optimizer", "schedule"),
    "leave_out": ("positions", "compile", "clip", "label_smoothing", "z_loss"),
}
_ALL = (
    Command(
        name="prepare",
        does="segment and tokenize documents, and write tokens and marks to disk",
        call="commands.prepare:prepare_data",
        examples=(
            "bipe prepare corpus=text corpus.sources.text.documents.path=FOLDER out=runs/mine",
            "bipe prepare corpus=jsonl corpus.sources.text.documents.path=FILE --dry-run",
            "bipe prepare segmenter@corpus.sources.text.segmenter=auto --limit 100",
        ),
        sections=(_FILES, _PREPARE),
        groups=("corpus", "segmenter", "tokenizer", "engine", "experiment"),
        options=_DRY | {"--limit": Option(value="N", key="limit")} | _MANY,
    ),
    _training(
        "pretrain",
        does="train a model on prepared data; the same command again resumes exactly",
        call="commands.pretrain:pretrain",
        examples=(
            "bipe pretrain out=runs/mine encoding=bipe_rope steps=2000",
            "bipe pretrain -m out=runs/mine encoding=rope,alibi seed=0,1     # one run each",
            "bipe pretrain --plan experiment=pile_151m_bipe_rope             # memory, days, disk",
        ),
        sections=(_TRAIN,),
        groups=("model", "encoding", "rows", "optimizer", "schedule", "positions"),
        continues=False,
    ),
    _training(
        "extend",
        does="extend the context of a trained model, by its encoding and by longer rows",
        call="commands.extend:extend",
        examples=(
            "bipe extend checkpoint=runs/mine/bipe_rope out=runs/mine stretch=yarn row_length=4096",
            "bipe extend checkpoint=RUN out=OUT stretch=rerope steps=0       # without training",
            "bipe extend checkpoint=RUN out=OUT row_length=2048              # longer rows alone",
        ),
        **_EXTENDING,  # type: ignore[arg-type]
    ),
    _training(
        "retrofit",
        does="add segments to a trained RoPE model, and train it further",
        call="commands.extend:retrofit",
        examples=(
            "bipe retrofit checkpoint=runs/mine/rope out=runs/mine stretch=gated",
            "bipe retrofit -m checkpoint=RUN out=OUT stretch=gated,swap,drope  # with a control",
            "bipe retrofit checkpoint=RUN out=OUT stretch=split steps=0       # without training",
        ),
        **_EXTENDING,  # type: ignore[arg-type]
    ),
    _training(
        "scrolls",
        does="fine-tune on a long-document task, decode, and score",
        call="commands.scrolls:scrolls",
        examples=(
            "bipe scrolls task=qmsum path=qmsum.zip checkpoint=RUN out=runs/scrolls",
            "bipe scrolls task=qmsum path=qmsum.zip checkpoint=RUN steps=0   # without training",
            "bipe scrolls validate=predictions.json task=qmsum path=qmsum.zip",
        ),
        sections=("bipe scrolls",),
        groups=("task", "stretch", "rows", "optimizer", "schedule"),
        renames={"path": "task.path"},
        elsewhere=dict.fromkeys(("validate", "submit"), "commands.scrolls:check_or_submit"),
    ),
    Command(
        name="evaluate",
        does="measure perplexity at several lengths, and retrieval; earlier results are kept",
        call="commands.evaluate:evaluate",
        examples=(
            "bipe evaluate out=runs/mine",
            "bipe evaluate out=runs/mine evaluate.lengths=[1,4] evaluate.probes=[passkey,copy]",
            "bipe evaluate statistics out=runs/mine                          # without a model",
        ),
        sections=(_FILES, "Evaluation"),
        groups=("sweep", "trainer", "launch", "experiment"),
        options=_DRY | _MANY,
        launched=True,
        computes=True,
        reads="evaluate.runs",
    ),
    Command(
        name="evaluate statistics",
        does="measure how segments relate to document length, without a model",
        call="commands.statistics:count_segments",
        examples=("bipe evaluate statistics out=runs/mine",),
        sections=(_FILES, "bipe evaluate statistics"),
    ),
    Command(
        name="generate",
        does="continue a prompt, or standard input, with a trained model",
        call="commands.generate:generate_text",
        examples=(
            "bipe generate runs/mine/bipe_rope --prompt 'It was'",
            "bipe generate runs/mine/bipe_rope --file prompt.txt generate.temperature=0",
            "echo 'It was' | bipe generate runs/mine/bipe_rope",
        ),
        sections=("bipe generate", _FILES),
        leave_out=("name", "if_exists"),
        options={
            "--prompt": Option(value="TEXT", key="generate.prompt", text=True, short="-p"),
            "--file": Option(value="FILE", key="generate.file", text=True),
            **_MANY,
        },
        computes=True,
        reads="generate.run",
        positional="generate.run",
    ),
    Command(
        name="report",
        does="write an HTML report with curves and tables, and the numbers as CSV and JSON",
        call="commands.report:report",
        examples=(
            "bipe report out=runs/mine",
            "bipe report report.runs=[runs/a,runs/b] report.out=runs/both",
        ),
        sections=(_FILES, "report"),
        leave_out=("data", "name", "if_exists"),
    ),
    Command(
        name="verify",
        does="check every byte of prepared data",
        call="commands.verify:main",
        own_words=True,
    ),
    Command(
        name="export",
        does="convert prepared data to Megatron or Parquet",
        call="commands.export:main",
        own_words=True,
    ),
    Command(
        name="convert",
        does="convert a run to Hugging Face transformers, or back",
        call="commands.after.convert:main",
        own_words=True,
    ),
    Command(
        name="lm-eval",
        does="run tasks of lm-evaluation-harness",
        call="commands.after.lm_eval:main",
        own_words=True,
    ),
    Command(
        name="tokenizer train",
        does="train a tokenizer on a corpus, for use elsewhere",
        call="commands.tokenizer:train_tokenizer",
        examples=("bipe tokenizer train corpus=text corpus.sources.text.documents.path=FOLDER",),
        sections=(_FILES, _PREPARE),
        groups=("corpus", "tokenizer"),
        leave_out=("name", "dry_run"),
    ),
    Command(
        name="doctor",
        does="check whether this machine can run a study, and how to fix what is missing",
        call="commands.before.doctor:doctor",
        examples=(
            "bipe doctor                                         # the machine",
            "bipe doctor scrolls task=qmsum checkpoint=RUN       # also what this study needs",
            "bipe doctor --ranks 4                               # links between 4 processes",
            "torchrun --nproc-per-node 8 -m train.cli doctor     # links between these processes",
        ),
        options={"--ranks": Option(value="N"), "--json": Option()} | _COMPOSED,
        examines=True,
        names_study=True,
    ),
    Command(
        name="status",
        does="show the state of runs and prepared data",
        call="commands.during.status:main",
        own_words=True,
    ),
    Command(
        name="explain",
        does="describe an encoding: formula, hooks, cost, attention path, curves",
        call="commands.explain:explain",
        examples=(
            "bipe explain encoding=bipe_alibi",
            "bipe explain encoding=fox --lengths 512,8192        # of rows, in tokens",
            "bipe explain encoding=t5 --svg FILE.svg             # or --pdf FILE.pdf: the curves",
            "bipe explain encoding=rope --page FILE.html --file TEXT   # a page to type texts in",
        ),
        groups=("encoding", "model"),
        options={
            "--lengths": Option(value="N,N"),
            **{f"--{name}": Option(value="FILE") for name in ("svg", "pdf", "page", "file")},
            **_COMPOSED,
        },
        examines=True,
        computes=True,
    ),
    Command(
        name="completion",
        does="print a script for Tab completion in bash, zsh or fish",
        call="launch.completion:main",
        own_words=True,
    ),
    Command(
        name="segment",
        does="show a file with its segments in colour",
        call="commands.segment:main",
        own_words=True,
    ),
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
    if not {*HELP} & {*rest}:
        raise ConfigError(f"{name}: say what to do: bipe {longer.name} key=value ...")
    return longer, rest
