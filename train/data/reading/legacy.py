"""Which old encoding some bytes have, where that is certain: Latin-1 and its kin, CJK, Cyrillic ...

Each encoding gives a reading of the pieces between white space that are not ASCII. A word speaks
for a reading if it is a stop word (spaCy's, of some sixty languages) of the language that the
reading seems to have; a letter that this language does not use, a sign inside a word, an upper-case
letter after a lower-case one and a rare ideograph speak against it. A reading is certain if it has
enough evidence against each other one where the two differ: French in Windows-1252 is not taken for
Czech, and a name alone is not certain.
"""

import codecs
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

UTF8 = "utf-8"
# Variants of one encoding are one entry: the first that can decode the bytes is taken.
_ENCODINGS = """
cp1252 iso8859_15 mac_roman cp850 cp437 cp860 cp863 cp865 cp857 cp775 mac_latin2 mac_turkish cp1250
iso8859_2 iso8859_16 cp852 cp1251 koi8_r koi8_u iso8859_5 cp866 mac_cyrillic cp1253 iso8859_7 cp1254
cp1255 cp1256 iso8859_6 cp1257 iso8859_13 cp1258 cp874 shift_jis/cp932 euc_jp gb18030
big5/cp950/big5hkscs euc_kr/cp949
"""
# First bytes of the common ideographs (the first level of each standard); Korean text has few.
_COMMON = {"gb18030": (0xB0, 0xD7), "euc_jp": (0xB0, 0xCF)}
_COMMON |= dict.fromkeys(("shift_jis", "cp932"), (0x88, 0x98))
_COMMON |= dict.fromkeys(("big5", "cp950", "big5hkscs"), (0xA4, 0xC6))
_COMMON |= dict.fromkeys(("euc_kr", "cp949"), (0, 0))
_KOREAN = ("euc_kr", "cp949")
_JAPANESE = ("shift_jis", "cp932", "euc_jp")

_PIECE = re.compile(rb"[^\x00-\x20]*[\x80-\xff][^\x00-\x20]*")
_ASCII_WORD = re.compile(rb"(?<![\x80-\xff\\A-Za-z])[a-z]+(?![\x80-\xffA-Za-z])")
_DECLARED = re.compile(rb"(?:coding[:=]|charset=|encoding=)[ \"']*([-\w]+)")
_HEAD = 1024  # bytes in which a declaration stands
_PIECES, _SAMPLE = 2000, 1 << 16  # number and bytes of the pieces that are looked at
_WORD = re.compile("[^\\W\\d_](?:[^\\W\\d_]|[\u0300-\u036f\u0900-\u0e7f])*")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff]+|[\u0e00-\u0e7f]+|[\uac00-\ud7a3]+")
_IDEOGRAPH = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_KANA = re.compile("[\u3040-\u30ff]")
_FONT = re.compile(r"\\f.")  # of manual pages
_JOINED = re.compile("[a-z][\u3400-\u9fff\uac00-\ud7a3]")
_PLAIN_SIGNS = (
    "\xa0\xa1\xa3\xa7\xa9\xab\xad\xae\xb0\xb7\xbb\xbf\u200b-\u200f\u2013\u2014\u2018-\u201e"
    "\u2022\u2026\u2032\u2033\u2039\u203a"
)
_WITHIN = "\xa1\xa3\xa7\xa9\xab\xae\xb0\xbb\xbf\u201a\u201c-\u201e\u2020-\u2022\u2026\u20ac"

# Weights and bounds, chosen so that no certain reading of excerpts in 27 languages was wrong.
_SIGN = 3  # weight of what no word has; a letter of another language has 1
_HITS, _WORDS, _MANY_WORDS = 3, 8, 20  # stop words that are not ASCII, or with those that are
_EVIDENCE, _MORE_EVIDENCE = 3, 6  # the latter with fewer such hits
_RATIO = 20  # of evidence for a reading to that against it
_FAULTS = 0.05  # per piece
_STRANGE, _LONG = 0.15, 20  # share of pieces of CJK text; characters


class Reading(NamedTuple):
    """The pieces as an encoding reads them; for each, its stop words and the weight of its faults.

    spells: the letters of `language` all exist in the encoding. words: the stop words of it that
    are ASCII.
    """

    name: str
    pieces: list[str]
    language: str
    words: int
    spells: bool
    hits: list[set[str]]
    faults: list[int]

    @property
    def worth(self) -> int:
        return sum(map(len, self.hits)) - sum(self.faults)

    def plausible(self) -> bool:
        hits = sum(map(len, self.hits))
        known = hits >= _HITS or (self.spells and hits + self.words >= _WORDS)
        if self.name in _COMMON:
            return known and self._strange() <= _STRANGE * len(self.pieces) + 1
        return known and sum(self.faults) <= _FAULTS * len(self.pieces) + 2

    def _strange(self) -> int:
        """Return the number of pieces that are long, or have faults, and that no stop word excuses.

        Korean has blanks, so that nothing excuses a long one.
        """
        korean = self.name in _KOREAN
        rows = zip(map(len, self.pieces), self.hits, self.faults, strict=True)
        return sum(
            (size > _LONG and (korean or not hits)) or (faults > 0 and not hits)
            for size, hits, faults in rows
        )

    def beats(self, other: "Reading") -> bool:
        """Return whether the evidence where two readings differ is for this one."""
        tie = self.language == other.language and self.spells > other.spells
        good = bad = differing = 0
        rows = zip(self.pieces, other.pieces, self.hits, other.hits, strict=True)
        for row, (piece, its, hits, others) in enumerate(rows):
            if piece != its:
                worse = other.faults[row] - self.faults[row]
                good += len(hits - others) + max(0, worse)
                bad += len(others - hits) + max(0, -worse)
                good += tie and hits == others and not worse
                differing += 1
        least = _EVIDENCE if self.words >= _MANY_WORDS else _MORE_EVIDENCE
        least = min(_EVIDENCE, 2 * differing) if sum(map(len, self.hits)) >= _HITS else least
        return good >= max(least, _RATIO * (bad - 1))


def certain(data: bytes) -> tuple[str | None, list[str]]:
    """Return the encoding of bytes that are not UTF-8, if it is certain; and the likely ones."""
    pieces = _pieces(data)
    readings = sorted(_readings(pieces, _words(data)), key=lambda one: -one.worth)
    best = readings[0]
    likely = [one.name for one in readings[:3] if one.plausible() and one.name != UTF8][:2]
    name = _declared(data, best, pieces)
    if name is None and best.name != UTF8 and best.plausible():
        name = best.name if all(map(best.beats, readings[1:])) else None
    try:
        return name if name is None or data.decode(name) else None, likely
    except UnicodeDecodeError:
        return None, likely


def _declared(data: bytes, best: Reading, pieces: list[bytes]) -> str | None:
    """Return the encoding that the head of a file declares, if it gives the best reading."""
    for found in _DECLARED.findall(data[:_HEAD]):
        try:
            name = codecs.lookup(found.decode()).name
            name = "cp1252" if name == "iso8859-1" else name  # as in browsers
            if [piece.decode(name) for piece in pieces] == best.pieces:
                return name
        except (LookupError, UnicodeDecodeError):
            continue
    return None


def _pieces(data: bytes) -> list[bytes]:
    """Return the first different pieces, and for each other byte above 127 one that has it."""
    found: dict[bytes, None] = {}
    size = 0
    for each in _PIECE.finditer(data):
        size += len(each[0]) * (each[0] not in found)
        found[each[0]] = None
        if len(found) == _PIECES or size >= _SAMPLE:
            break
    seen = {byte for piece in found for byte in piece}
    for byte in {*range(128, 256)} - seen:
        if (at := data.find(byte)) >= 0:
            start = max(data.rfind(end, 0, at) for end in (b"\n", b" ", b"\t")) + 1
            if match := _PIECE.match(data, start):
                found[match[0]] = None
    return [*found]


def _words(data: bytes) -> set[str]:
    """Return the stop words that are ASCII in the first lines that are not."""
    lines = (line for line in data[: 4 * _SAMPLE].split(b"\n") if not line.isascii())
    return {word for line in lines for word in map(bytes.decode, _ASCII_WORD.findall(line))}


def _readings(pieces: list[bytes], words: set[str]) -> Iterator[Reading]:
    """Yield the different readings; what an encoding cannot decode is U+FFFD in its pieces."""
    yield _reading(UTF8, [piece.decode(UTF8, "replace") for piece in pieces], words)
    seen = set[tuple[str, ...]]()
    for variants in _ENCODINGS.split():
        names = variants.split("/")
        name = next((name for name in names if _decodes(name, pieces)), names[-1])
        read = [piece.decode(name, "replace") for piece in pieces]
        if tuple(read) not in seen:
            seen.add(tuple(read))
            yield _reading(name, read, words)


def _decodes(name: str, pieces: list[bytes]) -> bool:
    try:
        return all(piece.decode(name) for piece in pieces)
    except UnicodeDecodeError:
        return False


def _reading(name: str, pieces: list[str], words: set[str]) -> Reading:
    hits, faults, letters = zip(*(_evidence(name, piece) for piece in pieces), strict=True)
    languages = Counter(one for found in (*hits, words) for w in found for one in _known(w))
    top = max(languages, key=lambda one: (languages[one], one), default="")
    own, alphabet = _stop_words().get(top, frozenset()), _alphabet(top)
    return Reading(
        name=name,
        pieces=pieces,
        language=top,
        words=len(words & own),
        spells=_spells(name, top),
        hits=[found & own for found in hits],
        faults=[n + len(used - alphabet) for n, used in zip(faults, letters, strict=True)],
    )


def _evidence(name: str, piece: str) -> tuple[set[str], int, set[str]]:
    """Return the stop words of a piece, the weight of its faults, and its letters."""
    text = unicodedata.normalize("NFC", _FONT.sub("", piece))
    signs = _SIGN * len(_odd().findall(text))
    text = _folded(text.replace("\xb5", "u"))  # micro is no letter of a language
    wide = sum(map(len, _WIDE.findall(text)))
    faults = signs + (len(_JOINED.findall(text)) if wide < 2 else 0)
    faults += sum(_rare(one, name) for one in _IDEOGRAPH.findall(text))
    if name in _COMMON and name not in _JAPANESE:
        faults += len(_KANA.findall(text))
    words = {w for w in _WORD.findall(text) if len(w) > 1 and not w.isascii()}
    for run in _WIDE.findall(text):
        sizes = (1, 2, 3) if run[0] >= "\uac00" else (2, 3, 4)
        words |= {run[i : i + n] for n in sizes for i in range(len(run) - n + 1)}
    letters = {c for c in _WIDE.sub("", text) if c.isalpha() and c > "\xbf"}
    return set() if signs else {word for word in words if _known(word)}, faults, letters


@cache
def _stop_words() -> dict[str, frozenset[str]]:
    """Return the stop words of spaCy by language; its files are read and not imported."""
    made = {}
    for path in sorted(_folder().glob("*/stop_words.py")):
        code = re.sub(r"#.*|^(from|import|def|stop|    \S+ = ).*", "", _code(path), flags=re.M)
        made[path.parent.name] = frozenset(_WORD.findall(code))
    return made


def _folder() -> Path:
    spec = find_spec("spacy")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0], "lang")


def _code(path: Path) -> str:
    return _folded(path.read_text(encoding="utf-8"))


def _folded(text: str) -> str:
    """Return a text in lower case, with a comma below for Romanian's cedilla: both are in use."""
    return unicodedata.normalize("NFC", text).casefold().translate({0x15F: 0x219, 0x163: 0x21B})


@cache
def _languages() -> dict[str, list[str]]:
    made = defaultdict(list)
    for language, words in _stop_words().items():
        for word in words:
            made[word].append(language)
    return dict(made)


def _known(word: str) -> Sequence[str]:
    return _languages().get(word, ())


@cache
def _alphabet(language: str) -> frozenset[str]:
    """Return the letters in all that spaCy has of a language: examples, numbers, exceptions."""
    code = "".join(map(_code, (_folder() / language).glob("*.py"))) if language else ""
    return frozenset(c for c in code if c.isalpha() and not c.isascii())


@cache
def _spells(name: str, language: str) -> bool:
    try:
        return "".join(_stop_words().get(language, ())).encode(name) is not None
    except UnicodeEncodeError:
        return False


@cache
def _rare(ideograph: str, name: str) -> bool:
    if name not in _COMMON:
        return False
    first, last = _COMMON[name]
    return not first <= ideograph.encode(name, "replace")[0] <= last


@cache
def _odd() -> re.Pattern[str]:
    """Return an expression for what no word has: signs, other scripts and capitals inside."""
    above = [chr(code) for code in range(0x80, 0x3000)]
    upper = "".join(filter(str.isupper, above))
    lower = "".join(filter(str.islower, above))
    words = {"Mn", "Mc", "Zs", "Zl", "Zp", "Nd", "Po", "Lm"}
    plain = re.compile(f"[{_PLAIN_SIGNS}]")
    signs = [c for c in above if not c.isalpha() and unicodedata.category(c) not in words]
    sign = "".join(re.escape(c) for c in signs if not plain.match(c))
    letter, latin, other = r"[^\W\d_]", "[A-Za-z\xc0-\u024f\u1e00-\u1eff]", "[\u0370-\u1dff]"
    return re.compile(
        f"^[{sign}]$|\\d[^\\W\\d_A-Za-z\xaa\xba\u3040-\ud7a3]|{letter}[{sign}]|[{sign}]{letter}|"
        f"[a-z{lower}][{upper}]|[{lower}][A-Z]|"
        f"{letter}[{_WITHIN}]{letter}|{latin}{other}|{other}{latin}|"
        "[\x80-\x9f\xa4\ue000-\uf8ff\ufffd\uff61-\uff9f]"
    )
