"""The objects and the pods of one job, kept up to date by watches until the job is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from phalanx.cli.cluster.jobs.ending import obstacles
from phalanx.cli.cluster.jobs.finding import FoundJob, Member, parts_of, pod_selectors
from phalanx.cli.cluster.jobs.standing import Standing, standing
from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import PODS, Kind
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import JOB, option

_WATCHES = 16  # a job with more objects gets one watch on the namespace, not one for each object
_SYNC_S = 60.0


class Followed:
    """The objects and pods of a job, while watches update them. Use as `async with Followed(connection, job) as
    followed`. `pods`: uid -> pod, including pods that were deleted in the meantime."""

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
        """Raises PhalanxError if the server does not list the objects."""
        self._tasks = [asyncio.create_task(informer.run()) for informer in self._informers]
        try:
            async with asyncio.timeout(_SYNC_S):
                for informer in self._informers:
                    await informer.synced.wait()
        except TimeoutError:
            await self.__aexit__(None, None, None)
            raise PhalanxError(
                f"{self._connection.server} did not list the objects of {self.job.id} within {_SYNC_S:g} s. "
                f"May you list them? (kubectl auth can-i list pods -n {self.job.namespace})"
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
        """Wait until something has changed since the last call."""
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
        """Return True for a pod of the job, and of the part of it that is meant."""
        meta = pod["metadata"]
        owners = {owner["uid"] for owner in meta.get("ownerReferences") or ()}
        known = {member.obj["metadata"]["uid"] for member in self.job.members}
        direct = meta["uid"] in known or bool(owners & known) or (self._gang and option(meta, JOB) == self._gang)
        inside = len(self.job.members) <= _WATCHES  # then only the job's own pods were watched
        return bool(direct or inside) and (not self.job.part or self.job.part in parts_of(pod))
