"""Run commands in pods and forward connections to pods, over a WebSocket to the API server (`v4.channel.k8s.io`).

Every message begins with the number of its channel. A command has channels for standard input, standard output,
standard error, the result, and the size of the terminal. A forwarded port has two channels, for data and for errors,
and the first message of each channel is the number of the port. Source: k8s.io/apimachinery/pkg/util/remotecommand, and
pkg/kubelet/portforward.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import PODS
from phalanx.errors import PhalanxError

if TYPE_CHECKING:
    import aiohttp

_V5 = "v5.channel.k8s.io"  # only this version has a message for the end of the input
_V4 = "v4.channel.k8s.io"
_DATA, _ERROR = range(2)  # the two channels of a forwarded port
_PIECE_BYTES = 1 << 16

Take = Callable[[bytes], None]


class StreamChannel(IntEnum):
    """The channels of a command. END: the result of the command. SIZE: the size of the terminal. CLOSE: closes the
    channel that the message names."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    END = 3
    SIZE = 4
    CLOSE = 255


class StreamSession:
    """A connection with a command that runs in a pod. `write` sends input to the command, and `resize` the size of the
    terminal."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), _PIECE_BYTES):
            with suppress(ConnectionError):  # the command has ended, and `run` will return its exit code
                await self._socket.send_bytes(bytes((StreamChannel.STDIN,)) + data[at : at + _PIECE_BYTES])

    async def end(self) -> None:
        """Report the end of the input to the command. Do nothing if the protocol of the server has no message for
        this."""
        if self._socket.protocol == _V5:
            with suppress(ConnectionError):
                await self._socket.send_bytes(bytes((StreamChannel.CLOSE, StreamChannel.STDIN)))

    async def resize(self, columns: int, rows: int) -> None:
        size = json.dumps({"Width": columns, "Height": rows}).encode()
        with suppress(ConnectionError):
            await self._socket.send_bytes(bytes((StreamChannel.SIZE,)) + size)

    async def run(self, out: Take, err: Take) -> int:
        """Pass output to `out` and `err` until the command ends, and return its exit code. Raises PhalanxError if the
        command could not be started."""
        async for message in self._socket:
            data = message.data
            if not isinstance(data, bytes) or not data:
                continue
            match data[0]:
                case StreamChannel.STDOUT:
                    out(data[1:])
                case StreamChannel.STDERR:
                    err(data[1:])
                case StreamChannel.END:
                    return _exit_code(json.loads(data[1:]))
        raise PhalanxError("the connection to the pod broke; it is unknown whether the command still runs there.")


class Exec:
    """Run a command in a container, as `kubectl exec` does: `async with Exec(connection, pod, container, command, ...)
    as session`. Without a command, attach to the main program of the container."""

    def __init__(
        self,
        connection: Connection,
        pod: Object,
        container: str,
        command: Sequence[str] = (),
        *,
        tty: bool,
        stdin: bool,
    ) -> None:
        meta = pod["metadata"]
        self._pod, self._is_command = f"{meta['namespace']}/{meta['name']}", bool(command)
        flags = {"container": container, "stdout": "true", "stderr": str(not tty).lower()}
        flags |= {"tty": str(tty).lower(), "stdin": str(stdin).lower()}
        path = PODS.path(meta["namespace"], meta["name"], "exec" if command else "attach")
        params = [*flags.items(), *(("command", word) for word in command)]
        self._opening = connection.websocket(path, params, (_V5, _V4))

    async def __aenter__(self) -> StreamSession:
        """Open the connection. Raises PhalanxError if the server refuses it, or if the container does not run."""
        try:
            return StreamSession(await self._opening.__aenter__())
        except ApiRefusal as error:
            may_not = "you may not run commands there" if self._is_command else "you may not attach to pods there"
            hint = may_not if error.code == 403 else "does its container run?"
            what = "no command can be started in" if self._is_command else "no terminal can be attached to"
            raise PhalanxError(f"{what} pod {self._pod}: {error.message}; {hint}") from error

    async def __aexit__(self, *ending: object) -> None:
        await self._opening.__aexit__(None, None, None)


def _exit_code(status: Object) -> int:
    """Return the exit code in `status`, the `v1.Status` that the server sends at the end. Raises PhalanxError if the
    command was not started."""
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    code = next((one["message"] for one in causes if one.get("reason") == "ExitCode"), "")
    if code.isdigit():
        return int(code)
    raise PhalanxError(f"the command was not started: {status.get('message') or status}")


async def forward(
    connection: Connection, pod: Object, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> str:
    """Forward a local connection (`reader`, `writer`) to a port of the pod, in both directions, until the pod closes
    it. Return the error that the server reported, or ""."""
    meta = pod["metadata"]
    path = PODS.path(meta["namespace"], meta["name"], "portforward")
    async with connection.websocket(path, [("ports", str(port))], (_V4,)) as socket:
        up = asyncio.create_task(_up(reader, socket))
        try:
            return await _down(socket, writer)
        finally:
            up.cancel()
            writer.close()


async def _up(reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(_PIECE_BYTES):
            await socket.send_bytes(bytes((_DATA,)) + piece)


async def _down(socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> str:
    begun: set[int] = set()
    async for channel, data in _messages(socket):
        if channel not in begun:  # the first message of a channel is the number of the port
            begun.add(channel)
            continue
        if channel == _ERROR:
            return data.decode(errors="replace")
        with suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
    return ""


async def _messages(socket: aiohttp.ClientWebSocketResponse) -> AsyncIterator[tuple[int, bytes]]:
    async for message in socket:
        if isinstance(message.data, bytes) and message.data:
            yield message.data[0], message.data[1:]
