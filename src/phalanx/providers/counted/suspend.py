"""A backend whose nodes Slurm's ResumeProgram and SuspendProgram switch on and off.

Each program is called as slurmctld calls it: it runs as the user of slurmctld, and its only argument is a hostlist
expression of the nodes. If a program still runs after `ANSWER_S` seconds, the backend stops waiting for the end of the
program, and only waits until the nodes have joined. The nodes have fixed names. Each request for a node gets the first
node that is switched off."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import CONFIG_MAPS, NODES
from phalanx.providers.counted.calls import FAILED, RUNNING, STARTING, NodeState, Scale, text_of
from phalanx.providers.provider import ProviderError

log = logging.getLogger(__name__)

ANSWER_S = 20.0  # how long to wait for a program; later failures are not reported to the job
MINUTE_S = 60.0
SITE, SITE_NAMESPACE = "phalanx-slurm", "kube-system"  # the ConfigMap that sinfo reads
POWER = "power."  # key prefix in this ConfigMap: power.NODE is `resuming SINCE REQUEST` or `suspending UNTIL`
_GONE = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSettings:
    """The nodes of a group, and the settings of slurm.conf. Rates are in nodes per minute; 0: no limit."""

    nodes: tuple[str, ...]
    resume_program: str
    suspend_program: str
    user: str
    resume_timeout_s: float
    suspend_timeout_s: float
    resume_rate: int
    suspend_rate: int
    excluded: frozenset[str]


class PoweredNodes:
    """The nodes of one group. `hostlist`: a function that returns the hostlist expression of node names. `node`: a
    function that returns a Node object, or None. `label`: the label (key, value) of the group's nodes. `tasks`: the
    group of background tasks."""

    counted = frozenset((STARTING, RUNNING))

    def __init__(
        self,
        settings: PowerSettings,
        hostlist: Callable[[Iterable[str]], str],
        connection: Connection,
        node: Callable[[str], Object | None],
        label: tuple[str, str],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._settings, self._hostlist, self._connection = settings, hostlist, connection
        self._node, self._label, self._tasks = node, label, tasks
        self._on: dict[str, tuple[str, float]] = {}  # node that was switched on -> (its request, time of the request)
        self._off: dict[str, float] = {}  # node that was switched off -> time of the call
        self._failed: dict[str, NodeState] = {}  # requested node -> why it failed, as a state
        self._restored = False
        self._calls: dict[str, deque[float]] = {}  # program -> call times of the last minute, one per node

    async def nodes(self, group: str) -> Sequence[NodeState]:
        """Return the states of the nodes that are switched on or are being switched on."""
        if not self._restored:
            await self._restore()
        found = []
        for name in self._settings.nodes:
            request, since_s = self._on.get(name, (name, 0.0))
            if await self._has_arrived(name):
                if self._on.pop(name, None) is not None:
                    await self._note({name: None})
                found.append(NodeState(name=name, node=name, state=RUNNING))
            elif name in self._on:
                found.append(NodeState(name=request, node=name, state=STARTING, since=_written(since_s)))
        return [*found, *self._failed.values()]

    async def scale(self, group: str, to: Scale) -> Mapping[str, str]:
        """Switch nodes on and off. A repeated call chooses the same nodes."""
        refused: dict[str, str] = {}
        chosen = {request: name for name, (request, _) in self._on.items()}
        for request in to.add:
            self._failed.pop(request, None)
            if request not in chosen:
                free = next((name for name in self._settings.nodes if self._is_off(name)), None)
                if free is None:
                    refused[request] = f"no node of {self._hostlist(self._settings.nodes)} is switched off"
                    continue
                chosen[request] = free
                self._on[free] = request, time.time()
        if names := [chosen[request] for request in to.add if request in chosen]:
            await self._resume(names)
        names = [chosen.get(name, name) for name in to.remove if self._failed.pop(name, None) is None]
        refused |= {name: "SuspendExcNodes contains it" for name in names if name in self._settings.excluded}
        if known := [name for name in names if name in self._settings.nodes and name not in refused]:
            await self._suspend(known)
        return refused

    async def _resume(self, names: Sequence[str]) -> None:
        """Call ResumeProgram for as many nodes as the rate allows now; call it for the other nodes later, in the
        background."""
        settings = self._settings
        now, later = self._allowed(settings.resume_program, settings.resume_rate, names)
        try:
            if now:
                await self._run(settings.resume_program, now)
        except ProviderError:
            for name in names:  # a repeated request must be able to choose these nodes again
                self._on.pop(name, None)
            raise
        on = {name: self._on[name] for name in names}
        await self._note({name: f"resuming {since_s:.0f} {request}" for name, (request, since_s) in on.items()})
        if later:
            self._tasks.create_task(self._resume_later(later))

    async def _resume_later(self, names: Sequence[str]) -> None:
        settings = self._settings
        while names:
            await asyncio.sleep(1.0)
            names = [name for name in names if name in self._on]  # without nodes whose requests were cancelled
            now, names = self._allowed(settings.resume_program, settings.resume_rate, names)
            try:
                if now:
                    await self._run(settings.resume_program, now)
            except ProviderError as error:
                for name in now:
                    request, since_s = self._on.pop(name, (name, time.time()))
                    state = NodeState(name=request, state=FAILED, since=_written(since_s), message=str(error))
                    self._failed[request] = state
                await self._note(dict.fromkeys(now))

    async def _suspend(self, names: Sequence[str]) -> None:
        """Call SuspendProgram. Raises ProviderError if the program fails, or if the rate does not allow all nodes
        yet."""
        settings = self._settings
        names = [name for name in names if name not in self._off]
        now, later = self._allowed(settings.suspend_program, settings.suspend_rate, names)
        if now:
            await self._run(settings.suspend_program, now)
        for name in now:
            self._on.pop(name, None)
            self._off[name] = time.time()
        until_s = time.time() + settings.suspend_timeout_s
        await self._note(dict.fromkeys(now, f"suspending {until_s:.0f}"))
        if later:
            raise ProviderError(f"SuspendRate allows {settings.suspend_rate} nodes per minute; {len(later)} wait")

    async def _restore(self) -> None:
        """Read from the ConfigMap which nodes an earlier scheduler process was switching on or off."""
        try:
            data = (await self._connection.get(CONFIG_MAPS, SITE, SITE_NAMESPACE)).get("data") or {}
        except ApiError as error:
            if not isinstance(error, ApiRefusal):
                raise ProviderError(f"the states of the nodes cannot be read: {error}") from error
            data = {}
        self._restored = True
        for name in self._settings.nodes:
            match data.get(f"{POWER}{name}", "").split():
                case ["resuming", since, request] if since.isdigit():
                    self._on[name] = request, float(since)
                case ["suspending", until] if until.isdigit():
                    self._off[name] = float(until) - self._settings.suspend_timeout_s
                case _:
                    pass

    async def _note(self, states: Mapping[str, str | None]) -> None:
        """Write the states of nodes into the ConfigMap, for sinfo and for the next scheduler process. If the write
        fails, the nodes are still switched on and off; only this information is missing."""
        body = {"data": {f"{POWER}{name}": text for name, text in states.items()}}
        try:
            await self._connection.patch(CONFIG_MAPS, SITE, body, SITE_NAMESPACE)
        except ApiError as error:
            if not isinstance(error, ApiRefusal) or error.code != _GONE:
                log.warning("the states of %s cannot be written for sinfo: %s", ", ".join(states), error)

    def _is_off(self, name: str) -> bool:
        """Return True if the node may be switched on, that is, if it is off and SuspendTimeout has passed since it was
        switched off."""
        if name in self._off and self._off[name] + self._settings.suspend_timeout_s <= time.time():
            del self._off[name]
        return name not in self._on and name not in self._off and self._node(name) is None

    def _allowed(self, program: str, rate: int, names: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Return two lists of nodes: those for which the rate allows a call of the program now, and the others."""
        calls, now_s = self._calls.setdefault(program, deque()), time.monotonic()
        while calls and calls[0] <= now_s - MINUTE_S:
            calls.popleft()
        count = max(0, rate - len(calls)) if rate else len(names)
        calls.extend([now_s] * len(names[:count]))
        return names[:count], names[count:]

    async def _run(self, program: str, names: Sequence[str]) -> None:
        """Start the program for the nodes, and wait at most `ANSWER_S` seconds for its end. Raises ProviderError."""
        settings, argv = self._settings, (program, self._hostlist(names))
        limit_s = max(settings.resume_timeout_s, settings.suspend_timeout_s, ANSWER_S)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                **_as_user(settings.user),
            )
        except (OSError, KeyError) as error:
            why = getattr(error, "strerror", None) or error
            raise ProviderError(f"{program} cannot be started as {settings.user}: {why}") from None
        ends = self._tasks.create_task(_end(process, program, limit_s))
        done, _ = await asyncio.wait([ends], timeout=ANSWER_S)
        if done and (code := ends.result()):
            raise ProviderError(text_of(f"{program} {argv[1]} ended with status {code}"))

    async def _has_arrived(self, name: str) -> bool:
        """Return whether the node has joined with the label of its group. If the node does not have the label, add
        it."""
        (key, value), node = self._label, self._node(name)
        if node is None:
            return False
        if (node["metadata"].get("labels") or {}).get(key) != value:
            try:
                await self._connection.patch(NODES, name, {"metadata": {"labels": {key: value}}})
            except ApiError as error:
                raise ProviderError(f"node {name} cannot be labelled: {error}") from error
        return True


async def _end(process: asyncio.subprocess.Process, program: str, limit_s: float) -> int:
    """Wait for the end of the program, and kill it after its time limit. Return its exit status."""
    try:
        async with asyncio.timeout(limit_s):
            return await process.wait()
    except TimeoutError:
        log.warning("%s did not end within %g s and was killed", program, limit_s)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return await process.wait()


def _as_user(name: str) -> dict[str, Any]:
    """Return the arguments with which `subprocess` runs a program as this user. Raises KeyError if there is no such
    user."""
    found = pwd.getpwnam(name)
    if found.pw_uid == os.geteuid():
        return {}
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": os.getgrouplist(name, found.pw_gid)}


def _written(at_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))
