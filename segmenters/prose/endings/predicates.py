"""What the rules of the table ask about the signs and the text around a place."""

import re

from segmenters.prose import signs
from segmenters.prose.endings import ahead
from segmenters.prose.endings.doubt import QUOTES, Doubt
from segmenters.prose.endings.words import ends_before_lower, is_exclaimed, is_plain
from segmenters.prose.quotes import OPENERS as OPEN_QUOTES
from segmenters.prose.quotes import is_wide

PLAIN_SIGNS = frozenset(signs.PLAIN)

# Brackets of Chinese and Japanese.
_BRACKETS = (("\uff08", "\uff09"), ("\u300a", "\u300b"), ("(", ")"))
# How far back an open one is searched, in characters.
_BRACKET_WINDOW = 160


def is_bracketed(text: str, start: int, last: int) -> bool:
    """Return whether a bracket of Chinese or Japanese that the sentence opened is open."""
    first = max(last, start - _BRACKET_WINDOW)
    for opener, closer in _BRACKETS:
        opened = text.find(opener, first, start)
        if opened >= 0 and (
            opened > text.rfind(closer, first, start) and (opener != "(" or is_wide(text, start))
        ):
            return True
    return False


def ends_in_brackets(doubt: Doubt) -> bool:
    """Return whether a terminator, with nothing behind it, is in such a bracket."""
    terminators = signs.STRONG_SIGNS if doubt.gap else signs.STRONG_SIGNS | PLAIN_SIGNS
    return doubt.run[-1] in terminators and is_bracketed(doubt.text, doubt.start, doubt.last)


def ends_glued_in_brackets(doubt: Doubt) -> bool:
    return doubt.run[-1] in PLAIN_SIGNS and is_bracketed(doubt.text, doubt.start, doubt.last)


def begins_after_divider(doubt: Doubt) -> bool:
    following = doubt.following
    return (following.isalnum() and not following.islower()) or following in QUOTES


_ADDRESS = re.compile(r"<[^<>\s]+@[^<>\s]+$")
_ADDRESS_WINDOW = 48


def is_address(doubt: Doubt) -> bool:
    """Return whether an address and a name are in the line of a mail's header.

    "From: Ann Lee <lee@c.org> Date: ..."
    """
    before = doubt.text[max(0, doubt.start - _ADDRESS_WINDOW) : doubt.start]
    names = doubt.following.isupper() or doubt.following.isdigit()
    return names and _ADDRESS.search(before) is not None


def opens_by_ellipsis(doubt: Doubt) -> bool:
    """Return whether an ellipsis right behind full stops opens the next sentence."""
    return doubt.following == "\u2026" and not doubt.gap and doubt.run in signs.ELLIPTIC


# What closes a quotation, in any script.
_CLOSE_QUOTES = frozenset(signs.WIDE_CLOSERS + signs.OPEN_OR_CLOSE + signs.GERMAN_CLOSERS)
_CLOSE_QUOTES -= frozenset(signs.WIDE_BRACKETS + "\u3011")
# Particles and the copula after a Japanese closing quote: the quoting sentence goes on.
_AFTER_QUOTE = frozenset("\u3068\u306a\u306b\u3092\u306e\u304c\u306f\u3067\u3082\u3001\u3063")


def quotes_on(doubt: Doubt) -> bool:
    """Return whether a particle of Japanese is behind a quote."""
    return doubt.run[-1] in _CLOSE_QUOTES and doubt.following in _AFTER_QUOTE


# Words of Chinese that end sentences, as letters of Hiragana do, but no names.
_LAST_WORDS = re.compile("[\u3041-\u309f\u4e86\u5417\u5462\u5427\u554a\u5440\u561b\u7684]")


def is_wide_name(doubt: Doubt) -> bool:
    """Return whether a period among ideographs is in a number or a name."""
    if doubt.run[0] != "." or doubt.run == "..":
        return False
    final = doubt.following in OPEN_QUOTES or _LAST_WORDS.match(doubt.before)
    return (doubt.run == "." and not final) or not _is_wide_letter(doubt.before)


def is_glued_to_wide(doubt: Doubt) -> bool:
    """Return whether a letter of Chinese or Japanese follows, or a quote behind such letters."""
    following = doubt.following
    return _is_wide_letter(following) or (
        following in OPEN_QUOTES and is_wide(doubt.text, doubt.start)
    )


def _is_wide_letter(char: str) -> bool:
    """Return whether the character is a letter of `signs.WIDE`, whose signs may be of any text."""
    return "\u3041" <= char <= "\u9fff" or "\U00020000" <= char <= "\U0003ffff"


def is_glued_before_start(doubt: Doubt) -> bool:
    """Return whether the next word often starts a sentence, glued to a period."""
    glued = doubt.next_word and doubt.run == "."
    return glued and ahead.starts_glued(doubt.text, doubt.start, doubt.place)


_ARMENIAN = re.compile("[\u0531-\u0587]")


def is_behind_armenian(doubt: Doubt) -> bool:
    return _ARMENIAN.match(doubt.before) is not None


def pauses_in_armenian(doubt: Doubt) -> bool:
    """Return whether a period is behind Armenian, but no ellipsis before a capital."""
    elliptic = doubt.run.startswith("..") and doubt.following.isupper()
    return is_behind_armenian(doubt) and doubt.run[0] == "." and not elliptic


_THOUSANDS = re.compile(r"\d,\d\d\d\Z")


def is_behind_thousands(doubt: Doubt) -> bool:
    """Return whether a period is behind a number that is surely whole: "1,000.The"."""
    return doubt.run == "." and _THOUSANDS.search(doubt.tail) is not None


_DAY = re.compile(r"[A-Z][a-z]{2,5}day")


def is_behind_day(doubt: Doubt) -> bool:
    """Return whether a period is behind the name of a day: "on Monday.The"."""
    return doubt.run == "." and _DAY.fullmatch(doubt.raw) is not None


def is_behind_small_word(doubt: Doubt) -> bool:
    return doubt.raw.isalpha() and doubt.raw[1:].islower()


_LONGEST_GLUED = 3  # characters of words that are glued to others, as in names of files


def is_behind_plain_word(doubt: Doubt) -> bool:
    return len(doubt.raw) > _LONGEST_GLUED and is_plain(doubt.raw)


def opens_right_quote(doubt: Doubt) -> bool:
    """Return whether a right quote is apart from what is before it, so that it opens."""
    apart = doubt.spaced or doubt.text[doubt.place - 1] in signs.LINE_ENDS
    return doubt.following == "\u201d" and bool(apart)


def is_word_before_comma(doubt: Doubt) -> bool:
    """Return whether white space and a comma are behind a word that is no abbreviation."""
    return doubt.place - doubt.start > 1 and is_plain(doubt.attached)


_DASHES = frozenset("-\u2013\u2014")
_LONG_DASHES = frozenset("\u2013\u2014")


def is_before_dash(doubt: Doubt) -> bool:
    """Return whether a dash is behind a question, an exclamation or a quote, in the same line."""
    return doubt.following in _DASHES and "\n" not in doubt.gap and doubt.run[0] != ";"


def says_behind_dash(doubt: Doubt) -> bool:
    return doubt.next_word and ahead.speaks_behind_dash(doubt.text, doubt.place)


# In these languages a dash behind a question rather begins who says so, if a dash began the turn.
_DASHING = frozenset(("pl", "lv", "lt", "cs", "sk", "vi", "uk", "ru", "be"))


def may_say_behind_dash(doubt: Doubt) -> bool:
    """Return whether who says so may follow, as far as the language and the turn tell."""
    return not doubt.next_word and _is_turn(doubt) and doubt.speaks(_DASHING)


_LONGEST_TURN = 400  # characters
_CLOSED = re.compile("[\u00bb\u201c\u201d]")


def _is_turn(doubt: Doubt) -> bool:
    """Return whether the same dash began the sentence, as in dialogues, or an open quote."""
    text, last = doubt.text, doubt.last
    if doubt.start - last > _LONGEST_TURN:
        return False
    if text[last] in "\u00ab\u201c\u201e":
        return _CLOSED.search(text, last + 1, doubt.start) is None
    return text[last] == doubt.following


def ends_at_dash(doubt: Doubt) -> bool:
    """Return whether a dash names no speaker: long ones do in a turn of such dashes, or quotes."""
    turn = doubt.start - doubt.last > _LONGEST_TURN or doubt.text[doubt.last] != doubt.following
    return doubt.run[-1] in "!?" and (doubt.following == "-" or turn)


def is_exclaimed_name(doubt: Doubt) -> bool:
    """Return whether a name with an exclamation mark is before a capital: "Yahoo! Inc."."""
    return doubt.run == "!" and doubt.following.isupper() and is_exclaimed(doubt.attached)


def says_behind_quote(doubt: Doubt) -> bool:
    """Return whether a quote and "I said" follow each other."""
    quoted = doubt.following == "I" and doubt.run[-1] in "\"'\u2019\u201d"
    return quoted and doubt.shows(ahead.SPEAKER)


def is_question(doubt: Doubt) -> bool:
    """Return whether more than a period is there, or a dash behind a quote."""
    if doubt.run[0] != "." or doubt.run[1:2] in PLAIN_SIGNS:
        return True
    return doubt.following in _LONG_DASHES and doubt.run[-1] in _CLOSE_QUOTES


_ASKING = frozenset(("?", "!", "?!", "!?"))
# In these languages a small letter behind a question rather begins a verb of saying.
_REPORTING = frozenset(
    ("tr", "pl", "cs", "sk", "sl", "hr", "lv", "lt", "no", "da", "sv", "nl", "de", "hu", "ro", "fi")
)


def says_behind_question(doubt: Doubt) -> bool:
    """Return whether a verb of saying follows: "Who is that? asked Ann."."""
    asks = doubt.run in _ASKING and doubt.next_word
    return asks and ahead.says(doubt.text, doubt.place)


def may_say_behind_question(doubt: Doubt) -> bool:
    """Return whether one may, in a text that begins sentences with capitals."""
    asks = doubt.run in _ASKING and ends_before_lower(doubt)
    return asks and doubt.small < 0 and doubt.speaks(_REPORTING)


_LATIN = re.compile(r"[A-Z][a-z]{4,}|est|sit|via|vos|nos|eos|eas")


def is_latin(doubt: Doubt) -> bool:
    """Return whether a name or a short word of Latin is before a period."""
    return doubt.run == "." and bool(_LATIN.fullmatch(doubt.attached)) and doubt.speaks(("la",))


# An ellipsis rather stands for a pause than for an end: so many more sentences begin with a small
# letter.
_FOR_ELLIPSIS = 2


def run_ends_before_small(doubt: Doubt) -> bool:
    """Return whether a run of signs, but no period alone, ends a sentence in such a text."""
    run = doubt.run
    if run[0] == "\u2026" or run.startswith(".."):
        return doubt.small >= _FOR_ELLIPSIS
    # Quotes report speech: "Who?" he asked.
    return run[0] == "." or run[-1] in ".!?\u2026)]}*_"


def continues(doubt: Doubt) -> bool:
    """Return whether a sign follows that continues a sentence; "[" may open a note's number."""
    return doubt.following in signs.CONTINUES or (doubt.following == "[" and "\n" not in doubt.gap)


_MENTIONS = frozenset("\"'`\u2018\u201c\u201e\u00ab")
_OPENERS = _MENTIONS | frozenset("([{")


def is_mentioned(doubt: Doubt) -> bool:
    """Return whether a sign is quoted for itself, before no word: press "?" (or "h")."""
    if len(doubt.run) == 1 or doubt.following.isalnum():
        return False
    before = doubt.text[doubt.start - 2 : doubt.start - 1]
    return doubt.before in _MENTIONS and (not before.strip() or before in _OPENERS)


def is_left_out(doubt: Doubt) -> bool:
    """Return whether words are left out in brackets: "[...]"."""
    return len(doubt.run) > 1 and doubt.before == "[" and "]" in doubt.run


def is_left_out_apart(doubt: Doubt) -> bool:
    """Return whether words are left out between spaces, two of which are before a capital."""
    apart = doubt.gap == "  " and doubt.following.isupper() and doubt.apart
    return apart and doubt.text.endswith(" . . ", 0, doubt.start)
