"""Subclasses of LMModule with optimizers, schedules and hooks of their own."""

from collections import Counter
from functools import partial
from pathlib import Path

import lightning
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger

from tests.train.test_own_trainer import command as command
from tests.train.test_own_trainer import module_of, rows_of, same, trainer_of, weights_of
from train.disk.files import read_numbers
from train.errors import ConfigError
from train.fit.module import LMModule

# Lightning's advice is for whoever has the Trainer.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Automatic(LMModule):
    automatic_optimization = True

    def training_step(self, batch, batch_idx):
        return self.loss(batch)


class Scheduled(LMModule):
    """Has a scheduler of its own, as a list of dictionaries or not."""

    how: tuple[str, dict] | None = ("step", {})

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
        if self.how is None:
            return optimizer
        interval, more = self.how
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        return [optimizer], [{"scheduler": scheduler, "interval": interval, **more}]


def test_a_subclass_has_its_own_rate_and_schedule_or_none(command, data, tmp_path, monkeypatch):
    for how, rates in ((("step", {}), [0.5**step for step in range(6)]), (None, [1.0] * 6)):
        monkeypatch.setattr(Scheduled, "how", how)
        module, logger = (
            module_of(command, Scheduled),
            CSVLogger(tmp_path, version=str(how is None)),
        )
        trainer_of(tmp_path, logger=logger, log_every_n_steps=1).fit(module, rows_of(data))
        rows = read_numbers(Path(logger.log_dir) / "metrics.csv")
        assert [row["train/lr"] for row in rows if row.get("train/lr")] == pytest.approx(rates)


@pytest.mark.parametrize("how", [("epoch", {}), ("step", {"frequency": 2})])
def test_a_schedule_that_no_step_would_follow_is_refused(how, command, data, tmp_path, monkeypatch):
    monkeypatch.setattr(Scheduled, "how", how)
    with pytest.raises(ConfigError, match=r"ExponentialLR .* at each step, .* 'interval': 'step'"):
        trainer_of(tmp_path).fit(module_of(command, Scheduled), rows_of(data))
    several = lambda module: [torch.optim.SGD(module.parameters(), lr=1.0) for _ in range(2)]  # noqa: E731
    for optimizers, count in ((several, 2), (lambda _: None, 0)):
        monkeypatch.setattr(Scheduled, "configure_optimizers", optimizers)
        with pytest.raises(ConfigError, match=f"must return one optimizer, returned: {count}"):
            trainer_of(tmp_path).fit(module_of(command, Scheduled), rows_of(data))


HOOKS = ("configure_gradient_clipping", "optimizer_step", "on_before_zero_grad")
HOOKS += ("optimizer_zero_grad", "lr_scheduler_step")


@pytest.mark.oldest_lightning
def test_hooks_of_automatic_optimization_are_called_and_change_nothing(
    command, data, tmp_path, monkeypatch
):
    calls = Counter()
    for kind, name in (*((LMModule, name) for name in HOOKS), (lightning.Callback, HOOKS[2])):
        hook = getattr(kind, name)

        def counted(*given, kind=kind, name=name, hook=hook):
            calls[kind, name] += 1
            return hook(*given)

        monkeypatch.setattr(kind, name, counted)
    module = module_of(command)
    trainer_of(tmp_path, max_steps=6.0, callbacks=[lightning.Callback()]).fit(module, rows_of(data))
    assert same(module, command)
    assert len(calls) == 6 and {*calls.values()} == {6}


def test_automatic_optimization_clips_too(command, data, tmp_path):
    sgd = partial(torch.optim.SGD, lr=1.0)
    modules = [module_of(command, kind, clip=0.01, optimizer=sgd) for kind in (LMModule, Automatic)]
    for module in modules:
        trainer_of(tmp_path).fit(module, rows_of(data))
    one, other = map(weights_of, modules)
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in one)
