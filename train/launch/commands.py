"""The commands of `bipe`, one object each; usage, help, completion, refusals and dispatch follow.

To add a command, add an object to `_ALL`. Imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from train.errors import ConfigError, nearest
from train.words import Command, Key, Option, Places, loaded

if TYPE_CHECKING:
    from train.config import Config


_CONFIG_DIR = Option(value="FOLDER", short="-cd")
_COMPOSED = {
    "--cfg": Option(value="job", short="-c", choices=("job", "hydra", "all")),
    "--package": Option(value="PACKAGE", short="-p"),
    "--resolve": Option(),
    "--config-file": Option(value="FILE"),
    "--config-dir": _CONFIG_DIR,
}
_MANY = {"--multirun": Option(short="-m")} | _COMPOSED
_DRY = {"--dry-run": Option(key="dry_run=true")}
_TRAINED = {"--plan": Option(), "--json": Option()} | _DRY | _MANY
# Hydra's options that are not ours.
OF_HYDRA = {
    "--info": Option(short="-i", instead="--cfg job, --cfg hydra and --help all show it"),
    "--hydra-help": Option(instead="--help, and docs/runs.md on the keys of hydra.*"),
    "--run": Option(short="-r", instead="without -m a command runs once"),
    "--config-path": Option(short="-cp", instead="--config-dir adds a folder of YAML"),
    "--config-name": Option(short="-cn", instead="experiment=NAME, or --config-file FILE"),
    "--shell-completion": Option(short="-sc", instead="bipe completion SHELL"),
    "--experimental-rerun": Option(instead="--config-file RUN/config.yaml"),
}


_FILES, _PREPARE, _TRAIN = "Output folders", "Preparing data", "Training"
_RUNNING = ("trainer", "logger", "callbacks", "launch", "experiment")


def _without(name: str, does: str, call: str, **others: Any) -> Command:
    """Return a command that composes no configuration."""
    return Command(name, does, call, composes=False, **others)


def _training(
    name: str, does: str, call: str, *, sections: Sequence[str], groups: Sequence[str],
    continues: bool = True, leave_out: Sequence[str] = (), **others: Any,
) -> Command:  # fmt: skip
    return Command(
        name, does, call, sections=(_FILES, *sections), groups=(*groups, *_RUNNING),
        leave_out=leave_out, options=_TRAINED, trains=True, launched=True, computes=True,
        continues=continues, reads="checkpoint" * continues, **others,
    )  # fmt: skip


_RARE = ("patience", "recompute", "context_parallel", "checkpoint_async", "stall_after",
         "rank_timeout")  # fmt: skip
_EXTENDING: dict[str, Any] = {
    "sections": ("bipe extend", _TRAIN),
    "groups": ("stretch", "rows", "optimizer", "schedule"),
    "leave_out": ("positions", "compile", "clip", "label_smoothing", "z_loss"),
}
_ALLOWS = "[yours]: your own packages, if not let in before"
_SEGMENTER = "NAME[:KEY=VALUE,...]"
_SPLITS = ("validation", "test")
_OUTPUTS = Command(
    "scrolls",
    "check a file of predictions, or write the one to submit",
    "commands.after.submission:check_or_submit",
    composes=False,
    keys={
        "validate": Key(about="file of predictions to check; with task and path also its ids"),
        "submit": Key(about="CSV to write, of the predictions of all seven tasks"),
        "out": Key(about="folder of the runs"),
        "task": Key(about="name of the task"),
        "path": Key(about="its archive"),
        "split": Key(about="split of the predictions", choices=("train", *_SPLITS)),
        "seed": Key(about="seed of the runs"),
        "model": Key(about="model of the runs, if there are several"),
    },
)
_SEGMENT = {
    "--text-key": Option(
        value="FIELD", about="field with the text, for rows of .jsonl, .parquet, .csv"
    ),
    "--segmenter": Option(
        value=_SEGMENTER, about="a name of conf/segmenter, or a class of your own: MODULE.CLASS"
    ),
    "--config-dir": Option(
        value="FOLDER", about="of the Python file of your own class, if not the working directory"
    ),
    "--beside": Option(
        value=_SEGMENTER, about="compare with a second segmenter, and mark differences (--html)"
    ),
    "--kind": Option(value="KIND", about="of the documents: prose, code, proof, markdown, ..."),
    "--language": Option(value="NAME", about="programming language of the documents"),
    "--levels": Option(
        value="LEVELS", about="levels to show, by number (2) or name (sentence,paragraph)"
    ),
    "--longest": Option(
        value="N",
        about="split longer segments at the next lower level: characters, or '128 tokens'",
    ),
    "--tokenizer": Option(
        value="PATH", about="tokenizer.json, or its folder, to count tokens with"
    ),
    "--html": Option(value="OUT", about="write an HTML page"),
    "--json": Option(about="print cuts and statistics, one document per line"),
    "--why": Option(about="name the rule at each place where a segment ends or could have ended"),
    "--stats": Option(about="print lengths, a histogram and separators"),
    "--color": Option(value="WHEN", about="colours", choices=("auto", "always", "never")),
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
        elsewhere=dict.fromkeys(("validate", "submit"), _OUTPUTS),
    ),
    _without(
        "finish",
        "end a run now: cool its learning rate down, write its model",
        "launch.finish:main",
        about="""Its learning rate falls on a line from what it is to 0. The same command resumes.
A run of its own begins as a copy up to a step, so that several can be cooled down from one trunk
(schedule=constant or wsd; Haegele et al., 2405.18392); each equals a run that was planned so.
Keys of how it is trained, such as trainer.* and log_every, are those of bipe pretrain.""",
        places=Places(
            name="RUN",
            about="a run, which goes on from its newest checkpoint; or RUN@STEP, one of its "
            "checkpoints: the end becomes a run of its own, and RUN stays as it is",
        ),
        keys={
            "cooldown": Key(
                about="optimizer steps of the fall; 0: none, only write the model; default: a "
                "tenth of the steps so far, and no more than were planned"
            ),
            "name": Key(about="of a run of its own; default: RUN_STEP"),
            "out": Key(about="folder of a run of its own; default: beside RUN"),
            "allowed_targets": Key(about=_ALLOWS),
        },
        further=True,
    ),
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
        options=_MANY,
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
            "--package": Option(value="PACKAGE"),  # -p is the prompt
        },
        computes=True,
        reads="generate.run",
        places=Places(name="RUN", least=0, key="generate.run"),
    ),
    Command(
        "report",
        "write an HTML report with curves and tables, and the numbers as CSV and JSON",
        "commands.report:report",
        sections=(_FILES, "report"),
        leave_out=("data", "name", "if_exists"),
        options=_MANY,
    ),
    _without(
        "verify",
        "check every byte of prepared data",
        "commands.verify:main",
        about="Lists every fault with its file and bytes, one per line. Exit status: 0 no faults, "
        "1 faults,\n2 the folder cannot be read.",
        places=Places(name="DIR", about="the folder of bipe prepare, or that of one split"),
    ),
    _without(
        "export",
        "convert prepared data to Megatron or Parquet",
        "commands.export:main",
        about="Writes one set of files per split, verified first.",
        places=Places(name="DIR", about="prepared data"),
        keys={
            "format": Key(
                about="megatron: .bin and .idx of Megatron-LM's IndexedDataset; parquet: id, "
                "bytes, input_ids and segment_lengths, a row per document",
                needed=True,
            ),
            "out": Key(about="a new or empty folder", needed=True),
            "sequences": Key(about="what a sequence of Megatron's is: documents or segments"),
            "level": Key(
                about="name or number of the finest level to write; its segments are the first"
            ),
        },
    ),
    _without(
        "convert",
        "convert a run to Hugging Face transformers, or back",
        "commands.after.convert:main",
        about="""Writes a trained model as a folder of transformers, or such a folder as a run:
weights, config, tokenizer, segmenter and model card.""",
        places=Places(
            name="RUN|FOLDER",
            about="a run, RUN@STEP, or the folder of a model, to=hf; or to=bipe: LLaMA, Mistral, "
            "Qwen 2 or 3, a model of bipe.hf, the released BiPE, or hf://OWNER/NAME[@REVISION]",
        ),
        keys={
            "to": Key(about="what to write", choices=("hf", "bipe"), needed=True),
            "out": Key(about="a new folder", needed=True),
            "dtype": Key(
                about="of the weights; default: unchanged",
                choices=("float32", "bfloat16", "float16"),
            ),
            "shard_gb": Key(about="maximum gigabytes per weight file; default: 5"),
            "tokenizer": Key(about="a file or folder, if there is none next to the model"),
            "segmenter": Key(about=f"{_SEGMENTER}, if there is none next to the model"),
            "source": Key(
                about="a source of the run's data, if their segmenters differ; default: the first"
            ),
            "data": Key(about="prepared data of the run, if moved: to measure the id table"),
            "allowed_targets": Key(about=_ALLOWS),
            "push": Key(
                about="OWNER/NAME: also upload the folder to a private repository of the Hub"
            ),
        },
    ),
    _without(
        "lm-eval",
        "run tasks of lm-evaluation-harness",
        "commands.after.lm_eval:main",
        about="""With the harness's own command line shown by bipe lm-eval run --help;
--model and pretrained= are set by RUN. The model type `bipe` segments texts as in training.""",
        places=Places(
            name="RUN",
            least=0,
            about="a run or RUN@STEP, whose results are also added to its evaluation.jsonl for "
            "bipe report; or a folder of transformers; or run, ls, validate of the harness",
        ),
        options={
            "--output_path": Option(value="FOLDER", about="to keep the harness's own results")
        },
        keys={
            "allowed_targets": Key(about=_ALLOWS),
            "source": Key(
                about="source whose segmenter to use, if they differ; default: the first"
            ),
        },
        rest=True,
    ),
    Command(
        "tokenizer train",
        "train a tokenizer on a corpus, for use elsewhere",
        "commands.tokenizer:train_tokenizer",
        sections=(_FILES, _PREPARE),
        groups=("corpus", "tokenizer"),
        leave_out=("name", "dry_run"),
        options=_MANY,
    ),
    Command(
        "doctor",
        "check whether this machine can run a study, and how to fix what is missing",
        "commands.before.doctor:doctor",
        options={"--json": Option()} | _COMPOSED,
        examines=True,
        names_study=True,
    ),
    _without(
        "status",
        "show the state of runs and prepared data",
        "commands.during.status:main",
        about="Reads files only, also while they are written.",
        places=Places(
            name="FOLDER",
            about="a run, data, or a folder of them; default: runs",
            least=0,
            most=None,
        ),
        options={
            "--json": Option(about="print all numbers as a JSON list"),
            "--verify": Option(about="also verify the sha256 of models"),
        },
        keys={"out": Key(about="the same as FOLDER")},
    ),
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
    _without(
        "completion",
        "print a script for Tab completion in bash, zsh or fish",
        "launch.help_pages:completion",
        places=Places(name="SHELL", about="bash, zsh or fish"),
        options={"--line": Option(value="LINE", about="print what its last word may become")},
    ),
    _without(
        "segment",
        "show a file with its segments in colour",
        "commands.segment:main",
        about="""In two colours (or between bars), and the next level in two more (or double bars).
Without --segmenter it depends on the kind of each document, as in bipe prepare.""",
        places=Places(name="FILE", about="UTF-8 text, a folder, or - (standard input)", most=None),
        options=_SEGMENT,
    ),
)
COMMANDS = {command.name: command for command in _ALL}
# The first words, with what they do: of several commands with one word, that of the word alone.
WORDS = {command.word: COMMANDS.get(command.word, command).does for command in _ALL}
COMPOSED = tuple(name for name, command in COMMANDS.items() if command.composes)
STUDIES = tuple(name for name in COMPOSED if not COMMANDS[name].examines)
TRAINS, LAUNCHED = (
    tuple(name for name, command in COMMANDS.items() if getattr(command, kind))
    for kind in ("trains", "launched")
)
HELP = ("-h", "--help")


def settled(name: str, config: Config, *, notes: list[str] | None = None) -> Config:
    """Return the configuration of a training as it will run: checked, with what others decide.

    notes: of a plan, gets what is assumed of a checkpoint or data that are not there yet.
    """
    decided: Config = loaded(f"{COMMANDS[name].module}:settled")(config, notes=notes)
    return decided


def find(words: Sequence[str]) -> tuple[Command, list[str]]:
    """Return the command that words begin with, and the rest; ConfigError if there is none."""
    name, rest = words[0], list(words[1:])
    if (two := " ".join(words[:2])) in COMMANDS:
        return COMMANDS[two], rest[1:]
    if name in COMMANDS:
        command = COMMANDS[name]
        keys = (word.partition("=")[0].removeprefix("scrolls.") for word in rest)
        return next((command.elsewhere[key] for key in keys if key in command.elsewhere),
                    command), rest  # fmt: skip
    longer = next((command for command in _ALL if command.word == name), None)
    if longer is None:
        raise ConfigError(f"there is no command {name!r}; {nearest(name, WORDS)}")
    if not {*HELP} & {*rest}:  # help of the first such command shows how it goes on
        raise ConfigError(f"{name}: say what to do: bipe {longer.name} key=value ...")
    return longer, rest
