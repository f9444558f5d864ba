"""The routes of the page: its files, the state, ended jobs, answers to what-if questions, actions, and a stream of
changes.

A stream sends at most one change a second. It sends a line at least every 15 seconds, so that proxies and the page
notice a broken connection. A page that connects again sends the id of the last state that it received. It then receives
the changes since this state, or a message that it must load the whole state.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
from aiohttp import web

from phalanx.dashboard.access import (
    HEADERS,
    MOST_STREAMS,
    SESSION,
    Action,
    Door,
    LoginSession,
    Route,
    ViewerConnection,
    guard,
)
from phalanx.dashboard.rows import Board, Packed, PageState, PastRow
from phalanx.errors import PhalanxError

log = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
_MOST_BYTES = 16 * 1024  # the maximum length of a request's body
_QUIET_S = 15.0
_PAUSE_S = 1.0  # the shortest pause between two changes that a stream sends
_ANSWER_S = 60.0  # how long the answer to a what-if question is kept
_MOST_ANSWERS = 200
_MOST_PAST_S = 31 * 86_400.0
MOST_NICE = 1_000_000
_UNSEEN = 30  # a session without an open stream loses its cached page state after this number of new cluster states
_SMALL = 1024  # shorter responses are not compressed
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".woff2": "font/woff2",
    ".svg": "image/svg+xml",
}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_NAME = re.compile(r"[\w-]+(?:/[\w-]+)*(?:\.[\w-]+)+")


class StateSource(Protocol):
    """The source of data about ended jobs, and of answers about expected starts."""

    async def past(self, from_s: float, to_s: float) -> Sequence[PastRow]:
        """Return the ended runs of jobs that overlap the interval from `from_s` to `to_s`."""

    async def history(self, job: str) -> Sequence[tuple[float, str]]:
        """Return the reasons for which the job was pending, the earliest first, each as (begin, reason code)."""

    async def whatif(self, job: str, change: str) -> Mapping[str, object]:
        """Return the expected start of the job after a change. For an empty `change`, return the expected start and the
        possible changes. Raises PhalanxError."""


class Order(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /act. `value`: the new nice value, for the action that sets it."""

    job: str
    action: Action
    value: Annotated[int, msgspec.Meta(ge=-MOST_NICE, le=MOST_NICE)] = 0


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /whatif."""

    job: str
    change: str = ""


@dataclass(slots=True)
class Page:
    """The server of one page. `board`: the state of the page for viewers who may see all names. `acts`: True if viewers
    may change jobs. `read`: a cache of the page's files, each with its version."""

    source: StateSource
    door: Door
    files: Mapping[str, Path]
    board: Board
    state: PageState | None = None
    pause_s: float = _PAUSE_S
    acts: bool = True
    read: dict[str, tuple[str, Packed]] = field(default_factory=dict)

    def publish(self, state: PageState) -> None:
        """Send the state to all viewers. Each viewer gets only the names that the viewer may see."""
        self.state = state
        self.board.publish(state)
        for session in self.door.sessions:
            session.unseen = 0 if session.streams else session.unseen + 1
            if session.unseen > _UNSEEN:  # the browser has disconnected; if it reconnects, its state is computed again
                session.board = None
            elif session.board is not None:
                session.board.publish(session.redaction.state(_seen_by(state, session)))

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces in which there are jobs."""
        jobs = self.state.jobs if self.state is not None else ()
        return frozenset(job.partition("/")[0] for job in jobs)

    def board_of(self, session: LoginSession) -> Board:
        """Return the page's state and its changes (a `Board`) with the names that the viewer of this session may
        see."""
        if session.namespaces is None:
            return self.board
        if session.board is None:
            session.board = Board()
            if self.state is not None:
                session.board.publish(session.redaction.state(_seen_by(self.state, session)))
        return session.board

    # --- routes -----------------------------------------------------------------------------------------------------

    async def file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info.get("name", "") or "index.html"
        path = self.files.get(name) if _NAME.fullmatch(name) else None
        if path is None:
            raise web.HTTPNotFound(text="there is no such file\n")
        stat = path.stat()
        etag = f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"'
        headers = {"Cache-Control": "no-cache", "ETag": etag}
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers=headers)
        if self.read.get(name, ("",))[0] != etag:
            self.read[name] = etag, Packed(await asyncio.to_thread(path.read_bytes))
        return _packed(request, self.read[name][1], _TYPES[path.suffix], headers)

    async def ready(self, request: web.Request) -> web.StreamResponse:
        """Answer /readyz for the kubelet: 200 if there is a state to show, otherwise 503."""
        ready = self.state is not None
        return web.Response(status=200 if ready else 503, text="ok\n" if ready else "the cluster is being read\n")

    async def me(self, request: web.Request) -> web.StreamResponse:
        """Answer /me: the name of the viewer, and the actions that the page can offer to the viewer."""
        session = request[SESSION]
        acts, leaves = self.acts and session.viewer.agent is not None, self.door.leaves(request)
        found = {"user": session.viewer.name, "acts": acts, "leaves": leaves}
        return web.json_response(found, headers={"Cache-Control": "no-store"})

    async def whole(self, request: web.Request) -> web.StreamResponse:
        board = self.board_of(request[SESSION])
        if board.empty:
            return web.json_response({"waiting": True}, status=503, headers={"Retry-After": "1"})
        return _packed(request, board.packed(), "application/json", {"Cache-Control": "no-store"})

    async def events(self, request: web.Request) -> web.StreamResponse:
        session = request[SESSION]
        if session.streams >= MOST_STREAMS:
            raise web.HTTPTooManyRequests(text=f"a session may have at most {MOST_STREAMS} open streams\n")
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        answer = web.StreamResponse(headers={**headers, **HEADERS})
        await answer.prepare(request)
        session.streams += 1
        try:
            known = request.headers.get("Last-Event-ID") or request.query.get("since", "")
            await self._follow(session, known, answer)
        finally:
            session.streams -= 1
        return answer

    async def _follow(self, session: LoginSession, known: str, answer: web.StreamResponse) -> None:
        board = self.board_of(session)
        await answer.write(b"retry: 2000\n\n")
        while await self._still(session):
            if self.board_of(session) is not board:  # the viewer's rights have changed
                await answer.write(b"event: reset\ndata: {}\n\n")
                return
            news = asyncio.ensure_future(board.changed())
            try:
                changes = board.since(known)
                if changes is None:
                    await answer.write(b"event: reset\ndata: {}\n\n")
                    return
                for before, known, body in changes:
                    leads = b'{"from":"%s","to":"%s",' % (before.encode(), known.encode())
                    await answer.write(b"id: %s\ndata: %s%s\n\n" % (known.encode(), leads, body[1:]))
                await asyncio.wait({news}, timeout=_QUIET_S)
                if not news.done():
                    await answer.write(b"event: still\ndata: {}\n\n")
                else:
                    await asyncio.sleep(self.pause_s)
            finally:
                news.cancel()

    async def _still(self, session: LoginSession) -> bool:
        """Read the viewer's rights again if the interval has passed. Return False if the session has ended."""
        try:
            return await self.door.review(session)
        except PhalanxError as error:
            log.warning("a stream of %s ends: %s", session.viewer.name, error)
            return False

    async def past(self, request: web.Request) -> web.StreamResponse:
        session = request[SESSION]
        try:
            from_s, to_s = float(request.query["from"]), float(request.query["to"])
        except (KeyError, ValueError):
            raise web.HTTPBadRequest(text="set the parameters from and to, in seconds since the epoch\n") from None
        if not 0 <= to_s - from_s <= _MOST_PAST_S:
            raise web.HTTPBadRequest(text="from must be before to, by at most 31 days\n")
        rows = [session.redaction.past(row) for row in await self.source.past(from_s, to_s)]
        return _packed(request, msgspec.json.encode(rows), "application/json", {"Cache-Control": "no-store"})

    async def output(self, request: web.Request) -> web.StreamResponse:
        session = request[SESSION]
        job, since = request.query.get("job", ""), request.query.get("since", "")
        if not session.sees(job.partition("/")[0]):
            raise web.HTTPNotFound(text="there is no such job\n")
        if since and not _MOMENT.fullmatch(since):
            raise web.HTTPBadRequest(text="the parameter since is not a time\n")
        if session.reading:
            raise web.HTTPTooManyRequests(text="other output is being read\n", headers={"Retry-After": "1"})
        session.reading = True
        try:
            body = msgspec.json.encode(await _agent(session).output(job, since))
        except PhalanxError as error:
            raise web.HTTPNotFound(text=f"{error}\n") from None
        finally:
            session.reading = False
        return _packed(request, body, "application/json", {"Cache-Control": "no-store"})

    async def use(self, request: web.Request) -> web.StreamResponse:
        session, job = request[SESSION], request.query.get("job", "")
        if not session.sees(job.partition("/")[0]):
            raise web.HTTPNotFound(text="there is no such job\n")
        if session.measuring:
            raise web.HTTPTooManyRequests(text="another job is being measured\n", headers={"Retry-After": "1"})
        session.measuring = True
        try:
            body = msgspec.json.encode(await _agent(session).use(job))
        except PhalanxError as error:
            raise web.HTTPNotFound(text=f"{error}\n") from None
        finally:
            session.measuring = False
        return _packed(request, body, "application/json", {"Cache-Control": "no-store"})

    async def act(self, request: web.Request) -> web.StreamResponse:
        session = request[SESSION]
        if not self.acts:
            raise web.HTTPForbidden(text="this page changes nothing (--read-only)\n")
        order = await _read(request, Order)
        if not session.sees(order.job.partition("/")[0]):
            raise web.HTTPNotFound(text="there is no such job\n")
        if session.acting:
            raise web.HTTPTooManyRequests(text="another action is being carried out\n", headers={"Retry-After": "1"})
        session.acting = True
        try:
            done = await _agent(session).act(order.job, order.action, order.value)
        except PhalanxError as error:
            raise web.HTTPConflict(text=f"{error}\n") from None
        finally:
            session.acting = False
        log.info("%s: %s %s", session.viewer.name, order.action, order.job)
        return web.json_response({"done": done}, headers={"Cache-Control": "no-store"})

    async def history(self, request: web.Request) -> web.StreamResponse:
        job = request.query.get("job", "")
        if not request[SESSION].sees(job.partition("/")[0]):
            raise web.HTTPNotFound(text="there is no such job\n")
        body = msgspec.json.encode(await self.source.history(job))
        return _packed(request, body, "application/json", {"Cache-Control": "no-store"})

    async def whatif(self, request: web.Request) -> web.StreamResponse:
        session = request[SESSION]
        asked = await _read(request, Question)
        if not session.sees(asked.job.partition("/")[0]):
            raise web.HTTPNotFound(text="there is no such job\n")
        key = msgspec.json.encode(asked)
        now_s = time.monotonic()
        session.answers = {key: one for key, one in session.answers.items() if now_s - one[0] < _ANSWER_S}
        if key not in session.answers:
            if session.asking or len(session.answers) >= _MOST_ANSWERS:
                raise web.HTTPTooManyRequests(text="another question is being answered\n", headers={"Retry-After": "2"})
            session.asking = True
            try:
                found = await self.source.whatif(asked.job, asked.change)
            except PhalanxError as error:
                raise web.HTTPNotFound(text=f"{error}\n") from None
            finally:
                session.asking = False
            session.answers[key] = time.monotonic(), msgspec.json.encode(_without_names(found, session))
        return _packed(request, session.answers[key][1], "application/json", {"Cache-Control": "no-store"})


Body = TypeVar("Body")


async def _read(request: web.Request, form: type[Body]) -> Body:
    try:
        return msgspec.json.decode(await request.read(), type=form)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"the request cannot be read: {error}\n") from None


def _agent(session: LoginSession) -> ViewerConnection:
    if session.viewer.agent is None:
        raise PhalanxError("this page has no connection to a cluster")
    return session.viewer.agent


def _without_names(found: Mapping[str, Any], session: LoginSession) -> Mapping[str, object]:
    """Return the answer to a what-if question with stand-ins for those jobs to be preempted (`victims`) that the viewer
    may not list."""
    if "victims" not in found:
        return found
    return {**found, "victims": [session.redaction.name(job) for job in found["victims"]]}


def _seen_by(state: PageState, session: LoginSession) -> PageState:
    spaces = None if session.namespaces is None else tuple(sorted(session.namespaces))
    facts = msgspec.structs.replace(state.facts, user=session.viewer.name, namespaces=spaces)
    return replace(state, facts=facts)


def _packed(
    request: web.Request, content: bytes | Packed, content_type: str, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Return a response with the content, compressed if the browser accepts it."""
    packed = content if isinstance(content, Packed) else Packed(content)
    content = packed.plain
    if "gzip" in request.headers.get("Accept-Encoding", "") and len(content) > _SMALL and "font" not in content_type:
        content = packed.gzipped
        headers = {**headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    charset = None if "font" in content_type else "utf-8"
    return web.Response(body=content, content_type=content_type, charset=charset, headers=headers)


def served_files(static: Path = STATIC) -> dict[str, Path]:
    """Return the files of the page: path in the URL -> file."""
    found = (path for path in static.rglob("*") if path.is_file() and path.suffix in _TYPES)
    return {str(path.relative_to(static)): path for path in found}


@asynccontextmanager
async def serving(
    served: Page, port: int, public: tuple[str, int] | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve the page inside the `async with` block at a port of the loopback address (0 for any free port), and yield
    the port. `public`: a further address at which the page is served, with the TLS context `tls`. Raises PhalanxError
    if another program uses one of the ports."""
    app = web.Application(client_max_size=_MOST_BYTES, middlewares=[guard(served.door)])
    own: Sequence[Route] = (
        ("GET", "/readyz", served.ready),
        ("GET", "/me", served.me),
        ("GET", "/state", served.whole),
        ("GET", "/events", served.events),
        ("GET", "/past", served.past),
        ("GET", "/history", served.history),
        ("GET", "/output", served.output),
        ("GET", "/use", served.use),
        ("POST", "/whatif", served.whatif),
        ("POST", "/act", served.act),
        ("GET", "/", served.file),
        ("GET", "/{name:.+}", served.file),
    )
    for method, path, handler in (*served.door.routes, *own):
        app.router.add_route(method, path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
    await runner.setup()
    try:
        await _listen(web.TCPSite(runner, "127.0.0.1", port), "127.0.0.1", port, "--port")
        found = int(runner.addresses[0][1])
        served.door.listen(found)
        if public is not None:
            await _listen(web.TCPSite(runner, *public, ssl_context=tls), *public, "--address")
        yield found
    finally:
        await runner.cleanup()


async def _listen(site: web.TCPSite, host: str, port: int, option: str) -> None:
    try:
        await site.start()
    except OSError as error:
        raise PhalanxError(
            f"cannot listen on {host} port {port}: {error.strerror or error}. Nothing was started. Name another "
            f"port with {option}, or 0 for any free one."
        ) from error
