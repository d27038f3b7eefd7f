"""Laws that every segmenter obeys, whatever the text; and its machines, however it is cut up.

`BIPE_FUZZ=100000 pytest tests/segmenters/test_laws.py -k documents` reads more documents of a
grammar; so does `python -m benchmarks.hostile --fuzz`, which also measures time.
"""

import copy
import itertools
import json
import os
import pickle
import random
import re
import signal

import numpy as np
import pytest
from hypothesis import given

from benchmarks.hostile_texts import samples
from segmenters import (
    ArithmeticSteps,
    Auto,
    ChainOfThought,
    Clauses,
    LaTeXProofs,
    Levels,
    Lines,
    Matched,
    Mixed,
    Newline,
    Official,
    Pattern,
    RandomCuts,
    Segmenter,
    SegmenterError,
    Sentences,
    Stride,
    Turns,
)
from segmenters.documents.mixed import FORMATS
from segmenters.prose import rules
from segmenters.prose.rules import sentence_ends
from tests.segmenters.grammar import document
from tests.segmenters.levels.test_levels import Verses
from tests.segmenters.proofs.test_steps import LEVELS, MARKED, TEMPLATES
from tests.segmenters.samples import marked_in, plain, typed
from tests.segmenters.texts import PIECES, any_text

_TEXTS = int(os.environ.get("BIPE_FUZZ", "60"))  # of each segmenter
_SENTENCES = [
    *(" ''", "''", " \u00bb", "\u00ab", "``", "[1]", " [12]", " [1234]", "[", "]", "\u201c"),
    *("\u3002", "\u201d", "\u2022 ", " \U0001f600", "\u263a", "\U0001f44d", "\U0001f130"),
    *("======", "---", "=", "_", " :)", " ;-(", "a@b.c>", "<x@y.org> ", "\u2029", " .", "!?"),
    *("  ", "\n", "\n\n", "a", "The", "3", "foo.", "Bar", "\u03b1;", "\u0561:", '"', "'"),
    *(' "', ' " ', "word.12 ", ".1", "\u00b2", " \u201d", " \u201c", "\u201e", ", ", "in S. "),
    *("- ", "? - ", "\uff08", "\uff09", "\u300a", "\u300b", "\uff01", "(eng. ", "10. ", "=)"),
    *("\n* ", "\n- a", "\n1. a", "\n 2", "\n(1) b", "\n(", "\na) c", "\nb", ":\n", "p.m. M"),
    *("\u4e2d", "\u4e86.", "\u2018", "\u201e", "\u201a", "\u2039", " \u203a", "\u300c"),
    *("(", ")", "so. ", "ok? ", "... it", "So. It", "\u2026 ", ' ("', "1,000.", "etc. ", ". "),
    *("\u0e01", "\u0e01 ", "\u0e01  ", "\u0e81\n", "Let X be ", "in X. ", "n = k. ", "U.S. "),
    *("x. ", "by J. ", "Doe", "and B. ", "is C. It", "v. C", "Yahoo! "),
]
_LINES = [
    *("word ", "Word ", "a", "\n", "\n\n", "\r\n", " ", "end. ", "x" * 30, "long words " * 9, "1. ")
]
_VERSES = [*"\n\n% ,.ax\r\u0301\u200d\u3002", "\n\n", "a, b. c"]
_PYTHON = 'def f(x):\n    return \'a\\\'\' + """b\n""" # c\nasync def g: x = ({[1, \\\n 2]})\r\n'


def signs_of(text):
    """The words of a text, its runs of signs, and each sign."""
    return [*re.findall(r"\\?\w+|\s+|[^\w\s]+", text), *re.findall(r"\W", text)]


def of_proofs(segmenter):
    own = "".join(MARKED[segmenter]).replace("@@", "")
    return signs_of(own + plain(LEVELS.get(segmenter, "")))


# The segmenters with a machine, and what the rules of each look at.
SIGNS = {
    **{s: of_proofs(s) for s in MARKED if s != LaTeXProofs()},
    **{Sentences(line_ends=kind): _LINES for kind in ("paragraph", "auto")},
    **dict.fromkeys((Sentences(), Clauses(of=Sentences())), _SENTENCES),
    **dict.fromkeys((Verses(), Clauses(of=Verses())), _VERSES),
    **{
        Turns(of=of): signs_of(plain(typed("".join(TEMPLATES))))
        for of in (ChainOfThought(), Lines())
    },
    Lines(granularity="logical", language="python"): signs_of(_PYTHON),
    Lines(): ["\r", "\n", "\r\n", "\x0b", "\u2028", "x"],
    ArithmeticSteps(): ["=", "==", "<=", "\n", " = ", "1"],
    Official(): [" ", ".", " .", "\n", "x"],
    **{s: ["\n", "x"] for s in (Newline(), Stride(length=3), RandomCuts(mean=3, seed=1))},
    Levels(of=Sentences(), longest=9): _SENTENCES,
    Levels(of=Verses(), keep=["stanza", "book"], longest=3): _VERSES,
    Levels(of=Clauses(of=Newline()), keep=2, longest=6): _VERSES,
    Levels(of=Levels(of=Lines(), longest=5), longest=2): _VERSES,
}
# Characters that are read before a place is decided.
_WAITS = {"Hol": 48, "Lean": 40, "Agda": 40, "Isabelle": 43, "Mizar": 7, "Tptp": 8}
OTHERS = [
    *(Pattern(ends=r";\s*|(?=def )"), Pattern(ends=""), RandomCuts(mean=1), LaTeXProofs()),
    *(Lines(granularity="logical", language="haskell"), Lines(granularity="logical")),
    Lines(granularity="logical", language="python", prose="sentences"),
    *(Mixed(), Mixed(format="html"), Auto(), Turns(names=True)),
    *(Sentences(next_word=True), Sentences(backend="spacy"), Sentences(backend="sentencizer")),
    Matched(of=Sentences(backend="rules"), kind="shuffled"),
    *(Matched(of=Lines(), kind="random"), Matched(of=Auto(), kind="stride")),
    Levels(of=Auto(), keep=3, longest=1),
]
for slow_to_load in OTHERS:
    slow_to_load.cut("")  # spaCy loads here, outside of any deadline
each = pytest.mark.parametrize("segmenter", SIGNS, ids=repr)


def texts_of(segmenter, *, seed=0):
    """Yield texts of the signs of a segmenter, of a few of them, and of others between them."""
    draw, own = random.Random(f"{segmenter!r} {seed}"), SIGNS.get(segmenter, PIECES)
    for at in range(_TEXTS):
        signs = own if at % 2 else draw.choices([*own, draw.choice(PIECES)], k=4)
        signs = signs if at % 3 else [*signs, *draw.sample(PIECES, 9)]
        yield "".join(draw.choices(signs, k=draw.randrange(60)))


def levels_of(segmenter, text):
    """The levels of a text, which tile it and are nested."""
    levels = segmenter.levels(text)
    assert len(levels) == len(segmenter.level_names) == len(set(segmenter.level_names))
    assert levels[0].tolist() == copy.copy(segmenter).cut(text).tolist()
    for cuts in levels:
        assert cuts.dtype == np.int64 and cuts.ndim == 1
        assert cuts[0] == 0 and cuts[-1] == len(text) and (np.diff(cuts) > 0).all()
    for finer, coarser in itertools.pairwise(levels):
        assert np.isin(coarser, finer).all()
    return [cuts.tolist() for cuts in levels]


@each
def test_pieces_of_any_size_give_the_cuts_of_every_level_in_time(segmenter):
    """What a copy reads leaves no trace."""
    draw, reads = random.Random(1), segmenter.lookahead or 0
    waits = _WAITS.get(type(segmenter).__name__, reads if isinstance(segmenter, Turns) else 0)
    for text in texts_of(segmenter):
        for level, cuts in enumerate(levels_of(segmenter, text)):
            try:
                machine, found = segmenter.level_machine(level), []
            except ValueError:
                assert level > 0
                continue
            while machine.size < len(text):
                place = machine.size
                found += machine.push(text[place : place + draw.choice((1, 1, 2, 5, 40))])
                assert machine.decided < machine.size
                if level == 0 and segmenter.lookahead is not None:
                    assert machine.decided >= machine.size - 1 - waits
                known = [cut for cut in cuts if 0 < cut <= machine.decided]
                assert [cut for cut in found if 0 < cut <= machine.decided] == known, text
                twin, before = machine.copy(), pickle.dumps(machine)
                twin.push(text[: draw.randrange(9)] + "x")
                assert machine == pickle.loads(before) != twin
            assert [c for c in found + machine.close() if 0 < c < len(text)] == cuts[1:-1], text


@pytest.mark.parametrize("run", [1, 3, 8])
def test_text_that_turns_to_small_letters_and_back_is_followed(run):
    said = "We left. |It is in X. |He saw Paul. |So x = k. |Why? |Hm... |By J. Doe. |It is.\n"
    chosen = random.Random(run).choices(said.split("|"), k=240)
    text = "".join(s.lower() if i // run % 2 else s for i, s in enumerate(chosen))
    machine, cuts = Sentences().machine(), Sentences().cut(text).tolist()
    assert [0, *(cut for sign in text for cut in machine.push(sign))] == cuts[:-1]
    assert len(cuts) > 120


@pytest.mark.parametrize("segmenter", OTHERS, ids=repr)
@given(text=any_text)
def test_any_text_is_tiled_by_nested_levels_and_a_place_decided_within_the_lookahead(
    segmenter, text
):
    twin = pickle.loads(pickle.dumps(segmenter))
    cuts, *_ = levels_of(segmenter, text)
    assert twin == segmenter and twin.cut(text).tolist() == cuts
    if segmenter.lookahead is not None:
        for length in range(1, len(text)):
            known = min(length - segmenter.lookahead, length - 1)
            seen = [place for place in segmenter.cut(text[:length]).tolist() if place <= known]
            assert seen == [place for place in cuts if place <= known]


def rulings_of(segmenter, text):
    """Why a text is cut where it is: in order, with a name for each place."""
    rulings = segmenter.why(text)
    places = [ruling.place for ruling in rulings]
    assert [r.place for r in rulings if r.ends] == segmenter.cut(text)[1:].tolist()
    assert places == sorted(set(places)) and all(0 < place <= len(text) for place in places)
    assert all(ruling.rule.strip() for ruling in rulings)
    return rulings


@pytest.mark.parametrize("segmenter", [*SIGNS, *OTHERS], ids=repr)
def test_a_rule_is_named_at_each_end(segmenter):
    for text in itertools.islice(texts_of(segmenter, seed=1), 12):
        rulings_of(segmenter, text)
    assert segmenter.why("") == []


# Those of prose have rules of their own for lines of lists.
SAMPLES = [
    *((segmenter, text) for name, (segmenter, text) in samples().items() if name != "lists"),
    *((Mixed(format=f), plain(t).replace("\r\n", "\n")) for f, t in marked_in("documents.txt")),
    (Auto(), "---\ntitle: A. B\n---\nText. More\n"),
    (Auto(), "| a | b. C |\n|---|---|\n| c | d |\n\nText\n"),
]


@pytest.mark.parametrize(("segmenter", "text"), SAMPLES, ids=repr)
def test_line_ends_of_windows_move_no_cut(segmenter, text):
    moved = np.cumsum([0, *(1 + (sign == "\n") for sign in text)])
    windows = segmenter.levels(text.replace("\n", "\r\n"))
    assert [[*moved[cuts]] for cuts in segmenter.levels(text)] == [*map(list, windows)]


READERS = [
    *(Mixed(format=format) for format in FORMATS),
    *(Auto(), Auto(granularity="logical"), LaTeXProofs(), ChainOfThought(), Sentences()),
]


def _late(*_):
    raise TimeoutError("it took 10 seconds")


@pytest.mark.parametrize("reader", READERS, ids=repr)
def test_documents_of_a_grammar_are_tiled_on_all_levels(reader):
    """A loop without end is an error instead."""
    before = signal.signal(signal.SIGVTALRM, _late)
    try:
        for seed in range(max(_TEXTS, 100)):
            signal.setitimer(signal.ITIMER_VIRTUAL, 10)
            levels_of(reader, document(seed))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


ENDLESS = [
    *("\u201c", " ", ".", "\n", '"', "1", " \U0001f600", ". ", ' "', " .", "(", "[", " [1]"),
    *(" word", " ''.", "=", "$ ", ".\u201c"),
]


@pytest.mark.parametrize("segmenter", [s for s in SIGNS if s.lookahead in (0, 1, 2)], ids=repr)
def test_a_run_without_end_is_followed_exactly_in_a_state_that_does_not_grow(segmenter):
    """So the cost of a push does not grow either: a machine reads its state and the piece alone."""
    # Behind an end of a sentence, signs like these may still belong to it, however many they are.
    of_sentences = "Sentences" in repr(segmenter) or "ChainOfThought" in repr(segmenter)
    unbounded = (" \U0001f600", " [1]") * of_sentences
    for sign in ENDLESS:
        run = sign * (16_000 // len(sign))
        text = f"He left.{run}Then it rained{run}\n\nIt rained. And"
        machine, found = segmenter.machine(), []
        for place in range(0, len(text), 97):
            found += machine.push(text[place : place + 97])
            if place % 11 == 0 and sign not in unbounded:
                assert len(pickle.dumps(machine)) < 14_000, sign
        found = [cut for cut in found + machine.close() if 0 < cut < len(text)]
        assert found == segmenter.cut(text)[1:-1].tolist()


@pytest.mark.parametrize("sign", ENDLESS)
def test_the_sentence_rules_read_each_character_a_few_times(sign, monkeypatch):
    read = []

    def counted(text, *, position, **known):
        read.append(len(text) - position)
        return sentence_ends(text, position=position, **known)

    monkeypatch.setattr(rules, "sentence_ends", counted)
    machine = Sentences().machine()
    machine.push("He left")
    for _ in range(600):
        machine.push(sign)
    machine.push(" Then")
    assert sum(read) < 20 * machine.size


def test_texts_are_strings_and_parameters_keyword_only_and_frozen():
    for segmenter in (*SIGNS, *OTHERS):
        for cut in (segmenter.cut, segmenter.levels, segmenter.why):
            with pytest.raises(TypeError, match="text must be a str, was: bytes"):
                cut(b"bytes")
        with pytest.raises(TypeError):
            type(segmenter)(1)
        # Python 3.11 raises TypeError for a name that no slot has.
        with pytest.raises((AttributeError, TypeError)):
            segmenter.anything = 1
    with pytest.raises(TypeError):
        Segmenter()


def test_fingerprints_tell_segmenters_apart():
    everything = [*SIGNS, *OTHERS]
    prints = [json.dumps(segmenter.fingerprint(), sort_keys=True) for segmenter in everything]
    assert len(set(prints)) == len(everything)
    again = [json.dumps(copy.copy(s).fingerprint(), sort_keys=True) for s in everything]
    assert prints == again
    told = {"segmenter": "segmenters.Stride", "version": 1, "parameters": {"length": 7}}
    assert Stride(length=7).fingerprint() == told | {"versions": {}}


def test_an_error_names_its_document_and_character_and_survives_pickling():
    error = SegmenterError("open bracket", offset=7).in_document("a/b.v")
    for twin in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(twin, ValueError)
        assert str(twin) == "document 'a/b.v': character 7: open bracket"
        assert (twin.document, twin.offset) == ("a/b.v", 7)
