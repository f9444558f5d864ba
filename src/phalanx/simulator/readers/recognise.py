"""Detect the format of a trace file by its first line that is not a comment, so that users need not state the
format."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from phalanx.simulator.readers import chronus, muri, openb, philly, swf
from phalanx.simulator.readers.lines import OnError, SourceFile, TraceError, cells_of
from phalanx.simulator.workload import Workload

Reader = Callable[..., Workload]

# (format, columns that its header must have, reader). The first format whose columns are all in the header is used.
TABLES: tuple[tuple[str, tuple[str, ...], Reader], ...] = (
    ("chronus", chronus.COLUMNS, chronus.read),
    ("muri", muri.COLUMNS, muri.read),
    ("philly", philly.COLUMNS, philly.read),
    ("openb", openb.POD_COLUMNS, openb.read),
)


def reader_of(path: Path) -> Reader:
    """Return the reader for a file. Raises `TraceError` if its format is unknown."""
    if path.name.removesuffix(".gz").endswith(".swf"):
        return swf.read
    for _, text in SourceFile(path, OnError.SKIP).lines():
        if text.lstrip().startswith(";"):
            return swf.read
        if not text.strip():
            continue
        names = names_in(text)
        for _, needed, read in TABLES:
            if names.issuperset(needed):
                return read
        if len(text.split()) == swf.FIELDS:
            return swf.read
        break
    kinds = ", ".join(name for name, _, _ in TABLES)
    raise TraceError(
        f"{path}: this is no trace that can be read: not SWF (18 fields a line, `;` before comments), and its first "
        f"line is not the header of one of {kinds}"
    )


def names_in(header: str) -> set[str]:
    try:
        return {name.strip() for name in cells_of(header)}
    except csv.Error:
        return set()


def is_node_list(path: Path) -> bool:
    """Return whether the file is openb's list of nodes."""
    for _, text in SourceFile(path, OnError.SKIP).lines():
        return names_in(text).issuperset(openb.NODE_COLUMNS)
    return False
