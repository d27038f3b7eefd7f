"""Text for `benchmarks.answers`: documents of seven sources, the same for every arm of a study.

    python -m benchmarks.answers_text FOLDER --folder TEXTS [--check FILE.json]

Debian packages are fetched with `apt-get download` and unpacked with `dpkg -x`, without root. Prose
and LaTeX come from TEXTS/prose.jsonl.gz and TEXTS/latex.jsonl.gz (rows with a key `text`), Python
from the installed packages. Nothing is committed but this script and the sha256 of what it wrote.

Every source follows one rule. Files of a package, and works of a collection, are joined in order
until a document has SIZE characters; a longer file is cut behind a blank line. So each document is
longer than 16 rows of 512 tokens. Prose is unwrapped: line ends within a paragraph are spaces, for
else newlines would be those of the printer. Documents are drawn by a hash of their id: HELD for
tests, VALIDATION, and the rest for training, up to the source's share of CHARACTERS. Documents of
one book or package may be in training and test. FOLDER/quarter has a quarter of the training text
and the same held-out documents.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from train.disk.files import write_whole

SIZE = 48_000  # characters of a document, at least
HELD, VALIDATION = 24, 2  # documents of a source
CHARACTERS = 100_000_000  # of all sources
MANIFEST = "manifest.json"
_NEAR = 24_000  # characters in which a blank line is looked for
Text = tuple[str, str]  # id, text

_MATHCOMP = ("ssreflect", "fingroup", "algebra", "solvable", "field", "character", "analysis")
_COQ = ("stdlib", "corn", "coquelicot", "iris", "stdpp", "math-classes", "flocq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a source is read. share: of the tokens of a run; suffixes: of files."""

    share: float
    segmenter: str  # its natural segments
    debian: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    code: bool = False
    unwrapped: bool = False


SOURCES = {
    "prose": Origin(share=0.2, segmenter="Sentences", unwrapped=True),
    "latex": Origin(share=0.2, segmenter="LaTeXProofs"),
    "coq": Origin(
        share=0.15,
        segmenter="Coq",
        debian=(
            *(f"libcoq-{name}" for name in _COQ),
            *(f"libcoq-mathcomp-{name}" for name in _MATHCOMP),
        ),
        suffixes=(".v",),
    ),
    "hol": Origin(share=0.1, segmenter="Hol", debian=("hol-light",), suffixes=(".ml", ".hl")),
    "python": Origin(
        share=0.15,
        segmenter="Lines",
        installed=("torch", "sympy", "numpy", "pandas", "lightning", "hydra", "datasets"),
        suffixes=(".py",),
        code=True,
    ),
    "c": Origin(share=0.1, segmenter="Lines", debian=("gnulib",), suffixes=(".c",), code=True),
    "rust": Origin(
        share=0.1, segmenter="Lines", debian=("rust-src",), suffixes=(".rs",), code=True
    ),
}


def build(folder: Path, texts: Path | None, characters: int = CHARACTERS) -> dict[str, Any]:
    """Write the documents of all sources; return, and write, how many and their sha256."""
    made: dict[str, Any] = {}
    for name, origin in SOURCES.items():
        documents = drawn(name, joined(files_of(name, origin, folder, texts), SIZE))
        if len(documents) < HELD + VALIDATION + 1:
            raise SystemExit(f"{name}: {len(documents)} documents are too few to hold {HELD} out")
        held, training = documents[: HELD + VALIDATION], documents[HELD + VALIDATION :]
        limits = {".": origin.share * characters, "quarter": origin.share * characters / 4}
        total = sum(len(text) for _, text in training)
        limits["quarter"] = min(limits["quarter"], total / 4)
        made[name] = {
            "test": [id for id, _ in held[:HELD]],
            "validation": [id for id, _ in held[HELD:]],
            "written": {
                part: written(folder / part / f"{name}.jsonl", held, training, limit)
                for part, limit in limits.items()
            },
        }
        print(f"{name}: {made[name]['written']['.']}", flush=True)
    write_whole(folder / MANIFEST, json.dumps(made, indent=1) + "\n")
    return made


def written(path: Path, held: Sequence[Text], training: Iterable[Text], limit: float) -> Any:
    """Write one source: its held-out documents, and others until there are enough characters."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines, size, number = [_line(each) for each in held], 0, 0
    for each in training:
        if size >= limit:
            break
        lines.append(_line(each))
        size, number = size + len(each[1]), number + 1
    whole = "".join(lines)
    write_whole(path, whole)
    digest = hashlib.sha256(whole.encode()).hexdigest()
    return {"training_documents": number, "training_characters": size, "sha256": digest}


def _line(document: Text) -> str:
    return json.dumps({"id": document[0], "text": document[1]}) + "\n"


def drawn(source: str, documents: Iterable[Text]) -> list[Text]:
    """Return documents in an order that depends on nothing but their ids."""
    return sorted(
        documents, key=lambda each: hashlib.sha256(f"{source} {each[0]}".encode()).digest()
    )


def joined(files: Iterable[Text], size: int) -> Iterator[Text]:
    """Join short files and cut long ones, so that each document has `size` characters or more.

    The last document may be left without enough text: it is dropped.
    """
    first, held, length = "", list[str](), 0
    for id, text in files:
        for number, piece in enumerate(cut(text, size)):
            first = first or f"{id}#{number}"
            held.append(piece if piece.endswith("\n") else f"{piece}\n")
            length += len(held[-1])
            if length >= size:
                yield first, "\n".join(held)
                first, held, length = "", [], 0


def cut(text: str, size: int) -> Iterator[str]:
    """Cut a text of more than two sizes behind the first blank line after each size."""
    while len(text) > 2 * size:
        place = size
        for end in ("\n\n", "\n", " "):
            if (at := text.find(end, size, size + _NEAR)) >= 0:
                place = at + len(end)
                break
        yield text[:place]
        text = text[place:]
    yield text


def files_of(name: str, origin: Origin, folder: Path, texts: Path | None) -> Iterator[Text]:
    """Read the files of a source in a fixed order, each text once."""
    seen = set[bytes]()
    for id, text in _read(name, origin, folder, texts):
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        if digest not in seen and text.strip():
            seen.add(digest)
            yield id, re.sub(r"(?<!\n)\n(?!\n)", " ", text) if origin.unwrapped else text


def _read(name: str, origin: Origin, folder: Path, texts: Path | None) -> Iterator[Text]:
    for package in origin.debian:
        yield from _under(unpacked(package, folder / "debian"), package, origin.suffixes)
    for package in origin.installed:
        spec = find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            yield from _under(Path(place), package, origin.suffixes)
    if not origin.debian and not origin.installed:
        path = (texts or Path()) / f"{name}.jsonl.gz"
        if texts is None or not path.exists():
            raise SystemExit(f"{name}: give a folder with {path.name}, rows with `text`: --folder")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file):
                yield f"{name}/{number}", json.loads(line)["text"].replace("\r\n", "\n")


def _under(folder: Path, package: str, suffixes: tuple[str, ...]) -> Iterator[Text]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in suffixes and path.is_file() and not path.is_symlink():
            text = path.read_bytes().decode("utf-8", errors="ignore").replace("\r\n", "\n")
            yield f"{package}/{path.relative_to(folder).as_posix()}", text


def unpacked(package: str, folder: Path) -> Path:
    """Fetch and unpack a Debian package, unless that is done; return where its files are."""
    place = folder / "files" / package
    if not place.exists():
        (folder / "files").mkdir(parents=True, exist_ok=True)
        if not (found := sorted(folder.glob(f"{package}_*.deb"))):
            _run(["apt-get", "download", package], folder)
            found = sorted(folder.glob(f"{package}_*.deb"))
        part = folder / "files" / f"{package}.part"
        _run(["dpkg", "-x", str(found[-1].resolve()), str(part.resolve())], folder)
        part.rename(place)
    return place


def _run(words: list[str], folder: Path) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed: {done.stderr.strip()}")


def main(words: Sequence[str] | None = None) -> int:
    """Build the text; with --check, compare its sha256 with those of a study's results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="FOLDER")
    parser.add_argument("--folder", type=Path, help="prose.jsonl.gz and latex.jsonl.gz")
    parser.add_argument("--characters", type=float, default=CHARACTERS)
    parser.add_argument("--check", type=Path, help="results of a study")
    given = parser.parse_args(words)
    made = build(given.out, given.folder, int(given.characters))
    if given.check:
        known = json.loads(given.check.read_text(encoding="utf-8"))["text"]
        if other := [name for name in made if made[name]["written"] != known[name]["written"]]:
            print(f"differs from {given.check}: {', '.join(other)}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
