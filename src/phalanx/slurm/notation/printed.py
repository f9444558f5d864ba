"""Tables of Slurm's accounting commands: `NAME%WIDTH`, names by their beginning, and how a cell is cut to its column.

A text that is too long is cut and ends with `+`; a moment is cut without one; numbers and durations are never cut; a
fraction that does not fit is shown with an exponent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from phalanx.slurm.notation.amounts import read_width

Cell = str | float
_EXPONENT = 6  # the signs of `1.e+00`
_WIDTH = re.compile(r"(-?)(\d*)")


class Printed(NamedTuple):
    """A column. `width` negative: left-aligned. `whole`: a number or a duration, never cut. `moment`: cut without a
    plus."""

    heading: str
    width: int
    whole: bool = False
    moment: bool = False

    def cell(self, value: Cell) -> str:
        """Return the value as a cell of this column, without the blank behind the column."""
        most = abs(self.width)
        text = value if isinstance(value, str) else f"{value:.6f}"
        if len(text) > most:
            if not isinstance(value, str):
                places = most - _EXPONENT
                text = f"{value:.{places if places >= 0 else 6}e}"
            elif self.moment:
                text = text[:most]
            elif not self.whole:
                text = text[: most - 1] + "+" if most else ""
        return text.ljust(most) if self.width < 0 else text.rjust(most)

    @property
    def title(self) -> str:
        cut = self.heading[: abs(self.width)]
        return cut.ljust(-self.width) if self.width < 0 else cut.rjust(self.width)


def named(word: str, known: Iterable[str]) -> tuple[str, int | None]:
    """Return the first known name that begins with the word ("" if none does), and the width behind the word's `%`."""
    typed, percent, digits = word.partition("%")
    name = next((one for one in known if one.lower().startswith(typed.lower())), "")
    if not percent:
        return name, None
    found = _WIDTH.match(digits)
    width = read_width(found[2]) if found is not None and found[2] else 0
    return name, -width if found is not None and found[1] else width


def chosen(
    form: str, widths: Mapping[str, int], wrong: Callable[[str], Exception], *, zero: bool = False
) -> list[tuple[str, int]]:
    """Return the fields of `-o` with their widths. `zero`: a width of 0 counts, else it is the field's own.

    A width counts for all columns of its field. An empty word ends the list. Raises what `wrong` returns.
    """
    found: list[str] = []
    own = dict(widths)
    for word in form.split(","):
        word = word.lstrip() if zero else word
        if not word:
            break
        name, width = named(word, widths)
        if not name:
            raise wrong(word.partition("%")[0])
        if width or (zero and width is not None):
            own[name] = width or 0
        found.append(name)
    return [(name, own[name]) for name in found]


def show(
    columns: Sequence[Printed],
    rows: Sequence[Sequence[Cell]],
    said: Mapping[str, str | None],
    between: str = "|",
) -> None:
    """Print the rows as the options --noheader, --parsable and --parsable2 say."""
    if "parsable" in said or "parsable2" in said:
        after = between if "parsable" in said else ""
        if "noheader" not in said:
            print(between.join(column.heading for column in columns) + after)
        for row in rows:
            print(between.join(one if isinstance(one, str) else f"{one:.6f}" for one in row) + after)
        return
    if "noheader" not in said:
        print("".join(f"{column.title} " for column in columns))
        print("".join("-" * abs(column.width) + " " for column in columns))
    for row in rows:
        print("".join(f"{column.cell(one)} " for column, one in zip(columns, row, strict=True)))
