"""One HTML file without scripts, pictures or anything from elsewhere.

Its content security policy forbids all of them, so that a text which slipped through as markup
could still load and run nothing.
"""

from train.report.markup import Markup, tag
from train.report.stylesheet import stylesheet

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def document(title: str, *content: Markup) -> str:
    """The whole document around the content of its body."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(stylesheet())),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', *content), lang='en')}\n"
