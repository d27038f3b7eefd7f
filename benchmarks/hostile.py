"""What hostile text costs each segmenter, against ordinary text of the same length.

    python -m benchmarks.hostile [--segmenter NAME ...] [--size 200000] [--json]
    python -m benchmarks.hostile --large [--segmenter NAME ...]
    python -m benchmarks.hostile --memory 50 [--segmenter NAME ...]
    python -m benchmarks.hostile --fuzz 10000 [--first 0] [--limit 2] [--segmenter NAME ...]
    python -m benchmarks.hostile --files FOLDER ... [--limit 60]

For each segmenter and pattern: the CPU time over that of ordinary text of the segmenter's own kind
(`ratio`), and over that of half of the pattern (`growth`: 2 is linear). A pattern is one unit
repeated, or a random mix of all units. `--large` cuts one line of 100 MB, and a million empty
documents, each in a process of its own, and prints seconds and the peak of memory beyond that of
the process before; `--memory` so many million characters of ordinary text, also beyond the text.
Every cut is checked to tile its text.

`--fuzz` cuts so many texts of a grammar (tests/segmenters/grammar.py) on all levels, and `--files`
all files below the folders, each by its route. They print every text that takes more than `limit`
seconds of CPU time, fails, or whose segments do not tile it or are not nested; `--fuzz` also
prints, for the texts that were slowest per character, repeated up to `size`, ratio and growth.
"""

from __future__ import annotations

import argparse
import functools
import heapq
import json
import multiprocessing
import random
import resource
import signal
import string
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from segmenters import (
    Agda,
    ArithmeticSteps,
    Auto,
    ChainOfThought,
    Coq,
    Hol,
    Isabelle,
    LaTeXProofs,
    Lean,
    Lines,
    Metamath,
    Mixed,
    Mizar,
    Newline,
    Official,
    Pattern,
    RandomCuts,
    Records,
    Segmenter,
    Sentences,
    Stride,
    Tptp,
)
from segmenters.documents.mixed import FORMATS
from segmenters.records.records import FORMATS as RECORDS
from segmenters.registry import LANGUAGES
from tests.segmenters import snippets_braces, snippets_other, snippets_young
from tests.segmenters.grammar import document
from tests.segmenters.record_samples import text_of

UNITS = (
    *("'", '"', "\"'", "(", ")", "[", "]", "{", "}", "<", ">", "()", "[]", "{}", "][", "([{"),
    *(".", "..", ". ", " .", ". A", "a.", "A.", "a.B", ".a ", "... ", "?!", "? ", "! A", "!A"),
    *("1.", "1. ", "(1) ", "e.g. ", "Mr. ", "U.S. ", "5 p.m. ", "I. ", "Yes. ", "no. a", '." '),
    *(".\n", ". ''", ". \u00bb", ".[1] ", "; ", ": ", "a\u2026 ", "\u3002", "\u3002a", "\uff0e1"),
    *("\u3002\u300d\u3068", "\u0964 ", "\u06d4", "\u0561:", "\u03b1; ", "\u2022 ", "\u4e2d"),
    *("\u1361", "\u1361\u1361 ", "\U00011047", "\U00011047 "),
    *(" ", "\t", "\n", "\n\n", "\r", "\r\n", "\n-", "\n ", "\n\n\t", "\u2028", "\u2029", "\u00a0"),
    *("\0", "\x1c", "\x85", "a\u0301", "\u0301", "\ud800", "\udfff", "\u200d", "\u200f", "\ufeff"),
    *("\U0001f600", "\U0001f600 A", ". \U0001f600", "\u202ea.", "x", "x ", "1 ", "1", "-", "--"),
    *("$", "$$", "$ ", "\\", "\\\\", "%", "%\n", "\\[", "\\(", "\\begin{", "\\begin{align}"),
    *("\\item", "\\section{", "\\verb|", "\\cite[", "\\end{", "\\begin{verbatim}\n", "\\<open>"),
    *("(*", "*)", "(* *)", "{-", "-}", "/*", "*/", "//", "/-", "-/", "<!--", "-->", "::", ":="),
    *("$(", "$)", "${", "$}", "$.", "$[", "proof ", "by ", "lemma ", "Step 1: ", "end;", "all:{"),
    *("#", "# ", "##\n", "```", "```\n", "~~~\n", "`", "|", "| ", "=", "==", "a=", "<a", "<a>"),
    *("</a>", "<script>", "&amp;", "http://", "a@b.", "if ", "if(", "f(", "else ", "{a;", "'''"),
    *('"""', '"\\', "@a ", "a,", ";", ",", "begin ", "do "),
    *("fn ", "class A{", "\\\n", "EOF\n", "<<A\n"),
)
_PROSE = (
    "It was late when Mr. Arden came home, and the house was dark. He had walked 3.5 miles in the "
    'rain! "Is anybody there?" he asked. Nobody answered; the clock (an old one) struck ten... '
    "He lit a lamp. On the table lay a letter from J. Hale, dated Jan. 4, with two words in it: "
    "come back. He read it twice, put it into his coat, and went out again.\n\n"
)
_COQ = (
    "(* Sums. *)\nLemma add_0 : forall n, n + 0 = n.\nProof.\n  intros n. induction n as [|m IH].\n"
    "  - reflexivity.\n  - simpl. { rewrite IH. reflexivity. }\nQed.\n\n"
)
_LEAN = (
    "/-- Sums. -/\ntheorem add_zero (n : Nat) : n + 0 = n := by\n  induction n with\n"
    "  | zero => rfl\n  | succ m ih =>\n    rw [Nat.succ_add]\n    simp [ih] -- done\n\n"
)
_ISABELLE = (
    '(* Sums. *)\nlemma add_0: "n + (0::nat) = n"\nproof (induct n)\n  case 0 show ?case by simp\n'
    "next\n  case (Suc m) from this have \\<open>m = m\\<close> by auto\n"
    "  then show ?case by simp\nqed\n\n"
)
_METAMATH = (
    "$( Sums of numbers. $)\n$c + 0 = |- $.\n${\n  min $e |- ph $.\n  maj $e |- ( ph -> ps ) $.\n"
    "  ax-mp $a |- ps $.\n$}\nth1 $p |- t = t $= tt tze tpl tt weq tt ax-mp $.\n"
)
_MIZAR = (
    ":: Sums.\ntheorem Th1: for n being Nat holds n + 0 = n\nproof\n  let n be Nat;\n  A1: n = n;\n"
    "  now assume n > 0; hence n + 0 = n by A1; end;\n  hence thesis;\nend;\n\n"
)
_AGDA = (
    "-- Sums.\nadd-0 : (n : Nat) -> n + 0 \u2261 n\nadd-0 zero    = refl\nadd-0 (suc n) =\n"
    "  begin\n    suc n + 0    \u2261\u27e8 lemma n \u27e9\n    suc (n + 0)  \u220e\n"
    "  where\n  lemma : (m : Nat) -> suc m + 0 \u2261 suc (m + 0)\n  lemma m = refl\n\n"
)
_HOL = (
    "(* Sums. *)\nTheorem add_0[simp]:\n  !n:num. n + 0 = n\nProof\n  Induct >> rw [A] \\\\ fs []\n"
    'QED\n\nval a = store_thm ("a",\n  ``b:num``,\n  REWRITE_TAC [a; b] THEN ARITH_TAC);\n'
)
_TPTP = (
    "% Sums.\nfof(add_0, axiom, ! [N] : ( nat(N) => ( add(N, 'zero') = N & ~ big(N) ) )). % one\n"
    "cnf(c, plain, p(X) | ~ q(f(X)), inference(r, [status(thm)], [add_0])).\n"
)
_LATEX = (
    "\\section{Sums} Let $n$ be a number, as in \\cite[p. 3]{a}. Then\n"
    "\\begin{equation}\n  n + 0 = n.\n\\end{equation}\n% a remark\n"
    "\\begin{proof}\nBy induction. For $n = 0$ it is clear; see Fig. 2. Now\n"
    "\\[ m + 1 = 1 + m. \\]\nSo it holds for all $n$.\n\\end{proof}\n\n"
)
_STEPS = "Step 1: add 3 and 4. We get 7.\nStep 2: Double it, so 14. Is it even?\n1. Then stop.\n\n"
_MARKDOWN = f"# A title\n\n{_PROSE}- an item\n- another one\n\n```python\nx = 1\ny = f(x)\n```\n\n"
_PAGE = (
    "<html><body><h1>A title</h1><p>It rained. <b>We</b> left.</p>"
    "<ul><li>one</li></ul></body></html>\n"
)
_PYTHON = (
    "def f(a, *, b=1):\n    '''Sums.'''\n    x = [a,\n         b]  # both\n    return sum(x)\n\n\n"
)

# A growth above this is measured so many times again.
_GROWTH, _AGAIN = 2.5, 3

Sample = tuple[Segmenter, str]


def samples() -> dict[str, Sample]:
    """Every segmenter by a name, with ordinary text of its kind."""
    snippets = snippets_braces.SNIPPETS | snippets_other.SNIPPETS | snippets_young.SNIPPETS
    snippets = snippets | {"python": _PYTHON}
    plain = {name: text.replace("@=|", "").replace("@|", "") for name, text in snippets.items()}
    code = {
        f"lines {language}": (Lines(granularity="logical", language=language), plain[language])
        for language in LANGUAGES
        if language in plain
    }
    formats = {"html": _PAGE, "latex": _LATEX, "markdown": _MARKDOWN, "notebook": _PYTHON}
    mixed = {
        f"mixed {name}": (Mixed(format=name), formats.get(name, _MARKDOWN)) for name in FORMATS
    }
    return {
        "rules": (Sentences(backend="rules"), _PROSE),
        "next word": (Sentences(backend="rules", next_word=True), _PROSE),
        "spacy": (Sentences(backend="spacy"), _PROSE),
        "chain of thought": (ChainOfThought(), _STEPS),
        "agda": (Agda(), _AGDA),
        "hol": (Hol(), _HOL),
        "tptp": (Tptp(), _TPTP),
        "metamath inner": (Metamath(inner=True), _METAMATH),
        "mizar inner": (Mizar(inner=True), _MIZAR),
        "arithmetic": (ArithmeticSteps(), "(1 + 2) * 3 = 3 * 3 = 9\n"),
        "coq": (Coq(), _COQ),
        "isabelle": (Isabelle(), _ISABELLE),
        "latex": (LaTeXProofs(), _LATEX),
        "lean": (Lean(), _LEAN),
        "metamath": (Metamath(), _METAMATH),
        "mizar": (Mizar(), _MIZAR),
        "newline": (Newline(), _PROSE),
        "official": (Official(), _PROSE),
        "stride": (Stride(length=100), _PROSE),
        "random": (RandomCuts(mean=100), _PROSE),
        "pattern": (Pattern(ends=r"[.!?]\s+"), _PROSE),
        "lines": (Lines(), _PYTHON),
        "auto": (Auto(), _PROSE),
        **{f"records {name}": (Records(format=name), text_of(name)) for name in RECORDS},
        **mixed,
        **code,
    }


def patterns(size: int) -> Iterator[tuple[str, str]]:
    """Names and texts of `size` characters: each unit repeated, and mixes with fixed seeds."""
    for unit in UNITS:
        yield ascii(unit), _repeated(unit, size)
    for seed in range(3):
        draw = random.Random(seed)
        few = draw.sample(UNITS, 4)
        yield f"mix {seed}", "".join(draw.choices(UNITS, k=size))[:size]
        yield f"mix of {' '.join(map(ascii, few))}", "".join(draw.choices(few, k=size))[:size]
        signs = string.punctuation + " \n"
        yield f"signs {seed}", "".join(draw.choices(signs, k=size))


def seconds(segmenter: Segmenter, text: str) -> float:
    """CPU seconds of one cut, the least of a few; the cuts must tile the text."""
    took: list[float] = []
    while not took or (len(took) < 5 and sum(took) < 0.2):
        begin = time.process_time()
        cuts = segmenter.cut(text)
        took.append(time.process_time() - begin)
    assert cuts[0] == 0 and cuts[-1] == len(text) and (np.diff(cuts) > 0).all()
    return min(filter(None, took), default=1e-9)  # some clocks stand still at times


def measure(name: str, sample: Sample, size: int) -> list[dict[str, Any]]:
    """One row a pattern: its ratio to ordinary text, and its growth from half of the size."""
    segmenter, unit = sample
    segmenter.cut(unit)  # what is loaded at the first call is no part of the time
    ordinary = seconds(segmenter, _repeated(unit, size))
    return [_costs(name, segmenter, ordinary, *item) for item in patterns(size)]


def _costs(
    name: str, segmenter: Segmenter, ordinary: float, pattern: str, text: str
) -> dict[str, Any]:
    """One row: the time of the text against that of ordinary text, and of half of it."""
    half = text[: len(text) // 2]
    short, whole = seconds(segmenter, half), seconds(segmenter, text)
    for _ in range(_AGAIN):  # the least of several tries is free of what else the machine does
        if whole <= _GROWTH * short:
            break
        short, whole = min(short, seconds(segmenter, half)), min(whole, seconds(segmenter, text))
    row = {"segmenter": name, "pattern": pattern, "ms": round(whole * 1e3, 2)}
    return {**row, "ratio": whole / ordinary, "growth": whole / short}


def _repeated(text: str, size: int) -> str:
    return (text * (size // len(text) + 1))[:size]


def report(rows: list[dict[str, Any]], *, worst: int = 5) -> None:
    """Print the worst patterns of one segmenter."""
    for key in ("ratio", "growth"):
        # What takes less than this many milliseconds is at the mercy of the clock.
        shown = sorted((row for row in rows if row["ms"] > 2), key=lambda row: -row[key])[:worst]
        cells = "  ".join(f"{row[key]:.1f} {row['pattern']} ({row['ms']:.0f} ms)" for row in shown)
        print(f"{rows[0]['segmenter']:18} {key:7} {cells}", flush=True)


def examined(segmenter: Segmenter, text: str, limit: float) -> tuple[float, str]:
    """Seconds of all levels of a text, and what is wrong with them: "" if nothing is."""
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    begin = time.process_time()
    try:
        levels = segmenter.levels(text)
    except Exception as error:
        return time.process_time() - begin, f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    took, finer = time.process_time() - begin, np.arange(len(text) + 1)
    for cuts in levels:
        if cuts[0] != 0 or cuts[-1] != len(text) or not (np.diff(cuts) > 0).all():
            return took, f"no tiling: {cuts}"
        if not np.isin(cuts, finer).all():
            return took, f"not nested: {cuts} in {finer}"
        finer = cuts
    return took, ""


def _late(*_: object) -> None:
    raise TimeoutError("it took too long")


def fuzz(known: dict[str, Sample], seeds: Iterable[int], limit: float, size: int) -> None:
    """Cut the texts of the seeds by all segmenters; print faults, and what the slowest cost."""
    signal.signal(signal.SIGVTALRM, _late)
    faults, texts, keep = 0, 0, 10
    slowest: dict[str, list[tuple[float, int]]] = {name: [] for name in known}
    for seed in seeds:
        text, texts = document(seed), texts + 1
        if texts % 1000 == 0:
            print(f"{texts} texts, {faults} faults", file=sys.stderr, flush=True)
        for name, (segmenter, _) in known.items():
            took, fault = examined(segmenter, text, limit)
            if fault:
                faults += 1
                print(json.dumps({"segmenter": name, "seed": seed, "text": text, "fault": fault}))
            elif len(text) > 50:
                add = heapq.heappush if len(slowest[name]) < keep else heapq.heappushpop
                add(slowest[name], (took / len(text), seed))
    print(f"{texts} texts, {len(known)} segmenters, {faults} faults", flush=True)
    for name, (segmenter, unit) in known.items():
        ordinary = seconds(segmenter, _repeated(unit, size))
        texts_of = ((f"seed {seed}", _repeated(document(seed), size)) for _, seed in slowest[name])
        if rows := [_costs(name, segmenter, ordinary, *item) for item in texts_of]:
            report(rows, worst=3)


def files(folders: list[Path], limit: float) -> None:
    """Cut all files below the folders by their routes; print faults and the slowest of each."""
    signal.signal(signal.SIGVTALRM, _late)
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    faults = count = characters = 0
    slowest: list[tuple[float, str]] = []
    for path in paths:
        text = path.read_bytes()[:2_000_000].decode("utf-8", "surrogateescape")
        chosen = Auto(granularity="logical").choose(text=text, name=path.name)
        took, fault = examined(chosen, text, limit)
        count, characters = count + 1, characters + len(text)
        if fault:
            faults += 1
            print(json.dumps({"path": str(path), "segmenter": str(chosen), "fault": fault}))
        if len(text) > 2000:
            slowest.append((took / len(text) * 1e6, f"{path} ({len(text)} characters)"))
    print(f"{count} files, {characters / 1e6:.1f} million characters, {faults} faults")
    for took, said in heapq.nlargest(10, slowest):
        print(f"{took:.2f} us per character: {said}")


def large(name: str) -> dict[str, Any]:
    """Seconds and megabytes of a line of 100 MB, and seconds of a million empty documents."""
    segmenter, unit = samples()[name]
    unit = unit.replace("\n", " ")
    segmenter.cut(unit)
    text = unit * (100_000_000 // len(unit))
    before, begin = _peak(), time.process_time()
    cuts = segmenter.cut(text)
    long = time.process_time() - begin
    assert cuts[0] == 0 and cuts[-1] == len(text)
    memory, begin = _peak() - before, time.process_time()
    for _ in range(1_000_000):
        cuts = segmenter.cut("")
    assert cuts.tolist() == [0]
    empty = time.process_time() - begin
    return {"line_s": round(long, 2), "line_mb": round(memory), "empty_s": round(empty, 2)}


def memory(name: str, millions: int) -> dict[str, Any]:
    """Megabytes beyond the text for its cuts, and for those of all levels."""
    segmenter, unit = samples()[name]
    segmenter.levels(unit)
    text = unit * (millions * 1_000_000 // len(unit))
    before = _peak()
    count, own = len(segmenter.cut(text)) - 1, _peak() - before
    segmenter.levels(text)
    return {"mb": round(own), "levels_mb": round(_peak() - before), "segments": count}


def _peak() -> float:
    """Return the peak memory of this process in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _in_a_process(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = samples()
    parser.add_argument("--segmenter", action="append", choices=known, help="these only")
    parser.add_argument("--size", type=int, default=200_000, help="characters")
    parser.add_argument("--json", action="store_true", help="one line of JSON a pattern")
    parser.add_argument("--large", action="store_true", help="100 MB and a million documents")
    parser.add_argument("--memory", type=int, help="so many million characters of each kind")
    parser.add_argument("--fuzz", type=int, help="so many texts of a grammar")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first of them")
    parser.add_argument("--files", type=Path, nargs="+", help="all files below these folders")
    parser.add_argument("--limit", type=float, default=2, help="seconds for a text")
    options = parser.parse_args()
    chosen = {name: known[name] for name in options.segmenter or known}
    if options.files:
        files(options.files, options.limit)
    elif options.fuzz:
        seeds = range(options.first, options.first + options.fuzz)
        fuzz(chosen, seeds, options.limit, min(options.size, 50_000))
    for name in chosen if not (options.files or options.fuzz) else ():
        if options.large or options.memory:
            work = functools.partial(memory, millions=options.memory) if options.memory else large
            row = _in_a_process(functools.partial(work, name))
            print(json.dumps({"segmenter": name, **row}), flush=True)
            continue
        rows = measure(name, known[name], options.size)
        if options.json:
            for row in rows:
                print(json.dumps(row), flush=True)
        else:
            report(rows)


if __name__ == "__main__":
    main()
