"""What preparing data costs, against what it is made of and against others, in one run.

    python -m benchmarks.prepare [--prose FILE.jsonl ...] [--code FILE.jsonl ...] [--megabytes 40]

Prints JSON, a ratio a claim. CPU time where one core is measured, wall time where processes work
side by side (an otherwise idle machine, two cores at least); the median of --rounds.

    core          encode_batch of the same text in chunks, one thread, to the whole of segment,
                  tokenize, mark and write; above 1 because the work asks for no offsets, so that
                  the same to encode_batch_fast, which makes none either, is given beside it
    rows          rows of one line of 35 to 70 characters to the same text in rows of 20,000: read,
                  cut, tokenized, marked and written on one core
    workers       one worker to two
    runner        a bare multiprocessing pool that does the same work, to `prepare` with two workers
    datasets      datasets.map(num_proc=2) and writing, doing the same work, to two workers
    killed        two workers, one of which is killed half-way, to two that nobody disturbs
    again         seconds of `bipe prepare` where all is done
Without files the standard library serves as code and as prose.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workers import children, medians, wall_seconds
from segmenters import Auto, Lines, Segmenter, Sentences, mark
from train.data.preparing.engines import Local
from train.data.preparing.parts import BATCH_CHARACTERS, PartWriter
from train.data.preparing.prepare import prepare
from train.data.preparing.source import Corpus, Source
from train.data.preparing.work import Work
from train.data.reading.corpora import PackageCode
from train.data.reading.documents import Document
from train.data.reading.files import JSONL
from train.data.reading.split import Split
from train.data.store.writer import ShardWriter
from train.data.tokenizing.tokenizers import Tokenizer, one_thread
from train.data.tokenizing.vocabulary import LoadTokenizer, TrainBPE

MEASURES = ("core", "rows", "workers", "runner", "datasets", "killed", "again")
SPLIT = Split(validation=0.01, test=0.02)
SETTINGS: dict[str, tuple[str, Segmenter]] = {
    "prose, sentences": ("prose", Sentences()),
    "code, logical lines": ("code", Lines(granularity="logical")),
    "code, physical lines": ("code", Lines(granularity="physical")),
}


def main() -> None:
    options = _options()
    one_thread()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        bench = Bench(Path(scratch), options)
        print(json.dumps(bench.run(), indent=2))


class Bench:
    """The corpora and the tokenizer on disk, and the measurements."""

    def __init__(self, scratch: Path, options: argparse.Namespace) -> None:
        self.scratch, self.rounds = scratch, options.rounds
        self.only = options.only
        size = int(options.megabytes * 1e6)
        self.corpora = {
            "prose": _corpus(options.prose or options.code, scratch / "prose.jsonl", size),
            "code": _corpus(options.code, scratch / "code.jsonl", size),
        }
        documents = [document for kind in self.corpora for document in self.read(kind)]
        made = TrainBPE(vocab_size=16_384).build(lambda _: [d.text for d in documents])
        (scratch / "tokenizer").mkdir()
        (scratch / "tokenizer" / "tokenizer.json").write_text(made.json)

    def run(self) -> dict[str, Any]:
        found: dict[str, Any] = {"cores": os.cpu_count(), "rounds": self.rounds}
        for name in self.only:
            found[name] = getattr(self, name)()
            print(name, json.dumps(found[name]), file=sys.stderr, flush=True)
        return found

    def read(self, kind: str) -> list[Document]:
        return list(JSONL(path=self.corpora[kind]))

    def tokenizer(self) -> Tokenizer:
        return LoadTokenizer(path=self.scratch / "tokenizer").build()

    def core(self) -> dict[str, list[float]]:
        """Bare tokenizing over the whole work, on one core."""
        tokenizer = self.tokenizer()
        fast = tokenizer.fast
        ratios = {}
        for name, (kind, segmenter) in SETTINGS.items():
            documents = self.read(kind)
            runs: list[Callable[[], Any]] = [
                lambda d=documents: _bare(tokenizer, d, fast.encode_batch),
                lambda d=documents: _bare(tokenizer, d, fast.encode_batch_fast),
                lambda d=documents, s=segmenter: self.write(tokenizer, d, s),
            ]
            offsets, ids, whole = medians(*runs, rounds=self.rounds)
            ratios[name] = [round(offsets / whole, 3), round(ids / whole, 3)]
        return ratios

    def rows(self) -> dict[str, float]:
        """Short rows over long ones, on one core."""
        tokenizer = self.tokenizer()
        texts = (document.text for document in self.read("prose"))
        stripped = (line.strip() for text in texts for line in text.split("\n"))
        lines = [line for line in stripped if 35 <= len(line) <= 70][:100_000]
        whole = " ".join(lines)
        long = [whole[start : start + 20_000] for start in range(0, len(whole), 20_000)]
        readers = []
        for name, rows in (("short", lines), ("long", long)):
            path = self.scratch / f"{name}.jsonl"
            path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
            readers.append(JSONL(path=path))
        ratios = {}
        for segmenter in (Sentences(), Auto()):
            runs = [lambda r=r, s=segmenter: self.write(tokenizer, r, s) for r in readers]
            short, longer = medians(*runs, rounds=self.rounds)
            ratios[type(segmenter).__name__] = round(short / longer, 2)
        return ratios

    def write(
        self,
        tokenizer: Tokenizer,
        documents: Iterable[Document],
        segmenter: Segmenter,
        folder: Path | None = None,
    ) -> None:
        """Do what a worker does with a part."""
        folder = folder or self.scratch / "part"
        shutil.rmtree(folder, ignore_errors=True)
        source = Source(documents=JSONL(path=""), segmenter=segmenter, split=SPLIT)
        work = Work(
            folder=folder,
            sources={"x": source},
            tasks=[],
            digest="",
            tokenizer=tokenizer,
            descriptions={"x": _description(tokenizer, segmenter)},
        )
        with PartWriter(work, "x", folder) as writer:
            for batch in _batches(documents):
                writer.add(batch)
        writer.result()

    def prepared(self, workers: int, *, name: str = "out") -> Path:
        """All settings as sources of one data set."""
        out = self.scratch / name
        shutil.rmtree(out, ignore_errors=True)
        sources = {
            str(number): Source(documents=JSONL(path=self.corpora[kind]), segmenter=segmenter)
            for number, (kind, segmenter) in enumerate(SETTINGS.values())
        }
        prepare(
            Corpus(
                sources=sources,
                tokenizer=LoadTokenizer(path=self.scratch / "tokenizer"),
                split=SPLIT,
            ),
            out=out,
            engine=Local(workers=workers, isolate=True),
            progress=False,
        )
        return out

    def workers(self) -> float:
        return self.ratio(lambda: self.prepared(1), lambda: self.prepared(2))

    def runner(self) -> float:
        return self.ratio(self.pool, lambda: self.prepared(2))

    def pool(self) -> None:
        """Make all parts by a bare pool, which merges nothing and survives nothing."""
        jobs = []
        for number, (kind, segmenter) in enumerate(SETTINGS.values()):
            reader = JSONL(path=self.corpora[kind])
            jobs += [
                (self, reader, part, segmenter, self.scratch / "bare" / f"{number}.{place}")
                for place, part in enumerate(reader.parts())
            ]
        context = multiprocessing.get_context("forkserver")
        with context.Pool(2, initializer=one_thread) as pool:
            pool.map(_write_part, jobs, chunksize=1)

    def datasets(self) -> float:
        return self.ratio(self.mapped, lambda: self.prepared(2))

    def mapped(self) -> None:
        """Make the same by datasets.map with two processes, and a loop that writes."""
        import datasets

        datasets.disable_progress_bars()
        datasets.disable_caching()
        tokenizer = self.tokenizer()
        for number, (kind, segmenter) in enumerate(SETTINGS.values()):
            cache = self.scratch / "cache" / str(time.monotonic_ns())
            rows = datasets.load_dataset(
                "json", data_files=str(self.corpora[kind]), split="train", cache_dir=str(cache)
            )
            made = rows.map(
                _map_batch,
                batched=True,
                batch_size=100,
                num_proc=2,
                remove_columns=rows.column_names,
                fn_kwargs={"tokenizer": tokenizer, "segmenter": segmenter},
            )
            folder = self.scratch / "mapped" / str(number)
            shutil.rmtree(folder, ignore_errors=True)
            with ShardWriter(
                folder=folder,
                name="x",
                vocab_size=tokenizer.vocab_size,
                levels=1,
                description=_description(tokenizer, segmenter),
            ) as writer:
                for place, row in enumerate(made.with_format("numpy")):
                    marks = row["marks"].astype(np.uint8)
                    writer.add(row["ids"], marks, id=str(place), size=int(row["size"]))
            shutil.rmtree(cache)

    def killed(self) -> float:
        def disturbed() -> None:
            half = threading.Timer(self.undisturbed / 2, _kill_a_worker)
            half.start()
            self.prepared(2)
            half.cancel()

        self.undisturbed = wall_seconds(lambda: self.prepared(2))
        return self.ratio(disturbed, lambda: self.prepared(2))

    def again(self) -> float:
        words = [
            "corpus=jsonl",
            f"corpus.sources.text.documents.path={self.corpora['prose']}",
            "segmenter@corpus.sources.text.segmenter=sentences",
            "tokenizer@corpus.tokenizer=load",
            f"corpus.tokenizer.path={self.scratch / 'tokenizer'}",
            f"out={self.scratch / 'again'}",
        ]
        command = [sys.executable, "-m", "train.cli", "prepare", *words]
        run = functools.partial(subprocess.run, command, check=True, capture_output=True)
        return round(medians(run, rounds=self.rounds, seconds=wall_seconds)[0], 3)

    def ratio(self, one: Callable[[], Any], two: Callable[[], Any]) -> float:
        """Return the seconds of one thing over those of another, done in turns."""
        first, second = medians(one, two, rounds=self.rounds, seconds=wall_seconds)
        return round(first / second, 3)


def _description(tokenizer: Tokenizer, segmenter: Segmenter) -> dict[str, Any]:
    return {"tokenizer": tokenizer.fingerprint(), "segmenter": segmenter.fingerprint()}


def _bare(
    tokenizer: Tokenizer, documents: Iterable[Document], encode: Callable[..., list[Any]]
) -> None:
    for batch in _batches(documents):
        chunks = [part.content for part in tokenizer.parts([document.text for document in batch])]
        for encoding in encode(chunks, add_special_tokens=False):
            encoding.ids  # noqa: B018  a list is made when it is asked for


def _write_part(job: tuple[Any, ...]) -> None:
    bench, reader, part, segmenter, folder = job
    bench.write(bench.tokenizer(), reader.read_part(part), segmenter, folder)


def _map_batch(batch: dict[str, list[str]], tokenizer: Tokenizer, segmenter: Segmenter) -> Any:
    made: dict[str, list[Any]] = {"ids": [], "marks": [], "size": []}
    encoded = tokenizer.encode_batch(batch["text"])
    for text, (ids, anchors) in zip(batch["text"], encoded, strict=True):
        made["ids"].append(np.append(ids, tokenizer.eos_id))
        made["marks"].append(np.append(mark(anchors, [segmenter.cut(text)]), np.uint8(0)))
        made["size"].append(len(text.encode()))
    return made


def _batches(documents: Iterable[Document]) -> Iterable[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _kill_a_worker() -> None:
    """Kill a grandchild: workers are children of the fork server."""
    workers = set(children(os.getpid())) - set(children(os.getpid(), deep=False))
    if workers:
        os.kill(min(workers), signal.SIGKILL)


def _corpus(files: list[Path], target: Path, size: int) -> Path:
    """Lines of the files, or modules of the standard library, until they have `size` bytes."""
    texts: Iterable[str]
    if files:
        lines = (line for file in files for line in file.open(encoding="utf-8"))
        texts = (json.loads(line)["text"] for line in lines)
    else:
        texts = (document.text for document in PackageCode(packages=["stdlib"]))
    written = 0
    with target.open("w", encoding="utf-8") as out:
        for text in texts:
            line = json.dumps({"text": text[: size - written]})
            out.write(line + "\n")
            written += len(line)
            if written >= size:
                break
    return target


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--prose", nargs="*", type=Path, default=[], metavar="FILE.jsonl")
    parser.add_argument("--code", nargs="*", type=Path, default=[], metavar="FILE.jsonl")
    parser.add_argument("--megabytes", type=float, default=40, help="of each corpus")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=MEASURES, choices=MEASURES)
    parser.add_argument("--scratch", type=Path, help="a folder on the disk to measure")
    return parser.parse_args()


if __name__ == "__main__":
    main()
