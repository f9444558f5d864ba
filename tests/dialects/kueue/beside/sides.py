"""The two control planes: Kueue's own program with Phalanx's API server and controllers, and `phalanx up`.

The caller passes Kueue's program, and the folder `config/components` of its source. The definitions and the webhooks
in this folder are used. The webhooks are served on a port of this machine, with a certificate made for the run. The
program needs a certificate for its metrics in one fixed place, and exits without it: `tls.crt` and `tls.key` in
`/etc/kueue/metrics/certs`. Any certificate will do, because no metrics are served.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from phalanx.client.connection import ApiError, ApiRefusal, Connection
from phalanx.client.kind import CONFIG_MAPS, CRDS, NAMESPACES, Kind
from tests.dialects.kueue.beside.player import KINDS

_WEBHOOKS = {
    name: Kind(group="admissionregistration.k8s.io", plural=f"{name.lower()}s", name=name, namespaced=False)
    for name in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
_TRIES = 3_000  # tries, 0.2 s apart: a busy machine takes minutes to start a control plane
_FRAMEWORKS = ["batch/job"]
STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")  # Kueue refuses fairSharing without a strategy
_GATES = {"ElasticJobsViaWorkloadSlices": True, "PartialAdmission": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kueue:
    """The paths of Kueue's program and of `config/components` of the same source."""

    program: Path
    components: Path
    port: int


def configuration(strategies: Sequence[str]) -> dict[str, Any]:
    """Return the Configuration for both sides. `strategies`: the preemption strategies of fair sharing; empty: no fair
    sharing."""
    found = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "integrations": {"frameworks": _FRAMEWORKS},
        "featureGates": _GATES,
    }
    return {**found, "fairSharing": {"preemptionStrategies": list(strategies)}} if strategies else found


@asynccontextmanager
async def phalanx(place: Path, strategies: Sequence[str]) -> AsyncIterator[Connection]:
    """Run `phalanx up` without a node."""
    async with AsyncExitStack() as stack:
        words = [sys.executable, "-m", "phalanx.cli.app", "up", "--data", str(place), "--no-local-node", "--port", "0"]
        process = await _run(stack, place, "up", words)
        connection = await _reach(stack, place / "kubeconfig", process, place / "up.log")
        await _serves(connection, KINDS.values())
        await _create(connection, NAMESPACES, {"metadata": {"name": "kueue-system"}})
        text = yaml.safe_dump(configuration(strategies))
        data = {"controller_manager_config.yaml": text}
        await _create(
            connection, CONFIG_MAPS, {"metadata": {"name": "kueue-manager-config"}, "data": data}, "kueue-system"
        )
        yield connection


@asynccontextmanager
async def kueue(place: Path, given: Kueue, strategies: Sequence[str]) -> AsyncIterator[Connection]:
    """Run Kueue's program with Phalanx's API server and its controllers for Jobs and owners. No scheduler binds
    pods."""
    async with AsyncExitStack() as stack:
        words = [sys.executable, "-m", "phalanx.embedded.apiserver", "--data", str(place)]
        server = await _run(stack, place, "apiserver", words)
        kubeconfig = place / "kubeconfig"
        connection = await _reach(stack, kubeconfig, server, place / "apiserver.log")
        await _run(
            stack,
            place,
            "controllers",
            [sys.executable, "-m", "phalanx.embedded.controllers", "--kubeconfig", str(kubeconfig)],
        )
        await _create(connection, NAMESPACES, {"metadata": {"name": "kueue-system"}})
        authority = _certificate(place)
        for path in sorted((given.components / "crd" / "bases").glob("*.yaml")):
            definition = yaml.safe_load(path.read_text())
            definition["spec"]["versions"] = [one for one in definition["spec"]["versions"] if one["storage"]]
            await _create(connection, CRDS, definition)
        await _serves(connection, KINDS.values())
        said = configuration(strategies) | {
            "webhook": {"port": given.port, "certDir": str(place)},
            "internalCertManagement": {"enable": False},
            "health": {"healthProbeBindAddress": "127.0.0.1:0"},
            "metrics": {"bindAddress": "0"},
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"qps": 300, "burst": 500},
            "featureGates": {**_GATES, "VisibilityOnDemand": False},  # this server needs certificates in a fixed place
        }
        (place / "kueue.yaml").write_text(yaml.safe_dump(said))
        words = [str(given.program), "--config", str(place / "kueue.yaml"), "--kubeconfig", str(kubeconfig)]
        process = await _run(stack, place, "kueue", [*words, "--zap-log-level", "info"], POD_NAMESPACE="kueue-system")
        await _listens(given.port, process, place / "kueue.log")
        for hook in yaml.safe_load_all((given.components / "webhook" / "manifests.yaml").read_text()):
            await _hook(connection, hook, given.port, authority)
        _check_runs(process, place / "kueue.log")
        yield connection


async def _hook(connection: Connection, hook: dict[str, Any], port: int, authority: str) -> None:
    """Register the webhooks of a configuration for kinds that the API server serves."""
    served = ("kueue.x-k8s.io", "batch")
    hook["webhooks"] = [one for one in hook["webhooks"] if set(one["rules"][0]["apiGroups"]) <= set(served)]
    for one in hook["webhooks"]:
        path = one["clientConfig"].pop("service")["path"]
        one["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
    body = {"metadata": hook["metadata"], "webhooks": hook["webhooks"]}
    await _create(connection, _WEBHOOKS[hook["kind"]], body)


async def _run(stack: AsyncExitStack, place: Path, name: str, words: list[str], **around: str) -> Process:
    log = stack.enter_context((place / f"{name}.log").open("wb"))
    process = await asyncio.create_subprocess_exec(*words, stdout=log, stderr=log, env={**os.environ, **around})
    stack.push_async_callback(_end, process)
    return process


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 30)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _reach(stack: AsyncExitStack, kubeconfig: Path, process: Process, log: Path) -> Connection:
    """Return a connection as soon as the server answers and has its default namespace."""
    for _ in range(_TRIES):
        _check_runs(process, log)
        if await asyncio.to_thread(kubeconfig.exists):
            connection = await Connection.open(kubeconfig)
            try:
                await connection.request("GET", NAMESPACES.path("", "default"))
            except ApiError:
                await connection.close()
            else:
                return await stack.enter_async_context(connection)
        await asyncio.sleep(0.2)
    raise TimeoutError(f"no server behind {kubeconfig}")


async def _serves(connection: Connection, kinds: Iterable[Kind]) -> None:
    """Wait until objects of these kinds can be listed: definitions are served a moment after they are created."""
    for kind in kinds:
        for _ in range(_TRIES):
            try:
                await connection.request("GET", kind.path())
            except ApiRefusal:
                await asyncio.sleep(0.2)
            else:
                break
        else:
            raise TimeoutError(f"{kind.plural} are not served")


async def _listens(port: int, process: Process, log: Path) -> None:
    for _ in range(_TRIES):
        _check_runs(process, log)
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.2)
        else:
            writer.close()
            return
    raise TimeoutError(f"Kueue does not listen on port {port}")


def _check_runs(process: Process, log: Path) -> None:
    if process.returncode is not None:
        raise ChildProcessError(f"a program ended: {log.read_text()[-2000:]}")


async def _create(connection: Connection, kind: Kind, body: dict[str, Any], namespace: str = "") -> None:
    body = {"apiVersion": kind.api_version, "kind": kind.name, **body}
    try:
        await connection.request("POST", kind.path(namespace), body=body)
    except ApiRefusal as error:
        if error.code != 409:
            raise


def _certificate(place: Path) -> str:
    """Make a certificate of 127.0.0.1 that signs itself; return it in base64, for a webhook's caBundle."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise FileNotFoundError("openssl")
    words = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=kueue", "-addext", "subjectAltName=IP:127.0.0.1"]
    words += ["-keyout", str(place / "tls.key"), "-out", str(place / "tls.crt")]
    subprocess.run(words, check=True, capture_output=True)
    return base64.b64encode((place / "tls.crt").read_bytes()).decode()
