"""Which volume suits a claim, and what a volume that is made for a claim looks like.

A volume suits if it is nobody's, of the claim's class and mode, offers its access modes, is large enough and has the
labels that it selects; the smallest one is taken. Source: pkg/controller/volume/persistentvolume (`findBestMatch`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from phalanx.client.connection import Object
from phalanx.client.quantity import amount
from phalanx.embedded.controllers.runtime.selector import selects

PROVISIONER = "phalanx.dev/local"
CLASS = "local"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def default_class(classes: Iterable[Object]) -> Object | None:
    """Return the class of claims that name none: the newest of those marked so, as admission takes it."""
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
    """Return whether the volume says that it is this claim's: by name, and by uid if it has one."""
    said, meta = volume["spec"].get("claimRef"), claim["metadata"]
    if not said or (said.get("namespace"), said.get("name")) != (meta["namespace"], meta["name"]):
        return False
    return said.get("uid") in (None, "", meta["uid"])


def best_match(claim: Object, volumes: Iterable[Object]) -> Object | None:
    """Return the volume for a claim that has none."""
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
    """Return why no directory can be made for the claim; "": one can."""
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
    """Return what a volume says of its claim."""
    meta = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
