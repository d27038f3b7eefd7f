"""Manifests, names, links and archives of strangers: nothing outside is run, written or removed."""

import csv
import json
import shutil

import pytest

from tests.train.report.conftest import run
from tests.train.report.test_page import HOSTILE, parsed
from train.cli import main
from train.data.rows.sets import DataSets
from train.data.rows.source_segmenter import source_segmenter
from train.data.store.shards import open_dataset
from train.data.store.workplace import recover
from train.disk.files import append, write_whole
from train.disk.manifest import store
from train.errors import ConfigError, DataError, ReportError, RunError
from train.evals.rows import FILE, Row
from train.fit.checkpoints import Place
from train.fit.runs import claim
from train.report.load import load
from train.report.page import write_report


def segmenter(name, /, **parameters):
    return {"segmenter": name, "version": 1, "parameters": parameters, "versions": {}}


SEGMENTERS = [
    segmenter("os.system", command="{shell}"),
    segmenter("builtins.exec", source="open('{ran}', 'w')"),
    segmenter("evil.Cuts"),
    segmenter("segmenters.evil.Cuts"),
    segmenter("train.cli.main", argv=["prepare"]),
    segmenter("train.fit.runs.shutil.rmtree", path="{folder}"),
    segmenter("bipe.encodings.RoPE", head_width=8),
    segmenter("bipe.sealing.seal_model", folder="{folder}"),
    segmenter("segmenters.registry.import_module", name="evil"),
    segmenter("segmenters.code.grammars.load", module="evil", function="Cuts"),
    segmenter("segmenters.prose.spacy_models.build", backend="{folder}", language="en"),
    segmenter("segmenters.Segmenter"),
    segmenter("segmenters.Sentences", backend="evil"),
    segmenter("segmenters.Sentences", backend="{folder}"),
    segmenter("segmenters.Sentences", backend="spacy", language="../victim/papers"),
    segmenter("segmenters.Lines", language="evil"),
    segmenter("segmenters.Clauses", of={"_target_": "evil.Cuts"}),
    segmenter("segmenters.Clauses", of={"_target_": "segmenters.Sentences", "backend": "evil"}),
    segmenter("segmenters.Matched", of={"_target_": "os.system", "command": "{shell}"}, kind="x"),
    segmenter("segmenters.Stride", length={"_target_": "evil.Cuts"}),
    segmenter("segmenters.Stride", length=3, _partial_=True),
    segmenter("segmenters.Stride", _args_=[3]),
    segmenter("segmenters.Pattern", ends="("),
    segmenter(["segmenters.Stride"]),
    {"segmenter": "segmenters.Newline"},
]


def prepared(folder, sources, **more):
    """A data folder that holds only a manifest, sealed as a stranger can."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = {"vocab_size": 9, "sha256": "0" * 64}
    held = {"format": "bipe-data", "version": 2, "tokenizer": tokenizer, "files": {}}
    store(folder / "manifest.json", {**held, "sources": sources, **more})
    return folder


@pytest.mark.parametrize("described", SEGMENTERS, ids=lambda d: str(d)[:60])
def test_nothing_that_a_manifest_names_is_run(described, trap, tmp_path):
    sources = {"text": {"segmenter": trap.fill(described), "splits": {}}}
    sets = DataSets(prepared(tmp_path / "data", sources))
    with pytest.raises(ConfigError, match="text cannot be built from its"):
        source_segmenter(sets, source="text", allowed=())
    assert trap.untouched()


NAMES = ["../../victim/papers", "/etc", "a/../../b", "..", ".", "", "a\\b", "a\0b", "a/b"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_names_in_manifests_stay_in_their_folder(name, trap, data, tmp_path):
    counts = {"documents": 1, "tokens": 1, "segments": 1}
    source = {"segmenter": segmenter("segmenters.Newline"), "splits": {"train": counts}}
    folder = prepared(tmp_path / "data", {name: source})
    with pytest.raises(DataError, match="a source must have a name"):
        DataSets(folder)
    assert main(["export", str(folder), "format=megatron", f"out={tmp_path / 'x'}"]) == 2
    prepared(folder, {}, files={f"{name}/../x": {}})
    with pytest.raises(DataError, match="files must be inside"):
        DataSets(folder)
    shutil.copytree(data / "proofs" / "train", tmp_path / "split")
    held = json.loads((tmp_path / "split" / "manifest.json").read_text())
    files = {file.replace(held["name"], name): entry for file, entry in held["files"].items()}
    store(tmp_path / "split" / "manifest.json", {**held, "name": name, "files": files})
    with pytest.raises(DataError, match="name must be a file name"):
        open_dataset(tmp_path / "split")
    part = tmp_path / "out" / ".part"
    part.mkdir(parents=True)
    (part / "install.json").write_text(json.dumps([name]))
    with pytest.raises(DataError, match="must be a list of file names"):
        recover(part, tmp_path / "out")
    assert trap.untouched()


def test_a_manifest_that_asks_for_endless_levels_or_nests_without_end_is_refused(data, tmp_path):
    shutil.copytree(data / "proofs" / "train", tmp_path / "split")
    path = tmp_path / "split" / "manifest.json"
    store(path, {**json.loads(path.read_text()), "levels": 10**12})
    with pytest.raises(DataError, match="levels from 1 to 7"):
        open_dataset(tmp_path / "split")
    path.write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    with pytest.raises(DataError, match="not a manifest"):
        open_dataset(tmp_path / "split")


def test_nothing_is_written_through_a_link(trap, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (FILE, "environment.json", ".environment.json.part", "metrics.csv"):
        (folder / name).symlink_to(trap.kept)
    with pytest.raises(DataError, match=r"evaluation.jsonl: is a link"):
        append(folder / FILE, "gone\n")
    write_whole(folder / "environment.json", "new")
    assert not (folder / "environment.json").is_symlink()
    assert trap.untouched()


@pytest.mark.parametrize("name", ["checkpoints", "model", "scrolls"])
def test_no_folder_is_emptied_behind_a_link(name, trap, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text("{}")
    (folder / name).symlink_to(trap.folder, target_is_directory=True)
    for if_exists in ("auto", "overwrite", "resume"):
        with pytest.raises(RunError, match=f"{name} is a link"):
            claim(folder, if_exists=if_exists, config={})
    assert trap.untouched()


def test_a_report_removes_no_figures_behind_a_link(trap, tmp_path):
    made = run()
    made.write(tmp_path / "runs" / made.name)
    (tmp_path / "report_figures").symlink_to(trap.folder, target_is_directory=True)
    results = load([Place.of(tmp_path / "runs" / made.name)])
    with pytest.raises(ReportError, match="report_figures must be a folder, not a link"):
        write_report(results, out=tmp_path, title="x", formats=["pdf"])
    assert trap.untouched()


PLACES = ("source", "task", "variant", "note", "measure", "unit")


def test_words_of_strangers_are_shown_and_never_markup(tmp_path):
    words = HOSTILE.replace("/", "|").replace("\x00", "").replace("\ud800", "")
    made = run(family=words)
    for place in PLACES:
        row = {"measure": "spread", "value": 1.0, "length": 512, "source": "prose", place: words}
        made.rows += [Row(**row), Row(**{**row, "value": 2.0, "length": 1024})]
    made.environment |= {"bipe": words, "cpu": words, "created": words}
    made.notes |= {"sources": {words: 1}, "tokenizer": words}
    folders = [made.write(tmp_path / "runs" / words[:80]), run().write(tmp_path / "runs" / "plain")]
    files, _ = write_report(load(map(Place.of, folders)), out=tmp_path, title=words)
    parsed(files.html.read_text())  # fails for a script, a link, a handler
    with files.csv.open(newline="") as table:
        assert list(csv.reader(table))
