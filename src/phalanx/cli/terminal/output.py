"""What commands print: tables for people, JSON for programs. One style for all."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.model.pod import PODS, Amounts, format_amount

if TYPE_CHECKING:  # it is imported with the first table: servers print none
    from rich.console import Console
    from rich.table import Table

_STYLES = {
    "running": "green",
    "ready": "green",
    "complete": "green",
    "starting": "cyan",
    "queued": "yellow",
    "promised": "cyan",
    "stopping": "yellow",
    "cordoned": "yellow",
    "failed": "red",
    "not ready": "red",
}
_PIPE_WIDTH = 10_000  # a table that nobody looks at is not folded


def console() -> Console:
    """Standard output: as wide as its terminal, or without limit."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Aligned columns in the manner of kubectl; only the last one is folded."""
    from rich.table import Table
    from rich.text import Text

    found = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in columns:
        found.add_column(column, no_wrap=column != columns[-1], overflow="fold")
    for row in rows:
        found.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    return found


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """On a terminal with colours; else plain lines without trailing blanks."""
    screen = console()
    if screen.is_terminal:
        screen.print(table(columns, rows))
        return
    with screen.capture() as lines:
        screen.print(table(columns, rows))
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines.get().splitlines()))


def print_json(value: Any) -> None:
    """Print one document, indented: for `jq` and for eyes."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_json_line(value: Any) -> None:
    """Print one line: for a stream of them."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def log_to_stderr(level: int) -> None:
    """Tell what servers log on standard error: a line each, with its time and where it comes from."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)


def note(text: str) -> None:
    """A line for the person, never mixed with what a program reads."""
    print(text, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """`8s`, `2m10s`, `3h5m`, `4d7h`: two units at most, as kubectl writes ages."""
    whole = max(0, int(seconds))
    for unit_s, unit, below_s, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // below_s
            return f"{whole // unit_s}{unit}{f'{rest}{below}' if rest else ''}"
    return f"{whole}s"


def local_time(at_s: float) -> str:
    """Return a moment in the time of this machine, as `--begin` reads it: `2026-01-31 18:00:05`."""
    return datetime.fromtimestamp(at_s).strftime("%Y-%m-%d %H:%M:%S")


def counted(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def amounts_text(amounts: Amounts) -> str:
    """`4 cpu, 8Gi memory`."""
    return (
        ", ".join(f"{format_amount(name, value)} {name}" for name, value in amounts if (name, value) != (PODS, 1))
        or "nothing"
    )
