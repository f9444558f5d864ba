"""Entries in a file: one job per line as JSON, compressed with gzip.

An archive is written to a temporary file, synced to disk and then renamed. So a file with the final name is complete,
and its entries can be purged from the ledger. `phalanx ledger load` writes only entries that the ledger does not have,
so existing entries do not change.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from phalanx.errors import PhalanxError
from phalanx.ledger.entry import JobEntry


def write_archive(file: Path, entries: Iterable[JobEntry]) -> int:
    """Write the entries to `file`, readable only by its owner; return their number. Raises PhalanxError."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    encoder, count = msgspec.json.Encoder(), 0
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
                for entry in entries:
                    packed.write(encoder.encode(entry) + b"\n")
                    count += 1
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(file)
    except OSError as error:
        raise PhalanxError(f"{file} cannot be written: {error.strerror or error}. Nothing was purged.") from error
    finally:
        part.unlink(missing_ok=True)
    return count


def read_archive(file: Path) -> Iterator[JobEntry]:
    """Yield the entries in the order of the file. Raises PhalanxError with the number of an unreadable line."""
    decoder, number = msgspec.json.Decoder(JobEntry), 0
    try:
        with gzip.open(file, "rb") as lines:
            for line in lines:
                number += 1
                yield decoder.decode(line)
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
        where = f", line {number}" if isinstance(error, msgspec.MsgspecError) else ""
        raise PhalanxError(f"{file}{where} is no archive of a ledger: {error}") from error
