"""Signing in to a server in a cluster. A viewer has one of two kinds of identity:

- A bearer token. The viewer pastes it into the sign-in page and gets a session, or a proxy sends it in the header
  `Authorization`.
- A user and groups that an authenticating proxy sends in the headers `X-Remote-User` and `X-Remote-Group`. The headers
  are used only if the request comes over TLS with a client certificate whose common name is that of the proxy. The TLS
  context has verified the certificate. Names that begin with `system:`, such as `system:masters`, are refused.

The function `admit` asks the cluster which user has this identity. A token is kept only in the memory of this process.
The rights of a viewer are read when a session begins, and then every minute.
"""

from __future__ import annotations

import asyncio
import html
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from aiohttp import web

from phalanx.dashboard.access import HEADERS, LoginSession, Route, SessionEnded, Sessions, Viewer, foreign, page
from phalanx.errors import PhalanxError

log = logging.getLogger(__name__)

REVIEW_S = 60.0  # the interval between two reads of a viewer's rights
_NEW_S = 5.0  # the interval between two reads of a viewer's rights while those in a new namespace are unknown
IDLE_S = 12 * 3600.0
_AT_ONCE = 16  # the maximum number of concurrent lookups of identities
_MOST_CHARS = 8192  # the longest token
_MOST_GROUPS = 200
_OWN = frozenset({"localhost", "127.0.0.1", "[::1]"})  # the hosts in the URLs of `kubectl port-forward`
_PROBES = frozenset({"/healthz", "/readyz"})
_EVERYONE = "system:authenticated"


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token of the cluster."""

    text: str


@dataclass(frozen=True, slots=True)
class Vouched:
    """A user and groups that a proxy has authenticated."""

    user: str
    groups: tuple[str, ...] = ()


Credential: TypeAlias = Token | Vouched
# A function that returns the viewer with an identity, or None if the cluster does not know the identity. It raises
# PhalanxError if the cluster does not answer.
Admit: TypeAlias = Callable[[Credential], Awaitable[Viewer | None]]


class SignIn:
    """The sessions of all viewers of a server in a cluster. `hosts`: the host names under which browsers reach this
    server, in addition to the loopback address. `proxies`: the common names of the certificates of trusted proxies.
    `namespaces`: a function that returns the namespaces that contain jobs."""

    def __init__(
        self,
        admit: Admit,
        clock: Callable[[], float],
        hosts: Collection[str] = (),
        proxies: Collection[str] = (),
        namespaces: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self.namespaces = namespaces
        self.listens = 0
        self._admit, self._clock = admit, clock
        self._hosts, self._proxies = _OWN | {host.lower() for host in hosts}, frozenset(proxies)
        self._sessions = Sessions(clock, IDLE_S)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._salt = secrets.token_bytes(32)

    def listen(self, port: int) -> None:
        """Store the port at which the page is served."""
        self.listens = port

    @property
    def sessions(self) -> list[LoginSession]:
        return self._sessions.all

    @property
    def routes(self) -> Sequence[Route]:
        return (("POST", "/sign-in", self._enter), ("POST", "/sign-out", self._leave), ("GET", "/healthz", _alive))

    def refused(self, request: web.Request) -> str:
        if request.path in _PROBES:
            return ""
        host = request.headers.get("Host", "").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in self._hosts:
            return "the request has a Host header that does not name this server"
        return foreign(request, {f"http://{host}", f"https://{host}"})

    def leaves(self, request: web.Request) -> bool:
        return self._credential(request) is None

    async def session(self, request: web.Request) -> LoginSession | None:
        credential = self._credential(request)
        secret = request.cookies.get(_cookie(request), "") if credential is None else self._key(credential)
        found = self._sessions.find(secret)
        if found is None and credential is not None:
            async with self._turns:
                found = self._sessions.find(secret) or await self._begin(credential, secret)
        return found if found is not None and await self.review(found) else None

    async def _begin(self, credential: Credential, secret: str = "") -> LoginSession | None:
        viewer = await self._admit(credential)
        return None if viewer is None else self._sessions.find(self._sessions.begin(viewer, secret))

    async def review(self, session: LoginSession) -> bool:
        if not self._sessions.secret_of(session):
            return False
        async with session.turn:
            first = session.reviewed_s == float("-inf")
            now, spaces = self._clock(), frozenset(self.namespaces())
            pause_s = REVIEW_S if spaces <= session.asked else _NEW_S if session.asked else 0.0
            if now - session.reviewed_s < pause_s:
                return True
            assert session.viewer.agent is not None
            try:
                seen = await session.viewer.agent.sees(spaces)
            except SessionEnded:
                self._sessions.end(self._sessions.secret_of(session))
                return False
            except PhalanxError as error:
                if first:
                    raise
                log.warning(
                    "the rights of %s cannot be read; the last known ones apply: %s", session.viewer.name, error
                )
                return True
            if seen != session.namespaces:
                session.namespaces, session.board = seen, None
            session.reviewed_s, session.asked = self._clock(), spaces
            return True

    def _key(self, credential: Credential) -> str:
        """Return the key under which the session of this identity is stored. The key cannot be guessed without the
        salt."""
        return blake2b(repr(credential).encode(), key=self._salt, digest_size=32).hexdigest()

    def _credential(self, request: web.Request) -> Credential | None:
        """Return the identity in the headers of the request, or None if they contain none."""
        if self._proxies and _common_name(request) in self._proxies and (user := request.headers.get("X-Remote-User")):
            groups = tuple(request.headers.getall("X-Remote-Group", ())[:_MOST_GROUPS])
            taken = (user, *(group for group in groups if group != _EVERYONE))
            if any(name.startswith("system:") or not name.isprintable() for name in taken):
                return None
            return Vouched(user, groups)
        kind, _, text = request.headers.get("Authorization", "").partition(" ")
        return _token(text) if kind.lower() == "bearer" else None

    def closed(self, request: web.Request) -> web.Response:
        return _form(401, "")

    async def _enter(self, request: web.Request) -> web.StreamResponse:
        token = _token(str((await request.post()).get("token", "")))
        if token is None:
            return _form(400, "This is not a token. A token is one line of at most 8,192 printable characters.")
        try:
            async with self._turns:
                found = await self._begin(token)
            if found is None or not await self.review(found):
                return _form(403, "The cluster does not know this token; it may have expired.")
        except PhalanxError as error:
            return _form(503, f"The cluster does not answer: {error}. Try again.")
        answer = web.HTTPSeeOther("/")
        secret = self._sessions.secret_of(found)
        over_tls = request.secure or request.headers.get("Origin", "").startswith("https:")
        answer.set_cookie(_cookie(request), secret, httponly=True, samesite="Strict", path="/", secure=over_tls)
        raise answer

    async def _leave(self, request: web.Request) -> web.StreamResponse:
        self._sessions.end(request.cookies.get(_cookie(request), ""))
        raise web.HTTPSeeOther("/")


def _token(text: str) -> Token | None:
    """Return the token, or None if the text is empty, too long or not valid in a header."""
    text = text.strip()
    good = 0 < len(text) <= _MOST_CHARS and text.isascii() and text.isprintable() and " " not in text
    return Token(text) if good else None


def _cookie(request: web.Request) -> str:
    """Return the name of the cookie. It contains the port, because browsers send a cookie to all ports of a host."""
    port = request.headers.get("Host", "").rpartition(":")[2]
    return f"phalanx-{port}" if port.isdecimal() else "phalanx"


def _common_name(request: web.Request) -> str:
    """Return the common name of the client certificate that the handshake verified. Return "" if there was none."""
    found = None if request.transport is None else request.transport.get_extra_info("peercert")
    pairs = (pair for part in (found or {}).get("subject", ()) for pair in part)
    return next((str(value) for name, value in pairs if name == "commonName"), "")


def _form(status: int, fault: str) -> web.Response:
    """Return the sign-in page. `fault`: why the last attempt to sign in failed; empty if there was none."""
    said = f'</p><p class="bad" role="alert">{html.escape(fault)}' if fault else ""
    return page(
        status,
        "Sign in to Phalanx",
        "The page shows what you may list in this cluster. Sign in with your own bearer token: that of your "
        "kubeconfig, or one from <code>kubectl create token ACCOUNT</code>. This server keeps it in its memory "
        f"only.{said}</p>"
        '<form method="post" action="/sign-in"><label for="token">Token</label><input id="token" name="token" '
        'type="password" autocomplete="off" spellcheck="false" required autofocus><button class="btn">Sign in</button>'
        "</form><p>",
    )


async def _alive(request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok\n", headers=HEADERS)
