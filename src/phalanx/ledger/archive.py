"""Entries in a file of their own: JSON, a job a line, packed by gzip.

A file is written beside its place, brought to the disk and only then given its name, so that under that name there is
never half an archive: what is purged afterwards is in it. Reading one back puts whole entries into a ledger, which
changes nothing where they are known already.
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
    """Return how many entries there are in the file now, which nobody else may read. Raises PhalanxError."""
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
    """Yield its entries, in the order of the file. Raises PhalanxError that says which line cannot be read."""
    decoder, number = msgspec.json.Decoder(JobEntry), 0
    try:
        with gzip.open(file, "rb") as lines:
            for line in lines:
                number += 1
                yield decoder.decode(line)
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
        where = f", line {number}" if isinstance(error, msgspec.MsgspecError) else ""
        raise PhalanxError(f"{file}{where} is no archive of a ledger: {error}") from error
