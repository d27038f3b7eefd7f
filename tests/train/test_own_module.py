"""LMModule under a Trainer of the user's: subclasses, optimizers, loaders and steps cut off."""

import copy
import logging
from functools import partial

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import (
    EMAWeightAveraging,
    LambdaCallback,
    OnExceptionCheckpoint,
    StochasticWeightAveraging,
)
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau
from torch.utils.data import DataLoader

from bipe import DecoderConfig
from tests.train.studies import quiet_trainer
from train.data.rows.datamodule import LMDataModule
from train.errors import ConfigError, DataError, RunError
from train.fit.checkpoints.writing import SaveBest
from train.fit.module import LMModule, Training
from train.fit.optim import adamw, constant, cosine

# Lightning's advice is for whoever has the Trainer.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def rows_of(data, validation_rows=0):
    sizes = {"row_length": 64, "global_batch": 4, "micro_batch": 2}
    return LMDataModule(folder=data, validation_rows=validation_rows, **sizes)


def module_of(data, kind=LMModule, *, encoding="ALiBi", described=None, **training):
    sizes = {"width": 32, "n_layer": 1, "n_head": 4, "mlp_width": 64}
    part = {"n_head": 4} if encoding == "ALiBi" else {"head_width": 8}
    described = described or {"_target_": f"bipe.encodings.{encoding}", **part}
    config = DecoderConfig(vocab_size=rows_of(data).vocab_size, encoding=described, **sizes)
    how = {"optimizer": partial(adamw, lr=1e-2), "schedule": constant(), **training}
    return kind(config, Training(**how))


def trainer_of(folder, **options):
    return quiet_trainer(folder, **{"max_steps": 4, "max_epochs": -1, **options})


def same(one, other):
    return all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))


class Beside(LMModule):
    """A subclass with a parameter of its own, far from which the loss is higher."""

    def __init__(self, decoder, training):
        super().__init__(decoder, training)
        self.beside = torch.nn.Parameter(torch.zeros(2))

    def loss(self, batch):
        return super().loss(batch) + (self.beside - 1).square().sum()


def test_parameters_of_a_subclass_are_trained_and_clipped_with_the_model(data, tmp_path):
    module = module_of(data, Beside, clip=1e-3, optimizer=partial(torch.optim.SGD, lr=1.0))
    trainer = trainer_of(tmp_path, max_steps=1)
    trainer.fit(module, rows_of(data))
    assert (module.beside > 0).all() and module.beside.norm() <= 1e-3
    trainer.save_checkpoint(tmp_path / "saved.ckpt")
    resumed = module_of(data, Beside, clip=1e-3, optimizer=partial(torch.optim.SGD, lr=1.0))
    trainer_of(tmp_path, max_steps=1).fit(resumed, rows_of(data), ckpt_path=tmp_path / "saved.ckpt")
    assert same(resumed, module)


class Waiting(LMModule):
    """Its rate waits for a loss, which Lightning does not tell where a module steps by itself."""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        plan = {"scheduler": ReduceLROnPlateau(optimizer), "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": plan}


class Averaging(LMModule):
    def configure_callbacks(self):
        return [StochasticWeightAveraging(1e-3, swa_epoch_start=1)]


@pytest.mark.parametrize(
    ("kind", "training", "told"),
    [
        (LMModule, {"optimizer": lambda p: [torch.optim.SGD(p)]}, "returns one torch.optim.Opt"),
        (LMModule, {"optimizer": lambda p: None}, "returns one torch.optim.Opt.*was: None"),
        (LMModule, {"optimizer": partial(adamw)}, "optimizer: .*argument: 'lr'"),
        (LMModule, {"optimizer": partial(adamw, lr=float("inf"))}, "lr must be above 0, was: inf"),
        (LMModule, {"schedule": LambdaLR}, "schedule at step 0: .*lr_lambda"),
        (LMModule, {"schedule": lambda step: None}, "schedule at step 0: .*NoneType"),
        (LMModule, {"schedule": lambda step: 1.0 - step}, "at least 0 at step 2, was: -1.0"),
        (LMModule, {"schedule": lambda step: float("nan")}, "at least 0 at step 0, was: nan"),
        (Waiting, {}, "ReduceLROnPlateau of configure_optimizers waits for a loss"),
        (Averaging, {}, "StochasticWeightAveraging cannot be used"),
    ],
)
def test_what_would_not_train_as_it_says_is_refused(kind, training, told, data, tmp_path):
    with pytest.raises(ConfigError, match=told):
        trainer_of(tmp_path).fit(module_of(data, kind, **training), rows_of(data))


class Ending(lightning.Callback):
    def __init__(self, hook):
        setattr(self, hook, self.end)

    def end(self, *_):
        next(iter(()))


@pytest.mark.timeout(60)
def test_an_epoch_without_a_batch_ends_the_training(data, tmp_path):
    rows, trainer = rows_of(data), trainer_of(tmp_path)
    rows.trainer = trainer
    batch = next(iter(rows.train_dataloader()))
    with pytest.raises(DataError, match="without a batch, at step 1 of 4: the loader is an iter"):
        trainer.fit(module_of(data), iter([batch]))
    for hook in ("on_train_batch_start", "on_train_batch_end"):
        with pytest.raises(DataError, match=f"{hook}.* raised StopIteration"):
            trainer_of(tmp_path, callbacks=[Ending(hook)]).fit(module_of(data), rows_of(data))


class Validating(lightning.Callback):
    """Has another Trainer validate, within a training."""

    def __init__(self, folder, taken):
        self.other, self.taken = trainer_of(folder), taken

    def on_train_batch_end(self, trainer, module, *_):
        self.other.validate(self.taken(module), trainer.datamodule, verbose=False)


def test_a_module_that_another_trainer_took_is_told_and_a_copy_is_not_missed(data, tmp_path):
    with pytest.raises(ConfigError, match=r"another Trainer took this module .*copy\.deepcopy"):
        callbacks = [Validating(tmp_path, lambda module: module)]
        trainer_of(tmp_path, callbacks=callbacks).fit(module_of(data), rows_of(data))
    trainer = trainer_of(tmp_path, max_steps=2, callbacks=[Validating(tmp_path, copy.deepcopy)])
    trainer.fit(module_of(data), rows_of(data))
    assert trainer.global_step == 2


@pytest.mark.timeout(60)
def test_a_trainer_for_which_no_rows_are_left_is_told(data, tmp_path):
    rows, trainer = rows_of(data), trainer_of(tmp_path)
    trainer.fit(module_of(data), rows)
    rows.trainer = trainer_of(tmp_path, max_steps=2)
    loader = rows.train_dataloader()
    assert len([*loader]) == 2
    with pytest.raises(DataError, match="all rows of 2 steps are read"):
        next(iter(loader))


class Broken(lightning.Callback):
    """Fails once, in the third step."""

    def __init__(self, hook):
        self.calls = 0
        setattr(self, hook, self.fail)

    def fail(self, *_):
        self.calls += 1
        if self.calls == 3:
            raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("hook", "done"), [("on_before_optimizer_step", 2), ("on_before_zero_grad", 3)]
)
def test_a_step_that_is_cut_off_is_done_once(hook, done, data, tmp_path):
    schedule = cosine(warmup=2, steps=4)
    whole, cut, resumed = (module_of(data, schedule=schedule) for _ in range(3))
    trainer_of(tmp_path).fit(whole, rows_of(data))
    keeping = [OnExceptionCheckpoint(tmp_path), Broken(hook)]
    trainer = trainer_of(tmp_path, callbacks=keeping, enable_checkpointing=True)
    rows = rows_of(data)
    with pytest.raises(RuntimeError, match="broken"):
        trainer.fit(cut, rows)
    assert trainer.global_step == done and rows.consumed_rows == 4 * done
    path = tmp_path / "on_exception.ckpt"
    trainer_of(tmp_path).fit(resumed, rows_of(data), ckpt_path=path)
    assert same(resumed, whole)


def test_a_checkpoint_of_other_settings_is_told(data, tmp_path, caplog):
    trainer, path = trainer_of(tmp_path, max_steps=1), tmp_path / "saved.ckpt"
    trainer.fit(module_of(data), rows_of(data))
    trainer.save_checkpoint(path)
    with path.open("rb") as file:
        assert same(LMModule.load_from_checkpoint(file), trainer.lightning_module)
    rate = partial(adamw, lr=2e-2)
    for other, changed in (
        ({}, []),
        ({"seed": 3, "schedule": cosine(warmup=0, steps=9)}, []),  # of the steps to come
        ({"optimizer": rate}, ["optimizer.lr was 0.01, is 0.02"]),
        ({"encoding": "RoPE"}, ["decoder.encoding._target_ was ", "head_width was null, is 8"]),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="train"):
            trainer_of(tmp_path).fit(module_of(data, **other), rows_of(data), ckpt_path=path)
        told = "".join(
            record.getMessage() for record in caplog.records if "otherwise" in record.msg
        )
        assert bool(told) == bool(changed) and all(part in told for part in changed)


class Plain(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.inside = torch.nn.Linear(2, 2)

    def training_step(self, batch, batch_idx):
        return self.inside(torch.ones(2)).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_a_checkpoint_of_another_module_is_not_called_old_alone(data, tmp_path):
    trainer = trainer_of(tmp_path, max_steps=1)
    trainer.fit(Plain(), rows_of(data))
    trainer.save_checkpoint(tmp_path / "saved.ckpt")
    with pytest.raises(RunError, match="of another module than LMModule"):
        trainer_of(tmp_path).fit(module_of(data), rows_of(data), ckpt_path=tmp_path / "saved.ckpt")


def test_the_best_weights_are_those_that_were_validated(data, tmp_path):
    best, rows = SaveBest(folder=tmp_path), rows_of(data, validation_rows=4)
    averages = EMAWeightAveraging(decay=0.5)
    options = {"val_check_interval": 4, "check_val_every_n_epoch": None}
    module = module_of(data)
    trainer_of(tmp_path, callbacks=[best, averages], **options).fit(module, rows)
    module.model.load_state_dict(best.weights())
    (measured,) = trainer_of(tmp_path).validate(module, rows, verbose=False)
    assert measured["validation/loss"] == pytest.approx(best.loss, abs=1e-6)


def test_an_encoding_is_annealed_over_the_steps_of_epochs_or_refused_without(data, tmp_path):
    learned = {"_target_": "bipe.encodings.Learned", "width": 32, "length": 64}
    rope = {"_target_": "bipe.encodings.RoPE", "head_width": 8}
    kind = "bipe.encodings.retrofit.AnnealedBiPE"
    described = {"_target_": kind, "intra": learned, "inter": rope, "step": 2.5, "over": 1.0}
    module, rows = module_of(data, described=described), rows_of(data)
    rows.trainer = trainer_of(tmp_path)
    loader = DataLoader([*rows.train_dataloader()], batch_size=None)
    mixes = []
    note = LambdaCallback(on_train_batch_end=lambda *_: mixes.append(module.model.scheme.mix()))
    epochs = {"max_steps": -1, "max_epochs": 1, "callbacks": [note]}
    trainer_of(tmp_path, **epochs).fit(module, loader)
    assert mixes == pytest.approx([0, 1 / 3, 2 / 3, 1])
    with pytest.raises(ConfigError, match=r"max_steps of the Trainer must be set, .* was: -1"):
        trainer_of(tmp_path, max_steps=-1).fit(module, loader)


class Sized(LMModule):
    def __init__(self, width: int):
        super().__init__(**module_of(Sized.data).hparams)
        self.save_hyperparameters()


def test_a_checkpoint_has_the_arguments_of_its_class_alone_as_lightning_cli_takes_them(
    data, tmp_path
):
    Sized.data = data
    trainer, path = trainer_of(tmp_path, max_steps=1), tmp_path / "saved.ckpt"
    trainer.fit(Sized(3), rows_of(data))
    trainer.save_checkpoint(path)
    assert torch.load(path)["hyper_parameters"] == {"width": 3}
    assert LMModule.load_from_checkpoint(path).hparams == module_of(data).hparams
