"""Record the latest acknowledged writes in a separate file next to the database. A write is *acknowledged* when the
server has reported its success to the client.

SQLite ends its log at the first frame with a wrong checksum. So SQLite reads a truncated, damaged or deleted log like a
log with fewer writes, and opens the database without an error. This file records the last version that the log must
contain. The file is a ring of `_SLOTS` slots, and each slot records the write of one version. Each slot has a checksum,
so a slot that was written only in part is ignored. The server writes a slot after it has committed the write to the
database, and before it responds to the client. So the file never names a write that is not in the database.

The server does not sync the file for each slot, because that would double the time of every commit. A slot that was
written survives the end of the server process. It survives a power cut only if it was written at least `SYNC_S` seconds
earlier.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SYNC_S = 1.0
_SLOTS, _SLOT_BYTES = 1024, 128
_HEAD = struct.Struct("<IQdB")  # checksum of the remaining fields, version, seconds since the epoch, length of the name
_LONGEST = _SLOT_BYTES - _HEAD.size
_SHOWN = 10


class Receipt(NamedTuple):
    """An acknowledged write. `name`: the object with its kind, and a note if the write deleted the object."""

    version: int
    at_s: float
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Acknowledged writes that the database has lost: the versions after `kept`, up to `last`. `known`: the lost writes
    that this file still names."""

    kept: int
    last: Receipt
    known: Sequence[Receipt]

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.last.at_s))
        count = len(self.known) if self.last.version - self.kept <= _SLOTS else self.last.version - self.kept
        names = [one.name for one in self.known[-_SHOWN:] if one.name]
        more = f" and {count - len(names)} before" if count > len(names) else ""
        return (
            f"{count} acknowledged {'write is' if count == 1 else 'writes are'} missing: resource versions "
            f"{self.kept + 1} to {self.last.version}, the last of {when} UTC ({', '.join(names)}{more})"
        )


class Acknowledged:
    """The open file of acknowledged writes. All methods block. If the disk refuses a write to this file, the only
    effect is that a later loss may go unnoticed."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it. Raises OSError."""
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._dirty = False

    def latest(self) -> list[Receipt]:
        """Return the writes that the file records, oldest first. Raises OSError."""
        content = os.pread(self._file, _SLOTS * _SLOT_BYTES, 0)
        found = (_receipt(content[at : at + _SLOT_BYTES]) for at in range(0, len(content), _SLOT_BYTES))
        return sorted(one for one in found if one is not None)

    def loss(self, kept: int) -> Loss | None:
        """Return the lost writes of a database whose last version is `kept`; None if no write is lost. Raises
        OSError."""
        known = [one for one in self.latest() if one.version > kept]
        return Loss(kept=kept, last=known[-1], known=known) if known else None

    def note(self, receipts: Iterable[Receipt]) -> None:
        """Record writes that are on the disk, before the server responds to their writers."""
        with contextlib.suppress(OSError):
            start, run = -1, b""
            for one in receipts:
                slot = one.version % _SLOTS
                if slot != start + len(run) // _SLOT_BYTES:
                    self._write(start, run)
                    start, run = slot, b""
                run += _slot(one)
            self._write(start, run)
            self._dirty = True

    def _write(self, slot: int, content: bytes) -> None:
        if content:
            os.pwrite(self._file, content, slot * _SLOT_BYTES)

    def sync(self) -> None:
        """Sync the file to the disk, so that its records also survive a power cut."""
        if self._dirty:
            self._dirty = False
            with contextlib.suppress(OSError):
                os.fdatasync(self._file)

    def reset(self, last: Receipt) -> None:
        """Empty the file, and store `last` as its only receipt. Raises OSError."""
        os.ftruncate(self._file, 0)
        os.ftruncate(self._file, _SLOTS * _SLOT_BYTES)
        with contextlib.suppress(OSError):  # fallocate fails if the disk is full or the file system does not support it
            os.posix_fallocate(self._file, 0, _SLOTS * _SLOT_BYTES)
        self.note((last,))
        os.fsync(self._file)

    def close(self) -> None:
        self.sync()
        os.close(self._file)


def _slot(one: Receipt) -> bytes:
    name = one.name.encode()[:_LONGEST]
    rest = _HEAD.pack(0, one.version, one.at_s, len(name))[4:] + name
    return (zlib.crc32(rest).to_bytes(4, "little") + rest).ljust(_SLOT_BYTES, b"\0")


def _receipt(slot: bytes) -> Receipt | None:
    if len(slot) < _SLOT_BYTES:
        return None
    checksum, version, at_s, length = _HEAD.unpack_from(slot)
    rest = slot[4 : _HEAD.size + length]
    if zlib.crc32(rest) != checksum:
        return None
    return Receipt(version, at_s, rest[_HEAD.size - 4 :].decode(errors="replace"))
