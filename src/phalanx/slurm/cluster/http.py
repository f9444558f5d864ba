"""HTTP/1.1 on one blocking connection, as little of it as a command needs.

The standard library's client reads header lines by its parser of mail: importing that took a fifth of a short command.
The parser here is httptools', as in the client of the long-running parts.

Every failure is an `OSError`: the request may or may not have been carried out, and the connection is of no use then.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

import httptools

if TYPE_CHECKING:
    import ssl

_AT_A_TIME = 1 << 14  # bytes; a TLS record has no more


class Connection:
    """An HTTP connection. `usable`: True if the connection has delivered an answer, and the server announced to keep it
    open; the server may have closed it later."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        """Raises OSError."""
        plain = socket.create_connection((host, port), timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        self._host = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._parser = httptools.HttpResponseParser(self)
        self._content = io.BytesIO()
        self._whole = False
        self.usable = False

    def call(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> tuple[int, bytes]:
        """Send a request, and return the HTTP status and the content of the response. Raises OSError."""
        length = {} if body is None else {"Content-Length": str(len(body))}
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in {**headers, **length}.items()]
        if any("\n" in line or "\r" in line for line in lines):
            raise ConnectionError("the kubeconfig or the request has a line break where none may be")
        self._content, self._whole, self.usable = io.BytesIO(), False, False
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        while not self._whole:
            if not (part := self._socket.recv(_AT_A_TIME)):
                raise ConnectionError("it closed the connection")
            try:
                self._parser.feed_data(part)
            except httptools.HttpParserError as error:
                raise ConnectionError(f"it does not answer in HTTP ({error})") from error
        return self._parser.get_status_code(), self._content.getvalue()

    def close(self) -> None:
        self._socket.close()

    # --- what the parser tells ------------------------------------------------------------------------------------

    def on_body(self, body: bytes) -> None:
        self._content.write(body)

    def on_message_complete(self) -> None:
        self._whole, self.usable = True, self._parser.should_keep_alive()
