"""The record of who owns which fields: updates, the number of updaters, versions and resets."""

from __future__ import annotations

from dataclasses import replace

from tests.embedded.apimachinery.patch.test_apply import WIDGET, World, resource

POD = resource("", "Pod", "io.k8s.api.core.v1.Pod")

JOB = resource("batch", "Job", "io.k8s.api.batch.v1.Job")


def test_an_update_takes_what_it_changes_and_then_conflicts_by_its_version() -> None:
    world = World()
    world.apply("one", "{data: {k: one, o: one}}")
    world.patch("three", "{data: {k: three}}")
    assert world.owners()["three Update"] == {"f:data": {"f:k": {}}}
    message = world.refusal("one", "{data: {k: one}}")["message"]
    assert message == 'Apply failed with 1 conflict: conflict with "three" using v1: .data.k'


def test_what_an_update_removes_nobody_has() -> None:
    world = World()
    world.apply("one", "{data: {k: one, o: one}}")
    world.patch("two", "{data: {k: null}}")
    assert world.owners() == {"one Apply": {"f:data": {"f:o": {}}}}


def test_an_update_that_changes_nothing_leaves_the_record_alone() -> None:
    world = World()
    world.apply("one", "{data: {k: one}}")
    before = world.obj
    world.patch("two", "{data: {k: one}}")
    assert world.obj == before


def test_an_untracked_object_is_owned_by_what_was_before() -> None:
    world = World()
    world.obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "u"}, "data": {"k": "old"}}
    message = world.refusal("one", "{data: {k: new}}")["message"]
    assert message == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.k'
    world.apply("one", "{data: {k: old}}")
    assert world.owners() == {
        "before-first-apply Update": {"f:data": {".": {}, "f:k": {}}},
        "one Apply": {"f:data": {"f:k": {}}},
    }


def test_an_untracked_object_stays_untracked_by_updates() -> None:
    world = World()
    world.obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": "old"}}
    world.patch("two", "{data: {k: new}}")
    assert world.owners() == {}


def test_what_a_creator_has_is_what_the_real_server_says_of_kubectl_run() -> None:
    world = World(POD)
    world.create(
        "kubectl-run",
        """
        metadata: {name: nginx, namespace: default, uid: u, labels: {run: nginx}}
        spec:
          containers: [{name: nginx, image: nginx, imagePullPolicy: Always, resources: {}}]
          dnsPolicy: ClusterFirst
          securityContext: {}
        status: {phase: Pending}
        """,
    )
    assert world.owners() == {
        "kubectl-run Update": {
            "f:metadata": {"f:labels": {".": {}, "f:run": {}}},
            "f:spec": {
                "f:containers": {
                    'k:{"name":"nginx"}': {
                        ".": {},
                        "f:image": {},
                        "f:imagePullPolicy": {},
                        "f:name": {},
                        "f:resources": {},
                    }
                },
                "f:dnsPolicy": {},
                "f:securityContext": {},
            },
        }
    }


def test_status_is_owned_through_its_own_endpoint_only() -> None:
    world = World(WIDGET)
    world.apply("one", "{spec: {tags: [a]}, status: {phase: New}}")
    assert world.owners() == {"one Apply": {"f:spec": {"f:tags": {'v:"a"': {}}}}}
    world.apply("one", "{status: {phase: Ready}}", subresource="status")
    assert world.owners()["one Apply status"] == {"f:status": {"f:phase": {}}}


def test_at_most_ten_updaters_are_kept() -> None:
    world = World()
    world.apply("one", "{data: {k: v}}")
    for number in range(12):
        world.patch(f"manager-{number:02}", f"{{data: {{k{number}: v}}}}")
    updaters = [name for name in world.owners() if name.endswith("Update")]
    assert len(updaters) == 10
    assert world.owners()["ancient-changes Update"] == {"f:data": {"f:k0": {}, "f:k1": {}, "f:k2": {}}}


def test_a_controller_that_sets_again_what_it_has_only_gets_a_new_time() -> None:
    world = World(JOB)
    world.create("kubectl-create", "{spec: {suspend: true}, status: {}}")
    for active in (1, 2):
        world.patch("controller", f"{{status: {{active: {active}}}}}", "status")
    assert world.owners()["controller Update status"] == {"f:status": {"f:active": {}}}
    assert world.obj is not None
    times = {entry["manager"]: entry["time"] for entry in world.obj["metadata"]["managedFields"]}
    assert times == {"kubectl-create": "2026-01-01T00:00:01Z", "controller": "2026-01-01T00:00:03Z"}


def test_a_client_resets_the_record_with_an_empty_entry() -> None:
    world = World()
    world.apply("one", "{data: {k: v}}")
    world.patch("two", "{metadata: {managedFields: [{}]}}")
    assert world.owners() == {}


def test_versions_are_part_of_an_updater_but_not_of_an_applier() -> None:
    world = World(WIDGET)
    world.apply("one", "{spec: {plain: [a]}}")
    world.patch("two", "{spec: {plain: [b]}}")
    world.kind = replace(WIDGET, version="v2")
    assert world.obj is not None
    world.obj = world.obj | {"apiVersion": "example.com/v2"}
    world.patch("two", "{spec: {tags: [t]}}")
    world.apply("one", "{spec: {whole: {a: b}}}")
    versions = sorted((e["manager"], e["apiVersion"]) for e in world.obj["metadata"]["managedFields"])
    assert versions == [("one", "example.com/v2"), ("two", "example.com/v1"), ("two", "example.com/v2")]
