"""The pattern of candidates: where a sentence may end.

One regular expression, linear in the text, finds where a sentence may end and decides most of these
candidates at first sight, by `match.lastgroup`:

    never     no end, whatever surrounds it        always    an end, unless in a bracket
    simple    a terminator of ASCII, white space   gap       any other terminator
    lines     a line end                           unmarked  a face, a divider, an address
    None      a bullet
"""

import re
from functools import lru_cache

from segmenters.prose.signs import (
    BULLETS,
    CLOSERS,
    CONTINUES,
    CONTINUES_STRONG,
    DIVIDERS,
    ELLIPTIC,
    EMOJI,
    FACES,
    GERMAN_CLOSERS,
    LINE_ENDS,
    OPEN_OR_CLOSE,
    PLAIN,
    SPACED_ANGLES,
    SPACED_CLOSERS,
    STRONG,
)

# The pattern of words left out at the start of a sentence.
OMISSION = r"\.(?: ?\.){2} ?\w"
# The number of a note, right behind the terminator.
_SMALL = "a-z\u00df-\u00ff\u0430-\u044f"
_NOTE = (
    rf"(?:(?<=[{_SMALL}]{{3}}[.!?])|(?<=[{_SMALL}]{{2}}[.!?][\"\u201d)])|(?<=\w\)[.!?]))"
    r"\d{1,3}+(?=\s)"
)
# ";" is the Greek question mark, ":" is also typed for the Armenian full stop, and two word spaces
# for that of Ethiopia.
_GREEK = "\u0370-\u03ff\u1f00-\u1fff"
_BY_SCRIPT = (
    f"(?<=[{_GREEK}];)|(?<=[{_GREEK}][{OPEN_OR_CLOSE})];)|(?<=[\u0531-\u0587]:)|(?<=\u1361\u1361)"
)
_T, _P, _C, _D = map(re.escape, (PLAIN + STRONG, PLAIN, CLOSERS, DIVIDERS))
_S = STRONG.replace("\uff0e", "")  # is in numbers as well
# Two low commas may open a quotation in tokenised text.
_GO_ON, _GO_ON_STRONG = (
    re.escape("".join(sorted(signs - {"\u201d"})))
    for signs in (CONTINUES - {","}, CONTINUES_STRONG)
)


def _lanes(closers: str, opens: str) -> str:
    """Return shortcuts past the tables of `endings`, which decide the same more slowly.

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
            rf"(?<=[{STRONG}])(?!(?<=[{ELLIPTIC}])\u2026)"
            rf"[{_T}{closers}]*+[ \t]*+(?=[{_GO_ON_STRONG}])",
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
        rf"|(?<=[{_S}])[{_S}]*+(?P<always>\s*+)(?=[^{_GO_ON_STRONG}{_C}{EMOJI}\s\[{GERMAN_CLOSERS}])|"
    )


LANES = _lanes(_C, "")
WIDE_LANES = _lanes(re.escape("".join(sorted({*CLOSERS} - {*OPEN_OR_CLOSE}))), "(\"'")


def _candidate(first: str, by_script: str, lanes: str) -> re.Pattern[str]:
    """Compile the candidates: `first` are further characters, `by_script` looks behind them.

    Each branch consumes what it looks at (possessive quantifiers), so no character is scanned
    more than a few times: a failing `[.]+\\s` would be tried again from each period of a run.
    """
    return re.compile(
        rf"[{_T}{LINE_ENDS}{BULLETS}{_D}()>{first}]"
        rf"(?:{lanes}(?:(?<=[{_T}]){by_script})[{_T}{_C}{GERMAN_CLOSERS}]*+"
        rf"(?P<spaced>(?:(?: ''|[ \u00a0\u202f][{SPACED_CLOSERS}'])"
        rf"(?:[ \u00a0\u202f][{SPACED_ANGLES}]){{0,2}}+)?+)"
        rf"(?P<note>(?: ?\[\d{{1,3}}\])*+(?:{_NOTE})?+)"
        rf"(?P<emoji>(?:[ \u00a0]*+[{EMOJI}]++)*+)(?P<gap>\s*+)"
        rf"|(?<=[{LINE_ENDS}])(?:(?=\s)|(?<=\u2029))(?P<lines>\s*+)"
        rf"|(?<=\s[{BULLETS}])"
        rf"|(?:(?<=[{FACES}])[{EMOJI}]*+|(?:(?<=[{_D}]{{6}})|(?<=\w>)|(?<=[\s.!?][:;=][()])"
        rf"|(?<=[\s.!?][:;=]-[()]))(?=\s))(?P<unmarked>\s*+))"
    )


# ASCII text has neither scripts nor faces, so a simpler, faster pattern reads it.
_MORE = (";:\u1361" + FACES, "|" + _BY_SCRIPT)
_FORMS = (("", "", LANES), (*_MORE, WIDE_LANES), (*_MORE, LANES))
PATTERNS = tuple(_candidate(*form) for form in _FORMS)


@lru_cache
def without_lanes(kind: int) -> re.Pattern[str]:
    """Return the pattern with which the tables decide about all candidates."""
    first, by_script, _ = _FORMS[kind]
    return _candidate(first, by_script, "")
