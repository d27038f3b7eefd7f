"""Our Lightning modules under a Trainer of the user's: the same weights, or one line that says why.

The second process of a script is started as Lightning does it.
"""

import copy
import os
import re
import sys
from datetime import timedelta
from functools import cache, partial
from unittest import mock

import lightning
import numpy as np
import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from torch.utils.data import DataLoader

from bipe import DecoderConfig
from bipe.checkpoint import load_model
from tests.processes import PIPE, Popen, run
from tests.train.studies import losses, pretrain, quiet_trainer
from train.data.rows.choices import Curriculum, Mixture, Packing
from train.data.rows.datamodule import LMDataModule
from train.data.rows.loader import RowLoader
from train.errors import ConfigError, DataError
from train.fit.checkpoints import checkpoints
from train.fit.module import LMModule, Training
from train.fit.optim import adamw, cooled, cosine
from train.fit.runs import CHECKPOINTS, MODEL

# Lightning's advice is for whoever has the Trainer.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
# The same as experiment=smoke with these words.
WORDS = ("encoding=alibi", "steps=6", "rows.micro_batch=2", "rows.validation_rows=4")
SCRIPT = """
import sys
from functools import partial
from pathlib import Path
import lightning
from bipe import DecoderConfig
from bipe.checkpoint import load_model
from train.data.rows.datamodule import LMDataModule
from train.fit.module import LMModule, Training
from train.fit.parallel.sharded import Sharded, full_state
data, out = map(Path, sys.argv[1:])
"""


@pytest.fixture(scope="module")
def command(trained):
    """A run of `bipe pretrain`, with a checkpoint of each step."""
    return trained(*WORDS, "keep_checkpoints=9", "checkpoint_every=1")


@pytest.fixture(autouse=True)
def environment():
    """Take back what Lightning's launchers leave in the environment."""
    with mock.patch.dict(os.environ):
        yield


def rows_of(data, **options):
    sizes = {"row_length": 64, "global_batch": 4, "micro_batch": 2, "validation_rows": 4}
    return LMDataModule(**{"folder": data, **sizes, **options})


@cache
def hyperparameters(run):
    return LMModule.load_from_checkpoint(checkpoints(run / CHECKPOINTS)[0]).hparams


def module_of(run, kind=LMModule, **options):
    """The module of a run from its checkpoint's hyperparameters, with fresh weights."""
    plain = copy.deepcopy(dict(hyperparameters(run)))
    return kind(plain["decoder"], {**plain["training"], **options})


def trainer_of(folder, **options):
    return quiet_trainer(folder, **{"max_steps": 6, "max_epochs": -1, **options})


def weights_of(module):
    return module.model.state_dict()


def same(module, run):
    """Whether a module has the weights of a run, bit for bit."""
    trained = load_model(run / MODEL)[0].state_dict()
    state = weights_of(module)
    return state.keys() == trained.keys() and all(torch.equal(state[n], trained[n]) for n in state)


@pytest.mark.oldest_lightning
def test_a_script_trains_the_weights_of_the_command_and_resumes_its_checkpoints(
    command, data, tmp_path
):
    module, rows = module_of(command), rows_of(data)
    each = ModelCheckpoint(dirpath=tmp_path, every_n_train_steps=1, save_top_k=-1)
    trainer = trainer_of(tmp_path, callbacks=[each], enable_checkpointing=True)
    trainer.fit(module, rows)
    assert same(module, command) and rows.consumed_rows == 24
    for path in (sorted(tmp_path.glob("*step=3.ckpt"))[0], checkpoints(command / CHECKPOINTS)[2]):
        module, rows = module_of(command), LMDataModule.load_from_checkpoint(path)
        trainer_of(tmp_path).fit(module, rows, ckpt_path=path)
        assert same(module, command), path
        read = LMModule.load_from_checkpoint(path)
        assert read.hparams == module.hparams
        assert read.options.as_plain() == module.options.as_plain()
        assert LMDataModule.load_from_checkpoint(path).consumed_rows == 12


@pytest.mark.slow
def test_a_script_of_two_processes_trains_the_weights_of_the_command(data, tmp_path):
    two = ("trainer.accelerator=cpu", "trainer.devices=2", "trainer.precision=32-true")
    for strategy in ("ddp", "fsdp2"):
        words = (*WORDS, f"data={data}", f"out={tmp_path}/{strategy}", f"trainer={strategy}", *two)
        command = [sys.executable, "-m", "train.cli", "pretrain", "experiment=smoke", *words]
        with Popen(command, cwd=tmp_path, stderr=PIPE, text=True) as process:
            assert process.wait(400) == 0, process.stderr.read()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + """
for name, strategy in (("ddp", "ddp"), ("fsdp2", Sharded())):
    run = out / name / "alibi"
    last = sorted((run / "checkpoints").glob("step=*.ckpt"))[-1]
    plain = LMModule.load_from_checkpoint(last).hparams
    module = LMModule(plain["decoder"], plain["training"])
    rows = LMDataModule(folder=str(data), row_length=64, global_batch=4, micro_batch=2)
    trainer = lightning.Trainer(
        max_steps=6, max_epochs=-1, accelerator="cpu", devices=2, strategy=strategy, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, default_root_dir=out,
    )
    trainer.fit(module, rows)
    trainer.validate(module, rows, verbose=False)
    state = full_state(module.model)
    trained = load_model(run / "model")[0].state_dict()
    if trainer.is_global_zero:
        assert all((state[name] == value).all() for name, value in trained.items())
        print(name, "equal")
""")  # fmt: skip
    words = [sys.executable, script, data, tmp_path]
    done = run(words, capture_output=True, text=True, timeout=400, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"ddp equal", "fsdp2 equal"} <= {*done.stdout.splitlines()}


@pytest.mark.oldest_lightning
def test_loggers_and_callbacks_get_the_numbers(command, data, tmp_path):
    module, rows = module_of(command), rows_of(data)
    logger, early = CSVLogger(tmp_path), EarlyStopping("train/loss", mode="max", patience=1)
    trainer = trainer_of(
        tmp_path, logger=logger, log_every_n_steps=1, val_check_interval=2,
        check_val_every_n_epoch=None, callbacks=[early],
    )  # fmt: skip
    trainer.fit(module, rows)
    head, *lines = (tmp_path / "lightning_logs/version_0/metrics.csv").read_text().splitlines()
    names = {"train/loss", "train/grad_norm", "train/lr", "validation/loss", "epoch", "step"}
    assert {*head.split(",")} == names
    assert trainer.global_step == 4 and early.stopped_epoch == 0  # the loss only falls
    assert len(lines) == 4 + 2
    (found,) = trainer.validate(module, rows, verbose=False)
    assert found["validation/loss"] == pytest.approx(float(lines[-1].split(",")[-1]), rel=1e-5)


def test_a_checkpoint_is_a_module_also_in_shards(data, tmp_path, command):
    one = ("trainer=fsdp2", "trainer.accelerator=cpu", "trainer.devices=1")
    words = (f"data={data}", f"out={tmp_path}", "trainer.precision=32-true", *WORDS, *one)
    run = pretrain(*words)
    path = checkpoints(run / CHECKPOINTS)[-1]
    assert path.is_dir()
    assert same(LMModule.load_from_checkpoint(path), run)
    assert same(LMModule.load_from_checkpoint(path), command)


class Unnamed:
    """An optimizer that no module defines by a name."""

    def __call__(self, parameters):
        return torch.optim.SGD(parameters, lr=0.1)


def test_hyperparameters_are_plain_data_and_what_cannot_be_is_given_again(command, data, tmp_path):
    draw = {"_target_": "bipe.random_positions.PoSE", "reach": 200, "chunks": 2}
    module = module_of(command, draw=draw, clip=None)
    schedule = cooled(before=cosine(warmup=2, steps=9), begin=3, steps=5)
    options = Training(**{**vars_of(module.options), "schedule": schedule})
    again = LMModule(module.hparams["decoder"], options.as_plain())
    assert again.options.draw == module.options.draw and again.options.schedule == schedule
    assert [schedule(n) for n in range(6)] == [again.options.schedule(n) for n in range(6)]
    config = DecoderConfig(**module.hparams["decoder"])
    unnamed = Training(optimizer=Unnamed(), schedule=schedule)
    saved, path = LMModule(config, unnamed), tmp_path / "saved.ckpt"
    trainer = trainer_of(tmp_path, max_steps=1)
    trainer.fit(saved, rows_of(data))
    trainer.save_checkpoint(path)
    with pytest.raises(TypeError, match="training"):
        LMModule.load_from_checkpoint(path)
    read = LMModule.load_from_checkpoint(path, training=unnamed)
    assert all(torch.equal(weights_of(read)[n], v) for n, v in weights_of(saved).items())


class Tuned(LMModule):
    """A subclass as in Lightning's manual, with an argument of its own."""

    def __init__(self, decoder, training, *, weights=None, scale=1.0):
        super().__init__(decoder, training, weights=weights)
        self.save_hyperparameters()

    def loss(self, batch):
        return self.hparams.scale * super().loss(batch)


@pytest.mark.oldest_lightning
def test_a_subclass_that_saves_its_own_arguments_is_loaded(command, data, tmp_path):
    plain = module_of(command)
    config = DecoderConfig(**plain.hparams["decoder"])
    module = Tuned(config, plain.options, weights=plain.model.state_dict(), scale=0.5)
    trainer, path = trainer_of(tmp_path, max_steps=2), tmp_path / "saved.ckpt"
    trainer.fit(module, rows_of(data))
    trainer.save_checkpoint(path)
    read = Tuned.load_from_checkpoint(path)
    assert read.hparams.scale == 0.5 and read.options.as_plain() == plain.options.as_plain()
    assert all(torch.equal(weights_of(read)[n], v) for n, v in weights_of(module).items())
    assert LMModule.load_from_checkpoint(path).hparams == plain.hparams


def test_a_module_that_torch_compiled_whole_is_refused_and_can_be_used_after(
    command, data, tmp_path
):
    module = module_of(command)
    with pytest.raises(ConfigError, match=r"torch.compile .* set compile=True of Training"):
        trainer_of(tmp_path).fit(torch.compile(module), rows_of(data))
    trainer_of(tmp_path).fit(module, rows_of(data))
    assert same(module, command)


def vars_of(options):
    return {name: getattr(options, name) for name in Training.__dataclass_fields__}


def test_a_loader_of_ones_own_trains_with_fewer_numbers(command, data, tmp_path):
    rows = rows_of(data, validation_rows=0)
    loader = RowLoader(order=rows.order(), micro_batch=2, global_batch=4, steps=6)
    batches = [*RowLoader(order=rows.order(), micro_batch=4, global_batch=4, steps=6).batches()]
    names = ("tokens", "targets", "marks")
    named = [{name: getattr(batch, name) for name in names} for batch in batches]
    module = module_of(command)
    trainer_of(tmp_path).fit(module, train_dataloaders=loader)
    assert same(module, command)
    module = module_of(command)
    trainer = trainer_of(tmp_path, max_steps=2)
    trainer.fit(module, train_dataloaders=DataLoader(named, batch_size=None))
    assert trainer.global_step == 2 and module.metrics["loss"] > 5
    one, two = (DataLoader(part, batch_size=None) for part in (named[:1], named[1:3]))
    first, second = trainer.validate(module, [one, two], verbose=False)
    assert {**first, **second}.keys() == {f"validation/loss/dataloader_idx_{n}" for n in (0, 1)}
    assert module.metrics.get("tokens") is None
    seen = {name: named[0][name] for name in ("tokens", "marks")}  # enough for logits
    (logits,) = trainer.predict(module, DataLoader([seen], batch_size=None))
    torch.testing.assert_close(logits, module.eval()(batches[0]))
    assert logits.shape == (4, 64, 277)
    with pytest.raises(ConfigError, match=r"tokens, targets and marks, .*datamodule=.*input_ids"):
        trainer_of(tmp_path).fit(module_of(command), DataLoader([{"input_ids": 1}]))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tokens": [[1, 300]]}, r"tokens .* below vocab_size \(277\).*, was: 1 to 300"),
        ({"targets": [[-3, 2]]}, r"targets .* or -100 in targets, was: -3 to 2"),
        ({"targets": [[1]]}, r"targets .* of one shape, was: torch.int64 \[1, 1\]"),
        ({"marks": [[False, True]]}, r"marks of a batch must be torch.uint8"),
    ],
)
def test_batches_of_ones_own_that_a_model_cannot_read_are_refused(changes, told, command, tmp_path):
    batch = {"tokens": [[1, 2]], "targets": [[2, -100]], **changes}
    batch = {name: torch.tensor(value) for name, value in batch.items()}
    batch = {"marks": torch.zeros(1, 2, dtype=torch.uint8), **batch}
    with pytest.raises(DataError, match=told):
        trainer_of(tmp_path).fit(module_of(command), DataLoader([batch], batch_size=None))


class Stepless(LMModule):
    def training_step(self, batch, batch_idx):
        return self.loss(batch)


class Skipping(LMModule):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) if batch_idx != 2 else None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"clip": -1.0}, "clip must be above 0 or None, was: -1.0"),
        ({"clip": 0}, "clip must be above 0 or None, was: 0"),
        ({"clip": "1"}, "clip must be above 0 or None, was: '1'"),
        ({"schedule": 1.0}, "schedule must be callable, was: 1.0"),
        ({"optimizer": torch.optim.SGD([torch.zeros(1)])}, r"partial\(.*, was: an object of SGD$"),
        ({"seed": "a"}, "seed must be a whole number, was: 'a'"),
        ({"patience": 0}, "patience must be at least 1, was: 0"),
    ],
)
def test_a_training_that_would_go_wrong_is_refused_when_it_is_made(options, told, command):
    with pytest.raises(ValueError, match=told):
        Training(**{**vars_of(module_of(command).options), **options})
    with pytest.raises(ValueError, match="decoder must be a DecoderConfig"):
        LMModule(3, module_of(command).options)


def test_what_would_train_nothing_is_refused(command, data, tmp_path):
    module = module_of(command)
    with pytest.raises(ConfigError, match="weights of float16 cannot be trained"):
        trainer_of(tmp_path).fit(module_of(command).half(), rows_of(data))
    module.freeze()
    with pytest.raises(ConfigError, match=r"module.unfreeze\(\)"):
        trainer_of(tmp_path).fit(module, rows_of(data))
    for kind in (Stepless, Skipping):
        with pytest.raises(DataError, match=r"return super\(\).training_step"):
            trainer_of(tmp_path).fit(module_of(command, kind), rows_of(data))
    with pytest.raises(ConfigError, match="LBFGS computes a loss several times per step"):
        trainer_of(tmp_path).fit(module_of(command, optimizer=torch.optim.LBFGS), rows_of(data))
    fabric, plain = lightning.Fabric(accelerator="cpu"), module_of(command)
    with pytest.raises(ConfigError, match=r"needs a Trainer; under Fabric, train .* \.model"):
        fabric.setup(plain, plain.configure_optimizers()[0][0])[0].training_step(None, 0)
    with pytest.raises(DataError, match="datamodule="):
        rows_of(data).train_dataloader()
    with pytest.raises(ConfigError, match="bipe convert RUN to=hf out=FOLDER writes can, by torch"):
        module.to_torchscript()


class Own(lightning.LightningModule):
    """A model of the user's on our rows."""

    def __init__(self, size):
        super().__init__()
        torch.manual_seed(1)
        self.inside, self.outside = torch.nn.Embedding(size, 8), torch.nn.Linear(8, size)
        self.seen = []

    def training_step(self, batch, batch_idx):
        self.seen.append(batch.tokens[:, 0].tolist())
        logits = self.outside(self.inside(batch.tokens)).flatten(0, 1)
        return torch.nn.functional.cross_entropy(logits, batch.targets.flatten())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.oldest_lightning
def test_another_model_reads_each_row_once_also_when_it_is_resumed(data, tmp_path):
    rows = rows_of(data, validation_rows=0)
    whole, resumed = (Own(rows.vocab_size) for _ in range(2))
    each = ModelCheckpoint(dirpath=tmp_path, every_n_train_steps=1, save_top_k=-1)
    trainer_of(tmp_path, callbacks=[each], enable_checkpointing=True).fit(whole, rows)
    path = next(tmp_path.glob("*step=2.ckpt"))
    trainer_of(tmp_path).fit(resumed, rows_of(data, validation_rows=0), ckpt_path=path)
    assert resumed.seen == whole.seen[2:]
    assert all(map(torch.equal, whole.state_dict().values(), resumed.state_dict().values()))
    again = Own(rows.vocab_size)  # a second trainer on the same rows starts at the first
    trainer_of(tmp_path, max_steps=2).fit(again, rows)
    assert again.seen == whole.seen[:2]


class Broken(lightning.Callback):
    def on_before_optimizer_step(self, *_):
        if self.armed:
            raise RuntimeError("broken")


def test_rows_of_a_step_that_was_not_done_are_read_again(data, tmp_path):
    """Lightning's OnExceptionCheckpoint saves in the middle of a step."""
    module, rows, broken = Own(rows_of(data).vocab_size), rows_of(data, validation_rows=0), Broken()
    broken.armed = True
    trainer = trainer_of(tmp_path, callbacks=[broken])
    with pytest.raises(RuntimeError, match="broken"):
        trainer.fit(module, rows)
    assert rows.state_dict()["rows"] == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"accumulate_grad_batches": 2}, r"accumulate_grad_batches .*, was: 2; .* global_batch"),
        ({"gradient_clip_val": 1.0}, r"gradient_clip_val .*, was: 1.0; set clip of Training"),
        ({"limit_train_batches": 2}, r"limit_train_batches cannot be set, was: 2; .* set steps"),
        ({"overfit_batches": 1}, r"overfit_batches cannot be set, was: 1; .*limit"),
        ({"max_steps": -1, "max_epochs": 1}, r"max_steps must be set.*epoch_steps\(\).*, was: -1"),
        ({"strategy": ModelParallelStrategy()}, r"strategy must be .*ddp.*, was: ModelParallel"),
        ({"callbacks": [EarlyStopping("train/loss")]}, r"EarlyStopping .*val_check_interval=STEPS"),
        ({"strategy": DDPStrategy(static_graph=True)}, "static_graph of DDP takes no micro"),
        ({"precision": "16-true"}, r"precision must be 32-true or .*, was: 16-true"),
        ({"callbacks": [ModelCheckpoint(train_time_interval=timedelta(1))],
          "enable_checkpointing": True}, "train_time_interval .* set every_n_train_steps"),
    ],
)  # fmt: skip
def test_what_would_train_something_else_is_refused(options, told, command, data, tmp_path):
    with pytest.raises((ConfigError, DataError, MisconfigurationException), match=told):
        trainer_of(tmp_path, **options).fit(module_of(command), rows_of(data))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class Sets(lightning.Callback):
    """Sets attributes of the trainer where a callback of one's own may: at a hook."""

    def __init__(self, hook: str, **values: object) -> None:
        def set_values(trainer: lightning.Trainer, *_: object) -> None:
            for name, value in values.items():
                setattr(trainer, name, value)

        setattr(self, hook, set_values)


@pytest.mark.parametrize(
    ("hook", "options", "told"),
    [
        ("on_train_start", {"gradient_clip_val": 0.5}, "gradient_clip_val .*, was: 0.5; set clip"),
        ("on_train_batch_start", {"accumulate_grad_batches": 2}, "accumulate_grad_batches .*: 2;"),
    ],
)
def test_a_setting_of_a_callback_that_would_have_no_effect_is_refused(
    hook, options, told, command, data, tmp_path
):
    with pytest.raises(ConfigError, match=told):
        trainer_of(tmp_path, callbacks=[Sets(hook, **options)]).fit(
            module_of(command), rows_of(data)
        )


def test_a_module_and_rows_that_do_not_fit_are_refused(command, data, tmp_path):
    config = DecoderConfig(**{**module_of(command).hparams["decoder"], "vocab_size": 100})
    schedule = cosine(warmup=0, steps=6)
    small = LMModule(config, Training(optimizer=partial(adamw, lr=1e-3), schedule=schedule))
    with pytest.raises(ConfigError, match=r"vocab_size must be at least .* \(277\), was: 100"):
        trainer_of(tmp_path).fit(small, rows_of(data))
    with pytest.raises(ConfigError, match="context_parallel of LMModule and of LMDataModule"):
        trainer_of(tmp_path).fit(module_of(command), rows_of(data, context_parallel=2))
    with pytest.raises(ConfigError, match="context_parallel needs the rows of an LMDataModule"):
        trainer_of(tmp_path).fit(module_of(command, context_parallel=2), DataLoader([1]))
    with pytest.raises(DataError, match="accumulate_grad_batches cannot be set, was: 2"):
        trainer_of(tmp_path, accumulate_grad_batches=2).fit(Own(277), rows_of(data))


@pytest.mark.parametrize("precision", ["bf16-true", "64-true"])
def test_weights_may_have_another_precision(precision, command, data, tmp_path):
    module = module_of(command)
    trainer_of(tmp_path, precision=precision).fit(module, rows_of(data))
    dtype = {"bf16-true": torch.bfloat16, "64-true": torch.float64}[precision]
    assert {p.dtype for p in module.parameters()} == {dtype}
    assert module.metrics["loss"] == pytest.approx(losses(command)[-1], rel=1e-2)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"row_length": 0}, "row_length must be at least 1, was: 0"),
        ({"row_length": 10**6}, r"row_length must be at most the training tokens .*, was: 1000000"),
        ({"micro_batch": -1}, "micro_batch must be at least 1 or one of auto, was: -1"),
        ({"micro_batch": 2.0}, "micro_batch must be int or one of auto, was: 2.0"),
        ({"epochs": 0}, "epochs must be above 0"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"coarser": -1}, "coarser must be 0 or more"),
        ({"validation_rows": -1}, "validation_rows must be 0 or more"),
        ({"packing": {"strategy": "none"}}, "packing.strategy must be one of concat"),
    ],
)
def test_rows_that_cannot_be_are_refused_when_they_are_made(options, told, data):
    with pytest.raises(ConfigError, match=told):
        rows_of(data, **options)


def test_rows_of_all_kinds_are_built_again_from_their_hyperparameters(data):
    rows = rows_of(
        data,
        row_length=np.int64(64),
        packing=Packing(strategy="best_fit"),
        mixture=Mixture(sources={"proofs": 1.0}),
        curriculum=Curriculum(stages=[{"length": 16, "steps": 2}]),
    )
    again = LMDataModule(**rows.hparams)
    assert again.hparams == rows.hparams
    assert again.state_dict() == rows.state_dict()
    assert re.search(r"/data$", again.hparams["folder"])
