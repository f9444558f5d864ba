"""Make API calls to one server, and classify their outcomes.

Each call has one of three outcomes, which decide whether a write may be repeated:

- 2xx: the write was executed and is durable;
- 4xx: `ApiRefusal`; the write was not executed;
- 5xx or no response: `ApiUnknown`; the write may have been executed; only reading the object shows whether it was.

A call that was certainly not executed is sent again in two cases. After a 429 of an overloaded server, all calls wait
for the time in `Retry-After`. After a 401, the call is sent once more with new credentials. Reads are also repeated
after a 5xx.

A 429 may also concern only one object: a PodDisruptionBudget forbids an eviction, or a webhook refuses a write. An
overloaded server sends a 429 in plain text before it reads the call. Every other 429 has a Status as its body; it is an
`ApiRefusal` and delays no other call. (Source: k8s.io/apiserver/pkg/server/filters, `tooManyRequests`.)

Objects are plain JSON values, decoded by msgspec.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict
from urllib.parse import quote, urlencode

import msgspec

from phalanx import __version__
from phalanx.client.access.credentials import Identity, read_credentials
from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.client.access.proxy import HttpProxy, find_proxy
from phalanx.client.http import Http
from phalanx.client.kind import Kind
from phalanx.client.tally import Tally
from phalanx.errors import PhalanxError

if TYPE_CHECKING:
    import aiohttp

Object = dict[str, Any]
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_CONNECTIONS = 48  # the maximum number of concurrent calls, not counting watches; further calls wait
_TIMEOUT_S = 30.0
_BUSY_RETRIES = 8
_MESSAGE_MOST_BYTES = 16 << 20  # the maximum size of a WebSocket message
_BROKEN_S = (0.1, 0.5, 1.0)  # the pauses before the first, second and third repetition of a read after a 5xx


class StatusCause(TypedDict, total=False):
    field: str
    message: str
    reason: str


class StatusDetails(TypedDict, total=False):
    """The `details` of a Status (meta/v1, StatusDetails)."""

    causes: list[StatusCause]
    group: str
    kind: str
    name: str
    retryAfterSeconds: int
    uid: str


class ApiError(PhalanxError):
    """Raised if a call did not succeed."""


class ApiRefusal(ApiError):
    """Raised if the server refused the call (4xx). Nothing was changed."""

    def __init__(self, code: int, reason: str, message: str, details: StatusDetails | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details or StatusDetails()


class ApiUnknown(ApiError):
    """Raised if there was no response, or a 5xx. It is unknown whether a write was executed until the object is
    read."""


class ObjectCalls(ABC):
    """Calls that read and write objects. A subclass sends them. Each call raises the errors of `request`."""

    @abstractmethod
    async def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        acting: Sequence[str] = (),
    ) -> Any:
        """Send a call and return the decoded response. `acting`: a user and the user's groups to impersonate.

        Raises ApiRefusal (4xx: nothing changed) or ApiUnknown (no response, or 5xx)."""

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return await self._object("GET", kind.path(namespace, name))

    async def list(self, kind: Kind, namespace: str = "", **params: str) -> Object:
        """Return the whole list as one List object, joined from its pages. If the pages expire before the last is read
        (410), the list is read again without pages."""
        try:
            pages = [page async for page in self.pages(kind, namespace, **params)]
        except ApiRefusal as error:
            if error.code != 410:
                raise
            return await self._object("GET", kind.path(namespace), params=params)
        whole = pages[0]
        for page in pages[1:]:
            whole["items"].extend(page["items"])
        return whole

    async def pages(self, kind: Kind, namespace: str = "", **params: str) -> AsyncIterator[Object]:
        """Yield a list in pages of 500, each a List object. Raises ApiRefusal 410 if the pages expire before the last
        is read."""
        token = ""
        while True:
            query = {"limit": "500", **params, **({"continue": token} if token else {})}
            page = await self._object("GET", kind.path(namespace), params=query)
            yield page
            token = page["metadata"].get("continue")
            if not token:
                return

    async def create(
        self,
        kind: Kind,
        body: Object,
        namespace: str = "",
        subresource: str = "",
        name: str = "",
        *,
        acting: Sequence[str] = (),
    ) -> Object:
        """Create an object, or a subresource of the object `name`. `acting`: a user and the user's groups to
        impersonate."""
        path = kind.path(namespace, name, subresource)
        answer: Object = await self.request("POST", path, body=body, acting=acting)
        return answer

    async def replace(self, kind: Kind, body: Object, subresource: str = "") -> Object:
        meta = body["metadata"]
        return await self._object("PUT", kind.path(meta.get("namespace", ""), meta["name"], subresource), body=body)

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: object,
        namespace: str = "",
        subresource: str = "",
        content_type: str = MERGE_PATCH,
        **params: str,
    ) -> Object:
        path = kind.path(namespace, name, subresource)
        return await self._object("PATCH", path, body=body, params=params, content_type=content_type)

    async def delete(self, kind: Kind, name: str, namespace: str = "", body: Object | None = None) -> Object:
        return await self._object("DELETE", kind.path(namespace, name), body=body)

    async def _object(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> Object:
        answer: Object = await self.request(method, path, body=body, params=params, content_type=content_type)
        return answer


class Connection(ObjectCalls):
    """Calls to one API server. Use as `async with await Connection.open(path) as connection`."""

    def __init__(
        self,
        server: str,
        *,
        headers: Mapping[str, str],
        tls: ssl.SSLContext | None,
        identity: Identity | None = None,
        server_name: str = "",
        proxy: HttpProxy | None = None,
        acting: Sequence[str] = (),
    ) -> None:
        """Make a connection. `headers`: headers that are sent with every call, in addition to the headers of
        `identity`. `acting`: a user and the user's groups to impersonate in every call. Raises PhalanxError if these
        names are not valid in a header."""
        self.server = server.rstrip("/")
        self.tally = Tally()
        self.lists_by_watch = True  # False after the server refused a watch that begins with all objects (KEP-3157)
        common = {"accept": JSON, "user-agent": f"phalanx/{__version__}", **headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in common.items()) + _impersonating(acting)
        self._identity = identity
        self._fence: Callable[[], float] | None = None
        self._tls, self._server_name, self._proxy = tls, server_name, proxy
        self._calm_s = 0.0  # after a 429, no call is sent before this time (event loop's clock)
        self._http = Http(self.server, tls=tls, limit=_CONNECTIONS, server_name=server_name, proxy=proxy)

    @classmethod
    async def open(cls, kubeconfig: str | Path | None = None, context: str | None = None) -> Self:
        """Return a connection with the credentials from the first of these sources that exists: the file `kubeconfig`,
        $KUBECONFIG, ~/.kube/config, the pod's service account.

        Raises PhalanxError if there is no kubeconfig or the credentials cannot be obtained."""
        return await cls.of(*read_credentials(kubeconfig, context))

    @classmethod
    async def of(cls, cluster: KubeconfigCluster, user: KubeconfigUser) -> Self:
        """Return a connection with these credentials. Raises PhalanxError if they cannot be obtained."""
        identity = Identity(cluster, user)
        await identity.renew()
        return cls(
            cluster.server,
            headers={},
            tls=identity.tls,
            identity=identity,
            server_name=cluster.server_name,
            proxy=find_proxy(cluster.server, cluster.proxy, os.environ),
        )

    def with_token(self, token: str) -> Connection:
        """Return a connection to the same server with this bearer token as its only credentials. Raises
        PhalanxError."""
        if self._identity is None:
            raise PhalanxError(f"the connection to {self.server} has no credentials that a token could replace")
        return self._copy(self._identity.with_token(token))

    async def another(self) -> Connection:
        """Return a second connection with the same credentials, so that its calls never wait for calls of this
        connection. Raises PhalanxError if the credentials cannot be obtained."""
        identity = None if self._identity is None else self._identity.another()
        if identity is not None:
            await identity.renew()
        return self._copy(identity)

    def acting_as(self, user: str, groups: Sequence[str]) -> Connection:
        """Return a connection with the same credentials that impersonates this user with these groups. Raises
        PhalanxError if these names are not valid in a header."""
        return self._copy(self._identity, acting=(user, *groups))

    def _copy(self, identity: Identity | None, acting: Sequence[str] = ()) -> Connection:
        return Connection(
            self.server,
            headers={},
            tls=identity.tls if identity is not None else self._tls,
            identity=identity,
            server_name=self._server_name,
            proxy=self._proxy,
            acting=acting,
        )

    def fence(self, until: Callable[[], float]) -> None:
        """From now on, refuse a write once the time that `until` returns is reached, for example the expiry of a Lease.
        The time is that of the event loop's clock."""
        self._fence = until

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._http.close()

    # --- calls ----------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        acting: Sequence[str] = (),
    ) -> Any:
        data = _encoded(body)
        kind = (f"content-type: {content_type}\r\n" if data else "") + _impersonating(acting)
        target = _target(path, params)
        busy = broken = 0
        refused: str | None = None
        while True:
            head = await self._ready(refused)
            if method != "GET" and self._fence is not None and asyncio.get_running_loop().time() >= self._fence():
                raise ApiUnknown(f"{method} {path} was not sent: this process is no longer the leader")
            try:
                with self.tally.attempt(method, path) as made:
                    answer = await self._http.call(method, target, f"{head}{kind}", data, timeout_s=_TIMEOUT_S)
                    made.code = answer.status
            except OSError as error:
                raise self._unknown(method, path, error) from error
            if answer.status == 429 and busy < _BUSY_RETRIES and not _is_json(answer.headers):
                busy += 1
                self._calm_down(answer.headers.get("retry-after"), busy)
            elif answer.status == 401 and refused is None and self._identity is not None and self._identity.renewable:
                refused = self._identity.lines
            elif answer.status >= 500 and method == "GET" and broken < len(_BROKEN_S):
                await asyncio.sleep(_BROKEN_S[broken])
                broken += 1
            else:
                return _decode(answer.status, answer.headers.get("content-type", ""), answer.body)

    async def _ready(self, refused: str | None = None) -> str:
        """Wait until the server may be called again, renew the credentials if necessary, and return the header lines
        for a call. `refused`: the header lines with the credentials that the server has just refused; None: no
        refusal."""
        loop = asyncio.get_running_loop()
        while (pause_s := self._calm_s - loop.time()) > 0:  # noqa: ASYNC110 (the server reports no event)
            await asyncio.sleep(pause_s + random.uniform(0.0, 0.1 * pause_s))
        identity = self._identity
        if identity is None:
            return self._head
        if refused is not None or not identity.fresh:
            try:
                if await identity.renew(refused):
                    self._http.drop_idle()
            except PhalanxError as error:
                raise ApiUnknown(f"nothing was sent to {self.server}: {error}") from error
        return self._head + identity.lines

    def _calm_down(self, said: str | None, times: int) -> None:
        """Delay all calls. `said`: the value of the header Retry-After. `times`: the number of consecutive responses
        with status 429; this number determines the pause if Retry-After is missing or is a date."""
        pause_s = float(said) if said is not None and said.isascii() and said.isdigit() else min(8.0, 0.5 * 2.0**times)
        self._calm_s = max(self._calm_s, asyncio.get_running_loop().time() + min(pause_s, _TIMEOUT_S))

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], read_timeout_s: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the lines of a long response (watch, log -f). `read_timeout_s`: the longest time without data, in
        seconds. Raises the errors of `request`, also while lines are read."""
        head = await self._ready()
        try:
            target = _target(path, params)
            async with self._http.stream(target, head, timeout_s=_TIMEOUT_S, quiet_timeout_s=read_timeout_s) as (
                answer,
                chunks,
            ):
                if "watch" in params:
                    self.tally.watched(path, answer.status)
                if answer.status >= 300:
                    content = b"".join([chunk async for chunk in chunks])
                    if answer.status == 401 and self._identity is not None and self._identity.renewable:
                        # This renews the credentials. The exception below makes the caller start the watch again.
                        await self._ready(self._identity.lines)
                    if answer.status == 429 and not _is_json(answer.headers):
                        self._calm_down(answer.headers.get("retry-after"), 1)
                    _decode(answer.status, answer.headers.get("content-type", ""), content)
                yield _lines(chunks)
        except OSError as error:
            raise self._unknown("GET", path, error) from error

    @asynccontextmanager
    async def websocket(
        self, path: str, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket, for exec or port-forward, with the first of these subprotocols that the server supports.
        Raises the errors of `request`."""
        import aiohttp  # imported here, because few commands need it and importing it takes long

        head = await self._ready()
        lines = [line.partition(": ") for line in head.splitlines()]
        through = self._proxy
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            try:
                socket = await session.ws_connect(
                    f"{self.server}{quote(path)}?{urlencode(params)}",
                    protocols=tuple(protocols),
                    headers={name: value for name, _, value in lines if name != "accept"},
                    ssl=self._tls if self._tls is not None else True,
                    server_hostname=self._server_name or None,
                    proxy=f"http://{through.host}:{through.port}" if through is not None else None,
                    proxy_headers={"Proxy-Authorization": f"Basic {through.word}"}
                    if through and through.word
                    else None,
                    max_msg_size=_MESSAGE_MOST_BYTES,
                )
            except aiohttp.WSServerHandshakeError as error:
                if error.status >= 500:
                    raise ApiUnknown(f"the API server answered {error.status} to {path}") from error
                raise ApiRefusal(error.status, "", f"the API server answered {error.status} to {path}") from error
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise ApiUnknown(f"GET {self.server}{path}: {str(error) or type(error).__name__}") from error
            try:
                yield socket
            finally:
                await socket.close()

    # --- internal -------------------------------------------------------------------------------------------------

    def _unknown(self, method: str, path: str, error: OSError) -> ApiUnknown:
        return ApiUnknown(f"{method} {self.server}{path}: {str(error) or type(error).__name__}")


def _impersonating(acting: Sequence[str]) -> str:
    """Return the header lines that impersonate a user and groups. Raises PhalanxError for names that are not valid in a
    header: a name with a line break could add a header, and a name with a comma could add a group."""
    if not acting:
        return ""
    user, *groups = acting
    if (
        not user
        or any(not name.isprintable() or not name.isascii() for name in acting)
        or any("," in g for g in groups)
    ):
        raise PhalanxError(f"nothing was sent: {user!r}, or one of the groups, is not valid in a request header")
    return f"impersonate-user: {user}\r\n" + "".join(f"impersonate-group: {group}\r\n" for group in groups)


def _is_json(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").startswith(JSON)


def _encoded(body: object) -> bytes:
    """Return the body of a request as JSON. Raises ApiRefusal 400 if the body contains a text that is not Unicode, for
    example from a command-line argument that is not valid UTF-8."""
    try:
        return b"" if body is None else msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        text = error.object.encode(errors="surrogateescape")[:60]
        raise ApiRefusal(400, "BadRequest", f"the text {text!r} is not UTF-8") from None


def _target(path: str, params: Mapping[str, str] | None) -> str:
    """Return the path and query of a request. Characters that are not allowed in a path or a query are percent-encoded.
    The path may contain a name that a user typed on the command line; bytes of this name that are not valid UTF-8 are
    percent-encoded, too."""
    query = f"?{urlencode(params, errors='surrogateescape')}" if params else ""
    return quote(path, safe="/:@!$&'()*+,;=~", errors="surrogateescape") + query


def _decode(code: int, content_type: str, content: bytes) -> object:
    if code >= 500:
        raise ApiUnknown(f"the API server answered {code}: {_words(content)}")
    try:
        is_json = content_type.startswith(JSON) and content
        value: Any = msgspec.json.decode(content) if is_json else content.decode(errors="replace")
    except msgspec.DecodeError as error:
        raise ApiUnknown(f"the API server answered {code} with invalid JSON: {error}") from error
    if code >= 300:
        status = value if isinstance(value, dict) else {}
        message = status.get("message") or f"the API server answered {code}"
        raise ApiRefusal(code, status.get("reason", ""), message, status.get("details"))
    return value


def _words(content: bytes) -> str:
    """Return the message of a Status, or the beginning of any other body (for example a proxy's page)."""
    try:
        said = msgspec.json.decode(content, type=dict[str, Any]).get("message")
    except msgspec.MsgspecError:
        said = None
    return str(said) if said else content[:500].decode(errors="replace")


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a stream of chunks. A line may be of any length and may span chunks."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
    if rest:
        yield rest
