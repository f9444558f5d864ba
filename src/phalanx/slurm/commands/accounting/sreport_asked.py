"""Print the tables of sreport, and read the conditions of a report.

The first part prints a table as Slurm does: with the columns of `format=name%width`, with a `+` at the end of each
shortened text, and in the form that `-n`, `-p` or `-P` selects.

The second part reads the conditions, the period and the units of a report. As in Slurm, an unknown condition is
reported and ignored: the report is printed, and the exit code is 1.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from phalanx.slurm.accounts.used import Period
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.commands.accounting.entities.words import typed
from phalanx.slurm.notation import printed, times
from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.notation.printed import Printed
from phalanx.slurm.options import Usage, say

_FIELD = re.compile(r"([A-Za-z0-9_ ]+)(?:%(-?\d+))?")


class AccountingColumn(NamedTuple):
    """A column of a table. `width`: the width in characters; negative if the column is left-aligned. `field`: the key
    of its value in a row."""

    heading: str
    width: int
    field: str = ""


def chosen_columns(form: str, known: Mapping[str, AccountingColumn]) -> list[AccountingColumn]:
    """Return the columns that a value of `format=` names. Names may be abbreviated. `known`: name -> column. Raises
    Usage."""
    found = []
    for word in form.split(","):
        match = _FIELD.fullmatch(word.strip())
        typed = match[1].lower() if match is not None else ""
        name = typed if typed in known else next((one for one in known if typed and one.startswith(typed)), "")
        if match is None or not name:
            raise Usage(f" Unknown field '{word}'")
        column = known[name]
        found.append(AccountingColumn(column.heading, read_width(match[2]) if match[2] else column.width, name))
    return found


def show(
    columns: Sequence[AccountingColumn], rows: Sequence[Mapping[str, str]], options: Mapping[str, str | None]
) -> None:
    cells = [[row.get(column.field, "") for column in columns] for row in rows]
    if "parsable" in options or "parsable2" in options:
        cells = [[text.strip() for text in line] for line in cells]
    printed.show([Printed(column.heading, column.width) for column in columns], cells, options)


# --- conditions of a report -------------------------------------------------------------------------------------------

TRES = ("cpu", "mem", "billing", "gres/gpu")
# value of -t -> (the unit's name in the title, the seconds of one unit, True if a percentage is shown)
_TIMES = {
    "second": ("Seconds", 1, False), "minute": ("Minutes", 60, False), "hour": ("Hours", 3600, False),
    "percent": ("Percentage of Total", 0, True), "secper": ("Seconds/Percentage of Total", 1, True),
    "minper": ("Minutes/Percentage of Total", 60, True), "hourper": ("Hours/Percentage of Total", 3600, True),
}  # fmt: skip
# kind of report -> its conditions and flags; users may leave out the letters in brackets
_CONDITIONS = {
    "cluster": "al[l_clusters] c[lusters] e[nd] fo[rmat] n[ames] s[tart] t[ree]",
    "users": "ac[counts] al[l_clusters] c[lusters] e[nd] fo[rmat] s[tart] t[ree] u[sers]",
    "wckeys": "al[l_clusters] c[lusters] e[nd] fo[rmat] s[tart] t[ree] u[sers] w[ckeys]",
    "job": "ac[counts] acct[asparent] al[l_clusters] c[lusters] e[nd] f[latview] fo[rmat] gi[d] g[rouping] j[obs] "
    "n[odes] part[itions] p[rintjobcount] s[tart] u[sers] w[ckeys]",
    "user": "ac[counts] al[l_clusters] c[lusters] e[nd] fo[rmat] g[roup] s[tart] to[pcount] u[sers]",
    "reservation": "al[l_clusters] c[lusters] e[nd] fo[rmat] i[ds] n[ames] no[des] s[tart]",
}
_FLAGS = {"tree", "group", "flatview", "acctasparent", "printjobcount"}


@dataclass(slots=True, kw_only=True)
class ReportConditions:
    """The conditions of a report. `said`: condition -> value, with names in lower case. `flags`: the words without a
    value. `options`: the options of sreport. `unit`: a value of `_TIMES`."""

    period: Period
    cluster: str
    said: Mapping[str, str]
    flags: frozenset[str]
    options: Mapping[str, str | None]
    unit: tuple[str, int, bool]
    tres: tuple[str, ...] = ("cpu",)
    many: bool = False  # True with -T: the report has a row for each TRES, with its name
    wrong: bool = False  # True if there was an unknown condition, so that the exit code is 1

    def names(self, *keys: str) -> frozenset[str]:
        return frozenset(one.lower() for key in keys for one in self.said.get(key, "").split(",") if one)

    def amount(self, seconds: float, total: float) -> str:
        """Return a usage in the requested unit, as text. `seconds`: the usage in TRES seconds. `total`: the TRES
        seconds that correspond to 100 %."""
        _, size, share = self.unit
        percent = f"{100 * seconds / total if total else 0.0:.2f}%"
        if not size:
            return percent
        whole = f"{seconds / size:.0f}"
        return f"{whole}({percent})" if share else whole


def asked(kind: str, words: Sequence[str], options: Mapping[str, str | None]) -> ReportConditions:
    """Return the conditions of a report. `kind`: a key of `_CONDITIONS`. `words`: the words after the name of the
    report. `options`: the options of sreport. Raises Usage."""
    said: dict[str, str] = {}
    flags, wrong = set(), False
    tres = tres_of(options)
    for word in words:
        name, equals, value = word.partition("=")
        whole = typed(name.lower(), _CONDITIONS[kind])
        if not whole and equals:
            say(f" Unknown condition: {word}\nUse keyword set to modify value")
            wrong = True
        elif equals and whole not in _FLAGS:
            said[whole] = value
        elif whole in _FLAGS:
            flags.add(whole)
    return ReportConditions(
        period=_period(said), cluster=site.load(ApiClient.open()).cluster, said=said, flags=frozenset(flags),
        options=options, unit=_unit(options.get("t")), tres=tres or ("cpu",), many="tres" in options, wrong=wrong,
    )  # fmt: skip


def tres_of(options: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the TRES that -T names; empty without -T. Raises Usage if none of the named TRES exists."""
    wanted = (options.get("tres") or "").lower()
    found = TRES if wanted == "all" else tuple(one for one in TRES if one in wanted.split(","))
    if "tres" in options and not found:
        raise Usage("sreport: fatal: No valid TRES given")
    return found


def _unit(text: str | None) -> tuple[str, int, bool]:
    """Return the value of `_TIMES` for the value of -t. If the name is unknown, report it and use minutes."""
    word = (text or "minute").lower()
    known = word.removesuffix("s") if word in ("seconds", "minutes", "hours") else word
    found = next((row for name, row in _TIMES.items() if known and name.startswith(known)), None)
    if found is None:
        sys.stderr.write(f"unknown time format {text}")
    return found or _TIMES["minute"]


def _period(said: Mapping[str, str]) -> Period:
    """Return the period of the report in full hours; by default it is the day before today. Hours in the future are
    left out. As in Slurm, an invalid time is replaced by the default. If the end is before the beginning, the period is
    one hour long."""
    now_s = time.time()
    today_s = times.read_moment("today", now_s)
    since_s = _moment(said.get("start"), now_s, today_s - 86400)
    until_s = _moment(said.get("end"), now_s, today_s)
    next_s = -(-int(now_s) // 3600) * 3600.0
    since_s, until_s = _hour(since_s), next_s if until_s >= int(now_s) else _hour(until_s)
    return Period(since_s=since_s, until_s=until_s if until_s > since_s else since_s + 3600, now_s=now_s)


def _moment(text: str | None, now_s: float, default_s: float) -> float:
    try:
        return default_s if text is None else times.read_moment(text, now_s, past=True)
    except times.TimeError as error:
        say(f"Invalid time specification (pos={error.at}): {text}")
        return default_s


def _hour(at_s: float) -> float:
    """Return the time rounded to the nearest full hour, in seconds since the epoch."""
    return (int(at_s) + 1800) // 3600 * 3600.0
