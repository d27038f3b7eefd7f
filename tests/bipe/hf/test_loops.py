"""The pages on transformers and on loops over its models: their code runs, their traps are real.

transformers' Trainer, PEFT and TRL train the models as plain steps do. The transformers that is
tested is of the range of the extra `hf`: its oldest where asked.
"""

import copy
import re
import tomllib
from pathlib import Path

import peft
import pytest
import torch
import transformers
from datasets import Dataset
from packaging.requirements import Requirement
from torch.utils.data import SequentialSampler
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

from bipe import Positions
from bipe.hf import FAMILIES, DataCollatorWithSegments
from bipe.loss import IGNORE, summed_cross_entropy
from tests.bipe.hf.conftest import (
    TEXTS,
    VOCABULARY,
    WIDTH,
    ids_of,
    llama_config,
    marks_by_table,
    model_of,
    tokenizer_of,
    trained,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:torch.utils.data")
ROOT = Path(__file__).parents[3]
PAGES = {
    name: (ROOT / "docs" / name).read_text("utf-8") for name in ("transformers.md", "loops.md")
}
SEGMENTED = ["bipe_rope", "llama_bipe_rope"]


@pytest.mark.oldest_transformers
def test_the_version_is_of_the_range_and_its_oldest_where_only_that_is_tested(request):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = map(Requirement, project["optional-dependencies"]["hf"])
    (asked,) = (each.specifier for each in wanted if each.name == "transformers")
    (oldest,) = (each.version for each in asked if each.operator == ">=")
    if request.config.option.markexpr == "oldest_transformers":
        asked &= f"=={oldest}"
    assert asked.contains(transformers.__version__), (transformers.__file__, str(asked))


def run_code(page, names):
    *_, code = re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL)
    exec(compile(code, page, "exec", dont_inherit=True), names)


@pytest.mark.oldest_transformers
def test_the_code_of_the_page_runs(tmp_path):
    names = {"fast": trained("bytes"), "texts": TEXTS[:2], "folder": tmp_path}
    run_code("transformers.md", names)
    assert names["loss"].isfinite()
    assert names["written"].shape == names["exact"].shape
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    prompt = tokenizer("It rained. Nobody", return_tensors="pt")
    again = model.generate(**prompt, max_new_tokens=8, do_sample=False)
    assert torch.equal(again, names["written"])
    (count,) = re.findall(r"the (\d+) of `bipe.hf.FAMILIES`", PAGES["transformers.md"])
    assert int(count) == len(FAMILIES)


def test_the_loop_with_accelerate_trains():
    tokenizer = tokenizer_of()
    model = model_of("bipe_rope", vocab_size=len(tokenizer)).train()
    before = model.state_dict()["model.scheme.intra.table.weight"].clone()
    names = {"model": model, "tokenizer": tokenizer, "rows": [{"text": each} for each in TEXTS]}
    run_code("loops.md", names)
    assert names["loss"].isfinite()
    assert not torch.equal(before, model.state_dict()["model.scheme.intra.table.weight"])


@pytest.mark.parametrize("kind", SEGMENTED)
@torch.no_grad()
def test_a_loop_without_marks_finds_segments_by_the_table_and_may_cut_attention(kind):
    """The trap: with ids of segments for positions the last token no longer sees the first."""
    model, ids = model_of(kind), ids_of(1, 24)
    marks = marks_by_table(ids)
    # The call of flame: ids, labels, positions and ends of documents, without marks.
    plain = {"labels": ids, "position_ids": torch.cat([torch.arange(10), torch.arange(14)])[None]}

    def called(ids, **given):
        return model(ids, cu_seqlens=None, use_cache=False, **given)

    marked = called(ids, segment_marks=marks, **plain)
    torch.testing.assert_close(called(ids, **plain).loss, marked.loss)
    other = ids.clone()
    other[0, 0] = other[0, 0] % (VOCABULARY - 1) + 1
    for positions, seen in (
        (torch.arange(24), True),
        ((marks[0] > 1).long().cumsum(-1) - 1, False),
    ):
        given = {"position_ids": positions[None], "segment_marks": marks}
        first, second = (called(each, **given).logits[0, -1] for each in (ids, other))
        assert torch.equal(first, second) != seen


STEPS, ROWS = 5, 3
TARGETS = {"bipe_rope": ["query", "value"], "llama_bipe_rope": ["q_proj", "v_proj"]}


def examples():
    for seed, length in enumerate((20, 11, 16, 9, 20, 14, 13, 18, 20, 8, 12, 10, 19, 20, 15)):
        ids = ids_of(1, length, seed=seed)
        yield {"input_ids": ids[0].tolist(), "segment_marks": marks_by_table(ids)[0].tolist()}


class InOrder(Trainer):
    def _get_train_sampler(self, *_):
        return SequentialSampler(self.train_dataset)


def trainer_of(model, folder, *, packed, steps=STEPS):
    how = {"optim": "adamw_torch", "learning_rate": 1e-3, "lr_scheduler_type": "constant"}
    how |= {"max_steps": steps, "per_device_train_batch_size": ROWS, "max_grad_norm": 1.0}
    how |= {"logging_steps": 1, "save_strategy": "no", "report_to": [], "disable_tqdm": True}
    return InOrder(
        model=model,
        args=TrainingArguments(output_dir=str(folder), use_cpu=True, weight_decay=0.0, **how),
        train_dataset=[*examples()],
        data_collator=DataCollatorWithSegments(tokenizer=tokenizer_of(), packed=packed),
    )


def by_plain_steps(decoder, batches):
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-3, weight_decay=0.0)
    for held in batches:
        padding = held["attention_mask"] == 0 if "attention_mask" in held else None
        at = Positions.from_marks(held["segment_marks"], padding=padding)
        targets = torch.nn.functional.pad(held["labels"][:, 1:], (0, 1), value=IGNORE).flatten()
        hidden = decoder(held["input_ids"], at).flatten(0, 1)
        loss = summed_cross_entropy(hidden, decoder.head.weight, targets)
        loss = loss / (targets != IGNORE).sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        pytest.param("bipe_rope", False, marks=pytest.mark.oldest_transformers),
        ("bipe_rope_yarn", True),
        ("bipe_alibi", True),
    ],
)
def test_the_trainer_has_the_losses_of_plain_steps(name, packed, tmp_path):
    model = model_of(name)
    decoder = copy.deepcopy(model.model)
    trainer = trainer_of(model, tmp_path, packed=packed)
    rows = [*examples()]
    batches = [trainer.data_collator(rows[i : i + ROWS]) for i in range(0, STEPS * ROWS, ROWS)]
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses == pytest.approx([*by_plain_steps(decoder, batches)], rel=1e-6, abs=0)
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


SAID = ["It rained. Nobody came! " * times for times in (1, 2, 1, 3, 2, 1, 2, 2)]


def packing_of(model, tokenizer, folder):
    from trl import SFTConfig, SFTTrainer

    how = {"max_steps": 2, "per_device_train_batch_size": 2, "learning_rate": 1e-3, "bf16": False}
    how |= {"packing": True, "max_length": 64, "activation_checkpointing": False}
    how |= {"report_to": [], "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True}
    arguments = SFTConfig(output_dir=str(folder), use_cpu=True, **how)
    rows = Dataset.from_dict({"text": SAID})
    return SFTTrainer(model=model, args=arguments, train_dataset=rows, processing_class=tokenizer)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["bipe_alibi", "llama_bipe_rope"])
def test_packed_rows_are_trained_on_and_scored_as_without_segments(kind, tmp_path):
    pytest.importorskip("trl")
    tokenizer = tokenizer_of(eos_token="<pad>")
    model = model_of(kind, vocab_size=len(tokenizer))
    tokenizer.attach(model)
    untrained = copy.deepcopy(model)
    plain_config = llama_config()
    plain_config.vocab_size = len(tokenizer)
    plain = packing_of(transformers.LlamaForCausalLM(plain_config), tokenizer, tmp_path / "plain")
    trainer = packing_of(model, tokenizer, tmp_path / "ours")

    batch = next(iter(trainer.get_train_dataloader()))
    assert (batch["position_ids"][:, 1:] == 0).any()  # several documents in a row
    with torch.no_grad():
        scored, without = (
            each.model(**next(iter(each.get_train_dataloader())), fused_lm_head=True).label_mask
            for each in (trainer, plain)
        )
        expected = untrained(**batch).loss
        found = trainer.model(**batch, fused_lm_head=True).loss
    assert torch.equal(scored, without) and scored.any()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 2
    changed = zip(untrained.parameters(), model.parameters(), strict=True)
    assert not all(torch.equal(before, after) for before, after in changed)
