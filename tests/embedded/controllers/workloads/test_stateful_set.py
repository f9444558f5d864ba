"""StatefulSets: what is done next, and on the real embedded API server."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.client.kind import PODS, STATEFUL_SETS, VOLUME_CLAIMS
from phalanx.embedded.controllers.workloads.stateful_set import StatefulSetStep, pod_of, status_of, step
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario

LABELS = {"app": "a"}


def fields(replicas: int = 3, image: str = "one", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "replicas": replicas,
        "selector": {"matchLabels": LABELS},
        "serviceName": "db",
        "template": template,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        **spec,
    }


def stateful_set(replicas: int = 3, image: str = "one", **spec: Any) -> Object:
    meta = {"name": "s", "namespace": "n", "uid": "u", "generation": 1}
    return {"metadata": meta, "spec": fields(replicas, image, **spec)}


def pod(
    ordinal: int, *, ready: bool = True, phase: str = "Running", deleting: bool = False, image: str = "one"
) -> Object:
    found = pod_of(stateful_set(image=image), ordinal)
    if deleting:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found["status"] = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
    return found


def named(pods: tuple[Object, ...]) -> list[str]:
    return [one["metadata"]["name"] for one in pods]


@pytest.mark.parametrize(
    ("pods", "created"),
    [
        ([], (0,)),
        ([pod(0, ready=False)], ()),
        ([pod(0)], (1,)),
        ([pod(0), pod(1), pod(2)], ()),
        ([pod(0), pod(2)], (1,)),
        ([pod(0, deleting=True)], ()),
    ],
)
def test_in_order_one_at_a_time(pods: list[Object], created: tuple[int, ...]) -> None:
    assert step(stateful_set(), pods) == StatefulSetStep(create=created)


def test_in_parallel_all_that_are_missing_and_too_many() -> None:
    found = step(stateful_set(podManagementPolicy="Parallel"), [pod(1, ready=False), pod(4), pod(5, deleting=True)])
    assert (found.create, named(found.delete)) == ((0, 2), ["s-4"])


def test_the_highest_goes_first_and_alone() -> None:
    assert named(step(stateful_set(1), [pod(0), pod(1), pod(2)]).delete) == ["s-2"]
    assert step(stateful_set(1), [pod(0), pod(1), pod(2, deleting=True)]) == StatefulSetStep()
    assert step(stateful_set(1), [pod(0, ready=False), pod(1)]) == StatefulSetStep()


def test_what_ended_makes_room_for_its_name() -> None:
    assert named(step(stateful_set(), [pod(0), pod(1, phase="Failed")]).delete) == ["s-1"]


def test_ordinals_may_start_elsewhere() -> None:
    assert step(stateful_set(2, ordinals={"start": 5}), [pod(5)]).create == (6,)


def test_a_new_template_comes_from_the_highest_down_to_the_partition() -> None:
    new = stateful_set(image="two")
    assert named(step(new, [pod(0), pod(1), pod(2)]).delete) == ["s-2"]
    assert named(step(new, [pod(0), pod(1), pod(2, image="two")]).delete) == ["s-1"]
    parallel = stateful_set(image="two", podManagementPolicy="Parallel")
    assert step(parallel, [pod(0), pod(1), pod(2, image="two", ready=False)]) == StatefulSetStep()
    held = stateful_set(image="two", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    assert step(held, [pod(0), pod(1), pod(2, image="two")]) == StatefulSetStep()
    assert (
        step(stateful_set(image="two", updateStrategy={"type": "OnDelete"}), [pod(0), pod(1), pod(2)])
        == StatefulSetStep()
    )


def test_a_pod_has_its_name_host_and_claims() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    made = pod_of(stateful_set(volumeClaimTemplates=[claim]), 2)
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("s-2", "db")
    assert made["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-s-2"}}]
    assert made["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "2"


def test_the_status_says_how_far_an_update_is() -> None:
    old = status_of(stateful_set(2), [pod(0), pod(1)])
    new = {**stateful_set(2, image="two"), "status": old}
    amid = status_of(new, [pod(0), pod(1, image="two", ready=False)])
    assert (amid["readyReplicas"], amid["updatedReplicas"], amid["currentReplicas"]) == (1, 1, 1)
    assert amid["currentRevision"] == old["currentRevision"] != amid["updateRevision"]
    done = status_of(new, [pod(0, image="two"), pod(1, image="two")])
    assert done["currentRevision"] == done["updateRevision"] == amid["updateRevision"]


@pytest.mark.slow
def test_pods_come_in_order_are_replaced_and_go(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        storage = {"requests": {"storage": "1Gi"}}
        claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": storage}}
        await here.make(STATEFUL_SETS, "s", spec=fields(2, volumeClaimTemplates=[claim]))

        async def settled(image: str) -> bool:
            found = await here.list(PODS)  # one look: a pod that comes after it is ready with the next
            for one in found:
                if not one["status"].get("conditions"):
                    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                    name = one["metadata"]["name"]
                    await here.connection.patch(PODS, name, {"status": status}, here.namespace, subresource="status")
            images = [one["spec"]["containers"][0]["image"] for one in found]
            return [one["metadata"]["name"] for one in found] == ["s-0", "s-1"] and images == [image, image]

        first = await here.until(lambda: here.list(PODS), lambda found: len(found) == 1)
        assert named(tuple(first)) == ["s-0"]
        await here.until(lambda: settled("one"), bool)
        assert named(tuple(await here.list(VOLUME_CLAIMS))) == ["data-s-0", "data-s-1"]
        await here.set(STATEFUL_SETS, "s", spec={"template": fields(2, "two")["template"]})
        await here.until(lambda: settled("two"), bool)
        await here.until(
            lambda: here.get(STATEFUL_SETS, "s"),
            lambda found: found["status"].get("updatedReplicas") == found["status"].get("readyReplicas") == 2,
        )
        await here.connection.delete(STATEFUL_SETS, "s", here.namespace)
        await here.until(lambda: here.list(PODS), lambda found: not found)

    scenario(api_server, play)
