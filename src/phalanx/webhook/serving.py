"""The port that API servers call: HTTPS, one path, one method, an AdmissionReview in and one out.

API servers do not say who they are to a webhook unless somebody configures each of them to, so whoever reaches the port
may ask. What he gets is what he sent, judged: nothing that he did not know, nothing that is kept. What he can cost is
bounded: bodies, each and all together, headers, the time that a connection may be silent, and how many there are.

The connections are those of the embedded API server (docs/decisions/0010).
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from phalanx.embedded.apiserver.apimachinery.connections import Connections
from phalanx.embedded.apiserver.auth.authority import Pair
from phalanx.embedded.apiserver.transport.http import Application, Connection, Limits, RawRequest
from phalanx.embedded.apiserver.transport.request import Response
from phalanx.errors import PhalanxError
from phalanx.kube.install.admission_policy import PATH
from phalanx.metrics.admissions import Admissions
from phalanx.metrics.serving import taken
from phalanx.webhook.review import Unreadable, judge, read

log = logging.getLogger(__name__)

# An API server takes objects of 3 MiB; a review holds one as it was and one as it is to be.
# They let go of connections that they do not use after 90 s.
LIMITS = Limits(body_bytes=8 * 2**20, held_bytes=64 * 2**20, idle_s=100.0)
CONNECTIONS = 1024  # beyond these the one that has been silent longest goes
_SWEEP_S = 10.0
_HANDSHAKE_S = 5.0


def tls_context() -> ssl.SSLContext:
    """Without a certificate yet: until there is one, every handshake fails."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def show(context: ssl.SSLContext, pair: Pair) -> None:
    """From now on, connections are shown this certificate. Its key is on no disk: the file is memory."""
    with os.fdopen(os.memfd_create("phalanx-webhook"), "wb") as file:
        file.write(pair.certificate_pem + pair.key_pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")


class Files:
    """A certificate that somebody else keeps in files (cert-manager, say), read again when they change."""

    def __init__(self, context: ssl.SSLContext, certificate: Path, key: Path) -> None:
        """Raises PhalanxError if it cannot be read now."""
        self._context, self._certificate, self._key = context, certificate, key
        self._seen = self._stamp()
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise PhalanxError(
                f"cannot serve with the certificate {certificate} and the key {key}: {error}. Name files in PEM that "
                "belong together with --tls-cert and --tls-key, or neither, and the webhook makes its own."
            ) from error

    async def keep(self, pause_s: float = 10.0) -> None:
        """For ever. What cannot be read, half written say, is tried again, and what was served stays."""
        while True:
            await asyncio.sleep(pause_s)
            self.look()

    def look(self) -> None:
        found = self._stamp()
        if found == self._seen:
            return
        try:
            self._context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError) as error:
            log.warning("the certificate was not renewed from %s: %s", self._certificate, error)
        else:
            self._seen = found
            log.info("serving with the certificate that is now in %s", self._certificate)

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = [path.stat() for path in (self._certificate, self._key)]
        except OSError:
            return ()
        return tuple(number for one in found for number in (one.st_mtime_ns, one.st_ino, one.st_size))


class Answerer:
    """The answers to requests: one request in, one answer out."""

    def __init__(self, admissions: Admissions, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._admissions, self._clock_s = admissions, clock_s

    async def __call__(self, raw: RawRequest) -> Response:
        if raw.path == "/healthz":
            return _text(200, "ok")
        if raw.path != PATH:
            return _text(404, f"there is nothing but {PATH}")
        if raw.method != "POST":
            return _text(405, "an AdmissionReview is posted")
        begin_s = self._clock_s()
        try:
            request = read(raw.body)
            verdict = judge(request)
        except Unreadable as error:
            self._admissions.unreadable += 1
            return _text(400, str(error))
        except Exception:  # an object such as no API server sends, or a defect of ours: others go on
            log.exception("a review could not be judged")
            self._admissions.unreadable += 1
            return _text(500, "the review could not be judged: see the log of the webhook")
        self._admissions.note(request.resource.resource, request.operation, verdict.outcome, self._clock_s() - begin_s)
        return Response(body=msgspec.json.encode(verdict.answer))


def _text(code: int, text: str) -> Response:
    return Response(code=code, body=f"{text}\n".encode(), media="text/plain")


@asynccontextmanager
async def serving(where: tuple[str, int], context: ssl.SSLContext, answerer: Application) -> AsyncIterator[int]:
    """Inside, it is served there; the port (0 in `where` takes any free one). Raises PhalanxError if it is taken."""
    loop, opened = asyncio.get_running_loop(), Connections[Connection](CONNECTIONS)
    try:
        server = await loop.create_server(
            lambda: Connection(answerer, opened, LIMITS), *where, ssl=context, ssl_handshake_timeout=_HANDSHAKE_S
        )
    except OSError as error:
        raise taken(where, "--address", error) from error
    sweeping = asyncio.ensure_future(_sweep(opened))
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        sweeping.cancel()
        server.close()
        await _finish(opened)


async def _sweep(opened: Connections[Connection]) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        for connection in tuple(opened):
            connection.expire(time.monotonic())


async def _finish(opened: Connections[Connection]) -> None:
    """Wait until what is being answered is answered."""
    tasks = [task for one in tuple(opened) if (task := one.finish()) is not None]
    if tasks:
        await asyncio.wait(tasks, timeout=1.0)
    for connection in tuple(opened):
        connection.abort()
