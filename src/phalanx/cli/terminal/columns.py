"""Fit a table into the width of a terminal. A shortened text ends with a mark.

If the columns do not fit, the text of the last column is printed on separate lines below the row. If that is not
enough, columns are left out, the least important first.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

_GAP = 3
_TEXT_LEAST = 34  # the smallest width, in cells, of a last column with long texts
_LINES_MOST = 3  # a text that needs more lines in the last column is printed below its row
_INDENT = 4
_TEXT_MOST = 600  # a longer text is shortened to this number of characters, and ends with the mark
_MARK = " …"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The layout of a table. `rows`: the cells of each row, the header first. `below`: the text lines below each row.
    `widths`: the widths of the shown columns, in cells. `left_out`: the names of the columns that are not shown."""

    rows: tuple[tuple[str, ...], ...]
    below: tuple[tuple[str, ...], ...]
    widths: tuple[int, ...]
    left_out: tuple[str, ...]


def fit(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, gives_way: Sequence[str] = ()
) -> Layout:
    """Return the table, fitted to a terminal of `width` cells; None for no limit. `gives_way`: the columns that may be
    left out, the least important first."""
    widths = [max([cell_len(name), *(cell_len(row[at]) for row in rows)]) for at, name in enumerate(columns)]
    shown = list(range(len(columns)))
    if width is None or _total(widths, shown) <= width:
        return _layout(columns, rows, widths, shown, None)
    dropped = [columns.index(name) for name in gives_way if name in columns]
    text = shown[-1]
    while dropped and _total(widths, shown[:-1]) > width:
        shown.remove(dropped.pop(0))
    room = width - _total(widths, shown[:-1]) - _GAP
    if text not in shown:
        return _layout(columns, rows, widths, shown, None)
    fits = room >= _TEXT_LEAST and all(len(_wrapped(row[text], room)) <= _LINES_MOST for row in rows)
    # the last column is short, so leave out other columns for it
    if widths[text] < _TEXT_LEAST and room < widths[text]:
        while dropped and _total(widths, shown) > width:
            shown.remove(dropped.pop(0))
        return _layout(columns, rows, widths, shown, None)
    return _layout(columns, rows, widths, shown, (room if fits else 0, width))


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[at] for at in shown) + _GAP * max(0, len(shown) - 1)


def _layout(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    shown: Sequence[int],
    fold: tuple[int, int] | None,
) -> Layout:
    """Return the layout. `fold`: (width of the last column, width of the terminal); a width of 0 means that the texts
    of the last column are printed below their rows. None: each column has its full width."""
    left_out = tuple(name for at, name in enumerate(columns) if at not in shown)
    if fold is None:
        whole = tuple(tuple(row[at] for at in shown) for row in (columns, *rows))
        own = tuple(widths[at] for at in shown)
        return Layout(rows=whole, below=((),) * len(whole), widths=own, left_out=left_out)
    room, width = fold
    *before, text = shown
    found: list[tuple[str, ...]] = []
    below: list[tuple[str, ...]] = []
    start = _total(widths, before) + _GAP
    for number, row in enumerate((columns, *rows)):
        cells = tuple(row[at] for at in before)
        if room:
            first, *more = _wrapped(row[text], room) or [""]
            found.append((*cells, first))
            below.append(tuple(" " * start + line for line in more))
        else:
            found.append(cells)
            wrapped = _wrapped(row[text], width - _INDENT) if number else []
            below.append(tuple(" " * _INDENT + line for line in wrapped))
    own = tuple(widths[at] for at in before) + ((room,) if room else ())
    return Layout(rows=tuple(found), below=tuple(below), widths=own, left_out=left_out)


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text. A word that is longer than a line stays whole."""
    whole = text if len(text) <= _TEXT_MOST else text[:_TEXT_MOST].rpartition(" ")[0] + _MARK
    return textwrap.wrap(whole, max(1, width), break_long_words=False, break_on_hyphens=False)
