"""From bytes to text: byte-order marks, UTF-8, UTF-16, UTF-32, named encodings, and no text.

UTF-8 is the fast path: bytes that are valid in it are read as such, unless many of them are zero or
control characters, which is UTF-16 or a binary file. An older encoding is never assumed, since a
wrong one gives wrong text in silence: `fault_of` suggests one in the message of the refusal.
"""

import codecs
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO

from train.data.reading.documents import REPLACEMENT
from train.errors import DataError

Encoding = str | Sequence[str]
AUTO = "auto"
UTF8 = "utf-8"
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
_BLOCK, _SAMPLE = 1 << 20, 1 << 16  # bytes read at once, and from which an encoding is guessed


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The text of some bytes.

    encoding: "" for UTF-8. replaced: number of characters that are lost (U+FFFD, or escapes to
    another encoding). zeros: number of zero bytes, and of control characters if these are many.
    """

    text: str
    encoding: str = ""
    replaced: int = 0
    zeros: int = 0


def decode(data: bytes, *, encoding: Encoding = AUTO) -> Decoded:
    """Decode bytes; a byte-order mark overrides `encoding`.

    encoding: a name, or names of which the first that fits is used; "auto" is UTF-8, UTF-16 or
    UTF-32. Where none fits, bad bytes become U+FFFD.
    """
    marked = (names for mark, names in _MARKS.items() if data.startswith(mark))
    names = next(marked, names_of(encoding))
    others = [name for name in names if name != AUTO]
    if AUTO in names:
        decoded = _automatic(data)
        return decode_by(data, others) if decoded.replaced and others else decoded
    return decode_by(data, others)


def names_of(encoding: Encoding) -> list[str]:
    return [encoding] if isinstance(encoding, str) else [*encoding]


def _automatic(data: bytes) -> Decoded:
    zeros = _zeros(data)
    try:
        text = data.decode(UTF8)
    except UnicodeDecodeError:
        name = wide_encoding(data) if zeros else None
        if name is None:
            return replace(_replaced(data, UTF8), zeros=zeros)
    else:
        name = wide_encoding(data) if zeros * _MANY_ZEROS > len(data) else None
        if name is None:
            lost = data.count(escape) if (escape := _shifted(data)[0]) else 0
            return Decoded(text=text, zeros=zeros, replaced=lost)
    return Decoded(text=data.decode(name), encoding=name)


def decode_by(data: bytes, names: Sequence[str]) -> Decoded:
    """Decode bytes by the first encoding that fits, else by the one that replaces the fewest."""
    broken = []
    for name in names:
        try:
            text = data.decode(name).removeprefix(_BYTE_ORDER_MARK)
        except UnicodeDecodeError:
            broken.append(_replaced(data, name))
            continue
        utf8 = name == UTF8 or codecs.lookup(name).name == UTF8
        return Decoded(text=text, encoding="" if utf8 else name, zeros=text.count("\0"))
    return min(broken, key=lambda decoded: decoded.replaced)


def names_of_lines(encoding: Encoding) -> list[str]:
    """Return the encodings of the lines of a file whose lines end with a byte of their own."""
    names = names_of(encoding)
    others = [name for name in names if name != AUTO]
    return [UTF8, *others] if AUTO in names else others


def fault_of(stored: IO[bytes]) -> str:
    """Return where bytes stop being UTF-8, and in which encoding they may be, for a message.

    >>> fault_of(io.BytesIO(b"Caf\xe9 ferm\xe9, d\xe9sol\xe9 !"))
    ', the first at byte 3; it may be cp1252'
    """
    decoder = codecs.getincrementaldecoder(UTF8)()
    at = 0
    while block := stored.read(_BLOCK):
        if not at and wide_encoding(block, whole=False):
            return ""
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(block)
        except UnicodeDecodeError as fault:
            first = fault.start - pending
            rest = stored.read(max(0, first + _SAMPLE - len(block)))
            line = block.rfind(b"\n", 0, max(0, first)) + 1
            return f", the first at byte {at + first}" + _guess((block + rest)[line:][:_SAMPLE])
        escape, name = _shifted(block)
        if escape:
            return f", the first at byte {at + block.index(escape)}; it may be {name}"
        at += len(block)
    return ""


def _guess(sample: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(sample).best()
    return "" if best is None or best.encoding == "utf_8" else f"; it may be {best.encoding}"


def check_encoding(encoding: Encoding) -> None:
    """Raise DataError for an encoding that Python does not know."""
    for name in names_of(encoding) or [""]:
        try:
            b"text".decode(UTF8 if name == AUTO else name, "replace")
        except (LookupError, TypeError, UnicodeError):
            choices = "auto, a name such as utf-8, cp1252, shift_jis or gb18030, or a list of these"
            raise DataError(f"encoding must be {choices}, was: {name or encoding}") from None


def wide_encoding(data: bytes, *, whole: bool = True) -> str | None:
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
    texts = {name: text for name in _WIDE if (text := _plain(data, name, whole)) is not None}
    # Text in any language has spaces, digits or line ends; the other byte order has hardly any.
    ascii = {name: sum(map(text.count, map(chr, range(128)))) for name, text in texts.items()}
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
    fine = all(unicodedata.category(char) not in ("Cn", "Co") for char in {*text})
    return text if fine and not {*text} & {*odd} else None


def _shifted(data: bytes) -> tuple[bytes, str]:
    """Return escape and name of the encoding of seven bits, such as ISO-2022-JP, of bytes."""
    for escape, name in _SHIFTED.items() if 0x1B in data else ():
        try:
            if escape in data and not data.decode(name).isascii():
                return escape, name
        except UnicodeDecodeError:
            continue
    return b"", ""


def _zeros(data: bytes) -> int:
    head = data[:_HEAD]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    zeros = data.count(0) if 0 in data else 0
    return zeros + (controls if controls * _MANY_CONTROLS > len(head) else 0)


def _replaced(data: bytes, name: str) -> Decoded:
    text = data.decode(name, "replace")
    # UTF-8 resynchronises at each lead byte, so that genuine U+FFFD keep their three bytes.
    genuine = data.count(REPLACEMENT.encode()) if codecs.lookup(name).name == UTF8 else 0
    return Decoded(
        text=text.removeprefix(_BYTE_ORDER_MARK),
        replaced=text.count(REPLACEMENT) - genuine,
        zeros=text.count("\0"),
    )
