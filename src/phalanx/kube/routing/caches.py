"""The caches of all watched kinds. Objects of some kinds (such as LimitRanges) affect how a pod or a pod template is
read.

The API server must serve pods, Jobs, nodes and queues. If another kind is missing, or if the scheduler has no right to
list it, the scheduler assumes that the kind has no objects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import (
    CSI_NODES,
    JOBS,
    LIMIT_RANGES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
)
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB
from phalanx.kube.install.definitions import FLAVORS, QUEUES, RESERVATIONS
from phalanx.kube.install.installation import until_answered, until_surely_refused
from phalanx.kube.read.template.admission import AdmissionDefaults, Words
from phalanx.kube.read.template.volumes import VolumeClaims
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS, TRAINING_KINDS
from phalanx.kube.routing.settings import KubeSettings

log = logging.getLogger(__name__)

STORAGE = (VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES)
LISTED_FIRST = (PODS, JOBS, NODES)  # every API server serves these kinds
REQUIRED = (*LISTED_FIRST, QUEUES)
LOOKED_UP = (LIMIT_RANGES, RUNTIME_CLASSES, PRIORITY_CLASSES, RESOURCE_QUOTAS, FLAVORS, RESERVATIONS, *STORAGE)


Informers: TypeAlias = Callable[[Kind], Informer]  # returns the running cache of a kind


class ObjectCaches:
    """The caches that decisions depend on. `served`: the optional kinds that have a cache. `job_kinds`: Jobs, and the
    kinds that are read as Jobs. `admission`: the objects (such as LimitRanges) that determine which fields the API
    server adds to a pod when it creates the pod."""

    def __init__(self, informers: Informers, settings: KubeSettings) -> None:
        self.settings = settings
        self.served: frozenset[Kind] = frozenset()
        self._withheld: set[Kind] = set()  # served kinds that the scheduler may not read
        self.job_kinds: tuple[Kind, ...] = (JOBS,)
        self.admission = AdmissionDefaults(answers_to=settings.answers_to, alone=settings.alone, sole=settings.sole)
        self._informers = informers
        # Translates another scheduler's labels and annotations into Phalanx's options.
        self.words: Words = lambda kind, meta, scheduler: {}

    @property
    def gang_kinds(self) -> frozenset[Kind]:
        """Return the job kinds whose changes concern only gangs. Volcano's Jobs are left out, because Volcano's dialect
        reads them as well."""
        return frozenset(self.job_kinds) - {VOLCANO_JOB.kind}

    def informer(self, kind: Kind) -> Informer:
        return self._informers(kind)

    def objects(self, kind: Kind) -> Mapping[str, Object]:
        """Return the cached objects of the kind, by `namespace/name`."""
        return self._informers(kind).objects

    def watches(self, kind: Kind) -> bool:
        return kind in self.served or kind in REQUIRED

    async def sync(self, api: Connection) -> None:
        """Find the optional kinds that the API server serves. Then wait until the objects of every kind that decisions
        depend on are in the cache."""
        wanted = dict.fromkeys((*LOOKED_UP, *self._of_others()))
        shown = await asyncio.gather(*(_serves(api, kind, patient=self.settings.patient) for kind in wanted))
        served = [kind for kind, is_shown in zip(wanted, shown, strict=True) if is_shown]
        for cache in [self._informers(kind) for kind in (*REQUIRED, *served)]:
            await cache.synced.wait()
        self.look_up(served)

    def _of_others(self) -> Iterable[Kind]:
        """Return the kinds of other schedulers and frameworks that are read if the API server serves them."""
        frameworks = (
            FRAMEWORK_KINDS if self.settings.frameworks else TRAINING_KINDS if self.settings.training_jobs else ()
        )
        others = (kind for each in self.settings.others for kind in (*each.definition_kinds, *each.answer_kinds))
        return dict.fromkeys((*frameworks, *others))

    async def look_for_more(self, api: Connection) -> tuple[Kind, ...]:
        """Add caches for kinds of other schedulers and frameworks that the server has begun to serve, and return these
        kinds. Raises ApiError."""
        missing = [kind for kind in self._of_others() if kind not in self.served and kind not in self._withheld]
        listed = await api.request("GET", "/apis") if missing else {}
        served_versions = {one["groupVersion"] for group in listed.get("groups") or () for one in group["versions"]}
        found = list[Kind]()
        for version in dict.fromkeys(kind.api_version for kind in missing if kind.api_version in served_versions):
            resources = (await api.request("GET", f"/apis/{version}")).get("resources") or ()
            plurals = {one["name"] for one in resources}
            found += [kind for kind in missing if kind.api_version == version and kind.plural in plurals]
        more = [kind for kind in found if await _serves(api, kind, patient=self.settings.patient)]
        self._withheld |= {kind for kind in found if kind not in more}
        for kind in more:
            await self._informers(kind).synced.wait()
        self.served |= frozenset(more)
        self.job_kinds = (JOBS, *(kind for kind in FRAMEWORK_KINDS if kind in self.served))
        return tuple(more)

    async def list_again(self) -> None:
        """List the objects of all required kinds again. Each difference between the list and the caches is reported as
        a change. Raises ApiError."""
        for kind in REQUIRED:
            await self._informers(kind).list_again()

    def look_up(self, kinds: Iterable[Kind]) -> None:
        """Use the caches of these optional kinds from now on. The caller has found that the API server serves these
        kinds."""
        found = {kind: self.objects(kind) for kind in kinds}
        self.admission = AdmissionDefaults(
            limit_ranges=found.get(LIMIT_RANGES, {}),
            runtime_classes=found.get(RUNTIME_CLASSES, {}),
            priority_classes=found.get(PRIORITY_CLASSES, {}),
            answers_to=self.settings.answers_to,
            alone=self.settings.alone,
            sole=self.settings.sole,
            volumes=_volume_claims(found),
            words=self.words,
        )
        self.served = frozenset(found)
        self.job_kinds = (JOBS, *(kind for kind in FRAMEWORK_KINDS if kind in found))


async def _serves(api: Connection, kind: Kind, *, patient: bool) -> bool:
    ask = until_surely_refused if patient else until_answered
    try:
        await ask(lambda: api.request("GET", kind.path(), params={"limit": "1"}))
    except ApiRefusal as error:
        if error.code not in (403, 404):
            raise
        level = logging.WARNING if error.code == 403 else logging.INFO
        log.log(level, "%s cannot be listed, so the scheduler assumes that there are none: %s", kind.plural, error)
        return False
    return True


def _volume_claims(found: Mapping[Kind, Mapping[str, Object]]) -> VolumeClaims | None:
    """Return the volume claims; None if the scheduler may not list claims, volumes and classes."""
    if not all(kind in found for kind in (VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES)):
        return None
    return VolumeClaims(
        claims=found[VOLUME_CLAIMS],
        volumes=found[VOLUMES],
        classes=found[STORAGE_CLASSES],
        nodes=found.get(CSI_NODES, {}),
    )
