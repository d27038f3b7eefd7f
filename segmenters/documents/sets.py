"""What a data set calls the source of a document -> its route; None where that says nothing.

The names are those of the Pile's 22 sets, RedPajama, SlimPajama, Dolma, proof-pile-2 and Common
Pile, compared by their letters and digits alone. What a source holds is what its makers say: papers
of the Pile went through pandoc and are Markdown with formulas, those of RedPajama and proof-pile-2
are LaTeX; so papers are looked into, as are files of code, since repositories hold all kinds.
"""

from __future__ import annotations

import re
from typing import Final

LOOKED_INTO: Final = "looked into"
_SETS: Final = {
    LOOKED_INTO: "github, the stack, stack, stack v2, stack dedup, stackv2, starcoder,"
    " starcoderdata, star coder, code, algebraic stack, stack edu, stackv2 code",
    "papers": "arxiv, redpajama arxiv, arxiv papers",
    "markdown": "pubmed central, stackexchange, redpajama stackexchange, stack exchange,"
    " open web math, openwebmath, github issues, github archive",
    "chain_of_thought": "dm mathematics, gsm8k, metamathqa, amps, openmathinstruct",
    "lines": "ubuntu irc, irc, opensubtitles lines",
    "email": "enron emails",
    "prose": "gutenberg pg 19, pg 19, pg19, gutenberg, project gutenberg, books3, books, book,"
    " bookcorpus, bookcorpus2, wikipedia en, wikipedia, wiki, wikibooks, wikisource, openwebtext2,"
    " openwebtext, pile cc, freelaw, free law, pubmed abstracts, pubmed, opensubtitles, europarl,"
    " hackernews, hacker news, nih exporter, philpapers, youtubesubtitles, uspto backgrounds,"
    " uspto, c4, cc, common crawl, commoncrawl, redpajama c4, redpajama commoncrawl,"
    " redpajama cc, redpajama wikipedia, redpajama book, cc news, ccnews, refinedweb,"
    " falcon refinedweb, dclm, fineweb, reddit, pes2o, s2, s2orc, megawika, caselaw,"
    " caselaw access project, usgpo",
}
_BY_NAME: Final = {
    name.strip().replace(" ", ""): route
    for route, names in _SETS.items()
    for name in names.split(",")
}
_SEPARATOR = re.compile(r"[/:]|_(?=head|middle|tail|en_|all\b)")
_NOT_A_NAME = re.compile(r"[^a-z0-9]+")
# Only so many characters of a paper are looked at.
_HEAD: Final = 20_000
_LATEX = re.compile(
    r"\\(?:documentclass|documentstyle|section\*?\{|maketitle|begin\{(?:abstract|document|figure|"
    r"equation|theorem|itemize|table)\*?\})"
)
_PANDOC = re.compile(
    r"\A\s*---\n(?:abstract|address|author|bibliography|title):|\{#|reference-type=|\[@"
    r"|^#{1,6} \w|^[=-]{4,}[ \t]*$",
    re.MULTILINE,
)


def route_of_set(name: str, text: str) -> str | None:
    """The route that a source asks for; `LOOKED_INTO` where it holds documents of all kinds."""
    known = name.lower()
    found = _BY_NAME.get(_plain(known)) or _BY_NAME.get(_plain(_SEPARATOR.split(known)[0]))
    if found != "papers":
        return found
    head = text[:_HEAD]
    of_latex, of_pandoc = _count(_LATEX, head), _count(_PANDOC, head)
    return "markdown" if of_pandoc > of_latex else "latex"


def _plain(name: str) -> str:
    return _NOT_A_NAME.sub("", name)


def _count(pattern: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))
