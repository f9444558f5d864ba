"""Read the output of a job: the logs of its existing pods, and the logs that a node kept of deleted pods.

A job that was preempted, or whose pods were replaced after a failure, has several *attempts*. `Followed` watches the
objects and the pods of one job until the job has ended."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from math import inf
from types import TracebackType
from typing import Any, Self

from phalanx.cli.cluster.jobs.attending import obstacles
from phalanx.cli.cluster.jobs.finding import ARRAY_OF_JOBS, FoundJob, Member, parts_of, pod_selectors
from phalanx.cli.cluster.jobs.standing import Standing, standing
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import PODS, Kind
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import COMPLETION_INDEX, JOB, JOB_NAME, option
from phalanx.kube.read.wire import epoch_s

# the maximum number of logs that are merged by time, because each log needs a connection; more logs are shown one after
# the other
_MERGED = 32
_KEPT = "-"  # used instead of a pod's name, it requests the logs of all deleted pods (embedded API server only)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLog:
    """The log of one container. `uid`: the uid of the pod. `label`: the text in front of each line that identifies the
    pod. `started_s`, `ended_s`: the times when the pod started and ended, in seconds since the epoch; `ended_s` is None
    while the pod exists. `kept`: True if the pod was deleted and the node agent kept its log. `previous`: True for the
    log of the container's attempt before the last one."""

    namespace: str
    pod: str
    uid: str
    container: str
    label: str
    started_s: float
    ended_s: float | None = None
    kept: bool = False
    previous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWishes:
    """The lines that the user wants to see. `tail`: the number of last lines of each container; None for all lines.
    `since`: the time (RFC 3339) of the first wanted line; "" for all lines."""

    tail: int | None = None
    since: str = ""

    def params(self) -> dict[str, str]:
        found = {"tailLines": "" if self.tail is None else str(self.tail), "sinceTime": self.since}
        return {key: text for key, text in found.items() if text}


Line = tuple[str, ContainerLog, str]  # (time in RFC 3339, container, text)


def sources_of(pods: Iterable[Object], job: FoundJob, container: str = "") -> list[ContainerLog]:
    """Return the logs of the job's existing pods: of all containers, or only of containers with the name
    `container`."""
    return [
        ContainerLog(
            namespace=pod["metadata"]["namespace"],
            pod=pod["metadata"]["name"],
            uid=pod["metadata"]["uid"],
            container=name,
            label=_label(pod["metadata"], job, name if len(names) > 1 else ""),
            started_s=epoch_s((pod.get("status") or {}).get("startTime") or pod["metadata"].get("creationTimestamp")),
        )
        for pod in pods
        if (names := [one["name"] for one in pod["spec"]["containers"]])
        for name in names
        if container in {"", name}
    ]


async def kept_sources(connection: Connection, job: FoundJob, container: str = "") -> list[ContainerLog]:
    """Return the logs of the job's deleted pods, sorted by the start times of the pods. The result is empty if this
    cluster does not keep such logs."""
    try:
        answer = await connection.request("GET", PODS.path(job.namespace, _KEPT, "log"))
    except ApiRefusal as error:
        if error.code not in {400, 403, 404}:
            raise
        return []
    items = answer.get("items") or () if isinstance(answer, dict) else ()
    return [
        ContainerLog(
            namespace=job.namespace,
            pod=item["pod"],
            uid=item["uid"],
            container=name,
            label=_label(_as_meta(item), job, name if len(item["containers"]) > 1 else ""),
            started_s=item["started_s"],
            ended_s=item["ended_s"],
            kept=True,
        )
        for item in items
        if _is_of(item, job) and (not job.part or job.part in parts_of({"metadata": _as_meta(item)}))
        for name in item["containers"]
        if container in {"", name}
    ]


def attempts(sources: Sequence[ContainerLog], *, single: bool) -> list[list[ContainerLog]]:
    """Return the logs grouped by attempt, the oldest attempt first. A pod belongs to attempt N if N - 1 earlier pods
    have the same index or name. `single`: True if the job has a single pod at a time; then each pod is an attempt."""
    found: list[list[ContainerLog]] = []
    seen: Counter[tuple[str, str]] = Counter()
    for source in sorted(sources, key=lambda one: (one.started_s, one.ended_s or inf, one.label)):
        key = (source.container, "" if single else source.label)
        if seen[key] == len(found):
            found.append([])
        found[seen[key]].append(source)
        seen[key] += 1
    return found


async def read_lines(connection: Connection, sources: Sequence[ContainerLog], wishes: LogWishes) -> AsyncIterator[Line]:
    """Yield the lines of these logs, merged by time. More than `_MERGED` logs are read one after the other instead."""
    if len(sources) > _MERGED:
        for source in sources:
            async with aclosing(_lines(connection, source, wishes.params())) as lines:
                async for line in lines:
                    yield line
        return
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(aclosing(_lines(connection, one, wishes.params()))) for one in sources
        ]
        heads: list[tuple[str, int, Line]] = []
        for number in range(len(streams)):
            await _draw(streams, number, heads)
        while heads:
            _, number, line = heapq.heappop(heads)
            yield line
            await _draw(streams, number, heads)


async def _draw(streams: Sequence[AsyncGenerator[Line, None]], number: int, heads: list[tuple[str, int, Line]]) -> None:
    """Push the next line of the stream onto the heap `heads`, unless the stream has ended."""
    try:
        line = await anext(streams[number])
    except StopAsyncIteration:
        return
    heapq.heappush(heads, (line[0], number, line))


async def follow_lines(connection: Connection, source: ContainerLog, wishes: LogWishes) -> AsyncIterator[Line]:
    """Yield the lines of one log until its container ends. Raises ApiError if the connection breaks. To continue, call
    this function again with the time of the last line as `wishes.since`."""
    async with aclosing(_lines(connection, source, {**wishes.params(), "follow": "true"})) as lines:
        async for line in lines:
            yield line


def before(source: ContainerLog) -> ContainerLog:
    """Return the log of the same container's attempt before the last one."""
    return replace(source, previous=True)


async def _lines(connection: Connection, source: ContainerLog, params: Mapping[str, str]) -> AsyncGenerator[Line, None]:
    asked = {**params, "container": source.container, "timestamps": "true"}
    asked |= {"uid": source.uid} if source.kept else {}
    asked |= {"previous": "true"} if source.previous else {}
    path = PODS.path(source.namespace, source.pod, "log")
    try:
        async with connection.stream(path, asked) as lines:
            async for line in lines:
                stamp, _, text = line.decode(errors="replace").partition(" ")
                yield stamp, source, text
    except ApiRefusal as error:
        if error.code not in {400, 404}:  # the container has not started yet, or its pod was deleted in the meantime
            raise


def _as_meta(item: Object) -> Object:
    return {"name": item["pod"], "labels": item["labels"]}


def _is_of(item: Object, job: FoundJob) -> bool:
    """Return True if the deleted pod of the kept log `item` belongs to the job."""
    labels: Mapping[str, str] = item["labels"]
    uids = {member.obj["metadata"]["uid"] for member in job.members}
    names = {member.name for member in job.members} or {job.name}
    owned = item["owner"].partition("/")[2] in names or item["owner_uid"] in uids
    said = {labels.get(JOB), labels.get(JOB_NAME), labels.get("training.kubeflow.org/job-name")}
    return owned or item["pod"] == job.name or job.name in said or labels.get("volcano.sh/job-name") == job.name


def _label(meta: Object, job: FoundJob, container: str) -> str:
    """Return the text in front of a pod's lines: the pod's index, or the pod's name if it has no index. If the job has
    several Jobs, the name of the Job comes before the index. `container`: the name of the container if the pod has
    several containers, else ""."""
    index, member = option(meta, COMPLETION_INDEX), option(meta, JOB_NAME) or ""
    has_several_jobs = job.kind == ARRAY_OF_JOBS or option(meta, JOB)
    found = str(meta["name"]) if index is None else f"{member}/{index}" if has_several_jobs else index
    return f"{found} {container}" if container else found


_WATCHES = 16  # for a job with more objects, a single watch of the namespace replaces the watches of the objects
_SYNC_S = 60.0


class Followed:
    """The objects and pods of a job, which watches keep up to date while the context is open: `async with
    Followed(connection, job) as followed`. `pods`: uid -> pod, including pods that were deleted in the meantime."""

    def __init__(self, connection: Connection, job: FoundJob) -> None:
        self.job = job
        self.pods: dict[str, Object] = {}
        self._stuck: dict[str, Object] = {}  # uid -> a pod that exists and cannot start
        self._connection = connection
        self._members = {member.obj["metadata"]["uid"]: member for member in job.members}
        self._gang = job.name if job.kind == "gang" else ""
        self._news = asyncio.Event()
        self._informers = [*self._of_members(), *self._of_pods()]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Start the watches and wait until all objects are listed. Raises PhalanxError if the server does not list them
        in time."""
        self._tasks = [asyncio.create_task(informer.run()) for informer in self._informers]
        try:
            async with asyncio.timeout(_SYNC_S):
                for informer in self._informers:
                    await informer.synced.wait()
        except TimeoutError:
            await self.__aexit__(None, None, None)
            raise PhalanxError(
                f"{self._connection.server} did not list the objects of {self.job.id} within {_SYNC_S:g} s. "
                f"Check that you may list them: kubectl auth can-i list pods -n {self.job.namespace}"
            ) from None
        listed = {obj["metadata"]["uid"] for informer in self._informers for obj in informer.objects.values()}
        for uid in self._members.keys() - listed:
            del self._members[uid]  # the object was deleted before the watch began, so no event will come
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def change(self) -> None:
        """Wait until an object or pod of the job has changed since the last call."""
        await self._news.wait()
        self._news.clear()

    @property
    def standing(self) -> Standing:
        return standing(list(self._members.values()), self.pods.values(), self._stuck.values())

    def _of_members(self) -> Iterator[Informer]:
        kinds: dict[Kind, list[Member]] = {}
        for member in self.job.members:
            kinds.setdefault(member.kind, []).append(member)
        for kind, members in kinds.items():
            if len(members) > _WATCHES:
                yield self._informer(kind)
            else:
                yield from (self._informer(kind, fieldSelector=f"metadata.name={member.name}") for member in members)

    def _of_pods(self) -> Iterator[Informer]:
        if len(self.job.members) > _WATCHES:
            yield self._informer(PODS)
            return
        selectors = [*pod_selectors(self.job.members), *([f"{JOB}={self._gang}"] if self._gang else [])]
        yield from (self._informer(PODS, labelSelector=selector) for selector in selectors)

    def _informer(self, kind: Kind, **selector: Any) -> Informer:
        informer = Informer(self._connection, kind, namespace=self.job.namespace, **selector)
        informer.subscribe(self._see)
        return informer

    def _see(self, change: Change) -> None:
        obj = change.new or change.old or {}
        uid = obj["metadata"]["uid"]
        if uid in self._members:
            if change.new is None:
                del self._members[uid]
            else:
                self._members[uid] = Member(kind=change.kind, obj=change.new)
        if change.kind is PODS and self._is_mine(obj):
            self.pods[uid] = obj
            self._stuck.pop(uid, None)
            if change.new is not None and obstacles(obj):
                self._stuck[uid] = obj
        self._news.set()

    def _is_mine(self, pod: Object) -> bool:
        """Return True if the pod belongs to the job and, if the user named a part of the job, to this part."""
        meta = pod["metadata"]
        owners = {owner["uid"] for owner in meta.get("ownerReferences") or ()}
        known = {member.obj["metadata"]["uid"] for member in self.job.members}
        direct = meta["uid"] in known or bool(owners & known) or (self._gang and option(meta, JOB) == self._gang)
        inside = len(self.job.members) <= _WATCHES  # the watches select only pods of the job
        return bool(direct or inside) and (not self.job.part or self.job.part in parts_of(pod))
