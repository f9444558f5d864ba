"""Keep a deleted PodGroup as long as a pod that has not ended names the group. Then remove the group's finalizer.

Source: pkg/controller/scheduling/podgroupprotection of Kubernetes 1.36."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import POD_GROUPS, PODS
from phalanx.embedded.controllers.runtime.calls import Calls, gone
from phalanx.embedded.controllers.runtime.pod_state import is_deleting
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue

FINALIZER = "scheduling.k8s.io/podgroup-protection"
_OVER = ("Succeeded", "Failed")


class PodGroupProtection:
    """The controller of the finalizers of PodGroups. Call `start`, then run `queue`."""

    def __init__(self, calls: Calls, *, retry: Retry | None = None) -> None:
        self._calls, self._pods, self._groups = calls, calls.cache(PODS), calls.cache(POD_GROUPS)
        self.queue = WorkQueue("PodGroup protection", self._look, workers=2, retry=retry)

    def start(self) -> None:
        self._groups.subscribe(self._group_changed)
        self._pods.subscribe(self._pod_changed)

    def _group_changed(self, change: Change) -> None:
        if change.new is not None and is_deleting(change.new):
            self.queue.add(key_of(change.new))

    def _pod_changed(self, change: Change) -> None:
        pod = change.new or change.old
        assert pod is not None
        key = group_key(pod)
        if key and (change.new is None or _over(change.new)):
            group = self._groups.objects.get(key)
            if group is not None and is_deleting(group):
                self.queue.add(key)

    async def _look(self, key: str) -> None:
        group = self._groups.objects.get(key)
        finalizers = group["metadata"].get("finalizers") or [] if group is not None else []
        if group is None or not is_deleting(group) or FINALIZER not in finalizers:
            return
        # Also list the pods of the group at the server, because the watch of pods may lag behind the watch of groups.
        if _is_named(key, self._pods.objects.values()) or _is_named(
            key, await self._calls.list(PODS, key.partition("/")[0])
        ):
            return
        # a precondition, because other clients may change finalizers as well
        meta = {"resourceVersion": group["metadata"]["resourceVersion"]}
        rest = [one for one in finalizers if one != FINALIZER]
        try:
            await self._calls.patch(POD_GROUPS, group, {"metadata": {**meta, "finalizers": rest}})
        except ApiRefusal as refusal:
            if not gone(refusal):
                raise


def _is_named(key: str, pods: Iterable[Object]) -> bool:
    return any(group_key(pod) == key for pod in pods if not _over(pod))


def _over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _OVER


def group_key(pod: Object) -> str:
    """Return `namespace/name` of the PodGroup that a pod names; "" for none."""
    name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return f"{pod['metadata']['namespace']}/{name}" if name else ""
