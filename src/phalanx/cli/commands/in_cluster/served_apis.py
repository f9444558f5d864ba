"""The API groups that `phalanx visibility` serves, and the objects from which their responses are computed.

One process serves one API group (`ServedApi`): Kueue's visibility API, or numbers about queues and jobs for every
user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from phalanx.cli.cluster.numbers.answering import answer
from phalanx.cli.cluster.numbers.fetching import GROUP
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers.pending import Lean, of_workloads
from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import AGGREGATED, OF_NUMBERS
from phalanx.extensions.aggregation import Object
from phalanx.extensions.webhook.trust import Called

READ: Final = (kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES, kinds.WORKLOADS)
API_SERVICES: Final = Kind(group="apiregistration.k8s.io", plural="apiservices", name="APIService", namespaced=False)


class VisibilitySource(Protocol):
    """The objects from which the responses of an API group are computed."""

    def unread(self) -> str:
        """Return a text that names the kinds of objects that are not read yet; "" if all are read."""

    async def keep(self) -> None:
        """Keep the caches of the objects up to date, until cancelled."""

    def view(self, path: tuple[str, ...], query: Mapping[str, str]) -> Object | None:
        """Return the response to a request for `path` below the API group; None while objects are unread."""


class Workloads:
    """Caches of Kueue's objects, the data for Kueue's visibility API."""

    def __init__(self, api: Connection) -> None:
        self._caches = {kind: Informer(api, kind, lean=Lean) for kind in READ}

    def unread(self) -> str:
        return next((kind.plural for kind, cache in self._caches.items() if not cache.synced.is_set()), "")

    async def keep(self) -> None:
        async with asyncio.TaskGroup() as group:
            for cache in self._caches.values():
                group.create_task(cache.run())

    def view(self, path: tuple[str, ...], query: Mapping[str, str]) -> Object | None:
        return (
            None
            if self.unread()
            else of_workloads({kind: one.objects for kind, one in self._caches.items()}, path, query)
        )


class VisibilityCluster:
    """The state of the whole cluster, the data for the numbers about queues and jobs."""

    def __init__(self, api: Connection) -> None:
        from phalanx.cli.cluster.numbers.starting import StartAnswers

        # the scheduler's code is imported only for this API group
        from phalanx.cli.views.page.following import Following
        from phalanx.dashboard.rows import Facts

        self._following = Following(api, Facts())
        self._starts = StartAnswers(self._following.present)

    def unread(self) -> str:
        return "pods, jobs, nodes and queues" if self._following.numbers() is None else ""

    async def keep(self) -> None:
        await self._following.run(lambda state: None)

    def view(self, path: tuple[str, ...], query: Mapping[str, str]) -> Object | None:
        source = self._following.numbers()
        if source is not None and (start := self._starts.answer(path, query)) is not None:
            return start()
        return None if source is None else answer(source, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApi:
    """An API group that a process serves. `service`: the name of its Service, and of the Secret with its certificate
    authority. `made_by`: the folder with the manifests that install the process."""

    group: str
    resources: tuple[Resource, ...]
    service: str
    made_by: str
    source: Callable[[Connection], VisibilitySource]

    @property
    def called(self) -> Called:
        """Return the APIServices of this group. With an APIService, API servers forward requests for the group to the
        Service."""
        versions = dict.fromkeys(one.version for one in self.resources)
        return Called(
            kept_in=self.service,
            kind=API_SERVICES,
            names=tuple(f"{version}.{self.group}" for version in versions),
            told=lambda service: [service["spec"]],
            made_by=self.made_by,
        )


def _numbers_only(resource: Resource) -> Resource:
    """Return the resource without its subresources for rows and pages, because those contain names of other users'
    jobs. Only the scheduler of `phalanx up` serves these subresources."""
    kept = tuple(one for one in resource.subresources if one.name in {"summary", "reason", "start"})
    return replace(resource, subresources=kept)


APIS: Final[Mapping[str, ServedApi]] = {
    "kueue": ServedApi(
        group=kinds.VISIBILITY,
        resources=AGGREGATED,
        service="phalanx-visibility",
        made_by="deploy/components/kueue-visibility",
        source=Workloads,
    ),
    "phalanx": ServedApi(
        group=GROUP,
        resources=tuple(_numbers_only(one) for one in OF_NUMBERS),
        service="phalanx-numbers",
        made_by="deploy/components/numbers",
        source=VisibilityCluster,
    ),
}
