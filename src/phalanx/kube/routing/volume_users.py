"""Find the pods and Jobs to reconcile when storage objects change.

A pod may become schedulable because a claim is bound, a volume is created, the only pod that may use a claim ends, or a
driver reports its limit of attachments. None of the changed objects names the pod. So this module indexes pods and Jobs
by their claims. Pods without claims cause no work.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from phalanx.client.connection import Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import JOBS, NODES, PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, Kind
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.template.pod_shape import PodRequirements, volume_claims
from phalanx.kube.read.template.volumes import VolumeClaims, with_claims
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.kube.routing.caches import ObjectCaches
from phalanx.kube.routing.fence import Take
from phalanx.model.node import Node


class VolumeUsers:
    """An index of the pods and Jobs that use each claim. `take`: a map from a kind (node, pod, Job, or a kind that is
    read as a Job) to the function that reads an object of that kind again."""

    def __init__(self, caches: ObjectCaches, take: Mapping[Kind, Take]) -> None:
        self._caches, self._take = caches, take

    @property
    def volumes(self) -> VolumeClaims | None:
        """Return the constraints of claims; None if the scheduler may not list claims, volumes and classes."""
        return self._caches.admission.volumes

    def on_change(self, change: Change) -> None:
        volumes, obj = self.volumes, change.new or change.old or {}
        if volumes is None:
            return
        match change.kind.plural:
            case VOLUME_CLAIMS.plural:
                self._read_users(key_of(obj))
            case VOLUMES.plural:
                if claim := volumes.claim_of(obj):
                    self._read_users(claim)
            case STORAGE_CLASSES.plural:
                self._read_users()
            case _ if volumes.recount():
                self._read(set(self._caches.objects(NODES)), NODES)
                self._read_users()
            case _:
                self._read({obj["metadata"]["name"]}, NODES)

    def node(self, node: Node) -> Node:
        """Return the node with the number of volumes that CSI drivers can attach to it."""
        return node if self.volumes is None else self.volumes.with_places(node)

    def job(self, job: BatchJob, template: Object) -> None:
        """Add the Job to the index, under each volume claim in its pod template. `template`: the spec of its pods."""
        if self.volumes is not None and job.requirements.claims:
            self.volumes.asks(job.namespace, job.name, volume_claims(template))

    def pod(self, pod: Pod) -> Pod:
        """Add the constraints of the pod's claims to the pod, and update the index. If only one pod may use a claim,
        and this pod has released it, the pods that wait for the claim are read again."""
        for claim in pod.claims if self.volumes is not None else ():
            self._note(pod, claim)
        found = self.volumes.look(pod.namespace, pod.claims, pod.name, pod.node) if self.volumes is not None else None
        ask = with_claims(PodRequirements(pod.shape, pod.obstacle), found, ours=pod.ours and not pod.pinned)
        unplaced = tuple(found.unplaced) if found is not None and not pod.pinned else ()
        return replace(pod, shape=ask.shape, obstacle=ask.obstacle, unplaced=unplaced)

    def gone(self, pod: Pod) -> None:
        for claim in pod.claims if self.volumes is not None else ():
            self._note(replace(pod, phase="Succeeded", over=True, charged=False), claim)

    def _note(self, pod: Pod, claim: str) -> None:
        assert self.volumes is not None
        if self.volumes.known(pod.namespace, pod.name, claim) is not pod.over:
            return
        (self.volumes.leaves if pod.over else self.volumes.uses)(pod.namespace, pod.name, (claim,))
        if self.volumes.exclusive(pod.namespace, claim):
            self._read_users(f"{pod.namespace}/{claim}")

    def _read_users(self, claim: str = "") -> None:
        """Read the pods and Jobs that use this volume claim again. If `claim` is empty, read all users of claims
        again."""
        assert self.volumes is not None
        self._read(self.volumes.askers(claim), *self._caches.job_kinds)
        self._read(self.volumes.users(claim), PODS)

    def _read(self, keys: set[str], *kinds: Kind) -> None:
        for key in sorted(keys):
            found = [(kind, self._caches.objects(kind).get(key)) for kind in kinds]
            if all(obj is None for _, obj in found):
                keys.discard(key)
            for kind, obj in found:
                if obj is not None:
                    take = self._take[JOBS if kind in self._caches.job_kinds else kind]
                    take(Change(kind=kind, old=obj, new=obj))
