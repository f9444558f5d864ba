"""Access to the page: viewers, sessions, and the checks of every request. The module also opens sessions for a server
on the user's own machine.

The address that `phalanx dashboard` prints contains a one-time key. The first request with this key gets a session;
after that, the key is not valid any more. The session's secret is in a cookie that scripts cannot read and that
browsers do not send for other sites. Every request must name the server in its header Host, so that a request is
refused if its URL has a host name of an attacker that resolves to 127.0.0.1 (DNS rebinding). A request that a browser
sends for another site is refused even with a valid cookie."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from phalanx.dashboard.redaction import Redaction
from phalanx.dashboard.rows import Board
from phalanx.errors import PhalanxError

_WORD_S = 600.0  # the time for which the one-time key of the page is valid
_IDLE_S = 7 * 86_400.0  # a session without a request for this time ends
_MOST_SESSIONS = 200
MOST_STREAMS = 16  # the maximum number of open streams of a session
_LOOKS = (".css", ".woff2", ".svg")  # files with these endings need no session, because the sign-in page uses them too

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with `no-referrer` browsers send forms without their origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


Action: TypeAlias = Literal["cancel", "hold", "release", "nice"]


class SessionEnded(PhalanxError):
    """Raised if the viewer's credentials are no longer valid."""


class ViewerConnection(Protocol):
    """The connection of a viewer to the cluster. Every call is made with the viewer's own credentials."""

    async def sees(self, namespaces: Collection[str]) -> frozenset[str] | None:
        """Return the subset of `namespaces` in which the viewer may list jobs; None stands for all namespaces. Raises
        SessionEnded, or PhalanxError if the cluster does not answer."""

    async def output(self, job: str, since: str) -> Sequence[tuple[str, str, str]]:
        """Return the last lines that the job's containers wrote, each as (time, label of the pod, text). With `since`,
        return the lines since that time. Raises PhalanxError."""

    async def use(self, job: str) -> Sequence[tuple[str, float, float]]:
        """Return the present resource usage of each pod of the job, as (label of the pod, CPU cores, GiB of memory);
        empty if usage is not measured. Raises PhalanxError."""

    async def act(self, job: str, action: Action, value: int) -> str:
        """Carry out an action on a job, and return a sentence about the result. `value`: the new nice value. Raises
        PhalanxError."""

    async def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """A viewer. `namespaces`: the namespaces whose jobs the viewer may list; None stands for all namespaces. `agent`:
    the viewer's connection to the cluster; None in some tests."""

    name: str
    namespaces: frozenset[str] | None = None
    agent: ViewerConnection | None = None


@dataclass(slots=True, kw_only=True)
class LoginSession:
    """A session.

    `namespaces`: the namespaces whose jobs the viewer may list now; None stands for all namespaces. `reviewed_s`,
    `asked`: the time at which the viewer's rights were last read, and the namespaces for which they were read. `board`:
    the state of the page without the names that this viewer may not see; None if the viewer may see all names.
    `streams`: the number of streams that the session has open. `unseen`: the number of cluster states that the server
    has published since the session last had an open stream. `reading`: whether the server reads the output of a job for
    this session.
    `asking`: whether the server computes the answer to a what-if question of this session. `acting`: whether the server
    carries out an action of this session on a job.
    `measuring`: whether the server reads the resource usage of a job for this session."""

    viewer: Viewer
    used_s: float
    namespaces: frozenset[str] | None
    reviewed_s: float = float("-inf")
    asked: frozenset[str] = frozenset()
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    board: Board | None = None
    streams: int = 0
    unseen: int = 0
    asking: bool = False
    reading: bool = False
    acting: bool = False
    measuring: bool = False
    answers: dict[bytes, tuple[float, bytes]] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def sees(self, namespace: str) -> bool:
        """Return whether the viewer may list the jobs of the namespace."""
        return self.namespaces is None or namespace in self.namespaces

    @property
    def redaction(self) -> Redaction:
        return Redaction(self.sees, self.salt)


SESSION = web.RequestKey("session", LoginSession)
Route = tuple[str, str, Handler]


class Door(Protocol):
    """The part of the server that gives sessions to viewers, and finds the session of a request. There are two
    implementations: `Doorkeeper` for a server on the user's own machine, and `sign_in.SignIn` for a server in a
    cluster."""

    @property
    def sessions(self) -> list[LoginSession]:
        """All sessions."""

    @property
    def routes(self) -> Sequence[Route]:
        """The routes for signing in and out. They need no session."""

    def listen(self, port: int) -> None:
        """Store the port of the loopback address at which the server listens."""

    def refused(self, request: web.Request) -> str:
        """Return why the request is refused, whether or not it has a session; "" if it is not refused."""

    def leaves(self, request: web.Request) -> bool:
        """Return whether the page has a button with which the viewer ends the session."""

    async def session(self, request: web.Request) -> LoginSession | None:
        """Return the session of the request; None if it has none. Raises PhalanxError if the cluster does not
        answer."""

    async def review(self, session: LoginSession) -> bool:
        """Read the viewer's rights again if the interval has passed. Return False if the session has ended."""

    def closed(self, request: web.Request) -> web.Response:
        """Return the response to a request without a session."""


class Sessions:
    """The sessions of a server: secret -> session. If there are too many, a new session replaces the session that was
    used least recently."""

    def __init__(self, clock: Callable[[], float], idle_s: float = _IDLE_S) -> None:
        self._clock, self._idle_s = clock, idle_s
        self._known: dict[str, LoginSession] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def begin(self, viewer: Viewer, secret: str = "") -> str:
        """Begin a session of the viewer and return its secret. `secret`: the secret to use; empty for a new one."""
        now_s = self._clock()
        for key in [key for key, one in self._known.items() if now_s - one.used_s >= self._idle_s]:
            self.end(key)
        while len(self._known) >= _MOST_SESSIONS:
            self.end(min(self._known, key=lambda key: self._known[key].used_s))
        secret = secret or secrets.token_urlsafe(32)
        self._known[secret] = LoginSession(viewer=viewer, used_s=now_s, namespaces=viewer.namespaces)
        return secret

    def find(self, secret: str) -> LoginSession | None:
        """Return the session that has this secret; None if there is none."""
        found = self._known.get(secret)
        if found is not None:
            found.used_s = self._clock()
        return found

    def end(self, secret: str) -> None:
        """End the session that has this secret, if there is one."""
        found = self._known.pop(secret, None)
        if found is not None and found.viewer.agent is not None:
            task = asyncio.ensure_future(found.viewer.agent.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def secret_of(self, session: LoginSession) -> str:
        """Return the secret of this session; empty if the session has ended."""
        return next((key for key, one in self._known.items() if one is session), "")

    @property
    def all(self) -> list[LoginSession]:
        return list(self._known.values())


class Doorkeeper:
    """The access to a server on the user's own machine. A link with a one-time key opens one session of the
    `viewer`."""

    def __init__(self, viewer: Viewer, clock: Callable[[], float]) -> None:
        self.port = 0
        self._hosts: frozenset[str] = frozenset()
        self._viewer, self._clock = viewer, clock
        self._sessions = Sessions(clock)
        self._word = secrets.token_urlsafe(24)
        self._word_until_s = clock() + _WORD_S

    def listen(self, port: int) -> None:
        """Store the port of the loopback address at which the server listens."""
        self.port = port
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})

    @property
    def link(self) -> str:
        """The address of the page with the one-time key."""
        return f"http://127.0.0.1:{self.port}/open?word={self._word}"

    @property
    def cookie(self) -> str:
        """The name of the cookie. It contains the port, because browsers send the cookies of a port to all ports of a
        host."""
        return f"phalanx-{self.port}"

    def enter(self, word: str) -> str | None:
        """Return the secret of a new session; None if the one-time key was used, has expired, or is wrong."""
        good = secrets.compare_digest(word.encode(), self._word.encode()) and self._clock() <= self._word_until_s
        if not good:
            return None
        self._word_until_s = float("-inf")
        return self.begin(self._viewer)

    def begin(self, viewer: Viewer) -> str:
        """Return the secret of a new session of the viewer."""
        return self._sessions.begin(viewer)

    @property
    def sessions(self) -> list[LoginSession]:
        return self._sessions.all

    @property
    def routes(self) -> Sequence[Route]:
        return (("GET", "/open", self._open),)

    def refused(self, request: web.Request) -> str:
        if request.headers.get("Host", "") not in self._hosts:
            return "the request has a Host header that does not name this server"
        return foreign(request, {f"http://{host}" for host in self._hosts})

    def leaves(self, request: web.Request) -> bool:
        return False

    async def session(self, request: web.Request) -> LoginSession | None:
        return self._sessions.find(request.cookies.get(self.cookie, ""))

    async def review(self, session: LoginSession) -> bool:
        return True  # nothing to review: the page's state was read with the viewer's own credentials

    def closed(self, request: web.Request) -> web.Response:
        return page(
            401,
            "Open this page with its link",
            "This browser has no session here. Open the link that <code>phalanx dashboard</code> printed. Each link "
            "opens one session: if it was used before, start <code>phalanx dashboard</code> again for a new one.",
        )

    async def _open(self, request: web.Request) -> web.StreamResponse:
        secret = self.enter(request.query.get("word", ""))
        if secret is None:
            if await self.session(request) is not None:
                raise web.HTTPSeeOther("/")
            return page(
                403,
                "This link has already been used",
                "Each link opens one session, within ten minutes. If you did not open it, somebody else may have. "
                "Start <code>phalanx dashboard</code> again: it prints a new link, and the old session ends.",
            )
        answer = web.HTTPSeeOther("/")
        answer.set_cookie(self.cookie, secret, httponly=True, samesite="Strict", path="/")
        raise answer


def foreign(request: web.Request, origins: Collection[str]) -> str:
    """Return why the request seems to come from a page of another site; "" if it does not. `origins`: the origins of
    this server."""
    origin = request.headers.get("Origin")
    if origin is not None and origin not in origins:
        return "the request comes from a page of another origin"
    if request.method != "GET" and origin is None:
        return "the request does not name its origin"
    opens = request.path in ("/", "/open") and request.method == "GET"
    if not opens and request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return "the request comes from a page of another site"
    return ""


def guard(door: Door) -> Middleware:
    """Return the middleware that checks every request and adds the security headers to every response."""
    free = {"/readyz", *(path for _, path, _ in door.routes)}

    @web.middleware
    async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
        if cause := door.refused(request):
            raise web.HTTPForbidden(text=f"{cause}\n", headers=HEADERS)
        if request.path not in free and not request.path.endswith(_LOOKS):
            try:
                session = await door.session(request)
            except PhalanxError as error:
                raise web.HTTPServiceUnavailable(text=f"{error}\n", headers=HEADERS) from error
            if session is None:
                return door.closed(request)
            request[SESSION] = session
        try:
            answer = await handler(request)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    return checked


def page(status: int, title: str, text: str) -> web.Response:
    """Return an HTML page with a title and a text. `text`: HTML."""
    body = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title><link rel="stylesheet" '
        f'href="/css/app.css"><link rel="icon" href="/icon.svg"><main class="door"><h1>{title}</h1><p>{text}</p></main>'
    )
    headers = {**HEADERS, "Cache-Control": "no-store"}
    return web.Response(status=status, text=body, content_type="text/html", headers=headers)
