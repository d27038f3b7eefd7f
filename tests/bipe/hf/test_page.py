"""docs/transformers.md: its code runs, and it names what there is."""

import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from bipe.hf import FAMILIES
from tests.bipe.hf.test_tokenizer import TEXTS, trained

PAGE = (Path(__file__).parents[3] / "docs" / "transformers.md").read_text(encoding="utf-8")


@pytest.mark.oldest_transformers
def test_the_code_of_the_page_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {"fast": trained("bytes"), "texts": TEXTS[:2], "folder": tmp_path}
    exec(compile(code, "transformers.md", "exec", dont_inherit=True), names)
    assert names["loss"].isfinite()
    assert names["written"].shape == names["exact"].shape
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    prompt = tokenizer("It rained. Nobody", return_tensors="pt")
    again = model.generate(**prompt, max_new_tokens=8, do_sample=False)
    assert torch.equal(again, names["written"])


def test_the_page_counts_the_families():
    (count,) = re.findall(r"the (\d+) of `bipe.hf.FAMILIES`", PAGE)
    assert int(count) == len(FAMILIES)
