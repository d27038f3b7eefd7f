"""From bytes to text: byte-order marks, UTF-8, UTF-16, UTF-32, older encodings, and no text at all.

UTF-8 is the fast path: bytes that are valid in it are read as such, unless many of them are zero or
control characters, which is UTF-16 or a binary file.
"""

import codecs
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from train.data.reading.documents import REPLACEMENT
from train.data.reading.legacy import UTF8, certain
from train.errors import DataError

Encoding = str | Sequence[str]
AUTO = "auto"
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
_MARKS = {
    codecs.BOM_UTF8: [UTF8],
    codecs.BOM_UTF32_LE: ["utf-32", "utf-16"],  # it begins with the next one: UTF-16 and a zero
    codecs.BOM_UTF16_LE: ["utf-16"],
    codecs.BOM_UTF32_BE: ["utf-32"],
    codecs.BOM_UTF16_BE: ["utf-16"],
}
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
_SHIFTED = {b"\x1b$)C": "iso2022_kr", b"\x1b$": "iso2022_jp_ext"}  # escapes to two bytes each
_CONTROLS = bytes({*range(1, 32)} - {*b"\b\t\n\v\f\r\x1a\x1b"})
_MANY_CONTROLS, _MANY_ZEROS = 16, 50  # one in so many bytes
_HEAD = 1 << 14  # bytes in which control characters are counted
# Times as many ASCII characters as in the other byte order; bytes of which too few are no evidence.
_CLEARLY, _FEW = 10, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The text of some bytes.

    encoding: "" for UTF-8. replaced: number of characters replaced by U+FFFD, `first`: the byte of
    the first one. zeros: number of zero bytes, and of control characters if these are many.
    likely: encodings of which none is certain.
    """

    text: str
    encoding: str = ""
    replaced: int = 0
    first: int = 0
    zeros: int = 0
    likely: Sequence[str] = ()


def decode(data: bytes, *, encoding: Encoding = AUTO) -> Decoded:
    """Decode bytes; a byte-order mark overrides `encoding`.

    encoding: a name, or names of which the first that fits is used; "auto" is UTF-8, else what is
    certain. Where none fits, bad bytes become U+FFFD.
    """
    marked = (names for mark, names in _MARKS.items() if data.startswith(mark))
    names = next(marked, names_of(encoding))
    others = [name for name in names if name != AUTO]
    if AUTO in names:
        found = _automatic(data)
        return named(data, others) if found.replaced and others else found
    return named(data, others)


def names_of(encoding: Encoding) -> list[str]:
    return [encoding] if isinstance(encoding, str) else [*encoding]


def _automatic(data: bytes) -> Decoded:
    zeros = _zeros(data)
    try:
        text = data.decode(UTF8)
    except UnicodeDecodeError as fault:
        name, likely = (wide(data), []) if zeros else certain(data)
        if name is None:
            return replace(_replaced(data, UTF8, fault.start), zeros=zeros, likely=likely)
    else:
        name = wide(data) if zeros * _MANY_ZEROS > len(data) else _shifted(data)
        if name is None:
            return Decoded(text=text, zeros=zeros)
    return Decoded(text=data.decode(name), encoding=name)


def named(data: bytes, names: Sequence[str]) -> Decoded:
    """Decode bytes by the first encoding that fits, else by the one that replaces the fewest."""
    broken = []
    for name in names:
        try:
            text = data.decode(name).removeprefix(_BYTE_ORDER_MARK)
        except UnicodeDecodeError as fault:
            broken.append(_replaced(data, name, fault.start))
            continue
        shown = "" if codecs.lookup(name).name == UTF8 else name
        return Decoded(text=text, encoding=shown, zeros=text.count("\0"))
    return min(broken, key=lambda made: made.replaced)


class LineDecoder:
    """Decodes the lines of a file; what is not UTF-8 is by "auto" what the next lines are.

    sample: returns the bytes of some lines from an offset.
    """

    def __init__(self, encoding: Encoding, sample: Callable[[int], bytes]) -> None:
        self._others = [name for name in names_of(encoding) if name != AUTO]
        self._open = AUTO in names_of(encoding)
        self._names = [UTF8] if self._open else self._others
        self._sample = sample

    def decode(self, line: bytes, offset: int) -> Decoded:
        found = named(line, self._names)
        if found.replaced and self._open:
            self._open = False
            name, _ = certain(self._sample(offset) or line)
            self._names = [UTF8, *filter(None, [name]), *self._others]
            return named(line, self._names)
        return found


def check_encoding(encoding: Encoding) -> None:
    """Raise DataError for an encoding that Python does not know."""
    for name in names_of(encoding) or [""]:
        try:
            b"text".decode(UTF8 if name == AUTO else name, "replace")
        except (LookupError, TypeError):
            known = "auto, a name such as utf-8, cp1252, shift_jis or gb18030, or a list of these"
            raise DataError(f"encoding must be {known}, was: {name or encoding}") from None


def wide(data: bytes, *, whole: bool = True) -> str | None:
    """Return which of UTF-16 and UTF-32 bytes are, with a mark or not; None if it is not certain.

    whole: False for the beginning of a file.
    """
    for mark, names in _MARKS.items():
        if data.startswith(mark) and names != [UTF8]:
            return next(
                (name for name in names if _plain(data, name, whole) is not None), names[-1]
            )
    if 0 not in data or len(data) < _FEW:
        return None
    found = {name: text for name in _WIDE if (text := _plain(data, name, whole)) is not None}
    # Text in any language has spaces, digits or line ends; the other byte order has hardly any.
    ascii = {name: sum(map(text.count, map(chr, range(128)))) for name, text in found.items()}
    name = max(ascii, key=lambda each: ascii[each], default="")
    others = (count for other, count in ascii.items() if other != name)
    return name if name and ascii[name] > _CLEARLY * max(others, default=0) else None


def _plain(data: bytes, name: str, whole: bool) -> str | None:
    """Return the text in an encoding if all characters are assigned, and none is a control."""
    try:
        text = codecs.getincrementaldecoder(name)().decode(data, whole)
    except UnicodeDecodeError:
        return None
    odd = "".join(map(chr, (0, *_CONTROLS)))
    fine = all(unicodedata.category(one) not in ("Cn", "Co") for one in {*text})
    return text if fine and not {*text} & {*odd} else None


def _shifted(data: bytes) -> str | None:
    """Return which encoding of seven bits with escapes, such as ISO-2022-JP, bytes are."""
    for escape, name in _SHIFTED.items() if 0x1B in data else ():
        try:
            if escape in data and not data.decode(name).isascii():
                return name
        except UnicodeDecodeError:
            continue
    return None


def _zeros(data: bytes) -> int:
    head = data[:_HEAD]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    zeros = data.count(0) if 0 in data else 0
    return zeros + (controls if controls * _MANY_CONTROLS > len(head) else 0)


def _replaced(data: bytes, name: str, first: int) -> Decoded:
    text = data.decode(name, "replace")
    # UTF-8 resynchronises at each lead byte, so that genuine U+FFFD keep their three bytes.
    genuine = data.count(REPLACEMENT.encode()) if name == UTF8 else 0
    return Decoded(
        text=text.removeprefix(_BYTE_ORDER_MARK),
        replaced=text.count(REPLACEMENT) - genuine,
        first=first,
        zeros=text.count("\0"),
    )
