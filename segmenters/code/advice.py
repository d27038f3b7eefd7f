"""What to do where a grammar is missing, or where physical lines replace logical ones."""

from functools import lru_cache
from importlib.util import find_spec

from segmenters.base import UNCLOSED
from segmenters.code.tables import TABLES, grammar_of
from segmenters.registry import installed

# What is tallied where physical lines replace logical ones; the first ends in a language.
NO_GRAMMAR = "physical lines: no grammar of "
LANGUAGE_UNKNOWN = "physical lines: unknown language"
IN_DOCUMENT = "physical lines: listings in no known language"
TOO_HARD = "physical lines: too hard to parse"


def missing(language: str) -> str | None:
    """Return how to install a missing grammar or do without it; None if it can be used."""
    if not _installed(language):
        wrong = f"that is not installed ({_install(language)})"
    elif fault := _fault(*grammar_of(language)):
        wrong = f"of another version ({fault}; {_install(language)})"
    else:
        return None
    return f"language {language!r} needs a grammar {wrong}, or fallback=True for physical lines"


def _installed(language: str) -> bool:
    return bool(find_spec("tree_sitter") and find_spec(grammar_of(language)[0]))


@lru_cache(maxsize=64)
def _fault(module: str, function: str) -> str:
    """Return why tree-sitter cannot use an installed grammar; empty if it can."""
    from segmenters.code import grammars

    try:
        grammars.load(module, function)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        return str(error)
    return ""


def _install(language: str) -> str:
    how = "install -U" if _installed(language) else "install"
    return f"pip {how} tree-sitter {grammar_of(language)[0].replace('_', '-')}"


def cure(rule: str) -> str | None:
    """Return what helps where physical lines replaced logical ones; None for other rules."""
    if rule == LANGUAGE_UNKNOWN:
        return "name it by a field (lang, path), the file name or language="
    if rule.startswith(NO_GRAMMAR):
        language = rule.removeprefix(NO_GRAMMAR)
        return _install(language) if language in TABLES else f"there are: {', '.join(TABLES)}"
    if rule == UNCLOSED:
        return "close it in the file, or exclude the file"
    return "exclude generated, minified and broken files" if rule == TOO_HARD else None


def versions(language: str) -> dict[str, str]:
    """Return the installed versions of tree-sitter and of the grammar."""
    return installed("tree-sitter", grammar_of(language)[0].replace("_", "-"))
