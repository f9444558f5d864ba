"""Bind claims to volumes, create volumes of the class `local` as directories of this machine, and release the volumes
of deleted claims.

One worker processes one object at a time, so no volume is bound to two claims. A claim of a class with
WaitForFirstConsumer stays unbound until the scheduler has written the node of the pod into an annotation of the claim.
A claim without a class gets the default class when it is processed, as in Kubernetes (`assignDefaultStorageClass`). If
the class has another provisioner, that provisioner creates the volume, and this controller binds it.

The name of a volume is derived from the uid of its claim, and its directory has the name of the volume. So the
controller never removes a path that a user has chosen. Source: pkg/controller/volume/persistentvolume,
sig-storage-lib-external-provisioner.

The first functions choose a volume for a claim, or create a volume. A volume is suitable if it belongs to no claim, has
the storage class and the volume mode of the claim, offers the access modes of the claim, is large enough, and matches
the claim's selector. The smallest suitable volume is chosen. Source: pkg/controller/volume/persistentvolume
(`findBestMatch`)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from phalanx.client.quantity import amount
from phalanx.embedded.controllers.runtime.calls import Calls, gone
from phalanx.embedded.controllers.runtime.pod_state import is_deleting, selects
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue
from phalanx.embedded.controllers.runtime.recorder import EventRecorder, marking
from phalanx.embedded.trees import remove_tree

PROVISIONER = "phalanx.dev/local"
CLASS = "local"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def default_class(classes: Iterable[Object]) -> Object | None:
    """Return the storage class for claims without a class: the newest class that is marked as default. Admission
    chooses the same class."""
    marked = [one for one in classes if (one["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"]
    return max(marked, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]), default=None)


def local_class(*, default: bool) -> Object:
    """Return the StorageClass whose volumes are directories of this machine."""
    meta: Object = {"name": CLASS}
    if default:
        meta["annotations"] = {_DEFAULT_CLASS: "true"}
    return {
        "metadata": meta,
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def is_for(volume: Object, claim: Object) -> bool:
    """Return True if the volume's claimRef is this claim: the name must be equal and, if the claimRef has a uid, the
    uid as well."""
    said, meta = volume["spec"].get("claimRef"), claim["metadata"]
    if not said or (said.get("namespace"), said.get("name")) != (meta["namespace"], meta["name"]):
        return False
    return said.get("uid") in (None, "", meta["uid"])


def best_match(claim: Object, volumes: Iterable[Object]) -> Object | None:
    """Return the most suitable volume for an unbound claim; None if no volume is suitable."""
    known = list(volumes)
    reserved = [one for one in known if is_for(one, claim)]
    fitting = [one for one in known if not one["spec"].get("claimRef") and _suits(one, claim)]
    return min(reserved or fitting, key=lambda one: (_size(one), one["metadata"]["name"]), default=None)


def _suits(volume: Object, claim: Object) -> bool:
    spec, wanted = volume["spec"], claim["spec"]
    return (
        "deletionTimestamp" not in volume["metadata"]
        and (spec.get("storageClassName") or "") == (wanted.get("storageClassName") or "")
        and (spec.get("volumeMode") or "Filesystem") == (wanted.get("volumeMode") or "Filesystem")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and _size(volume) >= amount("storage", wanted["resources"]["requests"]["storage"])
        and selects(wanted.get("selector") or {}, volume["metadata"].get("labels") or {})
    )


def _size(volume: Object) -> int:
    return amount("storage", volume["spec"]["capacity"]["storage"])


def refusal(claim: Object) -> str:
    """Return the reason why no directory can be created for the claim; "" if it can be created."""
    spec = claim["spec"]
    if spec.get("volumeMode") == "Block":
        return f"{PROVISIONER} makes directories, not block devices: leave volumeMode out"
    if spec.get("dataSource") or spec.get("dataSourceRef"):
        return f"{PROVISIONER} makes empty volumes: no dataSource is copied into them"
    if spec.get("selector"):
        return f"{PROVISIONER} makes new volumes, which no selector can match: leave it out"
    return ""


def made_for(claim: Object, storage_class: Object, folder: Path) -> Object:
    """Return the volume for the claim, a directory below `folder`."""
    meta, spec, name = claim["metadata"], claim["spec"], f"pvc-{claim['metadata']['uid']}"
    node = (meta.get("annotations") or {}).get(SELECTED_NODE)
    own = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "volumeMode": "Filesystem",
            "storageClassName": storage_class["metadata"]["name"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "claimRef": reference(claim),
            "hostPath": {"path": str(folder / name), "type": "DirectoryOrCreate"},
            **({"nodeAffinity": {"required": {"nodeSelectorTerms": [own]}}} if node else {}),
        },
    }


def reference(claim: Object) -> Object:
    """Return the reference to the claim for the spec of a volume."""
    meta = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }


_COMPONENT = "persistentvolume-controller"
_BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
_BY_US = {"pv.kubernetes.io/bound-by-controller": "yes"}
_OWN_NAME = re.compile(r"pvc-[0-9a-f-]{36}")


class VolumeBinding:
    """Call `start`, then `run`. `folder`: the folder in which directories for volumes are created; if it is None,
    claims are only bound to existing volumes."""

    def __init__(
        self, calls: Calls, recorder: EventRecorder, folder: Path | None, *, retry: Retry | None = None
    ) -> None:
        self._calls, self._recorder, self._folder = calls, recorder, folder
        self._caches = [calls.cache(kind) for kind in (VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES)]
        self._claims, self._volumes, self._classes = self._caches
        self.queue = WorkQueue("volumes", self._look, workers=1, retry=retry)
        self.queue.on_defect = marking(recorder, self._claims, _COMPONENT)

    def start(self) -> None:
        """Subscribe to changes of the kinds that the controller reads."""
        self._claims.subscribe(self._claim_changed)
        self._volumes.subscribe(self._volume_changed)
        self._classes.subscribe(lambda change: self._look_at_waiting())

    async def run(self) -> None:
        """Work until cancelled."""
        for cache in self._caches:
            await cache.synced.wait()
        if self._folder is not None:
            await self._install(default=default_class(self._classes.objects.values()) is None)
        await self.queue.run()

    async def _install(self, *, default: bool) -> None:
        head = {"apiVersion": STORAGE_CLASSES.api_version, "kind": STORAGE_CLASSES.name}
        try:
            await self._calls.create(STORAGE_CLASSES, {**head, **local_class(default=default)})
        except ApiRefusal as error:
            if error.code != 409:
                raise

    # --- changes --------------------------------------------------------------------------------------------------

    def _claim_changed(self, change: Change) -> None:
        """Reconcile a claim that changed, and its volume. The key of a claim is `namespace/name`; the key of a volume
        is its name."""
        if change.new is not None:
            self.queue.add(key_of(change.new))
        elif change.old is not None and (volume := change.old["spec"].get("volumeName")):
            self.queue.add(volume)

    def _volume_changed(self, change: Change) -> None:
        if change.new is not None:
            self.queue.add(change.new["metadata"]["name"])
        if change.old is None or change.new is None:
            self._look_at_waiting()

    def _look_at_waiting(self) -> None:
        for key, claim in self._claims.objects.items():
            if _phase(claim) != "Bound":
                self.queue.add(key)

    async def _look(self, key: str) -> None:
        if "/" not in key:
            if (volume := self._volumes.objects.get(key)) is not None:
                await self._look_at_volume(volume)
            return
        claim = self._claims.objects.get(key)
        if claim is None or is_deleting(claim):
            return
        try:
            await self._look_at_claim(claim)
        except ApiRefusal as error:
            if not gone(error):
                raise

    # --- claims ---------------------------------------------------------------------------------------------------

    async def _look_at_claim(self, claim: Object) -> None:
        named = claim["spec"].get("volumeName")
        if not named:
            await self._find(claim)
            return
        volume = self._volumes.objects.get(named)
        if volume is None and _phase(claim) == "Bound":
            self._tell(claim, "Warning", "ClaimLost", "Bound claim has lost its PersistentVolume. Data on it is lost!")
            await self._write_claim(claim, {"phase": "Lost"})
        elif volume is not None and (is_for(volume, claim) or not volume["spec"].get("claimRef")):
            await self._bind(claim, volume)
        elif volume is not None:
            why = f'volume "{named}" already bound to a different claim.'
            self._tell(claim, "Warning", "FailedBinding", why)

    async def _find(self, claim: Object) -> None:
        """Find an existing volume for a claim that names no volume, or create a volume."""
        spec, meta = claim["spec"], claim["metadata"]
        chosen = (meta.get("annotations") or {}).get(SELECTED_NODE)
        given = default_class(self._classes.objects.values()) if spec.get("storageClassName") is None else None
        found = given or self._classes.objects.get(spec.get("storageClassName") or "")
        waits = found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"
        reserved = next((one for one in self._volumes.objects.values() if is_for(one, claim)), None)
        if reserved is not None:
            await self._bind(claim, reserved)
        elif waits and not chosen:
            text = "waiting for first consumer to be created before binding"
            self._tell(claim, "Normal", "WaitForFirstConsumer", text)
        elif given is not None:
            body = {"spec": {"storageClassName": given["metadata"]["name"]}}
            await self._calls.patch(VOLUME_CLAIMS, claim, {"metadata": {"uid": meta["uid"]}, **body})
        elif (volume := best_match(claim, self._volumes.objects.values())) is not None:
            await self._bind(claim, volume)
        elif found is not None and found["provisioner"] == PROVISIONER:
            await self._make(claim, found)
        elif found is None:
            name = spec.get("storageClassName")
            text = f'storageclass.storage.k8s.io "{name}" not found' if name else _NO_CLASS
            self._tell(claim, "Warning" if name else "Normal", "ProvisioningFailed" if name else "FailedBinding", text)

    async def _make(self, claim: Object, storage_class: Object) -> None:
        if self._folder is None:
            return
        if why := refusal(claim):
            self._tell(claim, "Warning", "ProvisioningFailed", why)
            return
        volume = made_for(claim, storage_class, self._folder)
        name = volume["metadata"]["name"]
        await asyncio.to_thread((self._folder / name).mkdir, mode=0o777, parents=True, exist_ok=True)
        try:
            made = await self._calls.create(VOLUMES, volume)
        except ApiRefusal as error:
            if error.code != 409:
                raise
            made = await self._calls.get(VOLUMES, name)
        self._tell(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")
        await self._bind(claim, made)

    async def _bind(self, claim: Object, volume: Object) -> None:
        """Bind the claim and the volume. Each step is written into the objects, so that the next reconciliation
        completes an interrupted binding."""
        own = dict(volume["spec"].get("claimRef") or {})
        if own.get("uid") != claim["metadata"]["uid"]:
            body = {"spec": {"claimRef": reference(claim)}, "metadata": _at(volume, {} if own else _BY_US)}
            volume = await self._calls.patch(VOLUMES, volume, body)
        name = volume["metadata"]["name"]
        if claim["spec"].get("volumeName") != name or not _has(claim, _BOUND):
            notes = {**_BOUND, **({} if claim["spec"].get("volumeName") else _BY_US)}
            body = {"spec": {"volumeName": name}, "metadata": _at(claim, notes)}
            claim = await self._calls.patch(VOLUME_CLAIMS, claim, body)
        spec = volume["spec"]
        status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": spec["capacity"]}
        await self._write_claim(claim, status)
        await self._write_volume(volume, "Bound")

    # --- volumes --------------------------------------------------------------------------------------------------

    async def _look_at_volume(self, volume: Object) -> None:
        said = volume["spec"].get("claimRef")
        if not said:
            await self._write_volume(volume, "Available")
            return
        key = f"{said.get('namespace')}/{said.get('name')}"
        if (claim := self._claims.objects.get(key)) is not None and is_for(volume, claim):
            self.queue.add(key)
        elif not said.get("uid"):
            await self._write_volume(volume, "Available")
        elif await self._has_gone(said):
            await self._release(volume)

    async def _has_gone(self, said: Object) -> bool:
        """Return True if the claim does not exist any more. The claim is read from the API server, because the watch of
        claims may lag behind the watch of volumes."""
        if not said.get("name") or not said.get("namespace"):
            return True
        try:
            claim = await self._calls.get(VOLUME_CLAIMS, said["name"], said["namespace"])
        except ApiRefusal as error:
            if error.code == 404:
                return True
            raise
        return bool(claim["metadata"]["uid"] != said["uid"])

    async def _release(self, volume: Object) -> None:
        await self._write_volume(volume, "Released")
        meta = volume["metadata"]
        ours = (meta.get("annotations") or {}).get(PROVISIONED_BY) == PROVISIONER
        if volume["spec"].get("persistentVolumeReclaimPolicy") != "Delete" or not ours or self._folder is None:
            return
        if _OWN_NAME.fullmatch(meta["name"]):
            await asyncio.to_thread(remove_tree, self._folder / meta["name"])
        if not is_deleting(volume):
            await self._calls.remove(VOLUMES, volume, policy=None)

    # --- writes ---------------------------------------------------------------------------------------------------

    async def _write_claim(self, claim: Object, status: Object) -> None:
        have = claim.get("status") or {}
        if any(have.get(key) != value for key, value in status.items()):
            body = {"metadata": {"uid": claim["metadata"]["uid"]}, "status": status}
            await self._calls.patch(VOLUME_CLAIMS, claim, body, subresource="status")

    async def _write_volume(self, volume: Object, phase: str) -> None:
        if _phase(volume) != phase:
            body = {"metadata": {"uid": volume["metadata"]["uid"]}, "status": {"phase": phase}}
            await self._calls.patch(VOLUMES, volume, body, subresource="status")

    def _tell(self, claim: Object, type: str, reason: str, message: str) -> None:
        self._recorder.tell(_COMPONENT, claim, type, reason, message)


_NO_CLASS = "no persistent volumes available for this claim and no storage class is set"


def _phase(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase", ""))


def _has(obj: Object, notes: dict[str, str]) -> bool:
    return notes.items() <= (obj["metadata"].get("annotations") or {}).items()


def _at(obj: Object, notes: dict[str, str]) -> Object:
    """Return the metadata of a patch: the object's uid and resourceVersion as preconditions, and the annotations to
    set."""
    meta = obj["metadata"]
    said: Object = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    return {**said, "annotations": notes} if notes else said
