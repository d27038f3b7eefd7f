"""How messages say numbers, sizes and texts of the user's."""

from __future__ import annotations

# Control characters would steer the reader's terminal, marks of direction reorder what is shown,
# and surrogates and non-characters are not allowed in UTF-8 or XML.
_HOSTILE = (*range(0x80, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_VISIBLE = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_VISIBLE |= dict.fromkeys((*_HOSTILE, *range(0xD800, 0xE000), 0xFFFE, 0xFFFF), 0xFFFD)


def visible(text: str) -> str:
    """Return the text as valid UTF-8 and XML, with signs for what would steer a screen."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def escaped(text: str) -> str:
    r"""Return a name or message in one line, with escapes for what would steer a terminal: \x1b."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def plural(name: str) -> str:
    """Return the plural of the name of a level or a unit."""
    if name[-1:] == "y" and name[-2:-1] not in "aeou":
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith("s") else f"{name}s"


def counted(number: int, name: str) -> str:
    """Return a number with the name of what it counts: "1 segment", "2,000 classes"."""
    return f"{number:,} {name if number == 1 else plural(name)}"


def size(count: int | None) -> str:
    """Return bytes in decimal units: 1.61 GB."""
    if count is None:
        return "-"
    for unit, scale, digits in (("TB", 1e12, 2), ("GB", 1e9, 2), ("MB", 1e6, 2), ("kB", 1e3, 1)):
        if count >= scale:
            return f"{count / scale:,.{digits}f} {unit}"
    return counted(count, "byte")
