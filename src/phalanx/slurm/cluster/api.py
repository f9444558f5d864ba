"""A client of the API server for commands with a short run time: one blocking connection, and few imports.

`phalanx.client`, the client of the long-running programs, is asynchronous and supports proxies, plug-ins and watches.
The import of `phalanx.client` takes as long as a whole command may take. This client only reads a kubeconfig, opens one
connection, and sends and parses JSON. It refuses a kubeconfig with a credential plug-in or a proxy.

`HttpConnection` supports the part of HTTP/1.1 that a command needs. It uses the parser httptools, as `phalanx.client`
does. The HTTP client of the standard library imports the mail parser of the standard library; this import takes a fifth
of the time of a short command. Every failure of a connection is an `OSError`. After a failure, the request may or may
not have had its effect, and the connection must not be used again.

`for_each` makes many calls over several connections.

`listed` returns the jobs or pods of all users, as far as the API server shows them:

1. `phalanx up` serves the fields that Slurm shows to every user (`/slurm/v1/…`). This list leaves out the scripts and
   directories of other users' jobs.
2. On other clusters, operators and admins list all namespaces.
3. Other users list the namespace of the kubeconfig. They see only the jobs in it, as with Slurm's PrivateData=jobs.

The command uses the first of these lists that the server allows it to read."""

from __future__ import annotations

import io
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit

import httptools
import msgspec

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigError, KubeconfigUser, Pem, current_context
from phalanx.errors import PhalanxError

if TYPE_CHECKING:
    import ssl


_AT_A_TIME = 1 << 14  # bytes to read in one call; a TLS record is not larger


class HttpConnection:
    """An HTTP connection. `usable`: True if a response has arrived, and if the server announced in it that the
    connection stays open. The server may close the connection later."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        """Connect to the server. `tls`: None for a connection without TLS. Raises OSError."""
        plain = socket.create_connection((host, port), timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        self._host = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._parser = httptools.HttpResponseParser(self)
        self._content = io.BytesIO()
        self._whole = False
        self.usable = False

    def call(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> tuple[int, bytes]:
        """Send a request, and return the HTTP status and the content of the response. Raises OSError."""
        length = {} if body is None else {"Content-Length": str(len(body))}
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in {**headers, **length}.items()]
        if any("\n" in line or "\r" in line for line in lines):
            raise ConnectionError("a header of the request has a line break; it may come from the kubeconfig")
        self._content, self._whole, self.usable = io.BytesIO(), False, False
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        while not self._whole:
            if not (part := self._socket.recv(_AT_A_TIME)):
                raise ConnectionError("the server closed the connection")
            try:
                self._parser.feed_data(part)
            except httptools.HttpParserError as error:
                raise ConnectionError(f"the response is not HTTP ({error})") from error
        return self._parser.get_status_code(), self._content.getvalue()

    def close(self) -> None:
        self._socket.close()

    # --- called by the parser -------------------------------------------------------------------------------------

    def on_body(self, body: bytes) -> None:
        self._content.write(body)

    def on_message_complete(self) -> None:
        self._whole, self.usable = True, self._parser.should_keep_alive()


Object = dict[str, Any]
_HERE = "{namespace}"  # the placeholder in paths for the namespace of the `ApiClient`
JOBS = f"/apis/batch/v1/namespaces/{_HERE}/jobs"
SECRETS = f"/api/v1/namespaces/{_HERE}/secrets"
PODS = f"/api/v1/namespaces/{_HERE}/pods"
QUEUES = "/apis/phalanx.dev/v1/queues"
MERGE_PATCH = "application/merge-patch+json"
# With this media type, Phalanx's API server sends only some fields of each object. Other servers send whole objects
# (decision 38).
PARTIAL = "application/json;as=PartialObject;v=v1;g=phalanx.dev,application/json"
_TIMEOUT_S = 30.0
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # the folder with the API token of a pod


class RequestRefused(PhalanxError):
    """The error if the server refused the request (status 4xx). Nothing was changed."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Unreachable(PhalanxError):
    """The error if the server did not respond, or responded with a status 5xx."""


class ApiClient:
    """A client of an API server. `namespace`: the namespace in which jobs are created and read. `of_job`: True if the
    token is the token of a job, which may read this job but no lists. `sight`: the index of the first list in `listed`
    that the server allows this client to read."""

    sight = 0

    def __init__(
        self, cluster: KubeconfigCluster, user: KubeconfigUser, namespace: str = "default", *, of_job: bool = False
    ) -> None:
        self._cluster, self._user, self.namespace, self.of_job = cluster, user, namespace, of_job
        self.headers = {"User-Agent": "phalanx-slurm", **dict(user.acts_as)}
        token = user.token or (user.token_file.read_text().strip() if user.token_file is not None else "")
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self._connection: HttpConnection | None = None
        self._elsewhere: dict[str, ApiClient] = {}

    @classmethod
    def open(cls) -> ApiClient:
        """Return a client for the cluster of $KUBECONFIG, or else of the kubeconfig that `phalanx up` writes, or else
        of ~/.kube/config. If none of these files exists, use the service account of the pod in which this process runs.
        Raises Unreachable."""
        files = _files(os.environ)
        if not any(file.exists() for file in files) and (own := _of_this_pod(os.environ)) is not None:
            return own
        try:
            cluster, user, namespace = current_context(files)
        except (KubeconfigError, OSError) as error:
            raise Unreachable(f"no cluster was found: {error}") from None
        if user.plugin is not None or cluster.proxy:
            raise Unreachable("Slurm's commands do not support the credential plug-in or the proxy of this kubeconfig")
        return cls(cluster, user, namespace)

    def another(self) -> ApiClient:
        """Return an `ApiClient` for the same server and user with a connection of its own. Each thread needs its own
        connection."""
        return ApiClient(self._cluster, self._user, self.namespace, of_job=self.of_job)

    def within(self, namespace: str) -> ApiClient:
        """Return an `ApiClient` for the same server and user, and for the objects of `namespace`. If `namespace` is "",
        return this `ApiClient`."""
        if not namespace or namespace == self.namespace:
            return self
        if namespace not in self._elsewhere:
            self._elsewhere[namespace] = self._in(namespace)
        return self._elsewhere[namespace]

    def _in(self, namespace: str) -> ApiClient:
        return ApiClient(self._cluster, self._user, namespace, of_job=self.of_job)

    def endpoint(self) -> tuple[str, int, ssl.SSLContext | None]:
        """Return the host of the server, its port, and the TLS context of connections; None for connections without
        TLS."""
        where = urlsplit(self._cluster.server)
        secure = where.scheme == "https"
        return where.hostname or "", where.port or (443 if secure else 80), self._tls() if secure else None

    def path(self, path: str) -> str:
        """Return the path with `{namespace}` replaced by the namespace of this `ApiClient`."""
        return path.replace(_HERE, self.namespace)

    def list(self, path: str, **query: str) -> bytes:
        """Return the response with a list of objects. If the server supports it, the objects have no managed fields and
        no pod templates. `query`: the parameters of the URL."""
        return self.call("GET", path, accept=PARTIAL, **query)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        kind: str = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> bytes:
        """Send a request, and return the content of the response. `body`: the object to send as JSON. `kind`, `accept`:
        the media types of the request and of the response. `query`: the parameters of the URL. Raises RequestRefused,
        Unreachable."""
        target = f"{self.path(path)}?{urlencode(query)}" if query else self.path(path)
        data = None if body is None else msgspec.json.encode(body)
        headers = {**self.headers, "Accept": accept, **({} if data is None else {"Content-Type": kind})}
        try:
            status, content = self._carried_out(method, target, headers, data)
        except OSError as error:
            raise Unreachable(f"the API server {self._cluster.server} does not answer: {error}") from error
        if status >= 300:
            message = _message(content) or f"the API server answered {status}"
            raise RequestRefused(status, message) if status < 500 else Unreachable(message)
        return content

    def get(self, path: str, **query: str) -> Object:
        return _decoded(self.call("GET", path, **query))

    def find(self, path: str) -> Object | None:
        """Return the object at this path; None if it does not exist."""
        try:
            return self.get(path)
        except RequestRefused as error:
            if error.code != 404:
                raise
            return None

    def create(self, path: str, body: object) -> Object:
        return _decoded(self.call("POST", path, body))

    def replace(self, path: str, body: object) -> Object:
        return _decoded(self.call("PUT", path, body))

    def patch(self, path: str, body: Any) -> Object:
        return _decoded(self.call("PATCH", path, body, MERGE_PATCH))

    def delete(self, path: str, **query: str) -> None:
        self.call("DELETE", path, None, **query)

    def _carried_out(
        self, method: str, target: str, headers: Mapping[str, str], data: bytes | None
    ) -> tuple[int, bytes]:
        """Send a request over the open connection, or over a new one if there is none. If the server has closed the
        open connection, a GET request is sent again over a new connection. Other requests are not sent again, because
        the server may have carried them out. Return the status and the content of the response. Raises OSError."""
        kept, self._connection = self._connection, None
        try:
            connection = kept or self._connect()
            answer = connection.call(method, target, headers, data)
        except OSError as error:
            if kept is None or method != "GET" or isinstance(error, TimeoutError):
                raise
            connection = self._connect()
            answer = connection.call(method, target, headers, data)
        self._connection = connection if connection.usable else None
        return answer

    def _connect(self) -> HttpConnection:
        return HttpConnection(*self.endpoint(), _TIMEOUT_S)

    def _tls(self) -> ssl.SSLContext:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self._cluster.authority:
            context.load_verify_locations(cadata=self._cluster.authority.read().decode())
        elif self._cluster.verified:
            context.load_default_certs()
        if not self._cluster.verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self._user.certificate.path is not None and self._user.key.path is not None:
            context.load_cert_chain(self._user.certificate.path, self._user.key.path)
        elif self._user.certificate:
            raise Unreachable("client certificates inside a kubeconfig are not used by Slurm's commands: name files")
        return context


def _files(environment: Mapping[str, str]) -> list[Path]:
    if said := environment.get("KUBECONFIG", ""):
        # os.path.exists is also False if the caller may not read the directory of the file.
        return [Path(part) for part in said.split(":") if part and os.path.exists(part)]
    home = Path(environment.get("HOME") or "/")
    data_home = environment.get("XDG_DATA_HOME", "")
    own = (Path(data_home) / "phalanx" if data_home.startswith("/") else home / ".phalanx") / "kubeconfig"
    return [next((file for file in (own, home / ".kube" / "config") if file.exists()), own)]


def _of_this_pod(environment: Mapping[str, str]) -> ApiClient | None:
    """Return a client for the cluster in which this process runs, if it runs in a pod with an API token; None otherwise
    (Kubernetes' documentation, "Accessing the Kubernetes API from a Pod")."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (_ACCOUNT / "token").is_file():
        return None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    authority, named = _ACCOUNT / "ca.crt", _ACCOUNT / "namespace"
    cluster = KubeconfigCluster(server=server, authority=Pem(path=authority) if authority.is_file() else Pem())
    namespace = named.read_text().strip() if named.is_file() else "default"
    return ApiClient(cluster, KubeconfigUser(token_file=_ACCOUNT / "token"), namespace, of_job=True)


def _decoded(content: bytes) -> Object:
    found: Object = msgspec.json.decode(content) if content else {}
    return found


def _message(content: bytes) -> str:
    try:
        return str(msgspec.json.decode(content, type=dict[str, Any]).get("message") or "")
    except msgspec.MsgspecError:
        return content[:300].decode(errors="replace")


_CONNECTIONS, _MANY = 8, 64
T = TypeVar("T")


def for_each(api: ApiClient, things: Iterable[T], work: Callable[[ApiClient, T], None]) -> None:
    """Call `work` for each of the things. If there are 64 or more, calls run at the same time on several connections:
    the server stores the changes of concurrent requests with one write to its disk. If there are fewer, they are
    processed one after the other, in their order. After a failure, no further call is started. Raises the first
    PhalanxError."""
    left = deque(things)
    failed: list[PhalanxError] = []

    def some(connection: ApiClient) -> None:
        while left and not failed:
            try:
                thing = left.popleft()
            except IndexError:  # another thread took the last thing
                return
            try:
                work(connection, thing)
            except PhalanxError as error:
                failed.append(error)

    if len(left) < _MANY:
        some(api)
    else:
        _over_several(api, some, left.clear)
    if failed:
        raise failed[0]


def _over_several(api: ApiClient, some: Callable[[ApiClient], None], stop: Callable[[], None]) -> None:
    from threading import Thread

    others = [Thread(target=some, args=(api.another(),)) for _ in range(_CONNECTIONS - 1)]
    for other in others:
        other.start()
    try:
        some(api)
    finally:
        stop()  # after Ctrl-C, no thread starts another call
        for other in others:
            other.join()


_ALL = {JOBS: ("/slurm/v1/jobs", "/apis/batch/v1/jobs"), PODS: ("/slurm/v1/pods", "/api/v1/pods")}
_NOT_SHOWN = (401, 403, 404, 405)


def listed(api: ApiClient, path: str, **query: str) -> bytes:
    """Return the response with the jobs or pods of all users, as far as the server shows them. `path`: JOBS or PODS.
    `query`: the parameters of the URL. Raises RequestRefused, Unreachable."""
    places = (*_ALL[path], path) if not api.of_job else (path,)
    for at in range(min(api.sight, len(places) - 1), len(places)):
        try:
            content = api.list(places[at], **query)
        except RequestRefused as error:
            if error.code not in _NOT_SHOWN or at == len(places) - 1:
                raise
            continue
        api.sight = at
        return content
    raise AssertionError  # the last path returns or raises
