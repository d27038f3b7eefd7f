"""Data of the sentence rules: words (words.txt), signs, and the pattern of candidates.

One regular expression, linear in the text, finds where a sentence may end and decides most of these
candidates at first sight, by `match.lastgroup`:

    never     no end, whatever surrounds it        always    an end, unless in a bracket
    simple    a terminator of ASCII, white space   gap       any other terminator
    lines     a line end                           unmarked  a face, a divider, an address
    None      a bullet
"""

import re
from pathlib import Path

# The words of each section.
_LISTS: dict[str, set[str]] = {}
for _line in Path(__file__).with_name("words.txt").read_text(encoding="utf-8").splitlines():
    if _line.startswith("["):
        _words = _LISTS.setdefault(_line.strip("[]"), set())
    elif _line and _line[0] != "#":
        _words.update(_line.split()[1:])


def _list(name: str) -> frozenset[str]:
    return frozenset(_LISTS[name])


BEFORE_NAME = _list("before")
MAY_END = _list("end") - BEFORE_NAME
BEFORE_NUMBER, BEFORE_ORDINAL = _list("number"), _list("ordinal")
AFTER = {word: _list(word) for word in ("sig", "es", "med")}
# Firms and states, and the capitals after them that rather start a sentence ("The", "It").
NAMED, STARTING = _list("named"), frozenset("BHITWY")
LABELS = _list("label")
AND_SO_ON, CLIPPED = _list("more"), _list("clipped")
EXCLAIMED = _list("exclaimed")
SYMBOLS, PLACING, COPULAS = _list("symbol"), _list("placing"), _list("copula")
BINDING, NAMING = _list("binding"), _list("naming")
SHORT_WORDS, STARTERS = _list("short"), _list("starters")

LISTS = tuple(map(_list, _LISTS))
# The pattern of words left out at the start of a sentence.
OMISSION = r"\.(?: ?\.){2} ?\w"
# Ends a sentence only before white space: . ! ? ellipsis and the doubled marks.
PLAIN = ".!?\u2026\u203c\u203d\u2047\u2048\u2049"
# Ends a sentence with or without white space behind it: stops of Chinese and Japanese, full-width
# and small forms, then those of other scripts in the order of Unicode (Sentence_Terminal), and
# Tibetan.
STRONG = (
    "\u3002\uff01\uff1f\uff61\uff0e\ufe12\ufe15\ufe16\ufe52\ufe56\ufe57"
    "\u0589\u061d\u061e\u061f\u06d4\u0700\u0701\u0702\u07f9\u0837\u0839\u083d\u083e"
    "\u0964\u0965\u104a\u104b\u1362\u1367\u1368\u166e\u1735\u1736\u17d4\u17d5\u1803\u1809"
    "\u1944\u1945\u1aa8\u1aa9\u1aaa\u1aab\u1b5a\u1b5b\u1b5e\u1b5f\u1c3b\u1c3c\u1c7e\u1c7f"
    "\ua4ff\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9\uaa5d\uaa5e"
    "\uaa5f\uaaf0\uaaf1\uabeb\u0f0d\u0f0e\u0f0f\u0f10\u0f11\u0f12\u0f14"
)
# The terminators of all other scripts, most of them historical, are read as a danda, and the dot
# leader as a period. What has none of `_MAYBE_RARE` is not searched for 62 ranges.
_MAYBE_RARE = re.compile("[\u1b4e-\u1b7f\u2024\u2cf9-\u2cfb\u2e2e-\u2e61\U00010a56-\U0001da88]")
RARE = re.compile(
    "[\u1b4e\u1b4f\u1b7d-\u1b7f\u2024\u2cf9-\u2cfb\u2e2e\u2e3c\u2e53\u2e54\u2e60\u2e61"
    "\U00010a56\U00010a57\U00010f55-\U00010f59\U00010f86-\U00010f89\U00011047\U00011048"
    "\U000110be-\U000110c1\U00011141-\U00011143\U000111c5\U000111c6\U000111cd\U000111de"
    "\U000111df\U00011238\U00011239\U0001123b\U0001123c\U000112a9\U000113d4\U000113d5"
    "\U0001144b\U0001144c\U000115c2\U000115c3\U000115c9-\U000115d7\U00011641\U00011642"
    "\U0001173c-\U0001173e\U00011944\U00011946\U00011a42\U00011a43\U00011a9b\U00011a9c"
    "\U00011c41\U00011c42\U00011ef7\U00011ef8\U00011f43\U00011f44\U00016a6e\U00016a6f"
    "\U00016af5\U00016b37\U00016b38\U00016b44\U00016d6e\U00016d6f\U00016e98\U0001bc9f"
    "\U0001da88]"
)
# Closes after a terminator and belongs to its sentence. German closes with either guillemet, and
# with what opens in English (LATE); * and _ are Markdown's.
CLOSERS = (
    "\"'`)]}*_\u2019\u201d\u00bb\u00ab\u203a\u2039"
    "\u300d\u300f\uff09\u3011\u300b\u3009\u3015\uff3d\uff02\u301e\u301f\uff63\ufe42\ufe44"
    "\u00b9\u00b2\u00b3\u2070\u2074\u2075\u2076\u2077\u2078\u2079"
    # Without width: spaces, and marks that tell a direction of writing.
    "\u200b\u200e\u200f\u2060\ufeff"
)
LATE = "\u201c\u2018"
# Scripts written without spaces but Thai: there quotes that touch text at both sides may open.
WIDE = re.compile("[\u3001-\u9fff\uf900-\ufaff\uff01-\uffef\U00020000-\U0003ffff]")
EITHER = "\"'\u2019\u201d\u00bb\u00ab\u203a\u2039\uff02"
# What may close a quotation with white space before it, as in tokenised text.
APART = '\u00bb"\u201d\u201c\u203a'
AGAIN = "\u00bb\u203a"
# The number of a note, right behind the terminator.
_SMALL = "a-z\u00df-\u00ff\u0430-\u044f"
_NOTE = (
    rf"(?:(?<=[{_SMALL}]{{3}}[.!?])|(?<=[{_SMALL}]{{2}}[.!?][\"\u201d)])|(?<=\w\)[.!?]))"
    r"\d{1,3}+(?=\s)"
)
BULLETS = "\u2022\u2023\u2043"
# Emoji follow the sentence that they comment on; a face ends one that has no terminator.
EMOJI = "\u2600-\u26ff\u2763-\u2767\u2b50\u200d\ufe0f\U0001f000-\U0001faff"
# A run of these between words divides them; parentheses make faces, too.
DIVIDERS = "=_~-"
FACES = "\u263a\U0001f600-\U0001f64f\U0001f910-\U0001f93a"
# ";" is the Greek question mark, ":" is also typed for the Armenian full stop, and two word spaces
# for that of Ethiopia.
_GREEK = "\u0370-\u03ff\u1f00-\u1fff"
_BY_SCRIPT = f"(?<=[{_GREEK}];)|(?<=[{_GREEK}][{EITHER})];)|(?<=[\u0531-\u0587]:)|(?<=\u1361\u1361)"
LINE_ENDS = "\n\r\u2028\u2029"

# What may not start a sentence: it continues or closes the one before.
CONTINUES = frozenset(",;:)]}%/\u2116" + PLAIN + STRONG + "\u201d\uff0c\u3001\uff1b\uff1a")
CONTINUES_STRONG = CONTINUES | frozenset(
    "\u300d\u300f\u300b\u3009\uff09\u3011\u301e\u301f\uff63\ufe42\ufe44"
)

_T, _P, _C, _D = map(re.escape, (PLAIN + STRONG, PLAIN, CLOSERS, DIVIDERS))
_S = STRONG.replace("\uff0e", "")  # is in numbers as well
# Two low commas may open a quotation in tokenised text.
_GO_ON, _GO_ON_STRONG = (
    re.escape("".join(sorted(signs - {"\u201d"})))
    for signs in (CONTINUES - {","}, CONTINUES_STRONG)
)


def _lanes(closers: str, opens: str) -> str:
    """Return shortcuts past `_is_end` of the rules, which decides the same more slowly.

    `closers`: what surely closes what is before it; `opens`: what may open something. The tests
    compare both ways.
    """
    never = "|".join(
        (
            # Right before an ASCII character; before a capital only after a small letter or digit.
            rf"(?<=[{_P}])[{_P}{closers}]*+(?=[\0-\x7f])(?![\s\[A-Z{opens}]|{_NOTE})",
            rf"(?<=[{_P}])(?<![^\0-/:-`{{-\x7f][{_P}])[{_P}{closers}]*+(?=[A-Z])",
            # Before signs that continue the sentence.
            rf"(?<=[{_P}])[{_P}{closers}]*+(?:[ \t]++\n?+|\n)[ \t]*+(?=[{_GO_ON}])(?!{OMISSION})",
            rf"(?<=[{STRONG}])[{_T}{closers}]*+[ \t]*+(?=[{_GO_ON_STRONG}])",
            # Full-width numbers; Greek and Armenian words.
            r"(?<=\uff0e)(?=\d)",
            r"(?<=[;:])(?=[\u03ac-\u03ce\u0561-\u0587])",
        )
    )
    return (
        rf"(?P<never>{never})"
        # White space, then an ASCII character that is no part of a note or quote.
        rf"|(?<=[{_P}])[{_P}{closers}]*+(?P<simple>\s++)(?=[!#-&(-Z\\-~])"
        # Nothing after it that needs a second look.
        rf"|(?<=[{_S}])[{_S}]*+(?P<always>\s*+)(?=[^{_GO_ON_STRONG}{_C}{EMOJI}\s\[{LATE}])|"
    )


LANES = _lanes(_C, "")
WIDE_LANES = _lanes(re.escape("".join(sorted({*CLOSERS} - {*EITHER}))), "(\"'")


def _candidate(first: str, by_script: str, lanes: str) -> re.Pattern[str]:
    """Compile the candidates: `first` are further characters, `by_script` looks behind them.

    Each branch consumes what it looks at (possessive quantifiers), so no character is scanned
    more than a few times: a failing `[.]+\\s` would be tried again from each period of a run.
    """
    return re.compile(
        rf"[{_T}{LINE_ENDS}{BULLETS}{_D}()>{first}]"
        rf"(?:{lanes}(?:(?<=[{_T}]){by_script})[{_T}{_C}{LATE}]*+"
        rf"(?P<spaced>(?:(?: ''|[ \u00a0\u202f][{APART}'])(?:[ \u00a0\u202f][{AGAIN}]){{0,2}}+)?+)"
        rf"(?P<note>(?: ?\[\d{{1,3}}\])*+(?:{_NOTE})?+)"
        rf"(?P<emoji>(?:[ \u00a0]*+[{EMOJI}]++)*+)(?P<gap>\s*+)"
        rf"|(?<=[{LINE_ENDS}])(?:(?=\s)|(?<=\u2029))(?P<lines>\s*+)"
        rf"|(?<=\s[{BULLETS}])"
        rf"|(?:(?<=[{FACES}])[{EMOJI}]*+|(?:(?<=[{_D}]{{6}})|(?<=\w>)|(?<=[\s.!?][:;=][()])"
        rf"|(?<=[\s.!?][:;=]-[()]))(?=\s))(?P<unmarked>\s*+))"
    )


def candidates(text: str) -> re.Pattern[str]:
    """Return the pattern of the candidates of a text."""
    return ASCII if text.isascii() else AMONG_WIDE if WIDE.search(text) else ANY


def usual(text: str) -> str:
    """Return the text, of the same length, with usual terminators instead of rare ones."""
    if text.isascii() or not _MAYBE_RARE.search(text):
        return text
    return RARE.sub(lambda sign: "." if sign[0] == "\u2024" else "\u0964", text)


# ASCII text has neither scripts nor faces, so a simpler, faster pattern reads it.
ASCII = _candidate("", "", LANES)
_MORE = (";:\u1361" + FACES, "|" + _BY_SCRIPT)
ANY, AMONG_WIDE = _candidate(*_MORE, LANES), _candidate(*_MORE, WIDE_LANES)
