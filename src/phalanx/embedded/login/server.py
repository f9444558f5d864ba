"""Serve the socket at which users of this machine log in. The kernel reports the user of each connection (SO_PEERCRED,
unix(7)).

The server sends one JSON object and closes the connection: `kubeconfig` and `namespace`, or `error`. The server reads
no data from the user, so there is no input to check. A user can have one login at a time, and the number of
simultaneous logins is limited.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import Kind
from phalanx.embedded.login.admission import LoginAccount, account_of, token_for
from phalanx.embedded.login.grants import MAX_PRIORITY, give_namespace, install_grants
from phalanx.embedded.login.quota import DEFAULT, require_quota
from phalanx.errors import PhalanxError

log = logging.getLogger(__name__)

_AT_ONCE, _PATIENCE_S, _LOOK_S = 64, 15.0, 0.1
_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """Settings of the login. `tokens`: the API server's token file. `authority`: the file with the certificate of the
    authority that signs the API server's certificate. `quota`, `max_priority`: the limits of a new namespace. Admins
    may change the limits of a namespace later. `policies`: admission policies for users, and their bindings."""

    socket: Path
    tokens: Path
    authority: Path
    quota: Mapping[str, str] = field(default_factory=lambda: DEFAULT)
    max_priority: int = MAX_PRIORITY
    policies: tuple[tuple[Kind, Object], ...] = ()


async def run_login(connection: Connection, settings: LoginSettings) -> None:
    """Let users log in, until cancelled. Raises PhalanxError for an invalid socket or quota, and ApiError."""
    await require_quota(connection, settings.quota)
    await install_grants(connection, settings.policies)
    async with _serving(settings.socket, _Logins(connection, settings).take):
        log.info("users log in at %s", settings.socket)
        await asyncio.Event().wait()


@asynccontextmanager
async def _serving(
    path: Path, take: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]
) -> AsyncIterator[None]:
    with _listening(path) as listener:
        async with await asyncio.start_unix_server(take, sock=listener):
            yield


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """Listen at the socket, to which every user may connect. Replace the socket of a killed process. Raises
    PhalanxError."""
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if path.is_socket():
            _require_nobody(path)
            path.unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        path.chmod(0o666)
    except OSError as error:
        raise PhalanxError(
            f"users cannot log in: {path} cannot be created: {error.strerror or error}. Name another file with "
            "--login-socket FILE."
        ) from error
    try:
        yield listener
    finally:
        path.unlink(missing_ok=True)
        listener.close()


def _require_nobody(path: Path) -> None:
    """Raise PhalanxError if a process listens at the path."""
    # The kernel refuses a connection of another socket type, and the error shows whether a process listens.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        try:
            other.connect(str(path))
        except ConnectionRefusedError:
            return
        except OSError as error:
            if error.errno != errno.EPROTOTYPE:
                raise
    raise PhalanxError(
        f"users log in at {path} to another `phalanx up --shared`, which keeps running. Name another file for this "
        "one with --login-socket FILE; its users then name that file to `phalanx login`."
    )


class _Logins:
    """The present logins. A user has one login at a time."""

    def __init__(self, connection: Connection, settings: LoginSettings) -> None:
        self._api, self._settings = connection, settings
        self._busy: set[int] = set()
        self._writing = asyncio.Lock()  # locked while the token file is written

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, uid, gid = _peer(writer.get_extra_info("socket"))
        answer: dict[str, str]
        if uid in self._busy or len(self._busy) >= _AT_ONCE:
            answer = {"error": "another login is in progress; try again in a moment"}
        else:
            self._busy.add(uid)
            try:
                answer = await self._answer(uid, gid)
            finally:
                self._busy.discard(uid)
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                writer.write(msgspec.json.encode(answer))
                await writer.drain()
                writer.close()
                await writer.wait_closed()

    async def _answer(self, uid: int, gid: int) -> dict[str, str]:
        account = await asyncio.to_thread(account_of, uid, gid)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                async with self._writing:
                    token = await asyncio.to_thread(token_for, self._settings.tokens, account)
                namespace = await give_namespace(self._api, account, self._settings.quota, self._settings.max_priority)
                await self._known(token)
        except (ApiError, OSError, TimeoutError) as error:
            log.warning("login of %s (%d): %s", account.name, uid, error)
            return {"error": f"the cluster could not log {account.name} in: {error or 'the login took too long'}"}
        log.info("%s (%d) logged in, namespace %s", account.name, uid, namespace)
        return {"kubeconfig": self._kubeconfig(account, token, namespace), "namespace": namespace}

    async def _known(self, token: str) -> None:
        """Wait until the API server accepts the token. The server reads its token file once a second."""
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        tls = ssl.create_default_context(cafile=self._settings.authority)
        async with Connection(self._api.server, headers={"authorization": f"Bearer {token}"}, tls=tls) as his:
            while True:
                try:
                    await his.request("POST", path, body=_REVIEW)
                    return
                except ApiRefusal as error:
                    if error.code != 401:
                        raise
                    await asyncio.sleep(_LOOK_S)

    def _kubeconfig(self, account: LoginAccount, token: str, namespace: str) -> str:
        authority = base64.b64encode(self._settings.authority.read_bytes()).decode()
        cluster = {"server": self._api.server, "certificate-authority-data": authority}
        context = {"cluster": "phalanx", "user": account.name, "namespace": namespace}
        said = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "phalanx", "cluster": cluster}],
            "users": [{"name": account.name, "user": {"token": token}}],
            "contexts": [{"name": "phalanx", "context": context}],
            "current-context": "phalanx",
        }
        return msgspec.json.format(msgspec.json.encode(said), indent=2).decode()


def _peer(connection: socket.socket) -> tuple[int, int, int]:
    """Return the pid, uid and gid of the process that connected, as they were at that time."""
    size = struct.calcsize("3i")
    pid, uid, gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid, gid
