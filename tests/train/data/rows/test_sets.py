"""Several prepared folders as one: the same tokenizer, names that tell them apart, weights."""

import pytest

from tests.train.data import corpora
from train.data.reading.files import TextFiles
from train.data.reading.split import Split
from train.data.rows.choices import Curriculum, Mixture
from train.data.rows.datamodule import LMDataModule
from train.data.rows.sets import DataSets
from train.data.tokenizing.vocabulary import LoadTokenizer, TrainBPE
from train.errors import DataError


def texts(folder, number, words):
    folder.mkdir(parents=True)
    for index in range(number):
        (folder / f"{index}.txt").write_text(f"{words} {index}\n" * (20 + 7 * index))
    return TextFiles(path=folder)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Two folders with one tokenizer, and one with another."""
    root = tmp_path_factory.mktemp("sets")
    split = Split(ids={"train": ["0.txt", "1.txt", "2.txt"], "validation": ["3.txt"]})
    made = {
        "web": ({"prose": "the cat sat"}, TrainBPE(vocab_size=280)),
        "books": ({"prose": "a dog ran", "plays": "to be"}, LoadTokenizer(path=root / "web")),
        "other": ({"prose": "le chat"}, TrainBPE(vocab_size=270)),
    }
    for name, (words_of, tokenizer) in made.items():
        readers = {
            source: texts(root / "text" / name / source, 4, words)
            for source, words in words_of.items()
        }
        corpora.prepared(readers, root / name, tokenizer=tokenizer, corpus={"split": split})
    return {name: str(root / name) for name in made}


@pytest.fixture(scope="module")
def named(prepared):
    return {name: prepared[name] for name in ("web", "books")}


def module(folder, *, mixture=None, stages=(), budget="tokens", **options):
    given = {"row_length": 16, "global_batch": 4, "micro_batch": 2}
    given |= {"mixture": Mixture(**mixture or {})}
    given |= {"curriculum": Curriculum(stages=stages, budget=budget)}
    return LMDataModule(folder=folder, **(given | options))


def test_named_folders_give_names_to_their_sources(named):
    sets = DataSets(named)
    assert list(sets.sources) == ["web/prose", "books/prose", "books/plays"]
    assert sets.open("books/prose", "train").folder.parts[-3:] == ("books", "prose", "train")
    assert sets.members("books") == ["books/prose", "books/plays"]
    assert sets.by_folder(["books/plays"])[sets.sources["books/plays"][0]] == ["plays"]
    assert DataSets(named["web"]).members("prose") == ["prose"]


def test_folders_that_do_not_fit_together_are_refused(prepared):
    web, books, other = prepared.values()
    assert list(DataSets([web]).sources) == ["prose"]
    for folders, told in (
        ([web, books], r"both have a source prose; name the folders"),
        ([], "at least one folder"),
        ({"web": web, "other": other}, "other was made with a different tokenizer.*_size was"),
    ):
        with pytest.raises(DataError, match=told):
            DataSets(folders)


def test_weights_are_of_sources_or_of_whole_sets(named):
    sets = DataSets(named)
    tokens = {name: sets.counts(name, "train")["tokens"] for name in sets.sources}
    names, weights = sets.weights(Mixture())
    assert (names, weights) == (list(sets.sources), None)
    names, weights = sets.weights(Mixture(sources={"web": 0.7, "books": 0.3}))
    books = tokens["books/prose"] + tokens["books/plays"]
    assert weights["web/prose"] == 0.7
    assert weights["books/plays"] == pytest.approx(0.3 * tokens["books/plays"] / books)
    names, weights = sets.weights(Mixture(sources=["books"], temperature=2.0))
    assert names == ["books/prose", "books/plays"]
    assert weights["books/plays"] / weights["books/prose"] == pytest.approx(
        (tokens["books/plays"] / tokens["books/prose"]) ** 0.5
    )
    names, weights = sets.weights(Mixture(sources={"web/prose": 1, "books": 0}))
    assert (names, weights) == (["web/prose"], {"web/prose": 1})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sources": {"web": 1, "web/prose": 1}}, "web/prose contains web/prose, .* already named"),
        ({"sources": {"wet": 1}}, r"sources\.wet: no such source; there are: .*web/prose"),
        ({"sources": {"web": 1}, "temperature": 2.0}, "rows.sources must be a list or null"),
    ],
)
def test_weights_that_make_no_sense_are_refused(named, options, told):
    with pytest.raises(DataError, match=told):
        module(named, mixture=options)


def test_a_small_source_that_repeats_is_told_or_refused(named, caplog):
    options = {"sources": {"web": 0.9, "books": 0.1}, "max_epochs": 2.0}
    calm = module(named, mixture=options)
    calm.check(steps=2)
    assert caplog.messages == []
    calm.check(steps=5000)
    assert "the run reads web/prose" in caplog.text and "more than rows.max_epochs=2" in caplog.text
    with pytest.raises(DataError, match=r"the run reads web/prose \d+\.\d times.*lower"):
        module(named, mixture=options | {"if_repeated": "refuse"}).check(steps=5000)


def test_epochs_are_counted_in_steps(named):
    rows = len(module(named).order())
    padded, dropped = (module(named, epochs=1.0, drop_last=drop) for drop in (False, True))
    assert (padded.epoch_steps(), dropped.epoch_steps()) == (-(-rows // 4), rows // 4)
    assert module(named, epochs=2.0).end_row() == 2 * rows
    staged = module(named, epochs=1.0, stages=[{"length": 4, "steps": 4}], budget="rows")
    assert staged.epoch_steps() == 4 + -(-(rows - 4) // 4)
    with pytest.raises(DataError, match=r"epochs=0\.01 gives \d rows?, less than one step"):
        module(named, epochs=0.01, drop_last=True).epoch_steps()


def test_a_changed_order_is_refused_on_resume(named):
    state = module(named).state_dict()
    assert state["rows"] == 0
    module(named, micro_batch=4).load_state_dict(state | {"rows": 8})
    for options, told in (
        ({"seed": 1}, "seed is 1, but was 0 in the run"),
        ({"row_length": 8}, "row_length is 8, but was 16 in the run"),
        ({"global_batch": 6}, r"batch is 6, but was 4 .* or rows\.on_batch_change=convert"),
        ({"mixture": {"sources": ["web"]}}, r"sources is .* but was"),
    ):
        with pytest.raises(DataError, match=told):
            module(named, **options).load_state_dict(state)
    with pytest.raises(DataError, match="data is"):
        module(named).load_state_dict(state | {"data": "other"})
    converted = module(named, global_batch=6, on_batch_change="convert")
    converted.load_state_dict(state | {"rows": 8})
    assert converted.consumed_rows == 8
    with pytest.raises(DataError, match="change the steps of an epoch"):
        module(named, epochs=1.0, on_batch_change="convert", global_batch=6).load_state_dict(
            module(named, epochs=1.0).state_dict()
        )


def test_a_loader_needs_a_trainer_only_if_there_are_rows(named):
    with pytest.raises(DataError, match="needs a trainer"):
        module(named).train_dataloader()
    assert module(named, validation_rows=0).val_dataloader() == []
