"""The level that a model reads: data of two levels, read at the second, are data of that level."""

import json

import numpy as np
import pytest

from segmenters import Levels, Sentences
from tests.train.studies import curve, pretrain, same_weights
from train.cli import main
from train.data import JSONL, Corpus, Source
from train.data.preparing.prepare import prepare
from train.data.reading.split import Split
from train.data.rows.sets import DataSets
from train.data.rows.source_segmenter import source_segmenter
from train.data.store.export import export
from train.data.tokenizing.vocabulary import TrainBPE
from train.errors import DataError


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The same text twice, with sentences and paragraphs and with paragraphs alone, and runs."""
    out = tmp_path_factory.mktemp("level")
    draw = np.random.default_rng(0)
    with (out / "corpus.jsonl").open("w") as lines:
        for _ in range(40):
            said = [
                " ".join(
                    f"It was {draw.integers(99)} {draw.choice(['cats', 'dogs'])}."
                    for _ in range(draw.integers(1, 6))
                )
                for _ in range(12)
            ]
            lines.write(json.dumps({"text": "\n\n".join(said)}) + "\n")
    for name, levels in {"both": 2, "paragraphs": ["paragraph"]}.items():
        source = Source(
            documents=JSONL(path=out / "corpus.jsonl"), segmenter=Sentences(), levels=levels
        )
        split = Split(validation=0.2, test=0.2)
        made = Corpus(sources={"x": source}, tokenizer=TrainBPE(vocab_size=300), split=split)
        prepare(made, out=out / name, progress=False)
    for name, words in {
        "both": ["rows.level=paragraph"],
        "paragraphs": [],
        "sentences": [],
    }.items():
        data = out / ("both" if name == "sentences" else name)
        pretrain(
            f"data={data}",
            f"out={out / 'runs'}",
            f"name={name}",
            "steps=3",
            "rows.sources=null",
            *words,
        )
    return out


def test_a_model_reads_the_level_that_it_is_told(study):
    runs = study / "runs"
    assert same_weights(runs / "both", runs / "paragraphs")
    assert curve(runs / "both") == curve(runs / "paragraphs")
    assert not same_weights(runs / "both", runs / "sentences")


def test_runs_are_measured_on_the_level_that_each_reads(study):
    words = ["evaluate.lengths=[1]", "evaluate.probes=[]", "row_length=64", "evaluate.documents=2"]
    for runs, data in {"runs": "both", "runs/paragraphs": "paragraphs"}.items():
        place = [f"out={study}", f"evaluate.runs={study / runs}", f"data={study / data}"]
        assert main(["evaluate", *place, *words]) == 0
    values = {}
    for name in ("both", "paragraphs"):
        lines = (study / "runs" / name / "evaluation.jsonl").read_text().splitlines()
        rows = [row for row in map(json.loads, lines) if row["measure"] == "perplexity"]
        values[name] = [row["value"] for row in rows]
    # The same weights, by sentences and then by paragraphs.
    assert values["paragraphs"][0] != values["paragraphs"][1] == values["both"][0]


@pytest.mark.parametrize("words", [[], ["generate.segmenter=sentences"]])
def test_text_is_written_in_segments_of_that_level(study, words, capfdbinary):
    told = {}
    for name in ("both", "paragraphs", "sentences"):
        options = [f"generate.run={study / 'runs' / name}", "generate.temperature=0"]
        options += ["generate.max_new=40", "generate.prompt='It was. It was 3 cats.'"]
        assert main(["generate", *options, *words * (name == "both")]) == 0
        told[name] = capfdbinary.readouterr().out
    assert told["both"] == told["paragraphs"]


def test_a_run_that_goes_on_from_it_reads_that_level(study, tmp_path):
    words = ["extend", f"checkpoint={study / 'runs' / 'both'}", f"out={tmp_path}", "name=longer"]
    words += [
        "row_length=96",
        "steps=2",
        "trainer=cpu",
        "rows.global_batch=2",
        "rows.micro_batch=2",
    ]
    assert main(words) == 0
    described = json.loads((tmp_path / "longer" / "model" / "config.json").read_text())
    assert described["notes"]["level"] == "paragraph"


@pytest.mark.parametrize("format", ["megatron", "parquet"])
def test_an_export_of_that_level_is_that_of_its_data(study, tmp_path, format):
    for name, level in {"both": "paragraph", "paragraphs": None}.items():
        options = {"format": format, "sequences": "segments", "level": level}
        [*export(study / name, out=tmp_path / name, **options)]
    both = {path.name: path for path in (tmp_path / "both" / "x").iterdir()}
    assert both
    for name, path in both.items():
        other = tmp_path / "paragraphs" / "x" / name
        if format == "megatron":
            assert path.read_bytes() == other.read_bytes()
        else:
            import pyarrow.parquet as pq

            assert pq.read_table(path).equals(pq.read_table(other))


def test_a_level_is_a_number_a_name_or_the_first_of_names_that_is_there(study):
    for level in (1, "paragraph", ["method", "paragraph"]):
        sets = DataSets(study / "both", level=level)
        assert sets.level_of("x") == 1
        followed = source_segmenter(sets, source="x", allowed=())
        assert followed == Levels(of=Levels(of=Sentences(), keep=2), keep=["paragraph"])
    for level in (2, "page", ["page"]):
        with pytest.raises(DataError, match=r"rows\.level=.* must be among sentence, paragraph, 0"):
            DataSets(study / "both", level=level).open("x", "train")
    assert DataSets(study / "paragraphs").level_of("x") == 0
