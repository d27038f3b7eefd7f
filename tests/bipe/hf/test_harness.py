"""lm-evaluation-harness with our models: its numbers are those of our own decoder and marks."""

import json
from types import SimpleNamespace

import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, tokenization_utils_base

from bipe import Positions
from bipe.checkpoint import load_model
from bipe.generation import generate
from tests.bipe.hf.conftest import tokenizer_of
from train.cli import main
from train.commands.after.converting import to_hf
from train.evals.probes.answers import postprocessed, string_match
from train.evals.rows import FILE, Journal
from train.launch.commands import find
from train.launch.reader import read

pytest.importorskip("lm_eval")
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*unclosed.*:ResourceWarning"),
]
# Questions as PIQA has them; sentences end in contexts, continuations, and between the two.
GOALS = ["He left. She", "Why? Nobody", "def f(x):", "It rained. (Mr. Smith", "Dr.", "A! B?"]
QUESTIONS = [
    {"goal": goal, "sol1": "stayed! It rained.", "sol2": "knew. " * at + "a x", "label": at % 2}
    for at, goal in enumerate(GOALS)
]
TASK = """task: short_questions
dataset_path: json
dataset_kwargs:
  data_files:
    validation: {file}
output_type: multiple_choice
validation_split: validation
doc_to_text: "Question: {{{{goal}}}}\\nAnswer:"
doc_to_target: label
doc_to_choice: "{{{{[sol1, sol2]}}}}"
metric_list:
  - metric: acc
  - metric: acc_norm
metadata:
  version: 2.0
"""


ASKED = [
    (f"Question: {each['goal']}\nAnswer:", f" {each[choice]}")
    for each in QUESTIONS
    for choice in ("sol1", "sol2")
]


@torch.no_grad()
def our_loglikelihood(decoder, context, continuation):
    """The log-probability by the Decoder, with marks of the whole text."""
    tokenizer = tokenizer_of()
    made = tokenizer(context + continuation)
    ids = torch.tensor([made["input_ids"]])
    at = Positions.from_marks(torch.tensor([made["segment_marks"]]).byte())
    kept = len(tokenizer(context)["input_ids"])
    logs = decoder.logits(ids, at).log_softmax(-1)[0, kept - 1 : -1]
    return float(logs.gather(-1, ids[0, kept:, None]).sum())


@pytest.fixture
def folder(run, tmp_path):
    to_hf(str(run), tmp_path / "hf")
    return tmp_path / "hf"


def harness_of(folder, **options):
    from bipe.hf.harness import BipeLM

    return BipeLM(pretrained=str(folder), device="cpu", **options)


def loglikelihoods(model):
    from lm_eval.api.instance import Instance

    kind = {"request_type": "loglikelihood", "doc": {}}
    wanted = [Instance(**kind, arguments=pair, idx=at) for at, pair in enumerate(ASKED)]
    return [value for value, _ in model.loglikelihood(wanted, disable_tqdm=True)]


def test_its_loglikelihood_is_ours_in_batches_of_one_and_eight(run, folder):
    decoder, _ = load_model(run / "model")
    expected = pytest.approx([our_loglikelihood(decoder, *pair) for pair in ASKED], abs=1e-4)
    for size in (1, 8):
        model = harness_of(folder, batch_size=size)
        assert loglikelihoods(model) == expected
    # With the marks of another rule this bar could not be passed.
    model.model.rule_of_marks = lambda *_: SimpleNamespace(
        marks=lambda ids, **_: torch.zeros_like(ids).byte()
    )
    assert loglikelihoods(model) != expected


def test_a_text_that_its_tokenizer_begins_is_begun_once(folder):
    from lm_eval.api.instance import Instance

    model = harness_of(folder)
    kind = {"request_type": "loglikelihood_rolling", "doc": {}, "idx": 0}
    wanted = [Instance(**kind, arguments=("He left. It rained!",))]
    plain = model.loglikelihood_rolling(wanted, disable_tqdm=True)
    end = model.tokenizer.eos_token
    model.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=[end, "$A"], special_tokens=[(end, model.tokenizer.eos_token_id)]
    )
    assert model.tok_encode("He left.")[0] == model.prefix_token_id
    assert model.loglikelihood_rolling(wanted, disable_tqdm=True) == plain


def test_needles_are_found_as_our_probe_finds_them(run, folder):
    """RULER's needles: the same text is written, and scored the same by its rules and by ours."""
    from lm_eval.api.instance import Instance
    from lm_eval.tasks.ruler.common_utils import process_results

    hay = "The grass is green. The sky is blue. "
    needle = "One of the special magic numbers for empty-currency is: 3654836. "
    prompts = [hay * 3 + needle + hay * at + "What is the special magic number?" for at in (1, 2)]
    given = {"until": [], "max_gen_toks": 12, "do_sample": False}
    kind = {"request_type": "generate_until", "doc": {}}
    asked = [Instance(**kind, arguments=(text, dict(given)), idx=0) for text in prompts]
    model = harness_of(folder, batch_size=2, max_length=1024)
    theirs = model.generate_until(asked, disable_tqdm=True)

    decoder, _ = load_model(run / "model")
    known = tokenizer_of()
    ids = [known(text)["input_ids"] for text in prompts]
    marker, stop = known.marker(), [model.tokenizer.eos_token_id]
    written = generate(decoder, ids, max_new=12, marker=marker, stop_ids=stop)
    ours = [model.tokenizer.decode(row.tokens, skip_special_tokens=True) for row in written]
    assert theirs == ours and any(ours)
    for text in (*ours, "\x07It is 3654836.", "3654837"):
        answers = ["3654836", postprocessed(text)[:2]]
        found = string_match(postprocessed(text), answers, any_of=False) / 100
        doc = {"max_length": 4096, "outputs": answers}
        assert process_results(doc, [text])["4096"] == pytest.approx(found)
        assert found >= 0.5


def test_texts_longer_than_rows_of_training_are_read_without_a_warning(folder, monkeypatch):
    told, text = [], "It rained. " * 99
    monkeypatch.setattr(tokenization_utils_base.logger, "warning", told.append)
    made = AutoTokenizer.from_pretrained(folder, model_max_length=64)
    assert len(made(text)["input_ids"]) > 64 and len(told) == 1
    made = AutoTokenizer.from_pretrained(folder, model_max_length=64)
    harness_of(folder, tokenizer=made).tok_encode(text)
    assert len(told) == 1


def test_a_run_is_measured_and_its_report_has_the_results(run, tmp_path, capsys):
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(f"{json.dumps(each)}\n" for each in QUESTIONS))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "short.yaml").write_text(TASK.format(file=questions))
    words = ["lm-eval", str(run), "--tasks", "short_questions", "--batch_size", "8"]
    words += ["--device", "cpu", "--include_path", str(tmp_path / "tasks")]
    assert main(words) == 0
    out, _ = capsys.readouterr()
    heads = next(line for line in out.splitlines() if line.startswith("|"))
    assert [head.strip() for head in heads.split("|")[1:4]] == ["Tasks", "Version", "Filter"]
    rows = {row.measure: row for row in Journal(run / FILE).rows()}
    assert {"lm_eval_acc", "lm_eval_acc_norm"} <= rows.keys()

    decoder, _ = load_model(run / "model")
    values = [our_loglikelihood(decoder, *pair) for pair in ASKED]
    chosen = [int(second > first) for first, second in zip(values[::2], values[1::2], strict=True)]
    right = [pick == each["label"] for pick, each in zip(chosen, QUESTIONS, strict=True)]
    row = rows["lm_eval_acc"]
    assert row.value == pytest.approx(sum(right) / len(right))
    assert (row.task, row.unit) == ("short_questions", "share")
    assert row.low < row.value < row.high
    assert "6 questions" in row.note and "version 2.0" in row.note
    assert main(["report", f"out={tmp_path}", f"report.runs=[{run}]"]) == 0
    assert "short questions, lm eval acc" in (tmp_path / "report.html").read_text()


def test_words_are_refused_or_told(capsys):
    for words, said in (
        (["nowhere", "--tasks", "x"], "contains no trained run"),
        ([], "bipe lm-eval --help"),
    ):
        assert main(["lm-eval", *words]) == 2
        assert said in "".join(capsys.readouterr())
    words = read(*find(["lm-eval", "RUN", "--tasks", "x", "allowed_targets=[ours, theirs]"]))
    assert (words.places, words.rest) == (("RUN",), ("--tasks", "x"))
    assert words.keys == {"allowed_targets": "[ours, theirs]"}


def test_a_segmenter_of_ones_own_is_let_in_as_it_was(run, tmp_path, monkeypatch):
    (tmp_path / "ours.py").write_text(
        "from segmenters import Sentences\n\n\nclass Mine(Sentences):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    made = tmp_path / "hf"
    to_hf(str(run), made)
    written = json.loads((made / "segmenter.json").read_text())
    (made / "segmenter.json").write_text(json.dumps({**written, "segmenter": "ours.Mine"}))
    with pytest.raises(ValueError, match="allowed_targets"):
        harness_of(made)
    assert type(harness_of(made, allowed=["ours."]).tokenizer.segmenter).__name__ == "Mine"
