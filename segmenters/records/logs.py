r"""Log records: a record starts where a line looks like the other records of its file.

A line has a rank: it begins with a time, behind a few words at most (2); with a level such as
"WARNING:" (1); with anything else that is no continuation (0). A continuation is indented, or is
part of a traceback ("Traceback ...", "Caused by:", "... 12 more", "ValueError: ..."). A line starts
a record unless lines of a higher rank are common in the file so far: below "12:00:01 failed" a line
"INFO: disk" or "  at f(g.java:3)" goes on with the record, and in a file without times each line is
one. Times are those of ISO 8601, syslog (RFC 3164 and 5424), log4j, Python, java.util.logging,
Apache and nginx (access and error), klog, Go, Android, the Linux kernel, HDFS and BGL; a line of
JSON or of logfmt with a time also is a record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from segmenters.records.reading import Format, Reading

_MONTHS = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_DAYS = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_CLOCK = r"\d{1,2}:\d{2}:\d{2}"
_DATE = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
    rf"|\d{{1,2}}[-/ ]{_MONTHS}[-/ ]\d{{2,4}}|{_MONTHS}[ ]{{1,2}}\d{{1,2}},?(?:[ ]\d{{4}})?)"
)
_STAMPS = "|".join(
    (
        rf"{_DATE}(?:T|[ ]{{1,2}}|[:,\-][ ]?|[ ]at[ ]){_CLOCK}",
        rf"{_DAYS}[ ,]{{1,2}}{_MONTHS}[ ]{{1,2}}\d{{1,2}}[ ](?:\d{{4}}[ ])?{_CLOCK}",
        rf"{_DAYS},[ ]\d{{1,2}}[ ]{_MONTHS}[ ]\d{{4}}[ ]{_CLOCK}",
        r"\d{8}[-T ]\d{2}:?\d{2}:?\d{2}(?!\d)",
        rf"\d{{2}}[-.]\d{{2}}[ ]{_CLOCK}",
        rf"{_CLOCK}(?:[.,:]\d{{1,9}})?(?=[\s\]|)>,-])",
        r"[IWEF]\d{4}[ ]\d{2}:\d{2}",
        r"\[[ ]{0,9}\d{1,9}\.\d{3,9}\]",
        r"1\d{9}(?:\.\d{1,9}|\d{3})?(?=[\s\]|,])",
        r"\d{6}[ ]\d{6}[ ]\d{1,9}[ ]",
    )
)
_LEVELS = (
    r"(?i:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|SEVERE|CRITICAL|CRIT|FATAL|ALERT|EMERG)"
)
# An address, a host, a level, a priority, a thread: what may be in front of a time.
_FRONT = r"(?:[\[(<\"']{0,2}+[\w.:/@%#*+-]{1,60}+[\])>\"',;|]{0,2}+[ \t|]{1,3}+)"
_STARTS = (
    r"(?P<blank>[ \t]{0,99}+(?:[\r\n]|\Z))|(?P<l2>(?:[\[(<\"'|]|<\d{1,3}>(?:\d[ ])?){0,2}"
    rf"(?:{_STAMPS})|\{{\"|(?:ts|time|timestamp|t|at|level)=[^\s=])"
    r"|(?P<more>[ \t]|Traceback \(most|Caused by:|\.\.\. \d|[\w.$]{1,80}(?:Error|Exception|Warning)"
    r"(?::|[\r\n]|\Z)|During handling|The above exception|---|[\])}>|])"
    rf"|(?P<far>{_FRONT}{{1,5}}?[\[(\"]?(?:{_STAMPS}))"
    rf"|(?P<level>[\[(<]?{_LEVELS}[\])>]?(?:[ \t]{{0,3}}[:|-]|[ \t]|(?<=[\])>])))|(?P<l0>)"
)
# A line that begins with a time, behind a few words at most.
STAMPED: Final = re.compile(
    rf"[\[(<\"'|]{{0,2}}(?:{_STAMPS})|{_FRONT}{{1,5}}?[\[(\"]?(?:{_STAMPS})"
)
# A higher rank wins over a lower one unless that is this many times as frequent.
_COMMON = 8
_RANKS: Final[Mapping[str, int]] = {"l0": 0, "level": 1, "l2": 2, "far": 2}


@dataclass(slots=True, kw_only=True)
class Log(Reading):
    """Reads a log; `counts`: how many lines of each rank it has had."""

    counts: list[int] = field(default_factory=lambda: [0, 0, 0])

    def level(self, kind: str, match: re.Match[str]) -> int:
        rank = _RANKS.get(kind)
        if rank is None:
            return 0 if self.seen else 1
        starts = _COMMON * sum(self.counts[rank + 1 :]) <= self.counts[rank]
        self.counts[rank] += 1
        return int(starts)


LOG: Final = Format(starts=_STARTS, head=160, reading=Log)
