"""Run the probes of one running container: first the startup probe, then readiness and liveness (pkg/kubelet/prober).

Without a probe a container is ready as soon as it runs. The state of a probe changes only when the number of equal
results in a row reaches the probe's threshold.

The agent opens the connections of probes, and an agent that runs as root can reach every pod. So the probes of a
confined container (one that runs as another user than the agent) connect only to the container's own pod, and follow no
redirect. Otherwise a user could let the root process connect to the pods of other users.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from phalanx.embedded.node.container.attempt import Attempt
from phalanx.embedded.node.container.exec import execute

Object = Mapping[str, Any]


class Health:
    """Runs the probes of a container from its creation to `close`. `tell`: a function that is called at each change of
    the container's health; its argument is the reason why the container must be killed, or ""."""

    def __init__(
        self, container: Object, attempt: Attempt, address: str, started_s: float, tell: Callable[[str], None]
    ) -> None:
        self.started = "startupProbe" not in container
        self.ready = self.started and "readinessProbe" not in container
        self._container, self._attempt, self._address = container, attempt, address
        self._started_s, self._tell = started_s, tell
        probed = any(f"{name}Probe" in container for name in ("startup", "readiness", "liveness"))
        self._task = asyncio.create_task(self._run()) if probed else None

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            if probe := self._container.get("startupProbe"):
                if not await self._watch_startup(probe):
                    return
                self.started = True
                self.ready = "readinessProbe" not in self._container
                self._tell("")
            if probe := self._container.get("readinessProbe"):
                tasks.create_task(self._watch_readiness(probe))
            if probe := self._container.get("livenessProbe"):
                tasks.create_task(self._watch_liveness(probe))

    async def _watch_startup(self, probe: Object) -> bool:
        """Return True when the startup probe has succeeded. After its final failure, report that the container must be
        killed, and return False."""
        async for good, said in self._verdicts(probe):
            if not good:
                self._tell(f"Startup probe failed: {said}")
            return bool(good)
        raise AssertionError("unreachable")

    async def _watch_readiness(self, probe: Object) -> None:
        async for good, _ in self._verdicts(probe):
            if good != self.ready:
                self.ready = good
                self._tell("")

    async def _watch_liveness(self, probe: Object) -> None:
        async for good, said in self._verdicts(probe):
            if not good:
                self._tell(f"Liveness probe failed: {said}")
                return

    async def _verdicts(self, probe: Object) -> Any:
        """Yield (success, message) whenever the threshold of equal results is reached."""
        period_s = probe.get("periodSeconds") or 10
        await asyncio.sleep(max(0.0, self._started_s + (probe.get("initialDelaySeconds") or 0) - time.time()))
        good, count = None, 0
        while True:
            now, said = await check(probe, self._attempt, self._address, self._container)
            good, count = now, count + 1 if now == good else 1
            wanted = (probe.get("successThreshold") or 1) if good else (probe.get("failureThreshold") or 3)
            if count >= wanted:
                yield good, said
            await asyncio.sleep(period_s)


async def check(probe: Object, attempt: Attempt, address: str, container: Object) -> tuple[bool, str]:
    """Run the probe once, and return its success and its message."""
    timeout_s = float(probe.get("timeoutSeconds") or 1)
    match probe:
        case {"exec": {"command": command}}:
            code, output = await execute(attempt, command, timeout_s)
            return code == 0, output.strip()
        case {"httpGet": said} | {"tcpSocket": said} if (
            attempt.spec.confined and (said.get("host") or address) != address
        ):
            words = "is not the pod's own address: on a shared machine, other hosts are not probed"
            return False, f"{said['host']} {words}"
        case {"httpGet": get}:
            return await _http_get(get, address, container, timeout_s)
        case {"tcpSocket": tcp}:
            return await _connect(tcp.get("host") or address, _port(tcp["port"], container), timeout_s)
        case _:
            return False, f"unsupported probe type: {', '.join(probe)}"


async def _http_get(get: Object, address: str, container: Object, timeout_s: float) -> tuple[bool, str]:
    scheme, host = (get.get("scheme") or "HTTP").lower(), get.get("host") or address
    url = f"{scheme}://{host}:{_port(get['port'], container)}/{(get.get('path') or '/').lstrip('/')}"
    headers = {one["name"]: one["value"] for one in get.get("httpHeaders") or ()}
    try:
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, headers=headers, ssl=False, allow_redirects=False) as got,
        ):
            good = 200 <= got.status < 400
            return good, "" if good else f"HTTP probe failed with statuscode: {got.status}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return False, f'Get "{url}": {str(error) or type(error).__name__}'


async def _connect(host: str, port: int, timeout_s: float) -> tuple[bool, str]:
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except (TimeoutError, OSError) as error:
        return False, f"dial tcp {host}:{port}: {error or 'timeout'}"
    writer.close()
    return True, ""


def _port(port: int | str, container: Object) -> int:
    """Return the number of a port that is given by its number or by its name in the container's spec; 0 if no port has
    this name."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    named = [one["containerPort"] for one in container.get("ports") or () if one.get("name") == port]
    return int(named[0]) if named else 0
