"""The signs of the sentence rules: what ends, closes, opens and continues a sentence."""

import re

# The property Sentence_Terminal of Unicode 17.0 decides which signs end sentences; an ellipsis and
# the signs of Tibetan do as well. These end one only before white space.
PLAIN = ".!?\u2026"
# With or without white space behind it: stops of Chinese and Japanese, full-width and small forms,
# then those of other scripts in the order of Unicode, and Tibetan.
STRONG = (
    "\u3002\uff01\uff1f\uff61\uff0e\ufe12\ufe15\ufe16\ufe52\ufe56\ufe57"
    "\u0589\u061d\u061e\u061f\u06d4\u0700\u0701\u0702\u07f9\u0837\u0839\u083d\u083e"
    "\u0964\u0965\u104a\u104b\u1362\u1367\u1368\u166e\u1735\u1736\u17d4\u17d5\u1803\u1809"
    "\u1944\u1945\u1aa8\u1aa9\u1aaa\u1aab\u1b5a\u1b5b\u1b5e\u1b5f\u1c3b\u1c3c\u1c7e\u1c7f"
    "\ua4ff\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9\uaa5d\uaa5e"
    "\uaa5f\uaaf0\uaaf1\uabeb\u0f0d\u0f0e\u0f0f\u0f10\u0f11\u0f12\u0f14"
)
STRONG_SIGNS = frozenset(STRONG)
# Behind these an ellipsis opens the next sentence.
ELLIPTIC = "\u3002\uff1f\uff01"
# Read as usual signs: doubled and joined marks, the dot leader, the Greek question mark and, as a
# danda, the sof pasuq of Hebrew and the terminators of all other scripts, most of them historical.
# What has none of `MAYBE_RARE` is not searched for 62 ranges.
_USUAL = dict(zip("\u2024\u203c\u203d\u2047\u2048\u2049\u037e", ".!????;", strict=True))
MAYBE_RARE = re.compile(
    "[\u037e\u05c3\u1b4e-\u1b7f\u2024\u203c\u203d\u2047-\u2049\u2cf9-\u2cfb\u2e2e-\u2e61"
    "\U00010a56-\U0001da88]"
)
RARE = re.compile(
    "[\u05c3\u1b4e\u1b4f\u1b7d-\u1b7f\u2cf9-\u2cfb\u2e2e\u2e3c\u2e53\u2e54\u2e60\u2e61"
    "\U00010a56\U00010a57\U00010f55-\U00010f59\U00010f86-\U00010f89\U00011047\U00011048"
    "\U000110be-\U000110c1\U00011141-\U00011143\U000111c5\U000111c6\U000111cd\U000111de"
    "\U000111df\U00011238\U00011239\U0001123b\U0001123c\U000112a9\U000113d4\U000113d5"
    "\U0001144b\U0001144c\U000115c2\U000115c3\U000115c9-\U000115d7\U00011641\U00011642"
    "\U0001173c-\U0001173e\U00011944\U00011946\U00011a42\U00011a43\U00011a9b\U00011a9c"
    "\U00011c41\U00011c42\U00011ef7\U00011ef8\U00011f43\U00011f44\U00016a6e\U00016a6f"
    "\U00016af5\U00016b37\U00016b38\U00016b44\U00016d6e\U00016d6f\U00016e98\U0001bc9f"
    "\U0001da88]"
)
# Closing quotes and brackets of Chinese and Japanese; these two brackets quote nothing.
WIDE_BRACKETS = "\u3015\uff3d"
WIDE_CLOSERS = (
    "\u300d\u300f\uff09\u3011\u300b\u3009" + WIDE_BRACKETS + "\uff02\u301e\u301f\uff63\ufe42\ufe44"
)
# Closes after a terminator and belongs to its sentence; * and _ are Markdown's.
CLOSERS = (
    "\"'`)]}*_\u2019\u201d\u00bb\u00ab\u203a\u2039"
    + WIDE_CLOSERS
    + "\u00b9\u00b2\u00b3\u2070\u2074\u2075\u2076\u2077\u2078\u2079"
    # Without width: spaces, and marks that tell a direction of writing.
    "\u200b\u200e\u200f\u2060\ufeff"
)
# Closes in German what opens in English.
GERMAN_CLOSERS = "\u201c\u2018"
# Scripts written without spaces but Thai: there quotes that touch text at both sides may open.
WIDE = re.compile("[\u3001-\u9fff\uf900-\ufaff\uff01-\uffef\U00020000-\U0003ffff]")
# One of these is in each text that is read in another way than most: a rare sign, a script without
# spaces, Thai or Lao.
RARE_WIDE_OR_THAI = re.compile(f"{MAYBE_RARE.pattern}|{WIDE.pattern}|[\u0e01-\u0edf]")
# Closers that open, too, in some language.
OPEN_OR_CLOSE = "\"'\u2019\u201d\u00bb\u00ab\u203a\u2039\uff02"
# What may close a quotation with white space before it, as in tokenised text.
SPACED_CLOSERS = '\u00bb"\u201d\u201c\u203a'
# Of these, what may come again behind another one, with white space before it.
SPACED_ANGLES = "\u00bb\u203a"
BULLETS = "\u2022\u2023\u2043"
# Emoji follow the sentence that they comment on; a face ends one that has no terminator.
EMOJI = "\u2600-\u26ff\u2763-\u2767\u2b50\u200d\ufe0f\U0001f000-\U0001faff"
# A run of these between words divides them; parentheses make faces, too.
DIVIDERS = "=_~-"
FACES = "\u263a\U0001f600-\U0001f64f\U0001f910-\U0001f93a"
LINE_ENDS = "\n\r\u2028\u2029"

# What may not start a sentence: it continues or closes the one before.
CONTINUES = frozenset(",;:)]}%/\u2116" + PLAIN + STRONG + "\u201d\uff0c\u3001\uff1b\uff1a")
CONTINUES_STRONG = CONTINUES | (
    frozenset(WIDE_CLOSERS) - frozenset(WIDE_BRACKETS) - frozenset(OPEN_OR_CLOSE)
)


def with_line_ends(text: str) -> str:
    r"""Return the text, of the same length, with "\n" for line ends of returns, but a final one."""
    if "\r" not in text:
        return text
    text = text.replace("\r\n", " \n")
    return text[:-1].replace("\r", "\n") + text[-1:]


def usual(text: str) -> str:
    """Return the text, of the same length, with usual terminators instead of rare ones."""
    if text.isascii() or not MAYBE_RARE.search(text):
        return text
    for sign, other in _USUAL.items():
        text = text.replace(sign, other)
    return RARE.sub("\u0964", text) if MAYBE_RARE.search(text) else text
