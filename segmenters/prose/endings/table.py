"""The table of all rules: whether a sentence ends at a place.

The order is part of the rules. First what decides alone: a blank line, what has no terminator, the
full stop of a script; then what is behind the place: a sign, a small letter; then what is before
it: quotes and brackets, a dash, the word before a period (`words`).
"""

import re

from segmenters.prose import signs
from segmenters.prose.endings import ahead
from segmenters.prose.endings.doubt import (
    QUOTES,
    Doubt,
    Rule,
    Table,
    is_blank_line,
    otherwise,
)
from segmenters.prose.endings.words import (
    PERIOD,
    ends_before_lower,
    is_exclaimed,
    is_plain,
)
from segmenters.prose.quotes import OPENERS as OPEN_QUOTES
from segmenters.prose.quotes import is_wide

# Particles and the copula after a Japanese closing quote: the quoting sentence goes on.
_AFTER_QUOTE = frozenset("\u3068\u306a\u306b\u3092\u306e\u304c\u306f\u3067\u3082\u3001\u3063")
_CJK_BRACKETS = (("\uff08", "\uff09"), ("\u300a", "\u300b"), ("(", ")"))
# Words of Chinese that end sentences, as letters of Hiragana do, but no names.
_LAST_WORDS = re.compile("[\u3041-\u309f\u4e86\u5417\u5462\u5427\u554a\u5440\u561b\u7684]")
_CLOSE_QUOTES = frozenset(
    "\u300d\u300f\uff09\u300b\u3009\u301e\u301f\uff63\ufe42\ufe44" + signs.EITHER + signs.LATE
)
# In these languages a dash behind a question rather begins who says so, if a dash began the turn.
_DASHING = frozenset(("pl", "lv", "lt", "cs", "sk", "vi", "uk", "ru", "be"))
_CLOSED = re.compile("[\u00bb\u201c\u201d]")
# A turn is no longer than this, in characters.
_LONGEST_TURN = 400
# In these languages a small letter behind a question rather begins a verb of saying.
_REPORTING = frozenset(
    ("tr", "pl", "cs", "sk", "sl", "hr", "lv", "lt", "no", "da", "sv", "nl", "de", "hu", "ro", "fi")
)
_ASKING = frozenset(("?", "!", "?!", "!?"))
_DASHES, _LONG_DASHES = frozenset("-\u2013\u2014"), frozenset("\u2013\u2014")
_CLOSING_QUOTES = "\"'\u2019\u201d"
_MENTIONS = frozenset("\"'`\u2018\u201c\u201e\u00ab")
_OPENERS = _MENTIONS | frozenset("([{")
_STRONG_SET, _PLAIN_SET = frozenset(signs.STRONG), frozenset(signs.PLAIN)
_TERMINATORS = _STRONG_SET | _PLAIN_SET

# An ellipsis rather stands for a pause than for an end, so it takes more evidence.
_FOR_ELLIPSIS = 2
# How far back an open bracket is searched, in characters.
_BRACKET_WINDOW = 160
_LATIN = re.compile(r"[A-Z][a-z]{4,}|est|sit|via|vos|nos|eos|eas")
_ADDRESS, _ADDRESS_WINDOW = re.compile(r"<[^<>\s]+@[^<>\s]+$"), 48
_ARMENIAN = re.compile("[\u0531-\u0587]")
# Glued to the next sentence without doubt: "on Monday.The", "1,000.The".
_DAY, _THOUSANDS = re.compile(r"[A-Z][a-z]{2,5}day"), re.compile(r"\d,\d\d\d\Z")
_LONGEST_GLUED = 3


def is_bracketed(text: str, start: int, last: int) -> bool:
    """Return whether a bracket of Chinese or Japanese that the sentence opened is open."""
    first = max(last, start - _BRACKET_WINDOW)
    for opener, closer in _CJK_BRACKETS:
        opened = text.find(opener, first, start)
        if opened >= 0 and (
            opened > text.rfind(closer, first, start) and (opener != "(" or is_wide(text, start))
        ):
            return True
    return False


def _is_bracketed(doubt: Doubt) -> bool:
    return is_bracketed(doubt.text, doubt.start, doubt.last)


def _mentions(doubt: Doubt) -> bool:
    """Return whether the terminator is right behind a quote that opens."""
    before = doubt.text[doubt.start - 2 : doubt.start - 1]
    return doubt.before in _MENTIONS and (not before.strip() or before in _OPENERS)


def _is_ideograph(char: str) -> bool:
    """Return whether the character is of a script written without spaces (CJK)."""
    return "\u3041" <= char <= "\u9fff" or "\U00020000" <= char <= "\U0003ffff"


def _is_address(doubt: Doubt) -> bool:
    """Return whether an address and a name are in the line of a mail's header.

    "From: Ann Lee <lee@c.org> Date: ..."
    """
    before = doubt.text[max(0, doubt.start - _ADDRESS_WINDOW) : doubt.start]
    names = doubt.following.isupper() or doubt.following.isdigit()
    return names and _ADDRESS.search(before) is not None


UNMARKED: Table = (
    Rule("line end, divider or face: nothing behind it", lambda d: not d.gap, False),
    Rule(
        "divider",
        lambda d: d.run[0] in signs.DIVIDERS,
        lambda d: (d.following.isalnum() and not d.following.islower()) or d.following in QUOTES,
    ),
    Rule("address", lambda d: d.run[0] == ">", _is_address),
    Rule("face", otherwise, lambda d: d.start > d.last and d.following.isupper()),
)

STRONG: Table = (
    Rule(
        "ellipsis opens behind a full stop",
        lambda d: d.following == "\u2026" and not d.gap and d.run in signs.ELLIPTIC,
        True,
    ),
    Rule(
        "full stop of a script: the sentence continues",
        lambda d: d.following in signs.CONTINUES_STRONG or d.following == "[",
        False,
    ),
    Rule("wide decimal point", lambda d: d.run[0] == "\uff0e" and d.following.isdigit(), False),
    Rule("title of a work", lambda d: d.run[-1] == "\u300b", False),
    Rule(
        "particle behind a quote",
        lambda d: d.run[-1] in _CLOSE_QUOTES and d.following in _AFTER_QUOTE,
        False,
    ),
    Rule("full stop of a script", otherwise, True),
)

SCRIPTS: Table = (
    Rule(
        "open bracket",
        lambda d: d.run[-1] in (_STRONG_SET if d.gap else _TERMINATORS) and _is_bracketed(d),
        False,
    ),
    Rule("quote opens behind a full stop", lambda d: d.following == "\u201d" and bool(d.gap), True),
    Rule("full stop of a script", otherwise, STRONG),
)


def _is_name(doubt: Doubt) -> bool:
    """Return whether a period among ideographs is in a number or a name."""
    if doubt.run[0] != "." or doubt.run == "..":
        return False
    final = doubt.following in OPEN_QUOTES or _LAST_WORDS.match(doubt.before)
    return (doubt.run == "." and not final) or not _is_ideograph(doubt.before)


GLUED_WIDE: Table = (
    Rule("period in a number or name, among ideographs", _is_name, False),
    Rule("no terminator among ideographs", lambda d: d.run[0] not in ".!?", False),
    Rule("terminator of ASCII among ideographs", otherwise, STRONG),
)


def _is_glued_to_wide(doubt: Doubt) -> bool:
    following = doubt.following
    return _is_ideograph(following) or (
        following in OPEN_QUOTES and is_wide(doubt.text, doubt.start)
    )


def _glued_word(doubt: Doubt) -> str:
    return doubt.tail.rsplit(None, 1)[-1]


GLUED: Table = (
    Rule("open bracket", lambda d: d.run[-1] in _PLAIN_SET and _is_bracketed(d), False),
    Rule(
        "glued to a word that starts sentences",
        lambda d: d.next_word and d.run == "." and ahead.starts_glued(d.text, d.start, d.place),
        True,
    ),
    Rule("glued to an ideograph", _is_glued_to_wide, GLUED_WIDE),
    Rule(
        "glued to what starts no sentence",
        lambda d: not d.following.isupper() or bool(d.run.strip(".!?")),
        False,
    ),
    Rule("glued in Armenian", lambda d: _ARMENIAN.match(d.before) is not None, False),
    Rule("emoji glued to a capital", lambda d: bool(d.emoji), True),
    Rule(
        "glued behind a capital or sign",
        lambda d: d.before.isupper() or not d.before.isalpha(),
        lambda d: d.run == "." and _THOUSANDS.search(d.tail) is not None,
    ),
    Rule(
        "glued behind a day", lambda d: d.run == "." and bool(_DAY.fullmatch(_glued_word(d))), True
    ),
    Rule(
        "glued behind another terminator",
        lambda d: d.run != ".",
        lambda d: _glued_word(d).isalpha() and _glued_word(d)[1:].islower(),
    ),
    Rule(
        "glued behind a plain word",
        otherwise,
        lambda d: len(_glued_word(d)) > _LONGEST_GLUED and is_plain(_glued_word(d)),
    ),
)


def _opens_right_quote(doubt: Doubt) -> bool:
    """Return whether a right quote is apart from what is before it, so that it opens."""
    apart = doubt.spaced or doubt.text[doubt.place - 1] in signs.LINE_ENDS
    return doubt.following == "\u201d" and bool(apart)


MARK: Table = (
    Rule("right quote apart", _opens_right_quote, True),
    Rule(
        "sign that continues",
        lambda d: d.run != "." or d.before.isspace(),
        False,
    ),
    Rule(
        "comma behind a period",
        lambda d: d.following == ",",
        lambda d: d.place - d.start > 1 and is_plain(d.attached),
    ),
    Rule("words left out behind a period", otherwise, lambda d: d.shows(ahead.OMISSION)),
)


def _ends_at_dash(doubt: Doubt) -> bool:
    """Return whether a dash names no speaker: long ones do in what a dash began, or quotes."""
    turn = doubt.text[doubt.last : doubt.last + 1] not in _DASHES
    return doubt.run[-1] in "!?" and (doubt.following == "-" or turn)


def _is_turn(doubt: Doubt) -> bool:
    """Return whether a dash began the sentence, as in dialogues, or an open quote."""
    text, last = doubt.text, doubt.last
    if doubt.start - last > _LONGEST_TURN:
        return False
    if text[last] in "\u00ab\u201c\u201e":
        return _CLOSED.search(text, last + 1, doubt.start) is None
    return text[last] in _DASHES


AT_DASH: Table = (
    Rule(
        "dash and who says so",
        lambda d: d.next_word and ahead.speaks_behind_dash(d.text, d.place),
        False,
    ),
    Rule(
        "dash in a turn that a dash began",
        lambda d: not d.next_word and _is_turn(d) and d.speaks(_DASHING),
        False,
    ),
    Rule("dash", otherwise, _ends_at_dash),
)

QUESTION: Table = (
    Rule(
        "dash behind a question or quote",
        lambda d: d.following in _DASHES and "\n" not in d.gap and d.run[0] != ";",
        AT_DASH,
    ),
    Rule(
        "name with an exclamation mark",
        lambda d: d.run == "!" and d.following.isupper() and is_exclaimed(d.attached),
        lambda d: d.starts is True,
    ),
    Rule(
        "quote and who says so",
        lambda d: d.following == "I" and d.run[-1] in _CLOSING_QUOTES and d.shows(ahead.SPEAKER),
        False,
    ),
    Rule("question or exclamation", otherwise, True),
)


def _is_question(doubt: Doubt) -> bool:
    """Return whether more than a period is there, or a dash behind a quote."""
    if doubt.run[0] != "." or doubt.run[1:2] in _PLAIN_SET:
        return True
    return doubt.following in _LONG_DASHES and doubt.run[-1] in _CLOSE_QUOTES


_BRACKET = Rule(
    "bracket opened before",
    lambda d: d.is_inserted,
    False,
)


def _run_ends(run: str, small: int) -> bool:
    """Return whether a run of signs ends a sentence before a small letter, in a text of them.

    `run`: terminators and what closes behind them, but not a period alone.
    """
    if run[0] == "\u2026" or run.startswith(".."):
        return small >= _FOR_ELLIPSIS
    # Quotes report speech: "Who?" he asked.
    return run[0] == "." or run[-1] in ".!?\u2026)]}*_"


SMALL: Table = (
    Rule(
        "question and who says so",
        lambda d: d.run[0] in "!?" and d.shows(ahead.SPEAKER),
        False,
    ),
    Rule(
        "question and a verb of saying",  # "Who is that? asked Ann."
        lambda d: d.run in _ASKING and d.next_word and ahead.says(d.text, d.place),
        False,
    ),
    Rule(
        "question in a text that begins sentences with capitals",
        lambda d: (
            d.run in _ASKING and ends_before_lower(d) and d.small < 0 and d.speaks(_REPORTING)
        ),
        False,
    ),
    Rule("small letter behind a plain word", ends_before_lower, True),
    Rule(
        "small letter behind a name or short word, in Latin",
        lambda d: d.run == "." and bool(_LATIN.fullmatch(d.attached)) and d.speaks(("la",)),
        True,
    ),
    Rule("small letter among capitals", lambda d: d.small <= 0, False),
    Rule(
        "small letter among small ones", lambda d: d.run != ".", lambda d: _run_ends(d.run, d.small)
    ),
    _BRACKET,
    Rule("period among small letters", otherwise, PERIOD),
)

ENDS: Table = (
    Rule("blank line", lambda d: d.gap != " " and is_blank_line(d.gap), True),
    Rule("line end, divider, face or address", lambda d: d.unmarked, UNMARKED),
    Rule("full stop of a script", lambda d: not _STRONG_SET.isdisjoint(d.run), SCRIPTS),
    Rule("glued", lambda d: not d.gap, GLUED),
    Rule(
        "sign behind it",  # "[" may open the number of a note
        lambda d: d.following in signs.CONTINUES or (d.following == "[" and "\n" not in d.gap),
        MARK,
    ),
    Rule(
        "pause in Armenian",
        lambda d: (
            "\u0531" <= d.before <= "\u0587"
            and d.run[0] == "."
            and not (d.run.startswith("..") and d.following.isupper())
        ),
        False,
    ),
    Rule("small letter", lambda d: d.following.islower(), SMALL),
    Rule(
        "words left out in brackets",
        lambda d: len(d.run) > 1 and d.before == "[" and "]" in d.run,
        False,
    ),
    Rule(
        "sign that is mentioned",  # press "?" (or "h")
        lambda d: len(d.run) > 1 and not d.following.isalnum() and _mentions(d),
        lambda d: d.following in QUOTES,
    ),
    _BRACKET,
    Rule("question", _is_question, QUESTION),
    Rule(
        "words left out and two spaces",
        lambda d: (
            (d.gap == "  " and d.following.isupper() and d.apart)
            and d.text.endswith(" . . ", 0, d.start)
        ),
        True,
    ),
    Rule("period", otherwise, PERIOD),
)
