"""Examples as tokens and marks: parts keep their cuts, long ones are cut by the recipe."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe import Positions
from bipe.loss import IGNORE
from segmenters import Auto, Newline, Sentences, TokenMarker, mark
from tests.bipe.conftest import small_decoder
from tests.train.scrolls.examples import DrawnTask, byte_tokenizer, drawn_examples, encoder
from train.data.rows.choices import Curriculum, Packing
from train.data.rows.datamodule import LMDataModule
from train.data.rows.loader import collate
from train.data.rows.packing import Rows
from train.data.rows.sets import DataSets
from train.data.store.verify import data_faults
from train.errors import ConfigError, DataError
from train.tasks.scrolls.encoding import Counts, Truncation, counts_of
from train.tasks.scrolls.examples import Example, Part
from train.tasks.scrolls.prepared import OUTPUT_LEVEL, prepare_examples

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
    with pytest.raises(ConfigError, match="set row_length to more than 1008"):
        Truncation(row_length=512, output=1000, last=7)
    with pytest.raises(ConfigError, match=r"task\.output_tokens must .*task\.last_tokens"):
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
    total = counts_of([kept, cut.keep(prompt=prompt + 300, output=written + 10)])
    assert total == Counts(
        examples=2,
        prompts_cut=too_long + 1,
        prompt_tokens_cut=2 * prompt + 300 - len(kept.prompt) - room - last,
        outputs_cut=(written > output) + 1,
        output_tokens_cut=max(0, written - output) + written + 10 - output,
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepare_examples(DrawnTask(), encoder=encoder(), out=tmp_path_factory.mktemp("rows"))


def split(prepared, name="train"):
    return DataSets(prepared.folder).open("drawn", name, verify=True)


def rows_of(data, *, row_length=256, **packing):
    packing = Packing(**{"strategy": "single", "prompt_level": OUTPUT_LEVEL} | packing)
    return Rows(data=data, row_length=row_length, packing=packing)


def batch_of(rows, indices):
    told = {"step": 0, "step_targets": int(rows.targets(indices).sum()), "tokens_after": 0}
    sources = [0] * len(indices)
    return collate(rows.read(indices), sources=sources, continues=False, **told)


def test_what_is_prepared_is_a_data_set_that_verifies(prepared):
    assert list(data_faults(prepared.folder)) == []
    data = split(prepared)
    examples = DrawnTask().examples("train")
    assert data.document_ids() == [example.id for example in examples]
    for index, encoded in enumerate(encoder().examples(examples)):
        tokens, marks = data.document(index)
        assert tokens.tolist() == [*encoded.prompt.tolist(), *encoded.output.tolist()]
        expected = [*encoded.prompt_marks.tolist(), *encoded.output_marks.tolist()]
        assert (marks & 3).tolist() == expected
        assert np.flatnonzero(marks & 4).tolist() == [0, len(encoded.prompt)]


def test_the_same_request_is_made_once_and_another_stands_beside_it(prepared):
    out = prepared.folder.parent
    before = (prepared.folder / "manifest.json").stat().st_mtime_ns
    again = prepare_examples(DrawnTask(), encoder=encoder(), out=out)
    assert again == prepared
    assert (again.folder / "manifest.json").stat().st_mtime_ns == before
    cut = prepare_examples(DrawnTask(), encoder=encoder(row_length=60), out=out)
    assert cut.folder != prepared.folder
    assert prepared.truncation["train"].prompts_cut == 0 < cut.truncation["train"].prompts_cut
    other = prepare_examples(DrawnTask(seed=5), encoder=encoder(), out=out)
    assert len({prepared.folder, cut.folder, other.folder}) == 3
    few = prepare_examples(DrawnTask(), encoder=encoder(), out=out, limit=4)
    assert len(split(few)) == few.truncation["train"].examples == 4


def test_nothing_is_left_of_a_task_that_cannot_be_prepared(tmp_path):
    class Empty(DrawnTask):
        def examples(self, split):
            return [] if split == "validation" else drawn_examples(3)

    class Bad(DrawnTask):
        def examples(self, split):
            first, *rest = drawn_examples(3)
            bad = type(first)(id="bad", parts=first.parts, references=("",))
            return [first, bad, *rest]

    with pytest.raises(DataError, match="example bad: its reference is empty"):
        prepare_examples(Bad(), encoder=encoder(), out=tmp_path)
    with pytest.raises(DataError, match="task drawn: split validation has no examples"):
        prepare_examples(Empty(), encoder=encoder(), out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("packing", ["single", "best_fit"])
def test_every_output_token_is_scored_once_and_no_other(prepared, packing):
    data = split(prepared)
    rows = rows_of(data, strategy=packing)
    examples = DrawnTask().examples("train")
    outputs = [encoded.output.tolist() for encoded in encoder().examples(examples)]
    scored = []
    for index in range(len(rows)):
        batch = batch_of(rows, [index])
        targets, tokens = batch.targets[0].numpy(), batch.tokens[0].numpy()
        at = np.flatnonzero(targets != IGNORE)
        assert batch.step_targets == len(at) == int(rows.targets(index))
        runs = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
        scored += [targets[run].tolist() for run in runs]
        inside = at[at < 255]  # a target is the token that follows its place
        assert (tokens[inside + 1] == targets[inside]).all()
    assert sorted(scored) == sorted(outputs)
    assert rows.all_targets() == sum(map(len, outputs))
    assert len(rows) == 23 if packing == "single" else len(rows) < 23


def test_what_would_cut_examples_is_refused(prepared, data):
    one, proofs = split(prepared), DataSets(data).open("proofs", "train")
    packing = Packing(strategy="single", prompt_level=OUTPUT_LEVEL)
    stages = Curriculum(stages=[{"length": 64, "steps": 1}])
    curriculum = {"folder": prepared.folder, "row_length": 256, "global_batch": 2,
                  "micro_batch": 2, "packing": packing, "curriculum": stages}  # fmt: skip
    for make, told in (
        (
            lambda: rows_of(one, strategy="concat"),
            "rows.packing must be single or best_fit.*concat",
        ),
        (lambda: rows_of(one, split_documents="continue"), "split_documents must be restart.*cont"),
        (lambda: rows_of(one, row_length=40), "row_length must be at least the longest .*was: 40"),
        (lambda: rows_of(proofs), "has no examples of a prompt and an output"),
        (lambda: LMDataModule(**curriculum), "rows.curriculum must be null"),
    ):
        with pytest.raises(DataError, match=told):
            make()


def test_packed_examples_have_the_loss_of_examples_alone(prepared):
    """Loss and gradient, summed over all rows, do not depend on the packing."""
    found = []
    for packing in ("single", "best_fit"):
        model = small_decoder("bilevel_learned_rope", vocab_size=300).double()
        rows = rows_of(split(prepared), strategy=packing)
        batch = batch_of(rows, list(range(len(rows))))
        at = Positions.from_marks(batch.marks, padding=batch.padding, packed=any(batch.packed))
        logits = model.logits(batch.tokens, at)
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE, reduction="sum"
        )
        loss.backward()
        found.append((loss.detach(), model.tokens.weight.grad))
    torch.testing.assert_close(found[0], found[1], atol=1e-8, rtol=1e-8)
