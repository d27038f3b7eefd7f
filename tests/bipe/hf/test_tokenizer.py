"""SegmentingTokenizer and DataCollatorWithSegments: marks are those of prepared data."""

import datasets
import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast, pipeline

from bipe import Positions
from bipe.hf import BipeConfig, BipeForCausalLM, DataCollatorWithSegments
from bipe.hf.tokenizer import FILE, read_segmenter
from segmenters import Auto, Levels, Lines, Sentences, mark, segment_ids
from segmenters.align import anchors_from_offsets
from tests.bipe.hf.conftest import (
    ENCODINGS,
    LEARNED,
    TEXTS,
    filled,
    model_of,
    tokenizer_of,
    trained,
)


@pytest.fixture(scope="module", params=["bytes", "metaspace"])
def fast(request):
    return trained(request.param)


@pytest.mark.parametrize("segmenter", [Sentences(), Lines()], ids=repr)
def test_marks_are_those_of_the_text(fast, segmenter):
    tokenizer = tokenizer_of(fast, segmenter)
    made = tokenizer(TEXTS)
    for text, ids, marks in zip(TEXTS, made["input_ids"], made["segment_marks"], strict=True):
        encoding = fast.encode(text)
        assert ids == encoding.ids
        anchors = anchors_from_offsets(text, encoding.offsets)
        assert marks == mark(anchors, [segmenter.cut(text)]).tolist()
        assert dict(tokenizer(text))["segment_marks"] == marks
        if text and fast.token_to_id("\u0120"):  # the space of bytes: ids spell the whole text
            assert tokenizer.marks_of_ids(ids) == marks
    assert (
        tokenizer(TEXTS[0], truncation=True, max_length=9)["segment_marks"]
        == (made["segment_marks"][0][:9])
    )


def test_padding_has_no_marks_on_either_side(fast):
    tokenizer = tokenizer_of(fast)
    alone = [tokenizer(text)["segment_marks"] for text in TEXTS[:3]]
    for side in ("left", "right"):
        tokenizer.padding_side = side
        given = {"padding": True, "pad_to_multiple_of": 8, "return_tensors": "pt"}
        direct = tokenizer(TEXTS[:3], **given)
        later = tokenizer.pad(
            [tokenizer(text) for text in TEXTS[:3]], padding=True, return_tensors="pt"
        )
        for made in (direct, later):
            rows = zip(made["segment_marks"], made["attention_mask"].bool(), alone, strict=True)
            for marks, real, expected in rows:
                assert marks[real].tolist() == expected
                assert not marks[~real].any()


def attached(texts=()):
    """A tokenizer, and a model that knows its segments."""
    tokenizer = tokenizer_of()
    model = model_of("bipe_alibi")
    model.resize_token_embeddings(len(tokenizer))
    tokenizer.attach(filled(model), texts)
    return tokenizer, model


def test_an_attached_model_generates_by_both_rules_and_in_a_pipeline():
    tokenizer, model = attached(TEXTS[:2])
    about = model.config.segment_table["about"]
    assert 0 <= about["disagreement"] < 0.2 and about["tokens"] > 10
    ids = tokenizer(TEXTS[0], return_tensors="pt")
    given = {**ids, "max_new_tokens": 6, "do_sample": False}
    for rule in ("exact", "table"):
        made = model.generate(**given, segmentation=rule)
        assert torch.equal(made, model.generate(**given, segmentation=rule, use_cache=False))
    write = pipeline("text-generation", model=model, tokenizer=tokenizer)
    (written,) = write(TEXTS[0], max_new_tokens=6, do_sample=False)
    assert written["generated_text"] == tokenizer.decode(made[0], skip_special_tokens=True)


class TestCollator:
    tokenizer = tokenizer_of()

    @property
    def examples(self):
        return [dict(self.tokenizer(text)) for text in TEXTS[:3]]

    def test_marks_may_be_given_or_come_from_text_or_ids(self):
        collate = DataCollatorWithSegments(tokenizer=self.tokenizer)
        given = collate(self.examples)
        by_text = collate([{"text": text} for text in TEXTS[:3]])
        by_ids = collate([{"input_ids": each["input_ids"]} for each in self.examples])
        for key, value in given.items():
            assert torch.equal(by_text[key], value)
            assert torch.equal(by_ids[key], value)
        own = [{"text": TEXTS[0], "labels": [-100] * len(self.examples[0]["input_ids"])}]
        assert collate(own)["labels"].unique().tolist() == [-100]

    @pytest.mark.parametrize("side", ["left", "right"])
    def test_padded_rows_give_the_logits_of_each_alone(self, side):
        tokenizer = tokenizer_of()
        tokenizer.padding_side = side
        batch = DataCollatorWithSegments(tokenizer=tokenizer, pad_to_multiple_of=16)(self.examples)
        assert batch["input_ids"].shape[1] % 16 == 0
        model = self.model()
        made = model(**batch)
        for row, example in enumerate(self.examples):
            alone = model(**tensors(example)).logits[0]
            real = batch["attention_mask"][row].bool()
            torch.testing.assert_close(made.logits[row][real], alone, atol=1e-5, rtol=1e-5)

    def test_a_packed_row_gives_the_logits_and_the_loss_of_each_alone(self):
        collate = DataCollatorWithSegments(tokenizer=self.tokenizer, packed=True, flash=True)
        batch = collate(self.examples)
        lengths = [len(each["input_ids"]) for each in self.examples]
        assert batch["cu_seq_lens_q"].tolist() == [0, *np.cumsum(lengths).tolist()]
        assert batch["max_length_k"] == max(lengths)
        model = self.model()
        made = model(**batch, use_cache=False)
        alone = [
            model(**tensors(each), labels=tensors(each)["input_ids"]) for each in self.examples
        ]
        logits = torch.cat([each.logits for each in alone], 1)
        torch.testing.assert_close(made.logits, logits, atol=1e-5, rtol=1e-5)
        scored = torch.tensor([length - 1 for length in lengths])
        mean = (torch.stack([each.loss for each in alone]) * scored).sum() / scored.sum()
        torch.testing.assert_close(made.loss, mean)
        assert int((batch["labels"] != -100).sum()) == int(scored.sum())

    def test_a_row_that_is_packed_already_stays_so(self):
        collate = DataCollatorWithSegments(tokenizer=self.tokenizer, packed=True)
        packed = collate(self.examples)
        again = collate([{key: value[0] for key, value in packed.items()}])
        assert all(torch.equal(again[key], packed[key]) for key in packed)
        with pytest.raises(ValueError, match="several documents"):
            DataCollatorWithSegments(tokenizer=self.tokenizer)(
                [{k: v[0] for k, v in packed.items()}]
            )

    @pytest.mark.usefixtures("unchecked_types")
    def test_what_does_not_fit_is_refused(self):
        def collator(tokenizer=self.tokenizer, **options):
            return DataCollatorWithSegments(tokenizer=tokenizer, **options)

        collate, model = collator(), self.model()
        plain = PreTrainedTokenizerFast(tokenizer_object=self.tokenizer.backend_tokenizer)
        without = tokenizer_of(plain.backend_tokenizer, None)
        text = [{"text": "One. Two."}]
        few = [{"input_ids": [1, 2], "segment_marks": [3]}]
        for call, reason in (
            (lambda: collate([]), "at least one example"),
            (lambda: collator(packed=True)([]), "at least one example"),
            (lambda: collate([{"words": 1}]), "needs input_ids or text, had: words"),
            (lambda: collate([{"text": None}]), "needs input_ids or text, had: text"),
            (lambda: collate([{"input_ids": [[1, 2]]}]), r"input_ids must be .*shape \[1, 2\]"),
            (lambda: collate([{"text": "a", "labels": [0.5]}]), "labels must be .*was: float32"),
            (lambda: collator(packed=True, flash=True)([{"text": ""}]), "at least one token"),
            # What the Trainer leaves of {"text": ...}.
            (lambda: collate([{}]), r"had: nothing; .*set remove_unused_columns=False"),
            (lambda: collate(few), "as many as the 2 inp"),
            (lambda: collator(flash=True), "packed=True"),
            (lambda: collator(packed=True, pad_to_multiple_of=8), "no padding"),
            (lambda: collator(plain)(text), "SegmentingTokenizer with a segmenter"),
            (lambda: collator(without)(text), "SegmentingTokenizer with a segmenter"),
            (lambda: without.marker(), "the tokenizer has no segmenter"),
            (lambda: model.follow(plain), "marker must be a Marker or a SegmentingTokenizer"),
            (lambda: self.tokenizer.attach(model, "One."), "a list of texts, was: str"),
            (lambda: self.tokenizer("a", text_pair="b"), "join pairs of texts"),
            (lambda: self.tokenizer("a", is_split_into_words=True), "join pairs of texts"),
        ):
            with pytest.raises((ValueError, TypeError), match=reason):
                call()

    def model(self):
        model = model_of("bipe_rope")
        model.resize_token_embeddings(len(self.tokenizer))
        return filled(model)


def tensors(example):
    return {key: torch.tensor([value]) for key, value in example.items()}


@torch.no_grad()
def test_several_levels_are_marked_and_followed():
    """A segmenter that keeps two levels marks both; a table of ids knows one alone."""
    fast = trained("bytes")
    tokenizer = tokenizer_of(fast, Levels(of=Sentences(), keep=2))
    text = "He left. She stayed! Why?\n\nNobody knew.  Then it"
    made = tokenizer(text, return_tensors="pt")
    assert (made["segment_marks"] >> 1 & 3)[0].unique(return_counts=True)[1].tolist()[1:] == [3, 2]
    several = dict.fromkeys(("token", "sentence", "paragraph"), LEARNED)
    encoding = {"_target_": "bipe.encodings.multilevel.Multilevel", "encodings": several}
    config = BipeConfig(vocab_size=fast.get_vocab_size(), width=32, encoding=encoding)
    model = filled(BipeForCausalLM(config))
    with pytest.raises(ValueError, match=r"has one level of segments, but the model reads 2"):
        model(made["input_ids"])
    with pytest.raises(ValueError, match=r"reads 2 levels .* the tokenizer marks 1: .*keep=2"):
        model.follow(tokenizer_of(fast))
    model.follow(tokenizer)
    written = model.generate(
        made["input_ids"], max_new_tokens=8, do_sample=False, segmentation="exact"
    )
    marker, row = tokenizer.marker(), written[0].tolist()
    marks = [(marker.push(id) + marker.provisional())[-1] for id in row]
    at = Positions.from_marks(torch.tensor([marks], dtype=torch.uint8), levels=2)
    logits = model.model.logits(written, at)[0, len(row) - 9 : -1]
    assert logits.argmax(-1).tolist() == row[-8:]


def test_segment_ids_are_those_of_the_tokenizer_with_segments(fast):
    given = {"segmenter": Sentences()}
    expected = tokenizer_of(fast, **given)(TEXTS)
    plain = PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="<pad>")
    plain(TEXTS[:2], padding=True)  # leaves padding switched on
    for own in (fast, plain):
        made = segment_ids(TEXTS, own, **given)
        alone = segment_ids(TEXTS[0], own, **given)
        for name in ("input_ids", "segment_marks"):
            assert [row.tolist() for row in made[name]] == expected[name]
            assert np.array_equal(alone[name], made[name][0])
    for row in range(3):
        at = Positions.from_marks(torch.from_numpy(made["segment_marks"][row])[None])
        assert made["inter_ids"][row].tolist() == at.inter[0].tolist()
        assert made["intra_ids"][row].tolist() == at.intra[0].tolist()
    table = datasets.Dataset.from_dict({"text": TEXTS[:2]})
    how = {"batched": True, "input_columns": "text", "fn_kwargs": {"tokenizer": fast, **given}}
    mapped = table.map(segment_ids, **how)["intra_ids"][:]
    assert mapped == [row.tolist() for row in made["intra_ids"][:2]]


@torch.no_grad()
def test_a_segmenter_chosen_for_each_document_generates_by_the_table_and_exactly(fast):
    tokenizer = tokenizer_of(fast, Auto())
    config = BipeConfig(vocab_size=len(tokenizer), width=32, encoding=ENCODINGS["bipe_alibi"])
    model = filled(BipeForCausalLM(config))
    code = "import os\n\n\ndef f(x):\n    return x\n"
    prompts = ["He left. She stayed! Why?", code, "# A\n\n* b\n"]
    with pytest.raises(ValueError, match=r"no id table: call tokenizer.attach"):
        model(tokenizer(prompts[0], return_tensors="pt")["input_ids"])
    tokenizer.attach(model, prompts)
    for prompt in prompts:
        made = tokenizer(prompt, return_tensors="pt")
        for segmentation in ("table", "exact"):
            model.generate(**made, max_new_tokens=4, do_sample=False, segmentation=segmentation)
        if "*" not in prompt:  # Markdown needs the whole text
            model.config.segmentation = "exact"
            rule = model.rule_of_marks("exact", made["input_ids"].device)
            found = rule.marks(made["input_ids"], whole=True)
            assert torch.equal(found, made["segment_marks"].byte())


@pytest.mark.parametrize("written", ["[]", "null", "{}", '{"segmenter": "x", "parameters": [1]}'])
def test_a_segmenter_file_of_another_shape_is_named(tmp_path, written):
    (tmp_path / FILE).write_text(written)
    with pytest.raises(
        ValueError, match=r"segmenter\.json: .*object with segmenter and parameters"
    ):
        read_segmenter(tmp_path / FILE)
