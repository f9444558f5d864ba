"""Delay the deletion of claims and volumes that are in use. A claim is in use while a pod that has not ended mounts it;
a volume is in use while it is bound to a claim. When the object is no longer in use, the controller removes the
finalizer that admission added at the creation of the object.

Source: k8s.io/kubernetes/pkg/controller/volume/{pvcprotection,pvprotection}."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import PODS, VOLUME_CLAIMS, VOLUMES, Kind
from phalanx.embedded.controllers.runtime.calls import Calls, gone
from phalanx.embedded.controllers.runtime.pod_state import is_deleting
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue

CLAIM_FINALIZER, VOLUME_FINALIZER = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
_OVER = ("Succeeded", "Failed")


class VolumeProtection:
    """The controller of the finalizers of claims and volumes. Call `start`, then run `queue`. The key of a claim is
    `namespace/name`; the key of a volume is its name."""

    def __init__(self, calls: Calls, *, retry: Retry | None = None) -> None:
        self._calls = calls
        self._pods, self._claims, self._volumes = map(calls.cache, (PODS, VOLUME_CLAIMS, VOLUMES))
        self.queue = WorkQueue("volume protection", self._look, workers=4, retry=retry)

    def start(self) -> None:
        for cache in (self._claims, self._volumes):
            cache.subscribe(self._changed)
        self._pods.subscribe(self._pod_changed)

    def _changed(self, change: Change) -> None:
        if change.new is not None and is_deleting(change.new):
            self.queue.add(key_of(change.new))

    def _pod_changed(self, change: Change) -> None:
        if change.new is not None and not _over(change.new):
            return
        pod = change.new or change.old
        assert pod is not None
        for claim in claims_of(pod):
            if (found := self._claims.objects.get(claim)) is not None and is_deleting(found):
                self.queue.add(claim)

    async def _look(self, key: str) -> None:
        if "/" in key:
            claim = self._claims.objects.get(key)
            used = claim is None or not is_deleting(claim) or await self._is_used(key)
            await self._let_go(VOLUME_CLAIMS, claim, CLAIM_FINALIZER, used=used)
            return
        volume = self._volumes.objects.get(key)
        used = volume is not None and (volume.get("status") or {}).get("phase") == "Bound"
        await self._let_go(VOLUMES, volume, VOLUME_FINALIZER, used=used)

    async def _is_used(self, claim: str) -> bool:
        """Return True if a pod that has not ended uses the claim. Before it returns False, the function reads the pods
        from the API server, because the watch of pods may lag behind the watch of claims."""
        if _used(claim, self._pods.objects.values()):
            return True
        return _used(claim, await self._calls.list(PODS, claim.partition("/")[0]))

    async def _let_go(self, kind: Kind, obj: Object | None, finalizer: str, *, used: bool) -> None:
        finalizers = obj["metadata"].get("finalizers") or [] if obj is not None else []
        if obj is None or used or not is_deleting(obj) or finalizer not in finalizers:
            return
        # The patch has the resourceVersion as a precondition, because other controllers may have changed other
        # finalizers of the object in the meantime.
        meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        try:
            await self._calls.patch(
                kind, obj, {"metadata": {**meta, "finalizers": [one for one in finalizers if one != finalizer]}}
            )
        except ApiRefusal as refusal:
            if not gone(refusal):
                raise


def _used(claim: str, pods: Iterable[Object]) -> bool:
    return any(claim in claims_of(pod) for pod in pods if not _over(pod))


def _over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _OVER


def claims_of(pod: Object) -> set[str]:
    """Return the keys of the claims that a pod uses. The claim of an ephemeral volume has a name that consists of the
    names of the pod and the volume."""
    meta, found = pod["metadata"], set()
    for volume in pod["spec"].get("volumes") or ():
        if named := volume.get("persistentVolumeClaim"):
            found.add(f"{meta['namespace']}/{named['claimName']}")
        elif "ephemeral" in volume:
            found.add(f"{meta['namespace']}/{meta['name']}-{volume['name']}")
    return found
