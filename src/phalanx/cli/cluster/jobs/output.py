"""The output of a job: of pods that exist, and of pods that are gone where the node kept their logs.

A job that was preempted, or whose pods were replaced after a failure, has several *attempts*.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from math import inf

from phalanx.cli.cluster.jobs.finding import ARRAY_OF_JOBS, FoundJob, parts_of
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import PODS
from phalanx.kube.read.labels import COMPLETION_INDEX, JOB, JOB_NAME, option
from phalanx.kube.read.wire import epoch_s

_MERGED = 32  # logs of more pods are shown one after the other: each needs a connection
_KEPT = "-"  # instead of a pod's name: all deleted pods (embedded API server)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLog:
    """The log of one container. `uid`: the uid of the pod. `kept`: True if the pod was deleted and the node agent kept
    its log. `started_s`, `ended_s`: when the pod started and ended, in seconds since the epoch; `ended_s` is None while
    the pod exists. `previous`: the container's attempt before the last one."""

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
    """The lines that the user asked for. `tail`: the number of last lines of each container. `since_s`: only lines
    after this time, in seconds since the epoch."""

    tail: int | None = None
    since: str = ""

    def params(self) -> dict[str, str]:
        found = {"tailLines": "" if self.tail is None else str(self.tail), "sinceTime": self.since}
        return {key: text for key, text in found.items() if text}


Line = tuple[str, ContainerLog, str]  # time (RFC 3339), container, text


def sources_of(pods: Iterable[Object], job: FoundJob, container: str = "") -> list[ContainerLog]:
    """Return the logs of the job's existing pods: of every container, or of the container with that name."""
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
    """Return the logs of the job's deleted pods, in the order of the pods' starts; empty if the node did not keep
    them."""
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
    """Return the logs by attempt, the oldest first. A pod belongs to the next attempt if an earlier pod has the same
    index or name. `single`: the job has one pod, so each pod is an attempt."""
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
    """Yield the lines of these logs, merged by time. More than `_MERGED` logs are read one after the other."""
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
    again with the time of the last line as `wishes.since`."""
    async with aclosing(_lines(connection, source, {**wishes.params(), "follow": "true"})) as lines:
        async for line in lines:
            yield line


def before(source: ContainerLog) -> ContainerLog:
    """Return the attempt before the last one of that container."""
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
        if error.code not in {400, 404}:  # not started yet, or deleted since the list
            raise


def _as_meta(item: Object) -> Object:
    return {"name": item["pod"], "labels": item["labels"]}


def _is_of(item: Object, job: FoundJob) -> bool:
    """Return True if the pod whose output was kept belongs to the job."""
    labels: Mapping[str, str] = item["labels"]
    uids = {member.obj["metadata"]["uid"] for member in job.members}
    names = {member.name for member in job.members} or {job.name}
    owned = item["owner"].partition("/")[2] in names or item["owner_uid"] in uids
    said = {labels.get(JOB), labels.get(JOB_NAME), labels.get("training.kubeflow.org/job-name")}
    return owned or item["pod"] == job.name or job.name in said or labels.get("volcano.sh/job-name") == job.name


def _label(meta: Object, job: FoundJob, container: str) -> str:
    """Return the label of a pod's lines: the pod's index (with the name of the Job if there are several Jobs), or else
    the pod's name."""
    index, member = option(meta, COMPLETION_INDEX), option(meta, JOB_NAME) or ""
    has_several_jobs = job.kind == ARRAY_OF_JOBS or option(meta, JOB)
    found = str(meta["name"]) if index is None else f"{member}/{index}" if has_several_jobs else index
    return f"{found} {container}" if container else found
