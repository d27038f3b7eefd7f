"""Several prepared folders as one: the same tokenizer, names that tell them apart, weights."""

import threading

import lightning
import pytest
import torch

from tests.train.data import corpora
from tests.train.studies import quiet_trainer
from train.data.reading.files import TextFiles
from train.data.reading.split import Split
from train.data.rows.choices import Mixture
from train.data.rows.curriculum import Curriculum
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
    values = {
        "mixture": Mixture(**mixture or {}),
        "curriculum": Curriculum(stages=stages, budget=budget),
    }
    sizes = {"row_length": 16, "global_batch": 4, "micro_batch": 2}
    return LMDataModule(folder=folder, **(sizes | values | options))


def test_named_folders_give_names_to_their_sources(named):
    sets = DataSets(named)
    assert list(sets.sources) == ["web/prose", "books/prose", "books/plays"]
    assert sets.open("books/prose", "train").folder.parts[-3:] == ("books", "prose", "train")
    assert sets.members("books") == ["books/prose", "books/plays"]
    assert sets.by_folder(["books/plays"])[sets.sources["books/plays"][0]] == ["plays"]
    assert DataSets(named["web"]).members("prose") == ["prose"]


def test_a_list_of_folders_keeps_the_names_unless_they_clash(named, prepared):
    with pytest.raises(DataError, match=r"both have a source prose; name the folders"):
        DataSets([prepared["web"], prepared["books"]])
    assert list(DataSets([prepared["web"]]).sources) == ["prose"]
    with pytest.raises(DataError, match="at least one folder"):
        DataSets([])


def test_another_tokenizer_is_refused_with_what_differs(prepared):
    with pytest.raises(
        DataError, match=r"other was made with a different tokenizer.*vocab_size was"
    ):
        DataSets({"web": prepared["web"], "other": prepared["other"]})


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
        ({"temperature": -1.0}, "temperature must be above 0"),
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


def test_a_curriculum_longer_than_the_run_is_refused(named):
    data = module(named, stages=[{"length": 8, "steps": 7}])
    data.check(steps=8)
    with pytest.raises(DataError, match="takes 7 steps before rows have row_length, but the run"):
        data.check(steps=7)


def test_epochs_are_counted_in_steps(named):
    rows = len(module(named).order())
    padded, dropped = (module(named, epochs=1.0, drop_last=drop) for drop in (False, True))
    assert (padded.epoch_steps(), dropped.epoch_steps()) == (-(-rows // 4), rows // 4)
    assert module(named, epochs=2.0).end_row() == 2 * rows
    staged = module(named, epochs=1.0, stages=[{"length": 4, "steps": 4}], budget="rows")
    assert staged.epoch_steps() == 4 + -(-(rows - 4) // 4)
    with pytest.raises(DataError, match=r"epochs=0\.01 gives \d rows?, less than one step"):
        module(named, epochs=0.01, drop_last=True).epoch_steps()


class Watches(lightning.LightningModule):
    """Learns nothing; keeps what it was given, and stops where it is told."""

    def __init__(self, stop=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen, self.stop = [], stop

    def training_step(self, batch, index):
        if batch.step == self.stop:
            raise KeyError("stopped")
        self.seen.append((batch.step, batch.tokens.tolist(), batch.targets.tolist()))
        self.trainer.datamodule.consumed_rows = batch.rows_after
        return self.weight * 0

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_load_checkpoint(self, checkpoint):
        # As LMModule does: batches are counted anew where a step has another number of them.
        progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["current"]
        done = checkpoint["global_step"] * self.trainer.accumulate_grad_batches
        progress.update(dict.fromkeys(progress, done) | {"is_last_batch": False})


def fit(folder, root, *, steps, model=None, ckpt=None, **options):
    data = module(folder, validation_rows=0, **options)
    model = model or Watches()
    micro = data.global_batch // data.micro_batch
    options = {"max_epochs": -1, "accumulate_grad_batches": micro}
    trainer = quiet_trainer(root, max_steps=steps, **options)
    trainer.fit(model, datamodule=data, ckpt_path=ckpt)
    return trainer, model, data


def reading():
    return [thread for thread in threading.enumerate() if thread.name == "bipe-rows"]


CURRICULUM = [{"length": 4, "steps": 2}, {"length": 8, "steps": 2}]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("budget", "at"), [("tokens", 3), ("rows", 2)])
def test_a_run_resumed_around_a_change_of_length_is_the_whole_run(named, tmp_path, budget, at):
    options = {"stages": CURRICULUM, "budget": budget}
    _, whole, _ = fit(named, tmp_path, steps=7, **options)
    assert {len(tokens[0]) for _, tokens, _ in whole.seen} == {4, 8, 16}
    trainer, first, _ = fit(named, tmp_path, steps=at, **options)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    _, second, data = fit(named, tmp_path, steps=7, ckpt=tmp_path / "a.ckpt", **options)
    assert first.seen + second.seen == whole.seen
    assert data.consumed_rows == data.stages.consumed(7)
    assert reading() == []


@pytest.mark.filterwarnings("ignore")
def test_another_global_batch_is_refused_or_goes_on_with_what_is_left(named, tmp_path):
    trainer, first, _ = fit(named, tmp_path, steps=3)
    path = tmp_path / "a.ckpt"
    trainer.save_checkpoint(path)
    other = {"global_batch": 6, "micro_batch": 3, "ckpt": path}
    with pytest.raises(DataError, match=r"is 6, .* or rows\.on_batch_change=convert"):
        fit(named, tmp_path, steps=7, **other)
    _, second, data = fit(named, tmp_path, steps=7, on_batch_change="convert", **other)
    assert data.consumed_rows == 3 * 4 + 4 * 6
    assert [step for step, *_ in second.seen] == [3, 3, 4, 4, 5, 5, 6, 6]
    _, plain, _ = fit(named, tmp_path, steps=9)
    rows = [row for model in (first, second) for _, tokens, _ in model.seen for row in tokens]
    assert rows == [row for _, tokens, _ in plain.seen for row in tokens]
    with pytest.raises(DataError, match="change the steps of an epoch"):
        module(named, epochs=1.0, on_batch_change="convert", global_batch=6).load_state_dict(
            module(named, epochs=1.0).state_dict()
        )


@pytest.mark.filterwarnings("ignore")
def test_no_thread_is_left_by_a_run_that_ends_or_fails(named, tmp_path):
    fit(named, tmp_path, steps=2)
    assert reading() == []
    with pytest.raises(KeyError, match="stopped"):
        fit(named, tmp_path, steps=90, model=Watches(stop=3))
    assert reading() == []
