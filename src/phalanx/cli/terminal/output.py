"""Print the output of commands: tables for people, JSON for programs. All commands share one style."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec

from phalanx.model.pod import PODS, Amounts, format_amount

if TYPE_CHECKING:  # imported when the first table is printed, because servers print no tables
    from rich.console import Console
    from rich.text import Text

_STYLES = {
    "running": "green",
    "ready": "green",
    "complete": "green",
    "starting": "cyan",
    "queued": "yellow",
    "promised": "cyan",
    "stopping": "yellow",
    "cordoned": "yellow",
    "stuck": "red",
    "failed": "red",
    "not ready": "red",
}
_GAP = 3
_PIPE_WIDTH = 10_000  # if the output is not a terminal, the text of a table is not wrapped


def console() -> Console:
    """Return a console for standard output. Its width is practically unlimited if standard output is not a terminal."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None, gives_way: Sequence[str] = ()
) -> Text:
    """Return a table with aligned columns, as kubectl prints tables, at most `width` cells wide. `gives_way`: the
    columns that may be left out, the least important first."""
    from rich.cells import cell_len
    from rich.text import Text

    from phalanx.cli.terminal.columns import fit

    layout = fit(columns, rows, width, gives_way)
    found = Text(no_wrap=True, overflow="ignore")
    for number, (cells, below) in enumerate(zip(layout.rows, layout.below, strict=True)):
        for cell, size in zip(cells, layout.widths, strict=True):
            found.append(cell, "bold" if number == 0 else _STYLES.get(cell, ""))
            found.append(" " * (size - cell_len(cell) + _GAP))
        found.rstrip()
        found.append("".join(f"\n{line}" for line in below))
        found.append("\n")
    found.rstrip()
    if layout.left_out:
        found.append(f"\n({', '.join(layout.left_out)}: in a wider terminal, or with --json)", "dim")
    return found


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], gives_way: Sequence[str] = ()) -> None:
    """Print the table. On a terminal, it has colours and is fitted to the terminal's width. Otherwise the lines are
    plain, of any length, and without trailing blanks."""
    screen = console()
    if screen.is_terminal:
        screen.print(table(columns, rows, screen.width, gives_way), soft_wrap=True)
        return
    text = table(columns, rows).plain
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in text.splitlines()))


def print_json(value: object) -> None:
    """Print one JSON document with indentation."""
    sys.stdout.write(msgspec.json.format(_encoded(value), indent=2).decode() + "\n")


def print_json_line(value: object) -> None:
    """Print a JSON document as a single line, for streams of documents."""
    sys.stdout.write(_encoded(value).decode() + "\n")
    sys.stdout.flush()


def _encoded(value: object) -> bytes:
    """Return the value as JSON. An amount such as a third of a GPU is a fraction, for which JSON has no type."""
    return msgspec.json.encode(value, enc_hook=_number)


def _number(value: object) -> float:
    if isinstance(value, Fraction):
        return float(value)
    raise TypeError(f"JSON has no {type(value).__name__}")


def log_to_stderr(level: int) -> None:
    """Write the log of servers to standard error: one line for each message, with its time and its module."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)


def note(text: str) -> None:
    """Print a line for the user to standard error, so that it does not mix with the output of the command."""
    print(text, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Return a duration in at most two units, as kubectl writes ages: `8s`, `2m10s`, `3h5m`, `4d7h`."""
    whole = max(0, int(seconds))
    for unit_s, unit, below_s, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // below_s
            return f"{whole // unit_s}{unit}{f'{rest}{below}' if rest else ''}"
    return f"{whole}s"


def local_time(at_s: float) -> str:
    """Return a time in the time zone of this machine, in the format that `--begin` accepts: `2026-01-31 18:00:05`."""
    return datetime.fromtimestamp(at_s).strftime("%Y-%m-%d %H:%M:%S")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def amounts_text(amounts: Amounts) -> str:
    """Return amounts as text: `4 cpu, 8Gi memory`."""
    return (
        ", ".join(f"{format_amount(name, value)} {name}" for name, value in amounts if (name, value) != (PODS, 1))
        or "nothing"
    )
