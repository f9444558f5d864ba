"""Run credential plug-ins of kubeconfigs: a program prints an ExecCredential, which is used until it expires.

The protocol is client.authentication.k8s.io/v1 and v1beta1 (KEP-541). The program is started without a shell. It may
ask the user only if its `interactiveMode` allows this and there is a terminal. A scheduler in a cluster has no
terminal, so a plug-in that must ask is refused.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from dataclasses import dataclass, field
from typing import Any

import msgspec

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigError, Plugin
from phalanx.client.moment import MomentError, read_moment

_PATIENCE_S = 60.0  # the time limit of a plug-in that does not ask the user
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
    """Start the plug-in once. Raises KubeconfigError if it gives no credential."""
    interactive = plugin.mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if plugin.mode == "Always" and not interactive:
        raise KubeconfigError(f"the plug-in {plugin.command} has to ask its user, and there is no terminal to ask at")
    output = await _run(plugin, _info(plugin, cluster, interactive), interactive)
    try:
        answer = msgspec.json.decode(output, type=dict[str, Any])
        return _credential(plugin, answer)
    except (msgspec.MsgspecError, MomentError, ValueError, AttributeError, TypeError) as error:
        raise KubeconfigError(f"the plug-in {plugin.command} printed no ExecCredential: {error}") from error


def _info(plugin: Plugin, cluster: KubeconfigCluster, interactive: bool) -> str:
    """Return the value of KUBERNETES_EXEC_INFO."""
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
        raise ValueError(f"it speaks {answer.get('apiVersion')!r}, and {plugin.version!r} was asked for")
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
