"""Cures work as typed: what a message names is typed, and what was refused passes.

A cure is KEY=VALUE, in place of the same key or added; KEY, which goes; or OLD > NEW. Every
KEY=VALUE that a message names and was not typed is a cure, and each is tried.

The laws at the end read all strings of train: the keys, options and commands in them are there.
"""

import ast
import json
import re
from pathlib import Path

import pytest
import tokenizers

from train.cli import main
from train.launch.commands import COMMANDS, HELP, find
from train.launch.help_pages import groups, keys, options

SHORTER, FIT = "rows.curriculum=[{length:32,steps:1}]", "rows.global_batch=5 rows.micro_batch=5"
RUN = {
    "rows.micro_batch=3": ["rows.micro_batch=2"],
    "rows.global_batch=3": ["rows.micro_batch=3"],
    "checkpoints=sharded": ["checkpoints=null"],
    "steps=2 rows.curriculum=[{length:32,steps:3}]": ["steps=4", SHORTER],
    "rows.curriculum=[{length:24,steps:1}]": [SHORTER],
    f"{SHORTER} {FIT} rows.budget=rows": ["rows.budget=tokens"],
    "encoding=kerple encoding.weighted=true": ["encoding.weighted=false", "encoding.kernel=power"],
    "encoding=rop": ["encoding=rope"],
    "encoding=learned encoding.length=10": ["encoding.length=64", "row_length=10"],
    "attention=flex": ["attention=auto"],
    "attention=egaer": ["attention=eager"],
    "trainer.devices=-1": ["trainer.devices=1"],
    "trainer=fsdp2": ["trainer.devices=1"],
    "trainer.precision=16-true": ["trainer.precision=32-true", "trainer.precision=auto"],
    "trainer.max_steps=3": ["trainer.max_steps"],
    "trainer.barebones=true": ["trainer.barebones"],
    "trainer.max_epochs=3": ["trainer.max_epochs"],
    "positions=random": ["positions=randomised"],
    "experiment=smok": ["experiment=smoke"],
    "--pln": ["--pln > --plan"],
    "context_parallel=2": ["context_parallel=1"],
    "dry_run=true": ["dry_run"],
    "if_exists=abc": ["if_exists=auto", "if_exists=refuse", "if_exists=overwrite"],
    "lr=0.001": ["lr=0.001 > optimizer.lr=0.001"],
    "--steps 2": ["--steps 2 > steps=2"],
    "rows.sources={proof:1}": ["rows.sources={proofs:1}"],
    "seed=9999999999999999999": ["seed=9223372036854775807"],
    "model.n_head=3": ["model.n_head=4"],
    "log_every=0": ["log_every=1"],
    "keep_checkpoints=0": ["keep_checkpoints=1"],
    "checkpoint_every=0": ["checkpoint_every=1"],
    "validate_every=0": ["validate_every=1", "validate_every=null"],
}
# What needs no data, either.
UNPLANNED = [
    "checkpoints=sharded",
    "+trainer.limit_train_batches=2",
    "+callbacks.x._target_=lightning.pytorch.callbacks.BatchSizeFinder",
    "+callbacks.x._target_=lightning.pytorch.callbacks.EarlyStopping +callbacks.x.monitor=loss "
    "validate_every=null",
]
# A plan is for any machine, and changes nothing.
OF_A_MACHINE = {"trainer.devices=-1", "trainer=fsdp2", "dry_run=true"}
# Where a run of two steps is finished.
AGAIN = {
    "if_exists=refuse": ["if_exists=auto", "if_exists=overwrite", "name=other"],
    "steps=3": ["if_exists=overwrite", "name=other", "steps=2"],
    "row_length=32": ["row_length=64", "name=other", "if_exists=overwrite"],
}
DOCUMENTS = "corpus.sources.text.documents"
SEGMENTER = "corpus.sources.text.segmenter"
SENTER, THESE = f"{SEGMENTER}.backend=senter", f"segmenter@{SEGMENTER}=lines {SEGMENTER}"
ROWS, LOAD = f"corpus=jsonl {DOCUMENTS}.path=ROWS", "tokenizer@corpus.tokenizer=load"
PLAIN = f"{DOCUMENTS}.path=NEW {LOAD} corpus.tokenizer.path=PLAIN"
PREPARE = {
    f"{DOCUMENTS}.path=OLD {DOCUMENTS}.on_bad=skip {DOCUMENTS}.pattern=*.md": [
        f'{DOCUMENTS}.pattern="**/*.txt"'
    ],
    f"{DOCUMENTS}.path=ROWS": [f"{DOCUMENTS}.path=ROWS > {ROWS} {DOCUMENTS}.text_key=body"],
    f"{ROWS} {DOCUMENTS}.text_key=text": [
        f"{DOCUMENTS}.text_key=body",
        f"{DOCUMENTS}.on_bad=skip",
    ],
    PLAIN: ["corpus.tokenizer.eos=a"],
    f"{PLAIN} corpus.tokenizer.eos=a corpus.tokenizer.bos=document": ["corpus.tokenizer.bos=none"],
    f"{PLAIN} corpus.tokenizer.eos=a corpus.tokenizer.normaliser=refuse": [
        f"corpus.tokenizer.normaliser={cure}" for cure in ("keep", "drop")
    ],
    f"{DOCUMENTS}.path=OLD": [
        f"{DOCUMENTS}.{cure}" for cure in ("on_bad=skip", "max_broken=1", "encoding=[auto,cp1250]")
    ],
    f"{DOCUMENTS}.path=NEW {SENTER}": [f"{SEGMENTER}.fallback=true", f"{SEGMENTER}.backend=rules"],
    f"{DOCUMENTS}.path=NEW {THESE}.prose=sentences": [f"{SEGMENTER}.granularity=logical"],
    f"{DOCUMENTS}.path=NEW corpus.sources.text.levels=9": ["corpus.sources.text.levels=3"],
    f"{DOCUMENTS}.path=NEW limit=0": ["limit=1", "limit=null"],
    f"{DOCUMENTS}.path=NEW workers=1": ["workers=1 > engine.workers=1"],
}
_NAMED = re.compile(r"(?<![\w.@/'])[a-z_][\w@/.]*=[a-z0-9_.]*[a-z0-9_]")
# These need GPUs, or a cluster.
_ELSEWHERE = {"trainer=fsdp2", "trainer=hsdp", "launch=slurm"}


def cured(given, cure):
    """Return words with a cure."""
    if " > " in cure:
        old, new = cure.split(" > ")
        return " ".join(given).replace(old, new).split()
    key, equals, _ = cure.partition("=")
    return [*(word for word in given if word.partition("=")[0] != key), *[cure] * bool(equals)]


def check(told, given, cures):
    """All that the message names to type are cures, or of what was typed."""
    keys = {word.partition("=")[0] for word in given}
    left = {*_NAMED.findall(told)} - {*cures} - _ELSEWHERE
    typed = {word for word in left for key in keys if key.endswith(word.partition("=")[0])}
    assert left == typed, told


@pytest.mark.parametrize("words", RUN)
def test_each_cure_of_a_run_works_as_typed(words, refused, bipe):
    given = words.split()
    check(refused("pretrain", *given), given, RUN[words])
    for number, cure in enumerate(RUN[words]):
        typed = [f"name=cured_{number}", *cured(["steps=2", *given], cure)]
        status, _, err = bipe("pretrain", *typed)
        assert status == 0, (typed, err)


@pytest.mark.parametrize("words", sorted({*RUN, *UNPLANNED} - OF_A_MACHINE))
def test_a_plan_names_what_the_run_is_refused_for(words, refused, bipe):
    told = refused("pretrain", *words.split()).strip().removeprefix("bipe: ")
    _, out, err = bipe("pretrain", "--plan", *words.split())
    assert told.partition(";")[0] in out + err


@pytest.mark.parametrize("words", AGAIN)
def test_each_cure_of_a_folder_that_has_a_run_works_as_typed(words, refused, bipe):
    for cure in AGAIN[words]:
        assert bipe("pretrain", "steps=2", "name=one", "if_exists=overwrite")[0] == 0
        given = ["steps=2", "name=one", words]
        told = refused("pretrain", *given)
        assert "name=" in told and cure.partition("=")[0] in told
        status, _, err = bipe("pretrain", *cured(given, cure))
        assert status == 0, (words, cure, err)


def test_the_command_that_goes_on_from_a_finished_run_works_as_typed(refused, bipe):
    assert bipe("pretrain", "steps=2", "name=one")[0] == 0
    told = refused("pretrain", "steps=3", "name=one")
    command, *words = re.search(r"bipe (extend .*) steps=\.\.\.", told)[1].split()
    assert bipe(command, *words, "steps=1", study=False)[0] == 0


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Texts, and a tokenizer that names no beginning and end of documents, by their words."""
    folder = tmp_path_factory.mktemp("texts")
    text = "One thing is here. Two are there.\n\n" * 40
    (folder / "old").mkdir()
    (folder / "old" / "a.txt").write_bytes(b"caf\xe9 au lait \xe9\xe8. Yes.\n" * 9)
    (folder / "old" / "b.txt").write_text(text)
    (folder / "new.txt").write_text(text)
    rows = {"body": text}, {"body": text, "text": text}
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    bytes_ = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    plain = tokenizers.Tokenizer(tokenizers.models.BPE({b: n for n, b in enumerate(bytes_)}, []))
    plain.normalizer = tokenizers.normalizers.Lowercase()
    plain.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = tokenizers.decoders.ByteLevel()
    plain.save(str(folder / "plain.json"))
    names = ("old", "new.txt", "rows.jsonl", "plain.json")
    return {name.partition(".")[0].upper(): str(folder / name) for name in names}


@pytest.mark.parametrize("words", PREPARE)
def test_each_cure_of_a_corpus_works_as_typed(words, places, tmp_path, capsys):
    def placed(text):
        return re.sub("OLD|NEW|ROWS|PLAIN", lambda name: places[name[0]], text)

    usual = ["corpus=text"] * ("corpus=" not in words)
    usual += ["corpus.tokenizer.vocab_size=270"] * (LOAD not in words)
    given = [*usual, *placed(words).split()]
    assert main(["prepare", f"data={tmp_path / 'refused'}", *given]) == 2
    check(capsys.readouterr().err, given, PREPARE[words])
    for number, cure in enumerate(PREPARE[words]):
        typed = [f"data={tmp_path / str(number)}", *cured(given, placed(cure))]
        assert main(["prepare", *typed]) == 0, (typed, capsys.readouterr().err)


def messages():
    """Yield (place, text) of each string in train with a space, but docstrings; # for a value."""
    for path in sorted((Path(__file__).parents[2] / "train").rglob("*.py")):
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        parts = {id(part) for node in nodes for part in getattr(node, "values", ())}
        parts |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            values = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(getattr(value, "value", "#")) if isinstance(value, ast.Constant)
                           else "#" for value in values)  # fmt: skip
            if id(node) not in parts and " " in text and path.parent.name != "figures":
                yield f"{path.name}:{getattr(node, 'lineno', 0)}", text


# Of other programs, of scripts for shells, of Python, and of classes with further parameters.
_OTHERS = {"a", "check_val_every_n_epoch", "data_files", "datamodule", "filter", "id_key", "key",
           "line", "offered", "on_bad", "pretrained", "val_check_interval", "word"}  # fmt: skip


def test_each_key_that_a_message_sets_is_there_with_its_option():
    known = {key for command in ("", *COMMANDS) for key in keys(command)}
    known = {".".join(key.split(".")[:count]) for key in known for count in range(1, 9)}
    ends = {key.rpartition(".")[2] for key in known}  # of a source, or of a class in Python
    own = {key for command in COMMANDS.values() for key in (*command.keys, *command.elsewhere)}
    named = [
        (place, *match.groups())
        for place, text in messages()
        for match in re.finditer(r"(?<![\w.@/'#<$%-])([a-z_][\w@/.#]*)=(?!=)([a-z_]\w*)?", text)
    ]
    assert len(named) > 200
    known |= ends | own | {*groups()} | _OTHERS
    wrong = []
    for place, key, option in named:
        group, at, _ = key.partition("@")
        if at or (group in groups() and option):
            right = group in groups() and option in (None, "null", *options(group))
        else:
            elsewhere = key.startswith(("hydra.", "hydra/", "corpus.sources.NAME."))
            right = "#" in key or elsewhere or key in known
        wrong += [] if right else [(place, key, option)]
    assert wrong == []


def test_each_command_that_a_message_names_is_there_with_its_options():
    named = [
        (place, *match.groups())
        for place, text in messages()
        for match in re.finditer(r"\bbipe ([a-z-]+)([^;,:)\n]*)", text)
        if match[1] not in ("already", "is", "sets", "to", "words", "-a")  # bipe itself
    ]
    assert len(named) > 50
    for place, word, rest in named:
        command, _ = find([word, *rest.split()])
        options = {*command.options, *HELP, *(["--tasks"] if command.rest else [])}
        assert {*re.findall("--[a-z-]+", rest)} <= options, (place, word, rest)
        if not command.composes and not command.further:
            assert {*re.findall(r" ([a-z_]+)=", rest)} <= {*command.keys}, (place, word, rest)
