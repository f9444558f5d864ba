"""Serve the HTTPS port to which API servers post AdmissionReviews. The body of each request, and of each response, is
an AdmissionReview.

API servers do not authenticate to a webhook unless an administrator configures each of them. So every client that can
reach the port may send a review. The response contains only data of the sent object and the verdict, and nothing is
stored. There are limits on the size of a body and of all bodies together, on the headers, the idle time and the number
of connections.

The connections use the code of the embedded API server (docs/decisions/0010).
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

from phalanx.embedded.apimachinery.connections import Connections
from phalanx.embedded.apiserver.auth.authority import Pair
from phalanx.embedded.apiserver.transport.http import Application, HttpLimits, RawRequest, ServerConnection
from phalanx.embedded.apiserver.transport.request import Response
from phalanx.errors import PhalanxError
from phalanx.extensions.webhook.review import UnreadableReview, judge, read
from phalanx.kube.install.admission_policy import PATH
from phalanx.metrics.address import taken
from phalanx.metrics.admissions import Admissions

log = logging.getLogger(__name__)

# An API server accepts objects of 3 MiB, and a review contains the old and the new object.
# API servers close idle connections after 90 s.
LIMITS = HttpLimits(body_bytes=8 * 2**20, held_bytes=64 * 2**20, idle_s=100.0)
CONNECTIONS = 1024  # the maximum number of open connections; beyond it, the longest idle connection is closed
_SWEEP_S = 10.0
_HANDSHAKE_S = 5.0


def tls_context() -> ssl.SSLContext:
    """Return a TLS context for a server. It has no certificate, so every handshake fails until `show` is called."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def show(context: ssl.SSLContext, pair: Pair) -> None:
    """From now on, use `pair` as the certificate of new connections. The private key is never written to a disk,
    because the file that the TLS library reads is in memory."""
    with os.fdopen(os.memfd_create("phalanx-webhook"), "wb") as file:
        file.write(pair.certificate_pem + pair.key_pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")


class Files:
    """A certificate in files that another program, such as cert-manager, renews. The files are read again when they
    change."""

    def __init__(self, context: ssl.SSLContext, certificate: Path, key: Path) -> None:
        """Read the files. Raises PhalanxError if this fails."""
        self._context, self._certificate, self._key = context, certificate, key
        self._seen = self._stamp()
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise PhalanxError(
                f"cannot serve with the certificate {certificate} and the key {key}: {error}. Name a certificate "
                "and its key in PEM with --tls-cert and --tls-key. Without both options, this server makes its own "
                "certificate."
            ) from error

    async def keep(self, pause_s: float = 10.0) -> None:
        """Check the files every `pause_s` seconds, without end. If they cannot be read, for example because they are
        only partly written, the last certificate stays in use until the next check."""
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


class ReviewAnswerer:
    """Answers AdmissionReviews, and requests for /healthz. `admissions`: the metrics. `clock_s`: a function that
    returns the time of a monotonic clock, which measures how long a review takes."""

    def __init__(self, admissions: Admissions, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._admissions, self._clock_s = admissions, clock_s

    async def __call__(self, raw: RawRequest) -> Response:
        if raw.path == "/healthz":
            return _text(200, "ok")
        if raw.path != PATH:
            return _text(404, f"the only path is {PATH}")
        if raw.method != "POST":
            return _text(405, "send an AdmissionReview with POST")
        begin_s = self._clock_s()
        try:
            request = read(raw.body)
            verdict = judge(request)
        except UnreadableReview as error:
            self._admissions.unreadable += 1
            return _text(400, str(error))
        except Exception:  # an unexpected object or a defect of Phalanx must not end the server
            log.exception("a review could not be evaluated")
            self._admissions.unreadable += 1
            return _text(500, "the review could not be evaluated; the log of the webhook has the reason")
        self._admissions.note(request.resource.resource, request.operation, verdict.outcome, self._clock_s() - begin_s)
        return Response(body=msgspec.json.encode(verdict.answer))


def _text(code: int, text: str) -> Response:
    return Response(code=code, body=f"{text}\n".encode(), media="text/plain")


@asynccontextmanager
async def serving(where: tuple[str, int], context: ssl.SSLContext, answerer: Application) -> AsyncIterator[int]:
    """Answer requests at the address `where` inside the `async with` block, and yield the port. Port 0 stands for any
    free port. Raises PhalanxError if the port is in use."""
    loop, opened = asyncio.get_running_loop(), Connections[ServerConnection](CONNECTIONS)
    try:
        server = await loop.create_server(
            lambda: ServerConnection(answerer, opened, LIMITS), *where, ssl=context, ssl_handshake_timeout=_HANDSHAKE_S
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


async def _sweep(opened: Connections[ServerConnection]) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        for connection in tuple(opened):
            connection.expire(time.monotonic())


async def _finish(opened: Connections[ServerConnection]) -> None:
    """Wait at most a second until the requests in progress have finished, and then close all connections."""
    tasks = [task for one in tuple(opened) if (task := one.finish()) is not None]
    if tasks:
        await asyncio.wait(tasks, timeout=1.0)
    for connection in tuple(opened):
        connection.abort()
