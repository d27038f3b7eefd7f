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
the process before; `--memory` so many million characters of ordinary text and half of them, also
beyond the text, with the line through both prolonged to 50 million characters.
Every cut is checked to tile its text.

`--fuzz` cuts so many texts of a grammar (tests/segmenters/grammar.py) on all levels, and `--files`
all files below the folders, each by its route. They print every text that takes more than `limit`
seconds of CPU time, fails, or whose segments do not tile it or are not nested; `--fuzz` also
prints, for the texts that were slowest per character, repeated up to `size`, ratio and growth.
"""

from __future__ import annotations

import argparse
import heapq
import json
import multiprocessing
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hostile_texts import Sample, patterns, repeated, samples
from benchmarks.workers import alone, peak_mib
from segmenters import Auto, Segmenter
from tests.segmenters.grammar import document

# A growth above this is measured so many times again.
_GROWTH, _AGAIN = 2.5, 3
_KEPT = 10  # the slowest texts of each segmenter
_LARGE = 50  # million characters, for which memory is estimated


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
    ordinary = seconds(segmenter, repeated(unit, size))
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
    took, finer = time.process_time() - begin, set(range(len(text) + 1))
    for level in levels:
        cuts = level.tolist()  # for texts as short as these, sets are faster than arrays
        own = set(cuts)
        if cuts != sorted(own) or cuts[0] != 0 or cuts[-1] != len(text):
            return took, f"no tiling: {cuts}"
        if not own <= finer:
            return took, f"not nested: {cuts} in {sorted(finer)}"
        finer = own
    return took, ""


def _late(*_: object) -> None:
    raise TimeoutError("it took too long")


Slowest = dict[str, list[tuple[float, int]]]


def fuzz(known: dict[str, Sample], seeds: range, limit: float, size: int) -> None:
    """Cut the texts of the seeds by all segmenters; print faults, and what the slowest cost.

    Each thousand has a process of its own: a loop in a library, where Python handles no signal,
    ends that process, and is a fault like others.
    """
    context = multiprocessing.get_context("fork")
    doing, results = context.Array("q", 2), context.SimpleQueue()
    names, faults, seed = [*known], 0, seeds.start
    for segmenter, unit in known.values():
        segmenter.levels(unit)  # what is loaded at the first text is no part of its time
    slowest: Slowest = {name: [] for name in known}
    while seed < seeds.stop:
        some = range(seed, min(seed + 1000, seeds.stop))
        child = context.Process(target=_fuzz_some, args=(known, some, limit, doing, results))
        child.start()
        child.join()
        seed = some.stop
        if child.exitcode:
            at, rank = doing
            seed, faults = at + 1, faults + 1
            fault = f"a loop outside of Python: {signal.Signals(-child.exitcode).name}"
            found = {"segmenter": names[rank], "seed": at, "text": document(at), "fault": fault}
            print(json.dumps(found), flush=True)
            continue
        wrong, slow = results.get()
        faults += wrong
        for name, rows in slow.items():
            slowest[name] = heapq.nlargest(_KEPT, slowest[name] + rows)
        print(f"{seed - seeds.start} texts, {faults} faults", file=sys.stderr, flush=True)
    print(f"{len(seeds)} texts, {len(known)} segmenters, {faults} faults", flush=True)
    for name, (segmenter, unit) in known.items():
        ordinary = seconds(segmenter, repeated(unit, size))
        texts_of = ((f"seed {seed}", repeated(document(seed), size)) for _, seed in slowest[name])
        if rows := [_costs(name, segmenter, ordinary, *item) for item in texts_of]:
            report(rows, worst=3)


def _fuzz_some(
    known: dict[str, Sample], seeds: range, limit: float, doing: Any, results: Any
) -> None:
    """Cut some texts; note what is being done, and put faults and slowest texts in `results`."""
    signal.signal(signal.SIGVTALRM, _late)
    faults, slowest = 0, Slowest({name: [] for name in known})
    for seed in seeds:
        text = document(seed)
        for rank, (name, (segmenter, _)) in enumerate(known.items()):
            doing[:] = seed, rank
            # Time of the processor that nothing but a native loop can use up; it ends the process.
            signal.setitimer(signal.ITIMER_PROF, 5 * limit)
            took, fault = examined(segmenter, text, limit)
            if fault:
                faults += 1
                found = {"segmenter": name, "seed": seed, "text": text, "fault": fault}
                print(json.dumps(found), flush=True)
            elif len(text) > 50:
                add = heapq.heappush if len(slowest[name]) < _KEPT else heapq.heappushpop
                add(slowest[name], (took / len(text), seed))
    signal.setitimer(signal.ITIMER_PROF, 0)
    results.put((faults, slowest))


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
    before, begin = peak_mib(), time.process_time()
    cuts = segmenter.cut(text)
    long = time.process_time() - begin
    assert cuts[0] == 0 and cuts[-1] == len(text)
    memory, begin = peak_mib() - before, time.process_time()
    for _ in range(1_000_000):
        cuts = segmenter.cut("")
    assert cuts.tolist() == [0]
    empty = time.process_time() - begin
    return {"line_s": round(long, 2), "line_mb": round(memory), "empty_s": round(empty, 2)}


def memory(name: str, millions: float) -> tuple[float, float, float]:
    """Megabytes beyond the text for its cuts and for those of all levels; segments."""
    segmenter, unit = samples()[name]
    segmenter.levels(unit)
    text = unit * int(millions * 1_000_000 / len(unit))  # no slice, whose copy would be the peak
    before = peak_mib()
    count, own = len(segmenter.cut(text)) - 1, peak_mib() - before
    segmenter.levels(text)
    return own, peak_mib() - before, count


def memory_growth(name: str, millions: float) -> dict[str, Any]:
    """Megabytes of a size and of half of it, each in a process of its own; the line to LARGE."""
    (half, half_levels, _), (own, levels, count) = (
        alone(memory, name, size) for size in (millions / 2, millions)
    )
    row = {"mb": own, "levels_mb": levels, "per_segment": millions * 1e6 / count}
    for key, less, more in (("at_50", half, own), ("levels_at_50", half_levels, levels)):
        row[key] = more + (more - less) / (millions / 2) * (_LARGE - millions)
    return {key: round(value) for key, value in row.items()}


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
            row = memory_growth(name, options.memory) if options.memory else alone(large, name)
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
