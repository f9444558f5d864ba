"""Print tables as Slurm's accounting commands do. Users choose columns by `NAME%WIDTH`, where NAME may be abbreviated.

A text that is longer than its column is shortened and gets a `+` at its end. A time stamp is shortened without a `+`.
Whole numbers and durations are never shortened. A fraction that is too long is printed with an exponent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from phalanx.slurm.notation.amounts import read_width

Cell = str | float
_EXPONENT = 6  # the number of characters of `1.e+00`
_WIDTH = re.compile(r"(-?)(\d*)")


class Printed(NamedTuple):
    """A column of a table. `width`: the width in characters; negative if the column is left-aligned. `whole`: True for
    numbers and durations, which are never shortened. `moment`: True for time stamps, which are shortened without a
    `+`."""

    heading: str
    width: int
    whole: bool = False
    moment: bool = False

    def cell(self, value: Cell) -> str:
        """Return the value as text with the width of this column, without the blank that follows the column."""
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
    """Return the first name of `known` that begins with the word (without regard to case), and the width that follows
    `%` in the word. The name is "" if no name matches; the width is None without a `%`."""
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
    """Return the fields that the value `form` of `-o` names, with their widths. `widths`: field -> its default width.
    `wrong`: a function that returns the exception to raise for an unknown name. `zero`: True if a width of 0 is used as
    it is; False if it means the default width.

    If a field is named several times, its last width is used for all its columns. An empty name ends the list.
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
    """Print a table. `said`: the options of the command; --noheader, --parsable and --parsable2 change the form.
    `between`: the separator of columns with --parsable and --parsable2."""
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
