"""The levels that a model reads: data of two levels, read at the second, are data of that level;
an encoding of several levels reads both, from shards to text that is written.
"""

import json

import numpy as np
import pytest
import torch

from bipe import Carry, Positions
from bipe.checkpoint import load_model
from bipe.generation import Session
from segmenters import Levels, Sentences, TokenMarker, mark
from tests.train.studies import curve, notes_of, pretrain, same_weights
from train.cli import main
from train.data import JSONL, Corpus, Source
from train.data.preparing.prepare import prepare
from train.data.reading.split import Split
from train.data.rows.choices import Packing
from train.data.rows.packing import Rows
from train.data.rows.sets import DataSets
from train.data.rows.source_segmenter import source_segmenter
from train.data.store.export import export
from train.data.tokenizing.vocabulary import LoadTokenizer, TrainBPE
from train.errors import ConfigError, DataError


def text(draw):
    said = [
        " ".join(f"It was {draw.integers(99)} cats." for _ in range(draw.integers(1, 6)))
        for _ in range(12)
    ]
    return json.dumps({"text": "\n\n".join(said)}) + "\n"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The same text twice, with sentences and paragraphs and with paragraphs alone, and runs."""
    out = tmp_path_factory.mktemp("level")
    draw = np.random.default_rng(0)
    (out / "corpus.jsonl").write_text("".join(text(draw) for _ in range(40)))
    how = {"documents": JSONL(path=out / "corpus.jsonl"), "segmenter": Sentences()}
    for name, levels in {"both": 2, "paragraphs": ["paragraph"]}.items():
        split = Split(validation=0.2, test=0.2)
        source = {"x": Source(**how, levels=levels)}
        made = Corpus(sources=source, tokenizer=TrainBPE(vocab_size=300), split=split)
        prepare(made, out=out / name, progress=False)
    trained(out, "both", "rows.level=paragraph")
    trained(out, "paragraphs", data="paragraphs")
    return out


def trained(study, name, *words, data="both"):
    place = (f"data={study / data}", f"out={study / 'runs'}", f"name={name}")
    return pretrain(*place, "steps=2", "rows.sources=null", *words)


def written(run, capfdbinary, *words):
    options = [f"generate.run={run}", "generate.temperature=0", "generate.max_new=24"]
    assert main(["generate", *options, "generate.prompt='It was. It was 3 cats.'", *words]) == 0
    return capfdbinary.readouterr().out


def test_a_model_reads_the_level_that_it_is_told(study, capfdbinary):
    both, paragraphs = study / "runs" / "both", study / "runs" / "paragraphs"
    assert same_weights(both, paragraphs)
    assert curve(both) == curve(paragraphs)
    # Text is written in segments of that level.
    told = written(both, capfdbinary, "generate.segmenter=sentences")
    assert told == written(paragraphs, capfdbinary) != b""


def test_an_export_of_that_level_is_that_of_its_data(study, tmp_path):
    for name, level in {"both": "paragraph", "paragraphs": None}.items():
        options = {"format": "megatron", "sequences": "segments", "level": level}
        [*export(study / name, out=tmp_path / name, **options)]
    both = {path.name: path for path in (tmp_path / "both" / "x").iterdir()}
    assert both
    for name, path in both.items():
        assert path.read_bytes() == (tmp_path / "paragraphs" / "x" / name).read_bytes()


def test_a_level_is_a_number_a_name_or_the_first_of_names_that_is_there(study):
    for level in (1, "paragraph", ["method", "paragraph"]):
        sets = DataSets(study / "both", level=level)
        assert sets.levels_of("x") == (1,)
        followed = source_segmenter(sets, source="x", allowed=())
        assert followed == Levels(of=Levels(of=Sentences(), keep=2), keep=["paragraph"])
    for level in (2, "page", ["page"]):
        with pytest.raises(DataError, match=r"rows\.level=.* must be one of sentence, paragraph"):
            DataSets(study / "both", level=level).open("x", "train")
    assert DataSets(study / "paragraphs").levels_of("x") == (0,)


WORDS = ("encoding=multilevel", "encoding.encodings.sentence.part=[0.0, 0.5]")


@pytest.fixture(scope="module")
def runs(study):
    """Runs of several levels: the next level, and the same by name."""
    trained(study, "next", *WORDS)
    trained(study, "named", *WORDS, "rows.level=sentence", "rows.coarser=[[definition, paragraph]]")
    trained(study, "segatron", "encoding=segatron")
    return study / "runs"


def test_levels_are_the_next_ones_or_those_of_a_name(runs):
    assert same_weights(runs / "next", runs / "named")
    assert curve(runs / "next") == curve(runs / "named")
    notes = notes_of(runs / "named")
    assert notes["level"] == "sentence" and notes["coarser"] == [["definition", "paragraph"]]


@pytest.mark.parametrize("strategy", ["concat", "best_fit", "single", "long_first"])
def test_rows_that_continue_have_the_ids_of_their_documents(study, strategy):
    data = DataSets(study / "both", coarser=1).open("x", "train")
    assert data.levels == data.marked == (0, 1)
    whole = Positions.from_marks(torch.from_numpy(data.marks(0, len(data.tokens)))[None], levels=2)
    packing = Packing(strategy=strategy, split_documents="continue")
    rows = Rows(data=data, row_length=40, packing=packing)
    for index, row in enumerate(rows.read(range(min(40, len(rows))))):
        carry = Carry.from_columns(torch.from_numpy(row.carry)[None])
        marks = torch.from_numpy(row.marks)[None]
        found = Positions.from_marks(marks, carry=carry, levels=2)
        at = 0
        for start, stop in rows.packed.spans(index).tolist():
            for ours, theirs in zip(found.levels, whole.levels, strict=True):
                length = min(stop - start, 41 - at)
                assert torch.equal(ours[0, at : at + length], theirs[0, start : start + length])
            at += stop - start


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["rows.level=paragraph"], r"reads 2 levels.*has 1 \(paragraph\).*levels=3"),
        (["rows.coarser=[page]"], r"rows\.coarser=page must be one of sentence, paragraph"),
        (["rows.coarser=[sentence]"], r"rows\.coarser must name levels above .* was: sentence"),
        (["rows.coarser=[]"], r"rows\.coarser must name 1 levels, .* or be null, was: \[\]"),
    ],
)
def test_data_without_these_levels_are_refused(study, words, told):
    with pytest.raises((ConfigError, DataError), match=told):
        trained(study, "refused", *WORDS, *words)


def test_runs_of_several_levels_are_measured(study, runs):
    words = ["evaluate.lengths=[1]", "evaluate.probes=[copy]", "row_length=64"]
    words += ["evaluate.documents=2", "evaluate.probing.trials=1"]
    chosen = f"evaluate.runs=[{runs / 'next'},{runs / 'segatron'}]"
    assert main(["evaluate", f"out={study}", chosen, f"data={study / 'both'}", *words]) == 0
    for name in ("next", "segatron"):
        lines = (runs / name / "evaluation.jsonl").read_text().splitlines()
        measured = {row["measure"] for row in map(json.loads, lines)}
        assert "perplexity" in measured and len(measured) > 2


def test_text_that_is_written_is_marked_on_both_levels(study, runs):
    """Read token by token with a marker, and at once with the marks of the whole text."""
    model = load_model(runs / "next" / "model")[0].eval().double()
    assert model.levels == 2
    sets = DataSets(study / "both", coarser=1)
    tokenizer, segmenter = LoadTokenizer(path=sets.folder).build(), Levels(of=Sentences(), keep=2)
    assert source_segmenter(sets, source="x", allowed=()) == segmenter
    text = "It was 3 cats. It was 4.\n\nIt was 5 dogs. It was 6. So.\n\nIt was 7."
    ((ids, anchors),) = tokenizer.encode_batch([text])
    marks = torch.from_numpy(mark(anchors, segmenter.levels(text)))[None]
    assert int((marks >> 2).sum()) == 3 and int((marks >> 1 & 1).sum()) == 6
    tokens = torch.from_numpy(ids.astype(np.int64))[None]
    whole = model.logits(tokens, Positions.from_marks(marks, levels=2))
    marker = TokenMarker(segmenter=segmenter, pieces=tokenizer.pieces(), levels=2)
    session = Session(model, batch=1, marker=marker)
    parts = [session.feed([ids[:7].tolist()])]
    parts += [session.feed([[id]]) for id in ids[7:].tolist()]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-9, rtol=0)


def test_the_command_writes_text(runs, capfdbinary):
    assert written(runs / "named", capfdbinary)
    words = [f"generate.run={runs / 'named'}", "generate.prompt=x", "generate.segmenter=newline"]
    assert main(["generate", *words]) == 2
    said = capfdbinary.readouterr().err.decode()
    assert "generate.segmenter: " in said and "must be one of" in said


def test_a_run_goes_on_with_its_levels_and_is_not_stretched(runs, tmp_path, capsys):
    words = ["extend", f"checkpoint={runs / 'named'}", f"out={tmp_path}", "name=longer"]
    words += ["row_length=96", "steps=1", "trainer=cpu", "rows.global_batch=2"]
    words += ["rows.micro_batch=2"]
    assert main(words) == 0
    notes = notes_of(tmp_path / "longer")
    assert notes["coarser"] == [["definition", "paragraph"]]
    capsys.readouterr()
    assert main([*words, "stretch=yarn", "name=stretched"]) == 2
    assert "Multilevel cannot be stretched" in capsys.readouterr().err
