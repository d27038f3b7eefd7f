"""What a run shows and writes while it goes, prints around its steps, and warns of before them."""

import csv
import io
import logging
import os
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from bipe import DecoderConfig
from tests.train.studies import back_to, composed, crashing, notes_of, pretrain
from train.cli import main
from train.disk.files import read_numbers
from train.errors import DataError
from train.fit.module import LMModule
from train.fit.optim import TrainingDiverged
from train.fit.runs import read_config
from train.fit.watching import metrics, watch
from train.fit.watching.each_step import Clock
from train.fit.watching.metrics import COLUMNS, MetricsFile
from train.fit.watching.watch import ProgressBar, end_lines


class Run:
    """As much of a trainer and a module as the callbacks ask for."""

    is_global_zero, precision, world_size = True, "32-true", 1
    strategy, losses = SimpleNamespace(root_device=torch.device("cpu")), SimpleNamespace(names=())
    lightning_module = property(lambda self: self)
    loggers = ()

    def __init__(self, *callbacks, max_steps=10, step=0):
        self.callbacks, self.max_steps, self.global_step = callbacks, max_steps, step
        self.callback_metrics = {}
        self.metrics = {}
        encoding = {"_target_": "bipe.encodings.NoPE"}
        sizes = {"vocab_size": 9, "width": 8, "n_layer": 1, "n_head": 1, "mlp_width": 8}
        self.model = SimpleNamespace(config=DecoderConfig(encoding=encoding, **sizes))

    def train(self, until, *, validate_every=None):
        """Call the hooks of each step in Lightning's order."""
        self.call("on_train_start")
        while self.global_step < until:
            self.global_step += 1
            step = self.global_step
            self.metrics = {"step": step, "tokens": 100 * step, "loss": 5 - step / 10}
            self.metrics |= {"lr": 0.1 / step, "grad_norm": 1.5, "keys_per_token": 4.5}
            self.metrics["skipped_steps"] = step // 8
            self.on_step()
            self.call("on_train_batch_end", None, None, 0)
            if validate_every and step % validate_every == 0:
                self.callback_metrics["validation/loss"] = 6 - step / 10
                self.call("on_validation_end")
        return self

    def on_step(self):
        """What happens at each step beside."""

    def call(self, hook, *rest):
        for callback in self.callbacks:
            getattr(callback, hook)(self, self, *rest)


def test_a_line_every_few_steps_with_the_validation_of_its_step(tmp_path):
    path = tmp_path / "metrics.csv"
    Run(MetricsFile(path=path, every=4)).train(10, validate_every=5)
    found = [(row["step"], row["validation_loss"]) for row in read_numbers(path)]
    assert found == [(4, None), (5, 5.5), (8, None), (10, 5.0)]
    assert b"\r" not in path.read_bytes()
    rows = list(csv.reader(io.StringIO(path.read_text())))
    assert tuple(rows[0]) == COLUMNS and {len(row) for row in rows} == {len(COLUMNS)}
    known = {"step": 4, "tokens": 400, "loss": 4.6, "lr": 0.025, "grad_norm": 1.5}
    known |= {"clamped_share": None, "skipped_steps": 0, "validation_loss": None}
    assert read_numbers(path)[0].items() >= known.items()


def test_the_time_of_all_parts_is_counted(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(Run, "on_step", lambda self: now.__setitem__(0, now[0] + 2.0))
    path = tmp_path / "metrics.csv"
    Run(MetricsFile(path=path, every=1)).train(3)
    now[0] += 1000.0  # between the parts
    Run(MetricsFile(path=path, every=1), step=2).train(5)
    assert [row["seconds"] for row in read_numbers(path)] == [2.0, 4.0, 6.0, 8.0, 10.0]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux resets the peak of a process")
def test_the_memory_of_a_run_is_not_that_of_the_run_before():
    cpu = torch.device("cpu")
    held = b"1" * (256 << 20)
    before = metrics.peak_memory_gib(cpu)
    del held
    metrics.forget_peak_memory(cpu)
    assert metrics.peak_memory_gib(cpu) < before - 0.2


def test_lines_are_on_the_disk_before_a_checkpoint_is(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    run = Run(MetricsFile(path=tmp_path / "metrics.csv", every=1)).train(until=3)
    assert (tmp_path / "metrics.csv").stat().st_ino not in synced[-1:]
    run.call("on_save_checkpoint", {})
    assert (tmp_path / "metrics.csv").stat().st_ino == synced[-1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a file that is always full")
def test_a_full_disk_is_told(tmp_path):
    file = MetricsFile(path=tmp_path / "metrics.csv", every=1)
    run = Run(file).train(1)
    file.path = Path("/dev/full")
    run.global_step += 1
    with pytest.raises(DataError, match="/dev/full: no room is left to write it"):
        run.call("on_train_batch_end", None, None, 0)


def test_without_a_terminal_progress_is_plain_lines(capsys):
    Run(ProgressBar(title="bipe_rope", every=4)).train(10)
    out, err = capsys.readouterr()
    assert out == ""
    shown = err.splitlines()
    assert [tuple(line.split("  ")[:3]) for line in shown] == [
        ("bipe_rope", f"step {step}/10", f"loss {5 - step / 10:.3f}") for step in (4, 8, 10)
    ]
    assert all("tokens/s" in line and line.endswith("left") for line in shown)
    assert "1 step skipped" in shown[-1]
    assert "\x1b" not in err


@pytest.mark.parametrize("end", [("on_train_end",), ("on_exception", RuntimeError())])
def test_on_a_terminal_there_is_a_bar_until_the_end(monkeypatch, end):
    screen, make = io.StringIO(), watch._bar
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)

    def on_screen():
        bar = make()
        bar.live.console = Console(file=screen, force_terminal=True, width=120)
        return bar

    monkeypatch.setattr(watch, "_bar", on_screen)
    bar = ProgressBar(title="bipe_rope")
    Run(bar).train(10).call(*end)
    assert "10/10" in screen.getvalue() and "loss 4.000" in screen.getvalue()
    assert bar._bar is None


def test_the_clock_gives_rate_and_time_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    clock = Clock()
    for step in range(1, 5):
        now[0] += 2.0
        clock.count(1000 * step)
    assert clock.rate() == 500.0
    assert clock.left(4, 40) == "0:01:12 left"


def test_a_run_says_what_it_is_and_how_it_ended(smoke, capsys, tmp_path, data):
    run = pretrain(*smoke)
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"^device +cpu \(\d+ threads\), precision 32-true$", err, re.M)
    assert re.search(r"^model +BiPE-RoPE, [\d,]+ parameters, vocabulary \d+$", err, re.M)
    assert "6 steps of 256 tokens (4 rows of 64): 1,536 tokens" in err
    assert re.search(rf"^data +{re.escape(str(data))}$", err, re.M)
    assert f"folder     {run}" in err and f"model      {run / 'model'}" in err
    assert re.search(r"^bipe_rope  step 3/6  validation loss \d\.\d+$", err, re.M)
    assert re.search(
        r"^trained +6 steps, 1,536 tokens in 0:00:\d\d \(.* tokens/s\), loss \d", err, re.M
    )
    assert re.search(r"^validated +loss \d\.\d{4} at step 6$", err, re.M)
    assert f"bipe evaluate out={tmp_path} data={data}" in err
    assert f"bipe generate {run} --prompt" in err
    assert "resumed" not in err
    back_to(run, step=4)
    pretrain(*smoke, "if_exists=resume")
    assert "resumed    at step 4 on 1 device" in capsys.readouterr().err


def test_the_next_command_names_data_that_are_elsewhere(tmp_path):
    told = {"folder": tmp_path / "run", "model": tmp_path / "run" / "model"}
    data = {"web": "runs/a b", "books": "runs/c"}
    mixed = end_lines([], **told, config={"out": str(tmp_path), "data": data})
    (words,) = (shlex.split(line) for line in mixed if "evaluate" in line)
    assert words[3:] == [f"out={tmp_path}", "data={web: 'runs/a b', books: runs/c}"]
    assert composed(words[4]).data == data
    own = {"out": f"{tmp_path}/./", "data": f"{tmp_path}/data"}
    assert "data=" not in "".join(end_lines([], **told, config=own))


def test_the_warnings_come_before_the_first_step(smoke, caplog):
    with caplog.at_level(logging.WARNING), crashing(at=0):
        pretrain(*smoke, "steps=2", "validate_every=9")
    assert "the learning rate only rises" in caplog.text
    assert "validate_every=null validates at the end" in caplog.text


@pytest.mark.parametrize("command", [True, False])
def test_a_last_validation_of_an_earlier_model_is_said_and_the_cure_validates(
    smoke, command, caplog, capsys
):
    run = pretrain(*smoke, "steps=4", "validate_every=3")
    (text,) = [text for text in caplog.messages if "validate_every=3 does not divide" in text]
    assert re.search(
        r"loss \d\.\d+ at step 3, not of the model that is written", capsys.readouterr().err
    )
    assert read_numbers(run / "metrics.csv")[-1]["validation_loss"] is None
    cure = re.search(r"validate_every=(\d+) or null validates it", text)
    value = cure[1] if command else "null"
    caplog.clear()
    run = pretrain(*smoke, "steps=4", f"validate_every={value}", "if_exists=overwrite")
    assert "does not divide" not in caplog.text
    assert read_numbers(run / "metrics.csv")[-1]["validation_loss"] is not None


@pytest.mark.slow
def test_a_plan_that_moves_the_learning_rate_at_once_says_both_rates(smoke, capsys):
    words = (*smoke, "steps=8", "log_every=1", "checkpoint_every=6", "schedule.warmup=0")
    with crashing(at=6):
        pretrain(*words)
    begun = read_numbers(Path(smoke[1].partition("=")[2]) / "bipe_rope" / "metrics.csv")
    whole = read_numbers(pretrain(*words, "name=whole") / "metrics.csv")
    capsys.readouterr()
    run = pretrain(*words, "steps=80", "if_exists=change")
    err = capsys.readouterr().err
    before, after = re.search(r"learning rate goes from (\S+) to (\S+) at step 6", err).groups()
    assert len(begun) == 6 and float(before) == pytest.approx(whole[6]["lr"], rel=1e-2)
    rates = [row["lr"] for row in read_numbers(run / "metrics.csv")]
    assert float(after) == pytest.approx(rates[6], rel=1e-2) and rates[6] > 2 * rates[5]
    assert "learning rate goes" not in err.replace("the learning rate goes", "", 1)


@pytest.mark.parametrize("stays", [True, False])
def test_a_run_that_diverges_names_the_command_that_cures_it(smoke, stays, monkeypatch):
    loss = LMModule.loss

    def diverging(module, batch):
        high = module.trainer.optimizers[0].param_groups[0]["initial_lr"] > 0.0015
        return loss(module, batch) * (float("nan") if high and module.global_step > 2 else 1.0)

    monkeypatch.setattr(LMModule, "loss", diverging)
    every = 2 if stays else 6
    words = ("patience=2", f"checkpoint_every={every}", f"validate_every={every}", "log_every=6")
    with pytest.raises(TrainingDiverged) as fault:
        pretrain(*smoke, *words)
    text = str(fault.value)
    run = Path(smoke[1].partition("=")[2]) / "bipe_rope"
    assert run.exists() == stays
    if stays:
        command = shlex.split(text.partition("to start again: ")[2])
        assert command[:2] == ["bipe", "pretrain"]
        assert main(command[1:]) == 0
    else:
        word = re.search(r"repeat the command with (\S+)$", text)[1]
        pretrain(*smoke, *words, word)
    assert notes_of(run)["skipped_steps"] == 0
    assert read_config(run)["optimizer"]["lr"] == 0.001
