"""The rules for sentences as a spaCy pipeline, and as its component `bipe_sentences` in any other.

Boundaries are written as whole arrays (`Doc.from_array`): a Python loop over tokens is an order of
magnitude slower.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
import spacy
from spacy.attrs import IDX, SENT_START
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import DummyTokenizer
from spacy.vocab import Vocab

from segmenters.base import Cuts
from segmenters.prose.endings.language import ANY
from segmenters.prose.rules import sentence_ends
from segmenters.prose.spacy_models import NO_LIMIT, starts_of

COMPONENT = "bipe_sentences"
# The key in Doc.user_data of a Doc in which each token is a sentence.
_CUT = "bipe_sentences_cut"


class SentenceTokenizer(DummyTokenizer):
    """Text -> Doc with one token per sentence: words would take twice the time."""

    def __init__(self, vocab: Vocab, *, next_word: bool, language: str) -> None:
        self.vocab = vocab
        self.next_word, self.language = next_word, language

    def __call__(self, text: str) -> Doc:
        ends = sentence_ends(text, next_word=self.next_word, language=self.language)
        places = (0, *ends, len(text))
        words = [text[start:end] for start, end in pairwise(places)] if text else []
        doc = Doc(self.vocab, words=words, spaces=[False] * len(words))
        doc.user_data[_CUT] = True
        return doc


@spacy.registry.tokenizers("bipe_sentence_tokens")
def sentence_tokenizer(next_word: bool, language: str = ANY):  # type: ignore[no-untyped-def]
    return lambda nlp: SentenceTokenizer(nlp.vocab, next_word=next_word, language=language)


class SentenceComponent:
    """Writes the rules' sentence ends into a Doc; one inside of a token moves to the next token."""

    def __init__(self, *, next_word: bool, language: str = ANY) -> None:
        self.next_word, self.language = next_word, language

    def __call__(self, doc: Doc) -> Doc:
        """Set `is_sent_start` of each token; return the same Doc."""
        if not len(doc):
            return doc
        if doc.user_data.pop(_CUT, False):
            starts = np.ones(len(doc), dtype=np.int64)
        else:
            starts = np.full(len(doc), -1, dtype=np.int64)
            ends = sentence_ends(doc.text, next_word=self.next_word, language=self.language)
            tokens = np.searchsorted(doc.to_array([IDX]), ends)
            starts[np.concatenate(([0], tokens[tokens < len(doc)]))] = 1
        return doc.from_array([SENT_START], starts.astype(np.uint64)[:, None])  # type: ignore[arg-type]


@Language.factory(
    COMPONENT,
    assigns=["token.is_sent_start"],
    default_config={"next_word": False, "language": ANY},
)
def _component(nlp: Language, name: str, next_word: bool, language: str) -> SentenceComponent:
    return SentenceComponent(next_word=next_word, language=language)


@lru_cache(maxsize=8)
def _rules(next_word: bool, language: str) -> Language:
    options = {"next_word": next_word, "language": language}
    tokenizer = {"@tokenizers": "bipe_sentence_tokens", **options}
    nlp = spacy.blank("xx", config={"nlp": {"tokenizer": tokenizer}})
    nlp.add_pipe(COMPONENT)
    # Lower case, shape and the like of each token take most of the time, and nobody reads them.
    nlp.vocab.lex_attr_getters = {}  # type: ignore[attr-defined]
    nlp.max_length = NO_LIMIT
    return nlp


def rule_ends(text: str, *, next_word: bool, language: str) -> Cuts:
    """Return character offsets at which the rules, run by spaCy, start a sentence; 0 included."""
    pipeline = _rules(next_word, language)
    return starts_of(pipeline, text) if text else np.zeros(0, dtype=np.int64)
