"""Get the API server's address and the caller's credentials, from a kubeconfig or from the service account of the pod.

The first part of the module runs the credential plug-in of a kubeconfig. A plug-in is a program that prints an
ExecCredential, which is used until it expires. The program is started without a shell. The program may ask the user for
input only if the plug-in's setting `interactiveMode` allows this and if there is a terminal. A scheduler in a cluster
has no terminal, so it refuses a plug-in that needs input.

The second part of the module reads the kubeconfig or the service account, and renews credentials. The token of a
service account is replaced in its file about once an hour, the credentials of a plug-in expire, and files with
certificates are overwritten with renewed ones. So before each call, the connection checks whether the `Identity` is
still `fresh`, and renews it if not. The check only compares two times. After a 401 the identity is renewed once, and
the call is repeated, because the server did not execute it. All network connections of one `Identity` share one TLS
context: a new connection uses the certificate that was last loaded into this context.

Source of the plug-in protocol: client.authentication.k8s.io/v1 and v1beta1 (KEP-541).
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from phalanx.client.access.kubeconfig import (
    KubeconfigCluster,
    KubeconfigError,
    KubeconfigUser,
    Pem,
    Plugin,
    read_kubeconfig,
)
from phalanx.client.moment import MomentError, read_moment
from phalanx.errors import PhalanxError

_PATIENCE_S = 60.0  # the time limit of a plug-in that runs without a terminal
LEEWAY_S = 30.0  # a credential is renewed this long before it expires


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A token, a certificate with its key (PEM), or both. `until_s`: the expiry in seconds since the epoch."""

    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    until_s: float = float("inf")

    def fresh(self, now_s: float) -> bool:
        return now_s < self.until_s - LEEWAY_S


async def ask(plugin: Plugin, cluster: KubeconfigCluster) -> Credential:
    """Run the plug-in once, and return the credential that it prints. Raises KubeconfigError if the plug-in prints no
    credential."""
    interactive = plugin.mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if plugin.mode == "Always" and not interactive:
        raise KubeconfigError(f"the plug-in {plugin.command} needs input from the user, and there is no terminal")
    output = await _run(plugin, _info(plugin, cluster, interactive), interactive)
    try:
        answer = msgspec.json.decode(output, type=dict[str, Any])
        return _credential(plugin, answer)
    except (msgspec.MsgspecError, MomentError, ValueError, AttributeError, TypeError) as error:
        raise KubeconfigError(f"the plug-in {plugin.command} printed no ExecCredential: {error}") from error


def _info(plugin: Plugin, cluster: KubeconfigCluster, interactive: bool) -> str:
    """Return the value of the environment variable KUBERNETES_EXEC_INFO for the plug-in."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.wants_cluster:
        about = {"server": cluster.server, "tls-server-name": cluster.server_name, "proxy-url": cluster.proxy}
        spec["cluster"] = {name: text for name, text in about.items() if text}
        if not cluster.verified:
            spec["cluster"]["insecure-skip-tls-verify"] = True
        if cluster.authority:
            spec["cluster"]["certificate-authority-data"] = base64.b64encode(cluster.authority.read()).decode()
        if cluster.plugin_words is not None:
            spec["cluster"]["config"] = cluster.plugin_words
    return msgspec.json.encode({"apiVersion": plugin.version, "kind": "ExecCredential", "spec": spec}).decode()


async def _run(plugin: Plugin, info: str, interactive: bool) -> bytes:
    environment = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": info}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if interactive else asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f"\n{plugin.hint}" if plugin.hint else ""
        raise KubeconfigError(f"the plug-in {plugin.command} cannot be started: {error.strerror}{hint}") from error
    try:
        async with asyncio.timeout(None if interactive else _PATIENCE_S):
            output, complaint = await process.communicate()
    except TimeoutError:
        raise KubeconfigError(f"the plug-in {plugin.command} gave no answer in {_PATIENCE_S:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        words = (complaint or b"").decode(errors="replace").strip()[-500:]
        raise KubeconfigError(f"the plug-in {plugin.command} failed with status {process.returncode}: {words}")
    return output


def _credential(plugin: Plugin, answer: dict[str, Any]) -> Credential:
    if answer.get("kind") != "ExecCredential" or answer.get("apiVersion") != plugin.version:
        raise ValueError(f"its apiVersion is {answer.get('apiVersion')!r}; the kubeconfig requires {plugin.version!r}")
    status = answer.get("status") or {}
    certificate, key = (status.get(f"client{part}Data") or "" for part in ("Certificate", "Key"))
    if bool(certificate) != bool(key):
        raise ValueError("clientCertificateData and clientKeyData belong together")
    if not certificate and not status.get("token"):
        raise ValueError("it has neither a token nor a certificate")
    until = status.get("expirationTimestamp")
    return Credential(
        token=status.get("token") or "",
        certificate=certificate.encode(),
        key=key.encode(),
        until_s=read_moment(until) if until else float("inf"),
    )


# --- kubeconfig and service account -----------------------------------------------------------------------------------

log = logging.getLogger(__name__)

_DEFAULT = "~/.kube/config"
_CURE = "Name a kubeconfig with --kubeconfig FILE or KUBECONFIG; `phalanx up` prints its path."
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_REREAD_S = 30.0  # credentials in files are read again after this time


def read_credentials(kubeconfig: str | Path | None, context: str | None) -> tuple[KubeconfigCluster, KubeconfigUser]:
    """Return the server and the credentials. As for kubectl, KUBECONFIG may list several files; the existing files are
    merged. `kubeconfig`: a file that replaces KUBECONFIG. `context`: None for the current context. Raises PhalanxError
    if there are no credentials, or if they cannot be used."""
    said = str(kubeconfig or os.environ.get("KUBECONFIG") or "")
    existing = _existing(said or _DEFAULT)
    if said and not existing:
        raise PhalanxError(f"cannot tell which cluster to talk to: there is no file {said}. {_CURE}")
    try:
        return read_kubeconfig(existing, context) if existing else _in_cluster(SERVICE_ACCOUNT)
    except (KubeconfigError, OSError) as error:
        raise PhalanxError(f"cannot tell which cluster to talk to: {error}. {_CURE}") from error


def _in_cluster(account: Path) -> tuple[KubeconfigCluster, KubeconfigUser]:
    """Return the server and credentials of a pod's service account, as k8s.io/client-go/rest.InClusterConfig does.
    Raises KubeconfigError."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    if not host or not port or not (account / "token").exists():
        raise KubeconfigError(f"there is no {_DEFAULT}, and this process does not run in a pod with a service account")
    host = f"[{host}]" if ":" in host else host
    authority = Pem(path=account / "ca.crt") if (account / "ca.crt").exists() else Pem()
    return KubeconfigCluster(server=f"https://{host}:{port}", authority=authority), KubeconfigUser(
        token_file=account / "token"
    )


class Identity:
    """The caller's credentials, kept up to date. `lines`: the header lines that contain the credentials. `tls`: the TLS
    context; None for plain HTTP."""

    def __init__(
        self, cluster: KubeconfigCluster, user: KubeconfigUser, clock: Callable[[], float] = time.time
    ) -> None:
        self._cluster, self._user, self._clock = cluster, user, clock
        self._given: Credential | None = None  # the last credential of the plug-in
        self._turn = asyncio.Lock()
        self._until_s = 0.0  # when `lines` and the client certificate must be renewed, in seconds since the epoch
        self._loaded: tuple[bytes, bytes] = (b"", b"")
        self.lines = ""
        self.tls = _tls_context(cluster)

    def another(self) -> Identity:
        """Return an identity of the same user. The new identity renews its credentials independently of this one."""
        return Identity(self._cluster, self._user, self._clock)

    def with_token(self, token: str) -> Identity:
        """Return an identity for the same server with this token as its only credential."""
        return Identity(self._cluster, KubeconfigUser(token=token), self._clock)

    @property
    def fresh(self) -> bool:
        return self._clock() < self._until_s

    @property
    def renewable(self) -> bool:
        """Return whether the credentials can be renewed after the server refused them."""
        files = (self._user.token_file, self._user.certificate.path, self._user.key.path)
        return self._user.plugin is not None or any(files)

    async def renew(self, refused: str | None = None) -> bool:
        """Renew the credentials; if several callers request this at the same time, only the first one renews them.
        `refused`: the header lines that the server refused; None: no refusal. Return True if the certificate has
        changed. Raises PhalanxError if no valid credentials can be obtained."""
        async with self._turn:
            if self.fresh if refused is None else refused != self.lines:
                return False
            await self._ask_plugin(must=refused is not None)
            return self._reread()

    async def _ask_plugin(self, *, must: bool) -> None:
        plugin, given, now_s = self._user.plugin, self._given, self._clock()
        if plugin is None or (given is not None and given.fresh(now_s) and not must):
            return
        try:
            self._given = await ask(plugin, self._cluster)
        except KubeconfigError as error:
            if given is None or must or now_s >= given.until_s:
                raise
            log.warning("the previous credentials are used until they expire: %s", error)

    def _reread(self) -> bool:
        changed = False
        try:
            self.lines = self._head()
            changed = self._load_certificate()
        except OSError as error:
            if not self._until_s:
                raise KubeconfigError(f"the credentials for {self._cluster.server} cannot be read: {error}") from error
            log.warning("the credentials cannot be read again, so the previous ones stay in use: %s", error)
        now_s = self._clock()
        self._until_s = now_s + _REREAD_S
        if self._given is not None and not self._given.fresh(self._until_s):
            self._until_s = self._given.until_s - LEEWAY_S  # later calls then run the plug-in again
        return changed

    def _head(self) -> str:
        user = self._user
        token = (self._given.token if self._given is not None else "") or user.token
        if user.token_file is not None:
            token = user.token_file.read_text().strip()
        found = list(user.acts_as)
        if token:
            found.append(("Authorization", f"Bearer {token}"))
        elif user.name:
            both = base64.b64encode(f"{user.name}:{user.password}".encode()).decode()
            found.append(("Authorization", f"Basic {both}"))
        for name, value in found:
            if not (name + value).isprintable() or not (name + value).isascii():
                raise KubeconfigError(f"the kubeconfig has a value for {name} that is not valid in a request header")
        return "".join(f"{name}: {value}\r\n" for name, value in found)

    def _load_certificate(self) -> bool:
        """Load the client certificate into the TLS context if it has changed. Return True if it replaced an earlier
        certificate."""
        pair = (self._given.certificate, self._given.key) if self._given is not None else (b"", b"")
        if not pair[0] and self._user.certificate:
            pair = (self._user.certificate.read(), self._user.key.read())
        if self.tls is None or not pair[0] or pair == self._loaded:
            return False
        with TemporaryDirectory() as folder:  # the ssl module reads files only; other users cannot read this folder
            path = Path(folder, "pair")
            path.touch(0o600)
            path.write_bytes(b"\n".join(pair))
            try:
                self.tls.load_cert_chain(path)
            except (ssl.SSLError, ValueError) as error:
                raise _unusable(self._cluster.server, error) from error
        changed, self._loaded = bool(self._loaded[0]), pair
        return changed


def _tls_context(cluster: KubeconfigCluster) -> ssl.SSLContext | None:
    """Return the TLS context for a cluster; None for plain HTTP. Raises PhalanxError if the certificates of the
    certificate authority cannot be used."""
    if not cluster.server.startswith("https:"):
        return None
    try:
        authority = cluster.authority.read().decode("ascii") if cluster.authority else None
        context = ssl.create_default_context(cadata=authority)
    except (OSError, ValueError) as error:
        raise _unusable(cluster.server, error) from error
    if not cluster.verified:
        log.warning("the certificate of %s is not verified, as the kubeconfig says", cluster.server)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _unusable(server: str, error: Exception) -> PhalanxError:
    words = " ".join(str(error).split())[:200] or type(error).__name__
    return PhalanxError(
        f"the certificates of the kubeconfig for {server} cannot be used: {words}. Nothing was done. "
        "Fetch the kubeconfig again, or name another with --kubeconfig."
    )


def _existing(files: str) -> list[Path]:
    paths = (Path(part).expanduser() for part in files.split(os.pathsep) if part)
    return [path for path in paths if path.exists()]
