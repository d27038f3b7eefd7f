"""How texts of records look, for documents without a name.

A sign is tried on the beginning of a text; "^" and "$" match at lines. Logs and tables are told by
most of their first lines.
"""

from typing import Final

from segmenters.records.logs import STAMPED

_ENTRY = r"article|book|booklet|conference|inbook|incollection|inproceedings|manual|misc|online"
_TIME = r"\d{1,3}:\d\d:\d\d[,.]\d{3}[ \t]*-->"
_TABLES = (
    r"(?:OR REPLACE )?(?:TEMP(?:ORARY)? |UNIQUE )?(?:TABLE|VIEW|INDEX|FUNCTION|PROCEDURE|TYPE)"
)
_STATEMENT = (
    rf"CREATE {_TABLES}\b|ALTER TABLE \S|DROP TABLE\b|INSERT INTO \S|DELETE FROM \S"
    r"|SELECT\s[^\n]{1,200}\sFROM\s|UPDATE \S+ SET "
)
_DOCKER = (
    r"\A(?:[ \t]*+(?:#[^\n]*+|ARG [^\n]*+)?\n){0,40}+FROM[ \t]+[\w./:$@{}-]+"
    r"(?:[ \t]+(?i:AS)[ \t]+[\w.-]+)?[ \t]*\r?$"
)
# A format, how often its sign must occur at least, and the sign.
RECORD_SIGNS: Final = (
    ("srt", 1, rf"\A\ufeff?\s*+\d+[ \t]*\r?\n{_TIME}"),
    ("vtt", 1, r"\A\ufeff?WEBVTT\b"),
    ("ass", 1, r"\A\ufeff?\[Script Info\]"),
    ("po", 3, r"^(?:#~ )?msg(?:id|str) \""),
    (
        "bibtex",
        1,
        rf"(?i)\A(?:[ \t]*+(?:%[^\n]*+)?\r?\n){{0,40}}+@(?:{_ENTRY}|string|comment)\s*\{{",
    ),
    ("bibtex", 2, rf"(?i)^@(?:{_ENTRY}|(?:phd|master)sthesis|techreport)\s*\{{[^\s,]+,[ \t\r]*$"),
    ("ics", 1, r"\A\s*+BEGIN:VCALENDAR\b"),
    ("vcard", 1, r"\A\s*+BEGIN:VCARD\b"),
    ("ldif", 1, r"\A(?:(?:#[^\n]*+|version: 1)?\r?\n){0,40}+dn::? \S"),
    ("gitlog", 1, r"\Acommit [0-9a-f]{40}\b[^\n]*\n(?:Merge:|Author:|tree )"),
    ("dockerfile", 1, _DOCKER),
    ("gherkin", 1, r"\A(?:[ \t\r]*+(?:[#@][^\n]*+)?\n){0,40}+[ \t]*Feature:[ \t]"),
    ("genbank", 1, r"\ALOCUS {2,}\S"),
    ("fasta", 1, r"\A>\S[^\n]*\n[A-Za-z*-]{20,}\r?\n[A-Za-z*>-]"),
    ("sql", 2, rf"(?i)^(?:{_STATEMENT})"),
)
_LEAST_ROWS, _ROWS, _LEAST_RECORDS, _RECORDS = 4, 12, 3, 40


def is_log(head: str) -> bool:
    """Return whether half of the first lines that are not indented begin with a time."""
    lines = [line for line in head.split("\n")[:_RECORDS] if line.strip() and line[0] not in " \t"]
    found = sum(1 for line in lines if STAMPED.match(line))
    return found >= _LEAST_RECORDS and 2 * found >= len(lines) and table_in(head) is None


def table_in(head: str) -> str | None:
    """Return the format of a table: its first lines have as many tabs, semicolons or commas."""
    rows = [row for row in head.split("\n")[:-1] if row.strip() and row[0] != "#"]
    rows = rows[:_ROWS]
    if len(rows) < _LEAST_ROWS:
        return None
    for format, sign, least in (("tsv", "\t", 1), ("csv", ";", 2), ("csv", ",", 2)):
        if len({row.count(sign) for row in rows}) == 1 and rows[0].count(sign) >= least:
            return format
    return None
