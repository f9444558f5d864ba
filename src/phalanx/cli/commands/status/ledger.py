"""`phalanx ledger`: export, archive, load and purge entries of the ledger, the accounting database of Phalanx."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import App, Parameter

from phalanx.cli.commands.status.history import HistorySelection, find_ledger
from phalanx.cli.terminal.moments import past_moment
from phalanx.cli.terminal.output import counted, note
from phalanx.cli.views.entry_view import flat, record
from phalanx.errors import PhalanxError
from phalanx.ledger.entry import JobEntry, read_archive, write_archive
from phalanx.ledger.selection import Selection
from phalanx.ledger.store import Ledger

_EXAMPLES = """For example:

    phalanx ledger export 2026.parquet --since 2026-01-01 --until 2027-01-01
    phalanx ledger archive before-2026.jsonl.gz --before 2026-01-01
"""
ledger = App(
    name="ledger",
    help="Export the ledger of all jobs; archive or purge old jobs.",
    help_epilogue=_EXAMPLES,
    help_format="markdown",
)
_AT_ONCE, _DAY_S = 10_000, 86_400.0
_TIMES = ("submitted", "eligible", "started", "ended")
_WHOLE = ("number", "priority", "exit_code", "signal", "pods", "reasons", "starts")
_FLOATS = ("elapsed_s", "time_limit_s", "cpu_hours", "gpu_hours")
_NOBODY = JobEntry(uid="", job="/")
_One = TypeVar("_One")
Database = Annotated[str | None, Parameter(name="--ledger")]


@ledger.command
def export(
    file: Annotated[Path, Parameter(name="FILE")],
    /,
    *,
    asked: HistorySelection | None = None,
    database: Database = None,
) -> None:
    """Write jobs into a table for other programs. The end of the file's name selects the format: CSV or Parquet.

    The columns are those of `phalanx history --csv`. In Parquet, times have the type timestamp, and numbers have number
    types.

    For example:

        phalanx ledger export ada.csv --user ada --since 30d
        phalanx ledger export 2026.parquet --since 2026-01-01

    Parameters
    ----------
    file
        The file to write: NAME.csv or NAME.parquet. Parquet needs pyarrow: pip install 'phalanx[parquet]'.
    database
        The URL of the ledger. [default: $PHALANX_LEDGER, else the ledger beside the file $KUBECONFIG, else the ledger
        in the default data directory]
    """
    now_s = time.time()
    selection = (asked or HistorySelection()).selection(now_s)
    write = {".csv": _write_csv, ".parquet": _write_parquet}.get(file.suffix)
    if write is None:
        raise PhalanxError(f"{file}: choose the format by the file name: FILE.csv or FILE.parquet")
    part = file.with_name(f".{file.name}.{os.getpid()}")
    with Ledger.open(database or find_ledger(os.environ), read_only=True) as book:
        try:
            count = write(part, (flat(record(entry, now_s)) for entry in book.jobs(selection)))
            part.replace(file)
        except OSError as error:
            raise PhalanxError(f"{file} cannot be written: {error.strerror or error}") from error
        finally:
            part.unlink(missing_ok=True)
    note(f"{file}: {counted(count, 'job')}")


@ledger.command
def archive(file: Annotated[Path, Parameter(name="FILE")], /, *, before: str, database: Database = None) -> None:
    """Move jobs that ended before a day from the ledger into a file, from which `phalanx ledger load` reads them again.

    The jobs are deleted from the ledger after the file was written to the disk.

    For example:

        phalanx ledger archive before-2026.jsonl.gz --before 2026-01-01

    Parameters
    ----------
    file
        The file to write, compressed with gzip: each line is a JSON object for one job. The file must not exist.
    before
        Move jobs that ended before this time: an age (365d) or a day (2026-01-01, in the time zone of this machine).
    database
        The URL of the ledger. [default: $PHALANX_LEDGER, else the ledger beside the file $KUBECONFIG, else the ledger
        in the default data directory]
    """
    now_s = time.time()
    before_s = past_moment("--before", before, now_s)
    # otherwise a job that ends while the file is written would be removed from the ledger, but be missing in the file
    if before_s > now_s - _DAY_S:
        raise PhalanxError(f"--before {before} is less than a day ago. Nothing was written. Name an earlier day.")
    if file.exists():
        raise PhalanxError(f"{file} exists already. Nothing was written. Name another file.")
    with Ledger.open(database or find_ledger(os.environ)) as book:
        count = write_archive(file, book.jobs(Selection(ended_before_s=before_s)))
        book.purge(before_s)
    note(f"{file}: {counted(count, 'job')}, no longer in the ledger")


@ledger.command
def load(file: Annotated[Path, Parameter(name="FILE")], /, *, database: Database = None) -> None:
    """Put the jobs of an archive back into the ledger. Jobs that the ledger already has are not changed.

    For example:

        phalanx ledger load before-2026.jsonl.gz

    Parameters
    ----------
    file
        A file that `phalanx ledger archive` wrote.
    database
        The URL of the ledger. [default: $PHALANX_LEDGER, else the ledger beside the file $KUBECONFIG, else the ledger
        in the default data directory]
    """
    count = 0
    with Ledger.open(database or find_ledger(os.environ)) as book:
        for entries in _batches(read_archive(file), 500):
            book.put(entries)
            count += len(entries)
    note(f"in the ledger: {counted(count, 'job')} of {file}")


@ledger.command
def purge(*, before: str, yes: bool = False, database: Database = None) -> None:
    """Delete jobs that ended before a day from the ledger. `phalanx ledger archive` moves them into a file instead.

    For example:

        phalanx ledger purge --before 730d --yes

    Parameters
    ----------
    before
        Delete jobs that ended before this time: an age (730d) or a day (2026-01-01, in the time zone of this machine).
    yes
        Confirm the deletion. Deleted jobs cannot be restored.
    database
        The URL of the ledger. [default: $PHALANX_LEDGER, else the ledger beside the file $KUBECONFIG, else the ledger
        in the default data directory]
    """
    before_s = past_moment("--before", before, time.time())
    if not yes:
        raise PhalanxError(
            "purged jobs cannot be restored. Nothing was changed. Add --yes, or archive the jobs instead."
        )
    with Ledger.open(database or find_ledger(os.environ)) as book:
        note(f"deleted from the ledger: {counted(book.purge(before_s), 'job')}")


# --- tables ---------------------------------------------------------------------------------------------------------


def _write_csv(file: Path, rows: Iterable[Mapping[str, object]]) -> int:
    count = 0
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(flat(record(_NOBODY, 0.0))), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(row)
            count += 1
    return count


def _write_parquet(file: Path, rows: Iterable[Mapping[str, object]]) -> int:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise PhalanxError("Parquet needs pyarrow, which is not installed: pip install 'phalanx[parquet]'") from None
    names = list(flat(record(_NOBODY, 0.0)))
    schema = arrow.schema([(name, _type(arrow, name)) for name in names])
    count = 0
    with parquet.ParquetWriter(file, schema) as writer:
        for some in _batches(rows, _AT_ONCE):
            columns = {name: [row[name] for row in some] for name in names}
            arrays = [_array(arrow, name, columns[name]) for name in names]
            writer.write_table(arrow.table(arrays, schema=schema))
            count += len(some)
    return count


def _type(arrow: Any, name: str) -> object:
    if name in _TIMES:
        return arrow.timestamp("s", tz="UTC")
    return arrow.int64() if name in _WHOLE else arrow.float64() if name in _FLOATS else (
        arrow.bool_() if name == "exact_end" else arrow.string())  # fmt: skip


def _array(arrow: Any, name: str, values: list[object]) -> object:
    kind = _type(arrow, name)
    if name in _TIMES:
        return arrow.array(values, arrow.string()).cast(kind)
    return arrow.array(values, kind)


def _batches(of: Iterable[_One], size: int) -> Iterator[list[_One]]:
    left = iter(of)
    while some := list(islice(left, size)):
        yield some
