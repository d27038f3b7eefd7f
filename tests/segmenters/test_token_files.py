"""Marks beside datatrove's token files are those of the texts, however the files were shuffled."""

import numpy as np
import pytest
from datatrove.data import Document
from datatrove.pipeline.tokens import DocumentTokenizer
from tokenizers.processors import TemplateProcessing

from segmenters import Lines, SegmenterError, Sentences, segment_ids
from segmenters.token_files import SegmentMarks
from tests.segmenters.texts import trained

TEXTS = [
    "He left. She stayed! Why?",
    "Eins. \U0001f600 Zwei! \u4e2d\u6587\u3002\u4e0b\u4e00\u53e5\u3002",
    "  x = 1\n\ny = 2\n",
    "Dr. Smith slept. It rained all night.",
]


def tokenizer_of(kind):
    made = trained(kind, TEXTS, size=330)
    made.post_processor = TemplateProcessing(single="$A <s>", special_tokens=[("<s>", 0)])
    return made


def written(folder, tokenizer, **options):
    """Write the token files of TEXTS in two tasks."""
    tokenizer.save(str(folder / "tokenizer.json"))
    step = DocumentTokenizer(
        str(folder / "tokens"), str(folder / "tokenizer.json"), seed=3, **options
    )
    for rank in (0, 1):
        documents = [Document(text=text, id=text) for text in TEXTS[rank::2]]
        step.run(iter(documents), rank=rank, world_size=2)
    return folder / "tokens"


def documents_of(folder):
    """Pairs of ids and marks of all documents."""
    for index in sorted(folder.glob("*.index")):
        name = index.with_suffix("")
        ids, marks = np.fromfile(name, "<u2"), np.fromfile(f"{name}.marks", np.uint8)
        assert len(ids) == len(marks)
        ends = np.fromfile(index, "<u8").astype(int)[:-1]
        yield from zip(np.split(ids, ends), np.split(marks, ends), strict=True)


@pytest.mark.parametrize(
    ("kind", "segmenter", "shuffle"),
    [("bytes", Sentences(), True), ("bytes", Lines(), False), ("metaspace", Sentences(), True)],
)
def test_marks_are_those_of_the_texts(kind, segmenter, shuffle, tmp_path):
    tokenizer = tokenizer_of(kind)
    folder = written(tmp_path, tokenizer, shuffle_documents=shuffle)
    step = SegmentMarks(str(folder), str(tmp_path / "tokenizer.json"), segmenter)
    passed = [*step.run(iter(["document"]), rank=0, world_size=2), *step.run(None, 1, 2)]
    assert passed == ["document"]
    made = segment_ids(TEXTS, tokenizer, segmenter=segmenter)
    expected = {
        tuple(ids): marks.tolist()
        for ids, marks in zip(made["input_ids"], made["segment_marks"], strict=True)
    }
    found = {tuple(ids): marks.tolist() for ids, marks in documents_of(folder)}
    assert found == expected and len(found) == len(TEXTS)
    assert any(sum(marks[1:]) for marks in expected.values())


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["One.", None], "text 1 must be a str, was: NoneType"),
        (b"One.", "text 0 must be a str"),
        ("a\ud800", "text 0 must not hold half of a character"),
    ],
)
def test_what_is_no_text_is_refused_with_its_number(texts, told):
    with pytest.raises((TypeError, ValueError), match=told):
        segment_ids(texts, tokenizer_of("bytes"), segmenter=Sentences())


def test_ids_of_another_tokenizer_are_refused(tmp_path):
    folder = written(tmp_path, tokenizer_of("bytes"), shuffle_documents=False)
    (index, *_) = folder.glob("*.index")
    name = index.with_suffix("")
    ids = np.fromfile(name, "<u2")
    np.full_like(ids, tokenizer_of("bytes").token_to_id("\u00a9")).tofile(name)  # a lone byte
    step = SegmentMarks(str(folder), str(tmp_path / "tokenizer.json"), Sentences())
    with pytest.raises(SegmenterError, match=rf"0 of {name.name}.*do not decode to text"):
        list(step.run(None))
    assert not name.with_name(f"{name.name}.marks").exists()
    name.write_bytes(b"")
    with pytest.raises(SegmenterError, match="the file ends in the middle of it"):
        list(step.run(None))
