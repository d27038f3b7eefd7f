"""Examples as tokens and marks: parts keep their cuts, long ones are cut by the recipe."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Auto, Newline, Sentences, TokenMarker, mark
from tests.train.scrolls.examples import byte_tokenizer, drawn_examples, encoder
from train.errors import DataError
from train.tasks.scrolls.encoding import Counts, Truncation, counts_of
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
    strict = encoder(row_length=30, output=4, on_long="error")  # room for 25 and 4
    (fits,) = strict.examples([example("a" * 25, reference="abcd")])
    assert fits.kept.prompt_cut == 0
    with pytest.raises(DataError, match=r"x: the prompt must have at most 25 tok.*26 and 0"):
        list(strict.prompts([example("a" * 26)]))
    with pytest.raises(DataError, match=r"example x: .* the output 4 .*: 1 and 5"):
        list(strict.examples([example("a", reference="abcde")]))
    with pytest.raises(DataError, match="set row_length to more than 1008"):
        Truncation(row_length=512, output=1000, last=7)
    with pytest.raises(DataError, match="output_tokens must be at least 1"):
        Truncation(row_length=512, output=0)


@given(
    room=st.integers(1, 40),
    last=st.integers(0, 9),
    output=st.integers(1, 9),
    prompt=st.integers(0, 200),
    written=st.integers(0, 20),
)
def test_first_and_last_tokens_are_kept_and_the_rest_counted(room, last, output, prompt, written):
    cut = Truncation(row_length=room + last + output + 1, output=output, last=last)
    kept = cut.keep(prompt=prompt, output=written)
    tokens = list(range(prompt))
    too_long = prompt > room + last
    expected = tokens[:room] + tokens[len(tokens) - last :] if too_long else tokens
    assert kept.prompt.tolist() == expected
    assert len(kept.prompt) + kept.prompt_cut == prompt
    assert kept.output + kept.output_cut == written
    assert len(kept.prompt) + kept.output + 1 <= cut.row_length
    assert (kept.joint is None) == (not too_long or last == 0)
    if kept.joint is not None:
        assert np.diff(kept.prompt)[kept.joint - 1] == kept.prompt_cut + 1
    total = counts_of([kept, cut.keep(prompt=prompt + 300, output=written + 9)])
    assert total == Counts(
        examples=2,
        prompts_cut=too_long + 1,
        prompt_tokens_cut=2 * prompt + 300 - len(kept.prompt) - room - last,
        outputs_cut=(written > output) + 1,
        output_tokens_cut=max(0, written - output) + written + 9 - output,
    )
