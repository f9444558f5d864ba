"""Discovery of the served kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Resource, Subresource
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.registry.discovery import (
    aggregated,
    api_group,
    api_group_list,
    api_resource_list,
    storage_version_hash,
    version_order,
)

ALL = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def rows(group: str, version: str = "v1") -> dict[str, Any]:
    listed = api_resource_list(RESOURCES, group, version)
    assert listed is not None
    return {row["name"]: row for row in listed["resources"]}


def test_a_group_version_lists_its_resources_with_their_subresources() -> None:
    jobs = rows("batch")
    assert [name for name in jobs if name.startswith("jobs")] == ["jobs", "jobs/status"]
    assert jobs["jobs"] == {
        "name": "jobs",
        "singularName": "job",
        "namespaced": True,
        "kind": "Job",
        "verbs": ALL,
        "categories": ["all"],
        "storageVersionHash": storage_version_hash("batch", "v1", "Job"),
    }


def test_a_subresource_names_its_version_only_if_it_is_not_its_parents() -> None:
    pods = rows("")
    assert pods["pods/status"] == {
        "name": "pods/status",
        "singularName": "",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["get", "patch", "update"],
    }
    eviction = pods["pods/eviction"]
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")
    assert "group" not in pods["pods/binding"]


def test_what_is_not_stored_has_no_storage_version() -> None:
    assert "storageVersionHash" not in rows("")["bindings"]


def test_the_core_group_is_not_in_the_list_of_groups() -> None:
    groups = {group["name"]: group for group in api_group_list(RESOURCES)["groups"]}
    assert "" not in groups
    assert groups["batch"] == {
        "name": "batch",
        "versions": [{"groupVersion": "batch/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "batch/v1", "version": "v1"},
    }


def test_an_unknown_group_or_version_is_nothing() -> None:
    assert api_group(RESOURCES, "no.such.group") is None
    assert api_resource_list(RESOURCES, "batch", "v9") is None


def widget(version: str) -> Resource:
    scale = Subresource(name="scale", kind="Scale", group="autoscaling", version="v1")
    return Resource(
        group="example.com",
        version=version,
        kind="Widget",
        plural="widgets",
        singular="widget",
        namespaced=False,
        short_names=("wg",),
        subresources=(scale,),
        custom=True,
    )


def test_the_best_version_of_a_group_is_preferred() -> None:
    group = api_group([widget("v1beta1"), widget("v1")], "example.com")
    assert group is not None
    assert [one["version"] for one in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"


def test_a_resource_that_is_named_without_its_group_is_not_looked_for_where_it_has_subresources_only() -> None:
    """Kueue's visibility API has `clusterqueues/pendingworkloads`, and no ClusterQueues."""
    shadow = replace(widget("v1"), group="a.example.com", verbs=())
    served = [shadow, widget("v1"), *RESOURCES]
    assert api_group_list(served)["groups"][-1]["name"] == "a.example.com"
    assert aggregated(served, core=False)["items"][-1]["metadata"]["name"] == "a.example.com"


def test_versions_are_ordered_as_kubernetes_orders_them() -> None:
    best_first = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
    shuffled = sorted(best_first)
    assert shuffled != best_first
    assert sorted(shuffled, key=version_order) == best_first


def test_aggregated_discovery_tells_everything_at_once() -> None:
    document = aggregated([*RESOURCES, widget("v1")], core=False)
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    [group] = [item for item in document["items"] if item["metadata"]["name"] == "example.com"]
    assert group["versions"] == [
        {
            "version": "v1",
            "freshness": "Current",
            "resources": [
                {
                    "resource": "widgets",
                    "responseKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
                    "scope": "Cluster",
                    "singularResource": "widget",
                    "verbs": ALL,
                    "shortNames": ["wg"],
                    "subresources": [
                        {
                            "subresource": "scale",
                            "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                            "verbs": ["get", "patch", "update"],
                        }
                    ],
                }
            ],
        }
    ]
