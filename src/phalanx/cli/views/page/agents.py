"""Make the requests of the page's viewers with the viewers' own credentials: check which namespaces a viewer may list,
read output, change jobs.

Without --sign-in the viewer has the credentials of the kubeconfig. With --sign-in, a viewer has a bearer token, or an
authenticating proxy states the viewer's identity. This process then impersonates this identity.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
from collections import deque
from collections.abc import Collection, Sequence

from phalanx.cli.cluster.jobs.changing import cancel_job, require_changeable, require_whole, set_hold, set_nice
from phalanx.cli.cluster.jobs.finding import Finder, FoundJob, pod_selectors, pods_of
from phalanx.cli.cluster.jobs.output import LogWishes, attempts, kept_sources, read_lines, sources_of
from phalanx.cli.cluster.jobs.standing import OVER, state_of
from phalanx.cli.cluster.live_state.access import may_list
from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import PODS, Kind
from phalanx.client.quantity import parse
from phalanx.dashboard.access import Action, SessionEnded, Viewer
from phalanx.dashboard.sign_in import Credential, Token, Vouched
from phalanx.errors import PhalanxError

log = logging.getLogger(__name__)

SELF = Kind(group="authentication.k8s.io", plural="selfsubjectreviews", name="SelfSubjectReview", namespaced=False)
# Limits for the output of a job: how many last lines of each container are read first, and the maximum numbers of
# lines, of logs, and of characters in a line.
_TAIL, _MOST_LINES, _MOST_LOGS, _LINE_CHARS = 200, 2000, 64, 2000
_READING_S = 20.0
_AT_ONCE = 16  # the maximum number of access reviews that run at the same time
METRICS = Kind(group="metrics.k8s.io", version="v1beta1", plural="pods", name="PodMetrics")
_GIB = 2**30
_ANONYMOUS = "system:anonymous"


class ClusterAgent:
    """Makes the requests of one viewer. `connection`: a connection with the viewer's credentials. `ledger`: the URL of
    the ledger in which deleted jobs are found. `owned`: True if the connection is closed together with the viewer's
    session."""

    def __init__(self, connection: Connection, ledger: str | None = None, *, owned: bool = False) -> None:
        self._connection, self._ledger, self._owned = connection, ledger, owned

    async def sees(self, namespaces: Collection[str]) -> frozenset[str] | None:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def listed(namespace: str) -> bool:
            async with turns:
                return await may_list(self._connection, namespace)

        try:
            if await listed(""):
                return None
            names = sorted(namespaces)
            found = await asyncio.gather(*map(listed, names))
        except ApiRefusal as error:
            if error.code == 401:
                raise SessionEnded("the cluster does not know these credentials any more") from error
            raise
        return frozenset(name for name, seen in zip(names, found, strict=True) if seen)

    async def output(self, job: str, since: str) -> Sequence[tuple[str, str, str]]:
        found = await self._found(job)
        sources = sources_of(await pods_of(self._connection, found), found) if found.members else []
        if not sources:
            kept = attempts(await kept_sources(self._connection, found), single=False)
            sources = kept[-1] if kept else []
        wishes = LogWishes(tail=None if since else _TAIL, since=since)
        lines: deque[tuple[str, str, str]] = deque(maxlen=_MOST_LINES)
        try:
            async with asyncio.timeout(_READING_S):
                async for stamp, source, text in read_lines(self._connection, sources[:_MOST_LOGS], wishes):
                    if stamp > since:
                        lines.append((stamp, source.label, text[:_LINE_CHARS]))
        except TimeoutError as error:
            raise PhalanxError(f"the output of {job} was not read within {_READING_S:g} s; try again") from error
        return list(lines)

    async def use(self, job: str) -> Sequence[tuple[str, float, float]]:
        found = await self._found(job)
        pods = {pod["metadata"]["name"]: pod for pod in await pods_of(self._connection, found)}
        labels = {source.pod: source.label for source in sources_of(pods.values(), found)}
        measured = list[Object]()
        try:
            for selector in pod_selectors(found.members):
                measured += (await self._connection.list(METRICS, found.namespace, labelSelector=selector))["items"]
            for member in found.members:
                if member.kind is PODS:
                    measured.append(await self._connection.get(METRICS, member.name, found.namespace))
        except ApiRefusal as error:
            if error.code not in {403, 404}:
                raise
            return ()
        return [
            (labels.get(name, name), round(sum(cores), 6), round(sum(gib), 6))
            for name, cores, gib in map(_measured, measured)
            if name in pods
        ]

    async def act(self, job: str, action: Action, value: int) -> str:
        found = await self._found(job)
        match action:
            case "cancel":
                require_whole(found, "end", "cancel")
                if (state := state_of(found)) in OVER:
                    raise PhalanxError(f"{job} is {state} already. Nothing was done.")
                await cancel_job(self._connection, found)
                return f"{job} was cancelled"
            case "hold" | "release":
                held = action == "hold"
                require_changeable(found, "held" if held else "released", waits=held)
                await set_hold(self._connection, found, held=held)
                return f"{job} was {'held' if held else 'released'}"
            case "nice":
                require_changeable(found, "given another priority", waits=True)
                await set_nice(self._connection, found, value)
                return f"{job} has the nice value {value}"

    async def close(self) -> None:
        if self._owned:
            await self._connection.close()

    async def _found(self, job: str) -> FoundJob:
        namespace, _, name = job.partition("/")
        named = f"pod/{name.removeprefix('pod:')}" if name.startswith("pod:") else f"{namespace}/{name}"
        return await Finder(self._connection, namespace, self._ledger).one(named)


async def user_of(connection: Connection) -> str:
    """Return the user name of this connection at the API server. If the server does not report it, return the name of
    the Unix user."""
    try:
        answer = await connection.create(SELF, {"apiVersion": SELF.api_version, "kind": SELF.name})
        return str(answer["status"]["userInfo"]["username"])
    except (ApiError, KeyError, TypeError):
        return getpass.getuser()


def _measured(metrics: Object) -> tuple[str, list[float], list[float]]:
    """Return the name of the pod, and lists of the CPU cores and of the GiB of memory that each of its containers
    uses."""
    used = [container.get("usage") or {} for container in metrics.get("containers") or ()]
    cores = [float(parse(each.get("cpu", "0"))) for each in used]
    return str(metrics["metadata"]["name"]), cores, [float(parse(each.get("memory", "0"))) / _GIB for each in used]


async def admitted(connection: Connection, credential: Credential, ledger: str | None) -> Viewer | None:
    """Ask the API server to which user this credential belongs, and return the viewer; None if the server refuses the
    credential. `connection`: the connection of the dashboard's process. Raises PhalanxError if the API server does not
    answer."""
    try:
        match credential:
            case Token(text):
                own = connection.with_token(text)
            case Vouched(user, groups):
                own = connection.acting_as(user, groups)
    except PhalanxError as error:
        log.warning("an identity cannot be named in a request: %s", error)
        return None
    try:
        answer = await own.create(SELF, {"apiVersion": SELF.api_version, "kind": SELF.name})
        name = str(answer["status"]["userInfo"]["username"])
    except ApiRefusal as error:
        await own.close()
        if not isinstance(credential, Token):
            log.warning("%s, for whom the proxy vouches, is refused: %s", credential.user, error.message)
        return None
    except (PhalanxError, KeyError, TypeError):
        await own.close()
        raise
    if name == _ANONYMOUS:
        await own.close()
        return None
    return Viewer(name=name, namespaces=frozenset(), agent=ClusterAgent(own, ledger, owned=True))
