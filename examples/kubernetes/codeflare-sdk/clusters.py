"""As a user of the CodeFlare SDK writes it: RayClusters in a LocalQueue. One is admitted, the next waits until the
first is deleted. KubeRay's operator, which makes the pods of a RayCluster, is not there: this is about the queue."""

import time
from collections.abc import Callable
from typing import Any

from codeflare_sdk import Cluster, ClusterConfiguration, list_all_queued, list_local_queues
from kubernetes import client, config, utils

SPACE = "default"
ANY: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
RAY_CLUSTERS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rayclusters.ray.io"},
    "spec": {
        "group": "ray.io",
        "scope": "Namespaced",
        "names": {"kind": "RayCluster", "plural": "rayclusters", "singular": "raycluster"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANY, "status": ANY}}},
            }
        ],
    },
}
QUEUES: list[tuple[str, str, dict[str, Any]]] = [
    ("resourceflavors", "ResourceFlavor", {"metadata": {"name": "any"}}),
    (
        "clusterqueues",
        "ClusterQueue",
        {
            "metadata": {"name": "research"},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu", "memory"],
                        "flavors": [
                            {
                                "name": "any",
                                "resources": [
                                    {"name": "cpu", "nominalQuota": 2},
                                    {"name": "memory", "nominalQuota": "8Gi"},
                                ],
                            }
                        ],
                    }
                ],
            },
        },
    ),
]


def until(what: str, true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 120.0
    while not true():
        assert time.monotonic() < end_s, f"not so after two minutes: {what}"
        time.sleep(0.5)  # the SDK answers how it is now, and has no watch to wait with


def prepare() -> client.CustomObjectsApi:
    """What an administrator does once: KubeRay's definition, and a queue."""
    config.load_kube_config()
    utils.create_from_dict(client.ApiClient(), RAY_CLUSTERS)
    objects = client.CustomObjectsApi()
    kueue = ("kueue.x-k8s.io", "v1beta1")
    for plural, kind, obj in QUEUES:
        objects.create_cluster_custom_object(*kueue, plural, {"apiVersion": "/".join(kueue), "kind": kind, **obj})
    local = {"metadata": {"name": "team", "annotations": {"kueue.x-k8s.io/default-queue": "true"}}}
    body = {"apiVersion": "/".join(kueue), "kind": "LocalQueue", **local, "spec": {"clusterQueue": "research"}}
    objects.create_namespaced_custom_object(*kueue, SPACE, "localqueues", body)
    return objects


def ray_cluster(name: str) -> Cluster:
    small = {"cpu_requests": "750m", "cpu_limits": "750m", "memory_requests": "64Mi", "memory_limits": "64Mi"}
    both = {f"{role}_{key}": text for role in ("head", "worker") for key, text in small.items()}
    return Cluster(ClusterConfiguration(name=name, namespace=SPACE, num_workers=1, image="host", **both))


def main() -> None:
    objects = prepare()

    def suspended(name: str) -> bool:
        found = objects.get_namespaced_custom_object("ray.io", "v1", SPACE, "rayclusters", name)
        return bool(found["spec"].get("suspend"))

    def admitted() -> list[str]:
        found = objects.list_namespaced_custom_object("kueue.x-k8s.io", "v1beta1", SPACE, "workloads")["items"]
        mine = [one for one in found if (one.get("status") or {}).get("admission")]
        return [one["metadata"]["ownerReferences"][0]["name"] for one in mine]

    def queued() -> list[str]:
        return [one.name for one in list_all_queued(SPACE, print_to_console=False)]

    assert [one["name"] for one in list_local_queues(SPACE)] == ["team"]
    first, second = ray_cluster("first"), ray_cluster("second")
    first.apply(timeout=1)
    until("the first is admitted", lambda: not suspended("first") and admitted() == ["first"])
    second.apply(timeout=1)
    until("the second waits", lambda: suspended("second") and queued() == ["second"])
    first.down()
    until("the second is admitted", lambda: not suspended("second") and admitted() == ["second"])
    second.down()
    print("two RayClusters of a LocalQueue were admitted, the second when the first was deleted")


if __name__ == "__main__":
    main()
