"""Serve the node's own endpoint. The API server uses it to read logs, and to open streams into pods. The paths are:
/containerLogs, /exec and /attach, each followed by NAMESPACE/POD/CONTAINER; /portForward/NAMESPACE/POD; /stats/summary;
/keptLogs for the logs of deleted pods.

The endpoint listens on the loopback interface. Requests need the token in DIR/kubelet.token, a file that only the API
server and the node can read. If DIR/pki has a certificate, the endpoint serves HTTPS.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hmac
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
from aiohttp import web

from phalanx.embedded.node.agent.agent import Agent
from phalanx.embedded.node.agent.usage import Meter
from phalanx.embedded.node.container.attempt import Attempt, Exited, attempts
from phalanx.embedded.node.container.durable import write_whole
from phalanx.embedded.node.container.log.reading import LogOptions, read, since_text
from phalanx.embedded.node.machine.settings import NodeSettings
from phalanx.embedded.node.streams.forward import forward
from phalanx.embedded.node.streams.remote import attach, execute
from phalanx.errors import PhalanxError


def shared_token(path: Path) -> str:
    """Return the shared token; the first caller creates its file, with mode 0600."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, f"{secrets.token_urlsafe(32)}\n".encode())
    return path.read_text().strip()


@asynccontextmanager
async def serving(agent: Agent, meter: Meter, settings: NodeSettings) -> AsyncIterator[int]:
    """Serve requests while the context is open, and yield the port. Raises PhalanxError if the port is in use."""
    endpoint = Endpoint(agent, meter, settings)
    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", endpoint.logs)
    application.router.add_get("/keptLogs/{namespace}", endpoint.kept)
    application.router.add_get("/keptLogs/{namespace}/{uid}/{container}", endpoint.kept_log)
    application.router.add_get("/{what:exec|attach}/{namespace}/{pod}/{container}", endpoint.remote)
    application.router.add_get("/portForward/{namespace}/{pod}", endpoint.port_forward)
    application.router.add_get("/stats/summary", endpoint.summary)
    application.router.add_get("/healthz", endpoint.healthz)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.address, settings.port, ssl_context=_tls(settings.data_dir / "pki"))
        try:
            await site.start()
        except OSError as error:
            raise PhalanxError(
                f"the node agent cannot listen on {settings.address}:{settings.port}: {error.strerror}, so kubectl "
                "logs would not work. Choose another port, or 0 for any free one."
            ) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _tls(pki: Path) -> ssl.SSLContext | None:
    for name in ("kubelet", "server"):
        if (pki / f"{name}.crt").exists() and (pki / f"{name}.key").exists():
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(pki / f"{name}.crt", pki / f"{name}.key")
            return context
    return None


class Endpoint:
    """The handlers of requests."""

    def __init__(self, agent: Agent, meter: Meter, settings: NodeSettings) -> None:
        self._agent, self._meter, self._settings = agent, meter, settings

    async def healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def summary(self, request: web.Request) -> web.Response:
        """Return the running pods and their usage."""
        return self._stranger(request) or web.json_response(self._meter.summary())

    async def logs(self, request: web.Request) -> web.StreamResponse:
        """Respond like the kubelet's endpoint /containerLogs: with plain text, or with the status 400 or 404 and a line
        with the reason."""
        if (refusal := self._stranger(request)) is not None:
            return refusal
        namespace, name, container = (request.match_info[part] for part in ("namespace", "pod", "container"))
        pod = self._agent.find(namespace, name)
        if pod is None or container not in pod.containers:
            text = f'container "{container}" in pod "{name}" is not on this node: it was never started'
            return web.Response(status=404, text=text)
        attempt = _attempt(pod.containers[container].folder, previous=_flag(request, "previous"))
        if attempt is None:
            if _flag(request, "previous"):
                text = f'previous terminated container "{container}" in pod "{name}" not found'
            else:
                waiting = pod.containers[container].known.waiting
                text = f'container "{container}" in pod "{name}" is waiting to start: '
                text += waiting.reason if waiting else "ContainerCreating"
            return web.Response(status=400, text=text)
        try:
            options = _options(request)
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        return await _stream(request, attempt.log, options, lambda: _is_over(attempt))

    async def kept(self, request: web.Request) -> web.Response:
        """Return the deleted pods of a namespace whose logs are kept."""
        if (refusal := self._stranger(request)) is not None:
            return refusal
        found = await asyncio.to_thread(self._agent.around.kept_logs.of, request.match_info["namespace"])
        return web.Response(body=msgspec.json.encode({"items": found}), content_type="application/json")

    async def kept_log(self, request: web.Request) -> web.StreamResponse:
        """Return the log of a container of a deleted pod. The response has the same form as the response of `logs`."""
        if (refusal := self._stranger(request)) is not None:
            return refusal
        namespace, uid, container = (request.match_info[part] for part in ("namespace", "uid", "container"))
        path = self._agent.around.kept_logs.log(namespace, uid, container, previous=_flag(request, "previous"))
        if path is None:
            return web.Response(status=404, text=f'no log of container "{container}" of that pod is kept')
        try:
            options = _options(request)
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        return await _stream(request, path, options, lambda: True)

    def _stranger(self, request: web.Request) -> web.Response | None:
        """Return the error response if the request does not have the right token; otherwise None."""
        expected = f"Bearer {shared_token(self._settings.token_file)}"
        if hmac.compare_digest(request.headers.get("Authorization", "").encode(), expected.encode()):
            return None
        return web.Response(status=401, text="Unauthorized")

    async def remote(self, request: web.Request) -> web.StreamResponse:
        """Answer a request for exec or attach."""
        if (refusal := self._stranger(request)) is not None:
            return refusal
        name, container = request.match_info["pod"], request.match_info["container"]
        pod = self._agent.find(request.match_info["namespace"], name)
        attempt = None
        if pod is not None and container in pod.containers:
            attempt = _attempt(pod.containers[container].folder, previous=False)
        if attempt is None:
            text = f'container not found ("{container}")'
            return web.Response(status=404, text=text)
        return await (execute if request.match_info["what"] == "exec" else attach)(request, attempt)

    async def port_forward(self, request: web.Request) -> web.StreamResponse:
        """Forward connections to the address of the pod, and to no other address of this machine."""
        if (refusal := self._stranger(request)) is not None:
            return refusal
        name = request.match_info["pod"]
        pod = self._agent.find(request.match_info["namespace"], name)
        if pod is None or not pod.record.pod_ip:
            return web.Response(status=404, text=f'pod "{name}" does not run on this node')
        return await forward(request, pod.record.pod_ip)


def _attempt(folder: Path, *, previous: bool) -> Attempt | None:
    found = attempts(folder)
    position = -2 if previous else -1
    return found[position] if len(found) >= -position else None


def _flag(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() in ("true", "1")


def _number(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    return None if text is None else int(text)


def _options(request: web.Request) -> LogOptions:
    """Return the options in the query string of a log request. Raises ValueError."""
    since = ""
    if moment := request.query.get("sinceTime"):
        since = since_text(dt.datetime.fromisoformat(moment))
    elif (seconds := _number(request, "sinceSeconds")) is not None:
        now = dt.datetime.now(dt.UTC)
        since = since_text(now - dt.timedelta(seconds=min(seconds, now.timestamp())))
    return LogOptions(
        follow=_flag(request, "follow"),
        tail_lines=_number(request, "tailLines"),
        since=since,
        timestamps=_flag(request, "timestamps"),
        limit_bytes=_number(request, "limitBytes"),
    )


def _is_over(attempt: Attempt) -> bool:
    """Return True if the log is complete: the attempt has ended, or its folder was deleted with the pod."""
    return isinstance(attempt.state(), Exited) or not attempt.folder.exists()


async def _stream(request: web.Request, log: Path, options: LogOptions, over: Callable[[], bool]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    with suppress(FileNotFoundError):  # the pod was removed in the meantime, together with its log
        async for piece in read(log, options, over):
            await response.write(piece)
    await response.write_eof()
    return response
