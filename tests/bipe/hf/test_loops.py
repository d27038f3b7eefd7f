"""The pages on transformers and on loops over its models: their code runs, their traps are real.

The transformers that is tested is of the range of the extra `hf`: its oldest where asked.
"""

import re
import tomllib
from pathlib import Path

import pytest
import torch
import transformers
from packaging.requirements import Requirement
from transformers import AutoModelForCausalLM, AutoTokenizer

from bipe.hf import FAMILIES
from tests.bipe.hf.conftest import (
    TEXTS,
    VOCABULARY,
    ids_of,
    marks_by_table,
    model_of,
    tokenizer_of,
    trained,
)

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
