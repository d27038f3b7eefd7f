"""transformers' Trainer and PEFT train the models as our own steps do."""

import copy
import functools

import lightning
import peft
import pytest
import torch
from torch.utils.data import DataLoader, SequentialSampler
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from bipe.hf import DataCollatorWithSegments, SegmentingTokenizer
from segmenters import Sentences
from tests.bipe.hf.conftest import WIDTH, ids_of, marks_by_table, model_of
from tests.bipe.hf.test_tokenizer import trained
from tests.train.studies import quiet_trainer
from train.data.rows.loader import Batch
from train.fit.module import LMModule, Training
from train.fit.training import quiet

STEPS, ROWS = 5, 3
TARGETS = {"bipe_rope": ["query", "value"], "llama_bipe_rope": ["q_proj", "v_proj"]}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:torch.utils.data")


def examples():
    for seed, length in enumerate((20, 11, 16, 9, 20, 14, 13, 18, 20, 8, 12, 10, 19, 20, 15)):
        ids = ids_of(1, length, seed=seed)
        yield {"input_ids": ids[0].tolist(), "segment_marks": marks_by_table(ids)[0].tolist()}


class InOrder(Trainer):
    def _get_train_sampler(self, *_):
        return SequentialSampler(self.train_dataset)


def trainer_of(model, folder, *, packed, steps=STEPS):
    fast = trained("bytes")
    tokenizer = SegmentingTokenizer(tokenizer_object=fast, segmenter=Sentences(), pad_token="<pad>")
    how = {"optim": "adamw_torch", "learning_rate": 1e-3, "lr_scheduler_type": "constant"}
    how |= {"max_steps": steps, "per_device_train_batch_size": ROWS, "max_grad_norm": 1.0}
    how |= {"logging_steps": 1, "save_strategy": "no", "report_to": [], "disable_tqdm": True}
    return InOrder(
        model=model,
        args=TrainingArguments(output_dir=str(folder), use_cpu=True, weight_decay=0.0, **how),
        train_dataset=[*examples()],
        data_collator=DataCollatorWithSegments(tokenizer=tokenizer, packed=packed),
    )


class Rows(lightning.LightningDataModule):
    """Batches of the Trainer as our own module takes them."""

    source_names, row_length = ("text",), 20

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def train_dataloader(self):
        return DataLoader([*map(self.batch, range(STEPS))], batch_size=None)

    def val_dataloader(self):
        return []

    def batch(self, step):
        held = self.batches[step]
        targets = torch.nn.functional.pad(held["labels"][:, 1:], (0, 1), value=-100)
        mask = held.get("attention_mask")
        return Batch(
            tokens=held["input_ids"],
            targets=targets,
            marks=held["segment_marks"],
            padding=None if mask is None else mask == 0,
            carry=None,
            source=torch.zeros(len(targets), dtype=torch.int64),
            packed=True,
            step=step,
            step_targets=int((targets != -100).sum()),
            rows_after=step + 1,
            tokens_after=step + 1,
        )

    def transfer_batch_to_device(self, batch, *_):
        return batch


class Losses(lightning.Callback):
    def __init__(self):
        self.found = []

    def on_train_batch_end(self, trainer, module, *_):
        self.found.append(module.metrics["loss"])


def by_our_module(config, weights, batches, folder):
    """Losses of steps of our Lightning module."""
    training = Training(
        optimizer=functools.partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.0),
        schedule=lambda step: 1.0,
    )
    seen = Losses()
    module = LMModule(config, training, weights=weights)
    trainer = quiet_trainer(folder, max_steps=STEPS, callbacks=[seen])
    with quiet():
        trainer.fit(module, datamodule=Rows(batches))
    return seen.found


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        pytest.param("bipe_rope", False, marks=pytest.mark.oldest_transformers),
        ("bipe_rope_yarn", True),
        ("bipe_alibi", True),
    ],
)
def test_the_trainer_has_the_losses_of_our_own_module(name, packed, tmp_path):
    model = model_of(name)
    weights = copy.deepcopy(model.model.state_dict())
    trainer = trainer_of(model, tmp_path, packed=packed)
    rows = [*examples()]
    batches = [trainer.data_collator(rows[i : i + ROWS]) for i in range(0, STEPS * ROWS, ROWS)]
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    ours = by_our_module(model.config.decoder_config(), weights, batches, tmp_path)
    assert losses == pytest.approx(ours, rel=1e-6, abs=0)
    assert len({*losses}) == STEPS


@pytest.mark.parametrize("kind", TARGETS)
def test_lora_trains_saves_loads_and_merges(kind, tmp_path):
    model = model_of(kind)
    model.save_pretrained(tmp_path / "base")
    config = peft.LoraConfig(
        r=4,
        target_modules=TARGETS[kind],
        modules_to_save=["intra"] if kind.startswith("llama") else None,
        task_type="CAUSAL_LM",
    )
    adapted = peft.get_peft_model(model, config)
    trainer_of(adapted, tmp_path / "run", packed=True, steps=2).train()
    adapted.eval()
    ids = ids_of(2, 18)
    given = {"input_ids": ids, "segment_marks": marks_by_table(ids)}
    expected = adapted(**given).logits
    adapted.save_pretrained(tmp_path / "adapter")
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    assert (base(**given).logits - expected).abs().max() > 1e-4
    read = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    assert torch.equal(read(**given).logits, expected)
    written = read.generate(**given, max_new_tokens=4, do_sample=False)
    merged = read.merge_and_unload()
    torch.testing.assert_close(merged(**given).logits, expected, atol=2e-5, rtol=1e-4)
    assert torch.equal(merged.generate(**given, max_new_tokens=4, do_sample=False), written)
    merged.save_pretrained(tmp_path / "merged")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert torch.equal(again(**given).logits, merged(**given).logits)


@pytest.mark.parametrize("kind", TARGETS)
def test_virtual_tokens_are_refused(kind):
    # PEFT finds sizes by the names of transformers' own configurations only.
    sizes = {"token_dim": WIDTH, "num_layers": 2, "num_attention_heads": 2, "num_virtual_tokens": 3}
    ids = torch.arange(1, 9)[None]
    for config, reason in (
        (peft.PrefixTuningConfig, "3 tokens in the cache|for all tokens so far: 3 in the cache"),
        (peft.PromptTuningConfig, "for all tokens so far|have no ids"),
    ):
        model = peft.get_peft_model(model_of(kind), config(task_type="CAUSAL_LM", **sizes))
        for given in ({}, {"segment_marks": marks_by_table(ids)}):
            with pytest.raises(ValueError, match=reason):
                model(input_ids=ids, attention_mask=torch.ones_like(ids), **given)
