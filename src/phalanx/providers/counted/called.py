"""A provider that is a program on the scheduler's machine. The program reads a call from its standard input, and prints
the answer.

The program is started without a shell, in a process group of its own. A program that exceeds its time limit is killed
with its children.

A provider may also be a web server (`Webhook`). Then each call is a POST request with the JSON document of the call,
and with a bearer token from a file."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import ssl
import stat
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from phalanx.client.http import Http
from phalanx.errors import PhalanxError
from phalanx.providers.counted.calls import MOST_BYTES, text_of
from phalanx.providers.provider import ProviderError

_LAST_BYTES = 4096  # how many bytes from the end of standard error are kept for messages


class Program:
    """A program. `command`: the path of the program and its first arguments. Each call appends two arguments: the name
    of the call and the group. `timeout_s`: the time limit of one call."""

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._command, self._timeout_s = tuple(command), timeout_s
        self.name = f"the program {self._command[0]}"

    async def call(self, call: str, group: str, body: bytes) -> bytes:
        argv = (*self._command, call, group)
        by_hand = f"try it by hand: echo {shlex.quote(body.decode()[:1000])} | {shlex.join(argv)}"
        try:
            code, output, complaint = await run_program(argv, body, self._timeout_s)
        except TimeoutError:
            raise ProviderError(
                f"{self.name} did not end within {self._timeout_s:g} s and was stopped; it must not wait until the "
                f"nodes have started, and must close its output; {by_hand}"
            ) from None
        except OSError as error:
            raise ProviderError(f"{self.name} cannot be started: {error.strerror or error}") from None
        if code:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            said = text_of(complaint.decode(errors="replace")[-500:])
            raise ProviderError(f"{self.name} {how}: {said or 'it printed no error'}; {by_hand}")
        if len(output) > MOST_BYTES:
            raise ProviderError(f"{self.name} printed more than {MOST_BYTES >> 20} MiB; {by_hand}")
        return output


async def run_program(argv: Sequence[str], body: bytes, timeout_s: float) -> tuple[int, bytes, bytes]:
    """Run the program with `body` as its standard input. Return its exit status, at most `MOST_BYTES` + 1 bytes of its
    output, and the end of its standard error. Raises OSError or TimeoutError."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    has_ended = False
    try:
        async with asyncio.timeout(timeout_s):
            with suppress(ConnectionError):  # the program may end without reading its input
                process.stdin.write(body)
                await process.stdin.drain()
            process.stdin.close()
            output, complaint = await asyncio.gather(_first(process.stdout), _last(process.stderr))
            code = await process.wait()
            has_ended = True
    finally:
        if not has_ended:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return code, output, complaint


async def _first(stream: asyncio.StreamReader) -> bytes:
    """Read the whole stream, and return its first bytes, at most `MOST_BYTES` + 1."""
    found = bytearray()
    while part := await stream.read(1 << 16):
        found += part[: MOST_BYTES + 1 - len(found)]
    return bytes(found)


async def _last(stream: asyncio.StreamReader) -> bytes:
    """Read the whole stream, and return its last bytes, at most `_LAST_BYTES`."""
    found = b""
    while part := await stream.read(1 << 16):
        found = (found + part)[-_LAST_BYTES:]
    return found


_OTHERS = stat.S_IRWXO | stat.S_IWGRP
_CONNECTIONS = 2


class Webhook:
    """A web server. `authority`: a file with the certificates (PEM) that sign the server's certificate; None for the
    certificates of the system. `token`: a file with the bearer token. `timeout_s`: the time limit of one call."""

    def __init__(self, url: str, authority: Path | None, token: Path | None, timeout_s: float) -> None:
        self._token, self._timeout_s = token, timeout_s
        self.name = f"the web server {url}"
        found = urlsplit(url)
        self._target = f"?{found.query}" if found.query else ""
        tls = trust(authority) if found.scheme == "https" else None
        self._http = Http(url, tls=tls, limit=_CONNECTIONS, most_bytes=MOST_BYTES)

    async def call(self, call: str, group: str, body: bytes) -> bytes:
        head = "content-type: application/json\r\naccept: application/json\r\n"
        try:
            if self._token is not None:
                head += f"authorization: Bearer {await asyncio.to_thread(read_token, self._token)}\r\n"
            async with asyncio.timeout(self._timeout_s):
                answer = await self._http.call("POST", self._target, head, body, timeout_s=self._timeout_s)
        except TimeoutError:
            text = "it must answer without waiting until the nodes have started"
            raise ProviderError(f"{self.name} did not answer {call} within {self._timeout_s:g} s; {text}") from None
        except OSError as error:
            raise ProviderError(f"{self.name} cannot be called: {error.strerror or error}") from None
        except PhalanxError as error:
            raise ProviderError(f"{self.name} is not called: {error}") from None
        if not 200 <= answer.status < 300:
            said = text_of(answer.body.decode(errors="replace")) or "without a text"
            hint = f"; check the token in {self._token}" if answer.status in (401, 403) and self._token else ""
            raise ProviderError(
                f"{self.name} answered {call} of group {group} with status {answer.status}: {said}{hint}"
            )
        return answer.body


def trust(authority: Path | None) -> ssl.SSLContext:
    """Return the TLS settings for a server whose certificate this authority has signed. Raises PhalanxError."""
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:  # SSLError is a subclass of OSError
        raise PhalanxError(f"the certificates in {authority} cannot be read: {error.strerror or error}") from None


def read_token(file: Path) -> str:
    """Return the token in the file. Raises PhalanxError if other users may read the file, or if the file contains no
    token."""
    try:
        with file.open() as opened:
            mode = os.fstat(opened.fileno()).st_mode
            token = opened.read(1 << 16).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"the token in {file} cannot be read: {error}") from None
    if mode & _OTHERS:
        raise PhalanxError(f"other users may read {file} (mode {stat.S_IMODE(mode):o}): chmod 600 {file}")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise PhalanxError(f"{file} contains no token: a token is one line of printable characters")
    return token


def wrong_url(url: str) -> str:
    """Return why the URL cannot be used for a provider; empty if it can."""
    try:
        found = urlsplit(url)
        host, _ = found.hostname or "", found.port
    except ValueError as error:
        return f"{url!r} is not a URL: {error}"
    if found.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        return f"{url!r} is not a URL; write, for example, https://nodes.example.com/phalanx"
    if found.username is not None or found.fragment:
        return f"{url!r} must have no user, password or fragment; put a token into tokenFile"
    if found.scheme == "http" and not is_loopback(host):
        return f"{url!r} is not encrypted: use https; http is allowed only for 127.0.0.1, ::1 and localhost"
    return ""


def is_loopback(host: str) -> bool:
    """Return whether the host is `localhost` or a loopback address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
