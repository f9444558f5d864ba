"""A reserve of disk space, so that deletions can be written when the disk is full.

A deletion is a write to the database as well. On a full disk it would be refused like every other write, and no user
could free space. So the server keeps a file of zeros, the *reserve*, next to the database. When the disk is full, the
server deletes the reserve, and at once allocates a part of its space to the database's log (`Journal.hold_room`). Until
the disk has space for twice the reserve, the server then accepts only writes that free space (`store`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from phalanx.embedded.apimachinery.meta.status import StatusError

SIZE_BYTES = 16 * 2**20
FULL = 507  # the HTTP status Insufficient Storage
_TRY_EVERY_S = 1.0


class Reserve:
    """The reserve file. Each method blocks its caller for some milliseconds at most."""

    def __init__(self, path: Path, size_bytes: int = SIZE_BYTES) -> None:
        self.path, self.size_bytes = path, size_bytes
        self.held = False
        self._tried_s = float("-inf")
        self.regain()

    def spend(self) -> bool:
        """Delete the reserve. Return False if it did not exist."""
        if not self.held:
            return False
        with contextlib.suppress(OSError):
            os.truncate(self.path, 0)
        self.held, self._tried_s = False, float("-inf")
        return True

    def regain(self) -> bool:
        """Try to create the reserve again, at most once a second. Return True if the reserve exists."""
        now_s = time.monotonic()
        if self.held or now_s - self._tried_s < _TRY_EVERY_S:
            return self.held
        self._tried_s = now_s
        with contextlib.suppress(OSError):
            self.held = self._take()
        return self.held

    def _take(self) -> bool:
        """Create the reserve if the disk has enough free space. Return True if it was created. Raises OSError if the
        disk runs out of space although it reported enough free space."""
        there = self.path.stat().st_blocks * 512 if self.path.exists() else 0
        disk = os.statvfs(self.path.parent)
        if disk.f_bavail * disk.f_frsize + there < 2 * self.size_bytes:
            return False
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(file, 0, self.size_bytes)
        except OSError:
            os.ftruncate(file, 0)
            raise
        finally:
            os.close(file)
        return True


def storage_refusal(error: Exception) -> StatusError:
    """Return the error for a write that could not be stored durably. Its message names the disk, on which the user must
    free space."""
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return StatusError(
            FULL, "InsufficientStorage",
            f"the write was not stored, the disk that holds the API server's data is full ({error}); "
            "free some space and try again. No acknowledged write is lost, and objects can still be deleted",
        )  # fmt: skip
    return StatusError(500, "InternalError", f"the write was not stored: {error}; no acknowledged write is lost")
