"""Use one WebSocket as several channels, by the protocol `v5.channel.k8s.io` or an earlier version of it.

Every message begins with the number of its channel. The number is a byte. In the base64 protocols it is a digit, and
base64 text follows. The client writes to STDIN and RESIZE, the server to STDOUT, STDERR and ERROR. At the end, the
server sends one `v1.Status` on ERROR (before v4, only the text of the error). v5 adds the message CLOSE with the number
of a channel to which the client will write no more.

Source: k8s.io/apimachinery/pkg/util/remotecommand and k8s.io/apiserver wsstream.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import WSMsgType, web

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_STATUS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io")
PROTOCOLS = (*_STATUS, "channel.k8s.io", "base64.channel.k8s.io")
_MESSAGE_MOST_BYTES = 16 * 2**20


class Channels:
    """The channels of a WebSocket that uses one of PROTOCOLS. Call `open` first."""

    def __init__(self, protocols: tuple[str, ...] = PROTOCOLS) -> None:
        self._socket = web.WebSocketResponse(protocols=protocols, max_msg_size=_MESSAGE_MOST_BYTES)
        self._text = False

    async def open(self, request: web.Request) -> web.WebSocketResponse:
        """Respond to the handshake. Raises `web.HTTPException` if the request is not a handshake."""
        await self._socket.prepare(request)
        self._text = "base64" in (self._socket.ws_protocol or "")
        return self._socket

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel. Raises ConnectionError if the client has disconnected."""
        if self._text:
            await self._socket.send_str(str(channel) + base64.b64encode(data).decode())
        else:
            await self._socket.send_bytes(bytes((channel,)) + data)

    async def finish(self, status: dict[str, Any]) -> None:
        """Send the final status of the command, and close the connection."""
        if self._socket.ws_protocol in _STATUS:
            await self.send(ERROR, json.dumps({"metadata": {}, **status}).encode())
        elif status["status"] != "Success":
            await self.send(ERROR, str(status.get("message", "")).encode())
        await self._socket.close()

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (channel, data) until the client closes the connection or sends an invalid message."""
        async for message in self._socket:
            if message.type is WSMsgType.BINARY and message.data and not self._text:
                yield message.data[0], message.data[1:]
            elif message.type is WSMsgType.TEXT and message.data and self._text:
                try:
                    yield int(message.data[0]), base64.b64decode(message.data[1:], validate=True)
                except (ValueError, binascii.Error):
                    return
            else:
                return
