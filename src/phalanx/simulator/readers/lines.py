"""Read the records of a trace file, and report errors with file, line and column.

A *record* is a line of a log or a row of a table. An unreadable record is reported with its file, line and column.
With `on_error` set to `skip`, the reader then counts the record and continues; with `stop`, the reader raises an
error. Files that were compressed with gzip are recognised by their first bytes. A truncated file is reported like any
other error.

Times are at most `LONGEST_S`, because larger floats are too coarse to represent microseconds.

If a trace states only the number of a job's GPUs, the job gets pods of `PER_NODE` GPUs each, and one pod for the
remaining GPUs."""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from math import isfinite
from pathlib import Path
from stat import S_ISREG
from typing import NoReturn

from phalanx.errors import PhalanxError
from phalanx.model.job import Role
from phalanx.model.node import Node
from phalanx.model.pod import CPU
from phalanx.simulator.workload import GPU, MILLI_CPU, Task, Workload, gang, in_order

SHOWN = 10  # an error message lists at most this many faults one by one
LONGEST_S = 9e9  # 285 years, which is long enough for times in seconds since 1970
PACKED = b"\x1f\x8b"  # every gzip file begins with these bytes (RFC 1952)
MARK = b"\xef\xbb\xbf"  # the byte order mark that some editors write at the beginning of a UTF-8 file


class OnError(StrEnum):
    SKIP = "skip"
    STOP = "stop"


class TraceError(PhalanxError):
    """A trace, cluster or policy file cannot be read. The text of the error states the place and the cause."""


class BadRecord(Exception):
    """An error in a record. `column`: the place of the error in its line, counted from 1: the column of a table, or the
    character of a line in a log."""

    def __init__(self, why: str, column: int | None = None, line: int | None = None) -> None:
        super().__init__(why)
        self.column, self.line = column, line


class SourceFile:
    """A file that is being read. `faults`: descriptions of the unreadable records. `dropped`: reason -> number of valid
    records that did not become jobs for this reason."""

    def __init__(self, path: Path, on_error: OnError = OnError.STOP) -> None:
        self.path, self.on_error = path, on_error
        self.faults: list[str] = []
        self.dropped: Counter[str] = Counter()

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each line; the first line has the number 1. Bytes that are no valid UTF-8
        are replaced by escape sequences."""
        number = 0
        try:
            with opened(self.path) as file:
                for raw in file:
                    number += 1
                    line = raw if number > 1 else raw.removeprefix(MARK)
                    yield number, line.decode("utf-8", "backslashreplace").rstrip("\r\n")
        except FileNotFoundError:
            raise TraceError(f"{self.path}: there is no such file") from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.fault(number + 1, BadRecord(f"the file is cut off or damaged here ({error})"))
        except OSError as error:
            raise TraceError(f"{self.path}: {error.strerror or error}") from None

    def rows(self, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield (line, column name -> text) of each row of a CSV file. `needed`: the columns that the header must
        have."""
        names: list[str] | None = None
        for number, text in self.lines():
            if not text.strip():
                continue
            try:
                cells = cells_of(text)
            except (csv.Error, StopIteration) as error:
                self.fault(number, BadRecord(f"this is no row of comma-separated values ({error})", column=1))
                continue
            if names is None:
                names = [cell.strip() for cell in cells]
                if missing := [name for name in needed if name not in names]:
                    self.fatal(number, f"the header lacks the column {missing[0]!r}; it has {', '.join(names)}")
            elif len(cells) != len(names):
                why = f"{len(cells)} values where the header names {len(names)} columns"
                self.fault(number, BadRecord(why, column=min(len(cells), len(names)) + 1))
            else:
                yield number, dict(zip(names, (cell.strip() for cell in cells), strict=True))
        if names is None and not self.faults:
            raise TraceError(f"{self.path}: the file is empty; a header line was expected")

    def fault(self, line: int, bad: BadRecord) -> None:
        """Record an invalid record, or raise TraceError if `on_error` is `stop`."""
        line = bad.line if bad.line is not None else line
        at = f"{self.path}:{line}" + (f":{bad.column}" if bad.column else "")
        if self.on_error is OnError.STOP:
            raise TraceError(f"{at}: {bad}\nUse --on-error skip to leave such records out.")
        self.faults.append(f"{at}: {bad}")

    def fatal(self, line: int, why: str) -> NoReturn:
        """Raise TraceError for an error after which the rest of the file cannot be read."""
        raise TraceError(f"{self.path}:{line}: {why}")

    def drop(self, why: str) -> None:
        """Count a valid record that does not become a job. `why`: the reason."""
        self.dropped[why] += 1

    def workload(
        self, tasks: Sequence[Task], *, nodes: tuple[Node, ...] = (), counted: str = CPU, unit: int = MILLI_CPU
    ) -> Workload:
        """Return the workload with the tasks `tasks`, and with the numbers of unreadable records and of records that
        did not become jobs."""
        return Workload(
            name=self.path.name,
            tasks=in_order(tasks),
            nodes=nodes,
            counted=counted,
            unit=unit,
            dropped=self.left_out(),
            faults=tuple(self.faults),
        )

    def left_out(self) -> tuple[tuple[str, int], ...]:
        malformed = (("malformed records", len(self.faults)),) if self.faults else ()
        return (*malformed, *sorted(self.dropped.items()))


def cells_of(text: str) -> list[str]:
    """Return the values of a line of comma-separated values. Raises `csv.Error`."""
    return next(csv.reader([text], strict=True)) if '"' in text else text.split(",")


@contextmanager
def opened(path: Path) -> Iterator[Iterable[bytes]]:
    """Open the file and yield its decompressed lines. Raises `TraceError` for a pipe or a device, because the file must
    be read twice."""
    with path.open("rb") as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise TraceError(f"{path}: this is no file but a pipe or a device; put it into a file, it is read twice")
        packed = file.read(len(PACKED)) == PACKED
        file.seek(0)
        if packed:
            with gzip.open(file, "rb") as unpacked:
                yield unpacked
        else:
            yield file


def number(
    row: dict[str, str],
    column: str,
    *,
    least: float | None = None,
    most: float = LONGEST_S,
    default: float | None = None,
) -> float:
    """Return the number in a column; `default` if the cell is empty. Raises `BadRecord` (with the number of the column)
    if the cell is not a valid number."""
    text = row.get(column, "")
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        raise wrong(row, column, "is not a number") from None
    if not isfinite(value):
        raise wrong(row, column, "is not a finite number")
    if least is not None and value < least:
        raise wrong(row, column, f"is less than {least:g}")
    if value > most:
        raise wrong(row, column, f"is more than {most:.0f}")
    return value


def whole(row: dict[str, str], column: str, *, least: int, most: int) -> int:
    value = number(row, column, least=least, most=most)
    if value != int(value):
        raise wrong(row, column, "is not a whole number")
    return int(value)


def unheard_of(row: dict[str, str], column: str, seen: set[str]) -> str:
    """Return the name in a column. Raises `BadRecord` if the name is empty, or if an earlier record has the same
    name."""
    name = row[column]
    if not name:
        raise wrong(row, column, "is empty")
    if name in seen:
        raise wrong(row, column, "was there before")
    seen.add(name)
    return name


def wrong(row: dict[str, str], column: str, why: str) -> BadRecord:
    place = list(row).index(column) + 1 if column in row else None
    return BadRecord(f"{column}: {row.get(column, '')!r} {why}", place)


def told(faults: Iterable[str]) -> list[str]:
    """Return lines for an error message: one line for each of the first `SHOWN` faults, and one line with the number of
    further faults."""
    every = list(faults)
    rest = len(every) - SHOWN
    return [*every[:SHOWN], *([f"… and {rest} more of that kind"] if rest > 0 else [])]


PER_NODE = 8
MOST_GPUS = 10**6


def roles_of(gpus: int) -> tuple[Role, ...]:
    return gang(GPU, gpus, PER_NODE)
