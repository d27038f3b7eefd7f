"""Commands read the data of a run, and the segmenter of one of its sources, without being told."""

import json
import shutil

import pytest

from tests.train.studies import composed, pretrain
from train.cli import main
from train.commands.before.needs import data_of_study
from train.errors import DataError
from train.evals.rows import FILE, Journal
from train.fit import runs
from train.fit.checkpoints import Place
from train.fit.trained_run import data_of_run, data_of_runs, read_run
from train.launch.run import run_command

PROMPT = ("--prompt", "It was late. She", "generate.max_new=2")


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """The data of the smoke experiment, cut at line ends."""
    folder = tmp_path_factory.mktemp("lines") / "data"
    cut = "corpus.sources.proofs.segmenter._target_=segmenters.Lines"
    assert main(["prepare", "experiment=smoke", cut, f"data={folder}"]) == 0
    return folder


@pytest.fixture(scope="module")
def mixed(data, lines, tmp_path_factory):
    """A run on both, whose segmenters differ."""
    both = (f"data={{lines: {lines}, steps: {data}}}", "rows.sources=null", "steps=1")
    return pretrain(*both, f"out={tmp_path_factory.mktemp('mixed')}", "encoding=bipe_rope")


@pytest.fixture(scope="module")
def other_tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("other") / "data"
    size = "corpus.tokenizer.vocab_size=270"
    assert main(["prepare", "experiment=smoke", size, f"data={folder}"]) == 0
    return folder


@pytest.fixture
def moved(mixed, tmp_path):
    """The run of two sources, whose data are gone."""
    run = tmp_path / "moved" / mixed.name
    shutil.copytree(mixed, run)
    text = (run / runs.CONFIG).read_text()
    for folder in runs.read_config(run)["data"].values():
        text = text.replace(folder, "/nowhere/data")
    (run / runs.CONFIG).write_text(text)
    return run


def test_data_are_those_that_were_set_or_of_the_folder_or_of_the_run(
    finished, data, lines, other_tokenizer, tmp_path, capsys
):
    run, out = read_run(Place.of(finished("rope"))), tmp_path / "study"
    default = {"asked": f"{out}/data", "out": str(out)}
    assert data_of_run(run, **default) == str(data)
    capsys.readouterr()
    shutil.copytree(other_tokenizer, out / "data")
    assert data_of_runs([run], **default) == [str(data)]
    why = f"since {out}/data has another tokenizer"
    assert capsys.readouterr().err == f"bipe: rope: data={data}, as in training, {why}\n"
    shutil.rmtree(out / "data")
    shutil.copytree(lines, out / "data")
    assert data_of_runs([run], **default) == [f"{out}/data"]
    for asked in ([str(lines)], {"a": str(lines)}):
        assert data_of_run(run, asked=asked, out=str(out)) == asked
    for asked, told in (("/nowhere", "/nowhere"), (str(other_tokenizer), "different tokenizer")):
        with pytest.raises(DataError, match=told):
            data_of_run(run, asked=asked, out=str(out))
    assert capsys.readouterr().err == ""


def test_runs_without_data_are_told_so(finished, moved, tmp_path, capsys):
    words = ("experiment=smoke", f"out={moved.parent}", f"name={moved.name}", "data=/nowhere")
    assert main(["pretrain", *words]) == 2
    said = f"bipe: /nowhere is gone; if it was moved, set data=FOLDER; {moved} is finished\n"
    assert capsys.readouterr().err == said
    default = {"asked": f"{tmp_path}/data", "out": str(tmp_path)}
    with pytest.raises(DataError, match=r"data={lines: /nowhere/data, .*} is gone, and .* data=F"):
        data_of_run(read_run(Place.of(moved)), **default)
    unknown = tmp_path / "unknown"
    shutil.copytree(finished("rope"), unknown)
    (unknown / runs.CONFIG).unlink()
    with pytest.raises(DataError, match=r"unknown: does not name its data, and .*: set data="):
        data_of_run(read_run(Place.of(unknown)), **default)
    config = composed(f"out={tmp_path}")
    assert data_of_study(str(unknown), config) == config.data


def test_each_run_is_measured_on_its_own_data(mixed, finished, data, tmp_path, capsys):
    for run in (mixed, finished("rope")):
        shutil.copytree(run, tmp_path / run.name, ignore=lambda *_: [FILE])
    words = ("evaluate.probes=[]", "evaluate.lengths=[1]", f"out={tmp_path}")
    run_command("evaluate", composed(*words, f"data={tmp_path}/data"))
    told = capsys.readouterr().err
    assert f"bipe: rope: data={data}, as in training, since" in told
    assert "bipe: bipe_rope: data={lines: " in told
    found = {
        name: {row.source for row in Journal(tmp_path / name / FILE).rows() if row.source}
        for name in ("rope", "bipe_rope")
    }
    assert found == {"rope": {"proofs"}, "bipe_rope": {"lines/proofs", "steps/proofs"}}
    assert main(["report", f"out={tmp_path}"]) == 0
    assert main(["evaluate", "statistics", f"out={tmp_path / 'rope'}"]) == 0
    counted = json.loads((tmp_path / "rope" / "segment_statistics.json").read_text())
    assert list(counted["sources"]) == ["proofs"]


def test_a_prompt_chooses_the_source_and_a_run_needs_no_data_for_it(mixed, moved, capsys):
    outputs = []
    for run in (mixed, moved):
        assert main(["generate", str(run), *PROMPT, "generate.temperature=0"]) == 0
        told = capsys.readouterr()
        outputs.append(told.out)
        assert told.err.startswith(
            "bipe: generate.source=lines/proofs is taken: lines/proofs (Lines), the first source; "
            "there are also steps/proofs (ArithmeticSteps)\n"
        )
        assert main(["generate", str(run), *PROMPT, "generate.source=steps/proofs"]) == 0
        assert "is taken" not in capsys.readouterr().err
        assert main(["generate", str(run), *PROMPT, "generate.source=proofs"]) == 2
        assert "generate.source: 'proofs' is not a source" in capsys.readouterr().err
    assert outputs[0] == outputs[1]


def test_a_model_is_converted_with_the_segmenter_of_a_source(moved, tmp_path, capsys):
    for words, kind in (((), "Lines"), (("source=steps/proofs",), "ArithmeticSteps")):
        folder = tmp_path / kind
        assert main(["convert", str(moved), "to=hf", f"out={folder}", *words]) == 0
        assert ("bipe: source=lines/proofs is taken" in capsys.readouterr().err) == (not words)
        made = json.loads((folder / "segmenter.json").read_text())
        assert made["segmenter"] == f"segmenters.{kind}"


def test_scrolls_need_no_data_beside_a_whole_model(moved, tmp_path, capsys):
    words = ["scrolls", "task=fact_lookup", "task.facts=1", "task.validation=2", "steps=0"]
    words += [f"checkpoint={moved}", f"out={tmp_path}/out", "trainer=cpu", "row_length=64"]
    words += ["scrolls.rows=1", "scrolls.max_new=1"]
    assert main([*words, "data=/nowhere"]) == 2
    assert "/nowhere" in capsys.readouterr().err
    assert main(words) == 0
    assert "bipe: scrolls.source=lines/proofs is taken: " in capsys.readouterr().err
