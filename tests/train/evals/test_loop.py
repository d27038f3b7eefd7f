"""The loop: every cell once, whatever kills it, and nothing that was measured is lost.

While training: the numbers of `bipe evaluate`, and a training that is left alone.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import lightning
import pytest

from bipe import Decoder, DecoderConfig
from bipe.checkpoint import save_model
from tests.train.studies import back_to, curve, pretrain, same_weights
from train.evals.live import _values
from train.evals.loop import Cell, Measurement, Subject, measure
from train.evals.rows import FILE, Journal, Row, left_out
from train.fit.checkpoints import Place
from train.fit.trained_run import read_run

ROPE = {"_target_": "bipe.encodings.RoPE", "head_width": 4}
SIZES = {"vocab_size": 11, "width": 8, "n_layer": 1, "n_head": 2, "mlp_width": 8}


class Norm(Measurement):
    """The size of a model's weights, in several cells; counts what it is asked."""

    def __init__(self, lengths=(4, 8, 16), *, stop_after=10**9):
        self.lengths, self.stop_after = lengths, stop_after
        self.asked = Counter()

    def cells(self, subject):
        for length in self.lengths:
            yield Cell(
                name=f"at {length}",
                length=length,
                depends_on=length,
                cost=length,
                measure=left_out("too long", length=length)
                if length > 100
                else lambda model, length=length: self.rows(model, length),
            )

    def rows(self, model, length):
        if self.asked.total() == self.stop_after:
            raise KeyboardInterrupt
        self.asked[length] += 1
        norm = sum(float(p.detach().norm()) for p in model.parameters())
        theta = model.config.encoding.get("theta", 10000.0)
        for number in range(3):
            yield Row(measure="norm", length=length, number=number, value=norm * length + theta)


def trained(folder, seed=0):
    model = Decoder(DecoderConfig(**SIZES, encoding=ROPE))
    model.init_weights(seed=seed)
    save_model(model, folder / "model")
    return read_run(Place.of(folder))


def subject_of(run, **options):
    return Subject(run=run, row_length=4, lengths=(4, 8, 16), held_out=None, **options)


def table(run):
    return Journal(run.folder / FILE).rows()


@pytest.fixture
def run(tmp_path):
    return trained(tmp_path / "rope")


@pytest.mark.parametrize("after", [0, 2])
def test_what_was_interrupted_after_any_cell_ends_as_if_it_had_not_been(after, tmp_path):
    whole, cut = (trained(tmp_path / name / "rope") for name in "ab")
    measure([(subject_of(whole), "norm", Norm())])
    stopped, resumed = Norm(stop_after=after), Norm()
    with pytest.raises(KeyboardInterrupt):
        measure([(subject_of(cut), "norm", stopped)])
    measure([(subject_of(cut), "norm", resumed)])
    assert stopped.asked + resumed.asked == {4: 1, 8: 1, 16: 1}
    strip = [replace(row, arm="") for row in table(cut)]
    assert strip == [replace(row, arm="") for row in table(whole)]


def test_other_lengths_add_rows_known_ones_stay_and_those_of_other_weights_go(run, capsys):
    measure([(subject_of(run), "norm", Norm((4, 8)))])
    before, more = table(run), Norm((4, 8, 16))
    assert {(row.run, row.arm, row.variant) for row in before} == {("rope", run.arm, "")}
    assert (run.folder / "environment.json").exists()
    measure([(subject_of(run), "norm", more)])
    assert more.asked == {16: 1}
    assert table(run)[: len(before)] == before and len(table(run)) == 9
    again, norm = trained(run.folder, seed=1), Norm()
    capsys.readouterr()
    measure([(subject_of(again), "norm", norm)])
    assert norm.asked == {4: 1, 8: 1, 16: 1} and len(table(again)) == 9
    assert not {row.value for row in before} & {row.value for row in table(again)}
    lines = [line for line in capsys.readouterr().err.splitlines() if "measured" in line]
    # A log has a line every few seconds, and one of the last cell.
    assert lines == ["rope: norm at 4: 1 of 3 measured", "rope: norm at 16: 3 of 3 measured"]


def test_equal_models_are_measured_once_and_variants_have_their_rows(run):
    norm, config = Norm(), subject_of(run).config
    longer = replace(config, encoding=ROPE | {"theta": 7.0})
    jobs = [
        (subject_of(run), "norm", norm),
        (subject_of(run, variant="none", configs=dict.fromkeys((4, 8, 16), config)), "norm", norm),
        (subject_of(run, variant="far", configs={4: config, 8: longer, 16: longer}), "norm", norm),
    ]
    measure(jobs)
    assert norm.asked == {4: 1, 8: 2, 16: 2}
    values = {(row.variant, row.length): row.value for row in table(run)}
    assert len(values) == 9
    for length in (4, 8, 16):
        assert values["none", length] == values["", length]
        assert (values["far", length] == values["", length]) == (length == 4)


@pytest.mark.parametrize(("count", "told"), [(1, "a"), (2, "a, b"), (4, "4 models")])
def test_what_is_left_out_is_named_once_and_never_tried_again(tmp_path, capsys, count, told):
    runs = [trained(tmp_path / name) for name in "abcd"[:count]]
    for _ in range(2):
        measure([(subject_of(run), "norm", Norm((4, 101))) for run in runs])
        lines = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
        assert lines == [f"{told}: norm at 101 is left out: too long"]
    (row,) = (row for row in table(runs[0]) if row.measure == "left_out")
    assert (row.length, row.value, row.note) == (101, None, "too long")


EVERY_2 = ("callbacks=evaluation", "callbacks.evaluation.every=2", "evaluate.probes=[]")


class Seen(lightning.Callback):
    """Somebody's own callback."""

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        with Path(trainer.default_root_dir, "seen").open("a") as file:
            file.write(str(trainer.global_step))


def live(run):
    rows = [row for row in Journal(run / FILE).rows() if row.measure == "perplexity"]
    return {(row.step, row.length): row.value for row in rows if row.step is not None}


@pytest.mark.slow
def test_the_training_is_the_same_and_a_resumed_run_measures_nothing_twice(bipe, smoke, tmp_path):
    own = ("+callbacks.mine._target_=tests.train.evals.test_loop.Seen", "allowed_targets=[tests]")
    plain = pretrain(*smoke, *own, "name=plain")
    plain = plain.rename(tmp_path.with_name(f"{tmp_path.name}_plain"))
    assert (plain / "seen").read_text() == "123456"
    watched = pretrain(*smoke, *EVERY_2, "name=watched")
    assert same_weights(watched, plain)
    assert curve(watched) == curve(plain)
    found = live(watched)
    assert found.keys() == {(step, length) for step in (2, 4, 6) for length in (64, 128)}
    lines = (watched / FILE).read_text()
    back_to(watched, step=4)
    pretrain(*smoke, *EVERY_2, "name=watched", "if_exists=resume")
    assert (watched / FILE).read_text() == lines
    words = ("evaluate.split=validation", "evaluate.probes=[]", "evaluate.lengths=[1,2]")
    status, _, err = bipe("evaluate", *words)
    assert status == 0, err
    rows = [row for row in Journal(watched / FILE).rows() if row.measure == "perplexity"]
    final = {row.length: row.value for row in rows if row.step is None}
    assert final == {length: value for (step, length), value in found.items() if step == 6}
    status, _, err = bipe("report")
    assert status == 0, err
    page = (tmp_path / "report.html").read_text()
    assert "Against the tokens seen" in page and 'id="live"' in page


def test_accuracies_of_several_numbers_of_operators_have_names_of_their_own():
    rows = [Row(measure="answer", source="proofs", task="arithmetic", value=n / 8, operators=n,
                unit="share") for n in (2, 4)]  # fmt: skip
    assert _values(rows) == {"answer/proofs/arithmetic/2": 0.25, "answer/proofs/arithmetic/4": 0.5}
