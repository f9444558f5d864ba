"""Access to the page: sessions, and the checks of every request.

The address that the command prints has a one-time word. The first request with it gets a session, as a cookie that
scripts cannot read and that other sites cannot send; afterwards the word is worth nothing. Every request must name the
server as its host, so that a name that an attacker points at 127.0.0.1 (DNS rebinding) gets no answer. A request that a
browser sends for another site is refused, whatever its cookie.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from phalanx.dashboard.changes import Board
from phalanx.dashboard.redaction import Redaction

_WORD_S = 600.0  # so long is the first word good
_IDLE_S = 7 * 86_400.0  # a session without a request for this time ends
_MOST_SESSIONS = 200
MOST_STREAMS = 16  # of a session

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """A viewer. `namespaces`: the namespaces whose jobs the viewer may list; None: all namespaces."""

    name: str
    namespaces: frozenset[str] | None = None

    def sees(self, namespace: str) -> bool:
        """Return whether the viewer may list the jobs of the namespace."""
        return self.namespaces is None or namespace in self.namespaces


@dataclass(slots=True, kw_only=True)
class Session:
    """A session. `board`: the state of this session, if its viewer may not see all names. `streams`: how many it
    follows.
    `reading`: output of a job is being read. `asking`: a question about what would be is being answered."""

    viewer: Viewer
    used_s: float
    redaction: Redaction
    board: Board | None = None
    streams: int = 0
    asking: bool = False
    reading: bool = False
    answers: dict[bytes, tuple[float, bytes]] = field(default_factory=dict)


SESSION = web.RequestKey("session", Session)


class Doorkeeper:
    """The doorkeeper of one server. `hosts`: the names by which browsers reach it, with the port. `viewer`: the owner
    of the one-time word."""

    def __init__(self, viewer: Viewer, clock: Callable[[], float]) -> None:
        self.hosts: frozenset[str] = frozenset()
        self.port = 0
        self._viewer, self._clock = viewer, clock
        self._sessions: dict[str, Session] = {}
        self._word = secrets.token_urlsafe(24)
        self._word_until_s = clock() + _WORD_S

    def listen(self, port: int) -> None:
        """Answer at this port of the loopback address."""
        self.port = port
        self.hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})

    @property
    def link(self) -> str:
        """The address with the one-time word."""
        return f"http://127.0.0.1:{self.port}/open?word={self._word}"

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers send the cookies of one port to all ports of a host."""
        return f"phalanx-{self.port}"

    def enter(self, word: str) -> str | None:
        """Return the secret of a new session. Return None for a word that was used, is too old, or is wrong."""
        good = secrets.compare_digest(word.encode(), self._word.encode()) and self._clock() <= self._word_until_s
        if not good:
            return None
        self._word_until_s = float("-inf")
        return self.begin(self._viewer)

    def begin(self, viewer: Viewer) -> str:
        """Return the secret of a new session of the viewer."""
        now_s = self._clock()
        self._sessions = {key: one for key, one in self._sessions.items() if now_s - one.used_s < _IDLE_S}
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda key: self._sessions[key].used_s)]
        secret = secrets.token_urlsafe(32)
        redaction = Redaction(viewer.sees, secrets.token_bytes(16))
        self._sessions[secret] = Session(viewer=viewer, used_s=now_s, redaction=redaction)
        return secret

    def session(self, request: web.Request) -> Session | None:
        """Return the session of the request's cookie."""
        found = self._sessions.get(request.cookies.get(self.cookie, ""))
        if found is not None:
            found.used_s = self._clock()
        return found

    @property
    def sessions(self) -> list[Session]:
        return list(self._sessions.values())


def refused(request: web.Request, hosts: frozenset[str]) -> str:
    """Return the cause for which the request is refused before its session counts; empty: no cause."""
    if request.headers.get("Host", "") not in hosts:
        return "the request names another host than this server"
    origins = {f"http://{host}" for host in hosts}
    origin = request.headers.get("Origin")
    if origin is not None and origin not in origins:
        return "the request comes from a page of another origin"
    if request.method != "GET" and origin is None:
        return "the request does not name its origin"
    opens = request.path in ("/", "/open") and request.method == "GET"
    if not opens and request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return "the request comes from a page of another site"
    return ""


def guard(doorkeeper: Doorkeeper) -> Middleware:
    """Return the middleware that checks every request, and gives every answer its headers."""

    @web.middleware
    async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
        if cause := refused(request, doorkeeper.hosts):
            raise web.HTTPForbidden(text=f"{cause}\n", headers=HEADERS)
        if request.path != "/open":
            session = doorkeeper.session(request)
            if session is None:
                return _closed()
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


def _closed() -> web.Response:
    """Return the page for who has no session."""
    return page(
        401,
        "This page needs its link",
        "This browser has no session here. Open the link that <code>phalanx dashboard</code> printed. Each link opens "
        "one session: if it was used before, start <code>phalanx dashboard</code> again for a new one.",
    )


def page(status: int, title: str, text: str) -> web.Response:
    """Return a page of text, without styles."""
    body = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1><p>{text}</p>'
    headers = {**HEADERS, "Cache-Control": "no-store"}
    return web.Response(status=status, text=body, content_type="text/html", headers=headers)
