"""TRL trains both kinds of models on packed rows, and scores what it scores without segments."""

import copy

import pytest
import torch
import transformers
from datasets import Dataset

from bipe.hf import SegmentingTokenizer
from segmenters import Sentences
from tests.bipe.hf.conftest import llama_config, model_of
from tests.bipe.hf.test_tokenizer import trained

pytest.importorskip("trl")
TEXTS = ["It rained. Nobody came! " * times for times in (1, 2, 1, 3, 2, 1, 2, 2)]
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def trainer_of(model, tokenizer, folder):
    from trl import SFTConfig, SFTTrainer

    how = {"max_steps": 2, "per_device_train_batch_size": 2, "learning_rate": 1e-3, "bf16": False}
    how |= {"packing": True, "max_length": 64, "activation_checkpointing": False}
    how |= {"report_to": [], "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True}
    arguments = SFTConfig(output_dir=str(folder), use_cpu=True, **how)
    rows = Dataset.from_dict({"text": TEXTS})
    return SFTTrainer(model=model, args=arguments, train_dataset=rows, processing_class=tokenizer)


@pytest.fixture(scope="module")
def tokenizer():
    ends = {"pad_token": "<pad>", "eos_token": "<pad>"}
    return SegmentingTokenizer(tokenizer_object=trained("bytes"), segmenter=Sentences(), **ends)


@pytest.mark.parametrize("kind", ["bipe_alibi", "llama_bipe_rope"])
def test_packed_rows_are_trained_on_and_scored_as_without_segments(kind, tokenizer, tmp_path):
    model = model_of(kind, vocab_size=len(tokenizer))
    tokenizer.attach(model)
    untrained = copy.deepcopy(model)
    plain_config = llama_config()
    plain_config.vocab_size = len(tokenizer)
    plain = trainer_of(transformers.LlamaForCausalLM(plain_config), tokenizer, tmp_path / "plain")
    trainer = trainer_of(model, tokenizer, tmp_path / "ours")

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
