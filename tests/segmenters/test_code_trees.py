"""Statements and definitions by grammar: snippets with the boundaries that a reader expects.

The snippets say what the rule means in each language; they cannot show how often real code has
forms that they do not hold.
"""

import random
import re

import numpy as np
import pytest
import tree_sitter
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Lines, SegmenterError
from segmenters.base import tallied
from segmenters.code import advice, grammars, parsed
from segmenters.code.lines import is_cpp
from segmenters.code.masks import encode
from segmenters.code.pieces import AFTER_HARD, CREDIT, ERROR, LEAST_PASSED, LEFT
from segmenters.code.tables import _COMMON, TABLES, WRAPPERS, grammar_of
from segmenters.registry import LANGUAGES
from tests.segmenters.grammar import document
from tests.segmenters.samples import SNIPPETS
from tests.segmenters.texts import any_text, grows_too_fast, logical, pieces

PARSED = [language for language in LANGUAGES if language != "python"]
_MARK, _LINE = re.compile(r"@=?\|(?=\n)"), re.compile(r"@=?\|\n")
each = pytest.mark.parametrize("language", PARSED)
UNITS = [
    *("~~~\n", "\n-", "(", "'", '"', "`", "/*\n", "{\n", "%w(", "<!--\n", "\u3000", "\0", "\ud800"),
    *("a ", "\n"),
]


def repeated(text, size):
    return (text * (size // len(text) + 1))[:size]


@each
def test_every_language_cuts_its_snippet_as_written(language):
    snippet = SNIPPETS[language]
    text = _MARK.sub("", snippet)
    lines = [_MARK.sub("", piece) + "\n" for piece in _LINE.split(snippet)[:-1]]
    blocks = [_MARK.sub("", piece) + "\n" for piece in snippet.split("@=|\n")[:-1]]
    assert pieces(text, language) == lines
    assert pieces(text, language, level=2) == blocks


@each
def test_the_names_in_a_table_are_those_of_the_grammar(language):
    table = TABLES[language]
    grammar = grammars.load(*grammar_of(language))
    known = {grammar.node_kind_for_id(number) for number in range(grammar.node_kind_count)}
    own = f"{table.opens} {table.begins} {table.braced} {table.defines} {table.contains} "
    own += f"{table.comments} {table.methods} {table.joins}"
    of_labels = [part for label in table.labels.split() for part in label.split(":", 1)]
    assert {*own.split(), *of_labels} - known == set()


def test_the_names_common_to_all_tables_are_those_of_some_grammar():
    loaded = [grammars.load(*grammar_of(language)) for language in TABLES]
    known = {each.node_kind_for_id(n) for each in loaded for n in range(each.node_kind_count)}
    assert {*" ".join(_COMMON.values()).split(), *WRAPPERS} <= known


def tokens_of(language):
    """Texts of the tokens of a grammar."""
    grammar = grammars.load(*grammar_of(language))
    kinds = range(grammar.node_kind_count)
    tokens = [grammar.node_kind_for_id(k) for k in kinds if not grammar.node_kind_is_named(k)]
    some = st.sampled_from([*filter(None, tokens), " ", "\n", "\n  ", "a", "1", '"s"'])
    return st.lists(some, max_size=60).map("".join)


@each
@given(data=st.data())
def test_any_text_is_tiled_by_lines_and_blocks_and_cut_alike_twice(language, data):
    latin = st.binary(max_size=80).map(lambda some: some.decode("latin-1"))
    text = data.draw(st.one_of(tokens_of(language), any_text, latin))
    physical, segmenter = Lines().cut(text), logical(language)
    with tallied() as rules:
        lines, _, blocks = segmenter.levels(text)
    known = {f"logical {language}", advice.TOO_HARD}
    assert {*rules} <= known and rules.total() == len(text)
    assert lines[0] == blocks[0] == 0 and lines[-1] == blocks[-1] == len(text)
    assert np.isin(lines, physical).all() and np.isin(blocks, lines).all()
    assert lines.tolist() == segmenter.cut(text).tolist()
    assert blocks.tolist() == segmenter.levels(text)[2].tolist()


@pytest.mark.parametrize(
    ("language", "head"),
    [("html", "<!-- {} -->\n"), ("css", "/* {} */\n"), ("ocaml", "(* {} *)\n")],
)
def test_characters_beyond_ascii_do_not_move_cuts(language, head):
    text = _MARK.sub("", SNIPPETS[language])
    plain, rich = head.format("abcd"), head.format("\u00e9\u3042\U0001f600\ud800")
    assert len(plain) == len(rich)
    segmenter = logical(language)
    assert segmenter.cut(plain + text).tolist() == segmenter.cut(rich + text).tolist()


@pytest.mark.parametrize(
    ("language", "marked"),
    [
        # Line ends of other systems; a macro of two lines among template parameters.
        ("javascript", "/* a\r\n b */\r\n|g();\r\n"),
        ("javascript", "/* a\r b */\r|g();\r"),
        ("cpp", "template <A_(\na), class B> int f();\n|int \u00e9;\n"),
        # A lone carriage return in what a grammar must not see.
        ("cpp", "template <A_(a,\r b), class B> int f();\n|int \u00e9;\n"),
        ("bash", "a=\u00e9\n|echo ${x%%a\rb}\n|b\n"),
        # Brackets beyond any human depth are not parsed.
        ("javascript", "x = " + "(" * 5000 + "\n|" + ")" * 5000 + ";\n"),
        # A here-document that the text breaks off: the scanner, which nothing can stop, waits.
        *(("perl", f"print <<A;\n|{body}") for body in ("$?", "$x", "@x", "\\", "$a. b")),
        # Julia's grammar looks to the end of the piece behind each `for` in brackets.
        (
            "julia",
            "function f(a,\n    b)\n|  x = [g(i,\n  j) for i in 1:2]\n|  h(x)\n|end\n|" * 1000,
        ),
    ],
)
def test_statements_are_those_of_a_reader(language, marked):
    expected = [piece for piece in marked.split("|") if piece]
    assert pieces("".join(expected), language) == expected


def test_broken_code_has_physical_lines_where_it_is_broken():
    text = (
        "int a = f(1,\n  2);\nint b = = (3\n  4 5;\n@@\nint f(int x,\n  int y) {\n  return x;\n}\n"
    )
    found = pieces(text, "c")
    assert found[0] == "int a = f(1,\n  2);\n"
    assert {"int b = = (3\n", "  4 5;\n", "@@\n"} <= set(found)
    assert {"  return x;\n", "}\n"} <= set(found)


def test_headers_of_c_plus_plus_are_read_as_such():
    text = "namespace a {\nclass B : public C {\n public:\n  int f(int x,\n        int y);\n};\n}\n"
    assert pieces(text, "c") == pieces(text, "cpp")
    assert "  int f(int x,\n        int y);\n" in pieces(text, "c")
    plain = "struct a {\n  int class;\n};\n/* namespace of\n class b */\n"
    assert not is_cpp(plain) and pieces(plain, "c")[-1] == "/* namespace of\n class b */\n"


def parsed_and_broken(monkeypatch):
    """Return how many bytes each parse reads from now on, and those that its errors count.

    A parse that is given up counts what it has read as errors.
    """
    work, wrong = [], []
    parse = grammars.parse

    def counted(data, *arguments, **options):
        found = parse(data, *arguments, **options)
        work.append(found[1])
        places, left = grammars.errors(found[0]) if found[0] else ([], 0)
        owed = ERROR * len(places) + LEFT * left
        wrong.append(owed if found[0] else 4 * found[1])
        return found

    monkeypatch.setattr(grammars, "parse", counted)
    return work, wrong


def test_text_full_of_errors_is_parsed_here_and_there_alone(monkeypatch):
    """Each error costs a parser what a hundred tokens do; a good text with such signs is read."""
    work, _ = parsed_and_broken(monkeypatch)
    hostile, good = "\\begin{verbatim}\n" * 6000, 'f("\\\\\\\\",\n  1);\n' * 6000
    assert pieces(hostile, "javascript") == hostile.splitlines(keepends=True)
    assert sum(work) < len(hostile) / 2
    assert pieces(good, "javascript") == ['f("\\\\\\\\",\n  1);\n'] * 6000


# Seeds of texts of the grammar that took 30 to 50 times as long as ordinary code; in those of the
# second row a few errors hold most of the tokens, or parsing is given up again and again.
BROKEN = [
    *(("csharp", 2300010032), ("tsx", 2300010346)),
    *(("csharp", 2300010075), ("rust", 2300010172), ("zig", 2300010010)),
]
# In these a beginning of half the size, or an eighth of it behind a hard place, fared better.
ALIKE = [*(("java", 2300132298), ("perl", 2300132298), ("bash", 2300132276), ("java", 2300132339))]


# These have no beginning long enough to be looked at first.
SHORT = [("csharp", 2300010142), ("rust", 2300010247), ("zig", 2300010200)]


@pytest.mark.parametrize(("language", "seed"), [*BROKEN, *ALIKE, *SHORT, ("perl", 2300132025)])
def test_the_errors_that_a_parser_recovers_from_are_bounded(language, seed, monkeypatch):
    _, wrong = parsed_and_broken(monkeypatch)
    counts = {}
    for size in (4_000, 16_000, 31_000) if (language, seed) in SHORT else (100_000, 200_000):
        wrong.clear()
        pieces(repeated(document(seed), size), language)
        counts[size] = sum(wrong)
    if (language, seed) in ALIKE:
        assert counts[200_000] <= 2.5 * counts[100_000]
    elif language == "perl":  # its tokens are long: time is quadratic in a piece of it
        assert max(wrong) <= CREDIT
    else:
        assert all(count <= 2 * size for size, count in counts.items() if size < 50_000)
        longest = 2.5 * counts.get(100_000, 0) + 100 * ERROR
        assert counts.get(200_000, 0) <= min(200_000 * 2, longest)


@each
def test_ordinary_code_is_not_suspect(language, monkeypatch):
    text = _MARK.sub("", SNIPPETS[language]) * 9
    work, _ = parsed_and_broken(monkeypatch)
    pieces(text, language)
    assert sum(work) <= len(encode(text, language)) + 1


def test_long_texts_are_parsed_in_pieces(monkeypatch):
    text = "void f(int a,\n       int b) {\n  g();\n}\n\n" * 300
    whole = pieces(text, "c")
    monkeypatch.setattr("segmenters.code.pieces.LARGEST", 1000)
    assert pieces(text, "c") == whole
    monkeypatch.setattr("segmenters.code.pieces.LONG_LINE", 100)
    long = 'char *s = "' + "x" * 200 + '";\n'
    assert pieces(text + long + text, "c") == [*whole, long, *whole]


LINEAR = {
    "bash": ['"\\', "#\\\n", "${x%", "${a["],
    "cpp": ["A_B(", "A_B ", "<A_B(a(b)", "~~~\n", "\n-", "void f() {}\n"],
    "javascript": ["'\\'", "=/", "=/[", "`", "/*", "({", "}", ";", '"'],
}


@pytest.mark.parametrize("language", LINEAR)
def test_masks_deep_trees_wide_ones_and_long_lines_take_linear_time(language):
    cut = logical(language).levels
    for unit in LINEAR[language]:
        texts = (repeated(unit, size) for size in (20_000, 80_000))
        assert not grows_too_fast(cut, *texts, most=9, slack=0.1), unit


def test_what_is_hard_to_parse_has_physical_lines_and_the_rest_its_statements():
    good = "void f(int a,\n       int b) {\n  g(1,\n    2);\n}\n\n"
    hard = "*)" * 2000 + "\n" + "f(,\n" * 500 + "\n"
    found = pieces(good * 200 + hard + good * 400, "c")
    assert found[: 4 * 190] == pieces(good, "c") * 190
    assert found[-4 * 200 :] == pieces(good, "c") * 200
    assert "f(,\n" in found


class Counted:
    """A parser that counts its reads and steps."""

    original = tree_sitter.Parser

    def __init__(self, grammar):
        self._parser = self.original(grammar)

    def parse(self, read, progress_callback):
        def counted(name, call):
            def count(*arguments):
                Counted.work[name] += 1
                return call(*arguments)

            return count

        callback = counted("steps", progress_callback)
        return self._parser.parse(counted("reads", read), progress_callback=callback)


@each
def test_the_work_on_hostile_text_grows_with_its_length_alone(language, monkeypatch):
    monkeypatch.setattr(grammars.tree_sitter, "Parser", Counted)
    for unit in UNITS:
        text = repeated(unit, 4_000) + "\n"
        Counted.work = {"reads": 0, "steps": 0}
        lines, _, blocks = logical(language).levels(text)
        assert lines[-1] == blocks[-1] == len(text)
        size = len(encode(text, language))
        tries = 2 * (3 + int(np.log2(AFTER_HARD / LEAST_PASSED)))  # in a short text
        most = 2 * grammars._LAST_RATE * size + tries * (grammars._MOST_STEPS + 1)
        assert Counted.work["steps"] <= most, unit
        # Once over the limit, the parser may take a hundred operations more before it can be
        # stopped, and scan the text to its end several times in each.
        most = tries * (grammars._READ_RATE * size + grammars._READS + 1)
        assert Counted.work["reads"] <= most + tries * 1000 * (size // grammars._CHUNK + 1), unit


@each
def test_random_bytes_do_not_crash_the_parser(language):
    """A parser that is shown the end of the text too early, to stop it, may crash the process."""
    random_ = random.Random(3)
    text = "".join(chr(random_.randrange(256)) for _ in range(6_000))
    assert logical(language).cut(text)[-1] == len(text)


def test_a_grammar_that_goes_missing_later_is_named(monkeypatch):
    lines = Lines(granularity="logical")
    monkeypatch.setattr(advice, "find_spec", lambda name: None)
    parsed._grammar.cache_clear()
    with pytest.raises(SegmenterError, match="pip install tree-sitter tree-sitter-bash"):
        lines.cut("#!/bin/sh\nls\n")


MINIFIED = {
    "css": ".a,.b{c:d;|e:url(x;y)}|@media (f:1){.g{h:i}}|.j[k=';}']{l:m}|",
    "javascript": '!function(a,b){var c=/[;{]/g,d="e;\\"}";|if(f){g(1)}else{h()}|for(;;){i({j:1})}|'
    "class K{l(){m}|n(){o}}|/*;{*/p=`q;r`;|return s}(t);|u={v:1};|",
}


@pytest.mark.parametrize("language", MINIFIED)
def test_lines_too_long_to_be_written_are_cut_at_statements(language):
    unit = MINIFIED[language]
    text = unit.replace("|", "") * 400
    with tallied() as done:
        assert pieces(text, language) == [piece for piece in (unit * 400).split("|") if piece]
    assert done == {f"minified {language}": len(text)}
    assert pieces(f"a\n{text}\n", language)[1:] == pieces(f"{text}\n", language)
