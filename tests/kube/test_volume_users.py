"""Pods are counted by the volumes that they use: a claim for one pod, and the places of a driver on a node."""

from __future__ import annotations

from phalanx.client.kind import CSI_NODES, NODES, VOLUME_CLAIMS, VOLUMES
from tests.kube.double import Object, job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_volumes import volume


def claim(name: str, volume: str = "", *, mode: str = "ReadWriteOnce", storage: str = "fast") -> Object:
    spec = {"accessModes": [mode], "storageClassName": storage, **({"volumeName": volume} if volume else {})}
    meta = {"name": name, "namespace": "default"}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Bound" if volume else "Pending"}}


def using(obj: Object, *claims: str) -> Object:
    """The Job or pod, with these claims."""
    spec = obj["spec"].get("template", obj)["spec"]
    spec["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return obj


def test_a_claim_for_one_pod_is_used_by_one_pod() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.api.put(VOLUMES, volume("v", "data"))
        stage.api.put(VOLUME_CLAIMS, claim("data", "v", mode="ReadWriteOncePod"))
        stage.put(using(pod("theirs", scheduler="default-scheduler", node="n1"), "data"), using(job("j", 1), "data"))
        async with stage.scheduler():
            await settle(stage)
            assert "ReadWriteOncePod, and the pod default/theirs already uses it" in stage.reason("j")
            stage.finish("theirs")
            await stage.until(lambda: "j-1" in stage.api.bound())

    play(scene())


def test_a_driver_has_so_many_places_on_a_node() -> None:
    """NodeVolumeLimits: foreign pods count, and nodes without a CSINode limit are unlimited."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)])
        driver = {"name": "disks.example", "nodeID": "n1", "allocatable": {"count": 2}}
        stage.api.put(CSI_NODES, {"metadata": {"name": "n1"}, "spec": {"drivers": [driver]}})
        for name in ("a", "b", "c"):
            stage.api.put(VOLUMES, volume(f"v-{name}", name, driver="disks.example"))
            stage.api.put(VOLUME_CLAIMS, claim(name, f"v-{name}"))
        stage.put(using(pod("theirs", scheduler="default-scheduler", node="n1"), "a"))
        stage.put(using(job("j", 1), "b"), using(job("k", 1), "c"))
        async with stage.scheduler():
            await stage.until(lambda: "j-1" in stage.api.bound())
            await settle(stage)
            assert "attachable-volumes-csi-disks.example" in stage.reason("k")
            stage.api.put(NODES, node("n2", 1))
            await stage.until(lambda: stage.api.bound().get("k-2") == "n2")

    play(scene())
