"""HTML tables, and the figure that stands beside one.

Numbers are set in tabular figures and right-aligned by the stylesheet; the lowest (or highest) of
a column is bold; a dagger is explained under the table that holds it.
"""

from collections.abc import Sequence

from train.report.formats import DAGGER
from train.report.markup import Markup, join, tag
from train.report.palette import Style, swatch

_LONG = 18  # letters
EXPLAINED = f"{DAGGER} no finite value: not measured there, or the loss was not a number."


def table(
    *,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    groups: Sequence[tuple[str, int]] = (),
    note: str = "",
) -> Markup:
    """A table whose first column names the rows.

    `groups` is an upper row of headings, each over a number of columns. A row of one cell is a
    heading across the table.
    """
    top = [_group(label, span) for label, span in groups]
    body = [_row(row, len(head)) for row in rows]
    below = [note] if note else []
    if any(DAGGER in cell for row in rows for cell in row):
        below.append(EXPLAINED)
    return tag(
        "div",
        tag(
            "table",
            tag("thead", *([tag("tr", *top)] if top else []), tag("tr", *map(_heading, head))),
            tag("tbody", *body),
        ),
        *(tag("p", line, class_="note") for line in below),
        class_="table",
    )


def name_cell(label: str, style: Style) -> Markup:
    """A model's name behind a piece of its line; only a long name may break."""
    long = " long" if len(label) > _LONG else ""
    return tag("span", swatch(style), label, class_=f"model{long}")


def emphasised(shown: str, best: str | None) -> Markup:
    """A number in a table, bold where it is the best of its column as shown."""
    return tag("b", shown) if shown == best else join([shown])


def with_detail(shown: str, detail: str) -> Markup:
    """A number with a smaller one under it."""
    return join([shown, tag("small", detail)])


def beside(figure: Markup, *, table: Markup, caption: str = "") -> Markup:
    """A figure and its table, side by side where the page is wide enough."""
    words = [tag("figcaption", caption)] if caption else []
    return tag("figure", tag("div", figure, class_="drawing"), table, *words, class_="pair")


def section(anchor: str, title: str, *content: Markup) -> Markup:
    """A part of the page under its heading."""
    return tag("section", tag("h2", title), *content, id=anchor)


def _group(label: str, span: int) -> Markup:
    if not label:
        return tag("td", colspan=span)
    return tag("th", tag("span", label), colspan=span, scope="colgroup")


def _heading(label: str) -> Markup:
    return tag("th", label, scope="col")


def _row(cells: Sequence[str], width: int) -> Markup:
    if len(cells) == 1:
        return tag("tr", tag("th", cells[0], colspan=width, scope="rowgroup"), class_="across")
    return tag("tr", tag("th", cells[0], scope="row"), *(tag("td", cell) for cell in cells[1:]))
