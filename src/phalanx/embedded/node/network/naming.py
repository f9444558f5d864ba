"""Keep two things up to date: the hosts files of this node's pods, and the pods to which services with a cluster IP
forward.

Everything is derived from the caches of pods and services (level-triggered): after any change all records are computed
again, and only differences are written. Addresses are read from the status of pods, so a name resolves as soon as the
API has the address.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from phalanx.client.informer import Change, Informer
from phalanx.embedded.node.network import names
from phalanx.embedded.node.network.fence import NetworkFence
from phalanx.embedded.node.network.forward import Forwarder, Place, Targets
from phalanx.embedded.node.network.names import TERMINAL, Networks, Object, Record, endpoints, own_lines, records

log = logging.getLogger(__name__)

# changes within this time are handled together, because the pods of a gang become ready one after the other
_GATHER_S = 0.02
_MACHINE = Path("/etc/hosts")
_HTTPS = 443


class Naming:
    """Keeps names and service targets up to date; `run` does this until cancelled. `pods_dir`: the folder with a
    directory for each pod, named by its uid."""

    def __init__(
        self,
        node: str,
        home: Networks,
        server: str,
        pods_dir: Path,
        pods: Informer,
        services: Informer,
        fence: NetworkFence | None = None,
    ) -> None:
        self._node, self._home, self._server, self._pods_dir = node, home, urlsplit(server), pods_dir
        self._services = services
        self._redirect = fence.redirect if fence is not None and not fence.refusal else None
        self._pods = pods
        self._mine: dict[str, Object] = {}  # uid -> pod
        self._given: dict[str, str] = {}  # uid -> the address of a pod whose status does not contain the address yet
        self._shown: dict[str, tuple[str, ...]] = {}  # uid -> the lines in the pod's hosts file
        self._changed = asyncio.Event()
        pods.subscribe(self._take)
        services.subscribe(lambda change: self._changed.set())

    def give(self, uid: str, address: str) -> None:
        """Store the address of a pod that the node has admitted. From now on, the names of the pod resolve."""
        self._given[uid] = address
        self._changed.set()

    def knows_peers(self, pod: Object) -> bool:
        """Return True if the names below the pod's `subdomain` are known: the service exists, and the address of each
        peer is known. Peers are the pods of the same controller that are on this node or may still be bound to it."""
        meta, domain = pod["metadata"], pod["spec"].get("subdomain")
        controller = _controller(meta)
        if not domain or not controller:
            return True
        if f"{meta['namespace']}/{domain}" not in self._services.objects:
            return False
        return all(
            one["metadata"]["uid"] in self._given
            for one in self._pods.objects.values()
            if _controller(one["metadata"]) == controller
            and one["spec"].get("nodeName") in (None, "", self._node)
            and (one.get("status") or {}).get("phase") not in TERMINAL
        )

    def hosts(self, pod: Object) -> Path:
        """Return the pod's hosts file. Create it if it does not exist. Raises OSError."""
        meta = pod["metadata"]
        path = self._path(meta["uid"])
        if not path.exists():
            machine = _MACHINE.read_bytes() if _MACHINE.exists() else b""
            names.create(path, own_lines(pod, pod["status"]["podIP"]), machine)
            names.show(path, self._lines(meta["namespace"], self._records()))
        return path

    async def run(self) -> None:
        forwarder = Forwarder(self._redirect)
        try:
            while True:
                await self._changed.wait()
                await asyncio.sleep(_GATHER_S)
                self._changed.clear()
                self._write_files()
                await forwarder.show(self._forwards())
        finally:
            forwarder.close()

    # --- internal -------------------------------------------------------------------------------------------------

    def _path(self, uid: str) -> Path:
        return self._pods_dir / uid / ".hosts"  # no folder of a container can have this name

    def _take(self, change: Change) -> None:
        pod = change.new or change.old
        if pod is None or pod["spec"].get("nodeName") != self._node:
            return
        uid = pod["metadata"]["uid"]
        if change.new is not None:
            self._mine[uid] = change.new
        else:
            self._mine.pop(uid, None)
            self._shown.pop(uid, None)
            self._given.pop(uid, None)
        self._changed.set()

    def _addressed(self) -> list[tuple[Object, str]]:
        both = (
            (pod, (pod.get("status") or {}).get("podIP") or self._given.get(uid, "")) for uid, pod in self._mine.items()
        )
        return [(pod, address) for pod, address in both if address]

    def _records(self) -> list[Record]:
        api = Record(self._home.api_address, "kubernetes", "default")
        return [api, *records(self._home, self._addressed(), list(self._services.objects.values()))]

    def _lines(self, namespace: str, known: Sequence[Record]) -> tuple[str, ...]:
        return tuple(record.line(namespace) for record in known)

    def _write_files(self) -> None:
        known, seen = self._records(), dict[str, tuple[str, ...]]()
        for uid, pod in self._mine.items():
            space, path = pod["metadata"]["namespace"], self._path(uid)
            if space not in seen:
                seen[space] = self._lines(space, known)
            if self._shown.get(uid) == seen[space] or not path.exists():
                continue
            try:
                names.show(path, seen[space])
                self._shown[uid] = seen[space]
            except (OSError, ValueError) as error:
                log.warning("names for pod %s/%s: %s", space, pod["metadata"]["name"], error)

    def _forwards(self) -> Mapping[Place, Targets]:
        api = (self._server.hostname or "", self._server.port or _HTTPS)
        found: dict[Place, Targets] = {}
        pods = self._addressed()
        for service in self._services.objects.values():
            if address := self._home.service_address(service["spec"].get("clusterIP") or ""):
                behind = list(endpoints(service, pods))
                for port in service["spec"].get("ports") or ():
                    if (port.get("protocol") or "TCP") == "TCP":
                        found[address, port["port"]] = _targets(port, behind)
        # The API server keeps this address, even if a Service has it.
        return found | {(self._home.api_address, _HTTPS): (api,)}


def _controller(meta: Mapping[str, Any]) -> str:
    owners = meta.get("ownerReferences") or ()
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")


def _targets(port: Mapping[str, Any], behind: Sequence[tuple[Object, str]]) -> Targets:
    wanted = port.get("targetPort") or port["port"]
    numbers = ((at, _number(pod, wanted)) for pod, at in behind)
    return tuple((at, number) for at, number in numbers if number)


def _number(pod: Object, wanted: int | str) -> int:
    """Return the number of a container port that is given by name or number; 0 if the pod has no port with this
    name."""
    if isinstance(wanted, int):
        return wanted
    named = (port for one in pod["spec"]["containers"] for port in one.get("ports") or ())
    return next((int(port["containerPort"]) for port in named if port.get("name") == wanted), 0)
