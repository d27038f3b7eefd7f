"""Marks token by token against marks of the whole text, and what a token costs.

    python -m benchmarks.online [--prose FILE ...] [--code FILE ...] [--coq FILE ...] [--tokens N]

A FILE is text or JSON lines with a field `text`, either gzipped; for Coq, lines whose `id` has
another suffix than .v are left out. Without files, prose is the documentation and the licences
that the installed packages ship, and code is their Python; Coq, chains of thought and arithmetic
are generated. For each kind, a byte-level BPE is trained on its text as `TrainBPE` does, the text
is encoded document by document, and every token is pushed alone. Prints JSON lines: tokens, marks
that are not those of the batch, the most tokens that waited for their mark at once, microseconds
of CPU time a token in short documents and at the end of one document of all the tokens (the cost
must not grow with the text, so their ratio is printed), bytes of the pickled state there, and the
share of wrong marks of the `IdTable` of the vocabulary, with that of the marks of segments.
"""

from __future__ import annotations

import argparse
import gzip
import json
import pickle
import random
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segmenters import (
    ArithmeticSteps,
    ChainOfThought,
    Coq,
    Lines,
    Newline,
    Official,
    Online,
    Segmenter,
    Sentences,
    mark,
)
from segmenters.align import SEGMENT, byte_alphabet
from segmenters.streaming.id_table import IdTable
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import TrainBPE
from train.tasks.arithmetic.chains import ArithmeticChains

_CHARACTERS_A_TOKEN = 8  # read so many characters for each token that is asked for
_SPAN = 1_000  # tokens at the start of a text, and at its end, whose cost is compared


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What is measured: a segmenter on documents of its kind."""

    segmenter: Segmenter
    texts: Callable[[int], list[str]]


def documents(files: Iterable[Path], suffix: str = "") -> Iterator[str]:
    """Return the texts of the files in order; of JSON lines, those whose `id` has the suffix."""
    for file in files:
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rt", encoding="utf-8", errors="replace", newline="") as stream:
            if ".jsonl" not in file.suffixes:
                yield stream.read()
                continue
            for record in map(json.loads, stream):
                if str(record.get("id", suffix)).endswith(suffix):
                    yield record["text"]


def installed(*suffixes: str) -> list[Path]:
    """Files of the standard library and of the installed packages, in a random, fixed order."""
    paths = sysconfig.get_paths()
    folders = dict.fromkeys(Path(paths[key]) for key in ("stdlib", "purelib"))
    found = {file for folder in folders for file in folder.rglob("*") if file.suffix in suffixes}
    order = sorted(found)
    random.Random(0).shuffle(order)
    return order


def taken(texts: Iterable[str], characters: int) -> list[str]:
    """Documents of so many characters in all; the last one is cut off."""
    chosen: list[str] = []
    for text in texts:
        if not text.strip():
            continue
        chosen.append(text[:characters])
        characters -= len(chosen[-1])
        if characters <= 0:
            break
    return chosen


def thoughts() -> Iterator[str]:
    """Worked answers: labelled steps of sentences and equations, in several styles."""
    for number in range(100_000):
        draw = random.Random(number)
        style = draw.choice(["Step {}: ", "{}. ", "({}) ", "**Step {}.** ", "", "- "])
        lines = [f"Question: what is {draw.randrange(99)} plus {draw.randrange(99)}?\n"]
        for step in range(1, draw.randint(3, 9)):
            label = style.format(step)
            lines.append(label + " ".join(_sentence(draw) for _ in range(draw.randint(1, 4))))
        lines.append(f"Answer: {draw.randrange(99)}.")
        yield draw.choice(["\n", "\n\n", "\r\n"]).join(lines)


def _sentence(draw: random.Random) -> str:
    left, right = draw.randrange(99), draw.randrange(9)
    return draw.choice(
        [
            f"We add {left} and {right}, i.e. {left} + {right} = {left + right}.",
            f"Note that x = {left}.{right} by Lemma {right}.",
            f"Why? Because {left} > {right}!",
            f"So (cf. Sec. {right}) we have y = {left}.",
            f"\u56e0\u6b64 {left}\u3002\u7136\u540e {right}\uff01",
            f"Case {right}. Then it holds \U0001f600 \u2234 {left} \u2264 {left + right}.",
        ]
    )


def vernacular() -> Iterator[str]:
    """Scripts of Coq with nested comments, strings, bullets, braces and selected goals."""
    for number in range(100_000):
        draw = random.Random(number)
        lines = ['Require Import Arith. (* "a. b" (* nested. *) *)']
        for lemma in range(draw.randint(2, 12)):
            lines.append(f"Lemma l{lemma} : forall n m, n + {draw.randrange(9)} = m -> n <= m.")
            lines.append("Proof.\n  intros n m H. destruct n as [|n'].")
            for bullet in draw.choice(["-+", "*-", "--"]):
                lines.append(f"  {bullet} rewrite H.1. simpl; auto. {{ lia. }} (* done. *)")
            lines.append(draw.choice(["  all: { trivial. }", '  2: { idtac "x. y". }', "  .."]))
            lines.append(draw.choice(["Qed.", "Defined.", "Admitted."]) + "\n")
        yield "\n".join(lines)


def arithmetic() -> Iterator[str]:
    chains = ArithmeticChains(documents=10_000, chains=40, operators=(1, 6))
    return (document.text for document in chains.read())


def measure(kind: Kind, *, tokens: int, vocabulary: int) -> dict[str, Any]:
    """Return what is printed of one kind."""
    texts = kind.texts(tokens * _CHARACTERS_A_TOKEN)
    tokenizer = TrainBPE(vocab_size=vocabulary).build(lambda limit: texts)
    pieces = pieces_of(tokenizer)
    count = wrong = segments = waited = 0
    seconds, read, known = 0.0, [], []
    for text in texts:
        ids, anchors = tokenizer.encode_batch([text])[0]
        batch = mark(anchors, (kind.segmenter.cut(text),))
        spelt = [pieces[id] for id in ids]
        begin = time.process_time()
        found, most = followed(kind.segmenter, spelt)
        seconds += time.process_time() - begin
        wrong += int((np.array(found, dtype=np.uint8) != batch).sum())
        segments += int((batch & SEGMENT > 0).sum())
        waited, count = max(waited, most), count + len(ids)
        read += spelt
        known.append(text)
        if count >= tokens:
            break
    table = IdTable.compile(pieces, kind.segmenter)
    table = table.measured(known, lambda text: tokenizer.encode_batch([text])[0][0].tolist())
    assert table.disagreement is not None
    return {
        "tokens": count,
        "segments": segments,
        "disagreements": wrong,
        "most_waiting": waited,
        "us_a_token": round(seconds / count * 1e6, 2),
        **one_document(kind.segmenter, read),
        "id_table_wrong": round(table.disagreement, 6),
        "id_table_wrong_a_segment": round(table.disagreement * count / segments, 6),
    }


def pieces_of(tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes of each id; special tokens have none."""
    alphabet = byte_alphabet()
    special = tokenizer.fast.get_added_tokens_decoder()
    found = [b""] * tokenizer.vocab_size
    for piece, id in tokenizer.fast.get_vocab().items():
        if id not in special:
            found[id] = bytes(alphabet[char] for char in piece)
    return found


def followed(segmenter: Segmenter, pieces: Iterable[bytes]) -> tuple[list[int], int]:
    """Return the marks of the pieces, pushed one by one, and how many waited at most."""
    online, marks, most = Online(segmenter=segmenter), [], 0
    for piece in pieces:
        marks += online.push(piece)
        most = max(most, online.waiting)
    return marks + online.finish(), most


def one_document(segmenter: Segmenter, pieces: list[bytes]) -> dict[str, Any]:
    """Cost of the same span of tokens at the start and at the end of one document of all tokens."""
    online, span, half = Online(segmenter=segmenter), pieces[:_SPAN], len(pieces) // 2
    first = cheapest(online, span)
    for piece in pieces:
        online.push(piece)
    last = cheapest(online, span)
    # And as one line without an end, as long as the tokens are many.
    line = Online(segmenter=segmenter)
    early = cheapest(line, [b" word"] * _SPAN)
    for _ in range(half):
        line.push(b" word")
    late = cheapest(line, [b" word"] * _SPAN)
    return {
        "end_to_start": round(last / first, 2),
        "line_end_to_start": round(late / early, 2),
        "state_bytes": max(len(pickle.dumps(online)), len(pickle.dumps(line))),
    }


def cheapest(online: Online, pieces: list[bytes]) -> float:
    """Seconds to push the pieces, the least of some tries from the same state."""
    tries = []
    for _ in range(5):
        twin = online.copy()
        begin = time.process_time()
        for piece in pieces:
            twin.push(piece)
        tries.append(time.process_time() - begin)
    return min(tries)


def kinds(options: argparse.Namespace) -> dict[str, Kind]:
    """Return what is measured, by name."""
    prose = options.prose or installed(".txt", ".md", ".rst")
    code = options.code or installed(".py")

    def of(files: list[Path], suffix: str = "") -> Callable[[int], list[str]]:
        return lambda size: taken(documents(files, suffix), size)

    def made(texts: Callable[[], Iterator[str]]) -> Callable[[int], list[str]]:
        return lambda size: taken(texts(), size)

    python = Lines(granularity="logical", language="python")
    coq = of(options.coq, ".v") if options.coq else made(vernacular)
    return {
        "sentences": Kind(segmenter=Sentences(backend="rules"), texts=of(prose)),
        "newline": Kind(segmenter=Newline(), texts=of(prose)),
        "official": Kind(segmenter=Official(), texts=of(prose)),
        "physical lines": Kind(segmenter=Lines(), texts=of(code)),
        "python lines": Kind(segmenter=python, texts=of(code)),
        "arithmetic": Kind(segmenter=ArithmeticSteps(), texts=made(arithmetic)),
        "chains of thought": Kind(segmenter=ChainOfThought(), texts=made(thoughts)),
        "coq": Kind(segmenter=Coq(), texts=coq),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("prose", "code", "coq"):
        parser.add_argument(f"--{name}", nargs="+", type=Path, metavar="FILE", default=[])
    parser.add_argument("--tokens", type=int, default=50_000, help="of each kind, at least")
    parser.add_argument("--vocabulary", type=int, default=4096, help="pieces of the tokenizer")
    parser.add_argument("--only", nargs="+", metavar="KIND", help="these kinds alone")
    options = parser.parse_args()
    known = kinds(options)
    if wrong := set(options.only or ()) - set(known):
        parser.error(f"--only must be of {', '.join(known)}, was: {', '.join(sorted(wrong))}")
    for name in options.only or known:
        found = measure(known[name], tokens=options.tokens, vocabulary=options.vocabulary)
        print(json.dumps({"kind": name, **found}), flush=True)


if __name__ == "__main__":
    main()
