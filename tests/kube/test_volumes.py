"""Point 7 of the protocol: what fit does not understand fails closed. A pod with volumes is bound where they can be
reached, when they are there, and never to hang."""

from __future__ import annotations

from typing import Any

from phalanx.client.kind import PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.write.pod_effects import SELECTED_NODE
from phalanx.model.reason import ReasonCode
from tests.kube.double import Object, job, node, pod, pod_spec
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle


def in_zone(name: str, zone: str, cpu: int = 4) -> Object:
    obj = node(name, cpu)
    obj["metadata"]["labels"] = {"topology.kubernetes.io/zone": zone}
    return obj


def claim(name: str, volume: str = "", *, mode: str = "ReadWriteOnce", storage: str = "fast") -> Object:
    spec = {"accessModes": [mode], "storageClassName": storage, **({"volumeName": volume} if volume else {})}
    meta = {"name": name, "namespace": "default"}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Bound" if volume else "Pending"}}


def volume(name: str, of: str, *, zone: str = "", driver: str = "") -> Object:
    spec: Object = {"claimRef": {"namespace": "default", "name": of}, "accessModes": ["ReadWriteOnce"]}
    if zone:
        rule = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    if driver:
        spec["csi"] = {"driver": driver}
    return {"metadata": {"name": name}, "spec": spec}


def storage_class(mode: str = "WaitForFirstConsumer", provisioner: str = "disks.example", **more: Any) -> Object:
    return {"metadata": {"name": "fast"}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def using(obj: Object, *claims: str) -> Object:
    """The Job or pod, with these claims."""
    spec = obj["spec"].get("template", obj)["spec"]
    spec["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return obj


def bind_volume(stage: Stage, name: str, **said: str) -> None:
    """As a provisioner does."""
    stage.api.put(VOLUMES, volume(f"v-{name}", name, **said))
    known = stage.api.objects[VOLUME_CLAIMS][f"default/{name}"]
    bound = {**known, "spec": {**known["spec"], "volumeName": f"v-{name}"}, "status": {"phase": "Bound"}}
    stage.api.put(VOLUME_CLAIMS, bound)


def test_a_job_runs_where_its_volume_is() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[in_zone("n1", "a"), in_zone("n2", "b", 2)])
        stage.api.put(VOLUMES, volume("v", "data", zone="b"))
        stage.api.put(VOLUME_CLAIMS, claim("data", "v"))
        stage.put(using(job("j", 2), "data"), using(job("more", 1), "data"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await settle(stage)
            assert set(stage.api.bound().values()) == {"n2"}
            assert stage.reason("more").startswith("NoRoom"), "though n1 is empty"

    play(scene())


def test_a_claim_that_is_not_there_or_not_bound_is_waited_for() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.api.put(STORAGE_CLASSES, storage_class("Immediate"))
        stage.put(using(job("j", 1), "data"))
        async with stage.scheduler():
            await settle(stage)
            assert stage.reason("j") == "WaitingForVolumes: the claim data does not exist"
            stage.api.put(VOLUME_CLAIMS, claim("data"))
            await settle(stage)
            assert stage.reason("j") == "WaitingForVolumes: the claim data is not bound yet"
            assert stage.api.writes == []
            bind_volume(stage, "data")
            await stage.until(lambda: len(stage.api.bound()) == 1)

    play(scene())


def test_a_claim_that_waits_for_its_pod_is_told_the_node_and_seen_bound_before_the_pod_is() -> None:
    """WaitForFirstConsumer: a gang of three, a claim each; none is bound before all volumes are made."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2), node("n2", 2)])
        stage.api.put(STORAGE_CLASSES, storage_class())
        names = ["d0", "d1", "d2"]
        for name in names:
            stage.api.put(VOLUME_CLAIMS, claim(name))
            stage.put(using(pod(f"p-{name}", job="t", min_available="3"), name))

        def selected() -> list[str]:
            words = (stage.api.objects[VOLUME_CLAIMS][f"default/{name}"]["metadata"] for name in names)
            return [meta.get("annotations", {}).get(SELECTED_NODE, "") for meta in words]

        async with stage.scheduler():
            await stage.until(lambda: all(selected()))
            assert sorted(set(selected())) == ["n1", "n2"]
            bind_volume(stage, "d0")
            bind_volume(stage, "d1")
            await settle(stage)
            assert stage.api.bound() == {}
            bind_volume(stage, "d2")
            await stage.until(lambda: len(stage.api.bound()) == 3)
            assert [stage.api.bound()[f"p-{name}"] for name in names] == selected()

    play(scene())


def test_its_class_says_where_it_can_be_made() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[in_zone("n1", "a"), in_zone("n2", "b")])
        rule = {"key": "topology.kubernetes.io/zone", "values": ["b"]}
        stage.api.put(STORAGE_CLASSES, storage_class(allowedTopologies=[{"matchLabelExpressions": [rule]}]))
        template = {"spec": {"storageClassName": "fast"}}
        body = job("j", 1)
        body["spec"]["template"]["spec"]["volumes"] = [{"name": "s", "ephemeral": {"volumeClaimTemplate": template}}]
        stage.put(body)
        async with stage.scheduler():
            await stage.until(lambda: bool(stage.api.pods()))
            await settle(stage)
            assert stage.api.bound() == {}, "the claim of its pod is not there yet"
            stage.api.put(VOLUME_CLAIMS, claim("j-1-s"))
            await settle(stage)
            bind_volume(stage, "j-1-s", zone="b")
            await stage.until(lambda: stage.api.bound() == {"j-1": "n2"})

    play(scene())


def test_who_chooses_among_volumes_is_another_scheduler() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.api.put(STORAGE_CLASSES, storage_class(provisioner="kubernetes.io/no-provisioner"))
        stage.api.put(VOLUME_CLAIMS, claim("data"))
        stage.put(using(job("ours", 1), "data"), using(job("pinned", 1, scheduler="default-scheduler"), "data"))
        async with stage.scheduler():
            await stage.until(lambda: bool(stage.api.pods("pinned")))
            await settle(stage)
            assert stage.reason("ours").startswith("Unsupported: the claim data is not bound, and Phalanx does not")
            assert SELECTED_NODE not in str(stage.api.objects[VOLUME_CLAIMS])

    play(scene())


def test_where_volumes_are_not_shown_to_us_nothing_with_claims_starts() -> None:
    ask = AdmissionDefaults().requirements("default", {**pod_spec(), **using({"spec": {}}, "data")["spec"]})
    assert ask.obstacle is not None
    assert ask.obstacle.code is ReasonCode.UNSUPPORTED
    assert "VolumeBindingUnsupported" in ask.obstacle.text
    assert AdmissionDefaults().requirements("default", pod_spec()).obstacle is None


def test_killed_between_the_claims_and_the_pods_it_goes_on() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.api.put(STORAGE_CLASSES, storage_class())
        stage.api.put(VOLUME_CLAIMS, claim("data"))
        stage.put(using(job("j", 1), "data"))
        stage.fault = lambda write: "kill after" if "persistentvolumeclaims" in write else None
        async with stage.scheduler():
            for _ in range(50):
                await stage.turn()
                if stage.killed:
                    break
            assert stage.killed
        stage.fault = lambda write: None
        bind_volume(stage, "data")
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 1)
            assert len(stage.api.objects[PODS]) == 1

    play(scene())
