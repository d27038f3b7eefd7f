"""Logical lines of Haskell by the layout rule of the language (Haskell 2010 Report, 10.3).

`where`, `let`, `do` and `of` open a block, indented as the token after them; a line that starts in
that column is its next item. A segment begins at each item and at a line that starts with `where`;
guards, operators and `deriving` on lines of their own stay with what they continue. Comments and
pragmas before an item are segments, comments inside of one are not; a line of the C preprocessor is
a segment. The rule parse-error(t), by which a block ends where the next token would be wrong, is
followed for brackets, `in` and `where`. In broken code an unmatched closing bracket is ignored, and
a comment without an end is none. Nothing is parsed, so time is linear in any text: tree-sitter's
parser for Haskell can take minutes for a few kilobytes of operators and cannot be stopped. The
tests compare with it.
"""

import re
from dataclasses import dataclass, field

import numpy as np

from segmenters.base import Cuts

_TAB = 8  # the report's distance of tab stops
_SYMBOL = r"!\#$%&*+./<=>?@^|~:\-"
_KEY = r"(?:where|let|m?do|of|in)(?![\w'])"
_CASE = r"\\[ ]*+cases?(?![\w'])"
_DASHES = rf"--+(?![{_SYMBOL}\\])"
_TOKEN = re.compile(
    rf"""
    (?P<end>\r\n?|\n) | (?P<space>[^\S\r\n]++) | (?P<word>{_KEY}|{_CASE})
  | (?P<open>[(\[]|\{{(?!-)) | (?P<close>[)\]}}])
  | (?P<comment>{_DASHES}[^\r\n]*+) | (?P<nested>\{{-)
  | (?P<directive>(?<![^\r\n])\#[ \t]*+(?:if|ifn?def|el(?:se|if)|endif|define|undef|include|error)
        \b[^\r\n]*+)
  | (?P<code>(?: (?:
        "(?:[^"\\\r\n]|\\(?:\r\n?|[^\r]|\Z))*+(?:"|(?=[\r\n])|\Z)
      | '(?:[^'\\\r\n]|\\[^\s']{{1,9}}|\\')'
      | (?!{_KEY})[^\W\d][\w']*+ | \d[\w']*+
      | (?!{_DASHES})(?:[{_SYMBOL}]|(?!{_CASE})\\)++
      | [^\s()\[\]{{}}"\w\\{_SYMBOL}]
    )[ ]*+ )++)
  | (?P<odd>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_END = re.compile(r"\{-|-\}")
# Starts of lines that continue the item above: `if a` `then b` `else c` in a `do`.
_CONTINUES = re.compile(r"(?:then|else)(?![\w'])|[,)\]}]")
_HEADER = re.compile(r"module(?![\w'])")
_BRACES = -1  # the column of a block in braces, where columns mean nothing


def item_ends(text: str) -> Cuts:
    """Return where logical lines end, in characters, without the end of the text."""
    reader, place = _Reader(), 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        assert match is not None and match.lastgroup is not None
        start, place = place, match.end()
        kind = match.lastgroup
        if kind == "nested":
            closed = reader.comment_end(text, start)
            kind, place = ("odd", place) if closed is None else ("comment", closed)
        if kind == "end":
            reader.end_line(place)
        elif kind == "space":
            reader.indent(match[0])
        elif kind == "directive":
            reader.begin_segment()
        elif kind != "comment":
            reader.read(start, match[0], kind)
    return np.array([*reader.ends, *reader.held], dtype=np.int64)


@dataclass(slots=True)
class _Block:
    column: int  # of its items, in characters
    word: str  # that opened it
    brackets: int  # that were open before it


@dataclass(slots=True)
class _Reader:
    """The blocks and brackets open at the current place, and the line ends found so far."""

    ends: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)  # after the last code, undecided
    blocks: list[_Block] = field(default_factory=list)
    brackets: int = 0
    lets: int = 0
    opening: str = "module"  # the word whose block begins with the next token, or nothing
    line: int = 0  # where it starts, less the columns that tabs add
    fresh: bool = True  # no code yet in this line
    broken: bool = False  # a comment had no end

    def comment_end(self, text: str, start: int) -> int | None:
        """Return the end of the comment that starts here; None if it never closes."""
        depth = 0
        for match in _COMMENT_END.finditer(text, start) if not self.broken else ():
            depth += 1 if match[0] == "{-" else -1
            if not depth:
                return match.end()
        self.broken = True
        return None

    def end_line(self, place: int) -> None:
        self.held.append(place)
        self.line = place
        self.fresh = True

    def indent(self, space: str) -> None:
        if self.fresh and "\t" in space:
            self.line -= len(space.expandtabs(_TAB)) - len(space)

    def begin_segment(self) -> None:
        """Turn the line ends since the last code into ends of segments."""
        self.ends += self.held
        self.held = []

    def read(self, start: int, token: str, kind: str) -> None:
        """Read a token that is neither space nor comment."""
        lets = self.lets
        if self.opening:
            begins = self._open_block(start - self.line, token)
        else:
            begins = self.fresh and self._begins_item(start - self.line, token)
        if self.fresh:
            if begins:
                self.begin_segment()
            self.held = []
            self.fresh = False
        if token == "in" and kind == "word":
            # Where `in` starts a line, its indentation may have closed the block already.
            self._close_let(lets)
        elif kind == "word":
            self.opening = token
        elif kind == "open":
            if token == "{":
                self.blocks.append(_Block(_BRACES, "{", self.brackets))
            self.brackets += 1
        elif kind == "close":
            self._close_bracket(token)

    def _open_block(self, column: int, token: str) -> bool:
        """Open the block that the last word announced; return whether an item begins here."""
        word, self.opening = self.opening, ""
        if word == "module" and _HEADER.match(token):
            return True
        if token == "{":
            return False
        if self.blocks and column <= self.blocks[-1].column:
            return self.fresh and self._begins_item(column, token)
        self.blocks.append(_Block(column, word, self.brackets))
        self.lets += word == "let"
        return True

    def _begins_item(self, column: int, token: str) -> bool:
        """Close the blocks that end before this line; return whether the line begins an item."""
        while self.blocks and self.blocks[-1].column > column:
            self._pop()
        if token == "where":
            while len(self.blocks) > 1 and self.blocks[-1].column >= column:
                self._pop()
            return True
        if _CONTINUES.match(token):
            return False
        if not self.blocks:
            return column == 0 and token != "("  # the head of a module that lacks its `where`
        if self.blocks[-1].column == _BRACES and column == 0:
            while len(self.blocks) > 1:  # the brace was never closed
                self._pop()
        if column != self.blocks[-1].column:
            return False
        self.brackets = self.blocks[-1].brackets
        return True

    def _close_let(self, lets: int) -> None:
        """Close what `in` ends, unless one of the `lets` open before it was already closed."""
        while self.lets == lets and self.lets and self.blocks[-1].column != _BRACES:
            self._pop()

    def _close_bracket(self, token: str) -> None:
        self.brackets = max(self.brackets - 1, 0)
        while self.blocks and self.blocks[-1].brackets > self.brackets:
            self._pop()
        if token == "}" and self.blocks and self.blocks[-1].word == "{":
            self._pop()

    def _pop(self) -> None:
        block = self.blocks.pop()
        self.brackets = min(self.brackets, block.brackets)
        self.lets -= block.word == "let"
