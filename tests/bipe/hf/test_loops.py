"""docs/loops.md, the loops over models of transformers, and the traps that it tells of."""

import re
from pathlib import Path

import pytest
import torch

from tests.bipe.hf.conftest import VOCABULARY, marks_by_table, model_of
from tests.bipe.hf.test_tokenizer import TEXTS, trained

PAGE = (Path(__file__).parents[3] / "docs" / "loops.md").read_text(encoding="utf-8")
SEGMENTED = ["bipe_rope", "llama_bipe_rope"]


def called(model, **given):
    """The call of flame: ids, labels, positions and ends of documents, without marks."""
    return model(cu_seqlens=None, use_cache=False, **given)


def batch():
    ids = torch.randint(1, VOCABULARY, (1, 24), generator=torch.Generator().manual_seed(3))
    at = torch.cat([torch.arange(10), torch.arange(14)])[None]  # two documents
    return {"input_ids": ids, "labels": ids, "position_ids": at}


def test_the_loop_with_accelerate_trains():
    from bipe.hf import SegmentingTokenizer
    from segmenters import Sentences

    *_, code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    fast = trained("bytes")
    tokenizer = SegmentingTokenizer(tokenizer_object=fast, segmenter=Sentences(), pad_token="<pad>")
    model = model_of("bipe_rope", vocab_size=len(tokenizer)).train()
    before = model.state_dict()["model.scheme.intra.table.weight"].clone()
    names = {"model": model, "tokenizer": tokenizer, "rows": [{"text": each} for each in TEXTS]}
    exec(compile(code, "loops.md", "exec", dont_inherit=True), names)
    assert names["loss"].isfinite()
    assert not torch.equal(before, model.state_dict()["model.scheme.intra.table.weight"])


@pytest.mark.parametrize("kind", SEGMENTED)
@torch.no_grad()
def test_a_loop_without_marks_finds_segments_by_the_table_or_is_refused(kind):
    model, given = model_of(kind), batch()
    marked = model(segment_marks=marks_by_table(given["input_ids"]), use_cache=False, **given)
    torch.testing.assert_close(called(model, **given).loss, marked.loss)
    model.config.segment_table = None
    with pytest.raises(ValueError, match=r"no id table: call tokenizer.attach"):
        called(model, **given)


@pytest.mark.parametrize("kind", SEGMENTED)
@torch.no_grad()
def test_ids_of_segments_in_the_place_of_positions_cut_attention_silently(kind):
    """The trap of the page: the first token of the row is no longer seen by the last."""
    model, given = model_of(kind), batch()
    marks = marks_by_table(given["input_ids"])
    plain = given | {"position_ids": torch.arange(24)[None]}
    wrong = given | {"position_ids": (marks > 1).long().cumsum(-1) - 1}
    other = plain["input_ids"].clone()
    other[0, 0] = other[0, 0] % (VOCABULARY - 1) + 1

    def moved(ids):
        pair = [plain["input_ids"], other]
        first, second = (
            model(**ids | {"input_ids": each}, segment_marks=marks, use_cache=False).logits[0, -1]
            for each in pair
        )
        return not torch.equal(first, second)

    assert moved(plain) and not moved(wrong)
