"""Where should segments end, and do segments add to gates? A study that runs by itself.

    python -m benchmarks.answers STUDY --home FOLDER --folder TEXTS     STUDY: A, B, C or all
    python -m benchmarks.answers STUDY --home FOLDER --status
    python -m benchmarks.answers STUDY --table [--svg FILE]

The first command trains what is missing of the plan (answers_plan.py), in its order, as ordinary
runs of `bipe pretrain` with one thread each, as many at once as there are cores, at the lowest
priority; evaluates each at 1, 4 and 16 rows; and writes RESULTS/answers_STUDY.json anew whenever a
row is known. It works in FOLDER with a clone of this repository and a copy of its environment, at
the commit of the last row that is known, or else this one, so that work on the code does not
disturb it and cuts stay the same. After any stop, the same command goes on exactly where it was.
`--status` says what is done and how long the rest takes; `--table` prints ratios with intervals
from the results (answers_table.py).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event, Lock
from typing import Any

from benchmarks import answers_plan as plan
from benchmarks import answers_table, answers_text
from benchmarks.answers_plan import BATCH, CUTS, LENGTHS, MODELS, NATURAL, ROW, STUDIES, Cuts, Run
from benchmarks.workers import NICEST, ROOT, begin_apart, lowest_priority, machine
from train.disk.files import append, read_numbers, write_whole
from train.disk.lock import locked
from train.evals.rows import FILE, Journal, Row

# Of all runs; `prepare` has those of the tokenizer, too.
SETTINGS: dict[str, dict[str, Any]] = {
    "prepare": {"engine.workers": 1},
    "pretrain": {
        "row_length": ROW,
        "rows.global_batch": BATCH,
        "rows.micro_batch": BATCH,
        "rows.validation_rows": 16,
        "optimizer.lr": 3e-3,
        "trainer.accelerator": "cpu",
        "trainer.precision": "bf16-mixed",
        "validate_every": "null",
        "checkpoint_every": 100,
        "keep_checkpoints": 1,
        "log_every": 5,
    },
    "evaluate": {
        "row_length": ROW,
        "evaluate.lengths": list(LENGTHS),
        "evaluate.documents": answers_text.HELD,
        "evaluate.probes": [],
    },
}
VOCABULARY = 16384
WARMUP = 12  # one step in so many
ATTEMPTS = 2  # of a run, in one command
RECENT_S = 2 * 3600  # over which the rate is measured
TICK_S = 60
EVALUATION = 0.2  # time of an evaluation, as a share of that of a training of 10M tokens
_NO_SHARES = {"test": 0.0, "validation": 0.0}  # held-out documents have names


class Home:
    """The folder of a study, by its parts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.clone, self.venv = self.folder / "clone", self.folder / "venv"
        self.text, self.data = self.folder / "text", self.folder / "data"
        self.runs, self.logs, self.conf = (self.folder / n for n in ("runs", "logs", "conf"))
        self.rates, self.processes = self.folder / "rate.jsonl", self.folder / "processes.jsonl"

    def steps(self, run: Run) -> int:
        """Return how many steps of a run are behind it, as its metrics say."""
        if self.row(run) is not None:
            return run.steps
        rows = read_numbers(self.runs / run.name / "metrics.csv")
        return int(rows[-1]["step"]) if rows else 0

    def row(self, run: Run) -> dict[str, Any] | None:
        """Return the row of a run that is measured, as it stands in its folder."""
        path = self.runs / run.name / "row.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


class Study:
    """Trains and measures the runs of a plan; see the module."""

    def __init__(
        self, home: Home, runs: Sequence[Run], results: Path, *, cores: int, nice: int = NICEST
    ) -> None:
        self.home, self.runs, self.results = home, runs, results
        self.cores, self.nice = cores, nice
        self.failed: dict[str, str] = {}
        self._writing, self._preparing = Lock(), {name: Lock() for name in CUTS}
        self._over = Event()

    def run(self, texts: Path | None) -> None:
        """Do what is missing, as many runs at once as there are cores."""
        if not (self.home.text / answers_text.MANIFEST).exists():
            answers_text.build(self.home.text, texts)
        for name, node in plan.ENCODINGS.items():
            _write_yaml(self.home.conf / "encoding" / f"{name}.yaml", node)
        self._take_known()
        self._write()
        missing = [run for run in self.runs if self.home.row(run) is None]
        print(f"{len(missing)} of {len(self.runs)} runs are missing", flush=True)
        with ThreadPoolExecutor(self.cores + 1) as pool:
            ticking = pool.submit(self._tick)
            list(pool.map(self._try, missing))
            self._over.set()
            ticking.result()

    def _take_known(self) -> None:
        """Take rows that the results have already, of another home; ValueError if they differ."""
        for study in dict.fromkeys(run.study for run in self.runs):
            path = self.results / f"answers_{study}.json"
            if not path.exists():
                continue
            known, here = json.loads(path.read_text(encoding="utf-8")), self._head(study)
            if other := [key for key in ("text", "settings") if known[key] != here[key]]:
                raise ValueError(
                    f"{path} has rows of another {other[0]}; move it, or set --results"
                )
            rows = {(row["arm"], row["seed"], row["steps"]): row for row in known["rows"]}
            for run in self.runs:
                row = rows.get((run.arm, run.seed, run.steps)) if run.study == study else None
                if row is not None and self.home.row(run) is None:
                    (self.home.runs / run.name).mkdir(parents=True)
                    write_whole(self.home.runs / run.name / "row.json", json.dumps(row) + "\n")

    def _tick(self) -> None:
        """Write down now and then how many tokens are trained, for the rate."""
        while True:
            done = {"time": time.time(), "work": sum(_work(run, self.home) for run in self.runs)}
            append(self.home.rates, json.dumps(done) + "\n")
            if self._over.wait(TICK_S):
                return

    def _try(self, run: Run) -> None:
        for _ in range(ATTEMPTS):
            try:
                self._do(run)
            except Exception as fault:  # whatever becomes of one run, the others go on
                self.failed[run.name] = f"{type(fault).__name__}: {fault}"[:300]
                print(f"{run.name}: {self.failed[run.name]}", flush=True)
            else:
                self.failed.pop(run.name, None)
                break
        self._write()

    def _do(self, run: Run) -> None:
        data, sources = self.prepared(run.what.cuts), list(run.shares)
        trained = self._trained_tokens(data)
        passes = {name: share * run.tokens / trained[name] for name, share in run.shares.items()}
        if max(passes.values()) > plan.MOST_PASSES and not run.what.repeats:
            raise ValueError(f"text would be read too often: {passes}")
        shares = ", ".join(f"{name}: {share:.6f}" for name, share in run.shares.items())
        per_segment = _tokens_per_segment(data, sources)
        for other in self.runs:
            row = self.home.row(other) if other.what.cuts == run.what.cuts else None
            known = {} if row is None else row["tokens_per_segment"]
            if any(per_segment[name] != known[name] for name in per_segment.keys() & known.keys()):
                raise ValueError(f"{data} is cut otherwise than for {other.name}")
        words = [f"out={self.home.runs}", f"data={data}"]
        model = [f"model.{key}={value}" for key, value in MODELS[run.what.model].items()]
        own = [f"encoding={run.what.encoding}", f"name={run.name}", f"seed={run.seed}", *model]
        own += [f"steps={run.steps}", f"schedule.warmup={max(1, run.steps // WARMUP)}"]
        own += [f"rows.sources={{{shares}}}"]
        self._bipe("pretrain", [*words, *own], log=run.name)
        folder = self.home.runs / run.name
        own = [f"evaluate.runs={folder}", f"evaluate.sources=[{', '.join(sources)}]"]
        self._bipe("evaluate", [*words, *own], log=run.name)
        metrics = read_numbers(folder / "metrics.csv")
        row = row_of(run, folder) | {
            "curve": answers_table.curve_of(metrics, sources),
            "passes": {name: round(value, 4) for name, value in passes.items()},
            "tokens_per_segment": per_segment,
            "commit": commit(),
            "machine": machine(),
            "finished": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        write_whole(folder / "row.json", json.dumps(row) + "\n")
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        print(f"{run.name}: {row['perplexity']}", flush=True)

    def prepared(self, cuts: str) -> Path:
        """Return the folder of the data with these cuts; the tokens are those of natural cuts."""
        data = self.home.data / cuts / "data"
        with self._preparing[cuts]:
            if not (data / "manifest.json").exists():
                tokenizer: plan.Node = {"_target_": "train.data.TrainBPE"}
                tokenizer |= {"vocab_size": VOCABULARY, "sample_characters": 4_000_000}
                if cuts != "natural":
                    path = str(self.prepared("natural"))
                    tokenizer = {"_target_": "train.data.LoadTokenizer", "path": path}
                text = json.loads((self.home.text / answers_text.MANIFEST).read_text())
                corpus = corpus_of(CUTS[cuts], text, self.home.text, tokenizer)
                _write_yaml(self.home.conf / "corpus" / f"{cuts}.yaml", corpus)
                words = [f"corpus={cuts}", f"out={data.parent}", "allowed_targets=[benchmarks]"]
                self._bipe("prepare", words, log=f"prepare_{cuts}")
            self._require_same_tokens(cuts)
        return data

    def _require_same_tokens(self, cuts: str) -> None:
        """Raise ValueError if tokens differ from those of natural cuts, byte for byte."""
        splits = ("test", "validation") + ("train",) * (CUTS[cuts].text == ".")
        for source in _sources(self.home.text):
            for split in splits:
                one, other = (
                    {name: file["sha256"] for name, file in found.items() if ".bin" in name}
                    for found in (
                        _manifest(self.home.data / each / "data", source, split)["files"]
                        for each in ("natural", cuts)
                    )
                )
                if one != other:
                    raise ValueError(f"{cuts}: the tokens of {source} ({split}) are others")

    def _trained_tokens(self, data: Path) -> dict[str, int]:
        return {
            source: _manifest(data, source, "train")["counts"]["tokens"]
            for source in _sources(self.home.text)
        }

    def _bipe(self, command: str, words: Sequence[str], *, log: str) -> None:
        """Run a command of bipe, which ends with this process; note what it took."""
        keys = [f"{key}={value}" for key, value in SETTINGS[command].items()]
        typed = [sys.executable, "-m", "train.cli", command, "--config-dir", str(self.home.conf)]
        self.home.logs.mkdir(parents=True, exist_ok=True)
        began, name = time.time(), f"{log}.{command}"
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        with (self.home.logs / f"{name}.log").open("a") as file:
            process = subprocess.Popen(
                [*typed, *keys, *words], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT, preexec_fn=partial(begin_apart, self.nice),
            )  # fmt: skip
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        note = {"name": name, "began": began, "seconds": round(time.time() - began, 1)}
        note |= {"cpu_seconds": round(used.ru_utime + used.ru_stime, 1)}
        note |= {"status": process.returncode}
        with self._writing:
            append(self.home.processes, json.dumps(note) + "\n")
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, f"{name}, see its log")

    def _head(self, study: str) -> dict[str, Any]:
        """Return what the results of a study say beside its rows."""
        text = json.loads((self.home.text / answers_text.MANIFEST).read_text(encoding="utf-8"))
        failed = {run.name: self.failed[run.name] for run in self.runs if run.name in self.failed}
        return {
            "study": study,
            "text": text,
            "settings": {**SETTINGS, "models": MODELS, "vocabulary": VOCABULARY},
            "failed": {name: why for name, why in failed.items() if name.startswith(f"{study}_")},
        }

    def _write(self) -> None:
        """Write the results of each study from the rows of its runs."""
        with self._writing:
            for study in dict.fromkeys(run.study for run in self.runs):
                runs = [run for run in self.runs if run.study == study]
                rows = [row for run in runs if (row := self.home.row(run)) is not None]
                self.results.mkdir(parents=True, exist_ok=True)
                write_whole(
                    self.results / f"answers_{study}.json",
                    answers_table.spelled(self._head(study), rows),
                )


def corpus_of(
    cuts: Cuts, text: Mapping[str, Any], folder: Path, tokenizer: plan.Node
) -> dict[str, Any]:
    """Return the configuration of a corpus: the sources of a text, cut so."""
    sources: dict[str, Any] = {}
    for name in text:
        path = str(folder / cuts.text / f"{name}.jsonl")
        documents = {"_target_": "train.data.JSONL", "path": path, "text_key": "text"}
        documents |= {"id_key": "id"}
        segmenter = dict(cuts.segmenters.get(name, NATURAL[name]))
        if "tokenizer" in segmenter:
            segmenter["tokenizer"] = tokenizer["path"]
        sources[name] = {"_target_": "train.data.Source", "documents": documents}
        sources[name] |= {"segmenter": segmenter, "longest": cuts.longest.get(name)}
        held = {split: text[name][split] for split in ("test", "validation")}
        sources[name]["split"] = {"_target_": "train.data.Split", "ids": held, **_NO_SHARES}
    return {
        "_target_": "train.data.Corpus",
        "tokenizer": tokenizer,
        "sources": sources,
        "split": {"_target_": "train.data.Split", **_NO_SHARES},
    }


def row_of(run: Run, folder: Path) -> dict[str, Any]:
    """Return what was measured on a run: perplexities, and the loss of each document in nats."""
    measured = Journal(folder / FILE).rows()
    perplexity: dict[str, dict[str, float]] = {}
    for each in measured:
        if each.measure == "perplexity" and each.value is not None:
            perplexity.setdefault(each.source, {})[str(each.length)] = round(each.value, 4)
    return {
        "arm": run.arm,
        "seed": run.seed,
        "tokens": run.steps * ROW * BATCH,
        "steps": run.steps,
        "encoding": run.what.encoding,
        "cuts": run.what.cuts,
        "model": run.what.model,
        "perplexity": perplexity,
        "document_nats": _by_document(measured, "document_nll"),
        "document_tokens": _by_document(measured, "document_tokens"),
    }


def _by_document(rows: Sequence[Row], measure: str) -> dict[str, dict[str, list[float]]]:
    numbered: dict[tuple[str, int | None], dict[int | None, float]] = {}
    for row in rows:
        if row.measure == measure and row.value is not None:
            numbered.setdefault((row.source, row.length), {})[row.number] = row.value
    made: dict[str, dict[str, list[float]]] = {}
    for (source, length), values in numbered.items():
        listed = [round(values[number], 2) for number in sorted(values, key=lambda n: n or 0)]
        made.setdefault(source, {})[str(length)] = listed
    return made


def _tokens_per_segment(data: Path, sources: Sequence[str]) -> dict[str, float]:
    counts = {source: _manifest(data, source, "train")["counts"] for source in sources}
    return {n: round(each["tokens"] / each["segments"], 2) for n, each in counts.items()}


def _manifest(data: Path, source: str, split: str) -> dict[str, Any]:
    path = data / source / split / "manifest.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _sources(text: Path) -> list[str]:
    return list(json.loads((text / answers_text.MANIFEST).read_text(encoding="utf-8")))


def _write_yaml(path: Path, node: plan.Node) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(node, indent=1) + "\n")  # YAML holds JSON


def commit() -> str:
    """Return the commit of this checkout."""
    words = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def commit_of(results: Sequence[Path]) -> str:
    """Return the commit of the last row of these files, or of this checkout if they have none.

    Segmenters improve: rows of two commits may not be of the same cuts.
    """
    rows = [
        (row["finished"], row["commit"])
        for path in results
        if path.exists()
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]
    ]
    return max(rows)[1] if rows else commit()


def settle(home: Home, words: Sequence[str], at: str) -> None:
    """Go on in a clone, at a commit, and an environment of the study's own, made at first."""
    if not home.clone.exists():
        part = home.clone.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        source = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(part)]
        subprocess.run(source, check=True)
        subprocess.run(["git", "-C", str(part), "checkout", "--quiet", at], check=True)
        part.rename(home.clone)
    if not home.venv.exists():
        part = home.venv.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(part)], check=True)
        target = part / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        shutil.rmtree(target)
        shutil.copytree(sysconfig.get_path("purelib"), target, symlinks=True, copy_function=_copy)
        for path in target.glob("__editable__*bipe*"):  # the clone is in the working folder
            path.unlink()
        part.rename(home.venv)
    python = str(home.venv / "bin" / "python")
    os.chdir(home.clone)
    os.execv(python, [python, "-m", "benchmarks.answers", *words])


def _copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _work(run: Run, home: Home) -> float:
    """Return how much of a run is done, in tokens of training; its evaluation counts as some."""
    measured = EVALUATION * 10 * plan.MILLION * (home.row(run) is not None)
    return home.steps(run) * ROW * BATCH + measured


def status(home: Home, runs: Sequence[Run]) -> Iterator[str]:
    """Yield lines: what is done, what is under way, and how long the rest takes."""
    rate = rate_of(home)
    for study in dict.fromkeys(run.study for run in runs):
        own = [run for run in runs if run.study == study]
        done = [run for run in own if home.row(run) is not None]
        yield f"{study}: {len(done)} of {len(own)} runs are done: " + ", ".join(
            run.name.removeprefix(f"{study}_") for run in done
        )
    yield f"rate: {rate:,.0f} tokens/s in all, evaluation included" if rate else "rate: not known"
    left = 0.0
    for run in runs:
        if home.row(run) is None:
            left += run.steps * ROW * BATCH + EVALUATION * 10 * plan.MILLION - _work(run, home)
            share = home.steps(run) / run.steps
            hours = f", done in {left / rate / 3600:.1f} h" if rate else ""
            yield f"  {run.name}: {share:.0%} of {run.steps} steps{hours}"


def rate_of(home: Home) -> float | None:
    """Return the tokens per second of all runs together in the last hours."""
    if not home.rates.exists():
        return None
    notes = [json.loads(line) for line in home.rates.read_text().splitlines()]
    notes = [note for note in notes if note["time"] >= notes[-1]["time"] - RECENT_S]
    seconds = done = 0.0
    for before, after in pairwise(notes):
        # Longer gaps are stops, and less work than before is another plan.
        if after["time"] - before["time"] < 5 * TICK_S and after["work"] >= before["work"]:
            seconds += after["time"] - before["time"]
            done += after["work"] - before["work"]
    return done / seconds if done else None


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=[*STUDIES, "all"])
    parser.add_argument("--home", type=Path, default=Path("runs/answers"))
    parser.add_argument("--folder", type=Path, help="prose.jsonl.gz and latex.jsonl.gz")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--nice", type=int, default=NICEST,
        help="of its sessions (Linux): 19 takes only what nobody wants, 0 a share like others",
    )  # fmt: skip
    parser.add_argument("--here", action="store_true", help="no clone and environment of its own")
    parser.add_argument("--status", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--svg", type=Path, help="where --table draws its picture")
    typed = list(sys.argv[1:] if words is None else words)
    given = parser.parse_args(typed)
    studies = list(STUDIES) if given.study == "all" else [given.study]
    runs = [run for study in studies for run in STUDIES[study]]
    home = Home(given.home)
    if given.table:
        for study in studies:
            print("\n".join(answers_table.table(given.results / f"answers_{study}.json")))
        if given.svg:
            answers_table.draw(given.results / f"answers_{studies[0]}.json", given.svg)
        return 0
    if given.status:
        print("\n".join(status(home, runs)))
        return 0
    if not given.here and home.clone != ROOT:
        paths = {"--home": home.folder, "--folder": given.folder, "--results": given.results}
        named = [w for k, p in paths.items() if p for w in (k, str(p.resolve()))]
        options = ["--cores", str(given.cores), "--nice", str(given.nice), *named]
        known = [given.results / f"answers_{study}.json" for study in studies]
        settle(home, [given.study, *options], commit_of(known))
    home.folder.mkdir(parents=True, exist_ok=True)
    with locked(home.folder / ".lock", what=str(home.folder), command="benchmarks.answers"):
        lowest_priority()
        study = Study(home, runs, given.results, cores=given.cores, nice=given.nice)
        study.run(given.folder)
    return 1 if study.failed else 0


if __name__ == "__main__":
    sys.exit(main())
