"""The program's input and output. Output is written to the log, in lines `TIME NAME F|P TEXT`, the format of container
runtimes. Input comes from attached clients through a named pipe, in frames: one byte for the type, two bytes for the
length (little-endian), and the content.

A frame is at most PIPE_BUF bytes, which the kernel writes atomically, so that the frames of several clients do not mix.
"""

from __future__ import annotations

import fcntl
import os
import select
import termios
import time
from contextlib import suppress

# The defaults of the kubelet's containerLogMaxSize and containerLogMaxFiles.
_LOG_BYTES, LOG_FILES = 10 << 20, 5
DATA, RESIZE, END = range(3)  # types of frames: input, the size of the terminal (struct winsize), the end of the input
FRAME_MOST = 4000
_HEAD = 3
_END_OF_TRANSMISSION = b"\x04"
_LINE_MOST = 16 * 1024  # longer lines are split into parts, as in the log format of CRI


class Log:
    """A log file to which whole lines are appended. When the file reaches its size limit, a new file is created, and
    the older files are renamed to STEM.log.1, .2 and so on."""

    def __init__(self, path: str) -> None:
        self._path, self._file, self._size = path, -1, 0
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def write(self, data: bytes) -> None:
        """Append whole lines. If the disk is full, these lines are lost, but the program continues."""
        before = self._size
        with suppress(OSError):
            try:
                while data:
                    written = os.write(self._file, data)
                    data = data[written:]
                    self._size += written
            except OSError:
                # remove a partly written line, because the next line would be appended to it
                os.ftruncate(self._file, before)
                self._size = before
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


class ShimStream:
    """An output of the program, which is written to the log as lines `TIME NAME F|P TEXT`. `prompt`: True for a
    terminal, whose incomplete lines are written at once."""

    def __init__(self, name: str, source: int, log: Log, *, prompt: bool = False) -> None:
        self.source, self._prompt = source, prompt
        self._name, self._log, self._rest = name.encode(), log, b""
        os.set_blocking(source, False)

    def pump(self) -> bool:
        """Read the available output; return False when the last writer has closed it."""
        try:
            chunk = os.read(self.source, 65536)
        except BlockingIOError:
            return True
        except OSError:  # EIO, because no process has the terminal open any more
            chunk = b""
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
        if self._prompt and self._rest:
            heads, self._rest = [*heads, self._rest], b""
        self._write(parts + [(b"P", head) for head in heads])
        return True

    def _write(self, lines: list[tuple[bytes, bytes]]) -> None:
        if not lines:
            return
        stamp = _stamp(time.time_ns())
        self._log.write(b"".join(b"%s %s %s %s\n" % (stamp, self._name, tag, text) for tag, text in lines))


def _cut(line: bytes) -> list[bytes]:
    """Return the line in pieces of at most `_LINE_MOST` bytes, at least one piece."""
    return [line[at : at + _LINE_MOST] for at in range(0, len(line), _LINE_MOST)] or [b""]


def _stamp(now_ns: int) -> bytes:
    seconds, nanos = divmod(now_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanos:09d}Z".encode()


class Input:
    """The program's input: frames from the named pipe at `path`, which only this process and the agent use. `target`:
    this process's end of the program's pipe or terminal."""

    def __init__(self, path: str, target: int, *, tty: bool) -> None:
        os.mkfifo(path, 0o600)
        # The pipe is opened for writing as well, so that a read never finds the end of the pipe.
        self.source = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.target, self._tty = target, tty
        self._frames, self._pending, self._over = b"", b"", False
        os.set_blocking(target, False)

    def watch(self, poll: select.poll) -> None:
        """Let `poll` wait for frames. While the program has not read earlier data, let `poll` wait until the program
        can take more data."""
        poll.register(self.source, 0 if self._pending else select.POLLIN)
        if self._pending:
            poll.register(self.target, select.POLLOUT)

    def pump(self, poll: select.poll) -> None:
        """Write as much data to the program as the program can take without waiting."""
        poll.unregister(self.source)
        if self._pending:
            poll.unregister(self.target)
        else:
            self._take()
        self._give()
        self.watch(poll)

    def _take(self) -> None:
        with suppress(BlockingIOError):
            self._frames += os.read(self.source, 65536)
        while len(self._frames) >= _HEAD:
            end = _HEAD + int.from_bytes(self._frames[1:_HEAD], "little")
            if len(self._frames) < end:
                return
            sort, content = self._frames[0], self._frames[_HEAD:end]
            self._frames = self._frames[end:]
            self._obey(sort, content)

    def _obey(self, sort: int, content: bytes) -> None:
        if self.target < 0 or self._over:
            return
        if sort == DATA:
            self._pending += content
        elif sort == RESIZE and self._tty:
            with suppress(OSError):
                fcntl.ioctl(self.target, termios.TIOCSWINSZ, content)
        elif sort == END:
            self._pending += _END_OF_TRANSMISSION if self._tty else b""
            self._over = not self._tty

    def _give(self) -> None:
        try:
            while self._pending:
                self._pending = self._pending[os.write(self.target, self._pending) :]
        except BlockingIOError:
            return
        except OSError:  # the program has closed its input
            self._pending, self._over = b"", True
        if self._over and self.target >= 0:
            os.close(self.target)
            self.target = -1
