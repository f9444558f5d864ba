"""Input for a container that runs, by the named pipe that its supervisor reads (`container.shim.streams`)."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

from phalanx.embedded.node.container.shim.streams import DATA, END, FRAME_MOST, RESIZE
from phalanx.embedded.node.streams.session import writable


class Feed:
    """Sends input to a container. Input that the container does not read any more is dropped. The caller must `close`
    it in any case."""

    def __init__(self, pipe: Path) -> None:
        self._pipe = -1
        with suppress(OSError):  # the container's supervisor has ended
            self._pipe = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    async def data(self, data: bytes) -> None:
        """Send input to the container."""
        for at in range(0, len(data), FRAME_MOST):
            await self._send(DATA, data[at : at + FRAME_MOST])

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal, in characters."""
        if 0 < width < 2**16 and 0 < height < 2**16:
            await self._send(RESIZE, struct.pack("HHHH", height, width, 0, 0))

    async def end(self) -> None:
        """End the input."""
        await self._send(END, b"")

    def close(self) -> None:
        """Close the pipe."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    async def _send(self, sort: int, content: bytes) -> None:
        frame = bytes((sort,)) + len(content).to_bytes(2, "little") + content
        while self._pipe >= 0:
            try:
                os.write(self._pipe, frame)  # whole or not at all: pipe(7), PIPE_BUF
                return
            except BlockingIOError:
                await writable(self._pipe)
            except OSError:  # the container's supervisor has ended
                self.close()
