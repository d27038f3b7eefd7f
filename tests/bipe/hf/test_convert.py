"""`bipe convert` with transformers at the other end: its folders load there, and theirs here."""

import json

import pytest
import torch
from tokenizers import processors
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, pipeline

from bipe import Positions
from bipe.checkpoint import load_model
from bipe.hf import BipeForCausalLM, SegmentingTokenizer
from segmenters import Sentences
from tests.bipe.hf.conftest import TEXTS, trained
from tests.bipe.hf.test_folders import stranger
from train.commands.after.converting import to_bipe, to_hf
from train.errors import UserError

SIZE = {"bytes": 323, "metaspace": 124}


@torch.no_grad()
@pytest.mark.oldest_transformers
def test_transformers_reads_a_run(run, tmp_path):
    to_hf(str(run), tmp_path / "hf")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "hf")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert (type(model), type(tokenizer)) == (BipeForCausalLM, SegmentingTokenizer)
    assert tokenizer.segmenter == Sentences()
    assert model.config.segment_table == tokenizer.segment_table(size=model.config.vocab_size)
    made = tokenizer(TEXTS[0], return_tensors="pt")
    ours, _ = load_model(run / "model")
    at = Positions.from_marks(made["segment_marks"].byte())
    assert torch.equal(model(**made).logits, ours.logits(made["input_ids"], at))
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == 1
    write = pipeline("text-generation", model=str(tmp_path / "hf"))
    (written,) = write("He left.", max_new_tokens=4)
    assert written["generated_text"].startswith("He left.")
    plain = PreTrainedTokenizerFast.from_pretrained(tmp_path / "hf")
    assert plain(TEXTS[0])["input_ids"] == made["input_ids"][0].tolist()
    assert "SegmentingTokenizer" not in (tmp_path / "hf" / "tokenizer_config.json").read_text()


def spoken(folder, kind):
    """Give a stranger's folder a tokenizer; that of `metaspace` begins each text with a token."""
    fast = trained(kind)
    if kind == "metaspace":
        begin = ("<unk>", fast.token_to_id("<unk>"))
        how = {"single": "<unk> $A", "special_tokens": [begin]}
        fast.post_processor = processors.TemplateProcessing(**how)
    made = PreTrainedTokenizerFast(tokenizer_object=fast, eos_token="<eos>", unk_token="<unk>")
    made.save_pretrained(folder)
    return made


@pytest.mark.parametrize(("name", "kind"), [("Llama", "metaspace"), ("Qwen3", "bytes")])
def test_a_stranger_comes_and_goes(name, kind, tmp_path):
    theirs = stranger(name, vocab_size=SIZE[kind] + 5)
    theirs.save_pretrained(tmp_path / "theirs")
    own = spoken(tmp_path / "theirs", kind)
    (tmp_path / "theirs" / "README.md").write_text("their card")
    to_bipe(str(tmp_path / "theirs"), tmp_path / "run")
    assert (tmp_path / "run" / "model" / "README.md").read_text() == "their card"
    assert load_model(tmp_path / "run" / "model")[1]["row_length"] == 512
    to_hf(str(tmp_path / "run"), tmp_path / "back")
    back = AutoModelForCausalLM.from_pretrained(tmp_path / "back")
    assert type(back) is type(theirs)
    pairs = zip(back.state_dict().values(), theirs.state_dict().values(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    again = AutoTokenizer.from_pretrained(tmp_path / "back")
    assert again(TEXTS)["input_ids"] == own(TEXTS)["input_ids"]
    assert again.eos_token == own.eos_token


def test_a_plain_tokenizer_file_fits_or_is_refused(tmp_path):
    stranger("Llama", vocab_size=SIZE["bytes"]).save_pretrained(tmp_path / "theirs")
    trained("bytes").save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match="contains none of tokenizer"):
        to_bipe(str(tmp_path / "theirs"), tmp_path / "run")
    to_bipe(str(tmp_path / "theirs"), tmp_path / "run", tokenizer=str(tmp_path / "tokenizer.json"))
    about = json.loads((tmp_path / "run" / "model" / "tokenizer_config.json").read_text())
    assert about["eos_token"] == "<eos>"
