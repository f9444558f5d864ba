"""Build and store the views of gangs. A *view* of a gang is the data that the gang's dialect gets about it. A view also
contains the reasons and evictions that were reported since the previous view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from phalanx.client.connection import Object
from phalanx.client.kind import PODS, Kind
from phalanx.dialects.frame.dialect import Eviction, GangStage, GangView
from phalanx.kube.capacity.dialect_watch import DialectWatch
from phalanx.kube.gang.departure import Departure
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.objects import GangObjects
from phalanx.kube.status.told import as_pod, outcome_of, tell
from phalanx.model.reason import Reason


class GangViews:
    """The views of gangs (the data that dialects get about them). `told`: for each dialect, a map from a gang to its
    latest view. `cache`: a function that returns the objects of a kind. `gang_of_pod`: a function that gets the uid of
    a pod and returns the pod's present gang."""

    def __init__(
        self,
        watch: DialectWatch,
        gangs: Mapping[str, GangLifecycle],
        cache: Callable[[Kind], Mapping[str, Object]],
        gang_of_pod: Callable[[str], str | None],
    ) -> None:
        self.told: dict[str, dict[str, GangView]] = {name: {} for name in watch.dialects}
        self._watch, self._gangs, self._cache, self._gang_of_pod = watch, gangs, cache, gang_of_pod
        self._reasons: dict[str, Reason] = {}
        self._departures: dict[str, Departure] = {}  # gang -> the last departure that a view contained
        self._pods: dict[str, dict[str, str]] = {}  # gang -> key of each of its bare pods -> uid

    def of(self, gang: str) -> tuple[str, GangView | None]:
        """Return the dialect of the gang, and the latest view of the gang (the data that the dialect gets)."""
        name = self._watch.claims.claimed.get(gang, "")
        return name, self.told.get(name, {}).get(gang)

    def wait(self, gang: str, reason: Reason) -> None:
        """Record why the gang waits."""
        self._reasons[gang] = reason

    def refresh(self, name: str, id: str) -> GangView | None:
        """Return the present view of the gang (the data that the dialect `name` gets about it); None if no object of
        the gang is left."""
        known = self.told[name]
        told = self._look(id, known.get(id))
        if told is None:
            for each in (self._reasons, self._departures, self._pods, known):
                each.pop(id, None)
            return None
        if told.stage in (GangStage.RESERVED, GangStage.STARTING, GangStage.RUNNING):
            self._reasons.pop(id, None)
        known[id] = told
        return told

    def _look(self, id: str, last: GangView | None) -> GangView | None:
        gang, pods = self._gangs.get(id), self._bare_pods(id)
        if gang is None:  # the gang has ended, but its bare pods still exist
            if last is None or not pods:
                return None
            return replace(last, stage=GangStage.FINISHED, owners=tuple(pods), outcome=outcome_of(pods), evicted=None)
        eviction = self._eviction(gang)
        if eviction is not None:  # a newer reason, which the core has reported since then, stays
            self._reasons.setdefault(id, eviction.reason)
        return tell(gang, self._cache, pods, self._reasons.get(id), eviction)

    def _bare_pods(self, id: str) -> list[Object]:
        """Return the existing bare pods of the gang, oldest first, including pods that have ended, and pods of a Job
        that is no member of the gang. Pods that no longer belong to the gang, because their Job was deleted or their
        labels name another gang, are left out."""
        gang = self._gangs.get(id)
        objects = gang.objects if gang is not None else GangObjects(id)
        bare = [pod for pod in objects.pods.values() if pod.owner is None or not objects.jobs]
        known = {**self._pods.pop(id, {}), **{pod.key: pod.uid for pod in bare}}
        if known := {key: uid for key, uid in known.items() if self._gang_of_pod(uid) == id}:
            self._pods[id] = known
        found, cache = [], self._cache(PODS)
        for key, uid in known.items():
            obj = cache.get(key)
            if uid in self._watch.overlay.stand_ins:
                found.append(as_pod(self._watch.overlay.stand_ins[uid][1].pod))
            elif obj is not None and obj["metadata"]["uid"] == uid:
                found.append(as_pod(obj))
        return found

    def _eviction(self, gang: GangLifecycle) -> Eviction | None:
        """Return why the gang leaves or has left its nodes, if this began after the last view of the gang was built;
        otherwise None."""
        departure = gang.departure
        if departure is None or self._departures.get(gang.id) is departure:
            return None
        self._departures[gang.id] = departure
        by = self._gangs.get(departure.mark.by) if departure.mark is not None else None
        preemptor = tell(by, self._cache, self._bare_pods(by.id), None, None) if by is not None else None
        return Eviction(reason=departure.why, preempted=departure.preempted, preemptor=preemptor)
