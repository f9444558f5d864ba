"""What the program writes, as lines of its log: `TIME NAME F|P TEXT`, as container runtimes write them."""

from __future__ import annotations

import os
import time
from contextlib import suppress

# As the kubelet's containerLogMaxSize and containerLogMaxFiles.
_LOG_BYTES, LOG_FILES = 10 << 20, 5
_LINE_MOST = 16 * 1024  # a longer line is cut into parts, as in the log format of CRI


class Log:
    """Whole lines, appended; beyond some size a new file is begun, and the older ones are STEM.log.1, .2 and so on."""

    def __init__(self, path: str) -> None:
        self._path, self._file, self._size = path, -1, 0
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def write(self, data: bytes) -> None:
        with suppress(OSError):  # a full disk costs the program its words, not its life
            while data:
                written = os.write(self._file, data)
                data = data[written:]
                self._size += written
            if self._size > _LOG_BYTES:
                self._turn()

    def _turn(self) -> None:
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, LOG_FILES))]
        for number in range(LOG_FILES - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.rename(names[number - 1], names[number])
        before = self._file
        self._open()
        os.close(before)


class Stream:
    """An of the program's two outputs, as lines `TIME NAME F|P TEXT`."""

    def __init__(self, name: str, source: int, log: Log) -> None:
        self.source = source
        self._name, self._log, self._rest = name.encode(), log, b""
        os.set_blocking(source, False)

    def pump(self) -> bool:
        """Take what is there; False when the last writer is gone."""
        try:
            chunk = os.read(self.source, 65536)
        except BlockingIOError:
            return True
        if not chunk:
            self._write([(b"F", self._rest)] if self._rest else [])
            self._rest = b""
            return False
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        parts = []
        for line in lines:
            *heads, tail = _cut(line)
            parts += [(b"P", head) for head in heads] + [(b"F", tail)]
        *heads, self._rest = _cut(self._rest)
        self._write(parts + [(b"P", head) for head in heads])
        return True

    def _write(self, lines: list[tuple[bytes, bytes]]) -> None:
        if not lines:
            return
        stamp = _stamp(time.time_ns())
        self._log.write(b"".join(b"%s %s %s %s\n" % (stamp, self._name, tag, text) for tag, text in lines))


def _cut(line: bytes) -> list[bytes]:
    """Pieces of at most the longest line, at least one."""
    return [line[at : at + _LINE_MOST] for at in range(0, len(line), _LINE_MOST)] or [b""]


def _stamp(now_ns: int) -> bytes:
    seconds, nanos = divmod(now_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanos:09d}Z".encode()
