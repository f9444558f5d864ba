"""Find the framework's job that a pod or another object belongs to.

A TrainJob creates a JobSet, a JobSet creates Jobs, and Jobs create pods. The module follows the controller references
from an object to its ancestors in the caches, as long as Phalanx reads the kinds of these ancestors. Only the topmost
object waits in a queue. All objects below are parts of the topmost object. For two kinds of pods, the topmost object is
found by a label instead of controller references. Spark's executors are controlled by the pod of their driver. Some
pods of an AppWrapper have controllers of kinds that Phalanx does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, Kind
from phalanx.dialects.job_kinds.appwrapper.kinds import APP_WRAPPERS, IBM_APP_WRAPPERS
from phalanx.dialects.job_kinds.appwrapper.kinds import LABEL as WRAPPED_BY
from phalanx.dialects.job_kinds.appwrapper.kinds import UID as WRAPPER_UID
from phalanx.dialects.job_kinds.job_set import JOB_SET
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB
from phalanx.dialects.job_kinds.spark import SPARK
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from phalanx.dialects.job_kinds.train_job import TRAIN_JOB
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.adapter import TRAINING_KINDS, PodOwner, adapters, member_uid
from phalanx.kube.read.workload.batch_job import BatchJob, read_job

_MOST = 4  # the maximum number of levels: a TrainJob, its JobSet, its Job, a pod
_APPLICATION = "sparkoperator.k8s.io/app-name"
_MOST_REMEMBERED = 10_000
_NOTHING: Mapping[str, str] = {}


class Ancestor(NamedTuple):
    """The topmost ancestor of a pod or another object. `role`: the role of the ancestor to which this pod or object
    belongs; "" if unknown."""

    kind: Kind
    obj: Object
    role: str

    @property
    def member(self) -> tuple[str, str]:
        """Return the name of the topmost object, and the uid of the gang member for `role`."""
        meta = self.obj["metadata"]
        return meta["name"], member_uid(meta["uid"], self.role)


class Ancestors:
    """Find the framework's job to which an object belongs (the object's topmost *ancestor*). `kinds`: a function that
    returns the kinds that are read as Jobs. `objects`: a function that returns the cache of a kind."""

    def __init__(self, kinds: Callable[[], tuple[Kind, ...]], objects: Callable[[Kind], Mapping[str, Object]]) -> None:
        self._read, self._objects = kinds, objects
        self._gangs: dict[str, tuple[str, bool]] = {}  # uid -> (resourceVersion, whether the object has gang members)

    def _kinds(self) -> tuple[Kind, ...]:
        """Return the kinds that an ancestor may have. Volcano Jobs are left out, because their pods already form a gang
        by their PodGroup."""
        return tuple(kind for kind in self._read() if kind != VOLCANO_JOB.kind)

    def jobs(self, kind: Kind, obj: Object, around: AdmissionDefaults) -> list[BatchJob]:
        """Return the gang members of an object, one for each of its roles. If Jobs create the object's pods (as for a
        JobSet), the object has members only if it is queued itself. Otherwise each of its Jobs is a gang member of its
        own."""
        read = [read_job(obj, around, adapter) for adapter in adapters(kind, obj, self.made(kind, obj))]
        found = [job for job in read if job.queued or kind in (JOBS, *TRAINING_KINDS)]
        if found and kind is not JOBS:
            self._remember(obj["metadata"], True)
        return found

    def queued(self, meta: Object, around: AdmissionDefaults) -> Ancestor | None:
        """Return the topmost ancestor of the object if the ancestor has gang members; otherwise None."""
        above = self.of(meta)
        return above if above is not None and self._is_gang(above.kind, above.obj, around) else None

    def _is_gang(self, kind: Kind, obj: Object, around: AdmissionDefaults) -> bool:
        """Return whether the object has gang members. The result is cached for the present version of the object,
        because this method is called for each of the object's pods. If this version is invalid, the result of the last
        valid version stays in effect."""
        uid, version = obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
        known = self._gangs.get(uid)
        if known is not None and known[0] == version:
            return known[1]
        try:
            is_gang = bool(self.jobs(kind, obj, around))
        except Exception:  # the error is reported when the object itself is read
            is_gang = known is not None and known[1]
        return self._remember(obj["metadata"], is_gang)

    def _remember(self, meta: Object, is_gang: bool) -> bool:
        if len(self._gangs) >= _MOST_REMEMBERED:
            self._gangs.clear()
        self._gangs[meta["uid"]] = meta["resourceVersion"], is_gang
        return is_gang

    def owner(self, meta: Object, around: AdmissionDefaults) -> PodOwner | None:
        """Return the owner of a pod: the framework's job if that job has gang members, or else the pod's controller.
        The controller itself may not be in the caches yet. Return None if Phalanx reads none of the kinds of the pod's
        owners."""
        if (above := self.queued(meta, around)) is not None:
            return PodOwner(*above.member, ours=around.sole)
        direct = _controller(meta)
        kind = next((one for one in self._kinds() if direct is not None and _is_of(direct, one)), None)
        if direct is None or kind is None:
            return None
        if kind is JOBS:
            return PodOwner(direct["name"], direct["uid"])
        return PodOwner(
            direct["name"], member_uid(direct["uid"], FRAMEWORKS[kind].role_of(meta.get("labels") or _NOTHING))
        )

    def of(self, meta: Object) -> Ancestor | None:
        """Return the topmost ancestor of the object; None if the object has no ancestor of a kind that Phalanx reads,
        or if that ancestor is not in the caches yet."""
        kinds = self._kinds()
        if len(kinds) == 1:
            return None  # only Jobs are read, and Jobs have no ancestors
        found: tuple[Kind, Object] | None = None
        said = [meta.get("labels") or _NOTHING]
        for _ in range(_MOST):
            above = self._above(meta, kinds)
            if above is None:
                break
            kind, obj = above
            meta = obj["metadata"]
            if kind is not JOBS:
                found = above
            said.append(meta.get("labels") or _NOTHING)
        if found is None:
            return None
        framework = FRAMEWORKS[found[0]]
        return Ancestor(*found, next((role for one in said if (role := framework.role_of(one))), ""))

    def members(self, kind: Kind, obj: Object) -> list[str]:
        """Return the uids of the gang members that represent the roles of this object. The object has such members only
        until its ancestor is in the caches."""
        return [adapter.member(obj) for adapter in adapters(kind, obj, self.made(kind, obj))]

    def made(self, kind: Kind, obj: Object) -> Object | None:
        """If the object is a TrainJob, return the JobSet that was created from it, because the roles of a TrainJob are
        read from its JobSet. Otherwise return None."""
        if kind is not TRAIN_JOB.kind or JOB_SET.kind not in self._kinds():
            return None
        meta = obj["metadata"]
        found = self._objects(JOB_SET.kind).get(f"{meta['namespace']}/{meta['name']}")
        owner = _controller(found["metadata"]) if found is not None else None
        return found if owner is not None and owner["uid"] == meta["uid"] else None

    def _above(self, meta: Object, kinds: tuple[Kind, ...]) -> tuple[Kind, Object] | None:
        owner = _controller(meta)
        if owner is None:
            return None
        labels = meta.get("labels") or _NOTHING
        if (kind := next((one for one in kinds if _is_of(owner, one)), None)) is not None:
            return self._named(kind, meta, owner["name"], owner["uid"])
        if SPARK.kind in kinds and _APPLICATION in labels:
            return self._named(SPARK.kind, meta, labels[_APPLICATION])
        if WRAPPED_BY in labels:  # the pod of a wrapped Deployment, for example
            uid = (meta.get("annotations") or _NOTHING).get(WRAPPER_UID, "")
            wrappers = (kind for kind in (APP_WRAPPERS, IBM_APP_WRAPPERS) if kind in kinds)
            found = (self._named(kind, meta, labels[WRAPPED_BY], uid) for kind in wrappers)
            return next((each for each in found if each is not None), None)
        return None

    def _named(self, kind: Kind, meta: Object, name: str, uid: str = "") -> tuple[Kind, Object] | None:
        """Return the object of that name in the namespace; None if it does not exist or has another uid."""
        obj = self._objects(kind).get(f"{meta['namespace']}/{name}")
        return None if obj is None or uid not in ("", obj["metadata"]["uid"]) else (kind, obj)


def _is_of(owner: Object, kind: Kind) -> bool:
    """Return whether an owner is of the kind. The API group is compared too, because Volcano also has a kind Job."""
    if owner["kind"] != kind.name:
        return False
    return "apiVersion" not in owner or owner["apiVersion"].rpartition("/")[0] == kind.group


def _controller(meta: Object) -> Object | None:
    return next((one for one in meta.get("ownerReferences") or () if one.get("controller")), None)
