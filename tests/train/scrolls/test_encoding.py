"""Examples as tokens and marks: parts keep their cuts, outputs are as they will be written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segmenters import Auto, Newline, Sentences, TokenMarker, mark
from tests.train.scrolls.examples import byte_tokenizer, drawn_examples, encoder
from train.errors import DataError
from train.tasks.scrolls.examples import Example, Part

TOKENIZER = byte_tokenizer()
PIECES = TOKENIZER.pieces()
TEXTS = st.text(alphabet=st.sampled_from("aB. !?\n\u00e9\u4e2d\u3002"), min_size=1, max_size=30)


def example(*texts, reference="Yes. No."):
    parts = tuple(Part(kind="text", text=text) for text in texts)
    return Example(id="x", parts=parts, references=(reference,))


def alone(text, segmenter):
    """Marks of a text by itself."""
    ((ids, anchors),) = TOKENIZER.encode_batch([text])
    return ids, mark(anchors, [segmenter.cut(text)])


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4), reference=TEXTS)
@pytest.mark.parametrize("segmenter", [Sentences(), Newline()])
def test_parts_and_output_are_cut_as_if_they_were_alone(segmenter, texts, reference):
    """With one token a byte no token crosses from one part into the next."""
    made = example(*texts, reference=reference + ".")
    (found,) = encoder(segmenter=segmenter, row_length=999, output=400).examples([made])
    pieces = [alone(text, segmenter) for text in texts]
    assert found.prompt.tolist() == np.concatenate([ids for ids, _ in pieces]).tolist()
    expected = np.concatenate([marks & 2 for _, marks in pieces])
    assert (found.prompt_marks & 2).tolist() == expected.tolist()
    assert np.flatnonzero(found.prompt_marks & 1).tolist() == [0]
    ids, marks = alone(reference + ".", segmenter)
    assert found.output.tolist() == [*ids.tolist(), TOKENIZER.eos_id]
    assert found.output_marks.tolist() == [*(marks & 2).tolist(), 0]


@settings(max_examples=60, deadline=None)
@given(reference=TEXTS)
def test_an_output_has_the_marks_that_it_gets_while_it_is_written(reference):
    (found,) = encoder(row_length=999, output=400).examples(
        [example("A prompt. ", reference=reference + ".")]
    )
    marker = TokenMarker(segmenter=Sentences(), pieces=PIECES)
    marks = [m for token in found.output.tolist() for m in marker.push(token)]
    marks += marker.provisional()
    assert [m & 2 for m in marks] == found.output_marks.tolist()


def test_what_is_decoded_is_the_prompt_that_was_learned_from():
    examples = drawn_examples(20, seed=3)
    made = encoder(row_length=70)
    for one, other in zip(made.prompts(examples), made.examples(examples), strict=True):
        assert one.prompt.tolist() == other.prompt.tolist()
        assert one.prompt_marks.tolist() == other.prompt_marks.tolist()
        assert len(one.output) == 0 and one.kept.prompt_cut == other.kept.prompt_cut


def test_a_long_prompt_keeps_both_ends_and_a_segment_begins_between_them():
    made = encoder(row_length=30, output=9, last=4)
    (found,) = made.examples([example("a" * 40, "bcd" * 3, reference="x" * 12)])
    assert TOKENIZER.decode(found.prompt) == "a" * 16 + "dbcd"
    assert np.flatnonzero(found.prompt_marks).tolist() == [0, 16]
    assert TOKENIZER.decode(found.output[:-1]) == "x" * 9
    assert found.output[-1] == TOKENIZER.eos_id
    assert len(found.prompt) + len(found.output) == 30
    assert (found.kept.prompt_cut, found.kept.output_cut) == (29, 3)


def test_the_segmenter_is_chosen_by_the_prompt_for_all_parts():
    code = "def f(x):\n    return x\n\n\nclass A:\n    pass\n"
    made = encoder(segmenter=Auto(), row_length=999)
    (found,) = made.examples([example(code, "What? It is.", reference="One.\nTwo.\n")])
    chosen = Auto().choose(text=code + "What? It is.")
    assert found.segmenter == chosen
    ids, marks = alone(code, chosen)
    assert (found.prompt_marks[: len(ids)] & 2).tolist() == (marks & 2).tolist()


def test_examples_that_teach_nothing_are_refused_by_name():
    made = encoder()
    with pytest.raises(DataError, match="example x: its reference is empty"):
        list(made.examples([example("a", reference=" \n")]))
    with pytest.raises(DataError, match="example x: its reference is missing"):
        list(made.examples([Example(id="x", parts=(), references=())]))
    with pytest.raises(DataError, match="example x: its prompt has no token"):
        list(made.prompts([example("")]))
    strict = encoder(row_length=30, on_long="error")
    with pytest.raises(DataError, match="example x: the prompt must have at most 9 tokens"):
        list(strict.prompts([example("a" * 10)]))
