"""Kueue's objects, written short."""

from __future__ import annotations

from typing import Any

from phalanx.client.kind import NAMESPACES, Kind
from phalanx.dialects.frame.dialect import Object, Objects
from phalanx.dialects.job_kinds.form import nested, patched
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.job_kinds.replica_types import TRAINING
from phalanx.dialects.job_kinds.spark import SPARK
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions, define


def named(name: str, namespace: str = "", **parts: Any) -> Object:
    space = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, "uid": f"uid-{name}", **space}, **parts}


# The part of a spec without which Kueue or the kind's schema refuses a job.
_PODS: dict[Kind, Object] = {
    RAY_CLUSTER.kind: {"headGroupSpec": {}},
    RAY_JOB.kind: {"rayClusterSpec": {}},
    RAY_SERVICE.kind: nested(("rayClusterConfig", "headGroupSpec"), {}),
    SPARK.kind: {"driver": {}, "executor": {}},
    **{each.kind: {each.specs: {}} for each in TRAINING},
}


def with_pods(kind: Kind, spec: Object) -> Object:
    """The spec with the fields that define the pods of a job of this kind."""
    return patched(_PODS.get(kind, {}), spec)


def group(**flavors: dict[str, Any]) -> Object:
    """A resource group: flavor -> resource -> nominal quota, or a mapping of all three quotas."""
    first = next(iter(flavors.values()))
    return {
        "coveredResources": list(first),
        "flavors": [
            {"name": name, "resources": [_quota(*pair) for pair in of.items()]} for name, of in flavors.items()
        ],
    }


def _quota(resource: str, said: Any) -> Object:
    return {"name": resource, **(said if isinstance(said, dict) else {"nominalQuota": said})}


def cluster_queue(name: str, *groups: Object, **spec: Any) -> Object:
    return named(name, spec={"namespaceSelector": {}, "resourceGroups": list(groups), **spec})


def local_queue(name: str, of: str, **spec: Any) -> Object:
    return named(name, "default", spec={"clusterQueue": of, **spec})


def objects(*, flavors: tuple[str, ...] = ("f",), **kinds_: list[Object]) -> Objects:
    """`cluster_queues=[…]` and so on, besides flavors without settings and the namespace default."""
    found = {kinds.RESOURCE_FLAVORS: [named(name, spec={}) for name in flavors], NAMESPACES: [named("default")]}
    found |= {getattr(kinds, name.upper()): some for name, some in kinds_.items()}
    return {kind: {_key(one): one for one in some} for kind, some in found.items()}


def _key(obj: Object) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])


def defined(**some: Any) -> KueueDefinitions:
    return define(objects(**some))
