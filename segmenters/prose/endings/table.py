"""The table of all rules: whether a sentence ends at a place.

The order is part of the rules. First what decides alone: a blank line, what has no terminator, the
full stop of a script; then what is behind the place: a sign, a small letter; then what is before
it: quotes and brackets, a dash, the word before a period (`words`). `predicates` has what they ask.
"""

from segmenters.prose import signs
from segmenters.prose.endings import ahead, predicates
from segmenters.prose.endings.doubt import QUOTES, Rule, Table, is_blank_line, otherwise
from segmenters.prose.endings.words import PERIOD, ends_before_lower

UNMARKED: Table = (
    Rule("line end, divider or face: nothing behind it", lambda d: not d.gap, False),
    Rule("divider", lambda d: d.run[0] in signs.DIVIDERS, predicates.begins_after_divider),
    Rule("address", lambda d: d.run[0] == ">", predicates.is_address),
    Rule("face", otherwise, lambda d: d.start > d.last and d.following.isupper()),
)

STRONG: Table = (
    Rule("ellipsis opens behind a full stop", predicates.opens_by_ellipsis, True),
    Rule(
        "full stop of a script: the sentence continues",
        lambda d: d.following in signs.CONTINUES_STRONG or d.following == "[",
        False,
    ),
    Rule("wide decimal point", lambda d: d.run[0] == "\uff0e" and d.following.isdigit(), False),
    Rule("title of a work", lambda d: d.run[-1] == "\u300b", False),
    Rule("particle behind a quote", predicates.quotes_on, False),
    Rule("full stop of a script", otherwise, True),
)

SCRIPTS: Table = (
    Rule("open bracket", predicates.ends_in_brackets, False),
    Rule("quote opens behind a full stop", lambda d: d.following == "\u201d" and bool(d.gap), True),
    Rule("full stop of a script", otherwise, STRONG),
)

GLUED_WIDE: Table = (
    Rule("period in a number or name, among ideographs", predicates.is_wide_name, False),
    Rule("no terminator among ideographs", lambda d: d.run[0] not in ".!?", False),
    Rule("terminator of ASCII among ideographs", otherwise, STRONG),
)

GLUED: Table = (
    Rule("open bracket", predicates.ends_glued_in_brackets, False),
    Rule("glued to a word that starts sentences", predicates.is_glued_before_start, True),
    Rule("glued to an ideograph", predicates.is_glued_to_wide, GLUED_WIDE),
    Rule(
        "glued to what starts no sentence",
        lambda d: not d.following.isupper() or bool(d.run.strip(".!?")),
        False,
    ),
    Rule("glued in Armenian", predicates.is_behind_armenian, False),
    Rule("emoji glued to a capital", lambda d: bool(d.emoji), True),
    Rule(
        "glued behind a capital or sign",
        lambda d: d.before.isupper() or not d.before.isalpha(),
        predicates.is_behind_thousands,
    ),
    Rule("glued behind a day", predicates.is_behind_day, True),
    Rule(
        "glued behind another terminator", lambda d: d.run != ".", predicates.is_behind_small_word
    ),
    Rule("glued behind a plain word", otherwise, predicates.is_behind_plain_word),
)

MARK: Table = (
    Rule("right quote apart", predicates.opens_right_quote, True),
    Rule("sign that continues", lambda d: d.run != "." or d.before.isspace(), False),
    Rule("comma behind a period", lambda d: d.following == ",", predicates.is_word_before_comma),
    Rule("words left out behind a period", otherwise, lambda d: d.shows(ahead.OMISSION)),
)

AT_DASH: Table = (
    Rule("dash and who says so", predicates.says_behind_dash, False),
    Rule("dash in a turn that a dash began", predicates.may_say_behind_dash, False),
    Rule("dash", otherwise, predicates.ends_at_dash),
)

QUESTION: Table = (
    Rule("dash behind a question or quote", predicates.is_before_dash, AT_DASH),
    Rule(
        "name with an exclamation mark",
        predicates.is_exclaimed_name,
        lambda d: d.starts is True,
    ),
    Rule("quote and who says so", predicates.says_behind_quote, False),
    Rule("question or exclamation", otherwise, True),
)

_BRACKET = Rule("bracket opened before", lambda d: d.is_inserted, False)

SMALL: Table = (
    Rule(
        "question and who says so",
        lambda d: d.run[0] in "!?" and d.shows(ahead.SPEAKER),
        False,
    ),
    Rule("question and a verb of saying", predicates.says_behind_question, False),
    Rule(
        "question in a text that begins sentences with capitals",
        predicates.may_say_behind_question,
        False,
    ),
    Rule("small letter behind a plain word", ends_before_lower, True),
    Rule("small letter behind a name or short word, in Latin", predicates.is_latin, True),
    Rule("small letter among capitals", lambda d: d.small <= 0, False),
    Rule(
        "small letter among small ones",
        lambda d: d.run != ".",
        predicates.run_ends_before_small,
    ),
    _BRACKET,
    Rule("period among small letters", otherwise, PERIOD),
)

ENDS: Table = (
    Rule("blank line", lambda d: d.gap != " " and is_blank_line(d.gap), True),
    Rule("line end, divider, face or address", lambda d: d.unmarked, UNMARKED),
    Rule("full stop of a script", lambda d: not signs.STRONG_SIGNS.isdisjoint(d.run), SCRIPTS),
    Rule("glued", lambda d: not d.gap, GLUED),
    Rule("sign behind it", predicates.continues, MARK),
    Rule("pause in Armenian", predicates.pauses_in_armenian, False),
    Rule("small letter", lambda d: d.following.islower(), SMALL),
    Rule("words left out in brackets", predicates.is_left_out, False),
    Rule("sign that is mentioned", predicates.is_mentioned, lambda d: d.following in QUOTES),
    _BRACKET,
    Rule("question", predicates.is_question, QUESTION),
    Rule("words left out and two spaces", predicates.is_left_out_apart, True),
    Rule("period", otherwise, PERIOD),
)
