"""`bipe generate`: what it writes is what the model says, however it is shown, asked or stopped."""

import io
import itertools
import os
import re
import shutil
import signal
import sys
from types import SimpleNamespace

import pytest
import torch
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf

import train.commands.generate as stage
from bipe import Positions
from bipe.checkpoint import load_model
from segmenters import ArithmeticSteps, TokenMarker, anchors_from_offsets, mark
from tests.train.data.tokenizer_kinds import FRAGMENTS, KINDS
from tests.train.studies import typed
from train.cli import main
from train.commands.generate import Screen, Text
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.launch.composition import composed
from train.launch.reader import verbatim

PROMPT = "1+2+3 = 3+3 = 6\n4+"


@pytest.fixture
def run(finished):
    """One of two trained runs in a folder."""
    finished("alibi")
    return finished("bipe_rope")


@pytest.fixture
def write(run, capfdbinary):
    """Run the command; status, what was written, what was told."""

    def command(*words, prompt=PROMPT, out=run):
        # With the quotes of Hydra's grammar, in which a line end stands as it is.
        given = [] if prompt is None else [f"generate.prompt='{prompt}'"]
        status = main(["generate", f"out={out}", *given, *words])
        shown = capfdbinary.readouterr()
        return status, shown.out.decode(), shown.err.decode()

    return command


def recomputed(run, data, count):
    """The most likely continuation by whole forward passes over batch marks, as in training."""
    model, _ = load_model(run / "model")
    tokenizer = LoadTokenizer(path=data).build()
    ((ids, _),) = tokenizer.encode_batch([PROMPT])
    ids, start, pieces = ids.tolist(), len(ids), tokenizer.pieces()
    for _ in range(count):
        spelt = [pieces[id] for id in ids]
        text = b"".join(spelt).decode("ascii")  # offsets in bytes are offsets in characters
        ends = list(itertools.pairwise(itertools.accumulate(map(len, spelt), initial=0)))
        marks = mark(anchors_from_offsets(text, ends), [ArithmeticSteps().cut(text)])
        at = Positions.from_marks(torch.from_numpy(marks)[None])
        with torch.no_grad():
            logits = model.logits(torch.tensor([ids]), at)[0, -1]
        ids.append(int(logits.argmax()))
    return tokenizer, ids[start:]


def test_what_is_written_is_the_most_likely_by_the_segmenter_of_the_data(run, data, write):
    words = ("generate.temperature=0", "generate.max_new=30")
    status, out, err = write(*words)
    assert status == 0
    tokenizer, ids = recomputed(run, data, 30)
    pieces = tokenizer.pieces()
    assert out == b"".join(pieces[id] for id in ids).decode() + "\n"
    assert "30 written" in err and "(1 ended at generate.max_new)" in err
    stop = out[3:5]  # which ends the text
    _, ended, err = write(*words, f"generate.stop=['{stop}']")
    assert ended == out[: out.index(stop)] + "\n"
    assert "(1 ended at a stop)" in err


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_last_line_end_of_a_file_or_of_standard_input_is_no_part_of_it(
    end, tmp_path, monkeypatch
):
    (tmp_path / "prompt.txt").write_bytes((PROMPT + end).encode())
    typed = io.TextIOWrapper(io.BytesIO((PROMPT + end).encode()))
    monkeypatch.setattr(sys, "stdin", typed)
    for file in (tmp_path / "prompt.txt", None):
        assert stage.read_prompt(SimpleNamespace(prompt=None, file=file)) == PROMPT
    assert stage.read_prompt(SimpleNamespace(prompt=PROMPT + end, file=None)) == PROMPT + end


def test_the_prompt_comes_from_a_key_a_file_or_standard_input(write, tmp_path, monkeypatch):
    words = ("generate.max_new=9", "seed=5")
    _, out, err = write(*words)
    read = re.search(r"\d+ tokens read", err)[0]
    (tmp_path / "prompt.txt").write_text(PROMPT)
    _, shown, err = write(*words, "--file", str(tmp_path / "prompt.txt"), prompt=None)
    assert shown == out and read in err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROMPT.encode())))
    _, shown, err = write(*words, prompt=None)
    assert shown == out and read in err
    assert write(*words[:1], "seed=6")[1] != out


@pytest.mark.parametrize("text", ["It's", "a, b", "${x} = \\ y", "def f(x):", "# x", "3"])
def test_a_text_is_taken_as_it_is_typed_beside_a_file_too(tmp_path, text):
    stored = yaml.safe_dump(composed(typed("generate", "x")).as_plain())
    (tmp_path / "config.yaml").write_text(stored)
    words = ("--config-file", f"{tmp_path}/config.yaml", "RUN", "--prompt", text, "seed=3")
    made = composed(typed("generate", *words))
    assert (made.generate.run, made.generate.prompt, made.seed) == ("RUN", text, 3)


@given(st.text(alphabet="\\'\"${}a, =\n#[]()~", min_size=1) | st.text(min_size=1))
def test_hydra_reads_back_a_quoted_text(text):
    parsed = OverridesParser.create().parse_override(f"++generate.prompt={verbatim(text)}")
    config = OmegaConf.create({"prompt": str(parsed.value())})
    assert config.prompt == text


def test_samples_differ_and_the_first_is_the_one_alone(write):
    _, alone, _ = write("generate.max_new=8")
    _, out, _ = write("generate.max_new=8", "generate.samples=3")
    shown = out.split("--- ")[1:]
    assert [row.partition("\n")[0] for row in shown] == ["1 of 3", "2 of 3", "3 of 3"]
    texts = [row.partition("\n")[2] for row in shown]
    assert texts[0] == alone
    assert len(set(texts)) > 1


def test_a_checkpoint_writes_as_the_model_of_its_step(write, run, tmp_path):
    words = ("generate.temperature=0", "generate.max_new=10")
    _, out, _ = write(*words)
    for place in ("@6", "@last", "/checkpoints/step=00000006.ckpt", "/model"):
        assert write(*words, out=f"{run}{place}")[1] == out
    shutil.copytree(run, tmp_path / "stopped")  # in the middle of training
    shutil.rmtree(tmp_path / "stopped" / "model")
    _, again, err = write(*words, out=tmp_path / "stopped")
    assert again == out and "is not finished: its newest checkpoint is read" in err


def test_a_flat_model_asks_for_no_segments(write, run, monkeypatch):
    monkeypatch.setattr(stage, "marker_of", None)
    assert write("generate.max_new=3", out=run.parent / "alibi")[0] == 0


def test_an_interruption_shows_what_was_written(write, monkeypatch):
    def interrupted(*arguments, on_token, **rest):
        for token in (50, 51, 52):
            on_token(0, token)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(stage, "generate", interrupted)
    status, out, err = write()
    assert status == 130
    assert out.endswith("\n") and len(out) > 1
    assert err == "bipe: stopped by SIGINT: tokens written: 3\n"


def test_a_terminal_gets_the_prompt_and_no_control_characters(monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    held = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Terminal(held))
    monkeypatch.delenv("NO_COLOR", raising=False)
    Screen("a\x1b[2J")("b\x1b]0;x\x07c")
    shown = held.getvalue().decode()
    assert shown.startswith("\x1b[2ma") and shown.endswith("c")
    assert shown.count("\x1b") == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["generate.temperature=-1"], "generate.temperature must be at least 0, was: -1"),
        (["generate.stop=['']"], "generate.stop must be strings that are not empty"),
        (["generate.run=nowhere"], "generate.run: 'nowhere' contains no trained run"),
        (["generate.data=nowhere"], "generate.data=FOLDER to the data of the model"),
        (["generate.segmenter=mixed"], "generate.segmenter to one that works during generation"),
        (["generate.file=nowhere"], "generate.prompt and generate.file are both set"),
        (["--file", "nowhere"], "nowhere: there is no such file"),
        (["--file", "empty"], "empty: "),
        (["--file", "broken"], "broken: not UTF-8, the first at byte 2"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(write, words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "broken").write_bytes(b"ab\xff")
    status, out, err = write(*words, prompt=None if "--file" in words else PROMPT)
    assert (status, out) == (2, "")
    assert err.startswith("bipe: ") and told in err and "Traceback" not in err
    assert err.count("\n") == 1


def test_several_runs_and_another_tokenizer_are_refused(write, run, tmp_path, capfdbinary):
    status, _, err = write(out=run.parent)
    assert status == 2
    assert "must be one run" in err and str(run) in err and str(run.parent / "alibi") in err
    corpus = ["experiment=smoke", f"out={tmp_path}", "corpus.tokenizer.vocab_size=270"]
    assert main(["prepare", *corpus]) == 0
    status, _, err = write(f"generate.data={tmp_path / 'data'}")
    assert status == 2
    assert "with a different tokenizer" in err and "generate.data" in err
    words = (f"evaluate.runs={run}", f"data={tmp_path / 'data'}", "evaluate.probes=[]")
    assert main(["evaluate", *words]) == 2
    assert b"with a different tokenizer" in capfdbinary.readouterr().err


WRITES_SPACES = ("digits_prefix",)  # before every number
CHARACTERS = st.text("ab\u00e9\u4e2d\N{GRINNING FACE}", max_size=30)


@example(text="ba", stops=["a", "baa"], sizes=[1] * 130)
@example(text="baab", stops=["a", "baa"], sizes=[1] * 130)
@example(text="bab", stops=["a", "baa"], sizes=[1] * 130)
@given(
    text=CHARACTERS,
    stops=st.lists(st.text("ab\u00e9", min_size=1, max_size=3), max_size=3),
    sizes=st.lists(st.integers(1, 5), min_size=130, max_size=130),
)
def test_a_stream_shows_the_text_up_to_the_first_stop(text, stops, sizes):
    data, start, row, shown = text.encode(), 0, Text(stops), ""
    for size in sizes:
        shown += row.push(data[start : start + size])
        start += size
        assert "\ufffd" not in shown
    shown += row.finish()
    places = [text.find(stop) for stop in stops if stop in text]
    assert shown == text[: min(places, default=len(text))]


def test_nothing_certain_is_held_back():
    row = Text(["\n\n"])
    assert row.push(b"one\n") == "one"
    assert row.push(b"two \xf0\x9f\x98") == "\ntwo "
    assert row.push(b"\x80") == "\N{GRINNING FACE}"
    assert row.push(b"\xe4") + row.finish() == "\ufffd"


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_the_text_and_mark_it_as_prepared_data(kind):
    tokenizer = Tokenizer(fast=KINDS[kind](), eos="</s>")
    text = "".join(f for f in FRAGMENTS if f.isascii()) + " = 12\nThe cat"
    ((ids, anchors),) = tokenizer.encode_batch([text])
    pieces = tokenizer.pieces()
    assert len(pieces) == tokenizer.vocab_size
    if tokenizer.spelling is None:  # the text of an id is what decoding says
        ((ids, _),) = tokenizer.encode_batch(["The cat"])
        assert b"".join(pieces[id] for id in ids).split() == tokenizer.decode(ids).encode().split()
        return
    skip = tokenizer.spelling.prefix(text)
    spelt = b"".join(pieces[id] for id in ids)[skip:].decode()
    if spelt.casefold() != text.casefold():  # no table holds for such a text
        assert kind in WRITES_SPACES or any(not pieces[id] for id in ids)
        return
    assert spelt == text or tokenizer.spelling.ascii_only
    marker = TokenMarker(segmenter=ArithmeticSteps(), pieces=pieces, skip=skip)
    found = [m for id in ids for m in marker.push(int(id))] + marker.provisional()
    assert found == mark(anchors, [ArithmeticSteps().cut(text)]).tolist()
