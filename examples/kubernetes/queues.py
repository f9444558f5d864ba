"""A LocalQueue of Kueue's for a client that puts jobs into it, as an administrator makes one; and how these ended.

Runs by the Python of an example's own environment, which has the client of Kubernetes."""

from typing import Any

from kubernetes import client, config

SPACE, QUEUE = "default", "team"
KUEUE = ("kueue.x-k8s.io", "v1beta2")


def make_queue(quotas: dict[str, int | str]) -> None:
    """`quotas`: resource -> how much of it all jobs of the queue have."""
    config.load_kube_config()
    objects = client.CustomObjectsApi()

    def body(kind: str, name: str, **spec: Any) -> dict[str, Any]:
        return {"apiVersion": "/".join(KUEUE), "kind": kind, "metadata": {"name": name}, "spec": spec}

    amounts = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
    group = {"coveredResources": list(quotas), "flavors": [{"name": "any", "resources": amounts}]}
    research = body("ClusterQueue", "research", namespaceSelector={}, resourceGroups=[group])
    objects.create_cluster_custom_object(*KUEUE, "resourceflavors", body("ResourceFlavor", "any"))
    objects.create_cluster_custom_object(*KUEUE, "clusterqueues", research)
    team = body("LocalQueue", QUEUE, clusterQueue="research")
    objects.create_namespaced_custom_object(*KUEUE, SPACE, "localqueues", team)


def endings() -> list[tuple[str, str]]:
    """The kind of each job that is over, and why it is, as its Workload says."""
    found = client.CustomObjectsApi().list_namespaced_custom_object(*KUEUE, SPACE, "workloads")["items"]
    return sorted(
        (one["metadata"]["ownerReferences"][0]["kind"], condition["reason"])
        for one in found
        for condition in one["status"]["conditions"]
        if condition["type"] == "Finished"
    )
