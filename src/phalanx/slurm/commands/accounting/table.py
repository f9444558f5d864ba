"""Tables as Slurm's accounting commands print them: `format=name%width`, cut texts with a plus, `-n`, `-p`, `-P`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.options import Usage

_FIELD = re.compile(r"([A-Za-z0-9_ ]+)(?:%(-?\d+))?")


class AccountingColumn(NamedTuple):
    """A column. `width`: negative if the column is left-aligned. `field`: the key of its cell in a row."""

    heading: str
    width: int
    field: str = ""


def chosen_columns(form: str, known: Mapping[str, AccountingColumn]) -> list[AccountingColumn]:
    """Return the fields of `format=`: a name, or its beginning. Raises Usage."""
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
    lines = [[row.get(column.field, "") for column in columns] for row in rows]
    if "parsable" in options or "parsable2" in options:
        after = "|" if "parsable" in options else ""
        headings = [] if "noheader" in options else [[column.heading for column in columns]]
        for line in [*headings, *lines]:
            print("|".join(text.strip() for text in line) + after)
        return
    if "noheader" not in options:
        print("".join(_aligned(column.heading[: abs(column.width)], column.width) for column in columns))
        print("".join("-" * abs(column.width) + " " for column in columns))
    for line in lines:
        print("".join(_fit(text, column.width) for text, column in zip(line, columns, strict=True)))


def _fit(text: str, width: int) -> str:
    return _aligned(text if len(text) <= abs(width) else text[: abs(width) - 1] + "+", width)


def _aligned(text: str, width: int) -> str:
    return (text.ljust(-width) if width < 0 else text.rjust(width)) + " "
